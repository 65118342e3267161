"""The loss of one record that leaks most at one epsilon in one direction, the noise it shifts, and the bounds on it.

In one dimension and without other records the noise b gives theta = -b / lambda; with the record the same theta needs
the noise T(b) = b + h(b). A `OneRecordLoss` is given by h. "direction" is one of DIRECTIONS: the record is added or
removed; p is the density before, q the one after.
"""

from collections.abc import Callable, Sequence
from functools import lru_cache

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from explorer import vocabulary
from explorer.accounting import (
    AttainingLoss,
    BoundNotApplicable,
    ExactBound,
    GaussianLowerBound,
    HockeyStickBound,
    ObjectivePerturbation,
    OneRecordLoss,
    RefinedBound,
    attaining_loss,
    linear_loss,
)
from explorer.accounting.bounds.one_record_loss import DIRECTIONS
from explorer.accounting.protocol import smallest_epsilon

ADD, REMOVE = DIRECTIONS
HOCKEY_STICK, REFINED, EXACT, GAUSSIAN = NAMES = tuple(
    vocabulary.BOUNDS[key].label for key in ("hockey_stick", "refined", "exact", "gaussian")
)
CLOSED = (HOCKEY_STICK, REFINED, GAUSSIAN)  # in closed form; the other takes milliseconds a number
NO_RECORD, LINEAR, WORST = LOSSES = tuple(
    vocabulary.CURVES[key].label for key in ("no_record", "linear_loss", "worst_case")
)
POINTS = 401  # even steps of the noise's axis
WIDTH = 4.0  # standard deviations of the noise on it, at least
TOLERANCE = 1e-4  # in log delta, of the worst loss: the steps of a finer one cannot be seen
TAIL = 7.0  # beyond the onset of a linear loss's leak, in widths of it: all but a percent


@lru_cache(maxsize=32)
def worst_loss(mechanism: ObjectivePerturbation, *, epsilon: float, direction: str) -> AttainingLoss:
    """The `attaining_loss` within TOLERANCE, cached since a page needs it several times for each redraw."""
    return attaining_loss(mechanism, epsilon=epsilon, direction=direction, tolerance=TOLERANCE)


def compute_curves(
    mechanism: ObjectivePerturbation, *, epsilon: float, direction: str, names: Sequence[str] = LOSSES
) -> dict[str, pd.DataFrame]:
    """The losses of `names`, what they do to the noise, and what they leak.

    Parameters
    ----------
    mechanism : ObjectivePerturbation, of any l2_reg > 0
    epsilon : float > 0, nats
    direction : "add" or "remove"
    names : some of LOSSES

    Returns
    -------
    dict of DataFrame, with a column for each name: "loss", over "theta" = -b / lambda; over "b", `noise_axis`, "map",
    the shift T(b) - b; "privacy loss", log p/q (nats) of the theta that b gives without the record; and "excess",
    (p - e^epsilon q)_+ in 1/b, whose integral is delta at epsilon
    """
    question = {"epsilon": epsilon, "direction": direction}
    b, losses = noise_axis(mechanism, **question, names=names), make_losses(mechanism, **question, names=names)
    theta, none = -b[::-1] / mechanism.l2_reg, {NO_RECORD: np.zeros(b.size)} if NO_RECORD in names else {}
    values = {name: loss.value(theta) for name, loss in losses.items()}
    shifts = {name: loss.shift(b) for name, loss in losses.items()}
    log_ratios = {name: getattr(loss, f"privacy_loss_{direction}")(b) for name, loss in losses.items()}
    return {
        "loss": pd.DataFrame({"theta": theta, **none, **values}),
        "map": pd.DataFrame({"b": b, **none, **shifts}),
        "privacy loss": pd.DataFrame({"b": b, **none, **log_ratios}),
        "excess": pd.DataFrame({"b": b, **{name: _excess(loss, b, **question) for name, loss in losses.items()}}),
    }


