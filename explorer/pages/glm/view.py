"""The GLM bug page: Rényi divergence over the dimension with and without linear structure, and exact densities."""

from functools import partial

import numpy as np
import panel_material_ui as pmui
from bokeh.models import ColumnDataSource, Range1d

from explorer.interface.background import LatestOnly
from explorer.interface.controls import alert, labelled_field, log_slider
from explorer.interface.page import PageView, in_symbols
from explorer.interface.plotting import add_curve, add_mark, curve_figure, redraw
from explorer.interface.readouts import Card, power_of_ten, rounded
from explorer.pages.glm.computation import (
    ANALYSES,
    DENSITIES,
    DIMENSIONS,
    GLM,
    LOWEST,
    OTHER,
    RATIO,
    WITH,
    WITHOUT,
    curves_and_readouts,
)
from explorer.pages.glm.state import GLMState
from explorer.vocabulary import style

INTRODUCTION = r"""
In a linear model (GLM) the gradient of one record always points along its own x, so only the noise in **that one
direction** matters. For any other loss the direction may change with θ, and the noise in all d directions counts.
Proofs that overlook this claim the first formula for every loss: **the GLM bug**. The lower figures show one record in
one dimension, exactly: how likely each released θ is without it (Z) and with it (Z′), for f(u; y) = log cosh(u − y),
L = x and β = x².

$$\text{GLM: } -\log\left(1 - \tfrac{\beta}{\lambda}\right) + \tfrac{s^2}{2} +
\tfrac{1}{\alpha-1} \log \mathbb{E} e^{(\alpha-1) s \lvert\mathcal{N}(0,1)\rvert}$$

$$\text{otherwise: } -d \log\left(1 - \tfrac{\beta}{\lambda}\right) + \tfrac{s^2}{2} +
\tfrac{1}{\alpha-1} \log \mathbb{E} e^{(\alpha-1) s \chi_d}, \qquad s = \tfrac{L}{\sigma}$$
"""


