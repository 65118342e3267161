"""The training loss that leaks as much as any at a given epsilon: it attains `ExactBound`, or comes near it.

Its map of the noise (`explorer.accounting.bounds.one_record_loss`) is the optimal one of the proofs:

- "add": the constant h = L, or one rise of h at the largest slope (`explorer.accounting.bounds.exact_add`);
- "remove", epsilon <= log(1+kappa): one ramp, on which h changes at the largest slope from one end of its range to the
  other (`explorer.accounting.bounds.exact_remove`);
- "remove", epsilon > log(1+kappa): a ramp, and then the curve y*(r) that maximises what each unit of the shift r gains.
  Along the curve the shift changes more slowly than the slope allows, where a loss gains strictly less than the
  supremum; so it is followed by a staircase: short ramps at the largest slope, each centred where its units gain most,
  with the shift constant between them. n steps lose a part of order 1/n^2 of delta. The steps are placed so that each
  loses the same: their density in r is the cube root of |w_yy| (dz/dr)^2, w the gain and z = y* + r/kappa'.

At epsilon < 0 a loss attains one direction where it attains the other at -epsilon, by duality.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from explorer.accounting.bounds.exact import ExactBound
from explorer.accounting.bounds.exact_add import add_controls
from explorer.accounting.bounds.exact_remove import Ramp, RampAndCurve, curve, curve_start
from explorer.accounting.bounds.one_record_loss import OneRecordLoss, checked_direction
from explorer.accounting.mechanisms import ObjectivePerturbation
from explorer.accounting.types import FloatArray
from explorer.validation import instance, positive, real

_TOGETHER = 1e-13  # relative to the largest knot: two that are closer are merged
_EQUAL = 1e-9  # in log delta
_MISSED = 25.0  # the staircase follows all but e^-25 of the curve's gain
_FEW, _MOST = 64, 20_000  # steps
_PLACES = 400  # points of the curve from which the steps are placed


@dataclass(frozen=True, kw_only=True)
class AttainingLoss(OneRecordLoss):
    """The `OneRecordLoss` that `attaining_loss` found, and how near it comes to the exact profile.

    Attributes
    ----------
    target_epsilon, direction : what it was made for
    ramp : (low, high), the values of the noise b between which h changes at the largest slope; None for a linear loss
    followed : (low, high), the values of the noise b between which it follows the curve of largest gain in steps; None
        where a ramp alone attains the bound
    """

    target_epsilon: float
    direction: str
    ramp: tuple[float, float] | None = None
    followed: tuple[float, float] | None = None

    @cached_property
    def gap(self) -> float:
        """log delta of `ExactBound`, in this direction and at this epsilon, minus that of this loss; >= 0."""
        name = f"log_delta_{self.direction}"
        bound, own = (getattr(each, name)(self.target_epsilon) for each in (ExactBound(self.mechanism), self))
        return max(float(bound - own), 0.0)


def attaining_loss(
    mechanism: ObjectivePerturbation, *, epsilon: float, direction: str, tolerance: float = 1e-8
) -> AttainingLoss:
    """The loss within the mechanism's constants whose delta at this epsilon is the largest in this direction.

    For "add", and for "remove" up to epsilon = log(1 + beta/lambda), it attains `ExactBound`; for "remove" beyond, no
    loss does, and this one, of sufficiently many steps, comes within `tolerance` of its log delta; see
    `AttainingLoss.gap`. Of equal ones the simplest is returned. Its mirror image has the same delta.

    Where log delta is far below -10^4, rounding merges knots, and the loss may leak less.

    Parameters
    ----------
    mechanism : ObjectivePerturbation, with any l2_reg > 0
    epsilon : float, finite, nats
    direction : "add" or "remove"
    tolerance : float > 0, in log delta; a staircase has as many steps as that takes, and 20 000 at most

    Returns
    -------
    AttainingLoss

    Raises
    ------
    TypeError for another mechanism; ValueError for another epsilon, direction or tolerance.

    Examples
    --------
    >>> from explorer.accounting import ObjectivePerturbation, attaining_loss
    >>> mechanism = ObjectivePerturbation(noise_std=10, l2_reg=5, lipschitz=1, smoothness=1)
    >>> loss = attaining_loss(mechanism, epsilon=0.1, direction="add")
    >>> loss.knots, loss.shifts  # Huber's
    ((-5.0, 5.0), (-1.0, 1.0))
    """
    mechanism = instance("mechanism", mechanism, ObjectivePerturbation)
    epsilon = real("epsilon", epsilon, rule="a finite number", valid=np.isfinite)
    tolerance, direction = positive("tolerance", tolerance), checked_direction(direction)
    plans = _add_plans if (direction == "add") == (epsilon >= 0) else _remove_plans
    made_for = {"mechanism": mechanism, "target_epsilon": epsilon, "direction": direction}
    with np.errstate(all="ignore"):
        found = [_loss(made_for, plan) for plan in plans(mechanism, abs(epsilon), _FEW)]
        best = _best(found)
        steps = _FEW
        while best.followed is not None and best.gap > tolerance and steps < _MOST:
            steps = min(int(1.1 * steps * np.sqrt(best.gap / tolerance)) + 1, _MOST)
            best = _best([best, _loss(made_for, plans(mechanism, abs(epsilon), steps)[-1])])
    return best


def _best(losses: list[AttainingLoss]) -> AttainingLoss:
    """The first of those with the least gap."""
    gaps = np.array([loss.gap for loss in losses])
    return losses[int(np.argmax(gaps <= gaps.min() + _EQUAL))]


@dataclass(frozen=True)
class _Plan:
    """A map in units of sigma: its knots and shifts, and the indices of the first and last knot of its two parts."""

    knots: FloatArray
    shifts: FloatArray
    ramp: tuple[int, int] | None = None
    followed: tuple[int, int] | None = None


def _add_plans(mechanism: ObjectivePerturbation, epsilon: float, steps: int) -> list[_Plan]:
    """The candidates for "add" at epsilon >= 0."""
    s, kappa = mechanism.sensitivity_ratio, mechanism.curvature_ratio
    plans = [_Plan(np.zeros(1), np.full(1, s))]
    if not mechanism.monotone_loss:
        for zero, (_, h1, _), (_, h2, _) in add_controls(
            np.array([epsilon]), sensitivity_ratio=s, curvature_ratio=kappa
        ):
            knots = np.concatenate([zero - h1 / kappa, zero + h2 / kappa])
            plans.append(_Plan(knots, np.concatenate([-h1, h2]), ramp=(0, 1)))
    return plans


def _remove_plans(mechanism: ObjectivePerturbation, epsilon: float, steps: int) -> list[_Plan]:
    """The candidates for "remove" at epsilon >= 0."""
    s, kappa = mechanism.sensitivity_ratio, mechanism.curvature_ratio
    linear, at = _Plan(np.zeros(1), np.full(1, -s)), np.array([epsilon])
    if epsilon > np.log1p(kappa):
        return [linear, _staircase(RampAndCurve(at, s, kappa), steps)]
    shifts = np.array([s, 0.0 if mechanism.monotone_loss else -s])
    start = Ramp(at, s, kappa).line(monotone=mechanism.monotone_loss) / s - s / 2
    return [linear, _of_inverse(start + (s - shifts) * (1 + 1 / kappa), shifts, ramp=(0, 1))]


def _staircase(plan: RampAndCurve, steps: int) -> _Plan:
    """The ramp, and ramps whose shifts end at equal parts of the density of the module's docstring."""
    s, kappa, excess = plan.s, plan.kappa, plan.excess
    m, log_p, turns = plan.junction()
    low, _ = curve_start(log_p, excess, _MISSED)
    place = np.linspace(log_p[0], low[0], _PLACES)
    p = np.exp(place)
    y, r, _ = curve(p, excess)
    log_bend = np.log(np.expm1(p)) + np.log(y * y + np.exp(-p)) - y * y / 2  # |w_yy| but for a constant factor
    z = np.diff(y) + np.diff(r) * (1 + 1 / kappa)
    log_density = (log_bend[1:] + log_bend[:-1]) / 6 + np.log(z * z * -np.diff(r)) / 3
    part = np.append(0.0, np.cumsum(np.exp(log_density - log_density.max())))
    part /= part[-1]
    _, level, _ = curve(np.exp(np.interp(np.arange(steps + 1) / steps, part, place)), excess)
    target, middle, _ = curve(np.exp(np.interp((np.arange(steps) + 0.5) / steps, part, place)), excess)
    begin, end = (target - (each - middle) * (1 + 1 / kappa) for each in (level[:-1], level[1:]))
    knots, shifts = np.stack([begin, end]).T.ravel(), np.stack([level[:-1], level[1:]]).T.ravel()
    last = 2 * steps - 1
    if not turns[0]:
        return _of_inverse(np.maximum.accumulate(knots), shifts, followed=(0, last))
    knots = np.concatenate([m / s - s / 2, y[:1], knots])
    shifts = np.concatenate([[s], r[:1], shifts])
    return _of_inverse(np.maximum.accumulate(knots), shifts, ramp=(0, 1), followed=(1, last + 2))


