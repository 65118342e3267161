"""The Composition page: what k runs on the same data cost, by Rényi divergences and by privacy loss distributions."""

import numpy as np
import panel_material_ui as pmui
from bokeh.models import (
    Band,
    BasicTicker,
    BasicTickFormatter,
    ColumnDataSource,
    CustomJSTickFormatter,
    FixedTicker,
    Range1d,
)

from explorer.interface.background import IncrementalResults
from explorer.interface.controls import alert, log_slider, switch
from explorer.interface.legend import name_only
from explorer.interface.page import PageView, hidden
from explorer.interface.plotting import add_curve, add_mark, curve_figure, redraw
from explorer.interface.readouts import Card, power_of_ten, rounded
from explorer.pages.composition.computation import LABELS, LOWER, MOST_ADAPTIVE, read
from explorer.pages.composition.state import SLOW, CompositionState
from explorer.vocabulary import style

INTRODUCTION = r"""
Each further training run on the same records reveals a little more about them. What do **k runs** cost together?
Rényi divergences of the runs add up, which is quick. Composing the distributions of their **privacy losses** ω is
tighter; it gives an interval that contains the exact value (drawn as a band; the readouts have its width). **Lower
curves are tighter bounds**. With “Exact analysis too” you also see the truth for few runs: what an adversary gains who
chooses each run’s loss after the earlier outcomes.

$$\delta_k(\varepsilon) = \mathbb{E}\bigl[1 - e^{\varepsilon - (\omega_1 + \dots + \omega_k)}\bigr]_+$$
"""

LOWER_BOUND = LABELS[LOWER]
LOWEST = -12.0  # log10 delta at the lower end of the y-axis
TICKS = np.log10(np.outer(10.0 ** np.arange(-9, 7), [1, 2, 5])).ravel()


