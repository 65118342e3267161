"""The Fit page: Algorithm 1 live, many draws of its noise, its certificate, and what the noise does in a plane."""

from html import escape

import panel_material_ui as pmui

from explorer.interface.controls import alert, choice, labelled_field, limit_active, log_slider, switch
from explorer.interface.exports import picture_buttons
from explorer.interface.job import JobRunner
from explorer.interface.page import PageView, symbol
from explorer.interface.plotting import redraw
from explorer.interface.readouts import Card, percent, rounded
from explorer.pages.fit.plots import (
    HOLDS,
    MAJORITY,
    MEDIAN,
    PLAIN,
    VOID,
    AccuracyPlot,
    CertificatePlot,
    DescentPlot,
    LossPlot,
    PlanePlot,
    TiltPlot,
    set_side,
)
from explorer.pages.fit.state import ACCURACY, CERTIFICATE, SECTIONS, TWO_FEATURES, FitState, run_fit
from explorer.pages.fit.upload import UploadControl
from explorer.vocabulary import style

INTRODUCTION = r"""
**Algorithm 1** learns to tell classes apart without giving away any one record. From your ε and δ it computes how large
a random slope **b** and the regularisation λ must be, draws b once, and descends until the gradient is *verified* to be
at most τ; then it blurs the coefficients a little. If the gradient does not get there, **nothing is released**. Each
draw of b gives another model: here you see many. A demonstration whose seed everyone sees is not a private release.

$$J(\theta) = \sum_i f(x_i^\top\theta; y_i) + \tfrac{\lambda}{2}\lVert\theta\rVert^2 + b^\top\theta, \quad
b \sim \mathcal{N}(0, \sigma^2 I), \qquad \lVert\nabla J(\tilde\theta)\rVert_2 \le \tau, \qquad
\text{release } \tilde\theta + \mathcal{N}(0, \sigma_{\text{out}}^2 I)$$
"""

TILT_WORDS = (
    "Each draw adds its own b·θ to the objective. That pushes the coefficients θ, which are the normal of the line, "
    "along −b: by −b/λ if only λ resisted, and by less since the records resist too. Level lines are where the "
    "objective of draw 1, with and without its b, is equally high (by its curvature at the minimum)."
)
LARGEST_CHOICE = 200  # features that a list offers; a link may name others
HEIGHTS = {"fit": 480, "fit_certificate": 220}  # for a desk, in pixels; of the others 320


