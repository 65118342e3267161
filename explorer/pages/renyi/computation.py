"""Rényi divergences of objective perturbation, exact and by each bound, of its two parts, and of DP-SGD.

A divergence is a function of the order alpha >= 1 that returns nats. DP-SGD is a PoissonSubsampledGaussian, or None
where it is not compared.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from explorer import vocabulary
from explorer.accounting import (
    BoundNotApplicable,
    ExactBound,
    ObjectivePerturbation,
    PoissonSubsampledGaussian,
    RefinedBound,
    RenyiBound,
    steepest_order,
)
from explorer.accounting.bounds.renyi import RenyiCurve, half_normal_rdp, linearised_rdp, normal_rdp
from explorer.accounting.protocol import require_l2_reg_above_smoothness

POINTS = 200

NORMAL, HALF_NORMAL, PERTURBATION, LINEARISED, EXACT_REMOVE, EXACT_ADD, DP_SGD = (
    vocabulary.CURVES[key].label
    for key in (
        "normal",
        "half_normal",
        "objective_perturbation",
        "linearised",
        "exact_remove",
        "exact_add",
        "dp_sgd",
    )
)
REFINED = vocabulary.BOUNDS["refined"].label
UPPER_BOUNDS = (PERTURBATION, REFINED, LINEARISED)  # on objective perturbation
EXACT = (EXACT_REMOVE, EXACT_ADD)
NAMES = (NORMAL, HALF_NORMAL, *UPPER_BOUNDS, *EXACT, DP_SGD)

Divergence = Callable[[NDArray], NDArray]


@dataclass(frozen=True)
class SteepestPoint:
    """Where DP-SGD's epsilon grows fastest.

    Attributes
    ----------
    order : float, alpha; nan where nothing is subsampled
    growth : float, d log epsilon / d log alpha there; 1 where nothing is subsampled
    epsilon : float, nats; nan where nothing is subsampled
    """

    order: float
    growth: float
    epsilon: float


def compute_curves(
    mechanism: ObjectivePerturbation, *, alpha_max: float, dp_sgd: PoissonSubsampledGaussian | None = None
) -> pd.DataFrame:
    """Rényi divergence over the orders.

    Parameters
    ----------
    mechanism : ObjectivePerturbation
    alpha_max : float > 1, the largest order
    dp_sgd : PoissonSubsampledGaussian or None

    Returns
    -------
    DataFrame of POINTS rows: "alpha", evenly spaced in log alpha from 1 to alpha_max, and a column of nats for each of
    NAMES: infinity where a bound is infinite, nan throughout where its theorem does not apply or there is no DP-SGD
    """
    alpha, (known, _) = order_axis(alpha_max), divergences(mechanism, dp_sgd=dp_sgd)
    columns = {name: known[name](alpha) if name in known else np.nan for name in NAMES}
    return pd.DataFrame({"alpha": alpha, **columns})


def compute_summary(
    mechanism: ObjectivePerturbation, *, alpha: float, dp_sgd: PoissonSubsampledGaussian | None = None
) -> pd.DataFrame:
    """Rényi divergence at one order.

    Parameters
    ----------
    mechanism : ObjectivePerturbation
    alpha : float >= 1
    dp_sgd : PoissonSubsampledGaussian or None

    Returns
    -------
    DataFrame indexed by name: "epsilon" at alpha (nats), its "ratio" to the normal's, and "refusal", why a theorem
    does not apply (then the numbers are nan) or ""
    """
    known, refused = divergences(mechanism, dp_sgd=dp_sgd)
    names = [name for name in NAMES if name in known or name in refused]
    epsilon = {name: float(known[name](alpha)) if name in known else np.nan for name in names}
    rows = {
        name: {"epsilon": value, "ratio": value / epsilon[NORMAL], "refusal": refused.get(name, "")}
        for name, value in epsilon.items()
    }
    return pd.DataFrame.from_dict(rows, orient="index")


@dataclass(frozen=True)
class Conversion:
    """What the exact Rényi divergences guarantee as (epsilon, delta), beside the exact profile.

    Attributes
    ----------
    converted : float, nats, the epsilon at delta that follows from them at their best order
    exact : float, nats, the epsilon at delta of the mechanism itself
    """

    converted: float
    exact: float


def compute_conversion(mechanism: ObjectivePerturbation, *, delta: float) -> Conversion:
    """The Conversion at this delta, inside (0, 1): some hundredths of a second."""
    bound = ExactBound(mechanism)
    converted = max(float(RenyiBound(RenyiCurve(rdp)).epsilon(delta)) for rdp in (bound.rdp_add, bound.rdp_remove))
    return Conversion(converted, float(bound.epsilon(delta)))


def compute_dp_sgd(dp_sgd: PoissonSubsampledGaussian, *, alpha_max: float) -> tuple[NDArray[np.float64], SteepestPoint]:
    """DP-SGD's column of `compute_curves`, and its `steepest_point`: an integral for each order, tens of ms in all."""
    return RenyiBound(dp_sgd).rdp(order_axis(alpha_max)), steepest_point(dp_sgd)


def steepest_point(dp_sgd: PoissonSubsampledGaussian) -> SteepestPoint:
    """Where DP-SGD's epsilon grows fastest on logarithmic axes; see `explorer.accounting.steepest_order`."""
    order, growth = steepest_order(noise_multiplier=dp_sgd.noise_multiplier, sampling_rate=dp_sgd.sampling_rate)
    epsilon = np.nan if np.isnan(order) else float(RenyiBound(dp_sgd).rdp(order))
    return SteepestPoint(order, growth, epsilon)


def linearised_end(mechanism: ObjectivePerturbation) -> float:
    """The order 1 + 1 / (2 kappa), kappa = beta / lambda, from which on the linearised bound is infinite."""
    return 1 + 1 / (2 * mechanism.curvature_ratio)


def order_axis(alpha_max: float) -> NDArray[np.float64]:
    """The orders of the curves, (POINTS,)."""
    return np.geomspace(1, alpha_max, POINTS)


def divergences(
    mechanism: ObjectivePerturbation, *, dp_sgd: PoissonSubsampledGaussian | None = None
) -> tuple[dict[str, Divergence], dict[str, str]]:
    """Divergences by name, and for those whose theorem does not apply the reason by name."""
    makers = {
        NORMAL: lambda: partial(normal_rdp, sensitivity_ratio=mechanism.sensitivity_ratio),
        HALF_NORMAL: lambda: partial(half_normal_rdp, sensitivity_ratio=mechanism.sensitivity_ratio),
        PERTURBATION: lambda: RenyiBound(mechanism).rdp,
        REFINED: lambda: RefinedBound(mechanism).rdp,
        LINEARISED: lambda: _linearised(mechanism),
        EXACT_REMOVE: lambda: ExactBound(mechanism).rdp_remove,
        EXACT_ADD: lambda: ExactBound(mechanism).rdp_add,
    }
    if dp_sgd is not None:
        makers[DP_SGD] = lambda: RenyiBound(dp_sgd).rdp
    known, refused = {}, {}
    for name, make in makers.items():
        try:
            known[name] = make()
        except BoundNotApplicable as reason:
            refused[name] = str(reason)
    return known, refused


def _linearised(mechanism):
    require_l2_reg_above_smoothness(mechanism)
    ratios = {"sensitivity_ratio": mechanism.sensitivity_ratio, "curvature_ratio": mechanism.curvature_ratio}
    return partial(linearised_rdp, **ratios)
