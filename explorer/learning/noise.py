"""The noise that mechanisms add to a query: exact roundings of real noise to a public grid.

All proofs are about real numbers, and a sum x + noise of doubles is not what they are about: it can take only some of
the doubles near it, and which ones depends on x (Mironov 2012; Jin et al. 2022). Here the noise is a vector of
integers, drawn with exactly the probabilities of a rounded real vector, times a power of two; what it is added to is on
the same grid. `explorer.learning.grid` says why this has the guarantee of the proofs, and
docs/mathematics/floating_point.md proves it.

Whoever knows the seed can draw the same noise and subtract it. Demonstrations fix a seed to be repeatable; for a
release use random_state=None, which takes all bits from the operating system's cryptographic generator.

References: Mironov 2012; Jin et al. 2022; Karney 2016.
"""

from fractions import Fraction
from functools import singledispatch

import numpy as np

from explorer.accounting import GammaNoise, Gaussian
from explorer.learning.grid import GridNoise, grid_below
from explorer.learning.sampling.bits import Bits
from explorer.learning.sampling.gamma_norm import rounded_gamma_norm
from explorer.learning.sampling.rounded_normal import rounded_normal


@singledispatch
def draw_noise(step: object, *, dimension: int, bits: Bits) -> GridNoise:
    """The noise of `step`, a Gaussian or GammaNoise mechanism, for a query in R^dimension.

    Its grid is `grid_below` of the mechanism's noise_std or noise_scale.
    """
    raise TypeError(f"step must be Gaussian or GammaNoise: got step={step!r}")


@draw_noise.register
def _(step: Gaussian, *, dimension: int, bits: Bits) -> GridNoise:
    grid = grid_below(step.noise_std)
    return GridNoise(rounded_normal(Fraction(step.noise_std) / Fraction(grid), dimension, bits), grid)


@draw_noise.register
def _(step: GammaNoise, *, dimension: int, bits: Bits) -> GridNoise:
    grid = grid_below(step.noise_scale)
    return GridNoise(rounded_gamma_norm(Fraction(step.noise_scale) / Fraction(grid), dimension, bits), grid)


@singledispatch
def coordinate_std(step: object, *, dimension: int) -> float:
    """Standard deviation of each coordinate of the noise of `step` in R^dimension."""
    raise TypeError(f"step must be Gaussian or GammaNoise: got step={step!r}")


@coordinate_std.register
def _(step: Gaussian, *, dimension: int) -> float:
    return step.noise_std


@coordinate_std.register
def _(step: GammaNoise, *, dimension: int) -> float:
    return float(step.noise_scale * np.sqrt(dimension + 1))  # E |noise|^2 = d (d + 1) noise_scale^2


@singledispatch
def norm_quantile(step: object, *, dimension: int, log_tail: float) -> float:
    """A bound that |noise|_2 of `step` in R^dimension exceeds with probability at most e^log_tail, log_tail <= 0."""
    raise TypeError(f"step must be Gaussian or GammaNoise: got step={step!r}")


@norm_quantile.register
def _(step: Gaussian, *, dimension: int, log_tail: float) -> float:
    return float(step.noise_std * (np.sqrt(dimension) + np.sqrt(-2 * log_tail)))  # |N| is 1-Lipschitz in N


@norm_quantile.register
def _(step: GammaNoise, *, dimension: int, log_tail: float) -> float:
    # the norm is Gamma(d): Boucheron, Lugosi & Massart 2013, Section 2.4
    return float(step.noise_scale * (dimension + np.sqrt(-2 * dimension * log_tail) - log_tail))