class CompositionView(PageView):
    """The Composition page as a Panel object, for the app and for a notebook cell.

    Parameters
    ----------
    state : CompositionState or None for a new one
    """

    state_type = CompositionState
    question = "How much privacy do many runs on the same records cost together?"
    introduction = INTRODUCTION

    def __init__(self, state=None, **params):
        self.state = state or self.state_type()
        self.readings = IncrementalResults(self._show, queues=2)  # by Question; the slow bound in a queue of its own
        self.refused = {}  # reasons by label
        super().__init__(self._make_plot(), **params)
        self.notes = alert(name="composition_notes")
        self.progress = pmui.LinearProgress(value=0, variant="determinate", visible=False, sizing_mode="stretch_width")
        self.state.param.watch(self._draw, self.state.shared())
        self._draw()

    def _make_plot(self):
        self.source = ColumnDataSource(self._columns(), name="composition_curves")
        plot = curve_figure(
            name="composition",
            title="",
            x_label="k, runs on the same data (computed at the points)",
            y_label="",
            x_axis_type="log",
            x_range=Range1d(0.9, 1100),
            y_range=Range1d(-2, 3),
        )
        self.lines, self.marks, self.bands = {}, {}, {}
        for name in LABELS.values():
            self._add_bound(plot, name)
        self.mark = add_mark(plot, "height")
        plot.xaxis.ticker = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000]
        plot.legend.update(click_policy="hide", location="top_left")
        return plot

    def _add_bound(self, plot, name):
        """The line, the computed points and the band between the ends of a bound."""
        color = style(name).color
        self.lines[name] = add_curve(plot, self.source, "k", name, [("k", "@k"), ("", f"@{{{name} text}}")])
        self.marks[name] = plot.scatter("k", name, source=self.source, size=7, color=color, legend_label=name)
        self.bands[name] = Band(
            base="k",
            lower=f"{name} low",
            upper=name,
            source=self.source,
            fill_color=color,
            fill_alpha=0.4,
            line_alpha=0,
            level="underlay",
        )
        plot.add_layout(self.bands[name])
        self.lines[name].js_link("visible", self.bands[name], "visible")

    def _draw(self, *_):
        """Show what is known for the current parameters and compute the rest: the chosen k and the ends first."""
        state = self.state
        self.refused = state.refusals()
        runs = state.runs()
        runs = dict.fromkeys((state.uses, runs[0], runs[-1], *runs))
        names = [name for name in state.names() if name not in self.refused]
        keys = [(state.question(name, k),) for k in runs for name in names if state.applies(name, k)]
        self.total = len(keys)
        kept = {key: self.readings.known[key] for key in keys if key in self.readings.known}
        self.readings.restart(kept)
        self._show()
        missing = [key for key in keys if key not in kept]
        quick, slow = ([key for key in missing if (key[0].bound in SLOW) == is_slow] for is_slow in (False, True))
        self.readings.compute(read, quick, slow)

    def _known(self, name, k):
        """The Reading for the current parameters, or None where it has not been computed."""
        return self.readings.known.get((self.state.question(name, k),))

    def _columns(self):
        """Columns of the plot: log10 of the quantity on the y-axis, nan where it is not known."""
        state = self.state
        runs = state.runs()
        columns = {"k": np.array(runs, float)}
        for name in LABELS.values():
            readings = [self._known(name, k) for k in runs]
            low, high = (np.array([_height(r, state.delta_on_y_axis, end) for r in readings]) for end in (0, 1))
            columns[name] = low if name == LOWER_BOUND else high
            columns[f"{name} low"] = high if name == LOWER_BOUND else np.where(np.isnan(low), high, low)
            columns[f"{name} text"] = [_hover_text(name, r, state) for r in readings]
        return columns

    def _show(self):
        """Draw what is known for the current parameters."""
        state = self.state
        self.source.data = self._columns()
        shown = [name for name in state.names() if name not in self.refused]
        for name in LABELS.values():
            for drawn in (self.lines, self.marks, self.bands):
                drawn[name].visible = name in shown
        name_only(self.plot, state.names())
        self.mark.location = state.uses
        self._set_y_axis(shown)
        done, total = len(self.readings.known), self.total
        self.progress.param.update(value=int(100 * done / total), visible=done < total)
        at_k = {name: self._known(name, state.uses) for name in shown}
        self.readouts.show(_headline(at_k, state), _cards(at_k, state))
        notes = hidden(self.refused)
        if done < total:
            notes.append(f"Computing: {done} of {total} points are done.")
        self.notes.param.update(object=" ".join(notes), visible=bool(notes))
        redraw(self.pane)

    def _set_y_axis(self, shown):
        """Epsilon on a logarithmic scale, or log10 delta."""
        state, plot = self.state, self.plot
        if state.delta_on_y_axis:
            plot.y_range.update(start=LOWEST, end=0.2)
            plot.yaxis.ticker, plot.yaxis.formatter = BasicTicker(), BasicTickFormatter()
            plot.yaxis.axis_label = "log₁₀ δ"
            plot.title.text = f"Guaranteed δ at ε = {state.epsilon:g} (lower is better)"
            return
        heights = np.concatenate([self.source.data[name] for name in shown])
        if np.isfinite(heights).any():
            low, high = np.nanmin(heights), np.nanmax(heights)
            plot.y_range.update(start=low - 0.1, end=high + 0.1 + 0.1 * (high - low))
        start, end = plot.y_range.start, plot.y_range.end
        ticks = TICKS if end - start < 4 else TICKS[::3]
        plot.yaxis.ticker = FixedTicker(ticks=[*ticks])
        plot.yaxis.formatter = CustomJSTickFormatter(code="return String(Number((10 ** tick).toPrecision(3)))")
        plot.yaxis.axis_label = "ε"
        plot.title.text = f"Guaranteed ε at δ = {state.delta:g} (lower is better)"

    def __panel__(self):
        state = self.state
        controls = pmui.Column(
            self.preset_buttons(),
            *(log_slider(state, name) for name in ("uses", "sampling_rate")),
            pmui.Divider(sizing_mode="stretch_width"),
            *(log_slider(state, name) for name in ("noise_std", "l2_reg", "smoothness", "lipschitz")),
            switch(state, "monotone_loss"),
            pmui.Divider(sizing_mode="stretch_width"),
            *(log_slider(state, name) for name in ("delta", "epsilon")),
            pmui.FlexBox(switch(state, "delta_on_y_axis"), switch(state, "exact")),
            sizing_mode="stretch_width",
        )
        return self.arrange(controls, self.progress, self.notes)


