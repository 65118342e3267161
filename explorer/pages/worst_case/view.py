"""The Worst case page: the loss that leaks most, the shift of the noise, where its delta comes from, and the bounds."""

from functools import partial

import numpy as np
import panel_material_ui as pmui
from bokeh.models import ColumnDataSource, CustomJSTickFormatter, Range1d

from explorer.interface.background import LatestOnly
from explorer.interface.controls import alert, choice, log_slider, switch
from explorer.interface.page import PageView, in_symbols
from explorer.interface.plotting import add_curve, add_mark, add_tail, curve_figure, redraw
from explorer.interface.readouts import Card, power_of_ten, rounded
from explorer.pages.worst_case.computation import (
    EXACT,
    GAUSSIAN,
    HOCKEY_STICK,
    LINEAR,
    LOSSES,
    NO_RECORD,
    REFINED,
    REMOVE,
    WORST,
    compute_all,
)
from explorer.pages.worst_case.state import WorstCaseState
from explorer.vocabulary import style

INTRODUCTION = r"""
**Which record’s loss leaks most, and how much?** A record shifts the noise along its own x only, so one dimension is
enough: without the record the noise b gives θ = −b/λ, and with it the same θ needs the noise T(b). The shift
h(b) = T(b) − b is at most L, and its slope at most β/λ. Every such shift comes from the loss of some record, so the
worst one is what the mechanism leaks: **a curved loss can leak more than a linear one**. Of the
densities of the noise with and without the record, p is the one before the record is removed or added, q the one after.

$$T(b) = b + h(b), \quad \lvert h \rvert \le L, \quad 0 \le h' \le \tfrac{\beta}{\lambda}, \qquad
\ell'(\theta) = -h(-\lambda\theta), \qquad
\delta(\varepsilon) = \sup_T \int \left(p - e^\varepsilon q\right)_+ \mathrm{d}b$$
"""

# key of the curves: x, the names drawn over it, title and axis labels
PLOTS = {
    "loss": ("theta", LOSSES, "The loss that leaks most (shaded: where it bends)", "θ", "loss ℓ(θ)"),
    "map": ("b", LOSSES, "Shift of the noise by the record", "noise b", "T(b) − b"),
    "privacy loss": ("b", LOSSES, "Privacy loss at θ = −b/λ (shaded: beyond ε)", "noise b", "log p/q"),
    "excess": ("b", LOSSES[1:], "Where δ comes from: δ is the area", "noise b", "p − e^ε q, if > 0"),
}
DETAILS = {
    HOCKEY_STICK: "the paper’s, for both directions",
    REFINED: "in closed form",
    EXACT: "what the worst loss leaks",
    GAUSSIAN: "what a linear loss leaks",
}
EQUAL = 1e-9  # in log10 delta, what rounding may leave between equals
BORDER = 110  # pixels for the labels of an axis, so that the plots over b are aligned
COLORS = {EXACT: style(WORST).color, GAUSSIAN: style(LINEAR).color}


