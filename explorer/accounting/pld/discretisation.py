"""A privacy profile on an equidistant grid of privacy losses, from above and from below.

Write gamma = e^epsilon and h(gamma) = delta(log gamma). The profile of a pair of distributions is convex and
non-increasing in gamma with h(0) = 1, and a piecewise-linear h with knots gamma_i = e^(x_i) is the profile of a privacy
loss that takes the value x_i with probability gamma_i times the rise of h's slope there, and infinity with
probability h(infinity):

    h(gamma) = sum_i p_i (1 - gamma / gamma_i)_+ + p_infinity.

If h <= h' everywhere then every composition of h with another profile is below that of h' (composition averages one
profile over the privacy losses of the other, with non-negative weights; the p_i need not add up to 1 for that). So a
piecewise-linear majorant and a piecewise-linear minorant, both with knots on the grid, enclose every composition.

Majorant: connect the dots (Doroshenko et al. 2022), that is, join the values at the knots, raised by their rounding
error, by chords. If the profile is only a bound and not convex, take the lower convex envelope of the values, which is
above every convex function below them. The last value becomes the mass at infinity.

Minorant: two values h(a) >= h(b) in the middle of a cell give a chord which is below h outside [a, b]; inside, h is
above the extensions of its chords over [left end, a] and over [b, right end]. So the first chord, lowered by its height
over the crossing of these two, is below h everywhere. At each knot take the smaller of the lines of the two adjacent
cells: each cell's chord then is below its own line. The minorant is the lower convex envelope of these values.

Both differ from h by O(step^2) where the privacy loss has a bounded density, and by O(step) at an atom that is not on
a knot.
"""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from explorer.accounting.types import FloatArray, LogProfile

EPS = float(np.finfo(float).eps)
SMALLEST_STEP = 1e-18  # nats
_INNER = (0.375, 0.625)  # a and b relative to a cell; exact in binary
_LEFT_TAIL = 1e-12  # mass of small privacy losses that may be moved: an error of that size, *relative* to delta
_RIGHT_TAIL = 1e-40  # mass of large privacy losses that may become infinite: an absolute error


@dataclass(frozen=True)
class GridPLD:
    """A privacy loss with mass[i] at index[i] * step and infinity_mass at infinity; masses need not add up to 1."""

    step: float
    index: NDArray
    mass: FloatArray
    infinity_mass: float


Side: TypeAlias = Callable[..., GridPLD]  # `majorant` or `minorant`


def majorant(log_delta: LogProfile, knots: NDArray, *, step: float, relative_error: float) -> GridPLD:
    """A GridPLD whose profile is nowhere below exp(log_delta); parameters as for `minorant`."""
    value, error = _values(log_delta, knots * step, relative_error)
    raised = np.minimum(value + error, 1.0)
    return GridPLD(step, knots, *convex_masses(raised, knots, origin=1.0, step=step, rounding=4 * EPS))


def minorant(log_delta: LogProfile, knots: NDArray, *, step: float, relative_error: float) -> GridPLD:
    """A GridPLD whose profile is nowhere above exp(log_delta).

    Parameters
    ----------
    log_delta : callable, elementwise on float arrays, log of a privacy profile at every real epsilon and +inf (nats)
    knots : increasing ndarray of at least two ints, grid points in units of the step
    step : float > 0, of at most 24 significant bits, so that the grid points are exact
    relative_error : float; exp(log_delta) is correct up to a factor 1 +- relative_error (1 + |log_delta|)
    """
    left_end, gap = knots[:-1] * step, np.diff(knots) * step
    value, error = _values(log_delta, knots * step, relative_error)
    first, _ = _values(log_delta, left_end + _INNER[0] * gap, relative_error)
    second, _ = _values(log_delta, left_end + _INNER[1] * gap, relative_error)
    # slopes against gamma in units of the cell's left end, where the cell is [1, e^gap]
    to_first, to_second, to_end = np.expm1(_INNER[0] * gap), np.expm1(_INNER[1] * gap), np.expm1(gap)
    slope = (second - first) / (to_second - to_first)
    before = np.maximum(slope - (first - value[:-1]) / to_first, 0)
    after = np.maximum((value[1:] - second) / (to_end - to_second) - slope, 0)
    with np.errstate(invalid="ignore"):
        height = np.where(before + after > 0, before * after / (before + after), 0.0) * (to_second - to_first)
    base = first - height - 16 * error[:-1]  # extending the chords amplifies rounding by less than 16
    at_left, at_right = base - slope * to_first, base + slope * (to_end - to_first)
    origin = base[0] - slope[0] * (1 + to_first[0]) - 4 * error[0] / (to_second - to_first)[0]
    values = np.minimum(np.append(at_left, np.inf), np.insert(at_right, 0, np.inf))
    floor, _ = _values(log_delta, np.array([np.inf]), relative_error)
    end_at(values, at_right, float(floor[0]) * (1 - relative_error))
    return GridPLD(step, knots, *convex_masses(values, knots, origin=origin, step=step, rounding=-4 * EPS))


def end_at(values: FloatArray, at_right: FloatArray, floor: float) -> None:
    """Let the minorant end in the constant `floor`, which is below the profile everywhere; in place."""
    (low,) = np.nonzero(values <= floor)
    end = low[0] if low.size else values.size - 1
    values[end:] = floor
    if end and at_right[end - 1] < floor:  # the line of the cell before the end crosses the floor inside that cell
        values[end - 1] = floor


def evaluate(log_delta: LogProfile, epsilon: ArrayLike) -> FloatArray:
    """log_delta at the float array `epsilon`, at most 0; raises ValueError where it is nan."""
    epsilon = np.asarray(epsilon, float)
    log_value = np.minimum(log_delta(epsilon), 0.0)
    if np.isnan(log_value).any():
        where = float(epsilon[np.isnan(log_value)][0])
        raise ValueError(f"log_delta must be a number at every epsilon: got nan at epsilon={where!r}")
    return log_value


