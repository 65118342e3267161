"""The distributions of the drawn noise."""

import numpy as np
import pytest
from scipy import stats

from explorer.accounting import GammaNoise, Gaussian
from explorer.learning.noise import coordinate_std, draw_noise, norm_quantile
from explorer.learning.sampling.bits import bits_of


def sample(step, dimension, size=4000):
    bits = bits_of(1)
    return np.array([draw_noise(step, dimension=dimension, bits=bits).value for _ in range(size)])


@pytest.mark.parametrize("dimension", [1, 2, 7])
def test_gamma_noise_has_a_gamma_norm_and_a_uniform_direction(dimension):
    noise = sample(GammaNoise(noise_scale=0.3), dimension)
    norm = np.linalg.norm(noise, axis=1)
    assert stats.kstest(norm, stats.gamma(dimension, scale=0.3).cdf).pvalue > 1e-3
    direction = noise / norm[:, None]
    if dimension == 1:
        assert stats.kstest(noise[:, 0], stats.laplace(scale=0.3).cdf).pvalue > 1e-3
    else:  # of a uniform direction every coordinate's square is Beta, along any axis
        axes = np.linalg.qr(np.random.default_rng(2).normal(size=(dimension, dimension)))[0]
        for square in ((direction @ axes) ** 2).T:
            assert stats.kstest(square, stats.beta(0.5, (dimension - 1) / 2).cdf).pvalue > 1e-3
    assert abs(stats.pearsonr(norm, direction[:, 0]).statistic) < 0.06  # drawn apart
    assert (np.abs(np.sign(direction).mean(axis=0)) < 0.06).all()


@pytest.mark.parametrize("dimension", [1, 2, 7])
@pytest.mark.parametrize("step", [GammaNoise(noise_scale=0.3, sensitivity=5.0), Gaussian(noise_std=0.3)])
def test_standard_deviation_of_a_coordinate(step, dimension):
    noise = sample(step, dimension)
    assert np.sqrt((noise**2).mean()) == pytest.approx(coordinate_std(step, dimension=dimension), rel=0.06)


@pytest.mark.parametrize("dimension", [1, 3, 40])
@pytest.mark.parametrize("step", [GammaNoise(noise_scale=0.3), Gaussian(noise_std=0.3)])
def test_norms_exceed_their_quantile_with_no_more_than_its_probability(step, dimension):
    for log_tail in (-0.1, -2.0, -30.0, -700.0):
        bound = norm_quantile(step, dimension=dimension, log_tail=log_tail) / 0.3
        law = stats.gamma(dimension) if isinstance(step, GammaNoise) else stats.chi(dimension)
        assert law.logsf(bound) <= log_tail


def test_only_known_noise():
    for function in (
        lambda: draw_noise(1.0, dimension=2, bits=None),
        lambda: coordinate_std(1.0, dimension=2),
        lambda: norm_quantile(1.0, dimension=2, log_tail=-1.0),
    ):
        with pytest.raises(TypeError, match=r"step must be Gaussian or GammaNoise: got step=1\.0"):
            function()
