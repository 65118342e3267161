"""From a privacy target back to a mechanism's parameter, never less private than asked.

epsilon from delta and delta from epsilon need no search here: ask any bound, `bound(mechanism).epsilon(delta)` and
`bound(mechanism).delta(epsilon)`.
"""

from dataclasses import dataclass, fields, replace
from functools import cache, partial

import numpy as np

from explorer.accounting.approximate_minima import AMPBound, amp_accountant
from explorer.accounting.bounds.gaussian import GaussianLowerBound
from explorer.accounting.mechanisms import ApproximateMinimaPerturbation, Gaussian
from explorer.accounting.protocol import BoundNotApplicable, PrivacyBound, log_target, private_root
from explorer.validation import delta_array, natural, positive, real, real_array

_LARGEST = 1e30  # where the search for a parameter ends, as does its inverse
_PARTNER = {"l2_reg": "noise_std", "noise_std": "l2_reg"}  # what must grow when the parameter alone cannot do it


class InfeasibleTarget(ValueError):
    """No value of the free parameter reaches the privacy target; the message says what would.

    Attributes
    ----------
    needed : dict, parameter name to the smallest value of it that would do, empty where none is known
    """

    def __init__(self, message, needed):
        super().__init__(message)
        self.needed = needed

    def __reduce__(self):  # or it could not come back from another process
        return type(self), (str(self), self.needed)


@dataclass(frozen=True)
class Calibration:
    """The outcome of `calibrate`: `bound` (at `mechanism`) grants at most `delta` at the `epsilon` that was asked.

    Attributes
    ----------
    parameter, value : str, float; the free parameter and its smallest value that reaches the target
    mechanism, bound : the mechanism with that value, and its bound
    epsilon : float, nats; the target
    delta : float; what the bound grants at epsilon, at most the target
    """

    parameter: str
    value: float
    mechanism: object
    bound: PrivacyBound
    epsilon: float
    delta: float


def calibrate(bound, mechanism, *, parameter, epsilon, delta):
    """Smallest value of `parameter` at which `bound` grants (epsilon, delta).

    One monotone root: log delta at the fixed epsilon is non-increasing in noise_std, l2_reg, output_noise_std and
    noise_multiplier. The root is bracketed on a geometric scale and the private side of it is returned: delta there is
    at most the target, and within a relative 1e-9 of it unless the parameter has no floating-point number that near.

    Parameters
    ----------
    bound : callable, mechanism to PrivacyBound (any of this package's bound classes, or your own)
    mechanism : callable that accepts `parameter` as a keyword and returns a mechanism, such as
        functools.partial(ObjectivePerturbation, noise_std=5, lipschitz=1, smoothness=1)
    parameter : str, name of the free parameter
    epsilon : float >= 0, nats
    delta : float inside (0, 1)

    Returns
    -------
    Calibration

    Raises
    ------
    InfeasibleTarget (a ValueError) if no value up to 1e30 reaches the target; it names the smallest noise_std (or
    l2_reg) with which some value would.

    Examples
    --------
    >>> family = partial(Gaussian, sensitivity=1.0)
    >>> round(calibrate(GaussianLowerBound, family, parameter="noise_std", epsilon=1.0, delta=1e-5).value, 4)
    3.7306
    """
    epsilon, delta = _target(epsilon, delta)
    value = _smallest(bound, lambda v: mechanism(**{parameter: v}), epsilon, delta)
    if value is None:
        raise _infeasible(bound, mechanism(**{parameter: _LARGEST}), parameter, epsilon, delta)
    calibrated = mechanism(**{parameter: value})
    granted = bound(calibrated)
    return Calibration(parameter, value, calibrated, granted, epsilon, float(granted.delta(epsilon)))


def _target(epsilon, delta):
    """The privacy target as two checked floats."""
    epsilon = real("epsilon", epsilon, rule="a finite number >= 0", valid=lambda x: np.isfinite(x) & (x >= 0))
    return epsilon, float(_single("delta", delta_array(delta)))


