"""Calibration: the smallest parameter of a mechanism at which a bound guarantees a privacy target (epsilon, delta).

For epsilon at a given delta, and delta at a given epsilon, call the bound itself: `bound(mechanism).epsilon(delta)`,
`bound(mechanism).delta(epsilon)`.
"""

from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import cache, partial
from typing import Any, Generic, TypedDict, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from explorer.accounting.approximate_minima import AMPBound, amp_accountant
from explorer.accounting.bounds.exact import ExactBound
from explorer.accounting.bounds.gaussian import GaussianLowerBound
from explorer.accounting.mechanisms import ApproximateMinimaPerturbation, Gaussian, ObjectivePerturbation
from explorer.accounting.protocol import BoundNotApplicable, PrivacyBound, log_target, private_root
from explorer.accounting.types import FloatArray
from explorer.validation import delta_array, natural, positive, real, real_array

_TOLERANCE = 1e-13  # of the logarithm of a calibrated parameter
_LARGEST = 1e30  # the search for a parameter covers [1 / _LARGEST, _LARGEST]
_PARTNER = {"l2_reg": "noise_std", "noise_std": "l2_reg"}  # must increase where no value of the parameter suffices

M = TypeVar("M")  # a mechanism


class _Target(TypedDict):
    epsilon: float
    delta: float


@dataclass(frozen=True)
class _Start:
    """Where the search for a parameter begins, and its first step, of the logarithm."""

    near: float = 1.0
    step: float = float(np.log(2))


class InfeasibleTarget(ValueError):
    """No value of the free parameter reaches the privacy target; the message names another one that must increase.

    Attributes
    ----------
    needed : dict, name of another parameter to the value that it must exceed; empty where none is known
    """

    def __init__(self, message: str, needed: dict[str, float]) -> None:
        super().__init__(message)
        self.needed = needed

    def __reduce__(self) -> tuple:  # exceptions with two arguments need this to be pickled
        return type(self), (str(self), self.needed)


@dataclass(frozen=True)
class Calibration(Generic[M]):
    """The result of `calibrate`: the `bound` on `mechanism` guarantees `delta` at the target `epsilon`.

    Attributes
    ----------
    parameter, value : str, float; the free parameter and its smallest value that reaches the target
    mechanism, bound : the mechanism with that value, and its bound
    epsilon : float, nats; the target
    delta : float; the delta of the bound at epsilon, at most the target
    """

    parameter: str
    value: float
    mechanism: M
    bound: PrivacyBound
    epsilon: float
    delta: float


def calibrate(
    bound: Callable[[M], PrivacyBound],
    mechanism: Callable[..., M],
    *,
    parameter: str,
    epsilon: float,
    delta: float,
    near: float | None = None,
) -> Calibration[M]:
    """Smallest value of `parameter` at which `bound` guarantees (epsilon, delta).

    log delta at the fixed epsilon is non-increasing in noise_std, l2_reg, output_noise_std and noise_multiplier, so the
    value is a root. It is bracketed on a geometric scale, and a point on its private side is returned: delta there is
    at most the target, and within a relative 1e-9 of it unless no floating-point value of the parameter is that near.

    Parameters
    ----------
    bound : callable, mechanism to PrivacyBound (any of this package's bound classes, or your own)
    mechanism : callable that accepts `parameter` as a keyword and returns a mechanism, such as
        functools.partial(ObjectivePerturbation, noise_std=5, lipschitz=1, smoothness=1)
    parameter : str, name of the free parameter
    epsilon : float >= 0, nats
    delta : float inside (0, 1)
    near : float > 0, a value within a per cent or so of which the result is expected: it saves evaluations of the
        bound, and does not change the result

    Returns
    -------
    Calibration

    Raises
    ------
    InfeasibleTarget (a ValueError) if no value up to 1e30 reaches the target; it names the smallest noise_std (or
    l2_reg) with which some value would.

    Examples
    --------
    >>> from functools import partial
    >>> from explorer.accounting import Gaussian, GaussianLowerBound, ObjectivePerturbation, RefinedBound, calibrate
    >>> round(calibrate(GaussianLowerBound, Gaussian, parameter="noise_std", epsilon=1.0, delta=1e-5).value, 4)
    3.7306
    >>> family = partial(ObjectivePerturbation, noise_std=5, lipschitz=1, smoothness=1)
    >>> result = calibrate(RefinedBound, family, parameter="l2_reg", epsilon=1.0, delta=1e-5)
    >>> round(result.value, 4), result.delta <= 1e-5
    (3.1661, True)
    """
    epsilon, delta = _target(epsilon, delta)
    start = _Start() if near is None else _Start(near=positive("near", near), step=0.01)
    value, log_delta = _smallest(
        bound, lambda v: mechanism(**{parameter: v}), epsilon, delta, start=start, tolerance=_TOLERANCE
    )
    if value is None or log_delta is None:
        raise _infeasible(bound, mechanism(**{parameter: _LARGEST}), parameter, epsilon, delta)
    calibrated = mechanism(**{parameter: value})
    return Calibration(parameter, value, calibrated, bound(calibrated), epsilon, float(np.exp(log_delta)))


