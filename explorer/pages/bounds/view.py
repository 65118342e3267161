"""The Bounds page: delta over epsilon by every bound, and how far each bound is from the Gaussian lower bound."""

import numpy as np
import panel_material_ui as pmui
from bokeh.models import ColumnDataSource, Range1d

from explorer.interface.background import NextTick
from explorer.interface.controls import TOOLTIP_BELOW, alert, log_slider, switch
from explorer.interface.page import PageView, hidden
from explorer.interface.plotting import add_curve, add_mark, curve_figure, redraw
from explorer.interface.readouts import Card, power_of_ten, rounded
from explorer.pages.bounds.computation import EXACT, HOCKEY_STICK, LOWER_BOUND
from explorer.pages.bounds.state import BoundsState
from explorer.vocabulary import style

INTRODUCTION = r"""
A model is trained on private records. To hide any one of them, **objective perturbation** adds a random linear term b
to the training objective and minimises the sum exactly. How private is that? Each curve is a bound: for every ε it
guarantees a failure probability of at most δ. **Lower is better**, down to the exact curve: it is what the mechanism
leaks with the worst loss, so no bound can lie below it. The Gaussian lower bound is what a linear loss leaks.

$$\hat\theta = \arg\min_\theta \sum_{i} \ell(\theta; z_i) + \frac{\lambda}{2}\lVert\theta\rVert^2 + b^\top\theta,
\qquad b \sim \mathcal{N}(0, \sigma^2 I)$$
"""

LOWEST = -12.0  # log10 delta where the axis ends, unless the chosen delta is near it
DEEPEST = 20 * LOWEST  # no curve is drawn below: a browser takes seconds for a line that ends far outside its plot


class BoundsView(PageView):
    """The Bounds page as a Panel object, for the app and for a notebook cell.

    Parameters
    ----------
    state : BoundsState or None for a new one
    styles : dict of vocabulary.Style by name, for bounds of your own
    """

    state_type = BoundsState
    question = "How private is objective perturbation? Its exact δ at each ε, beside four bounds on it."
    introduction = INTRODUCTION

    def __init__(self, state=None, *, styles=None, **params):
        self.state = state or self.state_type()
        self.styles = {name: (styles or {}).get(name) or style(name) for name in self.state.bounds}
        self.source = ColumnDataSource({name: [] for name in ("epsilon", *self.state.bounds)}, name="bounds_curves")
        plot = curve_figure(
            name="bounds",
            title="",
            x_label="ε",
            y_label="log₁₀ δ",
            x_range=Range1d(0, 1),
            y_range=Range1d(LOWEST, 0.2),
        )
        self.lines = {}
        for name, own_style in self.styles.items():
            tooltips = [("ε", "@epsilon{0.000}"), ("log₁₀ δ", f"@{{{name}}}{{0.00}}")]
            self.lines[name] = add_curve(plot, self.source, "epsilon", name, tooltips, own_style=own_style)
        self.delta_mark, self.epsilon_mark = (add_mark(plot, dimension) for dimension in ("width", "height"))
        plot.legend.click_policy = "hide"
        super().__init__(plot, **params)
        self.notes = alert(name="bounds_notes")
        self.next_tick = NextTick()
        self.state.param.watch(self._set_axes, ["epsilon", "delta", "epsilon_max", "epsilon_on_y_axis"])
        self.state.param.watch(self._draw, self.state.shared())
        self._set_axes()
        self._draw()

    def _draw(self, *moves):
        """Draw the curves at once, and their readouts in the next tick."""
        self._show_curves(self.state.columns())
        if moves:
            self.next_tick.request(self._show_readouts)
        else:
            self._show_readouts()

    def _show_curves(self, curves):
        drawn = {name: np.maximum(curve, DEEPEST) for name, curve in curves.items()}
        self.source.data = {"epsilon": self.state.axis(), **drawn}
        _, refused = self.state.applicable()
        for name, line in self.lines.items():
            line.visible = name not in refused
        notes = " ".join(hidden(refused))
        self.notes.param.update(object=notes, visible=bool(notes))
        redraw(self.pane)

    def _show_readouts(self):
        rows = self.state.rows()
        self.readouts.show(_headline(rows, self.state) + _split(self.state), _cards(rows, self.state, self.styles))

    def _set_axes(self, *_):
        """Put epsilon on one axis and log10 delta on the other, and mark where the bounds are read."""
        state, plot, on_y = self.state, self.plot, self.state.epsilon_on_y_axis
        for name, line in self.lines.items():
            line.glyph.update(x=name if on_y else "epsilon", y="epsilon" if on_y else name)
        epsilon, delta = (plot.y_range, plot.x_range) if on_y else (plot.x_range, plot.y_range)
        epsilon.update(start=0, end=state.epsilon_max)
        delta.update(start=min(LOWEST, np.log10(state.delta) - 1), end=0.2)
        self.epsilon_mark.update(dimension="width" if on_y else "height", location=state.epsilon)
        self.delta_mark.update(dimension="height" if on_y else "width", location=np.log10(state.delta))
        plot.xaxis.axis_label, plot.yaxis.axis_label = ("log₁₀ δ", "ε") if on_y else ("ε", "log₁₀ δ")
        what = "ε at each failure probability δ" if on_y else "Failure probability δ at each ε"
        plot.title.text = f"{what} (lower is better)"

    def __panel__(self):
        state = self.state
        fit_axis = pmui.Button(
            label="Fit the axis",
            variant="outlined",
            size="small",
            description="Fit the axis: end the ε axis where every curve has crossed your δ; no effect on privacy.",
            theme_config=TOOLTIP_BELOW,
            on_click=lambda _: state.fit_axis(),
        )
        controls = pmui.Column(
            self.preset_buttons(),
            *(log_slider(state, name) for name in ("noise_std", "l2_reg", "smoothness", "lipschitz")),
            switch(state, "monotone_loss"),
            pmui.Divider(sizing_mode="stretch_width"),
            *(log_slider(state, name) for name in ("delta", "epsilon", "epsilon_max")),
            pmui.Row(fit_axis, switch(state, "epsilon_on_y_axis")),
            sizing_mode="stretch_width",
        )
        return self.arrange(controls, self.notes)


