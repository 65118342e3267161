"""Test accuracy of learners against epsilon: means of stored and live trials, paired differences, live runs."""

import time
from collections import defaultdict
from dataclasses import dataclass, replace
from functools import cache, cached_property
from itertools import groupby

import numpy as np
import pandas as pd

from explorer import vocabulary
from explorer.study import (
    DELTA,
    METHODS,
    STANDARD_ERRORS,
    grid,
    load_published,
    load_results,
    paired,
    run_cells,
    summarise,
)
from explorer.study.results import SHIPPED

LABELS = vocabulary.labels(vocabulary.METHODS)
# Tuning over a grid of learning rates selects the best by accuracy on test records, which no epsilon covers.
HONEST = tuple(name for name, method in METHODS.items() if method.axes == ("epsilon",))
MARGIN, RANGE = f"± {STANDARD_ERRORS:g} standard errors", "lowest to highest trial"  # of the trials, around their mean

# Pairs of methods that readouts compare, by title: the accuracy of the first less that of the second.
QUESTIONS = {
    "Exact over the paper's accounting": ("amp_exact", "amp_rdp"),
    "Exact over the paper's, same λ": ("amp_exact_noise", "amp_rdp"),
    "Honest DP-SGD over Algorithm 1": ("dp_sgd_honest_profile", "amp_rdp"),
    "Profile over Rényi, honest DP-SGD": ("dp_sgd_honest_profile", "dp_sgd_honest_rdp"),
    "Dishonest over honest DP-SGD": ("dp_sgd_dishonest", "dp_sgd_honest_rdp"),
}

_SUMMARY = ["source", "method", "epsilon", "delta", "trials", "accuracy", "margin", "lowest", "highest"]
_MEANS = ["source", "method", "label", "epsilon", "delta", "trials", "accuracy", "standard_error"]
_MEANS += ["lowest", "highest", "low", "high"]


@dataclass(frozen=True)
class Difference:
    """Mean difference of the accuracies of two methods over trials on the same splits.

    Attributes
    ----------
    mean : float in -1..1, or NaN without a trial of both
    standard_error : float, of the mean; NaN with fewer than two trials
    """

    mean: float
    standard_error: float

    @property
    def clear(self):
        """Whether the difference is more than two standard errors from zero."""
        return abs(self.mean) > 2 * self.standard_error


class Results:
    """A table of the study, as by `load_results`; each of its summaries is computed once."""

    def __init__(self, frame):
        self.frame = frame

    @cached_property
    def summary(self):
        """`summarise` of the table."""
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
        """The Difference of `method` less `over`, trial by trial, as in `explorer.study.gain`."""
        trials = self._paired.get((dataset, epsilon), {})
        if not {method, over} <= set(trials):
            return Difference(np.nan, np.nan)
        each = trials[method] - trials[over]
        each = each[~np.isnan(each)]
        if len(each) < 2:
            return Difference(*each, np.nan) if len(each) else Difference(np.nan, np.nan)
        return Difference(float(each.mean()), float(each.std(ddof=1) / np.sqrt(len(each))))


def shipped_results():
    """The Results of the table in the package, or None if it has none; read again only when the file has changed."""
    return _read(SHIPPED.stat().st_mtime_ns) if SHIPPED.exists() else None


def mean_accuracies(*, stored=None, live=None, dataset, methods=tuple(LABELS), band=MARGIN):
    """Mean accuracies on a dataset: of stored trials, of live ones, and those that the paper reports.

    Parameters
    ----------
    stored, live : Results or None
    dataset : str, name in `explorer.datasets.DATASETS`
    methods : sequence of str, names in `explorer.study.METHODS`
    band : MARGIN or RANGE

    Returns
    -------
    DataFrame with columns source ("stored", "live", "paper"), method, label, epsilon (inf if not private), delta,
    trials, accuracy (in 0..1), standard_error, lowest, highest, low and high (ends of the band); NaN where unknown
    """
    summaries = {name: part.summary for name, part in (("stored", stored), ("live", live)) if part is not None}
    tables = [table.assign(source=name) for name, table in (summaries | {"paper": _published()}).items()]
    table = pd.concat([each[each["dataset"] == dataset].reindex(columns=_SUMMARY) for each in tables])
    table = table[table["method"].isin(methods)].sort_values(["method", "epsilon"], key=_in_order, kind="stable")
    table["label"] = table["method"].map(LABELS)
    table["standard_error"] = table["margin"] / STANDARD_ERRORS
    table["low"] = table["lowest"] if band == RANGE else table["accuracy"] - table["margin"]
    table["high"] = table["highest"] if band == RANGE else table["accuracy"] + table["margin"]
    return table[_MEANS].reset_index(drop=True)