def _target(epsilon: ArrayLike, delta: ArrayLike) -> tuple[float, float]:
    """The privacy target as two validated floats."""
    epsilon = real("epsilon", epsilon, rule="a finite number >= 0", valid=lambda x: np.isfinite(x) & (x >= 0))
    return epsilon, float(_single("delta", delta_array(delta)))


def _smallest(
    bound: Callable[[M], PrivacyBound],
    mechanism_at: Callable[[float], M],
    epsilon: float,
    delta: float,
    *,
    start: _Start = _Start(),
    tolerance: float = 1e-16,
) -> tuple[float, float] | tuple[None, None]:
    """The smallest number v for which bound(mechanism_at(v)) guarantees (epsilon, delta), and log delta there.

    (None, None) if 1e30 is too small.

    The search begins at `start`; `tolerance` is relative, of v, on its private side.
    """
    target = float(log_target(delta))

    @cache  # bracketing, root search and verification evaluate the same points
    def excess(log_value: float) -> float:
        try:
            return float(bound(mechanism_at(float(np.exp(log_value)))).log_delta(epsilon)) - target
        except BoundNotApplicable:
            return np.inf

    low, high = _bracket(excess, start)
    if high is None:
        return None, None
    root = high if low is None else private_root(excess, low, high, xtol=tolerance)
    return float(np.exp(root)), excess(root) + target


def _bracket(excess: Callable[[float], float], start: _Start) -> tuple[float | None, float | None]:
    """Logarithms (low, high) with excess(low) > 0 >= excess(high), from the start outwards; None: no such end."""
    reach, near, step = float(np.log(_LARGEST)), float(np.log(start.near)), start.step
    value = excess(near)
    sign = 1.0 if value > 0 else -1.0
    while near != sign * reach:
        far = float(np.clip(near + sign * step, -reach, reach))
        beyond = excess(far)
        if (beyond > 0) != (sign > 0):
            return (near, far) if sign > 0 else (far, near)
        with np.errstate(
            all="ignore"
        ):  # a little beyond where the secant has its zero, unless it is too flat or has none
            ahead = 1.1 * np.divide(beyond * (far - near), value - beyond) * sign
        step = float(np.clip(ahead, step / 10, 2 * step)) if ahead > 0 else 1.5 * step
        near, value = far, beyond
    return (near, None) if sign > 0 else (None, near)


def _infeasible(
    bound: Callable[[Any], PrivacyBound], limit: object, parameter: str, epsilon: float, delta: float
) -> InfeasibleTarget:
    """The error for a target that `limit`, the mechanism with the largest parameter, does not reach."""
    needed, partner = {}, _PARTNER.get(parameter)
    if is_dataclass(limit) and not isinstance(limit, type) and partner in {field.name for field in fields(limit)}:
        value, _ = _smallest(bound, lambda v: replace(limit, **{partner: v}), epsilon, delta)
        needed = {} if value is None else {partner: value}
    remedy = "".join(f"; {name} must exceed {value:.6g}" for name, value in needed.items())
    message = f"no {parameter} up to {_LARGEST:g} reaches epsilon={epsilon!r}, delta={delta!r}: got {limit!r}{remedy}"
    return InfeasibleTarget(message, needed)


