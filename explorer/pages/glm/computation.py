"""Rényi divergences with and without linear structure over the dimension, and one record in one dimension exactly.

The record (x, y) has the loss log cosh(x theta - y), so L = x and beta = x^2; it is added to no records at all.
"""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from explorer import vocabulary
from explorer.accounting import BoundNotApplicable, HockeyStickBound, ObjectivePerturbation
from explorer.accounting.bounds.renyi import non_glm_rdp, normal_rdp, objective_perturbation_rdp
from explorer.learning import LogCosh
from explorer.learning.densities import log_density, log_hockey_stick

GLM, OTHER = (vocabulary.CURVES[key].label for key in ("glm", "not_glm"))
LOWEST = vocabulary.BOUNDS["gaussian"].label
ANALYSES = (GLM, OTHER, LOWEST)
WITHOUT, WITH, RATIO = DENSITIES = tuple(
    vocabulary.CURVES[key].label for key in ("density_without", "density_with", "log_ratio")
)
DIMENSIONS = tuple(np.unique(np.round(np.geomspace(1, 10_000, 33)).astype(int)).tolist())
POINTS = 401  # even steps of theta in the plot; eight times as many for the integrals
WIDTH = 5.0  # standard deviations of the noise that the plot shows
LOSS = LogCosh()  # |f'| < 1 and f'' <= 1


def one_record_mechanism(*, noise_std: float, l2_reg: float, x: float) -> ObjectivePerturbation:
    """The ObjectivePerturbation with L = x and beta = x^2."""
    return ObjectivePerturbation(noise_std=noise_std, l2_reg=l2_reg, lipschitz=x, smoothness=x**2)


def compute_divergences(
    *, noise_std: float, l2_reg: float, x: float, alpha: float, dimensions: Sequence[int] = DIMENSIONS
) -> pd.DataFrame:
    """Rényi divergence of order alpha > 1 by each analysis, over the dimension.

    Returns
    -------
    DataFrame: "d", the dimensions, and a column for each of ANALYSES in nats; GLM and OTHER are nan throughout where
    lambda <= beta, since their theorem does not apply
    """
    mechanism = one_record_mechanism(noise_std=noise_std, l2_reg=l2_reg, x=x)
    s, kappa = mechanism.sensitivity_ratio, mechanism.curvature_ratio
    table = pd.DataFrame({"d": list(dimensions), GLM: np.nan, OTHER: np.nan})
    table[LOWEST] = float(normal_rdp(alpha, sensitivity_ratio=s))
    if _hockey_stick(mechanism) is not None:
        ratios = {"sensitivity_ratio": s, "curvature_ratio": kappa}
        table[GLM] = float(objective_perturbation_rdp(alpha, **ratios))
        table[OTHER] = [float(non_glm_rdp(alpha, dimension=int(d), **ratios)) for d in dimensions]
    return table


def compute_densities(*, noise_std: float, l2_reg: float, x: float, y: float) -> pd.DataFrame:
    """Densities of the released theta without records (Z) and with the record (Z'), and their log-ratio.

    Returns
    -------
    DataFrame: "theta", the two densities WITHOUT and WITH, and RATIO, log p(theta|Z') - log p(theta|Z)
    """
    theta, without, with_ = _log_densities(noise_std=noise_std, l2_reg=l2_reg, x=x, y=y, width=WIDTH, points=POINTS)
    columns = (theta, np.exp(without), np.exp(with_), with_ - without)
    return pd.DataFrame(dict(zip(("theta", *DENSITIES), columns, strict=True)))


def compute_leak(*, noise_std: float, l2_reg: float, x: float, y: float, epsilon: float) -> dict[str, float]:
    """delta of this one record by quadrature of the densities, and the hockey-stick bound on it.

    Returns
    -------
    dict: "largest_ratio", the largest |log-ratio| that `compute_densities` has; "log10_delta" at epsilon, of the worse
    direction (-inf where the log-ratio stays within epsilon); and "log10_bound", nan where the bound does not apply
    """
    record = {"noise_std": noise_std, "l2_reg": l2_reg, "x": x, "y": y}
    theta, without, with_ = _log_densities(**record, width=12, points=8 * POINTS)
    both = [log_hockey_stick(epsilon, theta, *pair) for pair in ((without, with_), (with_, without))]
    bound = _hockey_stick(one_record_mechanism(noise_std=noise_std, l2_reg=l2_reg, x=x))
    return {
        "largest_ratio": float(compute_densities(**record)[RATIO].abs().max()),
        "log10_delta": float(min(max(both), 0.0)) / np.log(10),
        "log10_bound": np.nan if bound is None else float(bound.log_delta(epsilon)) / np.log(10),
    }


def curves_and_readouts(*, noise_std, l2_reg, x, y, alpha, epsilon, dimension):
    """`compute_divergences` at DIMENSIONS, its row (Series) at one dimension, and `compute_leak`: tens of ms in all."""
    mechanism = {"noise_std": noise_std, "l2_reg": l2_reg, "x": x}
    curves = compute_divergences(**mechanism, alpha=alpha)
    row = compute_divergences(**mechanism, alpha=alpha, dimensions=(dimension,)).iloc[0]
    return curves, row, compute_leak(**mechanism, y=y, epsilon=epsilon)


def theta_range(*, noise_std: float, l2_reg: float, x: float, width: float = WIDTH) -> tuple[float, float]:
    """The thetas that noise within `width` standard deviations can give, with or without the record."""
    reach = (width * noise_std + x) / l2_reg
    return -reach, reach


def _hockey_stick(mechanism):
    """The paper's bound, or None where lambda <= beta, under which neither of its theorems applies."""
    try:
        return HockeyStickBound(mechanism)
    except BoundNotApplicable:
        return None


def _log_densities(*, noise_std, l2_reg, x, y, width, points):
    """theta, in finer steps where the record's loss bends, and both log densities."""
    low, high = theta_range(noise_std=noise_std, l2_reg=l2_reg, x=x, width=width)
    bend = (y + np.linspace(-8, 8, points // 2)) / x
    theta = np.unique(np.concatenate([np.linspace(low, high, points), bend[(bend > low) & (bend < high)]]))
    setting = {"loss": LOSS, "l2_reg": l2_reg, "noise_std": noise_std}
    return theta, log_density(theta, records=[], **setting), log_density(theta, records=[(x, y)], **setting)
