"""The Solvers page: convergence of eight solvers as they run, theoretical limits, and growth of the work with n."""

from functools import partial

import numpy as np
import panel as pn
import panel_material_ui as pmui
from bokeh.models import ColumnDataSource, HoverTool, Range1d

from explorer.interface.background import LatestOnly
from explorer.interface.controls import labelled_field, log_slider, switch
from explorer.interface.job import JobRunner
from explorer.interface.legend import name_only
from explorer.interface.page import PageView, columns
from explorer.interface.plotting import add_curve, add_mark, curve_figure, redraw
from explorer.interface.readouts import Card, Readouts, power_of_ten
from explorer.pages.solvers.computation import (
    LAWS,
    NAMES,
    SIZES,
    SMOOTHNESS,
    exponents,
    growth_table,
    laws,
    predictions,
    run_growth,
    run_race,
)
from explorer.pages.solvers.state import SolversState
from explorer.vocabulary import style

INTRODUCTION = r"""
Algorithm 1 releases nothing until a solver has reduced the gradient norm of the perturbed objective to τ. How much work
is that? It is counted in **gradients of single records**, which is the same on every machine: one pass over the data is
n of them. **A curve further left means less work**; a solver that reaches the limit first has not converged. With β
the largest curvature of one record's loss (1/4 here), theory bounds the work by these numbers times log(1/τ):

$$\text{gradient descent: } n \cdot \frac{n \beta}{\lambda}, \qquad
\text{accelerated: } n \sqrt{\frac{n \beta}{\lambda}}, \qquad
\text{SAG, SVRG: } \max\left(n, \frac{n \beta}{\lambda}\right), \text{ linear in n once } \lambda \ge \beta$$
"""

GROWTH = f"""
### How the work grows with n

The same comparison on the first {SIZES[0]}, {SIZES[1]}, … {SIZES[-1]:,} of the same records, all else unchanged. On
these axes a power of n is a straight line; the grey lines start at the geometric mean of the solvers that converged
for n = {SIZES[0]}. A triangle marks a solver that reached the limit: it needs more than that.
"""

CAPTION = "Dotted: τ, and the limit. ● converged, × did not converge, ◇ upper bound by the solver’s theorem."
FINISHED, UNFINISHED, THEOREM, MORE = (
    "converged",
    "did not converge",
    "theorem: at most",
    "did not converge: needs more",
)
SHAPES = {FINISHED: "circle", UNFINISHED: "x", THEOREM: "diamond", MORE: "triangle"}
LEGEND_SPACE = 0.3  # above the curves, as a fraction of the decades they span


