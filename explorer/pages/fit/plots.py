"""The plots of the Fit page: each class makes one figure and redraws it from a FitState and a FitResult or None."""

import numpy as np
import pandas as pd
from bokeh.models import Arrow, BoxAnnotation, ColumnDataSource, NormalHead, Range1d

from explorer.interface.plotting import add_curve, add_mark, curve_figure
from explorer.pages.fit.computation import (
    CLIPPED,
    LOSS,
    WITH_B,
    WITHOUT_B,
    clipping_margin,
    decision_line,
    loss_curves,
    steepest_slope,
)
from explorer.vocabulary import CURVES, labels, style

_LABELS = labels(CURVES)
MEDIAN, DRAW, PLAIN, MAJORITY = (_LABELS[key] for key in ("median_draw", "one_draw", "without_privacy", "larger_class"))
NO_B, MINUS_B, NORM = (_LABELS[key] for key in ("without_b", "minus_b", "gradient_norm"))
HOLDS, VOID = (CURVES[key].style.color for key in ("certificate_holds", "certificate_void"))
CLASSES = (CURVES["class_0"], CURVES["class_1"])

THETA = ["theta_1", "theta_2", "intercept"]


class AccuracyPlot:
    """The test accuracy of every draw, a band of 90 % of them, and the baselines."""

    def __init__(self):
        self.draws = ColumnDataSource({"draw": [], "accuracy": []}, name="fit_draws")
        names = ("x", "low", "high", MEDIAN, PLAIN, MAJORITY)
        self.levels = ColumnDataSource({name: [] for name in names}, name="fit_levels")
        self.plot = curve_figure(
            name="fit",
            title="Test records classified correctly, by draw (higher is better)",
            x_label="draw of the noise",
            y_label="test accuracy",
            x_range=Range1d(0.5, 20.5),
            y_range=Range1d(0, 1.02),
        )
        color = style(MEDIAN).color
        self.plot.varea(
            "x", "low", "high", source=self.levels, color=color, alpha=0.2, legend_label="5–95 % of the draws"
        )
        for name in (MEDIAN, PLAIN, MAJORITY):
            add_curve(self.plot, self.levels, "x", name, [("accuracy", f"@{{{name}}}{{0.0%}}")])
        self.plot.scatter(
            "draw", "accuracy", source=self.draws, size=9, color=style(DRAW).color, line_width=1, legend_label=DRAW
        )
        self.plot.legend.location = "bottom_right"
        self.plot.legend.click_policy = "hide"

    def show(self, result, state):
        """Draw the accuracies of a FitResult, or nothing for None."""
        self.plot.x_range.end = state.draws + 0.5
        self.plot.legend.visible = result is not None
        if result is None:
            for source in (self.draws, self.levels):
                source.data = {name: [] for name in source.data}
            return
        accuracy = result.draws["accuracy"].to_numpy(float)
        self.draws.data = {"draw": result.draws.index.to_numpy(), "accuracy": accuracy}
        low, median, high = result.band
        heights = low, high, median, result.non_private_accuracy, result.majority_accuracy
        ends = {name: np.full(2, height) for name, height in zip(list(self.levels.data)[1:], heights, strict=True)}
        self.levels.data = {"x": np.array([0.5, state.draws + 0.5]), **ends}
        lowest = np.nanmin([*accuracy, *heights])
        self.plot.y_range.start = max(np.floor(10 * lowest - 2) / 10, 0)


