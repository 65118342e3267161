"""Arithmetic on the grid: exact rounding, sums of integers of any size, and distances from the real noise."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from explorer.learning.grid import GridNoise, grid_below, release_on_grid, to_grid


@given(scale=st.floats(1e-100, 1e100))
def test_grid_below_a_scale(scale):
    grid = grid_below(scale)
    assert np.frexp(grid)[0] == 0.5  # a power of two
    assert 2.0**40 * grid <= scale < 2.0**41 * grid


@pytest.mark.parametrize("scale", [0.0, 1e-168, 1e101, np.nan])
def test_scales_that_doubles_cannot_hold_are_refused(scale):
    with pytest.raises(ValueError, match="the scale of the noise must be"):
        grid_below(scale)


@given(theta=st.floats(-1e12, 1e12), exponent=st.integers(-60, 0))
def test_rounding_to_the_grid_is_exact(theta, exponent):
    grid = 2.0**exponent
    whole = Fraction(to_grid(np.array([theta]), grid)[0]) / Fraction(grid)
    assert whole.denominator == 1
    assert abs(whole - Fraction(theta) / Fraction(grid)) <= Fraction(1, 2)


@given(
    theta=st.integers(-(2**80), 2**80).map(float),
    noise=st.integers(-(2**50), 2**50) | st.integers(-(2**90), 2**90),
)
def test_released_number_is_the_sum_of_integers(theta, noise):
    """Also beyond 64 bits, where it is the double that is nearest to the sum."""
    dtype = np.int64 if abs(noise) < 2**62 else object
    grid = 2.0**-43
    released = release_on_grid(np.array([theta * grid]), GridNoise(np.array([noise], dtype=dtype), grid))
    assert released[0] == float(int(theta) + noise) * grid


def test_shifts_by_integers_shift_the_release():
    """floor(x + n + 1/2) = floor(x + 1/2) + n, on which all proofs rest: no bit of theta is lost or added."""
    noise = GridNoise(np.arange(-5, 5) * 2**41 + 12345, 2.0**-43)
    for shift in (0, 1, -1, 2**30 + 1):
        released = release_on_grid(np.full(10, shift * noise.grid), noise) / noise.grid
        np.testing.assert_array_equal(released, noise.integers + shift)


def test_distance_from_the_real_noise():
    small = GridNoise(np.array([3, -4, 5]), 0.25)
    assert small.distance == pytest.approx(0.25 * np.sqrt(3) / 2, rel=1e-9)
    np.testing.assert_array_equal(small.value, [0.75, -1.0, 1.25])
    huge = GridNoise(np.array([2**60 + 1, 1, 1]), 0.25)
    assert huge.distance >= small.distance + float(abs(Fraction(huge.value[0]) - Fraction(2**60 + 1, 4)))
