"""The Compare page: test accuracy of private learners against epsilon, from the study's table and run live."""

import time
from collections import defaultdict
from dataclasses import dataclass, replace
from functools import cache, cached_property
from itertools import groupby
from typing import ClassVar

import numpy as np
import pandas as pd
import param

from explorer import vocabulary
from explorer.datasets import BUILT_IN
from explorer.pages.state import PageState
from explorer.study import (
    DELTA,
    EPSILONS,
    METHODS,
    STANDARD_ERRORS,
    grid,
    load_published,
    load_results,
    paired,
    per_trial,
    run_cells,
    summarise,
)
from explorer.study.results import SHIPPED

ABOUT = {
    "synthetic_l": "10 000 generated records of 40 features, the paper's low-dimensional data.",
    "synthetic_h": "2000 generated records of 2000 features, 10 of which matter: the paper's high-dimensional data.",
    "adult": "45 222 people of the US census of 1994: who earned more than 50 000 dollars? Continuous columns are "
    "divided by the data's own maximum, which no ε covers.",
    "gisette": "7000 images of handwritten digits 4 and 9 in 5000 features.",
    "breast_cancer": "569 tumours, benign or malignant. Columns are standardised by the data's own mean and deviation, "
    "which no ε covers. Not in the paper.",
}
DATASETS = {vocabulary.DATASETS[name]: name for name in ABOUT}
LABELS = vocabulary.labels(vocabulary.METHODS)
_BY_LABEL = vocabulary.keys(vocabulary.METHODS)
# With an axis of learning rates the best of them is taken by accuracy on test records, which no epsilon covers.
HONEST = tuple(name for name, method in METHODS.items() if method.axes == ("epsilon",))

MARGIN, RANGE = f"± {STANDARD_ERRORS:g} standard errors", "lowest to highest trial"

# What is asked of the table, by the name of its readout: the first method against the second.
QUESTIONS = {
    "Tight over the paper's accounting": ("amp_tight", "amp_rdp"),
    "Tight over the paper's, same λ": ("amp_tight_noise", "amp_rdp"),
    "Honest DP-SGD over Algorithm 1": ("dp_sgd_honest_profile", "amp_rdp"),
    "Profile over Rényi, honest DP-SGD": ("dp_sgd_honest_profile", "dp_sgd_honest_rdp"),
    "Dishonest over honest DP-SGD": ("dp_sgd_dishonest", "dp_sgd_honest_rdp"),
}

_HIDDEN = ("amp_hockey_stick", "amp_tight", "output_perturbation")  # until they are chosen
PRESETS = {
    "The paper's": {"methods": ["amp_rdp", "dp_sgd_dishonest", "dp_sgd_honest_rdp", "non_private"]},
    "Tight accounting": {"methods": [name for name in METHODS if name.startswith("amp")]},
    "Honest tuning": {"methods": ["amp_rdp", "amp_tight_noise", "dp_sgd_honest_rdp", "dp_sgd_honest_profile"]},
    "All": {"methods": list(METHODS)},
}

APART = 1.0  # points between a mean and the paper's value beyond which the page names them
CAUSES = {
    ("synthetic_l", "dp_sgd_dishonest"): "no reason is known",
    ("synthetic_l", "dp_sgd_honest_rdp"): "part of it is what a noise √2 times as large would do, as if the clipping "
    "norm √2 of rows with a constant had been counted twice",
    ("synthetic_l", "amp_rdp"): "over random splits",
}


@dataclass(frozen=True)
class Difference:
    """Mean difference of accuracy between two methods on the same splits, and its standard error, both in 0..1; the
    error is NaN where there is one trial, both are where there is none."""

    mean: float
    standard_error: float

    @property
    def clear(self):
        """Whether the difference is more than two of its standard errors from zero."""
        return abs(self.mean) > 2 * self.standard_error


class Results:
    """A table of the study, as by `load_results`, each of whose summaries is computed once."""

    def __init__(self, frame):
        self.frame = frame

    @cached_property
    def summary(self):
        """What `summarise` says of the table."""
        return summarise(self.frame)

    @cached_property
    def _paired(self):
        """Accuracies by trial, ndarrays by (dataset, epsilon), then by method."""
        groups = paired(self.frame).groupby(["dataset", "epsilon"])
        return {key: {method: trials[method].to_numpy() for method in trials} for key, trials in groups}

    def has(self, dataset):
        """Whether there is any result on the dataset."""
        return bool((self.summary["dataset"] == dataset).any())

    def means(self, dataset, epsilon):
        """Mean accuracy at epsilon by method, Series, best first."""
        table = self.summary
        rows = table[(table["dataset"] == dataset) & (table["epsilon"] == epsilon)]
        return rows.set_index("method")["accuracy"].sort_values(ascending=False)

    def difference(self, dataset, epsilon, method, over):
        """The Difference of `method` less `over`, trial by trial, as `explorer.study.gain` has it."""
        trials = self._paired.get((dataset, epsilon), {})
        if not {method, over} <= set(trials):
            return Difference(np.nan, np.nan)
        each = trials[method] - trials[over]
        each = each[~np.isnan(each)]
        if len(each) < 2:
            return Difference(*each, np.nan) if len(each) else Difference(np.nan, np.nan)
        return Difference(float(each.mean()), float(each.std(ddof=1) / np.sqrt(len(each))))


