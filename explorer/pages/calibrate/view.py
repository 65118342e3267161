"""The Calibrate page: the noise and regularisation that a privacy budget allows, and their bound on the risk."""

from functools import partial

import numpy as np
import panel_material_ui as pmui
from bokeh.events import Tap
from bokeh.models import BoxAnnotation, ColumnDataSource, CustomJSTickFormatter, FixedTicker, Label, Range1d

from explorer.interface.background import IncrementalResults
from explorer.interface.controls import TOOLTIP_BELOW, alert, choice, log_slider, switch
from explorer.interface.document import on_document
from explorer.interface.legend import name_only
from explorer.interface.page import PageView
from explorer.interface.plotting import MARK, add_curve, add_mark, curve_figure, redraw
from explorer.interface.readouts import Card, rounded
from explorer.pages.calibrate.computation import CHUNKS, F_RANGE, LABELS, LEAST, PARTS, POINT, compute_part
from explorer.pages.calibrate.state import CalibrateState
from explorer.vocabulary import style

INTRODUCTION = r"""
A privacy budget (ε, δ) can be met with more **noise** σ or with more **regularisation** λ. Each curve, a *frontier*, is
the smallest λ that one bound needs at each σ; every point above it is private too. **Lower and further left is a
tighter bound**; none allows less noise than the Gaussian limit σ_G, the noise of the Gaussian mechanism. Too much of
either costs accuracy: the second figure bounds the excess risk, and the lowest point of a curve (star) is its best
choice. The paper takes σ = 1.3 σ_G. Click a point of a curve, or move f, to choose.

$$\lambda(\sigma) = \min\lbrace\lambda : \delta_{\sigma,\lambda}(\varepsilon) \le \delta\rbrace, \qquad
\mathbb{E} F(\theta_{\text{out}}) - F(\theta^{\ast}) \le
nL\left(\tfrac{\tau}{\lambda} + \sigma_{\text{out}}\sqrt{d}\right) + \frac{d \sigma^2}{4\lambda} +
\frac{\lambda}{4} R^2, \qquad R = \lVert\theta^{\ast}\rVert$$
"""

FASTEST_FIRST = ("hockey_stick", "refined", "renyi", "kifer")  # the slow bound is computed in a queue of its own
DECADES = 5  # of lambda in the figure
RISKS = (0.95, 4.0)  # range of the risk's figure, in units of the least risk
SPANS = {"x": [1, 2, 5], "risk": [1, 1.5, 2, 3, 4, 5, 6, 8]}  # ticks of a decade, where less than two are in view
TICK_LABEL = """
return tick >= 1e5 || tick < 1e-3 ? tick.toExponential().replace('+', '') : String(Number(tick.toPrecision(3)))
"""
LIMIT = "Gaussian limit σ_G"
MARKS = ("name", "noise_std", "f", "l2_reg", "risk", "color", "size")
LARGE, SMALL = 20, 11  # the chosen bound's marks, and the others'


