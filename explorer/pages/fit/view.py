"""The Fit page: Algorithm 1 run live for many draws of its noise, its certificate, and the effect of b in a plane."""

from html import escape

import panel as pn
import panel_material_ui as pmui

from explorer.interface.controls import alert, choice, labelled_field, limit_active, log_slider, switch
from explorer.interface.exports import picture_buttons
from explorer.interface.job import JobRunner
from explorer.interface.page import PageView, symbol
from explorer.interface.plotting import redraw
from explorer.interface.readouts import Card, percent, rounded
from explorer.pages.fit.computation import run_fit
from explorer.pages.fit.plots import (
    HOLDS,
    MAJORITY,
    MEDIAN,
    PLAIN,
    VOID,
    AccuracyPlot,
    CertificatePlot,
    CoefficientPlot,
    DescentPlot,
    LossPlot,
    PlanePlot,
    set_side,
)
from explorer.pages.fit.state import ACCURACY, CERTIFICATE, SECTIONS, TWO_FEATURES, FitState
from explorer.pages.fit.upload import UploadControl
from explorer.vocabulary import CURVES, DATASETS, style

INTRODUCTION = r"""
**Algorithm 1** trains a linear classifier with an (ε, δ) guarantee for every single record. It computes the noise σ and
the regularisation λ from your ε and δ, adds a random linear term **b**·θ to the objective once, minimises until the
gradient norm is *verified* to be at most τ, and adds a little noise to the coefficients. If the gradient norm stays
above τ, **nothing is released**. Each draw of b gives another model: here you see many of them. This is a
demonstration, not a private release: its seed is public.

$$J(\theta) = \sum_i f(x_i^\top\theta; y_i) + \tfrac{\lambda}{2}\lVert\theta\rVert^2 + b^\top\theta, \quad
b \sim \mathcal{N}(0, \sigma^2 I), \qquad \lVert\nabla J(\tilde\theta)\rVert_2 \le \tau, \qquad
\text{release } \tilde\theta + \mathcal{N}(0, \sigma_{\text{out}}^2 I)$$
"""

TWO_FEATURES_TEXT = (
    "Each draw adds its own b·θ to the objective. That moves the coefficients θ, the normal of the decision line, "
    "along −b: by −b/λ if the penalty were the only other term, by less since the records' losses are convex. Contours "
    "are lines of equal objective value, of draw 1 with its b and without it, by the curvature at the minimum."
)
LARGEST_CHOICE = 200  # features in a drop-down list; a link can choose any
HEIGHTS = {"fit": 480, "fit_certificate": 220}  # pixels, on a desktop screen; of the others 320