class CompareState(PageState):
    """What is compared and where it is read, what a live run would run, and what live runs gave.

    `stored` are the results to show beside the paper's, those of the package if it has any; put your own in their place
    with CompareState(stored=Results(load_results("study.csv"))).
    """

    presets: ClassVar = PRESETS
    table_names: ClassVar = ("compare", "compare_readouts", "compare_trials")

    stored = param.ClassSelector(
        class_=Results, default=None, allow_None=True, constant=True, doc="The study's table, or None where none is."
    )
    live = param.ClassSelector(
        class_=Results, default=None, allow_None=True, precedence=-1, doc="What live runs gave, on any dataset."
    )

    dataset = param.Selector(
        objects=DATASETS,
        default="synthetic_l",
        label="Dataset",
        doc="The records that are learned from. The harder they are to learn, the more a private ε costs.",
    )
    methods = param.ListSelector(
        objects=_BY_LABEL,
        default=[name for name in METHODS if name not in _HIDDEN],
        label="Methods",
        doc="The curves. All are equally private at equal ε, but for the dishonest one, which promises too much. "
        "Words after the comma: how privacy is accounted for. “Same λ”: the paper's λ, less noise. “λ by risk”: λ from "
        "the bound on the excess risk.",
    )
    band = param.Selector(
        objects=[MARGIN, RANGE],
        default=MARGIN,
        label="Band",
        doc="What is shaded around the mean of the trials.",
    )
    epsilon = param.Selector(
        objects=list(EPSILONS),
        default=0.5,
        label="ε  to read at",
        doc="The privacy budget at which the readouts compare. Smaller is more private and less accurate.",
    )

    live_methods = param.ListSelector(
        objects=_BY_LABEL,
        default=["amp_rdp", "dp_sgd_honest_rdp"],
        label="Methods to run",
        doc="What a live run fits. DP-SGD takes seconds a trial, Algorithm 1 far less.",
    )
    all_epsilons = param.Boolean(
        False,
        label="At all nine ε",
        doc="Run at every ε of the axis instead of the chosen one. As private, nine times the work.",
    )
    trials = param.Integer(
        3,
        bounds=(1, 20),
        label="n  trials",
        doc="Fits of each method at each ε, each with its own noise. More trials narrow the error; privacy is of each.",
    )
    first_trial = param.Integer(
        0,
        bounds=(0, 1000),
        label="t₀  first trial",
        doc="Number of the first trial, which decides split and noise. From 0 a run repeats the stored trials; "
        "from 10 its trials are new. Privacy is the same.",
    )

    def __init__(self, **params):
        super().__init__(**{"stored": _shipped(), **params})

    def source(self):
        """Where the readouts come from: "stored", "live" where the table lacks the dataset, or "" if nowhere."""
        candidates = {"stored": self.stored, "live": self.live}
        return next((name for name, part in candidates.items() if part is not None and part.has(self.dataset)), "")

    def results(self):
        """The Results that the readouts are about, or None."""
        return getattr(self, self.source() or "live") if self.source() else None

    def means(self):
        """Mean accuracies on the dataset, of the stored trials, the live ones, and the paper's.

        Returns
        -------
        DataFrame with columns source ("stored", "live", "paper"), method, label, epsilon (inf if not private), delta,
        trials, accuracy (in 0..1), standard_error, lowest, highest, low and high (the band's ends); NaN where unknown
        """
        parts = [("stored", self.stored and self.stored.summary), ("live", self.live and self.live.summary)]
        parts.append(("paper", _published()))
        tables = [table.assign(source=source) for source, table in parts if table is not None]
        table = pd.concat([each[each["dataset"] == self.dataset].reindex(columns=_MEANS) for each in tables])
        table = table.sort_values(["method", "epsilon"], key=_in_order, kind="stable")
        table["label"] = table["method"].map(LABELS)
        table["standard_error"] = table["margin"] / STANDARD_ERRORS
        table["low"] = table["lowest"] if self.band == RANGE else table["accuracy"] - table["margin"]
        table["high"] = table["highest"] if self.band == RANGE else table["accuracy"] + table["margin"]
        return table[_COLUMNS].reset_index(drop=True)

    def shown(self):
        """The rows of `means` of the chosen methods."""
        table = self.means()
        return table[table["method"].isin(self.methods)].reset_index(drop=True)

    def best(self):
        """The honest method with the highest mean at epsilon.

        Returns
        -------
        (method, accuracy, dict of the Difference by which it beats every other honest method, closest first), or None
        """
        results = self.results()
        means = results.means(self.dataset, self.epsilon) if results else pd.Series(dtype=float)
        honest = means[means.index.isin(HONEST)]
        if honest.empty:
            return None
        first, *others = honest.index
        beaten = {name: results.difference(self.dataset, self.epsilon, first, name) for name in others}
        return first, float(honest.iloc[0]), beaten

    def answers(self):
        """The Difference by question, of `QUESTIONS`, at epsilon; NaN where it cannot be told."""
        results, nothing = self.results(), Difference(np.nan, np.nan)
        return {
            question: results.difference(self.dataset, self.epsilon, *pair) if results else nothing
            for question, pair in QUESTIONS.items()
        }

    def against_the_paper(self):
        """Stored means beside the paper's values on the dataset.

        Returns
        -------
        DataFrame with columns method, epsilon, accuracy, paper (both in 0..1) and points, 100 (accuracy - paper)
        """
        table = self.means().set_index(["method", "epsilon"])
        stored, paper = (table.loc[table["source"] == name, "accuracy"] for name in ("stored", "paper"))
        both = pd.DataFrame({"accuracy": stored, "paper": paper}).dropna()
        return both.assign(points=100 * (both["accuracy"] - both["paper"])).reset_index()

    def remarks(self):
        """What does not agree with the paper, a list of sentences with the numbers of the table; most distant first."""
        both = self.against_the_paper()
        far = both[both["points"].abs() > APART]
        sentences = []
        for row in far.reindex(far["points"].abs().sort_values(ascending=False).index).itertuples():
            cause = CAUSES.get((self.dataset, row.method))
            sentences.append(
                f"{LABELS[row.method]} at ε = {row.epsilon:g}: {100 * row.accuracy:.2f} % here, "
                f"{100 * row.paper:.2f} % in the paper ({signed(row.points, 1)} points{f'; {cause}' if cause else ''})."
            )
        return sentences

    def cells(self):
        """What a live run would run: list of Cell, all rates of a trial together, trial after trial.

        None on data that need files or a network, of which a fit can take minutes.
        """
        if self.dataset not in BUILT_IN:
            return []
        epsilons = EPSILONS if self.all_epsilons else (self.epsilon,)
        planned = grid(dataset=(self.dataset,), method=self.live_methods, epsilon=epsilons, trials=self.trials)
        later = [replace(cell, trial=cell.trial + self.first_trial) for cell in planned]
        return sorted(later, key=lambda cell: cell.trial)

    def add_live(self, frames):
        """Add tables that a live run gave; a cell that was run before has the same result."""
        known = [] if self.live is None else [self.live.frame]
        self.live = Results(pd.concat([*known, *frames]).drop_duplicates("seed", keep="last", ignore_index=True))

    def repeated(self):
        """How many live cells are in the stored table too, and how many of those have another accuracy there."""
        if self.live is None or self.stored is None:
            return 0, 0
        live, stored = (part.frame.set_index("seed")["accuracy"].dropna() for part in (self.live, self.stored))
        both = live.index.intersection(stored.index)
        return len(both), int((live[both] != stored[both]).sum())

    def tables(self):
        """The means, the readouts, and the accuracy of each trial by stored and live runs."""
        parts = {"stored": self.stored, "live": self.live}
        trials = [per_trial(part.frame).assign(source=name) for name, part in parts.items() if part is not None]
        trials = pd.concat(trials) if trials else pd.DataFrame(columns=["source", "dataset", "method"])
        trials = trials[(trials["dataset"] == self.dataset) & trials["method"].isin(self.methods)]
        return dict(zip(self.table_names, (self.shown(), self._readouts(), trials), strict=True))

    def _readouts(self):
        rows = [
            (question, *QUESTIONS[question], self.epsilon, answer.mean, answer.standard_error, answer.clear)
            for question, answer in self.answers().items()
        ]
        if best := self.best():
            rows += [
                ("Best honest method", best[0], other, self.epsilon, gap.mean, gap.standard_error, gap.clear)
                for other, gap in best[2].items()
            ]
        columns = ["question", "method", "over", "epsilon", "difference", "standard_error", "clear"]
        return pd.DataFrame(rows, columns=columns).assign(source=self.source())

    def script(self):
        """Python that computes `means` by "stored", "live" and "paper", and `differences` by pair of methods."""
        live, source = self._live_trials(), self.source()
        stored = self.stored is not None and self.stored.has(self.dataset)
        names = ["load_published"] + ["load_results"] * stored + ["grid", "run_cells"] * bool(live)
        names += ["STANDARD_ERRORS", "gain", "summarise"] * bool(source)
        wanted = {"dataset": self.dataset, "methods": self.methods, "epsilon": self.epsilon}
        most = 1 + max((max(part) for part in live.values()), default=0)
        return "".join(
            [
                _SCRIPT.format(names=", ".join(sorted(names)), **wanted),
                _STORED if stored else "",
                _LIVE.format(wanted=live, trials=most) if live else "",
                _PRINT,
                _ANSWERS.format(source=source, pairs=[*QUESTIONS.values()], epsilon=self.epsilon) if source else "",
            ]
        )

    def _live_trials(self):
        """Trials that were run live on the dataset, lists by (method, epsilon)."""
        if self.live is None:
            return {}
        rows = self.live.frame[self.live.frame["dataset"] == self.dataset]
        parts = rows.groupby(["method", "epsilon"])["trial"]
        return {(method, float(epsilon)): sorted(part.unique().tolist()) for (method, epsilon), part in parts}


