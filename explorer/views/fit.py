"""The Fit page: Algorithm 1 live, with its certificate, beside a fit without privacy."""

import numpy as np
import panel as pn
import panel_material_ui as pmui
from bokeh.models import ColumnDataSource, Range1d

from explorer.state.fit import FitState, run_fit
from explorer.views.controls import log_slider, number_field
from explorer.views.job import JobRunner
from explorer.views.page import PageView
from explorer.views.plotting import STROKES, add_curve, add_mark, curve_figure, redraw
from explorer.views.readouts import Card, rounded

INTRODUCTION = r"""
**Algorithm 1** learns from 455 breast tumours to tell benign from malignant, and is tested on 114 others. From your ε
and δ it computes how large the random slope b and the regularisation λ must be, draws b once, descends until the
gradient is *verified* to be at most τ, and blurs the coefficients a little. If the gradient does not get there,
**nothing is released**. A demonstration whose seed everyone sees is not a private release.

$$\lVert\nabla J(\tilde\theta) + b\rVert_2 \le \tau, \qquad
\text{release } \tilde\theta + \mathcal{N}(0, \sigma_{\text{out}}^2 I)$$
"""

EMPTY = {"evaluations": [], "gradient norm": []}


class FitView(PageView):
    """The Fit page as a Panel object, for the app and for a notebook cell.

    Parameters
    ----------
    state : FitState or None for a new one
    pool : WorkerPool or None for the one that all sessions of this process share
    """

    state_type = FitState
    question = "Train a private model here and now: what does privacy cost in accuracy?"
    introduction = INTRODUCTION

    def __init__(self, state=None, *, pool=None, **params):
        self.state = state or self.state_type()
        self.source = ColumnDataSource(dict(EMPTY), name="fit_trace")
        plot = curve_figure(
            name="fit",
            title="Below the dotted line τ the fit may be released",
            x_label="gradients of single records",
            y_label="gradient norm",
            y_axis_type="log",
            x_range=Range1d(0, 1),
            y_range=Range1d(1e-3, 1e3),
        )
        tooltips = [("single-record gradients", "@evaluations{0,0}"), ("gradient norm", "@{gradient norm}{0.00e}")]
        add_curve(plot, self.source, "evaluations", "gradient norm", tooltips)
        self.threshold = add_mark(plot, "width")
        plot.legend.visible = False
        super().__init__(plot, **params)
        self.runner = JobRunner(
            self.run,
            label="Train",
            doing="Training",
            cancelled="Cancelled. Nothing was released.",
            failed="The fit failed and released nothing:",
            pool=pool,
        )
        self.state.param.watch(self._forget, self.state.shared())
        self._forget()

    async def run(self, _=None):
        """Fit in a worker process with the current parameters, drawing the gradient norm as it falls."""
        await self.runner.run(run_fit, self.state.arguments(), follow=self._follow, show=self._show)

    def _follow(self, trace):
        """Draw the gradient norm so far; the part of the way to tau, on the logarithmic scale."""
        gradient_tol = self.state.gradient_tol
        evaluations, norms = np.array(trace).T
        self.source.data = {"evaluations": evaluations, "gradient norm": norms}
        self.plot.x_range.end = max(1.05 * evaluations[-1], 1)
        self.plot.y_range.end = 2 * norms[0]
        redraw(self.pane)
        return np.log(norms[0] / norms[-1]) / max(np.log(norms[0] / gradient_tol), 1e-9)

    def _show(self, result):
        self.state.result = result
        self._follow(result.trace.to_numpy().tolist())
        self.runner.say("error", result.refusal)
        self.readouts.show(_headline(result), _cards(result, self.state.gradient_tol))

    def _forget(self, *_):
        """A result is shown only beside the parameters that gave it."""
        self.runner.cancel()
        self.state.result = None
        self.threshold.location = self.state.gradient_tol
        self.source.data = dict(EMPTY)
        self.plot.x_range.update(start=0, end=10_000)
        self.plot.y_range.update(start=self.state.gradient_tol / 10, end=1e3)
        self.runner.say("info", "")
        self.readouts.show("Press <b>Train</b> to fit with these parameters.", [])
        redraw(self.pane)

    def __panel__(self):
        state = self.state
        seed_label = pmui.Typography(state.param.seed.label, variant="body1", margin=(20, 10))
        controls = pmui.Column(
            *(log_slider(state, name) for name in ("epsilon", "delta", "gradient_tol", "output_noise_std")),
            pmui.Row(seed_label, pn.layout.HSpacer(), number_field(state, "seed"), sizing_mode="stretch_width"),
            self.runner.buttons,
            self.runner.progress,
            sizing_mode="stretch_width",
        )
        return self.arrange(controls, self.runner.status)


def _headline(result):
    if result.privacy is None:
        return "<b>No release:</b> the certificate failed."
    points = 100 * (result.non_private_accuracy - result.accuracy)
    cost = f"costs <b>{points:.1f} points</b> of accuracy" if points > 0 else "costs <b>no accuracy</b>"
    return f"(ε, δ) = ({result.privacy.epsilon:g}, {result.privacy.delta:.2g}) {cost} in this draw of the noise."


def _cards(result, gradient_tol):
    evaluations, norm = result.trace.iloc[-1]
    released, blue, red = result.privacy is not None, STROKES["RDP"].color, STROKES["Hockey-stick"].color
    accuracy = f"{result.accuracy:.1%}" if released else "–"
    yield Card("Algorithm 1", accuracy, "of test tumours classified right", blue)
    yield Card("Without privacy", f"{result.non_private_accuracy:.1%}", "logistic regression on the same split")
    yield Card("Always the larger class", f"{result.majority_accuracy:.1%}", "what knowing nothing scores")
    yield Card(
        "Certificate",
        "holds" if released else "void",
        f"gradient norm {norm:.2g} {'≤' if released else '>'} τ = {gradient_tol:g} after {evaluations:,.0f} gradients",
        STROKES["Gaussian lower bound"].color if released else red,
    )
    if released:
        mechanism = result.privacy.mechanism
        noise, regularisation = (rounded(x, up=True) for x in (mechanism.noise_std, mechanism.l2_reg))
        yield Card("Computed for you", f"σ = {noise}", f"noise of the slope, with λ = {regularisation}")