def frontier(
    bound: Callable[[M], PrivacyBound],
    mechanism: Callable[..., M],
    *,
    noise_std: ArrayLike,
    epsilon: float,
    delta: float,
    tolerance: float = 1e-16,
) -> FloatArray:
    """The smallest l2_reg that reaches (epsilon, delta), for each noise_std.

    It decreases with noise_std. So the points are computed from the largest noise_std to the smallest, each search
    starting from the previous l2_reg; where no l2_reg suffices, none does for a smaller noise_std.

    Parameters
    ----------
    bound : callable, mechanism to PrivacyBound
    mechanism : callable that accepts `noise_std` and `l2_reg` as keywords and returns a mechanism
    noise_std : array_like, any shape, > 0
    epsilon : float >= 0, nats
    delta : float inside (0, 1)
    tolerance : float > 0, relative distance allowed between a value and the smallest one. Every value reaches the
    target
        at any tolerance; at 1e-4 the search needs a third of the evaluations of the bound.

    Returns
    -------
    ndarray of noise_std's shape; infinity where no l2_reg suffices, as for every noise_std below the Gaussian
    mechanism's
    """
    noise_std = real_array("noise_std", noise_std, rule="> 0", valid=lambda x: np.isfinite(x) & (x > 0))
    (epsilon, delta), tolerance = _target(epsilon, delta), positive("tolerance", tolerance)
    l2_reg, start = np.full(noise_std.size, np.inf), _Start()
    for i in np.argsort(-noise_std, axis=None):
        family = partial(mechanism, noise_std=float(noise_std.flat[i]))
        value, _ = _smallest(bound, lambda v, at=family: at(l2_reg=v), epsilon, delta, start=start, tolerance=tolerance)
        if value is None:
            break
        l2_reg[i], start = value, _Start(near=value)
    return l2_reg.reshape(noise_std.shape)[()]


def calibrate_gaussian(*, epsilon: float, delta: float, sensitivity: float = 1.0) -> Calibration[Gaussian]:
    """The analytic Gaussian mechanism: the smallest noise_std at which it is (epsilon, delta)-DP.

    Parameters
    ----------
    epsilon : float >= 0, nats
    delta : float inside (0, 1)
    sensitivity : float > 0, l2 sensitivity of the query

    Returns
    -------
    Calibration of "noise_std"

    References: Balle & Wang 2018, Algorithm 1.
    """
    family = partial(Gaussian, sensitivity=positive("sensitivity", sensitivity))
    return calibrate(GaussianLowerBound, family, parameter="noise_std", epsilon=epsilon, delta=delta)