def differences(results, *, dataset, epsilon):
    """The Difference by title, of QUESTIONS, at epsilon; NaN where `results`, Results or None, has no such trials."""
    if results is None:
        return dict.fromkeys(QUESTIONS, Difference(np.nan, np.nan))
    return {title: results.difference(dataset, epsilon, *pair) for title, pair in QUESTIONS.items()}


def best_honest(results, *, dataset, epsilon):
    """The honest method with the highest mean at epsilon.

    Returns
    -------
    (method, accuracy, dict of its Difference to every other honest method, closest first); None without results
    """
    means = pd.Series(dtype=float) if results is None else results.means(dataset, epsilon)
    honest = means[means.index.isin(HONEST)]
    if honest.empty:
        return None
    first, *others = honest.index
    gaps = {name: results.difference(dataset, epsilon, first, name) for name in others}
    return first, float(honest.iloc[0]), gaps


def against_the_paper(stored, *, dataset):
    """Means of `stored`, Results or None, beside the values that the paper reports.

    Returns
    -------
    DataFrame with columns method, epsilon, accuracy, paper (both in 0..1) and points, 100 (accuracy - paper)
    """
    table = mean_accuracies(stored=stored, dataset=dataset).set_index(["method", "epsilon"])
    mine, paper = (table.loc[table["source"] == name, "accuracy"] for name in ("stored", "paper"))
    both = pd.DataFrame({"accuracy": mine, "paper": paper}).dropna()
    return both.assign(points=100 * (both["accuracy"] - both["paper"])).reset_index()


def planned_cells(*, dataset, trials):
    """The cells of a live run: trial after trial, all learning rates of a trial together.

    Parameters
    ----------
    dataset : str
    trials : dict of sequences of int >= 0, the numbers of the trials, by (method, epsilon); epsilon has no effect on a
        method that is not private, and may be None

    Returns
    -------
    list of Cell, none twice
    """
    cells = {}
    for (method, epsilon), numbers in trials.items():
        first = grid(dataset=(dataset,), method=(method,), epsilon=(epsilon or 1.0,), trials=1)
        for cell in (replace(each, trial=number) for number in numbers for each in first):
            cells[cell.seed] = cell
    return sorted(cells.values(), key=lambda cell: cell.trial)


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
    """Fraction of the work on `cells` that is done, in 0..1, by the seconds that trials took.

    Parameters
    ----------
    cells : list of Cell
    messages : list of what `run_live` reported; a method without a finished trial is estimated by the mean of all
    """
    seconds = defaultdict(list)
    for table, duration in messages:
        seconds[table["method"].iloc[0]].append(duration)
    spent = [duration for part in seconds.values() for duration in part]
    left = [key[0] for key, _ in groupby(cells, key=_trial)][len(messages) :]
    ahead = sum(np.mean(seconds.get(method, spent)) for method in left)
    return float(sum(spent) / (sum(spent) + ahead)) if left else 1.0


def _trial(cell):
    return cell.method, cell.epsilon, cell.trial


def _in_order(column):
    """The methods of a column by their order in the legend; any other column unchanged."""
    return column.map(list(LABELS).index) if column.name == "method" else column


@cache
def _published():
    return load_published().assign(delta=DELTA)


@cache
def _read(modified):
    return Results(load_results())