def _height(reading, delta_on_y_axis, end):
    """Where the low (0) or high (1) end of a reading is drawn, log10 of epsilon or of delta; nan for none."""
    if reading is None or (not delta_on_y_axis and reading[end] == 0):
        return np.nan
    height = reading[2 + end] if delta_on_y_axis else np.log10(reading[end])
    return height if np.isfinite(height) else np.nan


def _hover_text(name, reading, state):
    """The conservative end of what is drawn at a point."""
    if reading is None:
        return ""
    if state.delta_on_y_axis:
        return _delta_text(name, reading, state)
    up = name != LOWER_BOUND
    epsilon = reading.epsilon if up else reading.epsilon_low
    return f"ε {'≤' if up else '≥'} {rounded(epsilon, up=up, digits=4)} at δ = {state.delta:g}"


def _delta_text(name, reading, state):
    up = name != LOWER_BOUND
    log10_delta = reading.log10_delta if up else reading.log10_delta_low
    delta = power_of_ten(log10_delta, up=up) if np.isfinite(log10_delta) else "0"
    return f"δ {'≤' if up else '≥'} {delta} at ε = {state.epsilon:g}"


def _headline(at_k, state):
    """The tightest bound after the chosen k; `at_k` has a Reading, or None, for each bound that applies."""
    guaranteed = {name: r.epsilon for name, r in at_k.items() if r is not None and name != LOWER_BOUND}
    if not guaranteed:
        return f"After k = {state.uses} runs at δ = {state.delta:g}: being computed."
    best = min(guaranteed, key=guaranteed.get)
    runs = "1 run" if state.uses == 1 else f"{state.uses} runs"
    text = f"After {runs}, at δ = {state.delta:g}, the tightest bound shown, {best}, gives <b>ε = "
    text += f"{rounded(guaranteed[best], up=True, digits=4)}</b>"
    lowest = at_k[LOWER_BOUND].epsilon_low if at_k[LOWER_BOUND] else 0
    if lowest > 0:
        text += f", <b>{rounded(guaranteed[best] / lowest, up=True)} ×</b> the Gaussian lower bound "
        text += rounded(lowest, up=False, digits=4)
    return text + "."


def _cards(at_k, state):
    """A card for each bound at the chosen k."""
    for name in state.names():
        color = style(name).color
        if name not in at_k:
            yield Card(name, "–", "does not apply here", color)
        elif not state.applies(name, state.uses):
            yield Card(name, "–", f"computed up to {MOST_ADAPTIVE} runs", color)
        elif at_k[name] is None:
            yield Card(name, "…", "being computed", color)
        else:
            yield _card(name, at_k[name], state)


def _card(name, reading, state):
    up = name != LOWER_BOUND
    epsilon = reading.epsilon if up else reading.epsilon_low
    detail = _delta_text(name, reading, state)
    width = reading.epsilon - reading.epsilon_low
    if width > 0:
        low, high = rounded(reading.epsilon_low, up=False, digits=7), rounded(reading.epsilon, up=True, digits=7)
        detail = f"between {low} and {high}, {rounded(width, up=True, digits=2)} wide; {detail}"
    return Card(name, f"ε = {rounded(epsilon, up=up, digits=4)}", detail, style(name).color)
