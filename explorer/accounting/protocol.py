"""What every bound offers, and how a privacy profile alone becomes one."""

from typing import Protocol, runtime_checkable

import numpy as np
from scipy.optimize import brentq
from scipy.optimize.elementwise import find_root

from explorer.accounting.mechanisms import ObjectivePerturbation
from explorer.validation import delta_array

_MARGIN = 2e-11  # in log delta, less than any tolerance promised


class BoundNotApplicable(ValueError):
    """The mechanism is valid but lies outside what this bound's theorem covers; the message says what would do."""


def require_l2_reg_above_smoothness(mechanism: ObjectivePerturbation) -> None:
    """Raise BoundNotApplicable unless l2_reg > smoothness, the condition under which log(1 - beta/lambda) exists."""
    if not mechanism.smoothness < mechanism.l2_reg or mechanism.curvature_ratio >= 1:
        raise BoundNotApplicable(
            "l2_reg must exceed smoothness for this bound: "
            f"got l2_reg={mechanism.l2_reg!r}, smoothness={mechanism.smoothness!r}"
        )


@runtime_checkable
class PrivacyBound(Protocol):
    """A bound is constructed from a mechanism and answers, elementwise over arrays of any shape:

    - `log_delta(epsilon)`: natural log of delta, non-increasing in epsilon (nats), at most 0;
    - `delta(epsilon)`: its exponential;
    - `epsilon(delta)`: the smallest epsilon >= 0 (nats) at which the bound grants delta, in (0, 1).

    The constructor raises `BoundNotApplicable` where its theorem does not hold.
    """

    def log_delta(self, epsilon): ...

    def delta(self, epsilon): ...

    def epsilon(self, delta): ...


class ProfileBound:
    """Completes a class that defines `log_delta(epsilon)` to a `PrivacyBound`."""

    def delta(self, epsilon):
        """delta(epsilon) in [0, 1], of epsilon's shape; underflows to 0 where `log_delta` still tells."""
        return np.exp(self.log_delta(epsilon))

    def epsilon(self, delta):
        """Smallest epsilon >= 0 (nats) at which the profile is at most delta, of delta's shape; see `smallest_epsilon`.

        Raises ValueError for delta outside (0, 1).
        """
        return smallest_epsilon(self.log_delta, delta)


def smallest_epsilon(log_delta, delta):
    """Invert a non-increasing privacy profile: inf { epsilon >= 0 : log_delta(epsilon) <= log delta }.

    Parameters
    ----------
    log_delta : callable, elementwise on float arrays
    delta : array_like, any shape, inside (0, 1)

    Returns
    -------
    ndarray of delta's shape, nats: the upper end of a bracketed root whose ends are a few floating-point steps
    apart, so that the profile there is verified to be at most delta; infinity where the profile never gets there.

    Raises
    ------
    ValueError for delta outside (0, 1).
    """
    delta = delta_array(delta)
    target = log_target(delta).ravel()
    epsilon = np.zeros(target.shape)
    (open_,) = np.nonzero(log_delta(np.zeros(target.shape)) > target)
    low, high = np.zeros(open_.size), np.ones(open_.size)
    while (short := log_delta(high) > target[open_]).any():
        with np.errstate(over="ignore"):
            low[short], high[short] = high[short], high[short] * 2
        if np.isinf(high).any():
            keep = np.isfinite(high)
            epsilon[open_[~keep]] = np.inf
            open_, low, high = open_[keep], low[keep], high[keep]
    if open_.size == 1:  # a tenth of the vectorised search's overhead, for the sliders' sake
        epsilon[open_] = private_root(lambda x: log_delta(x) - target[open_[0]], low[0], high[0])
    elif open_.size:
        root = find_root(lambda x, t: log_delta(x) - t, (low, high), args=(target[open_],))
        epsilon[open_] = root.bracket[1]
    return epsilon.reshape(delta.shape)[()]


def private_root(excess, low, high, *, xtol=1e-300):
    """The smallest x in (low, high], to within a relative 1e-12 or so or xtol, at which excess(x) <= 0 is verified.

    Parameters
    ----------
    excess : callable, float to float or inf, non-increasing, > 0 at low and <= 0 at high; a log delta above its target
    low, high : float
    xtol : float > 0, absolute tolerance, for roots near 0 and for those that need not be exact
    """

    # Aim a little on the private side, so that the first root found usually is private; where there is no guarantee at
    # all (excess is infinite) any positive number keeps brentq's bracket.
    def aim(x):
        return min(float(excess(x)), 1e6) + _MARGIN

    if aim(high) > 0:
        return float(high)
    root = brentq(aim, low, high, xtol=xtol, rtol=1e-13)
    step = max(np.spacing(abs(root)), xtol)
    while root < high and excess(root) > 0:
        root, step = root + step, 2 * step
    return float(min(root, high))


def log_target(delta):
    """log delta, lowered by what rounding may add, so that exp(log_delta) <= delta follows from log_delta <= target."""
    return np.log(delta) * (1 + 4 * np.finfo(float).eps)
