"""The Composition page: what k runs on the same data cost, by Renyi divergences and by privacy loss distributions."""

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
from explorer.pages.composition.state import COMPOSED, LOWER_BOUND, SLOW, CompositionState
from explorer.vocabulary import style

INTRODUCTION = r"""
Training again on the same records reveals a little more each time. What do **k runs** cost together? Adding up the
Rényi divergences of the runs is quick; adding up their **privacy losses** ω as random numbers is sharper, and is
computed here **between two certified ends** (the band, far thinner than the line: its width is in the readouts).
**Lower is a better proof**; none can go below the Gaussian lower bound.

$$\delta_k(\varepsilon) = \mathbb{E}\bigl[1 - e^{\varepsilon - (\omega_1 + \dots + \omega_k)}\bigr]_+$$
"""

FLOOR = -12.0  # log10 delta at the foot of the plot
ALL = ("RDP", *COMPOSED, LOWER_BOUND)
TICKS = np.log10(np.outer(10.0 ** np.arange(-9, 7), [1, 2, 5])).ravel()


class CompositionView(PageView):
    """The Composition page as a Panel object, for the app and for a notebook cell.

    Parameters
    ----------
    state : CompositionState or None for a new one
    """

    state_type = CompositionState
    question = "What if it runs on the same records again and again?"
    introduction = INTRODUCTION

    def __init__(self, state=None, **params):
        self.state = state or self.state_type()
        self.readings = IncrementalResults(self._show, queues=2)  # by (name, k); the slow ones in a queue of their own
        self.refused = {}  # reasons by name
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
        for name in ALL:
            self.lines[name] = add_curve(plot, self.source, "k", name, [("k", "@k"), ("", f"@{{{name} text}}")])
            self.marks[name] = plot.scatter(
                "k", name, source=self.source, size=7, color=style(name).color, legend_label=name
            )
            self.bands[name] = Band(
                base="k",
                lower=f"{name} low",
                upper=name,
                source=self.source,
                fill_color=style(name).color,
                fill_alpha=0.4,
                line_alpha=0,
                level="underlay",
            )
            plot.add_layout(self.bands[name])
            self.lines[name].js_link("visible", self.bands[name], "visible")
        self.mark = add_mark(plot, "height")
        plot.xaxis.ticker = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000]
        plot.legend.update(click_policy="hide", location="top_left")
        super().__init__(plot, **params)
        self.notes = alert(name="composition_notes")
        self.progress = pmui.LinearProgress(value=0, variant="determinate", visible=False, sizing_mode="stretch_width")
        self.state.param.watch(self._draw, self.state.shared())
        self._draw()

    def _draw(self, *_):
        """Forget every number, then compute those of the current parameters: the chosen k and the ends first."""
        state = self.state
        frozen = state.copy()
        self.readings.restart()
        self.refused = frozen.refusals()
        runs = frozen.runs()
        runs = dict.fromkeys((frozen.uses, runs[0], runs[-1], *runs))
        names = [name for name in frozen.names() if name not in self.refused]
        self._show()
        pending = [(name, k) for k in runs for name in names]
        quick, slow = ([key for key in pending if (key[0] == SLOW) == is_slow] for is_slow in (False, True))
        self.readings.compute(frozen.reading, quick, slow)

    def _columns(self):
        """Columns of the plot: log10 of what is upright, nan where it is not known."""
        state = self.state
        runs = state.runs()
        columns = {"k": np.array(runs, float)}
        for name in ALL:
            readings = [self.readings.known.get((name, k)) for k in runs]
            low, high = (np.array([_height(r, state.delta_upright, end) for r in readings]) for end in (0, 1))
            columns[name] = low if name == LOWER_BOUND else high
            columns[f"{name} low"] = high if name == LOWER_BOUND else np.where(np.isnan(low), high, low)
            columns[f"{name} text"] = [_spoken(name, r, state) for r in readings]
        return columns

    def _show(self):
        """Draw what is known; all of it belongs to the current parameters."""
        state = self.state
        self.source.data = self._columns()
        shown = [name for name in state.names() if name not in self.refused]
        for name in ALL:
            for drawn in (self.lines, self.marks, self.bands):
                drawn[name].visible = name in shown
        name_only(self.plot, state.names())
        self.mark.location = state.uses
        self._upright(shown)
        known = self.readings.known
        done, total = len(known), len(shown) * len(state.runs())
        self.progress.param.update(value=int(100 * done / total), visible=done < total)
        self.readouts.show(_headline(known, state), _cards(known, self.refused, state))
        notes = hidden(self.refused)
        if done < total:
            notes.append(f"Computing: {done} of {total} points are there.")
        self.notes.param.update(object=" ".join(notes), visible=bool(notes))
        redraw(self.pane)

    def _upright(self, shown):
        """The upright axis: epsilon on a logarithmic scale, or log10 delta."""
        state, plot = self.state, self.plot
        if state.delta_upright:
            plot.y_range.update(start=FLOOR, end=0.2)
            plot.yaxis.ticker, plot.yaxis.formatter = BasicTicker(), BasicTickFormatter()
            plot.yaxis.axis_label = "log₁₀ δ"
            plot.title.text = f"Failure probability promised for ε = {state.epsilon:g} (lower is better)"
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
        plot.title.text = f"ε promised at δ = {state.delta:g} (lower is better)"

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
            pmui.FlexBox(switch(state, "delta_upright"), switch(state, "tight")),
            sizing_mode="stretch_width",
        )
        return self.arrange(controls, self.progress, self.notes)


