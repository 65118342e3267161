"""Sums of independent grid losses by FFT, with a bound on everything the computation gets wrong.

A tilted loss has masses p_i e^(tilt x_i - K), K = log sum p_i e^(tilt x_i). Tilting commutes with convolution, and the
FFT's rounding error, which is about the same everywhere, then is small *relative* to delta around the losses on which
the tilt puts the weight: tilt 0 serves large delta, tilt > 0 the tail.

What is certified, in units of the tilted sum:

- Each output of a FFT of length N is a sum of the inputs times at most log2 N computed roots of unity, so it is off by
  at most eta = O(u log2 N) sum |input|, and the inputs add up to 1. (|z| + eta)^k then bounds what a k-th power makes
  of it.
- Summed with weights (1 - e^(epsilon - x))_+ e^(tilt (epsilon - x)), the error is at most the l2 norm of the weights
  times that of the error, which Parseval takes from the transform's side.
- Wrap-around and the mass outside the window are bounded by Chernoff at each end.
"""

from dataclasses import dataclass

import numpy as np
from scipy.fft import irfft, next_fast_len, rfft
from scipy.signal import lfilter

from explorer.accounting.pld.discretisation import EPS

_LOG_TAIL = -40.0


@dataclass(frozen=True)
class TiltedProfile:
    """The privacy profile of a sum of grid losses, with its error, scaled by e^(tilt epsilon - log_scale).

    Attributes
    ----------
    step, first : float, int; knot i is at (first + i) * step
    tilt, log_scale : float
    profile, slope : ndarray; at each knot delta without infinite losses, and -gamma d delta/d gamma to its left, scaled
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

    @property
    def knots(self):
        """The grid points of the window, nats."""
        return np.arange(self.first, self.first + self.profile.size) * self.step

    def log_delta(self, epsilon, *, sign):
        """Log of the profile at `epsilon` (finite ndarray) moved by the error, up for sign=1, down for sign=-1; and
        whether the error is a visible part of it."""
        size = self.profile.size
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            index = np.ceil(np.clip(epsilon / self.step - self.first, 0, size)).astype(int)
            before = epsilon - (self.first + index) * self.step
            inside = np.minimum(index, size - 1)
            scaled = np.exp(self.tilt * before) * (self.profile[inside] - self.slope[inside] * np.expm1(before))
            scaled = np.where(index < size, scaled, 0.0)
            vague = self.error > 1e-7 * scaled
            drift = np.clip(self.tilt * epsilon, -1e300, 1e300)
            rounding = 4 * EPS * (2 * size + abs(self.log_scale) + np.abs(drift))  # of the recursions and exponents
            finite = np.log(np.maximum(scaled + sign * self.error, 0.0)) + (self.log_scale - drift + sign * rounding)
            return np.logaddexp(finite, self.log_infinity + sign * 4 * EPS), vague


def cumulant(losses, counts, tilt):
    """log E e^(tilt S) over finite S, the sum of counts[f] copies of each losses[f], for an array of tilts."""
    return sum(k * _cumulant(loss, tilt) for k, loss in zip(counts, losses, strict=True))


def _cumulant(loss, tilt):
    used = loss.mass > 0
    if not used.any():
        return np.full(np.shape(tilt), -np.inf)
    exponent = np.multiply.outer(np.asarray(tilt, float), loss.index[used] * loss.step)
    top = exponent.max(axis=-1)
    return top + np.log(np.exp(exponent - top[..., None]) @ loss.mass[used])


def tilted_moments(losses, counts, tilt):
    """Mean and variance of the sum tilted by the float `tilt`."""
    mean = variance = 0.0
    for loss, count in zip(losses, counts, strict=True):
        x, weight = loss.index * loss.step, _tilted_mass(loss, tilt)
        centre = weight @ x
        mean += count * centre
        variance += count * max(weight @ np.square(x - centre), loss.step**2)
    return float(mean), float(variance)


def _tilted_mass(loss, tilt):
    return _tilt(loss, tilt)[0]


def _tilt(loss, tilt):
    """The tilted masses, and a bound on the sum of their rounding errors."""
    used = loss.mass > 0
    terms = tilt * loss.index[used] * loss.step, np.log(loss.mass[used]), -_cumulant(loss, tilt)
    mass = np.zeros(loss.mass.size)
    mass[used] = np.exp(sum(terms))
    return mass, 2 * EPS * float(mass[used] @ (2 + sum(map(np.abs, terms))))


def find_window(losses, counts, *, tilt):
    """Losses (left, right) in nats between which the sum tilted by the float `tilt` lies but for e^-40 at each end.

    By the best Chernoff bounds among a geometric choice, or by the end of the sum's range.
    """
    _, variance = tilted_moments(losses, counts, tilt)
    # the Gaussian optimum sqrt(80) / deviation, and smaller ones for rare large losses
    t = np.sqrt(-2 * _LOG_TAIL / variance) * 2.0 ** np.linspace(-8, 2, 31)
    centre = cumulant(losses, counts, np.array([tilt]))
    right = np.min((cumulant(losses, counts, tilt + t) - centre - _LOG_TAIL) / t)
    left = np.max((centre - cumulant(losses, counts, tilt - t) + _LOG_TAIL) / t)
    lowest, highest = (sum(k * m.index[end] * m.step for k, m in zip(counts, losses, strict=True)) for end in (0, -1))
    return max(float(left), lowest), min(float(right), highest)


def convolve(losses, counts, *, tilt):
    """The `TiltedProfile` of the sum of counts[f] independent copies of each losses[f], GridPLDs on one step."""
    step = losses[0].step
    if not all(loss.mass.any() for loss in losses):  # one of them is never finite, so the sum is not
        nothing = np.zeros(1)
        return TiltedProfile(step, 0, tilt, 0.0, nothing, nothing, 0.0, _log_infinity(losses, counts))
    left, right = find_window(losses, counts, tilt=tilt)
    first, last = int(np.floor(left / step)), int(np.ceil(right / step))
    outside = 2 * 2.01 * np.exp(_LOG_TAIL)  # two ends; once for what is missing, once for what wraps around
    tilted, roundings = zip(*(_tilt(loss, tilt) for loss in losses), strict=True)
    if sum(counts) == 1:
        index = losses[0].index - first
        inside = (index >= 0) & (index <= last - first)
        mass, error = np.bincount(index[inside], tilted[0][inside], minlength=last - first + 1), roundings[0]
    else:
        length = next_fast_len(last - first + 1, real=True)
        folded = [np.bincount(m.index % length, w, minlength=length) for m, w in zip(losses, tilted, strict=True)]
        mass, error_norm = _power_product(folded, counts, length, roundings)
        mass, error = np.roll(mass, -(first % length)), error_norm * _weight_norm(length, step, tilt)
    profile, slope = _suffix_sums(mass, step, tilt)
    return TiltedProfile(
        step=step,
        first=first,
        tilt=tilt,
        log_scale=float(cumulant(losses, counts, tilt)),
        profile=profile,
        slope=slope,
        error=error + outside,
        log_infinity=_log_infinity(losses, counts),
    )


def _power_product(masses, counts, length, roundings):
    """The circular convolution of each masses[f] counts[f] times with itself and all others, and its l2 error."""
    fft_error = 8 * EPS * (np.log2(length) + 8)
    product, modulus, sensitivity = 1.0, 1.0, fft_error
    for mass, count, rounding in zip(masses, counts, roundings, strict=True):
        transform, eta = rfft(mass), fft_error + rounding
        bound = np.abs(transform) + eta
        product = product * _power(transform, count)
        modulus = modulus * _power(bound, count)
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
    """Sums over y > x of m(y) (1 - e^(x-y)) e^(tilt (x-y)), and over y >= x of m(y) e^((1 + tilt)(x-y)), at each x.

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
        if total == 0:
            return -np.inf
        log_total += count * np.log(total)
        log_finite_share += count * np.log1p(-loss.infinity_mass / total) if loss.infinity_mass < total else -np.inf
    share = -np.expm1(log_finite_share)
    return float(log_total + np.log(share)) if share > 0 else -np.inf
