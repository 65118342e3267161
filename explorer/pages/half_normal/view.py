"""The Half-normal page: densities of the privacy loss, what of them lies beyond epsilon, and the start-up gap."""

import numpy as np
import panel_material_ui as pmui
from bokeh.models import ColumnDataSource, Range1d

from explorer.interface.controls import TOOLTIP_BELOW, alert, log_slider, switch
from explorer.interface.page import PageView, in_symbols
from explorer.interface.plotting import add_curve, add_mark, add_tail, curve_figure, redraw
from explorer.interface.readouts import Card, power_of_ten, rounded
from explorer.pages.half_normal.computation import GAP, HALF_NORMAL, LEFT, NAMES, NORMAL, PERTURBATION, SHIFT
from explorer.pages.half_normal.state import HalfNormalState
from explorer.vocabulary import style

INTRODUCTION = r"""
The **privacy loss** ω of an outcome is the log of how much more likely it is with your record than without it. Noise
added to an answer (the Gaussian mechanism) gives ω a normal distribution. For objective perturbation the paper’s
theorem bounds ω by a **half-normal** one: the normal folded to its right half, and moved further right by a start-up
gap. **Further left is more private**: only losses beyond ε, shaded, count in δ.

$$\omega_{\text{normal}} \sim \mathcal{N}\left(\tfrac{s^2}{2}, s^2\right), \qquad
\omega_{\text{half-normal}} =
\underbrace{-\log\left(1 - \tfrac{\beta}{\lambda}\right) + \tfrac{s^2}{2}}_{\text{start-up gap}} +
\lvert\mathcal{N}(0, s^2)\rvert, \qquad s = \tfrac{L}{\sigma}$$

$$\delta(\varepsilon) = \mathbb{E}\left[1 - e^{\varepsilon - \omega}\right]_+$$
"""

LEAST_GAP = 1e-6  # nats; the axis of the gap starts no lower, however small s^2/2 is


class HalfNormalView(PageView):
    """The Half-normal page as a Panel object, for the app and for a notebook cell.

    Parameters
    ----------
    state : HalfNormalState or None for a new one
    """

    state_type = HalfNormalState
    question = "Why is the privacy loss bounded by a half-normal one, and what does that cost?"
    introduction = INTRODUCTION

    def __init__(self, state=None, **params):
        self.state = state or self.state_type()
        self.source = ColumnDataSource({name: [] for name in ("loss", *NAMES)}, name="half_normal_curves")
        self.tail = ColumnDataSource({name: [] for name in ("loss", "foot", *NAMES)}, name="half_normal_tail")
        plot = curve_figure(
            name="half_normal",
            title="Density of the privacy loss (further left is more private)",
            x_label="privacy loss ω",
            y_label="density",
            x_range=Range1d(-1, 1),
            y_range=Range1d(0, 1),
        )
        self.areas = {name: add_tail(plot, self.tail, "loss", name) for name in NAMES}
        self.lines = {name: add_curve(plot, self.source, "loss", name, _tooltips("loss", name)) for name in NAMES}
        for name, line in self.lines.items():
            line.js_link("visible", self.areas[name], "visible")  # also when the legend hides it
        self.epsilon_mark = add_mark(plot, "height")
        plot.legend.location = "top_left"
        plot.legend.click_policy = "hide"
        super().__init__(plot, self._gap_plot(), **params)
        self.gap_pane = self.panes[1]
        self.notes = alert(name="half_normal_notes")
        self.state.param.watch(self._draw, self.state.shared())
        self._draw()

    def _gap_plot(self):
        self.gap_source = ColumnDataSource({name: [] for name in ("l2_reg", GAP, SHIFT)}, name="half_normal_gap")
        plot = curve_figure(
            name="half_normal_gap",
            title="Start-up gap (lower is more private; dotted: your λ, ε)",
            x_label="λ",
            y_label="gap, nats",
            x_axis_type="log",
            y_axis_type="log",
            x_range=Range1d(*self.state.param.l2_reg.bounds),
            y_range=Range1d(LEAST_GAP, 10),
        )
        for name in (GAP, SHIFT):
            add_curve(plot, self.gap_source, "l2_reg", name, _tooltips("l2_reg", name))
        self.l2_reg_mark, self.gap_epsilon_mark = add_mark(plot, "height"), add_mark(plot, "width")
        plot.legend.location = "top_right"
        return plot

    def _draw(self, *_):
        state = self.state
        low, high = state.density_range()
        curves = state.curves()
        self.source.data = {name: _finite(column) for name, column in curves.items()}
        tail = curves[curves["loss"] >= state.epsilon]
        areas = {name: np.maximum(_finite(tail[name], low), low) for name in NAMES}
        self.tail.data = {"loss": tail["loss"].to_numpy(), "foot": np.full(len(tail), low), **areas}
        summary = state.summary()
        for name in NAMES:
            self.lines[name].visible = self.areas[name].visible = not summary.loc[name, "refusal"]
        self.epsilon_mark.location = state.epsilon
        self.plot.x_range.update(start=-LEFT * state.loss_max, end=state.loss_max)
        self.plot.y_range.update(start=low, end=high)
        self.plot.yaxis.axis_label = "log₁₀ density" if state.logarithmic else "density"
        self._draw_gap()
        why = summary.loc[PERTURBATION, "refusal"]
        note = f"Hidden: {PERTURBATION}, because {in_symbols(why)}. The half-normal mechanism, without the term "
        self.notes.param.update(object=note + "−log(1 − β/λ), needs no such condition.", visible=bool(why))
        self.readouts.show(_headline(summary, state), _cards(summary, state))
        for pane in self.panes:
            redraw(pane)

    def _draw_gap(self):
        state = self.state
        self.gap_source.data = {name: column.to_numpy() for name, column in state.gap().items()}
        self.l2_reg_mark.location, self.gap_epsilon_mark.location = state.l2_reg, state.epsilon
        low, high = np.clip(state.shift / 3, LEAST_GAP, 1e-3), max(10.0, 10 * state.shift)
        self.plots[1].y_range.update(start=float(low), end=float(high))

    def __panel__(self):
        state = self.state
        fit_axis = pmui.Button(
            label="Fit the axis",
            variant="outlined",
            size="small",
            description="Fit the axis: end the ω axis where all densities and your ε are seen; no effect on privacy.",
            theme_config=TOOLTIP_BELOW,
            on_click=lambda _: state.fit_axis(),
        )
        controls = pmui.Column(
            self.preset_buttons(),
            *(log_slider(state, name) for name in ("noise_std", "l2_reg", "smoothness", "lipschitz")),
            pmui.Divider(sizing_mode="stretch_width"),
            *(log_slider(state, name) for name in ("epsilon", "loss_max")),
            pmui.Row(fit_axis, switch(state, "logarithmic")),
            sizing_mode="stretch_width",
        )
        return self.arrange(controls, self.notes, self.gap_pane)