def _smallest(bound, mechanism_at, epsilon, delta, *, near=1.0, tolerance=1e-16):
    """The smallest number v for which bound(mechanism_at(v)) grants (epsilon, delta), or None if 1e30 does not do.

    The search starts at `near`; `tolerance` is relative, of v, on its private side.
    """
    target = float(log_target(delta))

    @cache  # bracketing, root and verification meet at the same points
    def excess(log_value):
        try:
            return float(bound(mechanism_at(float(np.exp(log_value)))).log_delta(epsilon)) - target
        except BoundNotApplicable:
            return np.inf

    low, high = _bracket(excess, float(np.log(near)))
    if high is None:
        return None
    return float(np.exp(high if low is None else private_root(excess, low, high, xtol=tolerance)))


def _bracket(excess, near):
    """Logarithms (low, high) with excess(low) > 0 >= excess(high), from `near` outwards; None for an end not found."""
    reach, step = float(np.log(_LARGEST)), float(np.log(2))
    sign = 1.0 if excess(near) > 0 else -1.0
    while near != sign * reach:
        far, step = float(np.clip(near + sign * step, -reach, reach)), 1.5 * step
        if (excess(far) > 0) != (sign > 0):
            return (near, far) if sign > 0 else (far, near)
        near = far
    return (near, None) if sign > 0 else (None, near)


def _infeasible(bound, limit, parameter, epsilon, delta):
    """The error for a target that even `limit`, the mechanism with the largest parameter, misses."""
    needed, partner = {}, _PARTNER.get(parameter)
    if partner in {field.name for field in fields(limit)}:
        value = _smallest(bound, lambda v: replace(limit, **{partner: v}), epsilon, delta)
        needed = {} if value is None else {partner: value}
    remedy = "".join(f"; {name} must exceed {value:.6g}" for name, value in needed.items())
    message = f"no {parameter} up to {_LARGEST:g} reaches epsilon={epsilon!r}, delta={delta!r}: got {limit!r}{remedy}"
    return InfeasibleTarget(message, needed)


def frontier(bound, mechanism, *, noise_std, epsilon, delta, tolerance=1e-16):
    """The smallest l2_reg for each noise_std that reaches (epsilon, delta): the curve of all tight parameter choices.

    It falls. So the points are taken from the most noise to the least, each searched from the last one's l2_reg on;
    where one has none, those with less noise have none.

    Parameters
    ----------
    bound : callable, mechanism to PrivacyBound
    mechanism : callable that accepts `noise_std` and `l2_reg` as keywords and returns a mechanism
    noise_std : array_like, any shape, > 0
    epsilon : float >= 0, nats
    delta : float inside (0, 1)
    tolerance : float > 0, relative: how far above the smallest a value may lie. Every value reaches the target whatever
        this is, and the root needs fewer evaluations of the bound when it is coarse: a third of them at 1e-4.

    Returns
    -------
    ndarray of noise_std's shape; infinity where no l2_reg suffices, left of the wall that little noise puts up
    """
    noise_std = real_array("noise_std", noise_std, rule="> 0", valid=lambda x: np.isfinite(x) & (x > 0))
    epsilon, delta, tolerance = *_target(epsilon, delta), positive("tolerance", tolerance)
    l2_reg, near = np.full(noise_std.size, np.inf), 1.0
    for i in np.argsort(-noise_std, axis=None):
        family = partial(mechanism, noise_std=float(noise_std.flat[i]))
        near = _smallest(bound, lambda v, at=family: at(l2_reg=v), epsilon, delta, near=near, tolerance=tolerance)
        if near is None:
            break
        l2_reg[i] = near
    return l2_reg.reshape(noise_std.shape)[()]


def calibrate_gaussian(*, epsilon, delta, sensitivity=1.0):
    """The analytic Gaussian mechanism: smallest noise_std that is (epsilon, delta)-DP. Balle & Wang 2018, Algorithm 1.

    Parameters: epsilon >= 0 in nats, delta inside (0, 1), sensitivity > 0. Returns a Calibration of "noise_std".
    """
    family = partial(Gaussian, sensitivity=positive("sensitivity", sensitivity))
    return calibrate(GaussianLowerBound, family, parameter="noise_std", epsilon=epsilon, delta=delta)


