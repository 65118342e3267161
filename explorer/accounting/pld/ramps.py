"""Full-speed ramps: the losses that leak most over several uses of objective perturbation, and their profiles.

Both directions in the same coordinates (docs/mathematics/composition.md). In units of the noise, with s = L / sigma,
kappa = beta / lambda and kappa' = kappa / (1+kappa), a map shifts the noise y by r(y), which does not increase, from s
to -s, or to 0 for monotone losses. The ramp of centre t holds s, then lets the shift fall at full speed along

    y = t - r/kappa_y,    x = t - r/kappa_x,    m(r) = t r - c r^2,    c = 1/kappa + 1/2,

and then holds the least shift. Here y is the outcome under the first law and x the noise that gives it under the other:

    remove  kappa_y = kappa', kappa_x = kappa,  x = y + r; privacy loss  y r + r^2/2 at rest,  m + log(1+kappa) on it
    add     kappa_y = kappa,  kappa_x = kappa', x = y - r; privacy loss -y r + r^2/2 at rest, -m - log(1+kappa) on it
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.special import ndtr

from explorer.accounting.pld.discretisation import EPS
from explorer.accounting.types import FloatArray


class RampProfiles(NamedTuple):
    """The profiles H(gamma), gamma = e^epsilon, of ramps (rows) at each epsilon (columns).

    Attributes
    ----------
    excess : ndarray, H - (1 - gamma)_+
    slope : ndarray, minus the derivative of the excess in log gamma
    rounding : ndarray, bound on the rounding error of either
    """

    excess: FloatArray
    slope: FloatArray
    rounding: FloatArray


@dataclass(frozen=True, kw_only=True)
class Ramps:
    """The ramps of one direction.

    Attributes
    ----------
    s, kappa : float > 0
    remove : bool, the direction: "remove", or else "add"
    monotone : bool, whether the shift keeps one sign
    """

    s: float
    kappa: float
    remove: bool
    monotone: bool

    @property
    def jump(self) -> float:
        """log(1 + kappa), the size of what full speed adds to the privacy loss."""
        return float(np.log1p(self.kappa))

    @property
    def kappa_y(self) -> float:
        """Speed of a ramp against y."""
        return self.kappa / (1 + self.kappa) if self.remove else self.kappa

    @property
    def kappa_x(self) -> float:
        """Speed of a ramp against x."""
        return self.kappa if self.remove else self.kappa / (1 + self.kappa)

    @property
    def curvature(self) -> float:
        """c = 1/kappa + 1/2."""
        return 1 / self.kappa + 0.5

    def profiles(self, centres: FloatArray, epsilon: FloatArray) -> RampProfiles:
        """The profiles of the ramps of `centres` (1-d, >= 0) at `epsilon` (1-d, nats, any real numbers).

        With A the set where the privacy loss exceeds epsilon, H = P(A) - gamma Q(A). For gamma < 1 the excess is
        gamma Q - P of the complement of A: then no term is large where the excess is small.
        """
        shape = (centres.size, epsilon.size)
        excess, slope, rounding = np.zeros(shape), np.zeros(shape), np.zeros(shape)
        for exceeding in (True, False):
            chosen = (epsilon >= 0) == exceeding
            sign = 1.0 if exceeding else -1.0
            for low, high, shift_low, shift_high in self._pieces(centres[:, None], epsilon[chosen], exceeding):
                own, own_rounding = _mass(low, high)
                other, other_rounding = _mass(low + shift_low, high + shift_high)
                gamma = np.exp(epsilon[chosen])
                excess[:, chosen] += sign * (own - gamma * other)
                slope[:, chosen] += sign * gamma * other
                rounding[:, chosen] += own_rounding + gamma * other_rounding
        return RampProfiles(excess, slope, rounding)

    def _pieces(self, t: FloatArray, epsilon: FloatArray, exceeding: bool) -> Iterator[tuple[FloatArray, ...]]:
        """Intervals of y, with x - y at both ends, where the privacy loss exceeds epsilon, or where it does not."""
        s, sign = self.s, 1.0 if self.remove else -1.0
        onset = epsilon / s - s / 2  # of y, where the privacy loss of a constant shift s passes epsilon
        least = 0.0 if self.monotone else -s
        first, last = t - s / self.kappa_y, t - least / self.kappa_y
        held = np.full_like(t + onset, sign * s)
        end = np.minimum(sign * onset, first)
        yield (end, first, held, held) if self.remove == exceeding else (-np.inf + end, end, held, held)
        if not self.monotone:
            end = np.maximum(-sign * onset, last)
            yield (last, end, -held, -held) if self.remove == exceeding else (end, np.inf + end, -held, -held)
        level = sign * epsilon - self.jump  # m passes it where the privacy loss passes epsilon
        root = np.sqrt(np.maximum(t * t - 4 * self.curvature * level, 0))
        upper = (t + root) / (2 * self.curvature)
        lower = np.where(t + root > 0, 2 * level / np.maximum(t + root, 1e-300), 0.0)
        lower = np.where(t * t > 4 * self.curvature * level, lower, upper)
        lower, upper = np.clip(lower, least, s), np.clip(upper, least, s)
        inside = self.remove == exceeding
        for r_low, r_high in [(lower, upper)] if inside else [(least + 0 * lower, lower), (upper, s + 0 * upper)]:
            y = t - r_high / self.kappa_y, t - r_low / self.kappa_y
            yield *y, sign * r_high, sign * r_low


def _mass(low: FloatArray, high: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Mass of [low, high] under the standard normal law, from the nearer tail, and a bound on its rounding error."""
    low, high = np.broadcast_arrays(low, high)
    flip = low + high > 0
    near, far = np.where(flip, -low, high), np.where(flip, -high, low)
    tail = ndtr(near)
    rounding = 8 * EPS * tail * (2 + np.square(np.where(tail > 0, near, 0.0)))
    return np.maximum(tail - ndtr(far), 0.0), np.where(high > low, rounding, 0.0)