class SolversView(PageView):
    """The Solvers page as a Panel object, for the app and for a notebook cell.

    Parameters
    ----------
    state : SolversState or None for a new one
    engine : Engine or None for the one that all sessions of this process share
    """

    state_type = SolversState
    question = "How much work does it take to reach τ? Eight solvers compared, with their theoretical limits."
    introduction = INTRODUCTION

    def __init__(self, state=None, *, engine=None, **params):
        self.state = state or self.state_type()
        self.growth_words = pn.pane.Markdown(GROWTH, sizing_mode="stretch_width", max_width=1200)
        self.growth_readouts = Readouts(name="solvers_growth_readouts")
        super().__init__(self._race_plot(), self._growth_plot(), **params)
        self.runner = JobRunner(
            self.run, label="Compare solvers", doing="Running", failed="The comparison failed:", engine=engine
        )
        self.growth_runner = JobRunner(
            self.run_growth, label="Compare at every n", doing="Running", failed="The comparison failed:", engine=engine
        )
        self.slow = LatestOnly()
        names = [name for name in self.state.shared() if name != "growing_l2_reg"]
        self.state.param.watch(self._forget, names)
        self.state.param.watch(self._forget_growth, self.state.shared())
        self._forget()
        self._forget_growth()

    def _race_plot(self):
        self.sources = {
            label: ColumnDataSource(_no_trace(label), name=f"solvers_{name}") for name, label in NAMES.items()
        }
        plot = curve_figure(
            name="solvers",
            title="",
            x_label="gradients of single records",
            y_label="gradient norm",
            x_axis_type="log",
            y_axis_type="log",
            x_range=Range1d(1, 10),
            y_range=Range1d(1e-3, 1e3),
        )
        self.lines = {
            label: add_curve(plot, source, "evaluations", label, _tooltips("gradient norm", f"@{{{label}}}{{0.00e}}"))
            for label, source in self.sources.items()
        }
        self.marks = _add_points(plot, self.lines)
        self.threshold, self.limit = add_mark(plot, "width"), add_mark(plot, "height")
        plot.legend.update(click_policy="hide", location="top_right", ncols=2)
        return plot

    def _growth_plot(self):
        self.growth_source = ColumnDataSource(_no_growth(), name="solvers_growth")
        plot = curve_figure(
            name="solvers_growth",
            title="",
            x_label="n, records",
            y_label="gradients of single records",
            x_axis_type="log",
            y_axis_type="log",
            x_range=Range1d(SIZES[0] / 1.2, SIZES[-1] * 1.2),
            y_range=Range1d(1e3, 1e8),
        )
        self.growth_lines = {}
        for label in (*NAMES.values(), *LAWS):
            tooltips = [("n", "@n{0,0}"), ("evaluations", f"@{{{label}}}{{0,0}}")]
            self.growth_lines[label] = add_curve(plot, self.growth_source, "n", label, tooltips)
        self.growth_marks = _add_points(plot, self.growth_lines)
        plot.xaxis.ticker = list(SIZES)
        plot.legend.update(click_policy="hide", location="top_left", ncols=2)
        return plot

    def set_projector(self, on):
        """Large type and thick lines for a projector, or the sizes for a desktop screen."""
        super().set_projector(on)
        for pane in (self.growth_words, self.growth_readouts):
            pane.styles = dict(self.words.styles)
        self.plots[1].height = self.plot.height

    def run(self, _=None):
        """Run the chosen solvers in a worker process, drawing the gradient norms as they are reported."""
        if self._any_chosen(self.runner):
            self.runner.run(run_race, self.state.race_arguments(), follow=self._follow, show=self._show)

    def run_growth(self, _=None):
        """Run the chosen solvers for every n in a worker process, drawing each count as it is reported."""
        if self._any_chosen(self.growth_runner):
            arguments = self.state.growth_arguments()
            self.growth_runner.run(run_growth, arguments, follow=self._follow_growth, show=self._show_growth)

    def _any_chosen(self, runner):
        if not self.state.solvers():
            runner.say("warning", "Choose at least one solver.")
        return bool(self.state.solvers())

    def _follow(self, rows):
        """Draw the traces so far; return the progress to tau or to the limit, whichever is further."""
        state = self.state
        for label, source in self.sources.items():
            trace = [row[1:] for row in rows if row[0] == label]
            if trace and trace[-1][0] != source.data["evaluations"][-1]:
                evaluations, norms = np.array(trace).T
                source.data = {"evaluations": evaluations, label: norms}
        first, last = {}, {}
        for label, *step in rows:
            first.setdefault(label, step)
            last[label] = step
        tau = state.gradient_tol
        entries = {label: (*step, True if step[1] <= tau else None, "") for label, step in last.items()}
        self._draw(entries, _so_far(entries), [row[2] for row in rows])
        return np.mean([_part(first.get(label), last.get(label), state) for label in self._chosen()])

    def _show(self, race):
        state = self.state
        state.race = race
        self._follow(list(race.traces.itertuples(index=False, name=None)))
        ends = race.traces.groupby("solver")["gradient_norm"].last()
        entries = {
            row.solver: (row.evaluations, ends[row.solver], row.finished, row.message)
            for row in race.standings.itertuples()
        }
        self._draw(entries, _headline(race.standings), race.traces["gradient_norm"])

    def _draw(self, entries, headline, norms):
        """Show each solver's (evaluations, gradient norm, converged or None while it runs, message), dict by name."""
        self.entries, self.headline = entries, headline
        tau = self.state.gradient_tol
        low = max(min(tau / 10, min(norms) / 3), tau / 10_000)  # Newton's last step can fall far below tau
        _frame(self.plot, low, max(*norms, 10 * tau))
        self._draw_marks()

    def _draw_marks(self):
        """Draw where solvers ended and the limits of their theorems, and update the readouts."""
        chosen, tau = self._chosen(), self.state.gradient_tol
        for label, source in self.marks.items():
            count, norm, finished, _ = self.entries.get(label, (0, 0, None, ""))
            points = [] if finished is None else [(count, norm, FINISHED if finished else UNFINISHED)]
            if label in self.predicted and label in chosen:
                points.append((self.predicted[label], tau, THEOREM))
            _set_points(source, points)
        self.readouts.show(self.headline, _cards(chosen, self.entries, self.predicted, self.state))
        redraw(self.pane)

    def _chosen(self):
        return [NAMES[name] for name in self.state.solvers()]

    def _forget(self, *_):
        """Clear the plot: the last comparison was of other parameters. The theorems' limits follow a moment later."""
        state = self.state
        self.runner.cancel()
        self.runner.say("info", "")
        self.predicted = {}
        for label, source in self.sources.items():
            source.data = _no_trace(label)
        _show_only(self.plot, self.lines, self._chosen())
        ratio, limit = state.l2_reg / SMOOTHNESS, state.max_passes * state.n_records
        self.plot.title.text = f"Gradient norm against work (n = {state.n_records:,}, λ = {ratio:.3g} β)"
        self.threshold.location, self.limit.location = state.gradient_tol, limit
        self.plot.x_range.update(start=state.n_records / 1.5, end=2 * limit)
        self._draw({}, "Press <b>Compare solvers</b> to run them. Each starts at θ = 0.", [1e3])
        self.slow.request(partial(predictions, **state.prediction_arguments()), self._predict)

    def _predict(self, predicted):
        self.predicted = predicted
        self._draw_marks()

    def _follow_growth(self, rows):
        self._draw_growth(growth_table(rows))
        return sum(row[0] for row in rows) / (sum(SIZES) * len(self.state.solvers()))

    def _show_growth(self, table):
        self.state.growth = table
        self._draw_growth(table)
        self.growth_readouts.show(*_growth_readouts(table))

    def _draw_growth(self, table):
        columns, law = _no_growth(), laws(table)
        for row in table[table["finished"]].itertuples():
            columns[row.solver][SIZES.index(row.n)] = row.evaluations
        columns.update({name: law[name].to_numpy() for name in LAWS})
        self.growth_source.data = columns
        short = table[~table["finished"].astype(bool)]
        for label, source in self.growth_marks.items():
            mine = short[short["solver"] == label]
            _set_points(source, [(n, count, MORE) for n, count in zip(mine["n"], mine["evaluations"], strict=True)])
        known = np.concatenate([*list(columns.values())[1:], short["evaluations"].to_numpy(float)])
        _frame(self.plots[1], np.nanmin(known) / 2, np.nanmax(known))
        redraw(self.panes[1])

    def _forget_growth(self, *_):
        state = self.state
        self.growth_runner.cancel()
        self.growth_runner.say("info", "")
        self.growth_source.data = _no_growth()
        for source in self.growth_marks.values():
            _set_points(source, [])
        _frame(self.plots[1], 1e3, 1e7)
        _show_only(self.plots[1], self.growth_lines, [*self._chosen(), *LAWS])
        grows = f"{state.l2_reg:.3g} · √(n / {state.n_records:,})" if state.growing_l2_reg else f"{state.l2_reg:.3g}"
        self.plots[1].title.text = f"Work to reach τ = {state.gradient_tol:g} with λ = {grows}"
        self.growth_readouts.show("Press <b>Compare at every n</b> to measure the growth.", [])
        redraw(self.panes[1])

    def __panel__(self):
        state = self.state
        controls = pmui.Column(
            self.preset_buttons(),
            *(log_slider(state, name) for name in ("n_records", "dimension", "elongation", "l2_reg", "noise_std")),
            pmui.Divider(sizing_mode="stretch_width"),
            *(log_slider(state, name) for name in ("gradient_tol", "max_passes")),
            labelled_field(state, "seed"),
            pmui.FlexBox(*(switch(state, name) for name in NAMES)),
            self.runner.buttons,
            self.runner.progress,
            sizing_mode="stretch_width",
        )
        further = pmui.Column(
            switch(state, "growing_l2_reg"),
            self.growth_runner.buttons,
            self.growth_runner.progress,
            sizing_mode="stretch_width",
        )
        picture = pmui.Column(
            self.panes[1], self.growth_runner.status, self.growth_readouts, sizing_mode="stretch_width"
        )
        growth = columns(further, picture)
        race = self.arrange(controls, pmui.Typography(CAPTION, variant="body2"), self.runner.status)
        return pmui.Column(race, self.growth_words, growth, sizing_mode="stretch_width")