def compute_pieces(mechanism: ObjectivePerturbation, *, epsilon: float, direction: str) -> pd.DataFrame:
    """Where the worst loss is linear and where it bends, from left to right.

    Returns
    -------
    DataFrame, a row for each piece: "from" and "to" in theta, "slope from" and "slope to", and "curvature"
    """
    worst = worst_loss(mechanism, epsilon=epsilon, direction=direction)
    kinks, slopes = -np.array(worst.knots)[::-1] / mechanism.l2_reg, -np.array(worst.shifts)[::-1]
    low, high = np.append(-np.inf, kinks), np.append(kinks, np.inf)
    before, after = np.append(slopes[0], slopes), np.append(slopes, slopes[-1])
    columns = {"from": low, "to": high, "slope from": before, "slope to": after}
    return pd.DataFrame({**columns, "curvature": (after - before) / (high - low)})


def compute_summary(mechanism: ObjectivePerturbation, *, epsilon: float, delta: float, direction: str) -> pd.DataFrame:
    """Each bound on what the direction leaks, at one epsilon and at one delta.

    Parameters
    ----------
    mechanism : ObjectivePerturbation
    epsilon : float > 0, nats, where delta is read
    delta : float in (0, 1), where epsilon is read
    direction : "add" or "remove"

    Returns
    -------
    DataFrame indexed by NAMES: "log10_delta" at epsilon, "log10_ratio" of that delta to the exact one, "epsilon" at
    delta, and "refusal", why a bound does not apply (then the numbers are nan) or ""
    """
    profiles, refused = log_delta_profiles(mechanism, direction=direction)
    known = {name: float(smallest_epsilon(profiles[name], delta)) for name in CLOSED if name in profiles}
    between = {"low": known[GAUSSIAN], "high": known[REFINED], "delta": delta}
    known[EXACT] = _crossing(profiles[EXACT], **between)
    log10_delta = {name: float(profile(epsilon)) / np.log(10) for name, profile in profiles.items()}
    table = pd.DataFrame({"log10_delta": log10_delta, "epsilon": known}, index=NAMES)
    table.insert(1, "log10_ratio", table["log10_delta"] - table.loc[EXACT, "log10_delta"])
    return table.assign(refusal=[refused.get(name, "") for name in NAMES])


def compute_noise(mechanism: ObjectivePerturbation, *, epsilon: float, direction: str) -> pd.DataFrame:
    """All that happens to the noise.

    Returns
    -------
    DataFrame: "b", "log density without" the record, and for each loss "T(b), …", "log density with, …",
    "privacy loss, …" and "excess, …" of `compute_curves`
    """
    question = {"epsilon": epsilon, "direction": direction}
    curves = compute_curves(mechanism, **question)
    noise = curves["map"][["b"]].copy()
    for name, loss in make_losses(mechanism, **question).items():
        noise[f"T(b), {name}"] = noise["b"] + curves["map"][name]
        noise[f"log density with, {name}"] = loss.log_density_with(noise["b"])
        noise[f"privacy loss, {name}"] = curves["privacy loss"][name]
        noise[f"excess, {name}"] = curves["excess"][name]
    without = worst_loss(mechanism, **question).log_density_without(noise["b"])
    noise.insert(1, "log density without", without)
    return noise


def compute_all(mechanism, *, epsilon, delta, direction):
    """`compute_curves`, `bends`, `compute_summary` and `worst_loss`, a tuple: tens of milliseconds in all."""
    question = {"epsilon": epsilon, "direction": direction}
    return (
        compute_curves(mechanism, **question),
        bends(mechanism, **question),
        compute_summary(mechanism, delta=delta, **question),
        worst_loss(mechanism, **question),
    )


def make_losses(
    mechanism: ObjectivePerturbation, *, epsilon: float, direction: str, names: Sequence[str] = LOSSES
) -> dict[str, OneRecordLoss]:
    """The losses of `names` by name, without NO_RECORD."""
    makers = {
        LINEAR: lambda: linear_loss(mechanism, direction=direction),
        WORST: lambda: worst_loss(mechanism, epsilon=epsilon, direction=direction),
    }
    return {name: makers[name]() for name in names if name != NO_RECORD}