class PlanePlot:
    """Records in the plane of two features, and the decision lines between the classes."""

    def __init__(self):
        self.points = {k: ColumnDataSource({"x1": [], "x2": []}) for k in (0, 1)}
        self.draws = ColumnDataSource({"x1": [], "x2": []}, name="fit_lines")
        self.lines = {name: ColumnDataSource({"x1": [], name: []}) for name in (PLAIN, NO_B)}
        self.plot = _square_figure(
            name="fit_plane", title="b moves the normal of each line along −b", x_label="x₁", y_label="x₂"
        )
        for k, marker in enumerate(("circle", "triangle")):
            self.plot.scatter(
                "x1",
                "x2",
                source=self.points[k],
                size=7,
                marker=marker,
                color=CLASSES[k].style.color,
                line_width=0,
                alpha=0.7,
                legend_label=CLASSES[k].label,
            )
        self.plot.multi_line("x1", "x2", source=self.draws, color=style(MEDIAN).color, alpha=0.5, legend_label=DRAW)
        for name, source in self.lines.items():
            add_curve(self.plot, source, "x1", name, [])
        self.arrow = _add_arrow(self.plot, f"{MINUS_B} of draw 1")
        _legend_below(self.plot)

    def show(self, result, state):
        """Draw the records and lines of a FitResult, or nothing for None."""
        plane = None if result is None else result.plane
        self.plot.legend.visible = plane is not None
        for k, source in self.points.items():
            source.data = _columns(None if plane is None else plane.points[plane.points["class"] == k], "x1", "x2")
        ends = [decision_line(theta) for theta in _thetas(result).to_numpy()]
        self.draws.data = {"x1": [list(end[:, 0]) for end in ends], "x2": [list(end[:, 1]) for end in ends]}
        for name, theta in ((PLAIN, "non_private"), (NO_B, "without_b")):
            end = np.empty((0, 2)) if plane is None else decision_line(getattr(plane, theta))
            self.lines[name].data = {"x1": end[:, 0], name: end[:, 1]}
        _point(self.arrow, None if plane is None or plane.b is None else -plane.b[:2], length=0.6)
        if plane is not None:
            self.plot.xaxis.axis_label, self.plot.yaxis.axis_label = plane.names


class CoefficientPlot:
    """The coefficients of the draws, the minimum without b, and contours of the objective with b and without it."""

    def __init__(self):
        self.draws = ColumnDataSource({"theta_1": [], "theta_2": []}, name="fit_thetas")
        self.minimum = ColumnDataSource({"theta_1": [], "theta_2": []}, name="fit_minimum")
        self.contours = {name: ColumnDataSource({"xs": [], "ys": []}) for name in (WITHOUT_B, WITH_B)}
        self.plot = _square_figure(
            name="fit_coefficients",
            title="b moves the minimum",
            x_label="first coefficient",
            y_label="second coefficient",
        )
        for name, like in ((WITHOUT_B, NO_B), (WITH_B, MINUS_B)):
            drawn = {"color": style(like).color, "line_dash": style(like).dash, "legend_label": f"contours {name}"}
            self.plot.multi_line("xs", "ys", source=self.contours[name], **drawn)
        for name, source, marker, size in (
            (MEDIAN, self.draws, "circle", 9),
            (NO_B, self.minimum, "star", 20),
        ):
            self.plot.scatter(
                "theta_1",
                "theta_2",
                source=source,
                size=size,
                marker=marker,
                color=style(name).color,
                line_width=0,
                alpha=0.8,
                legend_label=DRAW if marker == "circle" else f"minimum, {NO_B}",
            )
        self.arrow = _add_arrow(self.plot, "−b/λ of draw 1")
        _legend_below(self.plot)

    def show(self, result, state):
        """Draw the coefficients of a FitResult, or nothing for None."""
        plane, thetas = None if result is None else result.plane, _thetas(result)
        self.plot.legend.visible = plane is not None
        self.draws.data = _columns(thetas, "theta_1", "theta_2")
        known = plane is not None and plane.b is not None
        start = np.empty((0, 2)) if plane is None else plane.without_b[None, :2]
        self.minimum.data = {"theta_1": start[:, 0], "theta_2": start[:, 1]}
        for name, source in self.contours.items():
            levels = None if plane is None else plane.contours[plane.contours["objective"] == name].groupby("level")
            curves = [] if levels is None else [curve for _, curve in levels]
            source.data = {"xs": [c["theta_1"].tolist() for c in curves], "ys": [c["theta_2"].tolist() for c in curves]}
        shift = -plane.b[:2] / result.plan.mechanism.l2_reg if known else None
        _point(self.arrow, shift, start=start[0] if known else (0.0, 0.0))
        corners = np.vstack([thetas[THETA[:2]].to_numpy(float), start, start + shift if known else start])
        if len(corners):
            middle = (corners.max(axis=0) + corners.min(axis=0)) / 2
            half = 0.6 * max(np.ptp(corners, axis=0).max(), 1e-9)
            for axis, centre in zip((self.plot.x_range, self.plot.y_range), middle, strict=True):
                axis.update(start=centre - half, end=centre + half)