def _no_trace(label):
    """One point without coordinates, so that the legend shows a sample of the line."""
    return {"evaluations": [np.nan], label: [np.nan]}


def _tooltips(what, value):
    return [("evaluations", "@evaluations{0,0}"), (what, value)]


def _add_points(plot, lines):
    """Points in the colour of each curve, shown and hidden with it; dict of their sources by its name."""
    sources = {}
    for label, line in lines.items():
        sources[label] = source = ColumnDataSource(name=f"{plot.name}_marks: {label}")
        _set_points(source, [])
        points = plot.scatter(
            "x",
            "y",
            source=source,
            marker="shape",
            size=14,
            color=style(label).color,
            fill_alpha="filled",
            line_width=3,
            visible=line.visible,
        )
        line.js_link("visible", points, "visible")
        tooltips = [("", f"{label}, @kind"), (plot.xaxis.axis_label, "@x{0,0}"), (plot.yaxis.axis_label, "@y{0,0.000}")]
        plot.add_tools(HoverTool(renderers=[points], tooltips=tooltips, visible=False))
    return sources


def _set_points(source, points):
    """Show points, a list of (x, y, kind)."""
    x, y, kinds = zip(*points, strict=True) if points else ((), (), ())
    shapes, filled = [SHAPES[kind] for kind in kinds], [float(kind == FINISHED) for kind in kinds]
    data = {"x": list(x), "y": list(y), "kind": list(kinds), "shape": shapes, "filled": filled}
    if data != source.data:  # a running comparison redraws every 0.1 s
        source.data = data