_MEANS = ["source", "method", "epsilon", "delta", "trials", "accuracy", "margin", "lowest", "highest"]
_COLUMNS = ["source", "method", "label", "epsilon", "delta", "trials", "accuracy", "standard_error"]
_COLUMNS += ["lowest", "highest", "low", "high"]

_SCRIPT = """\
from explorer.study import {names}

dataset = {dataset!r}
methods = {methods!r}


def chosen(table):
    return table[(table["dataset"] == dataset) & table["method"].isin(methods)]


means = {{"paper": chosen(load_published())}}
"""

_STORED = """\
stored = load_results()
stored = stored[stored["dataset"] == dataset]
means["stored"] = chosen(summarise(stored))
"""

_LIVE = """\
inf = float("inf")
trials = {wanted}
plan = grid(
    dataset=[dataset],
    method=list(dict.fromkeys(method for method, _ in trials)),
    epsilon=sorted({{epsilon for _, epsilon in trials}} - {{inf}}) or [1.0],
    trials={trials},
)
live = run_cells(cell for cell in plan if cell.trial in trials.get((cell.method, cell.epsilon), ()))
means["live"] = chosen(summarise(live))
"""

_PRINT = """
for source, table in means.items():
    print(f"{dataset}, {source}: mean test accuracy by epsilon")
    print(table.pivot(index="method", columns="epsilon", values="accuracy").round(4).to_string(na_rep=""))
"""