class CertificatePlot:
    """The verified gradient norm of every draw on an axis, and tau, which it must not exceed."""

    def __init__(self):
        self.draws = ColumnDataSource({"gradient_norm": [], "height": []}, name="fit_norms")
        self.plot = curve_figure(
            name="fit_certificate",
            title="",
            x_label="gradient norm ‖∇J‖ where the solver stopped",
            y_label="",
            x_axis_type="log",
            x_range=Range1d(1e-18, 1e3),
            y_range=Range1d(0, 1),
        )
        self.plot.yaxis.visible = self.plot.ygrid.visible = False
        self.good = BoxAnnotation(fill_color=HOLDS, fill_alpha=0.25, line_alpha=0)
        self.bad = BoxAnnotation(
            fill_color=VOID,
            fill_alpha=0.15,
            line_alpha=0,
            hatch_pattern="right_diagonal_line",
            hatch_color=VOID,
            hatch_alpha=0.35,
        )
        for box in (self.good, self.bad):
            self.plot.add_layout(box)
        self.mark = add_mark(self.plot, "height")
        self.plot.scatter("gradient_norm", "height", source=self.draws, size=11, color=style(MEDIAN).color)

    def show(self, result, state):
        """Draw the gradient norms of a FitResult, or nothing for None."""
        tau = self.good.right = self.bad.left = self.mark.location = state.gradient_tol
        draws = None if result is None else result.draws
        if draws is None or draws.empty:
            self.draws.data = {"gradient_norm": [], "height": []}
            self.plot.title.text = f"Certificate: a draw is released if its gradient norm is at most τ = {tau:g}"
            return
        self.draws.data = {
            "gradient_norm": draws["gradient_norm"].to_numpy(),
            "height": (draws.index.to_numpy() - 0.5) / state.draws,
        }
        released = len(result.released)
        self.plot.title.text = (
            f"Certificate holds: all {len(draws)} draws stopped at or below τ = {tau:g}"
            if released == len(draws)
            else f"Certificate VOID: {len(draws) - released} of {len(draws)} draws stopped above τ = {tau:g}"
        )


class DescentPlot:
    """The gradient norm of the first draw, by the work of the solver."""

    def __init__(self):
        self.source = ColumnDataSource({"evaluations": [], NORM: []}, name="fit_trace")
        self.plot = curve_figure(
            name="fit_descent",
            title="Convergence of the first draw; at or below τ (dotted) it may be released",
            x_label="gradients of single records",
            y_label=NORM,
            y_axis_type="log",
            x_range=Range1d(0, 1),
            y_range=Range1d(1e-3, 1e3),
        )
        tooltips = [("single-record gradients", "@evaluations{0,0}"), (NORM, f"@{{{NORM}}}{{0.00e}}")]
        add_curve(self.plot, self.source, "evaluations", NORM, tooltips)
        self.threshold = add_mark(self.plot, "width")
        self.plot.legend.visible = False

    def show(self, result, state):
        """Draw the trace of a FitResult, or nothing for None."""
        self.threshold.location = state.gradient_tol
        trace = np.empty((0, 2)) if result is None else result.trace.to_numpy(float)
        self.source.data = {"evaluations": trace[:, 0], NORM: trace[:, 1]}
        self.plot.x_range.end = max(1.05 * trace[-1, 0], 1) if len(trace) else 10_000
        top = 2 * trace[0, 1] if len(trace) else 1e3
        self.plot.y_range.update(start=state.gradient_tol / 10, end=max(top, 10 * state.gradient_tol))


