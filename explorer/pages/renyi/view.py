"""The Rényi page: epsilon over the order alpha by each bound and of DP-SGD, and where DP-SGD's grows fastest."""

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
from explorer.pages.renyi.computation import (
    DP_SGD,
    EXACT,
    EXACT_ADD,
    EXACT_REMOVE,
    HALF_NORMAL,
    LINEARISED,
    NAMES,
    NORMAL,
    PERTURBATION,
    REFINED,
    UPPER_BOUNDS,
    compute_conversion,
    compute_dp_sgd,
    linearised_end,
)
from explorer.pages.renyi.state import RenyiState
from explorer.vocabulary import style

INTRODUCTION = r"""
How much can one record change what training releases? A **Rényi divergence** answers with a number ε for every order α:
at α = 1 it is the average privacy loss; the larger α, the more do rare outcomes with a large privacy loss count.
**Lower is more private.** The ε of several releases add up, which is why this scale is used. The two exact curves are
what the worst loss leaks when a record is removed or added, so no bound can lie below them. The normal curve is what
Gaussian noise costs a linear loss.

$$\varepsilon(\alpha) = -\log\left(1 - \frac{\beta}{\lambda}\right) + \frac{s^2}{2} +
\frac{1}{\alpha - 1} \log \mathbb{E} \left[e^{(\alpha - 1) |X|}\right],
\qquad X \sim \mathcal{N}(0, s^2), \quad s = \frac{L}{\sigma}$$

This is the paper’s theorem for objective perturbation: a term for the loss’s curvature, and the half-normal curve.
"""

PRESET_NOTE = (
    "The panels of Redberg, Koskela and Wang (2023). Where a caption gives no value, ours are L = 1 and β = 1/4 "
    "(logistic loss on rows of norm 1), and beside DP-SGD λ = 10 and T = 1/p² steps."
)

STEEPEST = f"{DP_SGD} grows fastest"
LEGEND_PART = 0.5  # height kept for the legend above the curves, which leave no corner empty; as a part of theirs

DETAILS = {
    NORMAL: "Gaussian noise alone: a lower bound",
    HALF_NORMAL: "the theorem without its curvature term",
    PERTURBATION: "the paper’s theorem",
    REFINED: "adding and removing bounded separately; any λ > 0",
    LINEARISED: "the paper’s linearised bound",
    EXACT_REMOVE: "what the worst loss leaks",
    EXACT_ADD: "what the worst loss leaks",
    DP_SGD: "all T steps together",
}


class RenyiView(PageView):
    """The Rényi page as a Panel object, for the app and for a notebook cell.

    Parameters
    ----------
    state : RenyiState or None for a new one
    """

    state_type = RenyiState
    question = "How large is the Rényi divergence at each order, and how does DP-SGD compare?"
    introduction = INTRODUCTION

    def __init__(self, state=None, **params):
        self.state = state or self.state_type()
        self.source = ColumnDataSource({name: [] for name in ("alpha", *NAMES)}, name="renyi_curves")
        self.steepest_source = ColumnDataSource({"alpha": [], "epsilon": []}, name="renyi_steepest")
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
        self.lines = {}
        for name in NAMES:
            tooltips = [("α", "@alpha{0.00}"), ("ε", f"@{{{name}}}{{0.00e}}")]
            self.lines[name] = add_curve(plot, self.source, "alpha", name, tooltips)
        self.steepest_mark = plot.scatter(
            "alpha",
            "epsilon",
            source=self.steepest_source,
            name=STEEPEST,
            legend_label=STEEPEST,
            size=16,
            color=style(DP_SGD).color,
        )
        self.alpha_mark = add_mark(plot, "height")
        plot.legend.update(click_policy="hide", location="top_left", orientation="horizontal", ncols=2)
        super().__init__(plot, **params)
        self.notes = alert(name="renyi_notes")
        self.slow, self.known = LatestOnly(), (None, None, None)
        self.converting, self.converted = LatestOnly(), (None, None)
        self.state.param.watch(self._draw, self.state.shared())
        self._draw()

    def _wanted(self):
        """All that DP-SGD's curve and its steepest point depend on."""
        return self.state.show_dp_sgd, self.state.dp_sgd, self.state.alpha_max

    def _draw(self, *_):
        """Draw all but DP-SGD at once, and DP-SGD, an integral at each order, when it is computed.

        It is computed anew only where one of its own parameters has changed.
        """
        wanted, state = self._wanted(), self.state
        self._convert()
        if not state.show_dp_sgd:
            self.known = wanted, None, None
        if self.known[0] == wanted:
            self.slow.forget()
            self._show()
            return
        self.known = None, None, None
        self._show()
        work = partial(compute_dp_sgd, state.dp_sgd, alpha_max=state.alpha_max)
        self.slow.request(work, lambda found: self._learn(wanted, *found))

    def _convert(self):
        """Compute the conversion to (epsilon, delta) where its own parameters have changed."""
        asked = self.state.mechanism, self.state.delta
        if self.converted[0] == asked:
            return
        self.converted = None, None

        work = partial(compute_conversion, asked[0], delta=asked[1])
        self.converting.request(work, lambda found: self._keep(asked, found))

    def _keep(self, asked, conversion):
        if asked == (self.state.mechanism, self.state.delta):
            self.converted = asked, conversion
            self._show()

    def _learn(self, wanted, curve, steepest):
        if wanted == self._wanted():
            self.known = wanted, curve, steepest
            self._show()

    def _show(self):
        """Draw what is known."""
        state, (_, curve, steepest) = self.state, self.known
        curves, summary = state.curves(dp_sgd=False), state.summary()
        if curve is not None:
            curves[DP_SGD] = curve
        drawn = curves.replace(np.inf, np.nan)  # the line of an infinite bound ends
        self.source.data = {name: drawn[name].to_numpy() for name in drawn}
        marked = steepest is not None and np.isfinite(steepest.order)
        points = ([steepest.order], [steepest.epsilon]) if marked else ([], [])
        self.steepest_source.data = dict(zip(("alpha", "epsilon"), points, strict=True))
        refused = summary["refusal"][summary["refusal"] != ""]
        for name, line in self.lines.items():
            line.visible = name in state.names and name not in refused
        self.steepest_mark.visible = state.show_dp_sgd and state.sampling_rate < 1
        name_only(self.plot, (*state.names, STEEPEST) if state.show_dp_sgd else state.names)
        self._set_axes(drawn)
        details = _conversion(self.converted[1], state) + _steepest(steepest, state)
        self.readouts.show(_headline(summary, state) + details, _cards(summary, state))
        notes = " ".join(hidden(refused.to_dict()))
        self.notes.param.update(object=notes, visible=bool(notes))
        redraw(self.pane)

    def _set_axes(self, drawn):
        """Fit the axes to the curves; that of epsilon only when all are known, or it would jump back and forth."""
        self.alpha_mark.location = self.state.alpha
        self.plot.x_range.update(start=1, end=self.state.alpha_max)
        if self.known[0] is not None:
            decades = np.log10(drawn[list(NAMES)])
            low, high = np.floor(np.nanmin(decades)), np.ceil(np.nanmax(decades))
            self.plot.y_range.update(start=10.0**low, end=10.0 ** (high + LEGEND_PART * (high - low)))

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
            *(log_slider(state, name) for name in ("alpha", "alpha_max", "delta")),
            sizing_mode="stretch_width",
        )
        return self.arrange(controls, self.notes)