def _of_inverse(knots: FloatArray, shifts: FloatArray, **parts: tuple[int, int]) -> _Plan:
    """The plan of T from knots and shifts of its inverse."""
    return _Plan(knots + shifts, -shifts, **parts)


def _loss(made_for: dict, plan: _Plan) -> AttainingLoss:
    """AttainingLoss of a plan, corrected for rounding: of knots that coincide the last one is kept, and slopes are
    clipped to the largest one allowed."""
    mechanism = made_for["mechanism"]
    knots, shifts, limit = mechanism.noise_std * plan.knots, mechanism.noise_std * plan.shifts, mechanism.lipschitz
    parts = {
        name: None if ends is None else tuple(knots[list(ends)].tolist())
        for name, ends in (("ramp", plan.ramp), ("followed", plan.followed))
    }
    apart = np.append(np.diff(knots) > _TOGETHER * np.abs(knots).max(), True)
    knots, shifts = knots[apart], np.clip(shifts[apart], -limit, limit)
    steps = np.clip(np.diff(shifts), 0, mechanism.curvature_ratio * np.diff(knots))
    shifts = np.minimum(np.cumsum(np.concatenate([shifts[:1], steps])), limit)
    return AttainingLoss(knots=tuple(knots), shifts=tuple(shifts), **parts, **made_for)
