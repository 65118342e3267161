"""Sums of independent grid losses by FFT, with a bound on everything the computation gets wrong.

A tilted loss has masses p_i e^(tilt x_i - K), K = log sum p_i e^(tilt x_i). Tilting commutes with convolution, and the
FFT's rounding error, which is about the same everywhere, then is small *relative* to delta around the losses on which
the tilt puts the weight: tilt 0 serves large delta, tilt > 0 the tail.

What is certified, in units of the tilted sum:

- Each output of a FFT of length N is a sum of the inputs times at most log2 N computed roots of unity, so it is off
  by at most eta = O(u log2 N) sum |input| = eta. (|z| + eta)^k then bounds what the k-th power makes of it.
- Summing the result with weights (1 - e^(epsilon - x))_+ e^(-tilt x), the error is at most the weights' l2 norm times the
  error's l2 norm, which Parseval takes from the transform's side.
- Wrap-around and the mass outside the window are at most e^-40 at each end (Chernoff).
"""

from dataclasses import dataclass

import numpy as np
from scipy.fft import irfft, next_fast_len, rfft
from scipy.signal import lfilter

_EPS = np.finfo(float).eps
_LOG_TAIL = -40.0


@dataclass(frozen=True)
class TiltedProfile:
    """The privacy profile of a sum of grid losses, with its error, scaled by e^(tilt epsilon - log_scale).

    Attributes
    ----------
    step, first : float, int; knot i is at (first + i) * step
    tilt, log_scale : float
    profile, slope : ndarray; at each knot delta without infinite losses, and -gamma d delta/d gamma left of it, scaled
    error : float, absolute error in scaled units (FFT rounding, wrap-around, mass outside the window)
    log_infinity : float, log of the mass at infinity
    """

    step: float
    first: int
    tilt: float
    log_scale: float
    profile: np.ndarray
    slope: np.ndarray
    error: float
    log_infinity: float

    def log_delta(self, epsilon, *, sign):
        """Log of the profile at `epsilon` (finite, ndarray), moved by the error: up for sign=1, down for sign=-1."""
        size = self.profile.size
        index = np.ceil(np.clip(epsilon / self.step - self.first, 0, size)).astype(int)
        before = epsilon - (self.first + index) * self.step
        inside = np.minimum(index, size - 1)
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            scaled = np.exp(self.tilt * before) * (self.profile[inside] - self.slope[inside] * np.expm1(before))
            scaled = np.where(index < size, scaled, 0.0)
            summation = 8 * _EPS * size
            finite = np.log(np.maximum(scaled * (1 + sign * summation) + sign * self.error, 0.0))
            return np.logaddexp(finite + self.log_scale - self.tilt * epsilon, self.log_infinity)


def cumulant(loss, tilt):
    """log sum p_i e^(tilt x_i) over the finite losses of a GridLoss, for an array of tilts."""
    (used,) = np.nonzero(loss.mass)
    exponent = np.multiply.outer(np.asarray(tilt, float), (loss.start + used) * loss.step) + np.log(loss.mass[used])
    top = exponent.max(axis=-1)
    return top + np.log(np.exp(exponent - top[..., None]).sum(axis=-1))


def total_cumulant(losses, counts, tilt):
    """The same for the sum of counts[f] independent copies of each losses[f]."""
    return sum(k * cumulant(loss, tilt) for k, loss in zip(counts, losses, strict=True))


def window(losses, counts, *, tilt):
    """An interval of losses (nats) that holds all of the tilted sum but at most e^-40 at each end, by Chernoff."""
    lowest = sum(k * loss.start * loss.step for k, loss in zip(counts, losses, strict=True))
    highest = lowest + sum(k * (loss.mass.size - 1) * loss.step for k, loss in zip(counts, losses, strict=True))
    variance = sum(k * max(_variance(m, tilt), m.step**2) for k, m in zip(counts, losses, strict=True))
    # the Gaussian optimum sqrt(80) / deviation, and factors of sqrt 2 around it
    t = np.sqrt(-2 * _LOG_TAIL / variance) * 2.0 ** np.linspace(-2, 2, 9)
    centre = total_cumulant(losses, counts, np.array([tilt]))
    right = np.min((total_cumulant(losses, counts, tilt + t) - centre - _LOG_TAIL) / t)
    left = np.max((centre - total_cumulant(losses, counts, tilt - t) + _LOG_TAIL) / t)
    return max(float(left), lowest), min(float(right), highest)


