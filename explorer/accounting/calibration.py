"""From a privacy target back to a mechanism's parameter, never less private than asked."""

from dataclasses import dataclass
from functools import partial

import numpy as np

from explorer.accounting.bound import BoundNotApplicable, PrivacyBound, log_target, private_root
from explorer.accounting.gaussian import GaussianLowerBound
from explorer.accounting.mechanisms import ApproximateMinimaPerturbation, Gaussian
from explorer.accounting.renyi import RenyiBound
from explorer.validation import delta_array, positive, real

_SMALLEST, _LARGEST = 1e-30, 1e30  # where the search for a parameter ends


class InfeasibleTarget(ValueError):
    """No value of the free parameter reaches the privacy target; the message says what stands in the way."""


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
    noise_multiplier. The root is bracketed on a geometric scale and the private end of the bracket is returned.

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
    InfeasibleTarget (a ValueError) if no value up to 1e30 reaches the target.

    Examples
    --------
    >>> family = partial(Gaussian, sensitivity=1.0)
    >>> round(calibrate(GaussianLowerBound, family, parameter="noise_std", epsilon=1.0, delta=1e-5).value, 4)
    3.7306
    """
    epsilon = real("epsilon", epsilon, rule="a finite number >= 0", valid=lambda x: np.isfinite(x) & (x >= 0))
    target = float(log_target(_single("delta", delta_array(delta))))

    def excess(value):
        try:
            return float(bound(mechanism(**{parameter: value})).log_delta(epsilon)) - target
        except BoundNotApplicable:
            return np.inf

    low, high = _bracket(excess)
    if high is None:
        raise InfeasibleTarget(
            f"no {parameter} up to {_LARGEST:g} reaches epsilon={epsilon!r}, delta={delta!r} "
            f"with the other parameters as they are: {mechanism(**{parameter: _LARGEST})!r}"
        )
    value = high if low is None else private_root(excess, low, high)
    calibrated = mechanism(**{parameter: value})
    granted = bound(calibrated)
    return Calibration(parameter, value, calibrated, granted, epsilon, float(granted.delta(epsilon)))


def _bracket(excess):
    """(low, high) with excess(low) > 0 >= excess(high); low or high is None where that end does not exist."""
    value, factor = 1.0, 2.0
    if excess(value) <= 0:
        while value > _SMALLEST:
            high, value, factor = value, value / factor, factor**1.5
            if excess(value) > 0:
                return value, high
        return None, value
    while value < _LARGEST:
        low, value, factor = value, min(value * factor, _LARGEST), factor**1.5
        if excess(value) <= 0:
            return low, value
    return value, None


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
    monotone_loss=False,
    bound=RenyiBound,
):
    """The paper's rule for Algorithm 1: noise f sigma_G, then the smallest l2_reg that reaches the target.

    sigma_G is the analytic Gaussian noise for (epsilon, delta) and sensitivity `lipschitz`; f > 1 leaves room for
    the curvature term, which l2_reg then shrinks until the whole of Algorithm 1 fits.

    Parameters
    ----------
    epsilon : float > 0, nats
    delta : float inside (0, 1)
    lipschitz, smoothness, gradient_tol, output_noise_std, monotone_loss : as in `ApproximateMinimaPerturbation`
    f : float > 0, noise relative to sigma_G
    bound : callable, ApproximateMinimaPerturbation to PrivacyBound

    Returns
    -------
    Calibration of "l2_reg"

    Raises
    ------
    InfeasibleTarget (a ValueError) if f is too small for any l2_reg.

    References: Redberg, Koskela, Wang 2023, Section 5 (f = 1.3 throughout).
    """
    noise_std = positive("f", f) * calibrate_gaussian(epsilon=epsilon, delta=delta, sensitivity=lipschitz).value
    family = partial(
        ApproximateMinimaPerturbation,
        noise_std=noise_std,
        lipschitz=lipschitz,
        smoothness=smoothness,
        gradient_tol=gradient_tol,
        output_noise_std=output_noise_std,
        monotone_loss=monotone_loss,
    )
    return calibrate(bound, family, parameter="l2_reg", epsilon=epsilon, delta=delta)


def _single(name, array):
    if array.ndim:
        raise ValueError(f"{name} must be a single number: got an array of shape {array.shape}")
    return array
