"""The noise that mechanisms add to a query, drawn in floating point."""

from functools import singledispatch

import numpy as np

from explorer.accounting import GammaNoise, Gaussian


@singledispatch
def draw_noise(step, *, dimension, rng):
    """The noise of `step`, a Gaussian or GammaNoise mechanism, for a query in R^dimension: ndarray (dimension,)."""
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
