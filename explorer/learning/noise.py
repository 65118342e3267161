"""The noise that mechanisms add to a query, drawn in floating point, and what the proofs do not cover.

All proofs are about real numbers. A computer's noise is a double, and a sum x + noise can take only some of the doubles
near it; which ones depends on x. Whoever sees the low bits of a release may be able to exclude a neighbouring x,
whatever epsilon was promised. Mironov (2012) showed it for Laplace noise by inversion of the distribution function; Jin
et al. (2022) for Gaussian noise by the Box-Muller method, Marsaglia's polar method and the ziggurat, in DP-SGD among
others, and for the time that sampling takes. NumPy's `Generator.normal` is a ziggurat.

This applies wherever a learner of this package draws noise: directly to the output step and to noisy gradients, which
are released or determine the release; to the linear term b of objective perturbation through a solver that ends within
gradient_tol of a minimum, about which no proof says that it hides the low bits. Where an adversary may see exact
doubles and the data are real, round the release to a grid that is much coarser than the spacing of doubles and much
finer than the noise, which removes the low bits but proves nothing, or use a discrete mechanism (Canonne, Kamath &
Steinke 2020).

Whoever knows the seed can draw the same noise and subtract it. Demonstrations fix a seed to be repeatable; for a
release use random_state=None, which takes entropy from the operating system.

References: Mironov 2012; Jin et al. 2022; Canonne, Kamath & Steinke 2020.
"""

from functools import singledispatch

import numpy as np

from explorer.accounting import GammaNoise, Gaussian
from explorer.learning.types import Array


@singledispatch
def draw_noise(step: object, *, dimension: int, rng: np.random.Generator) -> Array:
    """The noise of `step`, a Gaussian or GammaNoise mechanism, for a query in R^dimension: ndarray (dimension,).

    The noise is drawn in double precision; see the caveat of this module.
    """
    raise TypeError(f"step must be Gaussian or GammaNoise: got step={step!r}")


@draw_noise.register
def _(step: Gaussian, *, dimension: int, rng: np.random.Generator) -> Array:
    return rng.normal(scale=step.noise_std, size=dimension)


@draw_noise.register
def _(step: GammaNoise, *, dimension: int, rng: np.random.Generator) -> Array:
    direction = rng.normal(size=dimension)
    return direction * (rng.gamma(dimension, step.noise_scale) / np.linalg.norm(direction))


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
