"""Privacy loss distributions of the Gaussian mechanism and of objective perturbation, what lies beyond epsilon, and the
start-up gap between them.

The half-normal mechanism is the paper's theorem without its curvature term: the distribution s^2/2 + |N(0, s^2)|.
"""

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from explorer import vocabulary
from explorer.accounting import BoundNotApplicable, HalfNormalPLD, NormalPLD, ObjectivePerturbation, dominating_pld

NORMAL, HALF_NORMAL, PERTURBATION = NAMES = tuple(
    vocabulary.CURVES[key].label for key in ("normal", "half_normal_mechanism", "objective_perturbation")
)
GAP, SHIFT = (vocabulary.CURVES[key].label for key in ("start_up_gap", "shift"))
POINTS = 201  # even steps of the axis
LEFT = 0.6  # the axis of losses goes this part of its right end to the left of zero


def compute_densities(
    mechanism: ObjectivePerturbation, *, loss_max: float, epsilon: float, logarithmic: bool = False
) -> pd.DataFrame:
    """Densities of the privacy loss, or log10 of them.

    Parameters
    ----------
    mechanism : ObjectivePerturbation
    loss_max : float > 0, nats, the right end of the axis of losses
    epsilon : float, nats, one of the losses
    logarithmic : bool, whether log10 of the densities is asked for

    Returns
    -------
    DataFrame: "loss" in nats, `loss_axis`, and a column for each of NAMES in 1/nats, or log10 of that (-inf where the
    density is 0); nan throughout where the theorem does not apply
    """
    (known, _), loss = privacy_loss_distributions(mechanism), loss_axis(mechanism, loss_max=loss_max, epsilon=epsilon)
    logs = {name: known[name].log_density(loss) if name in known else np.nan for name in NAMES}
    columns = {name: log / np.log(10) if logarithmic else np.exp(log) for name, log in logs.items()}
    return pd.DataFrame({"loss": loss, **columns})


def compute_summary(mechanism: ObjectivePerturbation, *, epsilon: float) -> pd.DataFrame:
    """What of each distribution lies beyond epsilon (nats).

    Returns
    -------
    DataFrame indexed by NAMES: "start", the smallest loss in nats (-inf for the normal), "log10_tail" of
    Pr[loss > epsilon], "log10_delta" of delta at epsilon, "log10_ratio" of that delta to the normal's, and "refusal",
    why the theorem does not apply (then the numbers are nan) or ""
    """
    known, refused = privacy_loss_distributions(mechanism)
    rows = {}
    for name in NAMES:
        row = dict.fromkeys(("start", "log10_tail", "log10_delta"), np.nan)
        if name in known:
            row = {"start": getattr(known[name], "start", -np.inf)}
            row["log10_tail"] = float(known[name].log_tail(epsilon)) / np.log(10)
            row["log10_delta"] = float(known[name].log_delta(epsilon)) / np.log(10)
        rows[name] = {**row, "refusal": refused.get(name, "")}
    table = pd.DataFrame.from_dict(rows, orient="index")
    table.insert(3, "log10_ratio", table["log10_delta"] - table.loc[NORMAL, "log10_delta"])
    return table


def compute_gap(mechanism: ObjectivePerturbation, *, l2_reg_range: tuple[float, float]) -> pd.DataFrame:
    """The start-up gap -log(1 - beta/lambda) + s^2/2 over lambda, for every lambda of a range that exceeds beta.

    Parameters
    ----------
    mechanism : ObjectivePerturbation, of any l2_reg
    l2_reg_range : pair of floats, the smallest and the largest lambda

    Returns
    -------
    DataFrame: "l2_reg", and in nats the columns GAP and SHIFT, its part s^2/2
    """
    beta, (low, high) = mechanism.smoothness, l2_reg_range
    # the gap grows without bound as lambda falls to beta: smaller and smaller steps there
    l2_reg = np.unique(np.concatenate([beta * (1 + np.geomspace(1e-6, 1, 100)), np.geomspace(2 * beta, high, 60)]))
    l2_reg = l2_reg[(l2_reg >= low) & (l2_reg <= high)]
    s2_half = shift(mechanism)
    return pd.DataFrame({"l2_reg": l2_reg, GAP: -np.log1p(-beta / l2_reg) + s2_half, SHIFT: s2_half})


def privacy_loss_distributions(
    mechanism: ObjectivePerturbation,
) -> tuple[dict[str, NormalPLD | HalfNormalPLD], dict[str, str]]:
    """The distributions by name, and the reason by name where the theorem does not apply."""
    s = mechanism.sensitivity_ratio
    known = {NORMAL: NormalPLD(sensitivity_ratio=s), HALF_NORMAL: HalfNormalPLD(sensitivity_ratio=s)}
    try:
        return {**known, PERTURBATION: dominating_pld(mechanism)}, {}
    except BoundNotApplicable as reason:
        return known, {PERTURBATION: str(reason)}


def shift(mechanism: ObjectivePerturbation) -> float:
    """s^2/2, the part of the start-up gap that the shift of the noise makes, nats."""
    return mechanism.sensitivity_ratio**2 / 2


def loss_axis(mechanism: ObjectivePerturbation, *, loss_max: float, epsilon: float) -> NDArray[np.float64]:
    """Losses in ascending order, nats: even steps, epsilon, finer steps where a density is narrow, and both sides of
    the point where a half-normal density starts."""
    low, high, (known, _) = -LEFT * loss_max, loss_max, privacy_loss_distributions(mechanism)
    deviations = mechanism.sensitivity_ratio * np.linspace(-6, 6, 121)
    starts = [distribution.start for name, distribution in known.items() if name != NORMAL]
    parts = [np.linspace(low, high, POINTS), shift(mechanism) + deviations, [epsilon]]
    parts += [start + deviations[deviations >= 0] for start in starts] + [np.nextafter(starts, -np.inf)]
    loss = np.unique(np.concatenate(parts))
    return loss[(loss >= low) & (loss <= high)]


def loss_reach(mechanism: ObjectivePerturbation) -> float:
    """The loss, nats, four standard deviations beyond the start of the rightmost density."""
    known, _ = privacy_loss_distributions(mechanism)
    start = max(getattr(distribution, "start", shift(mechanism)) for distribution in known.values())
    return start + 4 * mechanism.sensitivity_ratio


def density_range(mechanism: ObjectivePerturbation, *, logarithmic: bool) -> tuple[float, float]:
    """Ends of the densities' axis: 0 to just above the highest peak, or the six decades below that."""
    peak = 2 / (np.sqrt(2 * np.pi) * mechanism.sensitivity_ratio)
    return (np.log10(peak) - 6, np.log10(peak) + 0.5) if logarithmic else (0.0, 1.15 * peak)
