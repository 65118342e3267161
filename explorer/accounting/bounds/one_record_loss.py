"""A training loss of one record in one dimension, by its map of the noise: its densities and its privacy profile.

With one record, one dimension and an empty Z, the noise b gives theta = -b / lambda, and with the record the same theta
results from the noise T(b) = b + h(b), where h(b) = -f'(theta) (`explorer.accounting.bounds.refined`). Maps with |h| <=
L and 0 <= h' <= beta / lambda and losses thus correspond one to one: f'(theta) = -h(-lambda theta). Piecewise linear
maps are piecewise quadratic losses: linear where h is constant, of curvature beta where the slope of h is largest. For
Huber's loss h rises once, from -L to L.

The profile of such a map is a sum of differences of normal tails, over the parts of its pieces on which the privacy
loss exceeds epsilon; their ends solve a quadratic equation.
"""

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import log_ndtr

from explorer.accounting.bounds.refined import dual_log_delta
from explorer.accounting.logspace import log1mexp, log_normal_density, mills_ratio
from explorer.accounting.mechanisms import ObjectivePerturbation
from explorer.accounting.protocol import ProfileBound
from explorer.accounting.types import FloatArray
from explorer.validation import epsilon_array, instance, real_array

DIRECTIONS = ("add", "remove")
_SLACK = 1e-9  # relative tolerance, for rounding, of a slope
_ROUNDING = 1e-15  # relative error of a tail, and of each unit of its exponent
_NODES, _WEIGHTS = (x / 2 for x in np.polynomial.legendre.leggauss(8))
_NODES = _NODES + 0.5
_FARTHEST = 1e100  # |epsilon| beyond which delta is that at the limit

Map: TypeAlias = tuple[FloatArray, FloatArray]  # knots and shifts


