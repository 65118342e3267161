"""The Compare page: accuracy against epsilon, of stored trials, of the paper, and of trials run live."""

import time

import numpy as np
import panel_material_ui as pmui
from bokeh.models import Band, ColumnDataSource, FixedTicker, HoverTool, Range1d

from explorer.compute import Priority
from explorer.interface.controls import alert, choice, choices, labelled_field, step_slider, switch
from explorer.interface.job import JobRunner
from explorer.interface.legend import name_only
from explorer.interface.page import PageView
from explorer.interface.plotting import MARK, add_curve, add_mark, curve_figure, redraw
from explorer.interface.readouts import Card, percent
from explorer.pages.compare.computation import LABELS, QUESTIONS, part_done, run_live
from explorer.pages.compare.state import ABOUT, CompareState, signed
from explorer.study import EPSILONS, METHODS
from explorer.vocabulary import DATASETS, style

INTRODUCTION = r"""
**What does privacy cost in accuracy?** Each curve is a method that trains with an (ε, δ) guarantee; further left is
more private, higher is more accurate. Algorithm 1 has no parameter to tune on the data. DP-SGD needs a learning rate:
**dishonest** tuning takes the best of ten fits and accounts for one, **honest** tuning accounts for all fits that it
tried. (Both select by accuracy on the test records, as in the paper, which favours DP-SGD.)

$$\text{accuracy}(\varepsilon) = \frac{1}{n}\sum_{t=1}^{n}
\Pr_{(x, y) \in \text{test}_t}\bigl[\operatorname{sign}(\theta_t^{\top} x) = y\bigr],
\qquad \theta_t \text{ learned with } (\varepsilon, \delta = 10^{-5})$$
"""

PAPER, LIVE = "the paper's values", "live trials"
POINT = ("epsilon", "accuracy", "low", "high", "color", "text")
RIGHT = 0.05  # the legend lies below the curves from this epsilon on
ROWS = 15  # rows of a legend in two columns that would fill the height of the plot
REDRAW_SECONDS = 1.0  # between redraws: trials can be reported far faster
MANY = 3  # methods that a sentence names individually
ELSEWHERE = "python -m explorer.study --dataset {0} --output {0}.csv"


