"""The noise that mechanisms add to a query, drawn in floating point: what the proofs do not cover.

Every proof here is about real numbers. A computer's noise is a double, and a sum x + noise can be only some of the
doubles near it; which ones depends on x. Whoever sees the released low bits may find that one neighbour's x could not
have given them, whatever epsilon was promised. Mironov showed it for Laplace noise by the inverse of its distribution
function; Jin et al. for Gaussian noise by Box and Muller's method, Marsaglia's polar method and the ziggurat, in DP-SGD
among others, and by the time that sampling takes. NumPy's `Generator.normal` is a ziggurat.

This holds wherever a learner here draws noise: the output step and the noisy gradients, which are released or from
which the release is computed, directly; the linear term b of objective perturbation through a solver that ends within
gradient_tol of a minimum, which no proof says hides the low bits. Where an opponent may see exact doubles and the data
are real, round what you release to a grid much coarser than the doubles near it and far finer than the noise, which
removes the low bits but proves nothing, or use a discrete mechanism made for it (Canonne, Kamath, Steinke 2020).

A seed is the other half of the noise: whoever knows it can draw the same noise and subtract it. Demonstrations fix one
to be repeatable; a release passes random_state=None, which takes entropy from the operating system.

References: Mironov, On significance of the least significant bits for differential privacy, CCS 2012; Jin, McMurtry,
Rubinstein, Ohrimenko, Are we there yet? Timing and floating-point attacks on differential privacy systems, IEEE S&P
2022; Canonne, Kamath, Steinke, The discrete Gaussian for differential privacy, NeurIPS 2020.
"""

from functools import singledispatch

import numpy as np

from explorer.accounting import GammaNoise, Gaussian


@singledispatch
def draw_noise(step, *, dimension, rng):
    """The noise of `step`, a Gaussian or GammaNoise mechanism, for a query in R^dimension: ndarray (dimension,).

    Doubles, with the caveat above.
    """
    raise TypeError(f"step must be Gaussian or GammaNoise: got step={step!r}")


@draw_noise.register
def _(step: Gaussian, *, dimension, rng):
    return rng.normal(scale=step.noise_std, size=dimension)


@draw_noise.register
def _(step: GammaNoise, *, dimension, rng):
    direction = rng.normal(size=dimension)
    return direction * (rng.gamma(dimension, step.noise_scale) / np.linalg.norm(direction))


@singledispatch
def coordinate_std(step, *, dimension):
    """Standard deviation of each coordinate of the noise of `step` in R^dimension, float."""
    raise TypeError(f"step must be Gaussian or GammaNoise: got step={step!r}")


@coordinate_std.register
def _(step: Gaussian, *, dimension):
    return step.noise_std


@coordinate_std.register
def _(step: GammaNoise, *, dimension):
    return step.noise_scale * np.sqrt(dimension + 1)  # E |noise|^2 = d (d + 1) noise_scale^2
