"""Root search for elementwise functions, all elements at once."""

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

from explorer.accounting.types import FloatArray


def sign_change(
    function: Callable[[FloatArray], FloatArray],
    low: ArrayLike,
    high: ArrayLike,
    *,
    steps: int = 60,
    tolerance: float = 1e-13,
) -> tuple[FloatArray, FloatArray]:
    """The last bracket of the point where an elementwise function, positive at `low`, ceases to be so before `high`.

    Chandrupatla's method: inverse quadratic interpolation where its three points allow it, bisection elsewhere, as
    where a value is infinite. (SciPy's find_root uses it too, with an overhead of a millisecond.)

    Parameters
    ----------
    function : callable, elementwise on ndarrays of the broadcast shape of low and high
    low, high : array_like
    steps : int, at most that many evaluations after those of the two ends
    tolerance : float, the width of a bracket, relative to the root, at which it is narrow enough; the search ends when
        all are

    References: Chandrupatla 1997, A new hybrid quadratic/bisection algorithm for finding the zero of a nonlinear
    function without using derivatives.
    """
    low, high = np.broadcast_arrays(np.asarray(low, float), np.asarray(high, float))
    newest, other = high, low  # the two ends of the bracket
    f_newest, f_other = function(high), function(low)
    newest_positive = np.zeros(newest.shape, bool)
    part = np.full(newest.shape, 0.5)
    for _ in range(steps):
        x = newest + part * (other - newest)
        f = function(x)
        positive = f > 0
        stays = positive == newest_positive  # the bracket is now from x to the other end
        last, f_last = np.where(stays, newest, other), np.where(stays, f_newest, f_other)
        other, f_other = np.where(stays, other, newest), np.where(stays, f_other, f_newest)
        newest, f_newest, newest_positive = x, f, positive
        width = np.abs(other - newest)
        narrow = tolerance * np.abs(newest)
        if not (width > 2 * narrow).any():
            break
        place, height = (newest - other) / (last - other), (f_newest - f_other) / (f_last - f_other)
        smooth = (height * height < place) & ((1 - height) ** 2 < 1 - place)
        part = f_newest / (f_other - f_newest) * f_last / (f_other - f_last) + (last - newest) / (
            other - newest
        ) * f_newest / (f_last - f_newest) * f_other / (f_last - f_other)
        least = np.minimum(narrow / width, 0.5)
        part = np.where(smooth & np.isfinite(part), np.clip(part, least, 1 - least), 0.5)
    return np.where(newest_positive, newest, other), np.where(newest_positive, other, newest)