class CalibrateView(PageView):
    """The Calibrate page as a Panel object, for the app and for a notebook cell.

    Parameters
    ----------
    state : CalibrateState or None for a new one
    fit : callable or None; "Fit with these" calls it with what `CalibrateState.fit_parameters` gives, and is not there
        without it
    """

    state_type = CalibrateState
    question = "How much noise and regularisation does a privacy budget need, and what do they cost in accuracy?"
    introduction = INTRODUCTION

    def __init__(self, state=None, *, fit=None, **params):
        self.state, self.fit = state or self.state_type(), fit
        self.parts = IncrementalResults(self._show, queues=2)  # by Question; the slow bound in a queue of its own
        self._make_plots()
        super().__init__(self.frontiers.plot, self.risks.plot, **params)
        for figure in (self.frontiers, self.risks):
            # Bokeh's own events do not run on Panel's document: on_document lets updates that follow reach the page.
            figure.plot.on_event(Tap, lambda event, figure=figure: on_document(partial(self._pick, figure, event)))
        self.notes = alert(name="calibrate_notes")
        self.progress = pmui.LinearProgress(value=0, variant="determinate", visible=False, sizing_mode="stretch_width")
        self.fit_button = pmui.Button(
            label="Fit with these",
            variant="contained",
            description="Fit with these: open the Fit page with this budget, bound, σ and λ.",
            theme_config=TOOLTIP_BELOW,
            on_click=lambda _: self.fit(self.state.fit_parameters()),
        )
        self.least_button = pmui.Button(
            label="To the least risk",
            variant="outlined",
            description="To the least risk: move f to the star of the chosen bound.",
            theme_config=TOOLTIP_BELOW,
            on_click=lambda _: self.state.go_to_least(),
        )
        self.state.param.watch(self._draw, self.state.shared())
        self._draw()

    def _make_plots(self):
        self.points, self.best = (
            ColumnDataSource({column: [] for column in MARKS}, name=f"calibrate_{name}") for name in ("points", "best")
        )
        noise, marks = Range1d(1, 2), {"circle": self.points, "star": self.best}
        self.frontiers = _Figure(
            noise,
            marks,
            name="calibrate",
            column="l2_reg",
            title="Smallest λ for each σ (lower left is a tighter bound)",
            y_label="λ  regularisation",
        )
        self.risks = _Figure(
            noise,
            marks,
            name="calibrate_risk",
            column="risk",
            title="Bound on the excess risk (star: the least)",
            y_label="risk",
        )
        for name, line in self.frontiers.lines.items():
            line.js_link("visible", self.risks.lines[name], "visible")
        self.frontiers.plot.legend.update(location="top_right", click_policy="hide")
        self.risks.plot.legend.visible = False

    def set_projector(self, on):
        """As for every page, and the labels inside the plots."""
        super().set_projector(on)
        for figure in (self.frontiers, self.risks):
            figure.plot.min_border_left = 150 if on else 95  # wide enough for any number: both σ axes are aligned
            for label in figure.labels:
                label.text_font_size = "22px" if on else "15px"

    def _draw(self, *_):
        """Show the parts that are known for the current parameters, and compute the others."""
        state, known = self.state, self.parts.known
        questions = [state.question(name, part) for name in state.names() for part in PARTS]
        kept = {question: known[question] for question in questions if question in known}
        self.parts.restart(kept)
        self._show()
        missing = [question for question in questions if question not in kept]
        quick = [question for question in missing if question.target.bound in FASTEST_FIRST]
        quick.sort(key=lambda question: (question.part != POINT, FASTEST_FIRST.index(question.target.bound)))
        slow = [question for question in missing if question.target.bound not in FASTEST_FIRST]
        self.parts.compute(compute_part, quick, slow)

    def _show(self):
        """Draw what is known for the current parameters; a curve when all of it is."""
        state, known = self.state, self.parts.known
        self.curves = {
            name: state.curve(name, known)
            for name in state.names()
            if all(state.question(name, part) in known for part in range(CHUNKS))
        }
        summary, gaussian = state.summary(known), state.gaussian
        self.points.data = _marks(summary, state, "", gaussian)
        self.best.data = _marks(summary, state, "best_", gaussian)
        for figure in (self.frontiers, self.risks):
            figure.draw(self.curves, gaussian, state.f)
            for name, line in figure.lines.items():
                line.visible = name in state.names()
        name_only(self.plot, state.names())
        self._fit_axes(summary)
        self.readouts.show(_headline(summary, state), _cards(summary, state))
        self.fit_button.disabled = not np.isfinite(summary["l2_reg"].get(state.chosen, np.nan))
        self.least_button.disabled = state.question(state.chosen, LEAST) not in known
        done, total = len(known), len(state.names()) * len(PARTS)
        self.progress.param.update(value=int(100 * done / total), visible=done < total)
        notes = _notes(summary)
        self.notes.param.update(object=notes, visible=bool(notes))
        for pane in self.panes:
            redraw(pane)

    def _fit_axes(self, summary):
        """sigma over F_RANGE in units of sigma_G; lambda over DECADES from below the least; RISKS of the least risk."""
        gaussian, shown = self.state.gaussian, [*self.curves.values()] or [summary]
        self.frontiers.plot.x_range.update(start=F_RANGE[0] * gaussian, end=F_RANGE[1] * gaussian)
        l2_reg, risk = (min(table[column].min() for table in shown) for column in ("l2_reg", "risk"))
        if np.isfinite(l2_reg):
            lowest = np.floor(np.log10(l2_reg / 1.5))
            self.frontiers.plot.y_range.update(start=float(10**lowest), end=float(10 ** (lowest + DECADES)))
            self.risks.plot.y_range.update(start=RISKS[0] * risk, end=RISKS[1] * risk)

    def _pick(self, figure, event):
        if self.curves:
            self.state.pick(figure.column, event.x, event.y, self.curves)

    def __panel__(self):
        state = self.state
        controls = pmui.Column(
            self.preset_buttons(),
            *(log_slider(state, name) for name in ("epsilon", "delta")),
            pmui.Divider(sizing_mode="stretch_width"),
            choice(state, "accountant"),
            log_slider(state, "f"),
            pmui.FlexBox(*([self.fit_button] if self.fit else []), self.least_button),
            pmui.Divider(sizing_mode="stretch_width"),
            *(log_slider(state, name) for name in ("lipschitz", "smoothness", "gradient_tol", "output_noise_std")),
            switch(state, "monotone_loss"),
            pmui.Divider(sizing_mode="stretch_width"),
            *(log_slider(state, name) for name in ("n_records", "dimension", "optimum_norm")),
            sizing_mode="stretch_width",
        )
        return self.arrange(controls, self.progress, self.notes, self.panes[1])


