"""The Spectrum page: three learners with the same privacy guarantee, and the correlation of their noise over steps."""

from functools import partial
from html import escape

import numpy as np
import panel as pn
import panel_material_ui as pmui
from bokeh.models import ColumnDataSource, CustomJSHover, CustomJSTickFormatter, FixedTicker, LinearAxis, Range1d
from bokeh.plotting.contour import contour_data

from explorer.interface.background import LatestOnly
from explorer.interface.controls import alert, labelled_field, log_slider, switch
from explorer.interface.page import PageView, hidden
from explorer.interface.plotting import MARK, add_curve, add_heat_maps, curve_figure, redraw
from explorer.interface.readouts import Card
from explorer.pages.spectrum.computation import (
    ALGORITHM_1,
    DP_FTRL,
    DP_SGD,
    LEARNERS,
    compare_learners,
    landscape,
    minimum,
    window,
)
from explorer.pages.spectrum.state import SpectrumState
from explorer.vocabulary import CURVES, style

INTRODUCTION = r"""
The same privacy can be reached with **fresh noise at each step** (DP-SGD), with noise that **partly cancels** the noise
of earlier steps (DP-FTRL, from a binary tree), or with **one draw b for all steps** (Algorithm 1). Each square shows
how the noise of two steps is correlated: red positive, blue negative, white not at all. Below are one fit of each to
the same synthetic records, and its noise, in units of the largest gradient of one record, for steps that together make
one pass over all records. (Everyone can see the seed here, so these fits are not private.)

$$\text{noise of step } t \text{ in DP-SGD: } Z_t \text{, fresh;} \qquad
\text{in DP-FTRL: } N_t - N_{t-1} \text{, from the tree;}$$

$$\text{in Algorithm 1: } b \text{, the same for every } t$$
"""

LEVELS = [0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0]  # of the mean loss above its minimum, nats
LINEAR_RANGE = 0.1  # of the smallest variance: covariances below have linear colours, those above logarithmic ones
LEAST = "minimum without privacy"
MARKERS = {DP_SGD: "circle", DP_FTRL: "triangle", ALGORITHM_1: "square"}