def log_delta_profiles(
    mechanism: ObjectivePerturbation, *, direction: str
) -> tuple[dict[str, Callable[[NDArray], NDArray]], dict[str, str]]:
    """log delta of the direction as functions of epsilon by bound, and the reason by bound where one does not apply."""
    profiles, refused = {}, {}
    try:
        profiles[HOCKEY_STICK] = HockeyStickBound(mechanism).log_delta
    except BoundNotApplicable as reason:
        refused[HOCKEY_STICK] = str(reason)
    for name, bound in {REFINED: RefinedBound, EXACT: ExactBound}.items():
        profiles[name] = getattr(bound(mechanism), f"log_delta_{direction}")
    return {**profiles, GAUSSIAN: GaussianLowerBound(mechanism).log_delta}, refused


def noise_end(mechanism: ObjectivePerturbation, *, epsilon: float, direction: str) -> float:
    """The largest |b| of `noise_axis`: four standard deviations, or as far out as a linear loss leaks."""
    sigma, onset = mechanism.noise_std, _onset(mechanism, epsilon, direction)
    return float(max(WIDTH * sigma, onset + TAIL * sigma**2 / (sigma + onset)))


def noise_axis(
    mechanism: ObjectivePerturbation, *, epsilon: float, direction: str, names: Sequence[str] = LOSSES
) -> NDArray[np.float64]:
    """Values of b in ascending order: even steps, finer ones where a linear loss begins to leak, and both sides and the
    middle of each piece of the worst loss, if it is among `names`."""
    end = noise_end(mechanism, epsilon=epsilon, direction=direction)
    sigma, onset = mechanism.noise_std, _onset(mechanism, epsilon, direction)
    near = onset + np.geomspace(1e-3, TAIL, 40) * sigma**2 / (sigma + onset)
    parts = [np.linspace(-end, end, POINTS), near, -near, [onset, -onset]]
    if WORST in names:
        knots = np.array(worst_loss(mechanism, epsilon=epsilon, direction=direction).knots)
        parts += [knots, np.nextafter(knots, -np.inf), (knots[1:] + knots[:-1]) / 2]
    noise = np.unique(np.concatenate(parts))
    return noise[np.abs(noise) <= end]


def bends(mechanism: ObjectivePerturbation, *, epsilon: float, direction: str) -> NDArray[np.bool_]:
    """Whether each value of `noise_axis` gives a theta at which the worst loss bends."""
    question = {"epsilon": epsilon, "direction": direction}
    return worst_loss(mechanism, **question).shift_slope(noise_axis(mechanism, **question)) > 0


def _onset(mechanism, epsilon, direction):
    """The b >= 0 from which on a linear loss leaks beyond epsilon: h (b + h/2) = sigma^2 epsilon for "add", and for
    "remove", where the other density lies at b + h, h (b - h/2)."""
    half = mechanism.lipschitz / 2 * (1 if direction == REMOVE else -1)
    return max(epsilon * mechanism.noise_std**2 / mechanism.lipschitz + half, 0.0)


def _excess(loss, noise, *, epsilon, direction):
    p, q = loss.log_density_without(noise), loss.log_density_with(noise)
    p, q = (p, q) if direction == ADD else (q, p)
    return np.exp(p) * -np.expm1(np.minimum(epsilon + q - p, 0))


def _crossing(profile, *, low, high, delta):
    """The epsilon at which the profile falls to delta, or above it by less than a thousandth of high - low.

    The epsilons of the Gaussian and the refined bound enclose that of the exact one, which takes milliseconds a number.
    """
    for _ in range(2):
        epsilon = np.linspace(low, high, 33)
        first = int(np.argmax(profile(epsilon) <= np.log(delta)))
        low, high = epsilon[max(first - 1, 0)], epsilon[first]
    return float(high)