class _Figure:
    """A plot of one column of the frontiers over sigma, with the Gaussian limit, the chosen noise and the marks.

    Parameters
    ----------
    noise : Range1d of sigma
    marks : dict of ColumnDataSource with the columns MARKS, by the shape of the mark
    name, title, y_label : of the plot
    column : "l2_reg" or "risk"

    Attributes
    ----------
    plot, sources, lines : the figure, and by bound the source and the line of its curve
    labels : the texts inside the plot
    """

    def __init__(self, noise, marks, *, name, column, title, y_label):
        self.column = column
        self.plot = plot = curve_figure(
            name=name,
            title=title,
            x_label="σ  noise",
            y_label=y_label,
            x_axis_type="log",
            y_axis_type="log",
            x_range=noise,
            y_range=Range1d(1e2, 1e3),
        )
        for name_of, axis in (("x", plot.xaxis), (column, plot.yaxis)):
            if name_of in SPANS:
                axis.ticker = FixedTicker(ticks=np.outer(10.0 ** np.arange(-6, 15), SPANS[name_of]).ravel().tolist())
                axis.formatter = CustomJSTickFormatter(code=TICK_LABEL)
        self.sources, self.lines = {}, {}
        for key, label in LABELS.items():
            empty = {each: [] for each in ("noise_std", "f", label)}
            self.sources[label] = ColumnDataSource(empty, name=f"{name}_{key}")
            tooltips = [("σ", "@noise_std{0.000}"), ("f", "@f{0.000}"), (y_label.split()[0], f"@{{{label}}}{{0.0000}}")]
            self.lines[label] = add_curve(plot, self.sources[label], "noise_std", label, tooltips)
        for marker, source in marks.items():
            look = {"size": "size", "fill_color": "color", "line_color": None}
            plot.scatter("noise_std", column, source=source, marker=marker, name=f"{source.name}: {column}", **look)
        self._add_limit()

    def _add_limit(self):
        """The Gaussian limit with the infeasible noise below it shaded, the chosen noise, and labels for both."""
        plot = self.plot
        self.infeasible = BoxAnnotation(fill_color=MARK, fill_alpha=0.15, hatch_pattern="/", hatch_color=MARK)
        self.infeasible.update(hatch_alpha=0.4, line_color=None)
        plot.add_layout(self.infeasible)
        self.limit, self.chosen = add_mark(plot, "height"), add_mark(plot, "height")
        self.limit.update(line_dash="solid", line_width=4)
        place = {"y": 8, "y_units": "screen", "text_color": MARK, "text_font_style": "bold"}
        self.labels = (
            Label(x=1, text=LIMIT, angle=np.pi / 2, x_offset=-6, **place),
            Label(x=1, **place),
        )
        for label in self.labels:
            plot.add_layout(label)

    def draw(self, curves, gaussian, f):
        """The curves, DataFrames by label, the limit sigma_G, and the chosen noise f sigma_G."""
        for name, source in self.sources.items():
            curve = curves.get(name)
            columns = {"noise_std": "noise_std", "f": "f", name: self.column}
            source.data = {key: [] if curve is None else curve[column].to_numpy() for key, column in columns.items()}
        self.limit.location = self.infeasible.right = self.labels[0].x = gaussian
        self.chosen.location = self.labels[1].x = f * gaussian
        # not over the curves of the risk, nor over the other label
        self.labels[1].update(text=f"f = {f:.4g}", visible=self.column == "l2_reg" and f >= 1)
        self.labels[1].update(
            **{"text_align": "left", "x_offset": 6} if f < 10 else {"text_align": "right", "x_offset": -6}
        )