class GLMView(PageView):
    """The GLM bug page as a Panel object, for the app and for a notebook cell.

    Parameters
    ----------
    state : GLMState or None for a new one
    """

    state_type = GLMState
    question = "Why does the guarantee become weaker with the dimension when the model is not linear?"
    introduction = INTRODUCTION

    def __init__(self, state=None, **params):
        self.state = state or self.state_type()
        self.source = ColumnDataSource({name: [] for name in ("d", *ANALYSES)}, name="glm_bug_curves")
        self.densities = ColumnDataSource({name: [] for name in ("theta", *DENSITIES)}, name="glm_bug_densities")
        plot = curve_figure(
            name="glm_bug",
            title="",
            x_label="dimension d",
            y_label="Rényi divergence, nats",
            x_axis_type="log",
            y_axis_type="log",
            x_range=Range1d(DIMENSIONS[0], DIMENSIONS[-1]),
            y_range=Range1d(1e-3, 1e4),
        )
        self.lines = {
            name: add_curve(plot, self.source, "d", name, [("d", "@d"), ("nats", f"@{{{name}}}{{0.0000}}")])
            for name in ANALYSES
        }
        self.dimension_mark = add_mark(plot, "height")
        plot.legend.location = "top_left"
        plot.legend.click_policy = "hide"
        super().__init__(plot, *self._density_plots(), **params)
        self.notes = alert(name="glm_bug_notes")
        self.slow = LatestOnly()
        self.state.param.watch(self._draw, self.state.shared())
        self._draw()

    def _density_plots(self):
        theta = Range1d(-1, 1)
        both = curve_figure(
            name="glm_bug_two_densities",
            title="Density of the released θ, without (Z) and with (Z′) the record (x, y)",
            x_label="θ",
            y_label="density",
            x_range=theta,
            y_range=Range1d(0, 1),
        )
        ratio = curve_figure(
            name="glm_bug_ratio",
            title="Their log-ratio (dotted: ±ε; nearer to 0 is more private)",
            x_label="θ",
            y_label="log-ratio",
            x_range=theta,
            y_range=Range1d(-1, 1),
        )
        for plot, names in ((both, (WITHOUT, WITH)), (ratio, (RATIO,))):
            for name in names:
                tooltips = [("θ", "@theta{0.000}"), (name, f"@{{{name}}}{{0.0000}}")]
                add_curve(plot, self.densities, "theta", name, tooltips)
            plot.legend.location = "top_left"
        self.epsilon_marks = add_mark(ratio, "width"), add_mark(ratio, "width")
        return both, ratio

    def _draw(self, *_):
        state = self.state
        densities, refusal = state.densities(), state.refusal()
        self.densities.data = {name: column.to_numpy() for name, column in densities.items()}
        self._draw_densities(densities)
        for name in (GLM, OTHER):
            self.lines[name].visible = not refusal
        self.plot.title.text = f"Rényi divergence of order α = {state.alpha:g} (lower is more private)"
        self.dimension_mark.location = state.dimension
        note = f"Hidden: {GLM} and {OTHER}, because {in_symbols(refusal)}. The densities do not need λ > β = x²."
        self.notes.param.update(object=note, visible=bool(refusal))
        self.source.data = {name: np.full(len(DIMENSIONS), np.nan) for name in ("d", *ANALYSES)}
        self.readouts.show("Computing …", [])
        self.slow.request(partial(curves_and_readouts, **state.arguments()), lambda found: self._show(*found))
        for pane in self.panes:
            redraw(pane)

    def _show(self, curves, row, leak):
        """Draw what takes some tens of milliseconds."""
        self.source.data = {name: column.to_numpy() for name, column in curves.items()}
        low, top = curves[LOWEST].min(), curves[list(ANALYSES)].max(axis=None)
        self.plot.y_range.update(start=float(np.clip(low / 3, 1e-9, 1e-3)), end=float(max(1e4, 3 * top)))
        measured = "0" if leak["log10_delta"] == -np.inf else power_of_ten(leak["log10_delta"], up=False)
        self.readouts.show(_headline(self.state, row, measured), _cards(self.state, row, leak, measured))
        redraw(self.pane)

    def _draw_densities(self, densities):
        _, both, ratio = self.plots
        start, end = self.state.theta_range()
        both.x_range.update(start=start, end=end)
        both.y_range.end = float(1.1 * densities[[WITHOUT, WITH]].max(axis=None))
        reach = 1.2 * max(self.state.epsilon, densities[RATIO].abs().max())
        ratio.y_range.update(start=-reach, end=reach)
        for mark, sign in zip(self.epsilon_marks, (-1, 1), strict=True):
            mark.location = sign * self.state.epsilon

    def __panel__(self):
        state = self.state
        controls = pmui.Column(
            self.preset_buttons(),
            *(log_slider(state, name) for name in ("noise_std", "l2_reg", "x", "y")),
            pmui.Divider(sizing_mode="stretch_width"),
            *(log_slider(state, name) for name in ("alpha", "epsilon")),
            labelled_field(state, "dimension"),
            sizing_mode="stretch_width",
        )
        return self.arrange(controls, self.notes, *self.panes[1:])


def _headline(state, row, measured):
    if np.isnan(row[OTHER]):
        return f"The record ({state.x:g}, {state.y:g}) leaks <b>δ = {measured}</b> at ε = {state.epsilon:g}."
    return (
        f"For d = {state.dimension:,} the bound for a loss that is not a GLM is <b>{rounded(row[OTHER], up=True)}</b> "
        f"nats, <b>{row[OTHER] / row[GLM]:.3g}\N{NO-BREAK SPACE}×</b> the GLM’s."
    )


def _cards(state, row, leak, measured):
    for name in (GLM, OTHER):
        where = "in any dimension" if name == GLM else f"in d = {state.dimension:,}"
        known = not np.isnan(row[name])
        value = rounded(row[name], up=True) if known else "–"
        yield Card(name, value, f"nats, {where}" if known else "does not apply here", style(name).color)
    yield Card(LOWEST, rounded(row[LOWEST], up=False), "nats, in any dimension", style(LOWEST).color)
    detail = f"at ε = {state.epsilon:g}; the largest |log-ratio| drawn is {leak['largest_ratio']:.3g}"
    yield Card("This record leaks", f"δ = {measured}", detail, style(RATIO).color)
    if not np.isnan(leak["log10_bound"]):
        bound = power_of_ten(leak["log10_bound"], up=True)
        detail = f"by the hockey-stick bound at ε = {state.epsilon:g}"
        yield Card("Guaranteed for a GLM", f"δ = {bound}", detail, style(GLM).color)
