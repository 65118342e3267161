"""What k runs of objective perturbation on the same data cost together, by each bound.

RenyiBound adds up Rényi divergences. Others compose privacy loss distributions (PLDs): the privacy profile of k runs
is delta_k(epsilon) = E[1 - exp(epsilon - (omega_1 + ... + omega_k))]_+ for independent privacy losses omega_i, computed
as an interval that contains it. For the exact analysis of one run that is an upper bound on k, as is its Rényi
divergence, and the smaller one counts; what an adversary who chooses each run's loss after the earlier outcomes really
gains is in `AdaptiveCompositionBound`, again as an interval.
"""

from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import pandas as pd

from explorer.accounting import (
    AdaptiveCompositionBound,
    CompositionBound,
    DirectedPLDs,
    ExactBound,
    Gaussian,
    GaussianLowerBound,
    HockeyStickBound,
    ObjectivePerturbation,
    PoissonSubsampledGaussian,
    RefinedBound,
    RenyiBound,
    hockey_stick_plds,
    poisson_subsampled_plds,
    profile_plds,
    refined_plds,
)
from explorer.vocabulary import BOUNDS

RENYI, ADAPTIVE, LOWER = "renyi", "adaptive", "gaussian"
BY_PLD = ("hockey_stick", "refined", "exact")  # composed by privacy loss distributions
SHOWN = (RENYI, *BY_PLD, ADAPTIVE, LOWER)  # keys of the bounds, in the order of the legend
LABELS = {key: BOUNDS[key].label for key in SHOWN}
MOST_ADAPTIVE = 64  # runs; the recursion takes some ten seconds for so many
WIDTH = 0.01  # of the interval of epsilon by the recursion, relative to the Gaussian lower bound
ACCURACY = 0.02  # relative width of the interval of delta; that of epsilon is some thousandths of this


class Reading(NamedTuple):
    """Epsilon at delta and log10 delta at epsilon after k runs, each as the two ends of an interval.

    The exact value for the bound in question lies between the ends: a guarantee is the high end, a lower bound the low
    end. Where the value is known in closed form, both ends are equal.
    """

    epsilon_low: float
    epsilon: float
    log10_delta_low: float
    log10_delta: float


class Question(NamedTuple):
    """Everything that a Reading depends on.

    Attributes
    ----------
    bound : str, one of SHOWN
    mechanism : ObjectivePerturbation, of a single run
    sampling_rate : float in (0, 1], probability of each record to be in a run (Poisson sampling); 1 for all records
    runs : int >= 1, k
    delta : float inside (0, 1), at which epsilon is given
    epsilon : float > 0, nats, at which delta is given
    """

    bound: str
    mechanism: ObjectivePerturbation
    sampling_rate: float
    runs: int
    delta: float
    epsilon: float


@lru_cache(maxsize=10_000)
def read(question: Question) -> Reading:
    """The Reading of one bound after `question.runs` runs.

    Raises
    ------
    ValueError if the bound's theorem does not hold for the mechanism, for RENYI and ADAPTIVE at a sampling_rate below
    1, and for ADAPTIVE with more than MOST_ADAPTIVE runs.
    """
    bound, mechanism, sampling_rate, runs, delta, epsilon = question
    if bound in (RENYI, ADAPTIVE) and sampling_rate < 1:
        raise ValueError(f"sampling_rate must be 1 for the bound {bound!r}: got sampling_rate={sampling_rate!r}")
    if bound == ADAPTIVE:
        return _adaptive(mechanism, runs, delta, epsilon)
    if bound == RENYI:
        return _closed_form(RenyiBound(mechanism, uses=runs), delta, epsilon)
    if bound == LOWER and sampling_rate == 1:
        return _closed_form(_gaussian(mechanism, runs), delta, epsilon)
    plds = single_run_plds(bound, mechanism, sampling_rate)
    composed = CompositionBound(mechanism, uses=runs, plds=lambda _: plds, accuracy=ACCURACY)
    return _interval(composed, delta, epsilon)