class FitView(PageView):
    """The Fit page as a Panel object, for the app and for a notebook cell.

    Parameters
    ----------
    state : FitState or None for a new one
    engine : Engine or None for the one that all sessions of this process share
    """

    state_type = FitState
    question = "Train a private model here and now: what does privacy cost in accuracy?"
    introduction = INTRODUCTION

    def __init__(self, state=None, *, engine=None, **params):
        self.state = state or self.state_type()
        self.pictures = {
            ACCURACY: (AccuracyPlot(),),
            TWO_FEATURES: (PlanePlot(), TiltPlot()),
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
            ended=self._keep_results,
            engine=engine,
        )
        self.remedy = None  # of the last run: the parameter, what it must exceed, the value that the button takes
        self.remedy_button = pmui.Button(variant="outlined", visible=False, on_click=self._take_remedy)
        self.remedy_button.on_click(self.run)
        self.upload = UploadControl(self.state)
        self.notes = alert(name="fit_notes")
        self.plane_note = alert(visible=True)
        self.state.param.watch(self._forget, self.state.inputs())
        self._forget()

    def set_projector(self, on):
        """Draw for the last row of a lecture room, or for a desk."""
        super().set_projector(on)
        for plot in self.plots:
            if plot.frame_width is None:
                plot.height = HEIGHTS.get(plot.name, 320) * (7 if on else 6) // 6
            else:
                set_side(plot, on)

    def run(self, _=None):
        """Draw, fit and test in a worker process with the current parameters, showing each draw as it is done."""
        if refusal := self.state.refusal():
            self.runner.say("error", refusal)
            return
        self.remedy_button.visible = False
        self.runner.run(run_fit, self.state.arguments(), follow=self._follow, show=self._show)

    def _explain(self, error):
        """What is said of an error; for a target that another f or λ would meet, that, with a button that takes it."""
        remedy = self.state.remedy(error)
        if remedy is None:
            return str(error)
        name, least, value = self.remedy = remedy
        letter, other = symbol(self.state, name), {"f": "λ", "l2_reg": "noise"}[name]
        self.remedy_button.param.update(label=f"Train with {letter} = {value:g}", visible=True)
        return (
            f"with {letter} = {getattr(self.state, name):g} no {other} is enough for this (ε, δ) on these data: "
            f"{letter} must exceed {rounded(least, up=True, digits=4)}."
        )

    def _take_remedy(self, _=None):
        name, _, value = self.remedy
        setattr(self.state, name, value)

    def _keep_results(self):
        """Nothing stays of draws whose run was cancelled or failed."""
        if self.state.result is None and self.runner.job is None:
            self._draw(None)

    def _follow(self, results):
        """Draw what has come so far; the part of the draws that is done."""
        result, state = results[-1], self.state
        self._draw(result)
        return len(result.draws) / state.draws

    def _show(self, result):
        self.state.result = result
        self._draw(result)
        self.runner.say("error", _refusal(result))
        self.readouts.show(_headline(result, self.state), _cards(result, self.state))
        unaccounted = f"Not covered by (ε, δ): {result.unaccounted}." if result.unaccounted else ""
        self.notes.param.update(object=escape(unaccounted, quote=False), visible=bool(unaccounted))

    def _draw(self, result):
        """Draw a FitResult, or for None only what the parameters alone tell."""
        for pictures in self.pictures.values():
            for picture in pictures:
                picture.show(result, self.state)
        plane = None if result is None else result.plane
        self.plane_note.param.update(object=_plane_note(result, self.state), visible=plane is None)
        for pane in self.panes:
            redraw(pane)

    def _forget(self, *_):
        """A result is shown only beside the parameters that gave it."""
        self.runner.cancel()
        self.state.result = None
        self._draw(None)
        self.notes.visible = self.remedy_button.visible = False
        refusal = self.state.refusal()
        self.runner.say("warning", refusal)
        self.readouts.show("" if refusal else "Press <b>Train</b> to fit with these parameters.", [])

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
        """The plots in inner tabs; which one is open is a parameter of the state."""
        panes = dict(zip([plot.name for plot in self.plots], self.panes, strict=True))
        columns = []
        for name, pictures in self.pictures.items():
            plots = [picture.plot for picture in pictures]
            shown = [panes[plot.name] for plot in plots]
            if name == TWO_FEATURES:
                for pane in shown:
                    pane.sizing_mode = "fixed"  # two squares, side by side where there is room
                words = pmui.Typography(TILT_WORDS, variant="body2", margin=(5, 10))
                shown = [self.plane_note, pmui.FlexBox(*shown, sizing_mode="stretch_width"), words]
            column = pmui.Column(*shown, pmui.FlexBox(*picture_buttons(*plots)), sizing_mode="stretch_width")
            columns.append((name, column))
        tabs = pmui.Tabs(*columns, active=SECTIONS.index(self.state.section), sizing_mode="stretch_width")
        limit_active(tabs)
        tabs.param.watch(lambda event: setattr(self.state, "section", SECTIONS[event.new]), "active")
        self.state.param.watch(lambda event: setattr(tabs, "active", SECTIONS.index(event.new)), "section")
        return tabs


def _feature_lists(state):
    """Two lists of the features' names, shown while only two are learned from."""
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
        return "These data have more than two features or classes. Switch on <b>Only two features</b> to see them."
    if state.two_features or len(state.columns()) == 2:
        return "Press <b>Train</b> to see the records and a line for each draw."
    return "Switch on <b>Only two features</b>, or choose the data Two clouds, to see records and decision lines."


def _refusal(result):
    refusals = [text for text in result.draws["refusal"] if text]
    if not refusals:
        return ""
    return f"{len(refusals)} of {len(result.draws)} draws released nothing. The first of them: {refusals[0]}"


def _headline(result, state):
    if not result.released.size:
        return "<b>No release:</b> the certificate failed."
    points = 100 * (result.non_private_accuracy - result.band[1])
    cost = f"costs <b>{points:.1f} points</b> of accuracy" if points > 0 else "costs <b>no accuracy</b>"
    if len(result.draws) == 1:
        return f"(ε, δ) = ({state.epsilon:g}, {state.delta:.2g}) {cost} in this draw of the noise."
    low, _, high = (percent(part, digits=1) for part in result.band)
    return (
        f"(ε, δ) = ({state.epsilon:g}, {state.delta:.2g}) {cost} in the median of {len(result.draws)} draws; "
        f"in most of them {low} to {high} are right."
    )


def _cards(result, state):
    low, median, high = (percent(part, digits=1) for part in result.band)
    n, released = len(result.draws), result.released.size
    if released:
        spread = "of test records are right" if n == 1 else f"5–95 % of the draws: {low} to {high}"
        yield Card("Algorithm 1", median, spread, style(MEDIAN).color)
    else:
        yield Card("Algorithm 1", "–", "nothing was released", style(MEDIAN).color)
    yield Card(
        "Without privacy",
        percent(result.non_private_accuracy, digits=1),
        f"logistic regression on the same split of {result.data}",
        style(PLAIN).color,
    )
    yield Card(
        "Always the larger class",
        percent(result.majority_accuracy, digits=1),
        "what knowing nothing scores",
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
    yield Card(
        "Computed for you", f"σ = {noise}", f"noise of the slope, with λ = {regularisation}; by {result.plan.bound}"
    )
