"""The Bounds page: delta against epsilon under every analysis, and how far each is from the lower bound."""

import numpy as np
import panel_material_ui as pmui
from bokeh.models import ColumnDataSource, Range1d

from explorer.state.bounds import LOWER_BOUND, PRESETS, BoundsState
from explorer.views.controls import log_slider
from explorer.views.page import PageView
from explorer.views.plotting import add_curve, add_mark, curve_figure, redraw, stroke
from explorer.views.readouts import Card, power_of_ten, rounded

INTRODUCTION = r"""
A model is trained on private records. To hide any one of them, **objective perturbation** adds a random slope b to what
training minimises, and then solves it exactly. How private is that? Each curve is one proof: at a given ε it promises a
failure probability of at most δ. **Lower is a better proof**; none can go below the Gaussian lower bound.

$$\hat\theta = \arg\min_\theta \sum_{i} \ell(\theta; z_i) + \frac{\lambda}{2}\lVert\theta\rVert^2 + b^\top\theta,
\qquad b \sim \mathcal{N}(0, \sigma^2 I)$$
"""

FLOOR = -12.0  # log10 delta at the foot of the plot, unless delta itself is near it


class BoundsView(PageView):
    """The Bounds page as a Panel object, for the app and for a notebook cell.

    Parameters
    ----------
    state : BoundsState or None for a new one
    """

    introduction = INTRODUCTION

    def __init__(self, state=None, **params):
        self.state = state or BoundsState()
        self.source = ColumnDataSource({name: [] for name in ("epsilon", *self.state.bounds)}, name="bounds_curves")
        plot = curve_figure(
            name="bounds",
            title="Promised failure probability (lower is better)",
            x_label="ε",
            y_label="log₁₀ δ",
            x_range=Range1d(0, 1),
            y_range=Range1d(FLOOR, 0.2),
        )
        tooltips = [("ε", "$x{0.000}"), ("log₁₀ δ", "$y{0.00}")]
        self.lines = {name: add_curve(plot, self.source, "epsilon", name, tooltips) for name in self.state.bounds}
        self.delta_mark, self.epsilon_mark = (add_mark(plot, dimension) for dimension in ("width", "height"))
        plot.legend.click_policy = "hide"
        plot.legend.location = "bottom_left"  # profiles fall from the upper left: this corner stays empty
        super().__init__(plot, **params)
        self.notes = pmui.Alert(severity="info", visible=False, sizing_mode="stretch_width", name="bounds_notes")
        self.state.param.watch(self._draw, [name for name in self.state.param if name not in ("name", "bounds")])
        self._draw()

    def _draw(self, *_):
        state = self.state
        self.source.data = {name: column.to_numpy() for name, column in state.curves().items()}
        summary = state.summary()
        refused = summary["refusal"][summary["refusal"] != ""]
        for name, line in self.lines.items():
            line.visible = name not in refused
        self.delta_mark.location, self.epsilon_mark.location = np.log10(state.delta), state.epsilon
        self.plot.x_range.update(start=0, end=state.epsilon_max)
        self.plot.y_range.start = min(FLOOR, np.log10(state.delta) - 1)
        self.readouts.show(_headline(summary, state), _cards(summary, state))
        reasons = refused.groupby(refused).groups.items()
        notes = " ".join(f"Hidden: {', '.join(names)}, because {_in_symbols(why)}." for why, names in reasons)
        self.notes.param.update(object=notes, visible=bool(notes))
        redraw(self.pane)

    def __panel__(self):
        state = self.state
        presets = [
            pmui.Button(
                label=name,
                variant="outlined",
                size="small",
                description=f"{name}: {_symbols(values)}",
                on_click=lambda _, name=name: state.apply_preset(name),
            )
            for name, values in PRESETS.items()
        ]
        fit_axis = pmui.Button(
            label="Fit the axis",
            variant="outlined",
            size="small",
            description="Choose the ε axis so that every curve crosses your δ.",
            on_click=lambda _: state.fit_axis(),
        )
        controls = pmui.Column(
            pmui.FlexBox(*presets),
            *(log_slider(state, name) for name in ("noise_std", "l2_reg", "smoothness", "lipschitz")),
            pmui.Divider(sizing_mode="stretch_width"),
            *(log_slider(state, name) for name in ("delta", "epsilon", "epsilon_max")),
            fit_axis,
            sizing_mode="stretch_width",
        )
        return self.arrange(controls, self.notes)


def _symbol(name):
    return BoundsState.param[name].label.split()[0]


def _symbols(values):
    return ", ".join(f"{_symbol(name)} = {value:g}" for name, value in values.items())


def _in_symbols(reason):
    for name in ("l2_reg", "smoothness"):
        reason = reason.replace(name, _symbol(name))
    return reason


def _headline(summary, state):
    best, lowest = summary["epsilon"].drop(LOWER_BOUND).idxmin(), summary.loc[LOWER_BOUND, "epsilon"]
    epsilon, ratio = summary.loc[best, ["epsilon", "ratio"]]
    gap = f", <b>{rounded(ratio, up=True)} ×</b> the lower bound {rounded(lowest, up=False)}" if lowest > 0 else ""
    return f"At δ = {state.delta:g} the best proof here, {best}, gives <b>ε = {rounded(epsilon, up=True)}</b>{gap}."


def _cards(summary, state):
    for name, row in summary.iterrows():
        up, color = name != LOWER_BOUND, stroke(name).color
        if row["refusal"]:
            yield Card(name, "–", "does not apply here", color)
            continue
        ratio = f"{rounded(row['ratio'], up=True)} × the lower bound; " if up and np.isfinite(row["ratio"]) else ""
        detail = f"{ratio}δ = {power_of_ten(row['log10_delta'], up=up)} at ε = {state.epsilon:g}"
        yield Card(name, f"ε = {rounded(row['epsilon'], up=up)}", detail, color)