def calibrate_amp(
    *,
    epsilon,
    delta,
    lipschitz,
    smoothness,
    gradient_tol,
    output_noise_std,
    f=1.3,
    l2_reg=None,
    uses=1,
    monotone_loss=False,
    bound=AMPBound,
):
    """Algorithm 1 for (epsilon, delta): the smallest l2_reg for noise f sigma_G, or least noise for a given l2_reg.

    sigma_G is the analytic Gaussian noise for (epsilon, delta) and sensitivity `lipschitz` sqrt(uses). By the paper's
    rule f > 1 leaves room for the curvature term, which l2_reg then shrinks until the whole of Algorithm 1 fits.

    Parameters
    ----------
    epsilon : float > 0, nats
    delta : float inside (0, 1)
    lipschitz, smoothness, gradient_tol, output_noise_std, monotone_loss : as in `ApproximateMinimaPerturbation`
    f : float > 0, noise relative to sigma_G; of no effect where l2_reg is given
    l2_reg : float > 0, or None for the paper's rule
    uses : int >= 1, how often Algorithm 1 runs on the same data, all runs together to cost (epsilon, delta)
    bound : what `amp_accountant` accepts: ApproximateMinimaPerturbation to PrivacyBound, a bound's class or its name;
        called with the keyword `uses` where that exceeds 1. The default is the hockey-stick bound, exactly composed
        with the output step; RenyiBound ("renyi") is the paper's.

    Returns
    -------
    Calibration of "l2_reg", or of "noise_std" where l2_reg is given

    Raises
    ------
    InfeasibleTarget (a ValueError) if f is too small for any l2_reg (it names the f that must be exceeded), or l2_reg
    too small for any noise.

    References: Redberg, Koskela, Wang 2023, Section 5 (f = 1.3 throughout).
    """
    uses, bound = natural("uses", uses), amp_accountant(bound, name="bound")
    family = partial(
        ApproximateMinimaPerturbation,
        lipschitz=positive("lipschitz", lipschitz),
        smoothness=smoothness,
        gradient_tol=gradient_tol,
        output_noise_std=output_noise_std,
        monotone_loss=monotone_loss,
    )
    composed = bound if uses == 1 else partial(bound, uses=uses)
    target = {"epsilon": epsilon, "delta": delta}
    if l2_reg is not None:
        return _smallest_noise(composed, partial(family, l2_reg=positive("l2_reg", l2_reg)), target)
    gaussian = calibrate_gaussian(**target, sensitivity=lipschitz * np.sqrt(uses)).value
    return _smallest_l2_reg(composed, family, target, f=f, gaussian=gaussian)


def _smallest_l2_reg(bound, family, target, *, f, gaussian):
    """The Calibration of l2_reg at noise_std = f gaussian; InfeasibleTarget names the f that would do."""
    family = partial(family, noise_std=positive("f", f) * gaussian)
    try:
        return calibrate(bound, family, parameter="l2_reg", **target)
    except InfeasibleTarget as error:
        if "noise_std" not in error.needed:
            raise
        needed = {"f": error.needed["noise_std"] / gaussian, **error.needed}
        raise InfeasibleTarget(f"f must exceed {needed['f']:.6g}: got f={f!r}; {error}", needed) from None


def _smallest_noise(bound, family, target):
    """The Calibration of noise_std; InfeasibleTarget says so where the bound's theorem does not hold at that l2_reg."""
    try:
        return calibrate(bound, family, parameter="noise_std", **target)
    except InfeasibleTarget as error:
        try:
            bound(family(noise_std=1.0))
        except BoundNotApplicable as reason:
            message = f'{reason}; the refined bound (RefinedBound, "refined") needs only l2_reg > 0'
            raise InfeasibleTarget(message, error.needed) from None
        raise


def _single(name, array):
    if array.ndim:
        raise ValueError(f"{name} must be a single number: got an array of shape {array.shape}")
    return array