class CompareView(PageView):
    """The Compare page as a Panel object, for the app and for a notebook cell.

    Parameters
    ----------
    state : CompareState or None for a new one
    engine : Engine or None for the one that all sessions of this process share
    """

    state_type = CompareState
    question = "What does privacy cost in accuracy? Algorithm 1 and DP-SGD, tuned honestly and dishonestly."
    introduction = INTRODUCTION

    def __init__(self, state=None, *, engine=None, **params):
        self.state = state or self.state_type()
        empty = {name: [] for label in LABELS.values() for name in (label, *_further(label))}
        self.source = ColumnDataSource({"epsilon": [], **empty}, name="compare_curves")
        self.paper, self.live = (
            ColumnDataSource({name: [] for name in POINT}, name=f"compare_{name}") for name in ("paper", "live")
        )
        plot = curve_figure(
            name="compare",
            title="",
            x_label="ε at δ = 10⁻⁵ (further left is more private)",
            y_label="test accuracy, %",
            x_axis_type="log",
            x_range=Range1d(EPSILONS[0] / 1.15, EPSILONS[-1] * 1.15),
            y_range=Range1d(0, 100),
        )
        self.drawn = {method: self._add_method(plot, method) for method in LABELS}
        self._add_points(plot)
        self.mark = add_mark(plot, "height")
        plot.xaxis.ticker = FixedTicker(ticks=list(EPSILONS))
        plot.legend.update(click_policy="hide", location="bottom_right", ncols=2, padding=5, background_fill_alpha=0.85)
        super().__init__(plot, **params)
        self.notes = alert(name="compare_notes")
        self.about = pmui.Typography(variant="body2", sizing_mode="stretch_width")
        self.plan = pmui.Typography(variant="body2", sizing_mode="stretch_width")
        self.runner = JobRunner(
            self.run,
            label="Run live",
            doing="Fitting",
            cancelled="Cancelled. Trials that were drawn are kept.",
            failed="The run failed:",
            priority=Priority.LOW,
            engine=engine,
        )
        self.state.param.watch(self._draw, ["dataset", "methods", "band", "live"])
        self.state.param.watch(self._read, ["epsilon"])
        self.state.param.watch(self._show_plan, ["dataset", "epsilon", *_LIVE_PARAMETERS])
        self.state.param.watch(self._cancel, ["dataset"])
        self._draw()
        self._show_plan()

    def _add_method(self, plot, method):
        """A method's line with its band and points; hiding the line hides all three."""
        label = LABELS[method]
        color, (low, high, text) = style(label).color, _further(label)
        line = add_curve(plot, self.source, "epsilon", label, [("", f"@{{{text}}}")])
        band = Band(
            base="epsilon",
            lower=low,
            upper=high,
            source=self.source,
            fill_color=color,
            fill_alpha=0.15,
            line_alpha=0,
            level="underlay",
        )
        plot.add_layout(band)
        drawn = [line, band]
        if METHODS[method].axes:
            options = {"size": 7, "color": color, "legend_label": label}
            drawn.append(plot.scatter("epsilon", label, source=self.source, **options))
        for other in drawn[1:]:
            line.js_link("visible", other, "visible")  # also when the line is hidden by the legend
        return drawn

    def _add_points(self, plot):
        """The paper's values as open squares, live means as stars with error bars, in the methods' colours."""
        paper = plot.scatter(
            "epsilon",
            "accuracy",
            source=self.paper,
            marker="square",
            size=13,
            fill_alpha=0,
            line_color="color",
            line_width=3,
            legend_label=PAPER,
            name=f"compare: {PAPER}",
        )
        plot.segment("epsilon", "low", "epsilon", "high", source=self.live, color="color", line_width=3)
        live = plot.scatter(
            "epsilon",
            "accuracy",
            source=self.live,
            marker="star",
            size=20,
            color="color",
            legend_label=LIVE,
            name=f"compare: {LIVE}",
        )
        plot.add_tools(HoverTool(renderers=[paper, live], tooltips=[("", "@text")], visible=False))

    def run(self, _=None):
        """Run the planned cells in a worker process, drawing trials as they are reported; their methods are shown."""
        cells = self.state.cells()
        if not cells:
            self.runner.say("warning", _why_not(self.state))
            return

        both = {*self.state.methods, *self.state.live_methods}
        self.state.param.update(methods=[name for name in LABELS if name in both])
        shown, last = 0, -np.inf

        def follow(messages):
            nonlocal shown, last
            if time.monotonic() > last + REDRAW_SECONDS:
                self.state.add_live([table for table, _ in messages[shown:]])
                shown, last = len(messages), time.monotonic()
            return part_done(cells, messages)

        self.runner.run(run_live, {"cells": cells}, follow=follow, show=self._show)

    def _show(self, result):
        self.state.add_live([result])
        failed = result[result["error"] != ""]
        if len(failed):
            self.runner.say("error", f"{len(failed)} of {len(result)} cells failed: {failed['error'].iloc[0]}")
            return
        self.runner.say("success", _repeated(self.state))

    def clear_live(self, _=None):
        """Remove all live results."""
        self._cancel()
        self.state.live = None

    def _cancel(self, *_):
        """Stop a running job and remove the message of the last one."""
        self.runner.cancel()
        self.runner.say("info", "")

    def _draw(self, *_):
        state, table = self.state, self.state.shown()
        parts = {name: table[table["source"] == name] for name in ("stored", "live", "paper")}
        self.source.data = _curves(parts["stored"])
        self.paper.data, self.live.data = (_points(parts[name]) for name in ("paper", "live"))
        for method, models in self.drawn.items():
            for model in models:
                model.visible = method in state.methods
        drawn = {LABELS[name] for name in parts["stored"]["method"]}
        drawn |= {name for name, part in ((PAPER, parts["paper"]), (LIVE, parts["live"])) if len(part)}
        name_only(self.plot, drawn)
        self.plot.legend[0].visible = bool(drawn)
        self.plot.title.text = f"{DATASETS[state.dataset]}: mean accuracy, {state.band}"
        self.plot.y_range.update(**_range(table, len(drawn)))
        self.about.object = ABOUT[state.dataset]
        notes = _notes(state)
        self.notes.param.update(object="\n\n".join(notes), visible=bool(notes))
        self._read()

    def _read(self, *_):
        """Show the readouts at the chosen epsilon, and mark it."""
        self.mark.location = self.state.epsilon
        best = self.state.best()
        self.readouts.show(_headline(self.state, best), _cards(self.state, best))
        redraw(self.pane)

    def _show_plan(self, *_):
        cells = self.state.cells()
        self.plan.object = _plan(self.state, cells) if cells else _why_not(self.state)

    def __panel__(self):
        state = self.state
        clear = pmui.Button(label="Clear live", variant="text", on_click=self.clear_live)
        controls = pmui.Column(
            choice(state, "dataset"),
            self.about,
            self.preset_buttons(),
            choices(state, "methods"),
            choice(state, "band"),
            step_slider(state, "epsilon"),
            pmui.Divider(sizing_mode="stretch_width"),
            pmui.Typography("Run trials live", variant="subtitle1"),
            choices(state, "live_methods"),
            switch(state, "all_epsilons"),
            labelled_field(state, "trials"),
            labelled_field(state, "first_trial"),
            self.plan,
            pmui.Row(self.runner.buttons, clear),
            self.runner.progress,
            self.runner.status,
            sizing_mode="stretch_width",
        )
        return self.arrange(controls, self.notes)