class SpectrumView(PageView):
    """The Spectrum page as a Panel object, for the app and for a notebook cell.

    Parameters
    ----------
    state : SpectrumState or None for a new one
    """

    state_type = SpectrumState
    question = "Fresh noise at each step, or one draw for all: how do DP-SGD, DP-FTRL and Algorithm 1 differ?"
    introduction = INTRODUCTION

    def __init__(self, state=None, **params):
        self.state = state or self.state_type()
        self.maps = ColumnDataSource(_no_maps(), name="spectrum_maps")
        self.noise = ColumnDataSource({name: [] for name in _noise_columns()}, name="spectrum_noise_curves")
        self.paths = {name: ColumnDataSource(_no_path(name), name=f"spectrum_path {name}") for name in LEARNERS}
        super().__init__(self._map_plot(), self._path_plot(), self._noise_plot(), **params)
        self.notes = alert(name="spectrum_notes")
        self.statements = pn.pane.HTML(sizing_mode="stretch_width", name="spectrum_statements")
        self.slow = LatestOnly()
        self.state.param.watch(self._fit, list(self.state.arguments()))
        self.state.param.watch(self._draw, ["prefix_sums", "absolute"])
        self._fit()

    def set_projector(self, on):
        """Large type and thick lines for a projector, or the sizes for a desktop screen; the squares are lowest."""
        super().set_projector(on)
        for plot, height in zip(self.plots, (340, 440, 440), strict=True):
            plot.height = height * 7 // 6 if on else height

    def _map_plot(self):
        plot = curve_figure(
            name="spectrum", title="", x_label="step s", y_label="step t", x_range=Range1d(0, 1), y_range=Range1d(0, 1)
        )
        step = CustomJSHover(args={"maps": self.maps}, code=_HOVERED_STEP)
        tooltips = [("", "@learner"), ("s", "$x{custom}"), ("t", "$y{0}"), ("", "@value{0.0000}")]
        _, self.bar = add_heat_maps(plot, self.maps, tooltips)
        self.ticker = FixedTicker(ticks=[0], tags=[0])
        self.bar.update(ticker=self.ticker, title="correlation")  # a title that is set later gets no space
        self.bar.formatter = CustomJSTickFormatter(args={"ticker": self.ticker}, code=_TICK_LABEL)
        plot.hover.formatters = {"$x": step}
        self.titles = LinearAxis(axis_line_alpha=0, major_tick_line_alpha=0, minor_tick_line_alpha=0)
        plot.add_layout(self.titles, "above")
        return plot

    def _path_plot(self):
        plot = curve_figure(
            name="spectrum_paths",
            title="Coefficients from the start to the release (large mark)",
            x_label="θ₁",
            y_label="θ₂",
            x_range=Range1d(-1, 1),
            y_range=Range1d(-1, 1),
        )
        self.contours = plot.contour(*landscape(window({})), LEVELS, line_color=MARK, line_width=1)
        self.contours.level = "underlay"
        for name, source in self.paths.items():
            tooltips = [("step", "@step"), ("θ", f"(@theta_1{{0.00}}, @{{{name}}}{{0.00}})")]
            add_curve(plot, source, "theta_1", name, tooltips).glyph.line_alpha = 0.6
            marked = {"marker": MARKERS[name], "size": "size", "color": style(name).color, "legend_label": name}
            plot.scatter("theta_1", name, source=source, **marked)
        least_color = CURVES["without_privacy"].style.color
        for label, point, marker, color in (
            ("start", (0, 0), "cross", MARK),
            (LEAST, minimum(), "star", least_color),
        ):
            plot.scatter(*([x] for x in point), marker=marker, color=color, size=18, line_width=3, legend_label=label)
        plot.legend.location = "bottom_left"
        plot.legend.click_policy = "hide"
        return plot

    def _noise_plot(self):
        plot = curve_figure(
            name="spectrum_noise",
            title="",
            x_label="step",
            y_label="",
            x_range=Range1d(1, 2),
            y_range=Range1d(-1, 1),
        )
        plot.xaxis.ticker.min_interval = 1
        for name in LEARNERS:
            add_curve(plot, self.noise, "step", name, [("step", "@step"), ("noise", f"@{{{name}}}{{0.000}}")])
            plot.varea(
                "step",
                f"{name} low",
                f"{name} high",
                source=self.noise,
                fill_color=style(name).color,
                fill_alpha=0.12,
                legend_label=name,
                level="underlay",
            )
        plot.legend.location = "bottom_left"
        plot.legend.orientation = "horizontal"
        plot.legend.click_policy = "hide"
        return plot

    def _fit(self, *_):
        """Clear the figures and fit with the current parameters."""
        self._clear()
        self.slow.request(partial(compare_learners, **self.state.arguments()), self._show)

    def _clear(self):
        self.maps.data = _no_maps()
        self.noise.data = {name: [] for name in _noise_columns()}
        for name, source in self.paths.items():
            source.data = _no_path(name)
        self.notes.visible = False
        self.statements.object = ""
        self.readouts.show("Computing …", [])
        self._set_titles()
        for pane in self.panes:
            redraw(pane)

    def _show(self, comparison):
        """Draw a Comparison with the current parameters."""
        self.state.comparison = comparison
        self._draw()
        fits = comparison.fits
        _, paths, _ = self.plots
        for axis, (start, end) in zip((paths.x_range, paths.y_range), comparison.window, strict=True):
            axis.update(start=start, end=end)
        self.contours.set_data(contour_data(*comparison.landscape, LEVELS, want_fill=False))
        for name, fit in fits.items():
            count = len(fit.path)
            sizes = np.full(count, 5.0)
            sizes[-1] = 16
            columns = {"theta_1": fit.path[:, 0], name: fit.path[:, 1], "step": np.arange(count), "size": sizes}
            self.paths[name].data = columns
        notes = hidden(comparison.refusals)
        outside = [name for name, fit in fits.items() if not _inside(fit.path, comparison.window)]
        if outside:
            notes.append(f"Partly outside the figure: {', '.join(outside)}.")
        self.notes.param.update(object=" ".join(notes), visible=bool(notes))
        self.readouts.show(_headline(self.state, fits), _cards(comparison.readouts))
        self.statements.object = _statements(fits)
        redraw(self.panes[1])

    def _draw(self, *_):
        """The heat maps and the noise against step, as the switches say."""
        self._set_titles()
        if comparison := self.state.comparison:
            self._draw_maps(comparison.fits)
            self._draw_noise(comparison.fits)
        for pane in (self.panes[0], self.panes[2]):
            redraw(pane)

    def _set_titles(self):
        state, noise = self.state, self.plots[2]
        which = "the sums up to steps s and t" if state.prefix_sums else "steps s and t"
        self.plot.title.text = f"{'Covariance' if state.absolute else 'Correlation'} of the noise in {which}"
        noise.title.text = f"Noise of one coordinate in {'the sum so far' if state.prefix_sums else 'each step'}"
        unit = "(shaded: its standard deviation)" if state.absolute else "in standard deviations"
        noise.yaxis.axis_label = f"noise {unit}"

    def _draw_maps(self, fits):
        state, steps = self.state, self.state.steps
        shown = {name: fit.shown_matrix(**state.shown()) for name, fit in fits.items()}
        stride = steps + max(1, steps // 5)
        starts = np.array([stride * LEARNERS.index(name) for name in shown])
        unit = LINEAR_RANGE * min(np.diag(matrix).min() for matrix in shown.values())
        painted = [_logarithmic(m, unit) if state.absolute else m for m in shown.values()]
        self.maps.data = {
            "image": [m.astype(np.float32) for m in painted],
            "value": [m.astype(np.float32) for m in shown.values()],
            "learner": list(shown),
            "x": starts + 0.5,
            "y": np.full(len(shown), 0.5),
            "dw": np.full(len(shown), steps),
            "dh": np.full(len(shown), steps),
            "stride": np.full(len(shown), stride),
        }
        self._set_map_axes(stride)
        self._draw_bar(max(np.abs(m).max() for m in painted), unit)

    def _set_map_axes(self, stride):
        """Ranges and ticks for squares whose left sides are `stride` steps apart, and the learners' names above."""
        steps = self.state.steps
        self.plot.x_range.update(start=0.5, end=2 * stride + steps + 0.5)
        self.plot.y_range.update(start=0.5, end=steps + 0.5)
        ticks = sorted({1, max(1, steps // 2), steps})
        self.plot.yaxis.ticker = FixedTicker(ticks=ticks)
        places = {stride * square + tick: str(tick) for square in range(len(LEARNERS)) for tick in ticks}
        self.plot.below[0].update(ticker=FixedTicker(ticks=[*places]), major_label_overrides=places)
        titles = {stride * square + (steps + 1) / 2: name for square, name in enumerate(LEARNERS)}
        self.titles.update(ticker=FixedTicker(ticks=[*titles]), major_label_overrides=titles)

    def _draw_bar(self, largest, unit):
        """The colour bar; its ticker is updated rather than replaced, which the browser would not notice."""
        if not self.state.absolute:
            self.ticker.update(ticks=[-1, -0.5, 0, 0.5, 1], tags=[0])
            self.bar.color_mapper.update(low=-1, high=1)
            self.bar.title = "correlation"
            return
        powers = np.arange(np.ceil(np.log10(unit)), np.floor(np.log10(unit * 10**largest)) + 1)
        powers = 10 ** powers[:: -(len(powers) // 3 + 1)]
        ticks = _logarithmic(np.concatenate([-powers, [0.0], powers[::-1]]), unit)
        self.ticker.update(ticks=ticks.tolist(), tags=[float(unit)])
        self.bar.color_mapper.update(low=-largest, high=largest)
        self.bar.title = "covariance (logarithmic)"

    def _draw_noise(self, fits):
        state, steps, plot, largest = self.state, self.state.steps, self.plots[2], 0.0
        columns = {"step": np.arange(1, steps + 1), **{name: np.full(steps, np.nan) for name in _noise_columns()[1:]}}
        for name, fit in fits.items():
            noise, std = fit.shown_noise(**state.shown())
            columns[name] = noise
            if state.absolute:
                columns |= {f"{name} low": -std, f"{name} high": std}
            largest = max(largest, 1.1 * np.abs(noise).max(), 1.1 * std.max())
        self.noise.data = columns
        plot.x_range.update(start=1, end=steps)
        plot.y_range.update(start=-1.25 * largest, end=largest)

    def __panel__(self):
        state = self.state
        controls = pmui.Column(
            self.preset_buttons(),
            *(log_slider(state, name) for name in ("steps", "epsilon", "delta")),
            switch(state, "sampled"),
            pmui.Divider(sizing_mode="stretch_width"),
            pmui.FlexBox(switch(state, "prefix_sums"), switch(state, "absolute")),
            pmui.Divider(sizing_mode="stretch_width"),
            *(log_slider(state, name) for name in ("learning_rate", "l2_reg")),
            labelled_field(state, "seed"),
            sizing_mode="stretch_width",
        )
        pair = [pmui.Grid(pane, size={"xs": 12, "xl": 6}) for pane in self.panes[1:]]
        plots = pmui.Grid(*pair, container=True, sizing_mode="stretch_width")
        return pmui.Column(self.arrange(controls, self.notes, plots), self.statements, sizing_mode="stretch_width")


def _no_maps():
    return {name: [] for name in ("image", "value", "learner", "x", "y", "dw", "dh", "stride")}


def _no_path(name):
    return {"theta_1": [], name: [], "step": [], "size": []}


def _noise_columns():
    return ["step", *LEARNERS, *(f"{name} {end}" for name in LEARNERS for end in ("low", "high"))]


def _logarithmic(values, unit):
    """sign(x) log10(1 + |x| / unit), the position of covariances on the colour scale."""
    return np.sign(values) * np.log10(1 + np.abs(values) / unit)


_HOVERED_STEP = (
    "const stride = maps.data.stride[0]; return String(Math.round(value - stride * Math.floor(value / stride)))"
)
_TICK_LABEL = """
const unit = ticker.tags[0]
return String(unit == 0 ? tick : Number((Math.sign(tick) * unit * (10 ** Math.abs(tick) - 1)).toPrecision(2)))
"""


def _inside(path, where):
    return all(low <= x.min() and x.max() <= high for x, (low, high) in zip(path.T, where, strict=True))


def _headline(state, fits):
    counts = {name: f"{fit.draws} draws" for name, fit in fits.items()}
    if ALGORITHM_1 in fits:
        counts[ALGORITHM_1] = "<b>one draw</b> for all steps and one for the output"
    listed = "; ".join(f"{name} uses {counts[name]}" for name in fits)
    return f"Each guarantees ε = {state.epsilon:g} at δ = {state.delta:g}. {listed}."


def _cards(readouts):
    for name, row in readouts.iterrows():
        color = style(name).color
        if row["refusal"]:
            yield Card(name, "–", "cannot guarantee this ε and δ here", color)
            continue
        correlation = f"{row['successive_correlation']:.2f}".replace("-", "−")
        detail = (
            f"standard deviation in the sum of all steps, {row['step_std']:.3g} in one step; "
            f"{row['draws']:.0f} random vectors; correlation of successive steps {correlation}. "
            f"Final loss {row['excess']:.2g} nats above the minimum. "
            f"(ε, δ) = ({row['epsilon']:g}, {row['delta']:.2g}) by {row['bound']}"
        )
        yield Card(name, f"noise {row['final_std']:.3g}", detail, color)


def _statements(fits):
    text = "\n\n".join(f"{name}: {fit.privacy}" for name, fit in fits.items())
    return f"<details><summary>The privacy statements in full</summary><pre>{escape(text)}</pre></details>"
