"""What each bound on the privacy of objective perturbation guarantees: delta over epsilon, and epsilon at one delta.

Bounds are given as a dict by label of callables that make a PrivacyBound from an ObjectivePerturbation, or raise
BoundNotApplicable where their theorem does not hold; BOUNDS has this project's. What is computed is cached by bound,
mechanism and position, since the sessions of one process move the same sliders over the same positions.
"""

from collections.abc import Callable, Mapping
from functools import lru_cache

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from explorer import vocabulary
from explorer.accounting import (
    BoundNotApplicable,
    ExactBound,
    GaussianLowerBound,
    HockeyStickBound,
    KiferBound,
    ObjectivePerturbation,
    PrivacyBound,
    ProfileBound,
    RefinedBound,
    RenyiBound,
)

BoundsByLabel = Mapping[str, Callable[[ObjectivePerturbation], PrivacyBound]]

POINTS = 200

BOUNDS = {
    vocabulary.BOUNDS[key].label: bound
    for key, bound in {
        "kifer": KiferBound,
        "renyi": RenyiBound,
        "hockey_stick": HockeyStickBound,
        "refined": RefinedBound,
        "exact": ExactBound,
        "gaussian": GaussianLowerBound,
    }.items()
}
RDP, HOCKEY_STICK, EXACT, LOWER_BOUND = (
    vocabulary.BOUNDS[key].label for key in ("renyi", "hockey_stick", "exact", "gaussian")
)


def compute_curves(
    mechanism: ObjectivePerturbation, *, epsilon_max: float, bounds: BoundsByLabel = BOUNDS
) -> pd.DataFrame:
    """log10 delta of each bound over epsilon.

    Parameters
    ----------
    mechanism : ObjectivePerturbation
    epsilon_max : float > 0, nats, the end of the epsilon axis
    bounds : dict by label

    Returns
    -------
    DataFrame of POINTS rows: "epsilon", even steps from 0 to epsilon_max, and a column for each bound, nan throughout
    where it does not apply
    """
    columns = curve_columns(mechanism, epsilon_max=epsilon_max, bounds=bounds)
    return pd.DataFrame({"epsilon": epsilon_axis(epsilon_max), **columns})


def compute_summary(
    mechanism: ObjectivePerturbation,
    *,
    epsilon: float,
    delta: float,
    epsilon_max: float,
    bounds: BoundsByLabel = BOUNDS,
) -> pd.DataFrame:
    """Each bound at one delta and at one epsilon.

    Parameters
    ----------
    mechanism : ObjectivePerturbation
    epsilon : float >= 0, nats, where delta is read
    delta : float in (0, 1), where epsilon is read
    epsilon_max : float > 0, nats; within 0..epsilon_max, an epsilon that has to be searched is within 1e-5 epsilon_max
        of the exact one, and never below that of an upper bound nor above that of a lower bound
    bounds : dict by label

    Returns
    -------
    DataFrame indexed by bound: "epsilon" at delta, "ratio" to the Gaussian lower bound's, "excess", the part of this
    epsilon that is beyond the exact bound's, "log10_delta" at epsilon, and "refusal", why a bound does not apply (then
    the numbers are nan) or ""
    """
    rows = summary_rows(mechanism, epsilon=epsilon, delta=delta, epsilon_max=epsilon_max, bounds=bounds)
    return pd.DataFrame.from_dict(rows, orient="index")


def split_epsilon(mechanism: ObjectivePerturbation, *, epsilon: float) -> dict[str, float]:
    """What the epsilon of one of the paper's two bounds is made of.

    Both start from the privacy loss -log(1 - kappa) + s^2/2 + |N(0, s^2)|: a term for the curvature (the Jacobian),
    one for the shift of the noise, and what its spread adds until only delta is left beyond epsilon.

    Parameters
    ----------
    mechanism : ObjectivePerturbation, l2_reg > smoothness
    epsilon : float, nats, of the RDP or the hockey-stick bound

    Returns
    -------
    dict: "jacobian" -log(1 - beta/lambda), "shift" L^2 / (2 sigma^2), and "noise", the rest of epsilon, negative where
    epsilon is smaller than the other two
    """
    jacobian, shift = float(-np.log1p(-mechanism.curvature_ratio)), mechanism.sensitivity_ratio**2 / 2
    return {"jacobian": jacobian, "shift": shift, "noise": epsilon - jacobian - shift}