@dataclass(frozen=True, kw_only=True)
class OneRecordLoss(ProfileBound):
    """A convex, piecewise quadratic loss of one record in one dimension, given by its map T = id + h of the noise.

    As a `PrivacyBound` it returns the exact privacy profile of the mechanism with this loss, which is a lower bound for
    the mechanism over all losses.

    Parameters
    ----------
    mechanism : ObjectivePerturbation, with whose lipschitz and smoothness the loss must comply
    knots : sequence of floats, increasing, at least one: values of the noise b between which h is linear, beyond which
        it is constant
    shifts : sequence of as many floats, h there: non-decreasing, |h| <= lipschitz, of slope <= smoothness / l2_reg,
        and of one sign if the mechanism's losses are monotone

    Raises
    ------
    TypeError for another mechanism; ValueError if knots or shifts break a rule.
    """

    mechanism: ObjectivePerturbation
    knots: tuple[float, ...]
    shifts: tuple[float, ...]

    def __post_init__(self) -> None:
        mechanism = instance("mechanism", self.mechanism, ObjectivePerturbation)
        knots, shifts = (np.atleast_1d(real_array(name, getattr(self, name))) for name in ("knots", "shifts"))
        step, rise = np.diff(knots), np.diff(shifts)
        slack = _SLACK * step * mechanism.curvature_ratio + 1e-14 * np.abs(shifts).max(initial=0)
        if knots.ndim > 1 or knots.size == 0 or knots.shape != shifts.shape or not (step > 0).all():
            raise ValueError(f"knots must increase, one for each of shifts: got knots={self.knots!r}")
        if not ((rise >= 0) & (rise <= mechanism.curvature_ratio * step + slack)).all():
            raise ValueError(
                f"shifts must rise with a slope of at most smoothness / l2_reg = {mechanism.curvature_ratio:g}: "
                f"got shifts={self.shifts!r}"
            )
        if not (np.abs(shifts) <= mechanism.lipschitz * (1 + _SLACK)).all():
            raise ValueError(f"shifts must be within lipschitz={mechanism.lipschitz:g}: got shifts={self.shifts!r}")
        if mechanism.monotone_loss and shifts.min() < 0 < shifts.max():
            raise ValueError(f"shifts must have one sign for a monotone loss: got shifts={self.shifts!r}")
        object.__setattr__(self, "knots", tuple(knots.tolist()))
        object.__setattr__(self, "shifts", tuple(shifts.tolist()))

    def shift(self, noise: ArrayLike) -> FloatArray:
        """h(b), of the shape of `noise`: with the record, b + h(b) gives the theta that b gives without it."""
        return np.interp(real_array("noise", noise), self.knots, self.shifts)

    def shift_slope(self, noise: ArrayLike) -> FloatArray:
        """h'(b), of the shape of `noise`; at a knot the right derivative."""
        piece = np.searchsorted(self.knots, real_array("noise", noise), side="right")
        return np.concatenate([[0.0], np.diff(self.shifts) / np.diff(self.knots), [0.0]])[piece]

    def value(self, theta: ArrayLike) -> FloatArray:
        """f(theta), 0 at 0, of theta's shape: the integral of h from 0 to b = -lambda theta, over lambda."""
        noise = -self.mechanism.l2_reg * real_array("theta", theta)
        return (self._integral(noise) - self._integral(0.0)) / self.mechanism.l2_reg

    def derivative(self, theta: ArrayLike) -> FloatArray:
        """f'(theta) = -h(-lambda theta), of theta's shape."""
        return -self.shift(-self.mechanism.l2_reg * real_array("theta", theta))

    def second_derivative(self, theta: ArrayLike) -> FloatArray:
        """f''(theta) = lambda h'(-lambda theta), of theta's shape; at a kink of f' the left derivative."""
        return self.mechanism.l2_reg * self.shift_slope(-self.mechanism.l2_reg * real_array("theta", theta))

    def log_density_without(self, noise: ArrayLike) -> FloatArray:
        """Log of the density, without the record, of the theta that the noise b gives, as a density in b."""
        sigma = self.mechanism.noise_std
        return log_normal_density(real_array("noise", noise) / sigma) - np.log(sigma)

    def log_density_with(self, noise: ArrayLike) -> FloatArray:
        """Log of the density of the same theta with the record: that of the noise at T(b), times T'(b)."""
        noise = real_array("noise", noise)
        return self.log_density_without(noise + self.shift(noise)) + np.log1p(self.shift_slope(noise))

    def privacy_loss_add(self, noise: ArrayLike) -> FloatArray:
        """log p(theta|Z) / p(theta|Z'), where Z' has the record, of the theta that b gives without it, nats."""
        return -self.privacy_loss_remove(noise)

    def privacy_loss_remove(self, noise: ArrayLike) -> FloatArray:
        """log p(theta|Z') / p(theta|Z) of the theta that the noise b gives on Z, nats; of the shape of `noise`."""
        sigma = self.mechanism.noise_std
        u, h = real_array("noise", noise) / sigma, self.shift(noise) / sigma
        return np.log1p(self.shift_slope(noise)) - h * (u + h / 2)

    def log_delta_add(self, epsilon: ArrayLike) -> FloatArray:
        """Log delta of M(Z) from M(Z'), of epsilon's shape; any real epsilon, nats."""
        return self._profile(epsilon, self._map(), self._inverse())

    def log_delta_remove(self, epsilon: ArrayLike) -> FloatArray:
        """Log delta of M(Z') from M(Z), of epsilon's shape; any real epsilon, nats."""
        return self._profile(epsilon, self._inverse(), self._map())

    def log_delta(self, epsilon: ArrayLike) -> FloatArray:
        """Log delta, of epsilon's shape: the larger of both directions, at any real epsilon (nats)."""
        return np.maximum(self.log_delta_add(epsilon), self.log_delta_remove(epsilon))

    def _profile(self, epsilon: ArrayLike, own: Map, other: Map) -> FloatArray:
        epsilon = epsilon_array(epsilon)
        flat = np.clip(epsilon, -_FARTHEST, _FARTHEST).ravel()
        value = np.empty(flat.shape)
        negative = flat < 0
        steepest = self.mechanism.curvature_ratio
        value[~negative] = _map_log_delta(flat[~negative], *own, steepest=steepest)
        value[negative] = dual_log_delta(flat[negative], _map_log_delta(-flat[negative], *other, steepest=steepest))
        return np.minimum(value, 0.0).reshape(epsilon.shape)[()]

    def _map(self) -> Map:
        """Knots and shifts of T in units of sigma."""
        return np.array(self.knots) / self.mechanism.noise_std, np.array(self.shifts) / self.mechanism.noise_std

    def _inverse(self) -> Map:
        """Knots and shifts of T^-1 in units of sigma: at u + h the shift is -h."""
        knots, shifts = self._map()
        return knots + shifts, -shifts

    def _integral(self, noise: FloatArray | float) -> FloatArray:
        """The integral of h from the first knot to `noise`."""
        knots, shifts = np.array(self.knots), np.array(self.shifts)
        area = np.concatenate([[0.0], np.cumsum(np.diff(knots) * (shifts[:-1] + shifts[1:]) / 2)])
        start = np.clip(np.searchsorted(knots, noise, side="right") - 1, 0, None)
        return area[start] + (noise - knots[start]) * (shifts[start] + self.shift(noise)) / 2