def _headline(rows, state):
    epsilons = {name: row["epsilon"] for name, row in rows.items() if not row["refusal"]}
    best, lowest = min(epsilons.keys() - {LOWER_BOUND}, key=epsilons.get), epsilons[LOWER_BOUND]
    gap = ""
    if lowest > 0:
        ratio = rounded(epsilons[best] / lowest, up=True)
        gap = f", <b>{ratio}\N{NO-BREAK SPACE}×</b> the Gaussian lower bound {rounded(lowest, up=False)}"
    value = rounded(epsilons[best], up=True)
    subject = "the mechanism has" if best == EXACT else f"the best bound, {best}, guarantees"
    return f"At δ = {state.delta:g} {subject} <b>ε = {value}</b>{gap}."


def _split(state):
    """The hockey-stick bound's epsilon in its three parts, a sentence."""
    parts = state.split().get(HOCKEY_STICK)
    if parts is None:
        return ""
    whole, noise = rounded(sum(parts.values()), up=True), f"{parts['noise']:.3g}".replace("-", "−")
    return (
        f" <span class='detail'>The hockey-stick bound’s ε = {whole} is the sum of {parts['jacobian']:.3g} for the "
        f"curvature, −log(1 − β/λ), {parts['shift']:.3g} for the noise’s shift, L²/2σ², and {noise} for its "
        "spread at this δ.</span>"
    )


def _cards(rows, state, styles):
    for name, row in rows.items():
        up, color = name != LOWER_BOUND, styles[name].color
        if row["refusal"]:
            yield Card(name, "–", "does not apply here", color)
            continue
        detail = f"δ = {power_of_ten(row['log10_delta'], up=up)} at ε = {state.epsilon:g}"
        if name == EXACT and np.isfinite(row["ratio"]):
            detail = f"{rounded(row['ratio'], up=up)} × the Gaussian; {detail}"
        elif name != LOWER_BOUND and np.isfinite(row["excess"]):
            share = max(100 * row["excess"], 0.0)
            detail = f"{share:.3g} % of this ε is the bound’s, not the mechanism’s; {detail}"
        yield Card(name, f"ε = {rounded(row['epsilon'], up=up)}", detail, color)
