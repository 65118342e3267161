"""A privacy profile on an equidistant grid of losses, once from above and once from below.

Write gamma = e^epsilon and h(gamma) = delta(log gamma). The profile of a pair of distributions is convex and
non-increasing in gamma with h(0) = 1, and a piecewise-linear h with knots gamma_i = e^(x_i) is the profile of a privacy
loss that takes the value x_i with probability gamma_i times the rise of h's slope there, and infinity with probability
h(infinity):

    h(gamma) = sum_i p_i (1 - gamma / gamma_i)_+ + p_infinity.

If h <= h' then every composition of h with any other profile is below that of h' (composition averages one profile
over the losses of the other, with non-negative weights). So a piecewise-linear majorant and a piecewise-linear minorant,
both with knots on the grid, give losses whose compositions enclose the truth.

Majorant: connect the dots (Doroshenko, Ghazi, Kamath, Kumar, Manurangsi 2022): the values at the knots, slightly
raised for rounding, joined by chords; if the profile is only a bound and not convex, the lower convex envelope of these
values, which still lies above every convex function below them. The last value becomes the mass at infinity.

Minorant: two values h(a) >= h(b) in the middle of a cell give a chord which is below h outside [a, b]; inside, h is
above both its chord over [left end, a] and its chord over [b, right end], prolonged, so the chord lowered by its height over
their crossing is below h everywhere. At each knot take the smaller of the lines of the two adjacent cells: each
cell's chord is then below its own line. The lower convex envelope of these values is the minorant. Both differ from h by
O(step^2) where the loss has a bounded density; a knot must be put on an atom (see `shift` in `distribution`).
"""

from typing import NamedTuple

import numpy as np

_EPS = np.finfo(float).eps
_INNER = (0.375, 0.625)  # a and b, in steps; binary fractions keep them exact
_LEFT_TAIL = 1e-13  # mass of small losses that may be moved: it costs that much *relative* to delta
_RIGHT_TAIL = 1e-40  # mass of large losses that becomes infinite: an absolute cost


class GridLoss(NamedTuple):
    """A privacy loss with mass[i] at (start + i) * step and infinity_mass at infinity; masses need not add up to 1."""

    step: float
    start: int
    mass: np.ndarray
    infinity_mass: float


def enclose(log_delta, *, start, cells, step, relative_error):
    """Losses on the grid below and above the one whose privacy profile is exp(log_delta).

    Parameters
    ----------
    log_delta : callable, elementwise on float arrays, the log of a privacy profile at every real epsilon (nats)
    start, cells : int; the knots are start * step, ..., (start + cells) * step
    step : float > 0, of at most 24 significant bits, so that knots are exact
    relative_error : float; exp(log_delta) is trusted up to a factor 1 +- relative_error (1 + |log_delta|)

    Returns
    -------
    (lower, upper) : GridLoss
    """
    knots = (start + np.arange(cells + 1)) * step
    inner = knots[:-1] + np.multiply.outer(_INNER, step)[:, None]
    value, error = _values(log_delta, knots, relative_error)
    inner_value, _ = _values(log_delta, inner, relative_error)
    at_infinity, _ = _values(log_delta, np.array([np.inf]), relative_error)
    upper = convex_masses(np.minimum(value + error, 1.0), origin=1.0, step=step, rounding=4 * _EPS)
    lower_value, origin = _minorant(value, *inner_value, step=step, error=error)
    at_infinity = float(np.nan_to_num(at_infinity[0])) * (1 - relative_error)
    (flat,) = np.nonzero(lower_value <= at_infinity)
    lower_value[max(flat[0] - 1, 0) if flat.size else -1 :] = at_infinity
    lower = convex_masses(lower_value, origin=origin, step=step, rounding=-4 * _EPS)
    return GridLoss(step, start, *lower), GridLoss(step, start, *upper)