def _tooltips(x, name):
    return [("λ" if x == "l2_reg" else "ω", f"@{x}{{0.000}}"), (name, f"@{{{name}}}{{0.0000}}")]


def _finite(column, instead=np.nan):
    values = column.to_numpy(float)
    return np.where(np.isfinite(values), values, instead)


def _times(log10_ratio):
    """10^x to three digits, rounded to the nearest: a comparison, no guarantee."""
    if log10_ratio < 3:
        return f"{10**log10_ratio:.3g}"
    return f"{10**log10_ratio:,.0f}" if log10_ratio < 6 else power_of_ten(log10_ratio, up=True)


def _headline(summary, state):
    name = HALF_NORMAL if summary.loc[PERTURBATION, "refusal"] else PERTURBATION
    row = summary.loc[name]
    which = "half-normal mechanism" if name == HALF_NORMAL else "half-normal bound on objective perturbation"
    return (
        f"At ε = {state.epsilon:g} the {which} gives <b>δ = {power_of_ten(row['log10_delta'], up=True)}</b>, "
        f"<b>{_times(row['log10_ratio'])}\N{NO-BREAK SPACE}×</b> the normal’s "
        f"{power_of_ten(summary.loc[NORMAL, 'log10_delta'], up=False)}."
    )


def _cards(summary, state):
    for name in NAMES:
        row, up, color = summary.loc[name], name != NORMAL, style(name).color
        if row["refusal"]:
            yield Card(name, "–", "does not apply here", color)
            continue
        ratio = f"; {_times(row['log10_ratio'])} × the normal’s δ" if name != NORMAL else ""
        detail = f"Pr[ω > ε] = {power_of_ten(row['log10_tail'], up=up)}{ratio}"
        yield Card(name, f"δ = {power_of_ten(row['log10_delta'], up=up)}", detail, color)
    start, color = summary.loc[PERTURBATION, "start"], style(GAP).color
    if np.isfinite(start):
        parts = f"{start - state.shift:.3g} for the curvature, −log(1 − β/λ), + {state.shift:.3g} for L²/2σ²"
        yield Card("Start-up gap", rounded(start, up=True), parts, color)
    else:
        yield Card("Start-up gap", "∞", "needs λ > β to be finite", color)