def calibrate_amp(
    *,
    epsilon: float,
    delta: float,
    lipschitz: float,
    smoothness: float,
    gradient_tol: float,
    output_noise_std: float,
    f: float = 1.3,
    l2_reg: float | None = None,
    uses: int = 1,
    monotone_loss: bool = False,
    bound: str | Callable[..., PrivacyBound] = AMPBound,
) -> Calibration[ApproximateMinimaPerturbation]:
    """Algorithm 1 for (epsilon, delta): the smallest l2_reg at noise f sigma_G, or the least noise at a given l2_reg.

    sigma_G is the noise_std of the analytic Gaussian mechanism for (epsilon, delta) and sensitivity `lipschitz`
    sqrt(uses). With the paper's rule, noise f sigma_G for some f > 1, the rest of (epsilon, delta) is available for the
    curvature term and the output step; the curvature term decreases with l2_reg.

    Parameters
    ----------
    epsilon : float > 0, nats
    delta : float inside (0, 1)
    lipschitz, smoothness, gradient_tol, output_noise_std, monotone_loss : as in `ApproximateMinimaPerturbation`
    f : float > 0, noise relative to sigma_G; of no effect where l2_reg is given
    l2_reg : float > 0, or None for the paper's rule
    uses : int >= 1, number of runs of Algorithm 1 on the same data, which together are (epsilon, delta)-DP
    bound : argument of `amp_accountant`: ApproximateMinimaPerturbation to PrivacyBound, a bound's class or its name;
        called with the keyword `uses` where that exceeds 1. The default is the hockey-stick bound, composed exactly
        with the output step; the paper uses RenyiBound ("renyi").

    Returns
    -------
    Calibration of "l2_reg", or of "noise_std" where l2_reg is given

    Raises
    ------
    InfeasibleTarget (a ValueError) if f is too small for every l2_reg (it names the f that must be exceeded), or l2_reg
    is too small for every noise_std.

    References: Redberg, Koskela & Wang 2023, Section 5 (f = 1.3 throughout).
    """
    uses, accountant = natural("uses", uses), amp_accountant(bound, name="bound")
    family = partial(
        ApproximateMinimaPerturbation,
        lipschitz=positive("lipschitz", lipschitz),
        smoothness=smoothness,
        gradient_tol=gradient_tol,
        output_noise_std=output_noise_std,
        monotone_loss=monotone_loss,
    )
    composed = accountant if uses == 1 else partial(accountant, uses=uses)
    target: _Target = {"epsilon": epsilon, "delta": delta}
    if l2_reg is not None:
        return _smallest_noise(composed, partial(family, l2_reg=positive("l2_reg", l2_reg)), target)
    gaussian = calibrate_gaussian(**target, sensitivity=lipschitz * np.sqrt(uses)).value
    near = None
    if uses == 1 and bound in ("exact", ExactBound):
        noisy = partial(family, noise_std=positive("f", f) * gaussian)
        near, _ = _smallest(
            lambda m: ExactBound(_one_step(m)), lambda v: noisy(l2_reg=v), epsilon, delta, tolerance=3e-3
        )
    return _smallest_l2_reg(composed, family, target, f=f, gaussian=gaussian, near=near)


def _one_step(mechanism: ApproximateMinimaPerturbation) -> ObjectivePerturbation:
    """Objective perturbation with the noise of both steps at once: its privacy is near that of Algorithm 1."""
    ratio = np.hypot(mechanism.objective.sensitivity_ratio, mechanism.output_step.sensitivity_ratio)
    return replace(mechanism.objective, noise_std=mechanism.lipschitz / ratio)


def _smallest_l2_reg(
    bound: Callable[[M], PrivacyBound],
    family: Callable[..., M],
    target: _Target,
    *,
    f: float,
    gaussian: float,
    near: float | None,
) -> Calibration[M]:
    """The Calibration of l2_reg at noise_std = f gaussian; InfeasibleTarget names the f that must be exceeded."""
    family = partial(family, noise_std=positive("f", f) * gaussian)
    try:
        return calibrate(bound, family, parameter="l2_reg", near=near, **target)
    except InfeasibleTarget as error:
        if "noise_std" not in error.needed:
            raise
        needed = {"f": error.needed["noise_std"] / gaussian, **error.needed}
        raise InfeasibleTarget(f"f must exceed {needed['f']:.6g}: got f={f!r}; {error}", needed) from None


def _smallest_noise(bound: Callable[[M], PrivacyBound], family: Callable[..., M], target: _Target) -> Calibration[M]:
    """The Calibration of noise_std; InfeasibleTarget gives the reason where the bound does not apply at this l2_reg."""
    try:
        return calibrate(bound, family, parameter="noise_std", **target)
    except InfeasibleTarget as error:
        try:
            bound(family(noise_std=1.0))
        except BoundNotApplicable as reason:
            message = f'{reason}; the refined bound (RefinedBound, "refined") needs only l2_reg > 0'
            raise InfeasibleTarget(message, error.needed) from None
        raise


def _single(name: str, array: FloatArray) -> FloatArray:
    if array.ndim:
        raise ValueError(f"{name} must be a single number: got an array of shape {array.shape}")
    return array