class WorstCaseView(PageView):
    """The Worst case page as a Panel object, for the app and for a notebook cell.

    Parameters
    ----------
    state : WorstCaseState or None for a new one
    """

    state_type = WorstCaseState
    question = "Which loss leaks most, and how much?"
    introduction = INTRODUCTION

    def __init__(self, state=None, **params):
        self.state = state or self.state_type()
        self.sources, self.shades, self.figures = {}, {}, {}
        for key in PLOTS:
            self._add_figure(key)
        first, *others = self.figures.values()
        for name in LOSSES:  # the legend of the first plot serves all plots
            line = first.select_one({"name": f"{first.name}: {name}"})
            for plot in others:
                for other in plot.select({"name": f"{plot.name}: {name}"}):
                    line.js_link("visible", other, "visible")
        for plot in others:
            plot.legend.visible = False
            plot.min_border_left = BORDER
            plot.x_range = others[0].x_range
        first.legend.update(click_policy="hide", location="top_center")
        self.figures["excess"].yaxis.formatter = CustomJSTickFormatter(
            code="return String(Number(tick.toPrecision(3)))"
        )
        self.epsilon_mark = add_mark(self.figures["privacy loss"], "width")
        super().__init__(*self.figures.values(), **params)
        self.slow = LatestOnly()
        self.notes = alert(name="worst_case_notes")
        self.state.param.watch(self._draw, self.state.shared())
        self._draw()

    def _add_figure(self, key):
        x, names, title, x_label, y_label = PLOTS[key]
        name = "worst_case" if key == "loss" else f"worst_case_{key.replace(' ', '_')}"
        ranges = {"x_range": Range1d(-1, 1), "y_range": Range1d(-1, 1)}
        plot = curve_figure(name=name, title=title, x_label=x_label, y_label=y_label, **ranges)
        source = ColumnDataSource({each: [] for each in (x, *names)}, name=f"{name}_curves")
        shade = ColumnDataSource({each: [] for each in (x, "foot", WORST)}, name=f"{name}_shade")
        area = add_tail(plot, shade, x, WORST)
        for each in names:
            tooltips = [(x_label.split()[-1], f"@{x}{{0.000}}"), (y_label, f"@{{{each}}}{{0.0000}}")]
            line = add_curve(plot, source, x, each, tooltips)
        line.js_link("visible", area, "visible")  # the last is the worst case's
        self.figures[key], self.sources[key], self.shades[key] = plot, source, shade

    def _draw(self, *_):
        """Draw the linear loss at once, and the worst one and the bounds when they are computed."""
        state = self.state
        self._show(state.curves((NO_RECORD, LINEAR)))
        for source in self.shades.values():
            source.data = {name: [] for name in source.data}
        end, loss, shift = state.noise_end(), self.figures["loss"], self.figures["map"]
        reach = 1.15 * state.lipschitz * end / state.l2_reg
        shift.x_range.update(start=-end, end=end)
        shift.y_range.update(start=-1.2 * state.lipschitz, end=1.2 * state.lipschitz)
        loss.x_range.update(start=-end / state.l2_reg, end=end / state.l2_reg)
        loss.y_range.update(start=-reach, end=reach)
        self.epsilon_mark.location = state.epsilon
        refusal = state.refusal()
        note = f"{HOCKEY_STICK} does not apply, because {in_symbols(refusal)}. The other bounds need only λ > 0."
        self.notes.param.update(object=note, visible=bool(refusal))
        self.readouts.show("Computing the loss that leaks most …", [])
        work = partial(compute_all, state.mechanism, delta=state.delta, **state.question())
        self.slow.request(work, lambda found: self._complete(*found))
        for pane in self.panes:
            redraw(pane)

    def _complete(self, curves, bends, summary, worst_loss):
        """Draw the rest."""
        self._show(curves)
        epsilon, worst = self.state.epsilon, {key: table[WORST].to_numpy() for key, table in curves.items()}
        low = {"loss": self.plot.y_range.start, "map": self.figures["map"].y_range.start}
        high = {"loss": np.where(bends[::-1], worst["loss"], low["loss"])}
        high["map"] = np.where(bends, worst["map"], low["map"])
        low, high = {**low, "privacy loss": epsilon, "excess": 0.0}, {**worst, **high}
        high["privacy loss"] = np.maximum(worst["privacy loss"], epsilon)
        for key, source in self.shades.items():
            x = PLOTS[key][0]
            source.data = {x: curves[key][x].to_numpy(), "foot": np.full(len(bends), low[key]), WORST: high[key]}
        reach = 1.15 * max(2 * epsilon, curves["privacy loss"].drop(columns="b").abs().max(axis=None))
        self.figures["privacy loss"].y_range.update(start=-reach, end=reach)
        top = 1.15 * float(curves["excess"].drop(columns="b").max(axis=None))
        self.figures["excess"].y_range.update(start=0, end=max(top, 1e-300))
        self.readouts.show(_headline(self.state, summary) + _shape(self.state, worst_loss), _cards(self.state, summary))
        for pane in self.panes:
            redraw(pane)

    def _show(self, curves):
        for key, source in self.sources.items():
            table, nothing = curves[key], np.full(len(curves[key]), np.nan)
            source.data = {name: np.asarray(table.get(name, nothing)) for name in source.data}

    def __panel__(self):
        state = self.state
        controls = pmui.Column(
            self.preset_buttons(),
            *(log_slider(state, name) for name in ("noise_std", "l2_reg", "smoothness", "lipschitz")),
            switch(state, "monotone_loss"),
            pmui.Divider(sizing_mode="stretch_width"),
            choice(state, "direction"),
            *(log_slider(state, name) for name in ("epsilon", "delta")),
            sizing_mode="stretch_width",
        )
        further = pmui.Grid(
            *(pmui.Grid(pane, size={"xs": 12, "xl": 4}) for pane in self.panes[1:]),
            container=True,
            spacing=1,
            sizing_mode="stretch_width",
        )
        return pmui.Column(self.arrange(controls, self.notes), further, sizing_mode="stretch_width")