def convolve(losses, counts, *, tilt):
    """The profile of the sum of counts[f] independent copies of each of the grid losses[f].

    Parameters
    ----------
    losses : sequence of GridLoss on the same step
    counts : sequence of int >= 1
    tilt : float >= 0

    Returns
    -------
    TiltedProfile
    """
    step = losses[0].step
    log_scales = [float(cumulant(loss, tilt)) for loss in losses]
    tilted = [_tilt(loss, tilt, k) for loss, k in zip(losses, log_scales, strict=True)]
    if sum(counts) == 1:
        first, mass, error_norm, outside = losses[0].start, tilted[0], 0.0, 0.0
    else:
        left, right = window(losses, counts, tilt=tilt)
        first, last = int(np.floor(left / step)), int(np.ceil(right / step))
        length = next_fast_len(max(last - first + 1, *(loss.mass.size for loss in losses)), real=True)
        offset = first - sum(k * loss.start for k, loss in zip(counts, losses, strict=True))
        mass, error_norm = _power_product(tilted, counts, length)
        mass, outside = np.roll(mass, -(offset % length)), 3 * np.exp(_LOG_TAIL)
    profile, slope = _suffix_sums(mass, step, tilt)
    return TiltedProfile(
        step=step,
        first=first,
        tilt=tilt,
        log_scale=float(np.dot(counts, log_scales)),
        profile=profile,
        slope=slope,
        error=error_norm * _weight_norm(mass.size, step, tilt) + outside,
        log_infinity=_log_infinity(losses, counts),
    )


def _tilt(loss, tilt, log_scale):
    exponent = tilt * (loss.start + np.arange(loss.mass.size)) * loss.step - log_scale
    with np.errstate(divide="ignore"):
        return np.exp(exponent + np.log(loss.mass))


def _variance(loss, tilt):
    losses = (loss.start + np.arange(loss.mass.size)) * loss.step
    weight = _tilt(loss, tilt, float(cumulant(loss, tilt)))
    mean = weight @ losses
    return weight @ np.square(losses - mean)


def _power_product(masses, counts, length):
    """The circular convolution of each masses[f] counts[f] times with itself and all others, and its l2 error."""
    eta = 8 * _EPS * (np.log2(length) + 8)
    product, modulus, sensitivity = 1.0, 1.0, eta
    for mass, count in zip(masses, counts, strict=True):
        transform = rfft(mass, length)
        bound = np.abs(transform) + eta
        product = product * _power(transform, count)
        modulus = modulus * bound**count
        sensitivity = sensitivity + count * eta / bound
    error = np.linalg.norm(modulus * sensitivity) * np.sqrt(2 / length)
    return irfft(product, length), error


def _power(z, count):
    """z^count by repeated squaring: exact but for count roundings."""
    result = None
    while count:
        if count & 1:
            result = z if result is None else result * z
        count >>= 1
        if count:
            z = z * z
    return result


def _suffix_sums(mass, step, tilt):
    """For each knot i: sum_{j > i} m_j (1 - e^(x_i - x_j)) e^(tilt (x_i - x_j)) and sum_{j >= i} m_j e^((1 + tilt)(x_i - x_j)).

    Both by recursion from the right, in positive terms.
    """
    slope = lfilter([1.0], [1.0, -np.exp(-(1 + tilt) * step)], mass[::-1])
    decay = np.exp(-tilt * step)
    gain = np.insert(slope[:-1], 0, 0.0) * (-np.expm1(-step) * decay)
    profile = lfilter([1.0], [1.0, -decay], gain)
    return profile[::-1], slope[::-1]


def _weight_norm(size, step, tilt):
    """l2 norm of (1 - e^(epsilon - x)) e^(tilt (epsilon - x)) over knots x > epsilon, at its largest over epsilon."""
    distance = np.arange(1, size + 1) * step
    return float(np.linalg.norm(np.expm1(-distance) * np.exp(-tilt * (distance - step))))


def _log_infinity(losses, counts):
    """log( prod (finite + infinite)^k - prod finite^k )."""
    log_total, log_finite_share = 0.0, 0.0
    for loss, count in zip(losses, counts, strict=True):
        total = loss.mass.sum() + loss.infinity_mass
        log_total += count * np.log(total)
        log_finite_share += count * np.log1p(-loss.infinity_mass / total) if loss.infinity_mass < total else -np.inf
    share = -np.expm1(log_finite_share)
    return float(log_total + np.log(share)) if share > 0 else -np.inf