def _frame(plot, low, high):
    """The y-axis from low to high, with space for the legend."""
    plot.y_range.update(start=float(low), end=float(high * (high / low) ** LEGEND_SPACE))


def _show_only(plot, lines, labels):
    for label, line in lines.items():
        line.visible = label in labels
    name_only(plot, labels)


def _no_growth():
    columns = {label: np.full(len(SIZES), np.nan) for label in (*NAMES.values(), *LAWS)}
    return {"n": np.array(SIZES, float), **columns}


def _part(first, last, state):
    """A solver's progress in 0..1: to tau on the logarithmic scale, or to the limit."""
    if last is None:
        return 0.0
    tau = state.gradient_tol
    if last[1] <= tau:
        return 1.0
    spent = last[0] / (state.max_passes * state.n_records)
    return float(np.clip(max(np.log(first[1] / last[1]) / np.log(first[1] / tau), spent), 0, 1))


def _so_far(entries):
    done = [(label, entry[0]) for label, entry in entries.items() if entry[2]]
    done.sort(key=lambda pair: pair[1])
    return f"Converged so far: {', '.join(f'{label} ({count:,})' for label, count in done) or 'none'}."


def _headline(standings):
    """The order of convergence, in words."""
    done = standings["finished"].astype(bool)
    order = [(row.solver, row.evaluations, row.passes) for row in standings[done].itertuples()]
    text = "No solver converged."
    if order:
        label, count, passes = order[0]
        text = f"<b>{label}</b> needs the least work: <b>{count:,}</b> gradients, {_short(passes)} passes"
        others = ", ".join(f"{label} ({count:,})" for label, count, _ in order[1:])
        text += f", then {others}." if others else "."
    if not done.all():
        text += f" <b>Did not converge:</b> {', '.join(standings['solver'][~done])}."
    return text


def _cards(chosen, entries, predicted, state):
    """A card for each solver, first those that converged, in order of their work."""
    ranked = sorted((label for label in entries if entries[label][2]), key=lambda label: entries[label][0])
    for place, label in enumerate(dict.fromkeys(ranked + chosen), 1):
        count, norm, finished, message = entries.get(label, (0, np.nan, None, ""))
        title, value, detail = label, "–", "not run yet"
        if finished:
            title, value, detail = f"{place}. {label}", f"{count:,}", f"{_short(count / state.n_records)} passes"
        elif finished is False:
            value, detail = UNFINISHED, f"{_why(message)}, after {_short(count / state.n_records)} passes"
        elif label in entries:
            value, detail = "…", f"gradient norm {norm:.2g} after {count:,}"
        yield Card(title, value, detail + _theorem(predicted.get(label), label), style(label).color)


def _short(passes):
    return f"{passes:.3g}" if passes < 1000 else f"{passes:,.0f}"


def _why(message):
    """Why a solver did not converge, in the page's words."""
    return message.replace("max_passes spent at", "limit reached at").removesuffix(".")


def _theorem(count, label):
    """The limit of the solver's theorem, if there is one."""
    if count is None:
        return ""
    condition = {"SAG": " for a step 1/16 as long", "SVRG": " on average"}.get(label, "")
    return f"; theorem{condition}: ≤ {f'{count:,.0f}' if count < 1e7 else power_of_ten(np.log10(count), up=True)}"


def _growth_readouts(table):
    """Headline and cards of the growth of the work with n."""
    slopes = exponents(table)
    cards = []
    for label, rows in table.groupby("solver", sort=False):
        done, short = rows[rows["finished"]], rows[~rows["finished"]]
        value = f"n^{slopes[label]:.2f}" if label in slopes else "–"
        ends = done[["n", "evaluations"]].to_numpy()[[0, -1]] if len(done) else []
        parts = [", ".join(f"{count:,} for n = {n:,}" for n, count in ends)] if len(done) else []
        if len(short):
            parts.append(f"did not converge for n = {', '.join(f'{n:,}' for n in short['n'])}")
        cards.append(Card(label, value, "; ".join(parts), style(label).color))
    if slopes.empty:
        return "Too few solvers converged to estimate the growth.", cards
    steepest, flattest = slopes.idxmax(), slopes.idxmin()
    grow = [f"like <b>n<sup>{slopes[label]:.2f}</sup></b>" for label in (steepest, flattest)]
    between = f"From n = {SIZES[0]} to {SIZES[-1]:,} the work of"
    return f"{between} {steepest} grows fastest, {grow[0]}, and that of {flattest} slowest, {grow[1]}.", cards