def linear_loss(mechanism: ObjectivePerturbation, *, direction: str) -> OneRecordLoss:
    """The linear loss, of slope lipschitz: objective perturbation with it is the Gaussian mechanism.

    Its sign is that of the linear part of `attaining_loss`; parameters and errors as there.
    """
    sign = 1.0 if checked_direction(direction) == "add" else -1.0
    return OneRecordLoss(mechanism=mechanism, knots=(0.0,), shifts=(sign * mechanism.lipschitz,))


def checked_direction(direction: str) -> str:
    """`direction`; ValueError unless it is "add" or "remove"."""
    if direction not in DIRECTIONS:
        raise ValueError(f"direction must be one of {', '.join(DIRECTIONS)}: got direction={direction!r}")
    return direction


def _map_log_delta(epsilon: FloatArray, knots: FloatArray, shifts: FloatArray, *, steepest: float) -> FloatArray:
    """Log of the integral of [phi(u) - gamma phi(u+h)(1+h')]_+, h piecewise linear; for 1-d epsilon >= 0.

    Slopes are kept within those of T, which are at most `steepest`, and of its inverse: close knots are rounded.
    """
    middle = np.interp(0.0, knots, shifts)
    right, left = knots > 0, knots < 0
    halves = [
        (np.append(0.0, knots[right]), np.append(middle, shifts[right])),
        (np.append(0.0, -knots[left][::-1]), np.append(-middle, -shifts[left][::-1])),  # the mirror image
    ]
    with np.errstate(all="ignore"):
        return np.logaddexp(*(_half_log_delta(epsilon[:, None], *half, steepest) for half in halves))


def _half_log_delta(epsilon: FloatArray, knots: FloatArray, shifts: FloatArray, steepest: float) -> FloatArray:
    """`_map_log_delta` over [knots[0], infinity), knots[0] = 0, for epsilon of shape (n, 1).

    At the distance t from the knot y of a piece, the privacy loss minus epsilon is the quadratic a t^2 + b t + c.
    """
    y, h, last = knots[:-1], shifts[:-1], shifts[-1]
    length = np.diff(knots)
    m = np.clip(np.diff(shifts) / length, -steepest / (1 + steepest), steepest)
    a, b = m * (1 + m / 2), h + m * (y + h)
    c = h * (y + h / 2) - epsilon - np.log1p(m)
    discriminant = b * b - 4 * a * c
    q = -(b + np.copysign(np.sqrt(np.maximum(discriminant, 0)), b)) / 2
    roots = np.sort([q / a, c / q], axis=0)
    inner, outer = (np.clip(root, 0, length) for root in roots)
    inside = (np.where((a < 0) & (discriminant > 0), inner, 0), np.where((a < 0) & (discriminant > 0), outer, 0))
    before = (0.0, np.where(a >= 0, np.where(discriminant > 0, inner, length), 0))
    after = (np.where((a >= 0) & (discriminant > 0), outer, length), length)
    parts = [_log_gain(epsilon, y + t0, y + t1, h + m * t0, h + m * t1, m) for t0, t1 in (inside, before, after)]
    onset = epsilon / last - last / 2
    beyond = tail_log_delta(epsilon, np.maximum(onset, knots[-1]), last)
    until = _log_gain(epsilon, knots[-1], onset, last, last, 0.0)
    tail = np.where(last > 0, beyond, np.where(last < 0, until, -np.inf))
    return np.logaddexp.reduce(np.concatenate([*parts, tail], axis=1), axis=1)


def _log_gain(
    epsilon: ArrayLike, y0: ArrayLike, y1: ArrayLike, h0: ArrayLike, h1: ArrayLike, slope: ArrayLike
) -> FloatArray:
    """`interval_log_delta` without its loss of digits.

    From the masses of the two intervals where the shifted one is left of -1, since tails would cancel there, and by a
    Gauss rule on intervals over which the density varies little.
    """
    epsilon, y0, y1, h0, h1, slope = np.broadcast_arrays(epsilon, y0, y1, h0, h1, slope)
    result = np.full(y0.shape, -np.inf)
    width = y1 - y0
    short = (width > 0) & (width * (1 + np.maximum(np.abs(y0), np.abs(y1)) + np.maximum(np.abs(h0), np.abs(h1))) < 0.5)
    left = (width > 0) & ~short & (y0 + h0 < -1)
    if short.any():
        result[short] = _log_short(*(each[short] for each in (epsilon, y0, y1, h0, slope)))
    for chosen, function in ((left, _log_difference_of_masses), ((width > 0) & ~short & ~left, interval_log_delta)):
        if chosen.any():
            result[chosen] = function(*(each[chosen] for each in (epsilon, y0, y1, h0, h1)))
    return result