_LIVE_PARAMETERS = ["live_methods", "all_epsilons", "trials", "first_trial"]


def _further(label):
    return f"{label} low", f"{label} high", f"{label} text"


def _curves(table):
    """Columns of the plot in percent, over all epsilons; nan where there is no result."""
    columns = {"epsilon": np.array(EPSILONS)}
    for method, label in LABELS.items():
        rows = table[table["method"] == method].drop_duplicates("epsilon").set_index("epsilon")
        not_private = np.inf in rows.index  # the same accuracy at every epsilon
        rows = rows.reindex([np.inf] * len(EPSILONS) if not_private else list(EPSILONS))
        low, high, text = _further(label)
        columns[label] = 100 * rows["accuracy"].to_numpy(float)
        columns[low], columns[high] = (100 * rows[end].to_numpy(float) for end in ("low", "high"))
        columns[text] = [_tooltip(row) for row in rows.itertuples()]
    return columns


def _points(table):
    """Columns of single points in percent; those that are not private are drawn at the largest epsilon.

    The first point is NaN, so that the source is never empty: Bokeh (3.9) takes the legend's colour from the first
    point, and raises an error if there was none when the plot was first drawn.
    """
    epsilon = table["epsilon"].replace(np.inf, EPSILONS[-1])
    columns = {name: 100 * table[name].to_numpy(float) for name in ("accuracy", "low", "high")}
    columns = {name: np.insert(values, 0, np.nan) for name, values in {"epsilon": epsilon, **columns}.items()}
    color = [MARK, *(style(label).color for label in table["label"])]
    text = ["", *(f"{row.label}: {_tooltip(row)}" for row in table.itertuples())]
    return {**columns, "color": color, "text": text}


def _tooltip(row):
    """The tooltip of a mean."""
    if not np.isfinite(row.accuracy):
        return ""
    return f"{percent(row.accuracy)}, {_trials(row) if np.isfinite(row.trials) else 'in the paper'}"


def _trials(row):
    """The number of trials of a mean, and its standard error."""
    if row.trials == 1:
        return "one trial"
    return f"mean of {row.trials:.0f} trials, ± {100 * row.standard_error:.2f} standard error"


def _range(table, entries):
    """Ends of the y-axis: everything shown, and space for the legend at the bottom right."""
    ends = 100 * table[["accuracy", "low", "high"]].to_numpy(float)
    if not np.isfinite(ends).any():
        return {"start": 40, "end": 100}
    low, high = np.nanmin(ends) - 1, min(np.nanmax(ends) + 1, 100)
    part = np.ceil(entries / 2) / ROWS + 0.03
    right = np.nanmin(100 * table.loc[table["epsilon"] >= RIGHT, ["accuracy", "low"]].to_numpy(float), initial=high)
    return {"start": float(min(low, (right - part * high) / (1 - part))), "end": float(high)}


