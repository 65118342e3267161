"""The Rényi page: epsilon against the order alpha, of every proof, beside DP-SGD and where that leaps."""

from functools import partial

import numpy as np
import panel_material_ui as pmui
from bokeh.models import ColumnDataSource, Range1d

from explorer.interface.background import LatestOnly
from explorer.interface.controls import alert, log_slider, switch
from explorer.interface.legend import name_only
from explorer.interface.page import PageView, hidden
from explorer.interface.plotting import add_curve, add_mark, curve_figure, redraw
from explorer.interface.readouts import Card, rounded
from explorer.pages.renyi.state import DP_SGD, NAMES, NORMAL, PROOFS, RenyiState
from explorer.vocabulary import style

INTRODUCTION = r"""
How much can one record change what training releases? A **Rényi divergence** answers with a number ε for every order α:
at α = 1 it is the average evidence of an outcome, and the larger α, the more the rare, most telling outcomes count.
**Lower is more private.** The ε of several releases simply add up, which is why this scale is used. The normal curve is
what Gaussian noise costs alone; no proof of objective perturbation can go below it.

$$\varepsilon(\alpha) = -\log\left(1 - \frac{\beta}{\lambda}\right) + \frac{s^2}{2} +
\frac{1}{\alpha - 1} \log \mathbb{E} \left[e^{(\alpha - 1) |X|}\right],
\qquad X \sim \mathcal{N}(0, s^2), \quad s = \frac{L}{\sigma}$$

This is the paper’s theorem for objective perturbation: a term for the loss’s curvature, and the half-normal curve.
"""

PRESET_NOTE = (
    "The panels of Redberg, Koskela and Wang (2023). What their captions leave out is our choice: L = 1 and β = 1/4, "
    "logistic loss on rows of norm 1, and beside DP-SGD λ = 10 and T = 1/p² steps."
)

LEAP = "DP-SGD grows fastest"
LEGEND_ROOM = 0.5  # above the curves, which leave no corner empty; as a part of their height

DETAILS = {
    NORMAL: "Gaussian noise alone: no proof is below",
    "Half-normal": "the theorem without its curvature term",
    "Objective perturbation": "the paper’s theorem",
    "Refined": "each direction on its own; any λ > 0",
    "Linearised": "the paper’s linearised bound",
    DP_SGD: "all steps together",
}