def applicable_bounds(
    mechanism: ObjectivePerturbation, *, bounds: BoundsByLabel = BOUNDS
) -> tuple[dict[str, PrivacyBound], dict[str, str]]:
    """The bounds of the mechanism by label, and for those that do not apply the reason by label."""
    made = {label: _bound_or_refusal(bound, mechanism) for label, bound in bounds.items()}
    refused = {label: bound for label, bound in made.items() if isinstance(bound, str)}
    return {label: bound for label, bound in made.items() if label not in refused}, refused


def epsilon_axis(epsilon_max: float) -> NDArray[np.float64]:
    """The epsilons of the curves, (POINTS,)."""
    return np.linspace(0, epsilon_max, POINTS)


def curve_columns(
    mechanism: ObjectivePerturbation, *, epsilon_max: float, bounds: BoundsByLabel = BOUNDS
) -> dict[str, NDArray[np.float64]]:
    """`compute_curves` but for epsilon: arrays (POINTS,) by label, in a tenth of the time that a DataFrame takes."""
    return {label: _curve(bound, mechanism, epsilon_max) for label, bound in bounds.items()}


def summary_rows(
    mechanism: ObjectivePerturbation,
    *,
    epsilon: float,
    delta: float,
    epsilon_max: float,
    bounds: BoundsByLabel = BOUNDS,
) -> dict[str, dict]:
    """`compute_summary` as a dict of its rows, dicts."""
    where = {"epsilon": epsilon, "delta": delta, "epsilon_max": epsilon_max}
    lowest = _row(GaussianLowerBound, mechanism, lower=True, **where)["epsilon"]
    exact = _row(ExactBound, mechanism, lower=False, **where)["epsilon"]
    rows = {}
    for label, bound in bounds.items():
        row = _row(bound, mechanism, lower=label == LOWER_BOUND, **where)
        value = row["epsilon"]
        excess = 1 - exact / value if value > 0 and np.isfinite(value) else np.nan
        rows[label] = {"epsilon": value, "ratio": value / lowest if lowest > 0 else np.nan, "excess": excess, **row}
    return rows


@lru_cache(maxsize=1024)
def _bound_or_refusal(bound, mechanism):
    """The bound of the mechanism, or the reason, str, why it does not apply."""
    try:
        return bound(mechanism)
    except BoundNotApplicable as reason:
        return str(reason)


@lru_cache(maxsize=4096)
def _curve(bound, mechanism, epsilon_max):
    """log10 delta over the axis, ndarray (POINTS,), read-only; nan where the bound does not apply."""
    made = _bound_or_refusal(bound, mechanism)
    refused = isinstance(made, str)
    curve = np.full(POINTS, np.nan) if refused else made.log_delta(epsilon_axis(epsilon_max)) / np.log(10)
    curve.setflags(write=False)
    return curve


@lru_cache(maxsize=4096)
def _row(bound, mechanism, *, epsilon, delta, epsilon_max, lower):
    """The bound's row of the summary without the ratio; the dict is shared, so callers must not change it.

    A bound without a faster way of its own has its epsilon searched along its curve.
    """
    made = _bound_or_refusal(bound, mechanism)
    if isinstance(made, str):
        return {"epsilon": np.nan, "log10_delta": np.nan, "refusal": made}
    curve = _curve(bound, mechanism, epsilon_max)
    searched = getattr(type(made), "epsilon", None) is ProfileBound.epsilon
    if searched and curve[0] > np.log10(delta) >= curve[-1]:
        read = _read_along(curve, made, epsilon_max=epsilon_max, epsilon=epsilon, delta=delta, lower=lower)
    else:
        read = float(made.epsilon(delta)), float(made.log_delta(epsilon)) / np.log(10)
    return {"epsilon": read[0], "log10_delta": read[1], "refusal": ""}


def _read_along(curve, bound, *, epsilon_max, epsilon, delta, lower):
    """(epsilon at delta, log10 delta at epsilon) of a bound whose curve crosses delta, from two calls of log_delta.

    A root finder would make a dozen calls. The epsilon is a grid point at which the bound was evaluated, the one on
    the conservative side of the crossing, and within 1e-5 epsilon_max of it.
    """

    def around(grid, log10_delta):
        # The first point at most at delta, and the one before it: also where rounding puts the very first there.
        i = max(1, int(np.argmax(log10_delta <= np.log10(delta))))
        return grid[i - 1], grid[i]

    grid = np.linspace(*around(epsilon_axis(epsilon_max), curve), 65)
    *log10_delta, at_epsilon = bound.log_delta(np.append(grid, epsilon)) / np.log(10)
    grid = np.linspace(*around(grid, np.array(log10_delta)), 65)
    before, after = around(grid, bound.log_delta(grid) / np.log(10))
    return float(before if lower else after), float(at_epsilon)
