"""Sums of independent privacy losses on a grid by FFT, with a bound on all errors of the computation.

A tilted privacy loss has masses p_i e^(tilt x_i - K), K = log sum p_i e^(tilt x_i). Tilting commutes with convolution.
The rounding error of the FFT is about the same at all grid points, so it is small *relative* to delta where the tilted
mass is large: tilt 0 is for large delta, tilt > 0 for the tail.

The error bounds, in units of the tilted sum:

- Each output of an FFT of length N is a sum of the inputs times at most log2 N computed roots of unity, so its error is
  at most eta = O(u log2 N) sum |input|, and the inputs add up to 1. The k-th power of it is bounded by (|z| + eta)^k.
- Summed with weights (1 - e^(epsilon - x))_+ e^(tilt (epsilon - x)), the error is at most the l2 norm of the weights
  times that of the error, which equals that of its transform (Parseval).
- Wrap-around and the mass outside the window are bounded by Chernoff bounds at each end.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.fft import irfft, next_fast_len, rfft
from scipy.signal import lfilter

from explorer.accounting.pld.discretisation import EPS, GridPLD
from explorer.accounting.types import BoolArray, FloatArray

_LOG_TAIL = -40.0


@dataclass(frozen=True)
class TiltedProfile:
    """The privacy profile of a sum of privacy losses on a grid, with its error, scaled by e^(tilt epsilon - log_scale).

    Attributes
    ----------
    step, first : float, int; knot i is at (first + i) * step
    tilt, log_scale : float
    profile, slope : ndarray; at each knot delta without infinite privacy losses, and -gamma d delta/d gamma to its
    left, scaled
    error : float, absolute error in scaled units (FFT rounding, wrap-around, mass outside the window)
    log_infinity : float, log of the mass at infinity
    """

    step: float
    first: int
    tilt: float
    log_scale: float
    profile: FloatArray
    slope: FloatArray
    error: float
    log_infinity: float

    @property
    def knots(self) -> FloatArray:
        """The grid points of the window, nats."""
        return np.asarray(np.arange(self.first, self.first + self.profile.size) * self.step, float)

    def log_delta(self, epsilon: FloatArray, *, sign: int) -> tuple[FloatArray, BoolArray]:
        """Log of the profile at `epsilon` (finite ndarray) plus the error for sign=1, minus the error for sign=-1; and
        whether the error exceeds 1e-7 of the profile."""
        size = self.profile.size
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            index = np.ceil(np.clip(epsilon / self.step - self.first, 0, size)).astype(int)
            before = epsilon - (self.first + index) * self.step
            inside = np.minimum(index, size - 1)
            scaled = np.exp(self.tilt * before) * (self.profile[inside] - self.slope[inside] * np.expm1(before))
            scaled = np.where(index < size, scaled, 0.0)
            inexact = self.error > 1e-7 * scaled
            drift = np.clip(self.tilt * epsilon, -1e300, 1e300)
            rounding = 4 * EPS * (2 * size + abs(self.log_scale) + np.abs(drift))  # of the recursions and exponents
            finite = np.log(np.maximum(scaled + sign * self.error, 0.0)) + (self.log_scale - drift + sign * rounding)
            return np.logaddexp(finite, self.log_infinity + sign * 4 * EPS), inexact


def cumulant(plds: Sequence[GridPLD], counts: Sequence[int], tilt: ArrayLike) -> FloatArray:
    """log E e^(tilt S) over finite S, the sum of counts[f] copies of each plds[f], for an array of tilts."""
    terms = (k * _cumulant(pld, tilt) for k, pld in zip(counts, plds, strict=True))
    return sum(terms, np.zeros(np.shape(tilt)))


def _cumulant(pld: GridPLD, tilt: ArrayLike) -> FloatArray:
    used = pld.mass > 0
    if not used.any():
        return np.full(np.shape(tilt), -np.inf)
    exponent = np.multiply.outer(np.asarray(tilt, float), pld.index[used] * pld.step)
    top = exponent.max(axis=-1)
    return top + np.log(np.exp(exponent - top[..., None]) @ pld.mass[used])


def tilted_moments(plds: Sequence[GridPLD], counts: Sequence[int], tilt: float) -> tuple[float, float]:
    """Mean and variance of the sum tilted by the float `tilt`."""
    mean = variance = 0.0
    for pld, count in zip(plds, counts, strict=True):
        x, weight = pld.index * pld.step, _tilted_mass(pld, tilt)
        centre = weight @ x
        mean += count * centre
        variance += count * max(weight @ np.square(x - centre), pld.step**2)
    return float(mean), float(variance)


def _tilted_mass(pld: GridPLD, tilt: float) -> FloatArray:
    return _tilt(pld, tilt)[0]


def _tilt(pld: GridPLD, tilt: float) -> tuple[FloatArray, float]:
    """The tilted masses, and a bound on the sum of their rounding errors."""
    used = pld.mass > 0
    shift, log_mass, scale = tilt * pld.index[used] * pld.step, np.log(pld.mass[used]), -_cumulant(pld, tilt)
    mass = np.zeros(pld.mass.size)
    mass[used] = np.exp(shift + log_mass + scale)
    return mass, 2 * EPS * float(mass[used] @ (2 + (np.abs(shift) + np.abs(log_mass) + np.abs(scale))))


def find_window(plds: Sequence[GridPLD], counts: Sequence[int], *, tilt: float) -> tuple[float, float]:
    """The interval (left, right), nats, outside of which the tilted sum has a mass of at most e^-40 at each end.

    From the best of several Chernoff bounds, or the end of the sum's range.
    """
    _, variance = tilted_moments(plds, counts, tilt)
    # the Gaussian optimum sqrt(80) / deviation, and smaller ones for rare large privacy losses
    t = np.sqrt(-2 * _LOG_TAIL / variance) * 2.0 ** np.linspace(-8, 2, 31)
    centre = cumulant(plds, counts, np.array([tilt]))
    right = np.min((cumulant(plds, counts, tilt + t) - centre - _LOG_TAIL) / t)
    left = np.max((centre - cumulant(plds, counts, tilt - t) + _LOG_TAIL) / t)
    lowest, highest = (sum(k * m.index[end] * m.step for k, m in zip(counts, plds, strict=True)) for end in (0, -1))
    return max(float(left), float(lowest)), min(float(right), float(highest))


def convolve(plds: Sequence[GridPLD], counts: Sequence[int], *, tilt: float) -> TiltedProfile:
    """The `TiltedProfile` of the sum of counts[f] independent copies of each plds[f], all of the same step."""
    step = plds[0].step
    if not all(pld.mass.any() for pld in plds):  # one of them is infinite with probability 1, and so is the sum
        nothing = np.zeros(1)
        return TiltedProfile(step, 0, tilt, 0.0, nothing, nothing, 0.0, _log_infinity(plds, counts))
    left, right = find_window(plds, counts, tilt=tilt)
    first, last = int(np.floor(left / step)), int(np.ceil(right / step))
    outside = 2 * 2.01 * np.exp(_LOG_TAIL)  # two ends; once for what is missing, once for what wraps around
    tilted, roundings = zip(*(_tilt(pld, tilt) for pld in plds), strict=True)
    if sum(counts) == 1:
        index = plds[0].index - first
        inside = (index >= 0) & (index <= last - first)
        mass, error = np.bincount(index[inside], tilted[0][inside], minlength=last - first + 1), roundings[0]
    else:
        length = _fast_length(last - first + 1)
        folded = [np.bincount(m.index % length, w, minlength=length) for m, w in zip(plds, tilted, strict=True)]
        mass, error_norm = _power_product(folded, counts, length, roundings)
        mass, error = np.roll(mass, -(first % length)), error_norm * _weight_norm(length, step, tilt)
    profile, slope = suffix_sums(mass, step, tilt)
    return TiltedProfile(
        step=step,
        first=first,
        tilt=tilt,
        log_scale=float(cumulant(plds, counts, tilt)),
        profile=profile,
        slope=slope,
        error=error + outside,
        log_infinity=_log_infinity(plds, counts),
    )


def _fast_length(least: int) -> int:
    """The smallest length from `least` on for which the FFT of real numbers is fast."""
    length: int = next_fast_len(least, real=True)  # pyright: ignore (SciPy has no annotations: inferred as None)
    return length


def _power_product(
    masses: Sequence[FloatArray], counts: Sequence[int], length: int, roundings: Sequence[float]
) -> tuple[FloatArray, float]:
    """The circular convolution of counts[f] copies of each masses[f], and its l2 error."""
    fft_error = 8 * EPS * (np.log2(length) + 8)
    product, modulus, sensitivity = np.ones(1), np.ones(1), np.full(1, fft_error)
    for mass, count, rounding in zip(masses, counts, roundings, strict=True):
        transform, eta = np.asarray(rfft(mass)), fft_error + rounding
        bound = np.abs(transform) + eta
        product = product * _power(transform, count)
        modulus = modulus * _power(bound, count)
        sensitivity = sensitivity + count * eta / bound
    error = float(np.linalg.norm(modulus * sensitivity)) * np.sqrt(2 / length)
    return np.asarray(irfft(product, length)), error


def _power(z: NDArray, count: int) -> NDArray:
    """z^count for count >= 1 by repeated squaring, with `count` rounding errors at most."""
    result = None
    while count > 1:
        if count & 1:
            result = z if result is None else result * z
        count >>= 1
        z = z * z
    return z if result is None else result * z


def suffix_sums(mass: FloatArray, step: float, tilt: float) -> tuple[FloatArray, FloatArray]:
    """Sums over y > x of m(y) (1 - e^(x-y)) e^(tilt (x-y)), and over y >= x of m(y) e^((1 + tilt)(x-y)), at each x.

    Both by recursion from the right, as sums of positive terms.
    """
    slope = np.asarray(lfilter([1.0], [1.0, -np.exp(-(1 + tilt) * step)], mass[::-1]), float)
    decay = np.exp(-tilt * step)
    gain = np.insert(slope[:-1], 0, 0.0) * (-np.expm1(-step) * decay)
    profile = np.asarray(lfilter([1.0], [1.0, -decay], gain), float)
    return profile[::-1], slope[::-1]


def _weight_norm(size: int, step: float, tilt: float) -> float:
    """l2 norm of (1 - e^(epsilon - x)) e^(tilt (epsilon - x)) over knots x > epsilon, at its largest over epsilon."""
    distance = np.arange(1, size + 1) * step
    return float(np.linalg.norm(np.expm1(-distance) * np.exp(-tilt * (distance - step))))


def _log_infinity(plds: Sequence[GridPLD], counts: Sequence[int]) -> float:
    """log( prod (finite + infinite)^k - prod finite^k )."""
    log_total, log_finite_share = 0.0, 0.0
    for pld, count in zip(plds, counts, strict=True):
        total = pld.mass.sum() + pld.infinity_mass
        if total == 0:
            return -np.inf
        log_total += count * np.log(total)
        log_finite_share += count * np.log1p(-pld.infinity_mass / total) if pld.infinity_mass < total else -np.inf
    share = -np.expm1(log_finite_share)
    return float(log_total + np.log(share)) if share > 0 else -np.inf
