"""The plots of the Fit page: each makes one figure and redraws it from a FitResult, or None, and a FitState."""

import numpy as np
import pandas as pd
from bokeh.models import Arrow, BoxAnnotation, ColumnDataSource, NormalHead, Range1d

from explorer.interface.plotting import add_curve, add_mark, curve_figure
from explorer.pages.fit.state import line
from explorer.vocabulary import style

MEDIAN, DRAW, PLAIN, MAJORITY = "median of the draws", "one draw", "without privacy", "always the larger class"
UNTILTED, TILT, NORM, LOSS, CLIPPED = "same λ, no b", "−b", "gradient norm", "loss", "clipped loss"
HOLDS, VOID = style("Gaussian lower bound").color, style("Hockey-stick").color

THETA = ["theta_1", "theta_2", "intercept"]


class AccuracyPlot:
    """The test accuracy of every draw, the band that most of them lie in, and what it is compared with."""

    def __init__(self):
        self.draws = ColumnDataSource({"draw": [], "accuracy": []}, name="fit_draws")
        names = ("x", "low", "high", MEDIAN, PLAIN, MAJORITY)
        self.levels = ColumnDataSource({name: [] for name in names}, name="fit_levels")
        self.plot = curve_figure(
            name="fit",
            title="How many test records each draw gets right (higher is better)",
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
        """Draw the accuracies of a FitResult."""
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
    """Records in the plane of two features, and the lines that tell them apart."""

    def __init__(self):
        self.points = {k: ColumnDataSource({"x1": [], "x2": []}) for k in (0, 1)}
        self.draws = ColumnDataSource({"x1": [], "x2": []}, name="fit_lines")
        self.lines = {name: ColumnDataSource({"x1": [], name: []}) for name in (PLAIN, UNTILTED)}
        self.plot = _square_figure(
            name="fit_plane", title="b pushes each line's normal along −b", x_label="x₁", y_label="x₂"
        )
        for k, marker, color in ((0, "circle", style("RDP").color), (1, "triangle", style("Half-normal").color)):
            self.plot.scatter(
                "x1",
                "x2",
                source=self.points[k],
                size=7,
                marker=marker,
                color=color,
                line_width=0,
                alpha=0.7,
                legend_label=f"class {k}",
            )
        self.plot.multi_line("x1", "x2", source=self.draws, color=style(MEDIAN).color, alpha=0.5, legend_label=DRAW)
        for name, source in self.lines.items():
            add_curve(self.plot, source, "x1", name, [])
        self.arrow = _add_arrow(self.plot, f"{TILT} of draw 1")
        _legend_below(self.plot)

    def show(self, result, state):
        """Draw the records and lines of a FitResult."""
        plane = None if result is None else result.plane
        self.plot.legend.visible = plane is not None
        for k, source in self.points.items():
            source.data = _columns(None if plane is None else plane.points[plane.points["class"] == k], "x1", "x2")
        ends = [line(theta) for theta in _thetas(result).to_numpy()]
        self.draws.data = {"x1": [list(end[:, 0]) for end in ends], "x2": [list(end[:, 1]) for end in ends]}
        for name, theta in ((PLAIN, "non_private"), (UNTILTED, "untilted")):
            end = np.empty((0, 2)) if plane is None else line(getattr(plane, theta))
            self.lines[name].data = {"x1": end[:, 0], name: end[:, 1]}
        _point(self.arrow, None if plane is None or plane.tilt is None else -plane.tilt[:2], length=0.6)
        if plane is not None:
            self.plot.xaxis.axis_label, self.plot.yaxis.axis_label = plane.names


class TiltPlot:
    """The coefficients of the draws, and how b moves the minimum that they scatter around."""

    def __init__(self):
        self.draws = ColumnDataSource({"theta_1": [], "theta_2": []}, name="fit_thetas")
        self.minimum = ColumnDataSource({"theta_1": [], "theta_2": []}, name="fit_untilted")
        self.levels = {name: ColumnDataSource({"xs": [], "ys": []}) for name in ("without b", "with b")}
        self.plot = _square_figure(
            name="fit_tilt",
            title="b moves the minimum",
            x_label="first coefficient",
            y_label="second coefficient",
        )
        for name, like, dash in (("without b", UNTILTED, "8 3"), ("with b", TILT, "solid")):
            drawn = {"color": style(like).color, "line_dash": dash, "legend_label": f"level lines {name}"}
            self.plot.multi_line("xs", "ys", source=self.levels[name], **drawn)
        for name, source, marker, size in (
            (MEDIAN, self.draws, "circle", 9),
            (UNTILTED, self.minimum, "star", 20),
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
                legend_label=DRAW if marker == "circle" else f"minimum, {UNTILTED}",
            )
        self.arrow = _add_arrow(self.plot, "−b/λ of draw 1")
        _legend_below(self.plot)

    def show(self, result, state):
        """Draw the coefficients of a FitResult."""
        plane, thetas = None if result is None else result.plane, _thetas(result)
        self.plot.legend.visible = plane is not None
        self.draws.data = _columns(thetas, "theta_1", "theta_2")
        known = plane is not None and plane.tilt is not None
        start = np.empty((0, 2)) if plane is None else plane.untilted[None, :2]
        self.minimum.data = {"theta_1": start[:, 0], "theta_2": start[:, 1]}
        for name, source in self.levels.items():
            levels = None if plane is None else plane.levels[plane.levels["objective"] == name].groupby("level")
            curves = [] if levels is None else [curve for _, curve in levels]
            source.data = {"xs": [c["theta_1"].tolist() for c in curves], "ys": [c["theta_2"].tolist() for c in curves]}
        push = -plane.tilt[:2] / result.plan.mechanism.l2_reg if known else None
        _point(self.arrow, push, start=start[0] if known else (0.0, 0.0))
        corners = np.vstack([thetas[THETA[:2]].to_numpy(float), start, start + push if known else start])
        if len(corners):
            middle = (corners.max(axis=0) + corners.min(axis=0)) / 2
            half = 0.6 * max(np.ptp(corners, axis=0).max(), 1e-9)
            for axis, centre in zip((self.plot.x_range, self.plot.y_range), middle, strict=True):
                axis.update(start=centre - half, end=centre + half)


class CertificatePlot:
    """A gauge: the verified gradient norm of every draw, left of tau or not."""

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
        """Draw where each draw stopped."""
        tau = self.good.right = self.bad.left = self.mark.location = state.gradient_tol
        draws = None if result is None else result.draws
        if draws is None or draws.empty:
            self.draws.data = {"gradient_norm": [], "height": []}
            self.plot.title.text = f"Certificate: a draw is released left of τ = {tau:g}, void right of it"
            return
        self.draws.data = {
            "gradient_norm": draws["gradient_norm"].to_numpy(),
            "height": (draws.index.to_numpy() - 0.5) / state.draws,
        }
        void = len(draws) - len(result.released)
        held = f"holds: {len(draws)} of {len(draws)} draws stopped left of τ = {tau:g}"
        self.plot.title.text = (
            f"Certificate VOID: {void} of {len(draws)} draws stopped right of τ = {tau:g}"
            if void
            else f"Certificate {held}"
        )


class DescentPlot:
    """The gradient norm of the first draw as it falls."""

    def __init__(self):
        self.source = ColumnDataSource({"evaluations": [], NORM: []}, name="fit_trace")
        self.plot = curve_figure(
            name="fit_descent",
            title="The first draw descends; below the dotted line τ it may be released",
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
        """Draw the descent so far."""
        self.threshold.location = state.gradient_tol
        trace = np.empty((0, 2)) if result is None else result.trace.to_numpy(float)
        self.source.data = {"evaluations": trace[:, 0], NORM: trace[:, 1]}
        self.plot.x_range.end = max(1.05 * trace[-1, 0], 1) if len(trace) else 10_000
        top = 2 * trace[0, 1] if len(trace) else 1e3
        self.plot.y_range.update(start=state.gradient_tol / 10, end=max(top, 10 * state.gradient_tol))


class LossPlot:
    """The loss of one record, and what clipping its gradient makes of it."""

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
        self.source.data = {name: column.to_numpy() for name, column in state.loss().items()}
        kink = state.kink()
        self.kink.location = kink if np.isfinite(kink) else -100
        self.plot.title.text = (
            f"Clipped at C = {state.clip_norm:g}: left of the dotted line the slope stays −{state.steepest:.3g}"
            if np.isfinite(kink)
            else "Nothing is clipped: no slope is steeper than 1, no gradient longer than √2"
        )


def _square_figure(**options):
    """A figure whose two axes have one scale: what is a right angle looks like one."""
    plot = curve_figure(**options, x_range=Range1d(-1.05, 1.05), y_range=Range1d(-1.05, 1.05))
    plot.update(sizing_mode="fixed", min_width=None)
    set_side(plot, False)
    return plot


def set_side(plot, projector):
    """The side of a square figure's frame, and round it what axes, title and legend need in the type of the mode."""
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
    """An arrow, named in the legend."""
    color = style(TILT).color
    head = NormalHead(size=14, fill_color=color, line_color=color)
    arrow = Arrow(end=head, line_color=color, line_width=4, visible=False)
    plot.add_layout(arrow)
    plot.line([np.nan], [np.nan], color=color, legend_label=label)  # an arrow has no place in a legend
    return arrow


def _legend_below(plot):
    plot.legend.ncols = 2
    plot.add_layout(plot.legend[0], "below")


def _point(arrow, vector, *, start=(0.0, 0.0), length=None):
    """Draw the arrow from `start` along `vector`, of its length or the one given; hide it for None."""
    norm = 0.0 if vector is None else float(np.linalg.norm(vector))
    arrow.visible = norm > 0
    if norm > 0:
        end = np.asarray(start) + (vector if length is None else vector * length / norm)
        arrow.update(x_start=float(start[0]), y_start=float(start[1]), x_end=float(end[0]), y_end=float(end[1]))