class LossPlot:
    """The loss of one record, and the loss whose gradient is clipped."""

    def __init__(self):
        self.source = ColumnDataSource({"margin": [], LOSS: [], CLIPPED: []}, name="fit_losses")
        self.plot = curve_figure(
            name="fit_loss",
            title="",
            x_label="margin x·θ of a record of class 1 with ‖x‖ = √2 (norm 1, and the constant column)",
            y_label="loss",
            x_range=Range1d(-6, 6),
            y_range=Range1d(0, 6.2),
        )
        for name in (LOSS, CLIPPED):
            add_curve(
                self.plot, self.source, "margin", name, [("margin", "@margin{0.00}"), (name, f"@{{{name}}}{{0.000}}")]
            )
        self.kink = add_mark(self.plot, "height")
        self.plot.legend.location = "top_right"

    def show(self, result, state):
        """Draw the loss and its clipped version for the current C."""
        clip_norm = state.loss_arguments()["clip_norm"]
        self.source.data = {name: column.to_numpy() for name, column in loss_curves(clip_norm=clip_norm).items()}
        margin = clipping_margin(clip_norm)
        self.kink.location = margin if np.isfinite(margin) else -100
        self.plot.title.text = (
            f"Clipped at C = {clip_norm:g}: left of the dotted line the slope stays −{steepest_slope(clip_norm):.3g}"
            if np.isfinite(margin)
            else "No clipping: no slope is steeper than 1, no gradient norm larger than √2"
        )


def _square_figure(**options):
    """A figure whose axes have the same scale, so that right angles look like right angles."""
    plot = curve_figure(**options, x_range=Range1d(-1.05, 1.05), y_range=Range1d(-1.05, 1.05))
    plot.update(sizing_mode="fixed", min_width=None)
    set_side(plot, False)
    return plot


def set_side(plot, projector):
    """Set the side of a square figure's frame, and add what axes, title and legend need at the mode's type size."""
    side, width, height = (480, 180, 320) if projector else (420, 140, 210)
    plot.update(frame_width=side, frame_height=side, width=side + width, height=side + height)


def _thetas(result):
    """theta of every released draw of two features, DataFrame."""
    if result is None or result.plane is None or THETA[0] not in result.draws:
        return pd.DataFrame(columns=THETA, dtype=float)
    return result.draws[THETA].dropna()


def _columns(table, *names):
    return {name: [] if table is None else table[name].to_numpy(float) for name in names}


def _add_arrow(plot, label):
    """An arrow with an entry in the legend."""
    color = style(MINUS_B).color
    head = NormalHead(size=14, fill_color=color, line_color=color)
    arrow = Arrow(end=head, line_color=color, line_width=4, visible=False)
    plot.add_layout(arrow)
    plot.line([np.nan], [np.nan], color=color, legend_label=label)  # an arrow has no legend entry of its own
    return arrow


def _legend_below(plot):
    plot.legend.ncols = 2
    plot.add_layout(plot.legend[0], "below")


def _point(arrow, vector, *, start=(0.0, 0.0), length=None):
    """Draw the arrow from `start` along `vector`, with the given length or the vector's own; hide it for None."""
    norm = 0.0 if vector is None else float(np.linalg.norm(vector))
    arrow.visible = norm > 0
    if norm > 0:
        end = np.asarray(start) + (vector if length is None else vector * length / norm)
        arrow.update(x_start=float(start[0]), y_start=float(start[1]), x_end=float(end[0]), y_end=float(end[1]))
