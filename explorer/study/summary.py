"""From one row for each cell to means over trials, and what one method gains on another."""

import math

import numpy as np

KEYS = ["dataset", "method", "epsilon"]
STANDARD_ERRORS = 1.96  # in a margin


def per_trial(results):
    """One row for each dataset, method, epsilon and trial: of several learning rates the one with the best accuracy.

    For "dp_sgd_dishonest" that is the choice on test records that makes it dishonest. Rows with an error are left out.
    """
    good = results[results["accuracy"].notna()].reset_index(drop=True)
    best = good.groupby([*KEYS, "delta", "trial"], dropna=False)["accuracy"].idxmax()
    return good.loc[best.sort_values()].reset_index(drop=True)


def summarise(results):
    """Mean accuracy over trials.

    Parameters
    ----------
    results : DataFrame as by `load_results`

    Returns
    -------
    DataFrame with columns dataset, method, epsilon, delta, trials (int), accuracy (mean, in 0..1), margin (1.96 of its
    standard errors, NaN for a single trial), lowest, highest (accuracies of a trial), l2_reg, noise_std,
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


def paired(results):
    """Accuracy with a row for each dataset, epsilon, delta and trial (the index) and a column for each method.

    Methods in a row are at equal (epsilon, delta) and on the same split; NaN where one has no result.
    """
    keys = ["dataset", "epsilon", "delta", "trial", "method"]
    return per_trial(results).set_index(keys)["accuracy"].unstack()


def gain(results, method, *, over):
    """Accuracy of `method` less that of `over` at equal (epsilon, delta), trial by trial on the same splits.

    Returns
    -------
    DataFrame with columns dataset, epsilon, gain (mean difference), margin (1.96 standard errors of it)
    """
    trials = paired(results)
    difference = (trials[method] - trials[over]).dropna().groupby(["dataset", "epsilon"])
    table = difference.agg(gain=_mean, margin=_margin)
    return table.reset_index()


def _mean(values):
    """Correctly rounded, so that every version of pandas prints the same digits."""
    return math.fsum(values) / len(values)


def _margin(values):
    return STANDARD_ERRORS * values.std() / np.sqrt(len(values))