def _values(log_delta: LogProfile, epsilon: FloatArray, relative_error: float) -> tuple[FloatArray, FloatArray]:
    """The profile at epsilon and its absolute error."""
    log_value = evaluate(log_delta, epsilon)
    value = np.exp(log_value)
    return value, np.where(value > 0, relative_error * value * (1 - np.maximum(log_value, -1e3)), 0.0)


def convex_masses(
    values: FloatArray, knots: NDArray, *, origin: float, step: float, rounding: float
) -> tuple[FloatArray, float]:
    """Masses at the knots, and at infinity, of the convex envelope of `values`, with `origin` the value at gamma = 0.

    `rounding`, relative to the terms that are subtracted, moves each mass up (or down, not below 0).
    """
    keep = np.arange(values.size)
    # the first edge of the envelope goes from the origin to the knot of the steepest descent
    keep = keep[np.argmax((origin - values) * np.exp(-(knots - knots[0]) * step)) :]
    while True:
        kept, gap = values[keep], np.diff(knots[keep]) * step
        fall = -np.diff(kept)
        slope_before = np.concatenate([[origin - kept[0]], fall / -np.expm1(-gap)])  # times -gamma
        with np.errstate(over="ignore"):
            slope_after = np.append(fall / np.expm1(gap), 0.0)
        mass = slope_before - slope_after
        above_chord = mass <= 0  # not a vertex of the envelope, whichever other knots are removed
        if not above_chord.any() or keep.size == 1:
            break
        keep = keep[~above_chord] if not above_chord.all() else keep[-1:]
    result = np.zeros(values.size)
    result[keep] = np.maximum(mass + rounding * np.abs(slope_before), 0.0)
    return result, max(float(values[keep[-1]]), 0.0)


def find_support(log_delta: LogProfile, *, relative_error: float, cells: int = 1024) -> GridPLD:
    """The range of privacy losses that a grid must cover, found by repeated narrowing, as a coarse GridPLD.

    It serves to choose a grid, not as a bound: its grid points are rounded (and its index is not an integer).
    `majorant` and `minorant` are valid on any range: mass below it moves up to its left end or is dropped, mass above
    it becomes infinite or is dropped.
    """
    size = np.geomspace(1e-18, 1e14, 641)
    losses = np.concatenate([-size[::-1], [0.0], size])
    value, _ = _values(log_delta, losses, relative_error)
    left_tail = max(_LEFT_TAIL, 10 * relative_error)
    low = losses[max(np.count_nonzero(1 - value <= left_tail) - 1, 0)]
    high = losses[min(np.count_nonzero(value - value[-1] > _RIGHT_TAIL), losses.size - 1)]
    if high <= low:
        raise ValueError("log_delta must not be 0 everywhere: such a privacy loss is infinite with probability 1")
    rounds = 40
    while True:
        step = (high - low) / cells
        losses = low + step * np.arange(cells + 1)
        value, _ = _values(log_delta, losses, relative_error)
        mass, infinity_mass = convex_masses(value, np.arange(cells + 1), origin=1.0, step=step, rounding=0.0)
        first = max(int(np.searchsorted(np.cumsum(mass), left_tail)) - 1, 0)
        last = max(min(np.count_nonzero(value - value[-1] > _RIGHT_TAIL), cells), first + 1)
        finest = max(4 * EPS * max(abs(low), abs(high)), SMALLEST_STEP)
        rounds -= 1
        if last - first > 0.7 * cells or step <= finest or rounds == 0:
            return GridPLD(step, losses / step, mass, infinity_mass)
        low, high = losses[first], losses[last]


def choose_knots(coarse: GridPLD, *, step: float, offset: float, tilt: float) -> NDArray:
    """Grid points for a privacy loss with the support `coarse` (see `find_support`), moved by -offset: an int ndarray.

    All grid points in the bulk; where only the part m of the (tilted or untilted) mass is further out, about every
    (0.001 / m)^(1/4)-th, so that wide cells add a variance far below step^2.
    """
    x = coarse.index * coarse.step
    with np.errstate(divide="ignore"):
        log_mass = np.log(coarse.mass)
    outer = np.zeros(x.size - 1)
    for t in (0.0, tilt):
        weight = np.exp(log_mass + t * x - np.max(log_mass + t * x))
        weight /= weight.sum()
        outer = np.maximum(outer, np.minimum(np.cumsum(weight)[1:], np.cumsum(weight[::-1])[::-1][:-1]))
    widest = max(min(8 * coarse.step, 1.0) / step, 1.0)
    stride = 2 ** np.floor(np.log2(np.clip((1e-3 / np.maximum(outer, 1e-300)) ** 0.25, 1, widest))).astype(int)
    ends = (x - offset) / step + np.linspace(-1, 1, x.size)  # a step more at either end
    runs = np.concatenate([[0], np.flatnonzero(np.diff(stride)) + 1, [stride.size]])
    pieces = [
        np.arange(int(np.floor(ends[i] / stride[i])), int(np.ceil(ends[j] / stride[i])) + 1) * stride[i]
        for i, j in pairwise(runs)
    ]
    # a wide first cell, without mass, where the profile is a line whose slope decides how much mass the minorant keeps
    wide = int(np.ceil(min((x[-1] - x[0]) / 2, 1.0) / step))
    knots = np.sort(np.concatenate([[pieces[0][0] - wide], *pieces]), kind="stable")
    return knots[np.diff(knots, prepend=knots[0] - 1) > 0]