def _values(log_delta, epsilon, relative_error):
    log_value = np.minimum(log_delta(epsilon), 0.0)
    value = np.exp(log_value)
    return value, np.where(value > 0, relative_error * value * (1 - np.maximum(log_value, -1e3)), 0.0)


def _minorant(value, first, second, *, step, error):
    """Values at the knots, and at gamma = 0, of a piecewise-linear function below the profile."""
    # slopes against gamma in units of the cell's left end, where the cell is [1, e^step]
    a, b = np.multiply(_INNER, step)
    width = np.expm1(b) - np.expm1(a)
    slope = (second - first) / width
    left = np.maximum(slope - (first - value[:-1]) / np.expm1(a), 0)
    right = np.maximum((value[1:] - second) / (np.expm1(step) - np.expm1(b)) - slope, 0)
    with np.errstate(invalid="ignore"):
        crossing = np.where(left + right > 0, left * right / (left + right), 0.0) * width
    base = first - crossing - 16 * error[:-1]  # rounding is amplified at most so much by the prolonged chords
    at_left, at_right = base - slope * np.expm1(a), base + slope * (np.expm1(step) - np.expm1(a))
    knots = np.minimum(np.append(at_left, np.inf), np.insert(at_right, 0, np.inf))
    return knots, base[0] - slope[0] * np.exp(a) - 4 * error[0] / width


def convex_masses(values, *, origin, step, rounding):
    """Masses at the knots, and at infinity, of the convex envelope of `values`, with `origin` the value at gamma = 0.

    `rounding` relative to the terms that are subtracted moves each mass up (or down, not below 0).
    """
    keep = np.arange(values.size)
    while True:
        kept, gap = values[keep], np.diff(keep) * step
        fall = -np.diff(kept)
        slope_before = np.concatenate([[origin - kept[0]], fall / -np.expm1(-gap)])  # times -gamma
        slope_after = np.append(fall / np.expm1(gap), 0.0)
        mass = slope_before - slope_after
        above_chord = mass < 0  # never a vertex of the envelope, whatever else is removed
        if not above_chord.any() or keep.size == 1:
            break
        keep = keep[~above_chord] if not above_chord.all() else keep[-1:]
    result = np.zeros(values.size)
    result[keep] = np.maximum(mass + rounding * np.abs(slope_before), 0.0)
    return result, max(float(values[keep[-1]]), 0.0)


def find_support(log_delta, *, relative_error, cells=1024):
    """The range of losses that a grid must cover, found by zooming in from all real numbers, and a first picture.

    Whatever range is used, the enclosure is valid: mass below the range moves up to its left end (upper) or is dropped
    (lower), mass above it becomes infinite or is dropped.

    Returns
    -------
    low, high : float, nats
    coarse : GridLoss of about `cells` steps (its start is no integer): good for choosing a grid, not for bounds
    """
    size = np.geomspace(1e-18, 1e6, 481)
    losses = np.concatenate([-size[::-1], [0.0], size])
    value, _ = _values(log_delta, losses, relative_error)
    excess = value - value[-1] if value[-1] > 0 else value
    left_tail = max(_LEFT_TAIL, 10 * relative_error)
    low = losses[max(np.count_nonzero(1 - value <= left_tail) - 1, 0)]
    high = losses[min(np.count_nonzero(excess > _RIGHT_TAIL), losses.size - 1)]
    for _ in range(20):
        step = (high - low) / cells
        losses = low + step * np.arange(cells + 1)
        value, _ = _values(log_delta, losses, relative_error)
        mass, _ = convex_masses(value, origin=1.0, step=step, rounding=0.0)
        first = max(np.searchsorted(np.cumsum(mass), 10 * left_tail) - 1, 0)
        last = min(np.count_nonzero(value - value[-1] > _RIGHT_TAIL), cells)
        low, high = losses[first], losses[max(last, first + 1)]
        if last - first > 0.7 * cells or step <= 4 * _EPS * max(abs(low), abs(high)):
            break
    return float(low), float(high), GridLoss(step, losses[0] / step, mass, float(value[-1]))
