"""The Bounds page: delta against epsilon under every analysis, and how far each is from the lower bound."""

from functools import partial

import numpy as np
import panel_material_ui as pmui
from bokeh.models import ColumnDataSource, Range1d

from explorer.interface.background import LatestOnly, NextTick
from explorer.interface.controls import alert, log_slider, switch
from explorer.interface.page import PageView, hidden
from explorer.interface.plotting import add_curve, add_mark, curve_figure, redraw
from explorer.interface.readouts import Card, power_of_ten, rounded
from explorer.pages.bounds.state import LOWER_BOUND, LOWER_BOUNDS, BoundsState
from explorer.vocabulary import style

INTRODUCTION = r"""
A model is trained on private records. To hide any one of them, **objective perturbation** adds a random slope b to what
training minimises, and then solves it exactly. How private is that? Each curve is one proof: at a given ε it promises a
failure probability of at most δ. **Lower is a better proof**; none can go below the Gaussian lower bound, nor below the
attained one, a loss that leaks this much.

$$\hat\theta = \arg\min_\theta \sum_{i} \ell(\theta; z_i) + \frac{\lambda}{2}\lVert\theta\rVert^2 + b^\top\theta,
\qquad b \sim \mathcal{N}(0, \sigma^2 I)$$
"""

FLOOR = -12.0  # log10 delta at the foot of the plot, unless delta itself is near it
DEEPEST = 20 * FLOOR  # a browser takes seconds for a line that ends ten thousand heights below its plot


class BoundsView(PageView):
    """The Bounds page as a Panel object, for the app and for a notebook cell.

    Parameters
    ----------
    state : BoundsState or None for a new one
    styles : dict of vocabulary.Style by name, for bounds of your own
    """

    state_type = BoundsState
    question = "How private is it? One algorithm, seven proofs, and the floor under all of them."
    introduction = INTRODUCTION

    def __init__(self, state=None, *, styles=None, **params):
        self.state = state or self.state_type()
        self.styles = {name: (styles or {}).get(name) or style(name) for name in self.state.bounds}
        self.source = ColumnDataSource({name: [] for name in ("epsilon", *self.state.bounds)}, name="bounds_curves")
        plot = curve_figure(
            name="bounds",
            title="Promised failure probability (lower is better)",
            x_label="ε",
            y_label="log₁₀ δ",
            x_range=Range1d(0, 1),
            y_range=Range1d(FLOOR, 0.2),
        )
        tooltips = [("ε", "@epsilon{0.000}"), ("log₁₀ δ", "@{%s}{0.00}")]
        self.lines = {
            name: add_curve(
                plot,
                self.source,
                "epsilon",
                name,
                [(a, b.replace("%s", name)) for a, b in tooltips],
                own_style=own_style,
            )
            for name, own_style in self.styles.items()
        }
        self.delta_mark, self.epsilon_mark = (add_mark(plot, dimension) for dimension in ("width", "height"))
        plot.legend.click_policy = "hide"
        super().__init__(plot, **params)
        self.notes = alert(name="bounds_notes")
        self.next_tick, self.slow = NextTick(), LatestOnly()
        self.state.param.watch(self._turn, ["epsilon", "delta", "epsilon_max", "epsilon_upright"])
        self.state.param.watch(self._draw, self.state.shared())
        self._turn()
        self._draw()

    def _draw(self, *moves):
        """The curves that follow the hand at once, what is read from them next, and the other curves as they come."""
        state = self.state
        fast, slow = (state.names(slow=slow) for slow in (False, True))
        curves = state.columns(fast)

        def complete(answers):
            columns, rows = answers
            self._show_curves(curves | columns)
            self._show_readouts(state.rows(fast) | rows)

        work = partial(state.copy().answers, ("columns", slow), ("rows", slow))
        if slow and self.slow.request(work, complete):
            return
        self._show_curves(curves)
        if moves:
            self.next_tick.request(lambda: self._show_readouts(state.rows(fast)))
        else:
            self._show_readouts(state.rows(fast))

    def _show_curves(self, curves):
        """Draw what there is; the others are still being computed."""
        state = self.state
        axis = state.axis()
        nothing = np.full(len(axis), np.nan)
        drawn = {name: np.maximum(curves.get(name, nothing), DEEPEST) for name in state.bounds}
        self.source.data = {"epsilon": axis, **drawn}
        _, refused = state.proofs(list(curves))
        for name, line in self.lines.items():
            line.visible = name not in refused
        notes = " ".join(hidden(refused))
        self.notes.param.update(object=notes, visible=bool(notes))
        redraw(self.pane)

    def _show_readouts(self, rows):
        """Say what there is; the bounds that are not in `rows` are still being computed."""
        state = self.state
        self.readouts.show(_headline(rows, state) + _split(state), _cards(rows, state, self.styles))

    def _turn(self, *_):
        """Put epsilon on one axis and log10 delta on the other."""
        state, plot, upright = self.state, self.plot, self.state.epsilon_upright
        for name, line in self.lines.items():
            line.glyph.update(x=name if upright else "epsilon", y="epsilon" if upright else name)
        epsilon, delta = (plot.y_range, plot.x_range) if upright else (plot.x_range, plot.y_range)
        epsilon.update(start=0, end=state.epsilon_max)
        delta.update(start=min(FLOOR, np.log10(state.delta) - 1), end=0.2)
        across, up = self.epsilon_mark, self.delta_mark
        across.update(dimension="width" if upright else "height", location=state.epsilon)
        up.update(dimension="height" if upright else "width", location=np.log10(state.delta))
        plot.xaxis.axis_label, plot.yaxis.axis_label = ("log₁₀ δ", "ε") if upright else ("ε", "log₁₀ δ")
        plot.title.text = (
            "Promised ε (lower is better)" if upright else "Promised failure probability (lower is better)"
        )

    def __panel__(self):
        state = self.state
        fit_axis = pmui.Button(
            label="Fit the axis",
            variant="outlined",
            size="small",
            description="Fit the axis: choose its end so that every curve crosses your δ.",
            on_click=lambda _: state.fit_axis(),
        )
        controls = pmui.Column(
            self.preset_buttons(),
            *(log_slider(state, name) for name in ("noise_std", "l2_reg", "smoothness", "lipschitz")),
            switch(state, "monotone_loss"),
            pmui.Divider(sizing_mode="stretch_width"),
            *(log_slider(state, name) for name in ("delta", "epsilon", "epsilon_max")),
            pmui.Row(fit_axis, switch(state, "epsilon_upright")),
            sizing_mode="stretch_width",
        )
        return self.arrange(controls, self.notes)