def _times(log10_ratio, *, up):
    """10^x for x >= 0, with four digits next to 1."""
    if log10_ratio > 4:
        return power_of_ten(log10_ratio, up=up)
    return rounded(10**log10_ratio, up=up, digits=4 if log10_ratio < 0.04 else 3)


def _headline(state, summary):
    log10_delta, done = summary["log10_delta"], "removed" if state.direction == REMOVE else "added"
    ratio = _times(-summary.loc[GAUSSIAN, "log10_ratio"], up=False)
    return (
        f"When a record is {done}, the loss that leaks most at ε = {state.epsilon:g} has "
        f"<b>δ = {power_of_ten(log10_delta[EXACT], up=True)}</b>, <b>{ratio}\N{NO-BREAK SPACE}×</b> that of "
        f"a linear loss; no loss leaks more."
    )


def _shape(state, worst):
    """What the worst loss looks like, and how near it comes, in two sentences."""

    def between(ends):
        low, high = sorted(-end / state.l2_reg for end in ends)
        return f"between θ = {low:.3g} and {high:.3g}" if f"{low:.3g}" != f"{high:.3g}" else f"near θ = {low:.3g}"

    ramp = f"it bends {between(worst.ramp)}, with the largest curvature, β = {state.smoothness:g}" if worst.ramp else ""
    if worst.followed is None:
        text = f"It is linear but for one ramp of its slope: {ramp}." if ramp else "It is linear."
    else:
        steps = f"its slope changes in {len(worst.knots) // 2} short steps {between(worst.followed)}"
        text = f"{ramp[:1].upper()}{ramp[1:]}; then {steps}" if ramp else steps[:1].upper() + steps[1:]
        lost = max(100 * -np.expm1(-worst.gap), 1e-4)
        text += (
            ", each placed where it leaks most. More steps leak a little more, and no number of them all of this δ: "
            f"the loss drawn misses {rounded(lost, up=True, digits=1)} % of it."
        )
    return f" <span class='detail'>{text.replace('-', '−')}</span>"


def _cards(state, summary):
    for name, row in summary.iterrows():
        up, color = name != GAUSSIAN, COLORS.get(name, Card.color)  # the others have no curve here
        if row["refusal"]:
            yield Card(name, "–", "does not apply here", color)
            continue
        epsilon = f"ε = {rounded(row['epsilon'], up=up)} at δ = {state.delta:g}"
        times = "as much as" if row["log10_ratio"] < EQUAL else f"{_times(row['log10_ratio'], up=True)} ×"
        parts = [DETAILS[name], *([] if name in (EXACT, GAUSSIAN) else [f"{times} the exact"]), epsilon]
        yield Card(name, f"δ = {power_of_ten(row['log10_delta'], up=up)}", "; ".join(parts), color)