def _marks(summary, state, which, gaussian):
    """The columns MARKS: for each bound its point at the chosen noise (which "") or of least risk ("best_")."""
    at = summary[summary[f"{which}risk"].notna()]
    noise = at["best_noise_std"].to_numpy() if which else np.full(len(at), state.f * gaussian)
    return {
        "name": at.index.to_numpy(),
        "noise_std": noise,
        "f": noise / gaussian,
        "l2_reg": at[f"{which}l2_reg"].to_numpy(),
        "risk": at[f"{which}risk"].to_numpy(),
        "color": [style(name).color for name in at.index],
        "size": [LARGE if name == state.chosen else SMALL for name in at.index],
    }


def _needed(f):
    """What f must exceed, rounded up, but for the rounding errors of a bound whose limit is sigma_G, f = 1."""
    return rounded(f * (1 - 1e-7), up=True, digits=4)


def _notes(summary):
    """Which bounds have no point at the chosen noise, and which f they need."""
    at = summary[summary["refusal"] != ""]
    needs = ", ".join(f"{name} f > {_needed(f)}" for name, f in at["least_f"].items())
    return f"With so little noise no λ is large enough. Needed: {needs}." if needs else ""


def _headline(summary, state):
    name, noise = state.chosen, state.f * state.gaussian
    if name not in summary.index:
        return f"At σ = f σ_G = {rounded(noise, up=True)}: being computed."
    row = summary.loc[name]
    if row["refusal"]:
        return (
            f"At σ = f σ_G = {rounded(noise, up=True)}, no λ is large enough by the bound {name}: "
            f"<b>f must exceed {_needed(row['least_f'])}</b>."
        )
    risk, l2_reg = state.settings.risk(noise, row["l2_reg"]), rounded(row["l2_reg"], up=True)
    return (
        f"At σ = f σ_G = {rounded(noise, up=True)}, the bound {name} needs <b>λ = {l2_reg}</b>. "
        f"The excess risk is at most <b>{rounded(row['risk'], up=True)}</b>, "
        f"{rounded(row['risk'] / state.n_records, up=True)} per record. <span class='detail'>Of it, "
        f"{risk.solver:.3g} is due to the output noise and the tolerance τ, {risk.noise:.3g} to the noise σ, "
        f"{risk.regulariser:.3g} to the regularisation λ.</span>"
    )


def _cards(summary, state):
    gaussian = state.gaussian
    for name in state.names():
        color = style(name).color
        if name not in summary.index:
            yield Card(name, "…", "being computed", color)
            continue
        row = summary.loc[name]
        value = "–" if row["refusal"] else f"λ = {rounded(row['l2_reg'], up=True)}"
        at = f"needs f > {_needed(row['least_f'])}; "
        at = at if row["refusal"] else f"risk ≤ {rounded(row['risk'], up=True)}; "
        best = "least risk being computed"
        if np.isfinite(row["best_risk"]):
            noise, l2_reg, risk = (rounded(row[f"best_{each}"], up=True) for each in ("noise_std", "l2_reg", "risk"))
            f = rounded(row["best_noise_std"] / gaussian, up=True)
            best = f"least risk {risk} at σ = {noise} (f = {f}), λ = {l2_reg}"
        yield Card(name, value, at + best, color)
    limit, symbol = LIMIT.rsplit(maxsplit=1)
    yield Card(
        limit, f"{symbol} = {rounded(gaussian, up=False)}", "the Gaussian mechanism’s noise; no bound allows less"
    )