def _headline(rows, state):
    epsilons = {name: row["epsilon"] for name, row in rows.items() if not row["refusal"]}
    best, lowest = min(epsilons.keys() - set(LOWER_BOUNDS), key=epsilons.get), epsilons[LOWER_BOUND]
    gap = ""
    if lowest > 0:
        ratio = rounded(epsilons[best] / lowest, up=True)
        gap = f", <b>{ratio} ×</b> the Gaussian lower bound {rounded(lowest, up=False)}"
    return (
        f"At δ = {state.delta:g} the best proof here, {best}, gives <b>ε = {rounded(epsilons[best], up=True)}</b>{gap}."
    )


def _split(state):
    """The paper's epsilon in its three parts, a sentence."""
    parts = state.split().get("Hockey-stick")
    if parts is None:
        return ""
    whole = rounded(sum(parts.values()), up=True)
    return (
        f" <span class='detail'>The hockey-stick ε = {whole} is {parts['jacobian']:.3g} for "
        f"the loss's curvature, −log(1 − β/λ), + {parts['shift']:.3g} for the noise's shift, L²/2σ², "
        f"{'+' if parts['noise'] >= 0 else '−'} {abs(parts['noise']):.3g} for its spread at this δ.</span>"
    )


def _cards(rows, state, styles):
    for name in state.bounds:
        up, color = name not in LOWER_BOUNDS, styles[name].color
        if name not in rows:
            yield Card(name, "…", "being computed", color)
            continue
        row = rows[name]
        if row["refusal"]:
            yield Card(name, "–", "does not apply here", color)
            continue
        known = name != LOWER_BOUND and np.isfinite(row["ratio"])
        ratio = f"{rounded(row['ratio'], up=up)} × the Gaussian; " if known else ""
        detail = f"{ratio}δ = {power_of_ten(row['log10_delta'], up=up)} at ε = {state.epsilon:g}"
        yield Card(name, f"ε = {rounded(row['epsilon'], up=up)}", detail, color)