def _log_short(epsilon: FloatArray, y0: FloatArray, y1: FloatArray, h0: FloatArray, slope: FloatArray) -> FloatArray:
    """By a Gauss rule for phi(y) (1 - e^(epsilon - loss)); 1-d arrays."""
    width = y1 - y0
    t = width * _NODES[:, None]
    y, h = y0 + t, h0 + slope * t
    gain = -np.expm1(np.minimum(epsilon - h * (y + h / 2) + np.log1p(slope), 0))
    total = width * (_WEIGHTS @ (np.exp(-t * (y0 + y) / 2) * gain))
    return log_normal_density(y0) + np.log(total)


def _log_difference_of_masses(
    epsilon: FloatArray, y0: FloatArray, y1: FloatArray, h0: FloatArray, h1: FloatArray
) -> FloatArray:
    own, other = _log_mass(y0, y1), _log_mass(y0 + h0, y1 + h1)
    masses = own + log1mexp(np.minimum(epsilon + other - own, 0))
    return np.where(np.isnan(masses), -np.inf, masses)


def _log_mass(low: FloatArray, high: FloatArray) -> FloatArray:
    """log(Phi(high) - Phi(low)) from the nearer tail."""
    low, high = np.where(low + high < 0, -high, low), np.where(low + high < 0, -low, high)
    return log_ndtr(-low) + log1mexp(np.minimum(log_ndtr(-high) - log_ndtr(-low), 0))


def interval_log_delta(epsilon: ArrayLike, y0: ArrayLike, y1: ArrayLike, r0: ArrayLike, r1: ArrayLike) -> FloatArray:
    """Log of the integral of phi(y) - gamma phi(y+r)(1+r') over [y0, y1], r linear from r0 to r1; elementwise.

    -inf where y1 <= y0 or the integral is not positive. The antiderivative is -Phi(-y) + gamma Phi(-(y+r)); all four
    tails are scaled by phi(y0) and the sum is rounded down. The part left of -30 is omitted.
    """
    epsilon, y0, y1, r0, r1 = (np.asarray(x, float) for x in (epsilon, y0, y1, r0, r1))
    with np.errstate(over="ignore", invalid="ignore", divide="ignore", under="ignore"):
        r0 = np.where(y0 < -30, r1 + (r0 - r1) * np.divide(y1 + 30, y1 - y0), r0)
        y0 = np.maximum(y0, -30)
        total, error = _tails(epsilon, y0, r0)
        end, end_error = _tails(epsilon, y1, r1)
        exponent = (y0 - y1) * (y0 + y1) / 2
        fall = np.exp(exponent)
        total = total - fall * end - _ROUNDING * (error + fall * end_error * (1 + np.minimum(np.abs(exponent), 1e3)))
        return np.where((y1 > y0) & (total > 0), log_normal_density(y0) + np.log(total), -np.inf)


def tail_log_delta(epsilon: ArrayLike, y: ArrayLike, r: ArrayLike) -> FloatArray:
    """Log of the integral of phi - gamma phi(. + r) over [y, infinity), r >= 0 constant; see `interval_log_delta`."""
    epsilon, y, r = (np.asarray(x, float) for x in (epsilon, y, r))
    with np.errstate(over="ignore", invalid="ignore", divide="ignore", under="ignore"):
        y = np.maximum(y, -30)
        total, error = _tails(epsilon, y, r)
        total = total - _ROUNDING * error
        return np.where(total > 0, log_normal_density(y) + np.log(total), -np.inf)


def _tails(epsilon: FloatArray, y: FloatArray, r: FloatArray) -> tuple[FloatArray, FloatArray]:
    """[Phi(-y) - gamma Phi(-y-r)] / phi(y), and its error in units of `_ROUNDING`."""
    r = np.where(y + r < -30, -30 - y, r)  # Phi(30) = 1 to within e^-450
    exponent = r * (y + r / 2)
    own, other = mills_ratio(y), np.exp(epsilon - exponent) * mills_ratio(y + r)
    # left of 0 the Mills ratio grows as e^(y^2/2), whose exponent is rounded too
    error = (1 + np.minimum(y, 0) ** 2) * own + (1 + epsilon + np.abs(exponent) + np.minimum(y + r, 0) ** 2) * other
    return own - other, error