_ANSWERS = """
differences = {{}}
for method, over in {pairs}:
    if {{method, over}} <= set({source}["method"]):
        table = gain({source}, method, over=over).set_index("epsilon")
        if {epsilon!r} in table.index:
            mean, error = table.loc[{epsilon!r}, ["gain", "margin"]] / [1, STANDARD_ERRORS]
            differences[method, over] = mean, error
            print(f"{{method}} over {{over}} at epsilon = {epsilon!r}: {{mean:+.5f}} +- {{error:.5f}}")
"""


def run_live(*, cells, report=lambda message: None):
    """Run cells one after the other.

    Parameters
    ----------
    cells : list of Cell, those of a trial of a method together
    report : callable, receives (DataFrame as by `load_results`, seconds) after each trial of a method

    Returns
    -------
    DataFrame of all, as by `load_results`
    """
    tables = []
    for _, trial in groupby(cells, key=_trial):
        start = time.monotonic()
        tables.append(run_cells(trial))
        report((tables[-1], time.monotonic() - start))
    return pd.concat(tables, ignore_index=True)


def part_done(cells, messages):
    """The part of the work on `cells` that is done, in 0..1, by the seconds that trials took; `messages` is what
    `run_live` reported. A method of which none is done counts as long as the mean of all."""
    seconds = defaultdict(list)
    for table, duration in messages:
        seconds[table["method"].iloc[0]].append(duration)
    spent = [duration for part in seconds.values() for duration in part]
    left = [key[0] for key, _ in groupby(cells, key=_trial)][len(messages) :]
    ahead = sum(np.mean(seconds.get(method, spent)) for method in left)
    return float(sum(spent) / (sum(spent) + ahead)) if left else 1.0


def _trial(cell):
    return cell.method, cell.epsilon, cell.trial


def signed(value, digits):
    """A number with its sign, a real minus."""
    return f"{value:+.{digits}f}".replace("-", "−")


def _in_order(column):
    """The methods of a column by their place in the legend; any other column as it is."""
    return column.map(list(LABELS).index) if column.name == "method" else column


@cache
def _published():
    return load_published().assign(delta=DELTA)


def _shipped():
    """The Results of the table in the package, or None; read once, and again when the file has changed."""
    return _read(SHIPPED.stat().st_mtime_ns) if SHIPPED.exists() else None


@cache
def _read(modified):
    return Results(load_results())