class FitView(PageView):
    """The Fit page as a Panel object, for the app and for a notebook cell.

    Parameters
    ----------
    state : FitState or None for a new one
    engine : Engine or None for the one that all sessions of this process share
    """

    state_type = FitState
    question = "How accurate is a model that Algorithm 1 trains with (ε, δ)? Train one, on your own data too."
    introduction = INTRODUCTION

    def __init__(self, state=None, *, engine=None, **params):
        self.state = state or self.state_type()
        self.pictures = {
            ACCURACY: (AccuracyPlot(),),
            TWO_FEATURES: (PlanePlot(), CoefficientPlot()),
            CERTIFICATE: (CertificatePlot(), DescentPlot(), LossPlot()),
        }
        plots = [picture.plot for pictures in self.pictures.values() for picture in pictures]
        super().__init__(*plots, **params)
        self.runner = JobRunner(
            self.run,
            label="Train",
            doing="Training",
            cancelled="Cancelled. Nothing was released.",
            failed="The fit failed and released nothing:",
            explain=self._explain,
            ended=self._ended,
            engine=engine,
        )
        self.remedy = None  # of the last run: the parameter, what it must exceed, the value that the button sets
        self.remedy_button = pmui.Button(variant="outlined", visible=False, on_click=self._take_remedy)
        self.remedy_button.on_click(self.run)
        self.upload = UploadControl(self.state, on_cluster=self.runner.engine_in_use().on_cluster)
        self.notes = alert(name="fit_notes")
        self.plane_note = alert(visible=True)
        self.state.param.watch(self._moved, self.state.inputs())
        self._moved()

    def set_projector(self, on):
        """Large type and thick lines for a projector, or the sizes for a desktop screen."""
        super().set_projector(on)
        for plot in self.plots:
            if plot.frame_width is None:
                plot.height = HEIGHTS.get(plot.name, 320) * (7 if on else 6) // 6
            else:
                set_side(plot, on)

    def run(self, _=None):
        """Run Algorithm 1 in a worker process with the current parameters, showing each draw when it is done."""
        if refusal := self.state.refusal():
            self.runner.say("error", refusal)
            return
        self.remedy_button.visible = False
        self.runner.run(run_fit, self.state.arguments(), follow=self._follow, show=self._show)

    def _explain(self, error):
        """The text of an error; if another f or λ would meet the target, which, and a button that sets it."""
        remedy = self.state.remedy(error)
        if remedy is None:
            return str(error)
        name, least, value = self.remedy = remedy
        letter, other = symbol(self.state, name), {"f": "λ", "l2_reg": "σ"}[name]
        self.remedy_button.param.update(label=f"Train with {letter} = {value:g}", visible=True)
        return (
            f"with {letter} = {getattr(self.state, name):g} no {other} meets this (ε, δ) on these data: "
            f"{letter} must exceed {rounded(least, up=True, digits=4)}."
        )

    def _take_remedy(self, _=None):
        name, _, value = self.remedy
        setattr(self.state, name, value)

    def _ended(self):
        """Remove the draws of a run that was cancelled or failed."""
        if self.runner.job is None:
            self._draw(self.state.result)

    def _follow(self, results):
        """Draw the last result reported; return the fraction of the draws that are done."""
        result, state = results[-1], self.state
        self._draw(result)
        return len(result.draws) / state.draws

    def _show(self, result):
        self.state.result = result
        self._draw(result)
        self.runner.say("error", _refusal(result))
        self._show_numbers(result)

    def _moved(self, *_):
        """Show the result of the current parameters, if there is one; cancel a run with others."""
        self.runner.cancel()
        result, refusal = self.state.result, self.state.refusal()
        self._draw(result)
        self.remedy_button.visible = False
        self.runner.say("warning", refusal)
        if result is None:
            self.notes.visible = False
            self.readouts.show("" if refusal else "Press <b>Train</b> to fit with these parameters.", [])
        else:
            self._show_numbers(result)

    def _show_numbers(self, result):
        """Show the readouts of a FitResult, and what its guarantee does not cover."""
        self.readouts.show(_headline(result, self.state), _cards(result, self.state))
        unaccounted = f"Not covered by (ε, δ): {result.unaccounted}." if result.unaccounted else ""
        self.notes.param.update(object=escape(unaccounted, quote=False), visible=bool(unaccounted))

    def _draw(self, result):
        """Draw a FitResult, or for None only the plots of the parameters."""
        for pictures in self.pictures.values():
            for picture in pictures:
                picture.show(result, self.state)
        plane = None if result is None else result.plane
        self.plane_note.param.update(object=_plane_note(result, self.state), visible=plane is None)
        for pane in self.panes:
            redraw(pane)

    def __panel__(self):
        state = self.state
        controls = pmui.Column(
            choice(state, "dataset"),
            self.upload.pane,
            switch(state, "two_features"),
            _feature_lists(state),
            pmui.Divider(sizing_mode="stretch_width"),
            *(log_slider(state, name) for name in ("epsilon", "delta", "draws")),
            self.runner.buttons,
            self.runner.progress,
            pmui.Divider(sizing_mode="stretch_width"),
            pmui.Column(choice(state, "accountant"), margin=(12, 0, 0, 0), sizing_mode="stretch_width"),
            *(log_slider(state, name) for name in ("gradient_tol", "output_noise_std", "f", "l2_reg", "clip_norm")),
            labelled_field(state, "seed"),
            sizing_mode="stretch_width",
        )
        return self.arrange(controls, self.runner.status, self.remedy_button, self.notes, picture=self._sections())

    def _sections(self):
        """The plots in tabs; which of them is open is a parameter of the state."""
        panes = dict(zip([plot.name for plot in self.plots], self.panes, strict=True))
        columns = []
        for name, pictures in self.pictures.items():
            plots = [picture.plot for picture in pictures]
            shown = [panes[plot.name] for plot in plots]
            if name == TWO_FEATURES:
                shown = [self.plane_note, *_squares(shown), pmui.Typography(TWO_FEATURES_TEXT, variant="body2")]
            column = pmui.Column(*shown, pmui.FlexBox(*picture_buttons(*plots)), sizing_mode="stretch_width")
            columns.append((name, column))
        tabs = pmui.Tabs(*columns, active=SECTIONS.index(self.state.section), sizing_mode="stretch_width")
        limit_active(tabs)
        tabs.param.watch(lambda event: setattr(self.state, "section", SECTIONS[event.new]), "active")
        self.state.param.watch(lambda event: setattr(tabs, "active", SECTIONS.index(event.new)), "section")
        return tabs


