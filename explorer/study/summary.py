"""Means over trials, and paired differences between methods, of a table with one row for each cell."""

import math

import numpy as np
import pandas as pd

KEYS = ["dataset", "method", "epsilon"]
STANDARD_ERRORS = 1.96  # in a margin


def per_trial(results: pd.DataFrame) -> pd.DataFrame:
    """One row for each dataset, method, epsilon and trial: of several learning rates the one with the best accuracy.

    For "dp_sgd_dishonest" this is the choice by test records that is not accounted for. Rows with an error are dropped.
    """
    good = results[results["accuracy"].notna()].reset_index(drop=True)
    best = good.groupby([*KEYS, "delta", "trial"], dropna=False)["accuracy"].idxmax()
    return good.loc[best.sort_values()].reset_index(drop=True)


def summarise(results: pd.DataFrame) -> pd.DataFrame:
    """Mean accuracy over trials.

    Parameters
    ----------
    results : DataFrame as of `load_results`

    Returns
    -------
    DataFrame with columns dataset, method, epsilon, delta, trials (int), accuracy (mean, in 0..1), margin (1.96
    standard errors, NaN for a single trial), lowest, highest (over trials), l2_reg, noise_std,
    noise_multiplier (means), learning_rate (median)
    """
    groups = per_trial(results).groupby([*KEYS, "delta"], dropna=False, sort=False)
    table = groups.agg(
        trials=("trial", "size"),
        accuracy=("accuracy", _mean),
        margin=("accuracy", _margin),
        lowest=("accuracy", "min"),
        highest=("accuracy", "max"),
        l2_reg=("l2_reg", "mean"),
        noise_std=("noise_std", "mean"),
        noise_multiplier=("noise_multiplier", "mean"),
        learning_rate=("learning_rate", "median"),
    )
    return table.reset_index()


def paired(results: pd.DataFrame) -> pd.DataFrame:
    """Accuracy with a row for each dataset, epsilon, delta and trial (the index) and a column for each method.

    Methods in a row have equal (epsilon, delta) and the same split; NaN where there is no result.
    """
    keys = ["dataset", "epsilon", "delta", "trial", "method"]
    return per_trial(results).set_index(keys)["accuracy"].unstack()


def gain(results: pd.DataFrame, method: str, *, over: str) -> pd.DataFrame:
    """Accuracy of `method` minus that of `over` at equal (epsilon, delta), paired by trial and split.

    Returns
    -------
    DataFrame with columns dataset, epsilon, gain (mean difference), margin (1.96 standard errors of it)
    """
    trials = paired(results)
    difference = (trials[method] - trials[over]).dropna().groupby(["dataset", "epsilon"])
    table = difference.agg(gain=_mean, margin=_margin)
    return table.reset_index()


def _mean(values):
    """The correctly rounded mean: every version of pandas prints the same digits."""
    return math.fsum(values) / len(values)


def _margin(values):
    return STANDARD_ERRORS * values.std() / np.sqrt(len(values))