def _error(difference):
    """The standard error of a difference in words, and whether the difference is clear."""
    if not np.isfinite(difference.standard_error):
        return "in one trial, which has no standard error"
    verdict = "clear" if difference.clear else "no clear difference"
    return f"± {100 * difference.standard_error:.2f} standard error: {verdict}"


def _notes(state):
    """Notes on the data of the plot, a list of Markdown paragraphs."""
    notes = []
    if state.stored is None:
        notes.append(
            "**This package has no stored results yet**: `make study` computes them. The plot shows the paper's values."
        )
    elif state.source() != "stored":
        command = ELSEWHERE.format(state.dataset)
        notes.append(f"The stored table has no results on {DATASETS[state.dataset]}; `{command}` computes them.")
    if remarks := state.remarks():
        notes.append("**Different from the paper** by more than a percentage point: " + " ".join(remarks))
    return notes


def _why_not(state):
    if not state.live_methods:
        return "Choose a method to run."
    command = ELSEWHERE.format(state.dataset)
    return f"{DATASETS[state.dataset]} cannot be run live, since a fit can take minutes. Run `{command}`."


def _plan(state, cells):
    trials = {(cell.method, cell.epsilon, cell.trial) for cell in cells}
    more = f", {len(cells)} fits" if len(cells) > len(trials) else ""
    return f"{len(trials)} trials on {DATASETS[state.dataset]}{more}, in a worker process."


def _repeated(state):
    both, other = state.repeated()
    if not both:
        return "Done. The stored table has none of the live trials."
    if not other:
        return f"Done. The stored table has {both} of the live fits, with exactly the same accuracy."
    return f"Done. The stored table has {both} of the live fits, {other} of them with another accuracy."


def _headline(state, best):
    if best is None:
        return f"No results on {DATASETS[state.dataset]} at ε = {state.epsilon:g} yet. Press <b>Run live</b>."
    method, accuracy, beaten = best
    where = "stored trials" if state.source() == "stored" else "live trials"
    text = f"At ε = {state.epsilon:g} on {DATASETS[state.dataset]} ({where}) the best honest method is "
    text += f"<b>{LABELS[method]}: {percent(accuracy)}</b>"
    close = [LABELS[name] for name, gap in beaten.items() if not gap.clear]
    if not close:
        return f"{text}, clearly above all other honest methods." if beaten else f"{text}."
    few = "; ".join(close) if len(close) <= MANY else f"{len(close)} of the {len(beaten)} others"
    return f"{text}; no clear difference from {few}."


def _cards(state, best):
    if best is not None:
        yield from _leaders(state, *best)
    for title, gap in state.differences().items():
        if np.isfinite(gap.mean):
            method, over = QUESTIONS[title]
            detail = f"points {_error(gap)} ({LABELS[method]} over {LABELS[over]})"
            yield Card(title, signed(100 * gap.mean, 2), detail, style(LABELS[method]).color)
    yield from _live_cards(state)


def _leaders(state, method, accuracy, beaten):
    """The best honest method and the second, and the accuracy without privacy."""
    detail = LABELS[method]
    if beaten:
        second, gap = next(iter(beaten.items()))
        detail += f"; {signed(100 * gap.mean, 2)} points over {LABELS[second]} {_error(gap)}"
    yield Card("Best honest method", percent(accuracy), detail, style(LABELS[method]).color)
    free = state.results().means(state.dataset, np.inf)
    if len(free):
        cost = 100 * (free.iloc[0] - accuracy)
        label = LABELS["non_private"]
        yield Card(
            label, percent(free.iloc[0]), f"{signed(cost, 2)} points over the best honest method", style(label).color
        )


def _live_cards(state):
    """The live means at epsilon, with the stored ones."""
    if state.live is None:
        return
    table = state.means()
    table = table[table["epsilon"].isin([state.epsilon, np.inf])]
    stored = table[table["source"] == "stored"].set_index("method")
    for row in table[table["source"] == "live"].itertuples():
        detail = _trials(row)
        if row.method in stored.index:
            other = stored.loc[row.method]
            detail += f"; stored: {percent(other['accuracy'])}, {_trials(other)}"
        yield Card(f"Live: {row.label}", percent(row.accuracy), detail, style(row.label).color)