def _squares(panes):
    """Plots of fixed size, side by side where they fit; on a narrower screen each scrolls in a box of its own."""
    for pane in panes:
        pane.sizing_mode = "fixed"
    boxes = [pn.Column(pane, sizing_mode="fixed", styles={"max-width": "100%", "overflow-x": "auto"}) for pane in panes]
    return [pmui.FlexBox(*boxes, sizing_mode="stretch_width")]


def _feature_lists(state):
    """Two lists of the features' names, shown while only two features are used."""
    lists = {}
    for name in ("first_feature", "second_feature"):
        parameter = state.param[name]
        lists[name] = pmui.Select(
            label=parameter.label, description=parameter.doc, size="small", sizing_mode="stretch_width"
        )
        lists[name].param.watch(lambda event, name=name: event.new and setattr(state, name, event.new), "value")
    column = pmui.Column(*lists.values(), sizing_mode="stretch_width")

    def follow(*_):
        columns = state.columns()
        column.visible = state.two_features and len(columns) > 2
        options = {text: number for number, text in enumerate(columns[:LARGEST_CHOICE], start=1)}
        for name, each in lists.items():
            number = getattr(state, name)
            each.param.update(options=options, value=number if number in options.values() else None)

    state.param.watch(follow, ["dataset", "two_features", "first_feature", "second_feature", "upload", "class_column"])
    follow()
    return column


def _plane_note(result, state):
    if result is not None:
        return "This plot needs two features and two classes. Switch on <b>Only two features</b>."
    if state.two_features or len(state.columns()) == 2:
        return "Press <b>Train</b> to draw the records and the decision line of each draw."
    return f"Switch on <b>Only two features</b>, or choose the data {DATASETS['two_clouds']}, to draw decision lines."


def _refusal(result):
    refusals = [text for text in result.draws["refusal"] if text]
    if not refusals:
        return ""
    return f"{len(refusals)} of {len(result.draws)} draws released nothing. The first refusal: {refusals[0]}"


def _headline(result, state):
    if not result.released.size:
        return "<b>No release:</b> no draw reached the gradient tolerance τ."
    points = 100 * (result.non_private_accuracy - result.band[1])
    cost = f"costs <b>{points:.1f} points</b> of accuracy" if points > 0 else "costs <b>no accuracy</b>"
    if len(result.draws) == 1:
        return f"(ε, δ) = ({state.epsilon:g}, {state.delta:.2g}) {cost} in this draw of the noise."
    low, _, high = (percent(part, digits=1) for part in result.band)
    return (
        f"(ε, δ) = ({state.epsilon:g}, {state.delta:.2g}) {cost} in the median of {len(result.draws)} draws; "
        f"in 90 % of them {low} to {high} of the test records are classified correctly."
    )


def _cards(result, state):
    low, median, high = (percent(part, digits=1) for part in result.band)
    n, released = len(result.draws), result.released.size
    if released:
        spread = "test accuracy" if n == 1 else f"median test accuracy; 5–95 % of the draws: {low} to {high}"
        yield Card(CURVES["algorithm_1"].label, median, spread, style(MEDIAN).color)
    else:
        yield Card(CURVES["algorithm_1"].label, "–", "nothing was released", style(MEDIAN).color)
    yield Card(
        PLAIN.capitalize(),
        percent(result.non_private_accuracy, digits=1),
        f"logistic regression on the same split of {result.data}",
        style(PLAIN).color,
    )
    yield Card(
        MAJORITY.capitalize(),
        percent(result.majority_accuracy, digits=1),
        "accuracy without any features",
        style(MAJORITY).color,
    )
    worst, sign = result.draws["gradient_norm"].max(), "≤" if released == n else ">"
    yield Card(
        "Certificate",
        "holds" if released == n else "void",
        f"largest gradient norm {worst:.2g} {sign} τ = {state.gradient_tol:g}; "
        f"{result.draws['gradient_evaluations'].median():,.0f} gradients a draw",
        HOLDS if released == n else VOID,
    )
    mechanism = result.plan.mechanism
    noise, regularisation = (rounded(x, up=True) for x in (mechanism.noise_std, mechanism.l2_reg))
    yield Card("Noise for (ε, δ)", f"σ = {noise}", f"of b, with λ = {regularisation}, by {result.plan.bound}")