def _headline(summary, state):
    exact, bounds = (summary["epsilon"].reindex(names) for names in (EXACT, UPPER_BOUNDS))
    best = bounds.idxmin()
    ratio = rounded(exact.max() / summary.loc[NORMAL, "epsilon"], up=True)
    beside = f"; DP-SGD has {rounded(summary.loc[DP_SGD, 'epsilon'], up=True)}" if DP_SGD in summary.index else ""
    return (
        f"At α = {state.alpha:g} the mechanism has <b>ε(α) = {rounded(exact.max(), up=True)}</b>, "
        f"<b>{ratio}\N{NO-BREAK SPACE}×</b> the normal curve’s; the best bound, {best}, gives "
        f"{rounded(bounds[best], up=True)}{beside}."
    )


def _conversion(conversion, state):
    """What is lost when the exact divergence becomes an (epsilon, delta), in a sentence."""
    if conversion is None:
        return ""
    text = f"Converted to δ = {state.delta:g}, the exact divergence gives ε = {rounded(conversion.converted, up=True)}"
    if conversion.exact > 0:
        more = 100 * (conversion.converted / conversion.exact - 1)
        text += f", {more:.3g} % more than the mechanism’s own ε = {rounded(conversion.exact, up=True)}"
    return f" <span class='detail'>{text}.</span>"


def _steepest(point, state):
    """Where DP-SGD's epsilon grows fastest, and why, in a sentence."""
    if not state.show_dp_sgd:
        return ""
    if state.sampling_rate == 1:
        text = "With p = 1 nothing is sampled: DP-SGD’s ε is proportional to α, like the normal curve."
    elif point is None:
        text = "…"
    else:
        beyond = ", beyond this axis" if point.order > state.alpha_max else ""
        text = (
            f"DP-SGD grows fastest at α = {point.order:.3g}{beyond}: ε rises like α<sup>{point.growth:.3g}</sup> "
            "there, and like α well before and after. At smaller orders the steps that do not sample the record "
            "dominate, and sampling amplifies privacy; at larger orders those that do sample it dominate, and the "
            "amplification fades."
        )
    return f" <span class='detail'>{text}</span>"


def _cards(summary, state):
    for name, row in summary.iterrows():
        up, color, detail = name != NORMAL, style(name).color, DETAILS[name]
        if row["refusal"]:
            yield Card(name, "–", "does not apply here", color)
            continue
        if np.isinf(row["epsilon"]):
            detail = f"infinite from α = {linearised_end(state.mechanism):.3g} on"
        elif up and name != DP_SGD:
            detail = f"{rounded(row['ratio'], up=True)} × the normal; {detail}"
        yield Card(name, f"ε = {rounded(row['epsilon'], up=up)}", detail, color)