def compose(
    mechanism: ObjectivePerturbation,
    *,
    bounds: Iterable[str],
    runs: Iterable[int],
    delta: float,
    epsilon: float,
    sampling_rate: float = 1.0,
) -> pd.DataFrame:
    """Readings of several bounds for several numbers of runs.

    Parameters
    ----------
    mechanism, sampling_rate, delta, epsilon : as in `Question`
    bounds : iterable of str, those of SHOWN that apply to the mechanism; ADAPTIVE has no rows beyond MOST_ADAPTIVE runs
    runs : iterable of int >= 1

    Returns
    -------
    DataFrame, a row for each number of runs and bound: "runs", "bound" (its label) and the fields of `Reading`
    """
    bounds = list(bounds)
    rows = [
        (k, LABELS[bound], *read(Question(bound, mechanism, sampling_rate, k, delta, epsilon)))
        for k in runs
        for bound in bounds
        if k <= most_runs(bound)
    ]
    return pd.DataFrame(rows, columns=["runs", "bound", *Reading._fields])


def most_runs(bound: str) -> float:
    """The largest number of runs for which a bound is computed."""
    return MOST_ADAPTIVE if bound == ADAPTIVE else np.inf


@lru_cache(maxsize=64)
def single_run_plds(bound: str, mechanism: ObjectivePerturbation, sampling_rate: float) -> DirectedPLDs:
    """The DirectedPLDs of one run, by a bound of BY_PLD or LOWER.

    They are shared by all k, so that the range of each profile is searched once. With a linear loss, objective
    perturbation on a sample is the Gaussian mechanism on a sample: LOWER.
    """
    if bound == LOWER:
        noise = mechanism.noise_std / mechanism.lipschitz
        return refined_plds(PoissonSubsampledGaussian(noise_multiplier=noise, sampling_rate=sampling_rate, steps=1))
    if sampling_rate == 1:
        if bound == "exact":
            return profile_plds(mechanism, bound=ExactBound)
        return {"hockey_stick": hockey_stick_plds, "refined": refined_plds}[bound](mechanism)
    add, remove = _profiles(bound, mechanism)
    return poisson_subsampled_plds(add, remove, sampling_rate=sampling_rate)


def _profiles(bound, mechanism):
    """log delta of "add" and "remove" for one run on all records, at every real epsilon."""
    if bound == "hockey_stick":  # the profile of the paper's dominating pair, which serves both directions
        profile = HockeyStickBound(mechanism).log_delta
        return profile, profile
    directed = {"refined": RefinedBound, "exact": ExactBound}[bound](mechanism)
    return directed.log_delta_add, directed.log_delta_remove


def _gaussian(mechanism, runs):
    """The Gaussian lower bound on k runs."""
    return GaussianLowerBound(Gaussian(noise_std=mechanism.noise_std, sensitivity=mechanism.lipschitz * np.sqrt(runs)))


def _adaptive(mechanism, runs, delta, epsilon):
    if runs > MOST_ADAPTIVE:
        raise ValueError(f"runs must be at most {MOST_ADAPTIVE} for the bound {ADAPTIVE!r}: got runs={runs!r}")
    width = max(WIDTH * float(_gaussian(mechanism, runs).epsilon(delta)), 1e-4)
    return _interval(AdaptiveCompositionBound(mechanism, uses=runs, delta=delta, width=width), delta, epsilon)


def _interval(bound, delta, epsilon):
    log10_delta = (float(end) / np.log(10) for end in bound.log_delta_interval(epsilon))
    return Reading(*map(float, bound.epsilon_interval(delta)), *log10_delta)


def _closed_form(bound, delta, epsilon):
    at_delta, at_epsilon = float(bound.epsilon(delta)), float(bound.log_delta(epsilon)) / np.log(10)
    return Reading(at_delta, at_delta, at_epsilon, at_epsilon)