class RenyiView(PageView):
    """The Rényi page as a Panel object, for the app and for a notebook cell.

    Parameters
    ----------
    state : RenyiState or None for a new one
    """

    state_type = RenyiState
    question = "What does each Rényi order say, and how does DP-SGD compare?"
    introduction = INTRODUCTION

    def __init__(self, state=None, **params):
        self.state = state or self.state_type()
        self.source = ColumnDataSource({name: [] for name in ("alpha", *NAMES)}, name="renyi_curves")
        self.leap_source = ColumnDataSource({"alpha": [], "epsilon": []}, name="renyi_leap")
        plot = curve_figure(
            name="renyi",
            title="Rényi divergence (lower is better)",
            x_label="order α",
            y_label="ε(α)",
            x_axis_type="log",
            y_axis_type="log",
            x_range=Range1d(1, 10),
            y_range=Range1d(1e-3, 1),
        )
        tooltips = [("α", "@alpha{0.00}"), ("ε", "@{%s}{0.00e}")]
        self.lines = {
            name: add_curve(plot, self.source, "alpha", name, [(a, b.replace("%s", name)) for a, b in tooltips])
            for name in NAMES
        }
        self.leap_mark = plot.scatter(
            "alpha",
            "epsilon",
            source=self.leap_source,
            name=LEAP,
            legend_label=LEAP,
            size=16,
            color=style(DP_SGD).color,
        )
        self.alpha_mark = add_mark(plot, "height")
        plot.legend.update(click_policy="hide", location="top_left", orientation="horizontal", ncols=2)
        super().__init__(plot, **params)
        self.notes = alert(name="renyi_notes")
        self.slow, self.known = LatestOnly(), (None, None, None)
        self.state.param.watch(self._draw, self.state.shared())
        self._draw()

    def _wanted(self):
        """What DP-SGD's curve and its leap depend on."""
        return self.state.show_dp_sgd, self.state.dp_sgd, self.state.alpha_max

    def _draw(self, *_):
        """DP-SGD, an integral at each order, follows a moment later when its own parameters have moved."""
        wanted, state = self._wanted(), self.state
        if not state.show_dp_sgd:
            self.known = wanted, None, None
        if self.known[0] == wanted:
            self.slow.forget()
            self._show()
            return
        self.known = None, None, None
        self._show()
        work = partial(state.copy().answers, ("curves", [DP_SGD]), ("leap",))
        self.slow.request(work, lambda results: self._learn(wanted, results[0][DP_SGD].to_numpy(), results[1]))

    def _learn(self, wanted, curve, leap):
        if wanted == self._wanted():
            self.known = wanted, curve, leap
            self._show()

    def _show(self):
        """Draw what there is."""
        state, (key, sampled, leap) = self.state, self.known
        curves, summary = state.curves([name for name in NAMES if name != DP_SGD]), state.summary()
        if sampled is not None:
            curves[DP_SGD] = sampled
        drawn = curves.replace(np.inf, np.nan)  # a bound that is void ends
        self.source.data = {name: drawn[name].to_numpy() for name in drawn}
        marked = leap is not None and np.isfinite(leap.order)
        self.leap_source.data = {"alpha": [leap.order], "epsilon": [leap.epsilon]} if marked else _nowhere()
        refused = summary["refusal"][summary["refusal"] != ""]
        for name, line in self.lines.items():
            line.visible = name in state.names and name not in refused
        self.leap_mark.visible = state.show_dp_sgd and state.sampling_rate < 1
        name_only(self.plot, (*NAMES, LEAP) if state.show_dp_sgd else [name for name in NAMES if name != DP_SGD])
        self.alpha_mark.location = state.alpha
        self.plot.x_range.update(start=1, end=state.alpha_max)
        if key is not None:  # else the range would jump back and forth
            decades = np.log10(drawn[list(NAMES)])
            low, high = np.floor(np.nanmin(decades)), np.ceil(np.nanmax(decades))
            self.plot.y_range.update(start=10.0**low, end=10.0 ** (high + LEGEND_ROOM * (high - low)))
        self.readouts.show(_headline(summary, state) + _leap(leap, state), _cards(summary, state))
        notes = " ".join(hidden(refused.to_dict()))
        self.notes.param.update(object=notes, visible=bool(notes))
        redraw(self.pane)

    def __panel__(self):
        state = self.state
        controls = pmui.Column(
            self.preset_buttons(),
            pmui.Typography(PRESET_NOTE, variant="body2", sizing_mode="stretch_width"),
            *(log_slider(state, name) for name in ("noise_std", "l2_reg", "smoothness", "lipschitz")),
            switch(state, "monotone_loss"),
            pmui.Divider(sizing_mode="stretch_width"),
            switch(state, "show_dp_sgd"),
            *(log_slider(state, name) for name in ("sampling_rate", "steps", "noise_multiplier")),
            pmui.Divider(sizing_mode="stretch_width"),
            *(log_slider(state, name) for name in ("alpha", "alpha_max")),
            sizing_mode="stretch_width",
        )
        return self.arrange(controls, self.notes)


def _nowhere():
    return {"alpha": [], "epsilon": []}


def _headline(summary, state):
    proofs = summary["epsilon"].reindex(PROOFS)
    best = proofs.idxmin()
    ratio = rounded(summary.loc[best, "ratio"], up=True)
    beside = f"; DP-SGD has {rounded(summary.loc[DP_SGD, 'epsilon'], up=True)}" if DP_SGD in summary.index else ""
    return (
        f"At α = {state.alpha:g} the best proof here, {best}, gives <b>ε(α) = {rounded(proofs[best], up=True)}</b>, "
        f"<b>{ratio}\N{NO-BREAK SPACE}×</b> the normal’s{beside}."
    )


def _leap(leap, state):
    """Where DP-SGD leaps, and why, in a sentence."""
    if not state.show_dp_sgd:
        return ""
    if state.sampling_rate == 1:
        text = "With p = 1 nothing is sampled: DP-SGD is straight, like the normal curve."
    elif leap is None:
        text = "…"
    else:
        beyond = ", beyond this axis" if leap.order > state.alpha_max else ""
        text = (
            f"DP-SGD grows fastest at α = {leap.order:.3g}{beyond}: ε rises like α<sup>{leap.growth:.3g}</sup> there, "
            "and like α well before and after. Before, the many steps that do not draw the record hide it; beyond, the "
            "few that do draw it outweigh them, and sampling hides ever less."
        )
    return f" <span class='detail'>{text}</span>"


def _cards(summary, state):
    for name, row in summary.iterrows():
        up, color, detail = name != NORMAL, style(name).color, DETAILS[name]
        if row["refusal"]:
            yield Card(name, "–", "does not apply here", color)
            continue
        if np.isinf(row["epsilon"]):
            detail = f"void from α = {state.linearised_end:.3g} on"
        elif up and name != DP_SGD:
            detail = f"{rounded(row['ratio'], up=True)} × the normal; {detail}"
        yield Card(name, f"ε = {rounded(row['epsilon'], up=up)}", detail, color)