def _height(reading, delta_upright, end):
    """Where the low (0) or high (1) end of a reading is drawn, log10 of epsilon or of delta; nan for none."""
    if reading is None or (not delta_upright and reading[end] == 0):
        return np.nan
    height = reading[2 + end] if delta_upright else np.log10(reading[end])
    return height if np.isfinite(height) else np.nan


def _spoken(name, reading, state):
    """What a hover says of a point: the safe end of what is drawn."""
    if reading is None:
        return ""
    if state.delta_upright:
        return _said_delta(name, reading, state)
    up = name != LOWER_BOUND
    epsilon = reading.epsilon if up else reading.epsilon_low
    return f"ε {'≤' if up else '≥'} {rounded(epsilon, up=up, digits=4)} at δ = {state.delta:g}"


def _said_delta(name, reading, state):
    up = name != LOWER_BOUND
    log10_delta = reading.log10_delta if up else reading.log10_delta_low
    delta = power_of_ten(log10_delta, up=up) if np.isfinite(log10_delta) else "0"
    return f"δ {'≤' if up else '≥'} {delta} at ε = {state.epsilon:g}"


def _headline(known, state):
    at = {name: reading for (name, k), reading in known.items() if k == state.uses}
    proofs = {name: reading.epsilon for name, reading in at.items() if name != LOWER_BOUND}
    if not proofs:
        return f"After k = {state.uses} runs at δ = {state.delta:g}: being computed."
    best = min(proofs, key=proofs.get)
    runs = "1 run" if state.uses == 1 else f"{state.uses} runs"
    text = f"After {runs}, at δ = {state.delta:g}, the best proof here, {best}, gives <b>ε = "
    text += f"{rounded(proofs[best], up=True, digits=4)}</b>"
    lowest = at[LOWER_BOUND].epsilon_low if LOWER_BOUND in at else 0
    if lowest > 0:
        text += f", <b>{rounded(proofs[best] / lowest, up=True)} ×</b> the Gaussian lower bound "
        text += rounded(lowest, up=False, digits=4)
    return text + "."


def _cards(known, refused, state):
    """A card for each analysis at the chosen k."""
    for name in state.names():
        color, reading, up = style(name).color, known.get((name, state.uses)), name != LOWER_BOUND
        if name in refused:
            yield Card(name, "–", "does not apply here", color)
            continue
        if reading is None:
            yield Card(name, "…", "being computed", color)
            continue
        epsilon = reading.epsilon if up else reading.epsilon_low
        detail = _said_delta(name, reading, state)
        width = reading.epsilon - reading.epsilon_low
        if width > 0:
            low, high = rounded(reading.epsilon_low, up=False, digits=7), rounded(reading.epsilon, up=True, digits=7)
            detail = f"computed between {low} and {high}, {rounded(width, up=True, digits=2)} wide; {detail}"
        yield Card(name, f"ε = {rounded(epsilon, up=up, digits=4)}", detail, color)
