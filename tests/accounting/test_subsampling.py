"""The Poisson-subsampled Gaussian against a public accountant, and against its integral where that one loses digits."""

import mpmath
import numpy as np
import pytest
from absl import logging
from dp_accounting import GaussianDpEvent, PoissonSampledDpEvent, SelfComposedDpEvent
from dp_accounting.rdp import RdpAccountant
from hypothesis import given, settings
from hypothesis import strategies as st

from explorer.accounting import Mironov, PoissonSubsampledGaussian, PrivacyBound, RenyiBound, calibrate, steepest_order
from explorer.accounting.subsampling import _integer_log_excess, _minkowski, _real_log_excess
from explorer.accounting.subsampling import poisson_subsampled_gaussian_rdp as rdp
from tests.accounting.strategies import log_uniform

logging.set_verbosity(logging.ERROR)
ORDERS = np.array([1.05, 1.5, 1.999, 2, 2.5, 3, 4.7, 8, 20.5, 32, 100.5, 256])


def exact(alpha, noise_multiplier, sampling_rate):
    """The divergence of one step from its definition, in 30-digit arithmetic."""
    with mpmath.workdps(30):
        a, s, q = mpmath.mpf(alpha), 1 / mpmath.mpf(noise_multiplier), mpmath.mpf(sampling_rate)

        def integrand(x):
            w = q * mpmath.expm1(s * x - s * s / 2)
            return mpmath.npdf(x) * ((1 + w) * mpmath.log1p(w) - w if a == 1 else (1 + w) ** a - 1 - a * w)

        end = float(max(a, 2) * s) + 16
        excess = mpmath.quad(integrand, list(np.linspace(-16, end, int((end + 16) / 3) + 2)))
        return float(excess if a == 1 else mpmath.log1p(excess) / (a - 1))


def public_rdp(orders, noise_multiplier, sampling_rate, steps=1):
    accountant = RdpAccountant(orders=list(orders))
    step = PoissonSampledDpEvent(sampling_rate, GaussianDpEvent(noise_multiplier))
    return accountant.compose(SelfComposedDpEvent(step, steps))


@pytest.mark.parametrize("sampling_rate", [1e-4, 0.01, 0.125, 0.5, 1])
def test_agreement_with_a_public_accountant(sampling_rate):
    """To 1e-6 wherever theirs is right. Its log A is 1 + something, rounded; and at fractional orders it adds the
    terms of an alternating series by their size, too much: there the integral in high precision decides, for us.
    """
    whole = np.floor(ORDERS) == ORDERS
    agreed = 0
    for noise_multiplier in (0.3, 0.8, 1, 3, 20, 300):
        ours = rdp(ORDERS, noise_multiplier=noise_multiplier, sampling_rate=sampling_rate)
        theirs = np.array(public_rdp(ORDERS, noise_multiplier, sampling_rate)._rdp)
        rounding = 1e-13 / (ORDERS - 1)
        agree = np.abs(ours - theirs) <= 1e-6 * ours + rounding
        assert agree[whole].all()
        assert (ours <= theirs * (1 + 1e-12) + rounding).all()
        agreed += agree.sum()
        for alpha, value in list(zip(ORDERS[~agree], ours[~agree], strict=True))[:2]:
            assert value == pytest.approx(exact(alpha, noise_multiplier, sampling_rate), rel=1e-10)
    assert agreed >= 40


@pytest.mark.parametrize(
    ("alpha", "noise_multiplier", "sampling_rate"),
    [
        (1, 1, 0.1),
        (1, 0.3, 1e-6),
        (1 + 1e-12, 300, 1e-4),
        (1.3, 0.16, 0.01),
        (1.5, 300, 1e-4),
        (1.7, 0.11, 1e-6),
        (2.5, 3, 1e-8),
        (3, 300, 1e-4),
        (6.5, 0.3, 0.999),
        (8.5, 0.3, 1e-8),
        (256, 300, 1e-4),
        (200.25, 20, 0.3),
    ],
)
def test_definition_in_high_precision(alpha, noise_multiplier, sampling_rate):
    got = rdp(alpha, noise_multiplier=noise_multiplier, sampling_rate=sampling_rate)
    assert got == pytest.approx(exact(alpha, noise_multiplier, sampling_rate), rel=1e-11)


@settings(max_examples=60)
@given(s=log_uniform(1e-3, 9.9), q=log_uniform(1e-10, 0.9999), orders=st.lists(st.integers(2, 512), min_size=1))
def test_the_sum_and_the_integral_are_one_function(s, q, orders):
    alpha = np.array(orders, float)
    excess = np.log(alpha - 1)
    by_sum, by_integral = (f(alpha, s, q) + excess for f in (_integer_log_excess, _real_log_excess))
    np.testing.assert_allclose(np.logaddexp(0, by_sum), np.logaddexp(0, by_integral), rtol=1e-11)


def wide_trapezoid(alpha, s, q):
    """The divergence by brute force over the whole range of the integrand."""
    x = np.linspace(-20, alpha * s + 20, int(20 * (alpha * s + 40)))
    v = s * (x - s / 2)
    f = alpha * np.log1p(q * np.expm1(v)) - x * x / 2
    return (f.max() + np.log(np.exp(f - f.max()).sum() * (x[1] - x[0]) / np.sqrt(2 * np.pi))) / (alpha - 1)


@pytest.mark.parametrize(
    ("alpha", "noise_multiplier", "sampling_rate"),
    [(18000.5, 300, 0.1), (360000.5, 300, 0.5), (3.55e5, 300, 0.4), (7e6, 3000, 0.3), (41000.3, 100, 0.45)],
)
def test_one_wide_peak_two_peaks_and_the_change_between_them(alpha, noise_multiplier, sampling_rate):
    """Around alpha s^2 = 4 the integrand is flat over hundreds of units, and beyond it has two peaks."""
    got = rdp(alpha, noise_multiplier=noise_multiplier, sampling_rate=sampling_rate)
    assert got == pytest.approx(wide_trapezoid(alpha, 1 / noise_multiplier, sampling_rate), rel=1e-9)


@settings(max_examples=60)
@given(s=log_uniform(1e-6, 1e4), q=log_uniform(1e-12, 1))
def test_divergence_over_the_whole_range(s, q):
    """Finite, rising in alpha, below the triangle inequality; a rate of 1 is the Gaussian; never above it."""
    alpha = np.concatenate([[1], 1 + np.geomspace(1e-12, 1e15, 300)])
    got = rdp(alpha, noise_multiplier=1 / s, sampling_rate=q)
    assert np.isfinite(got).all() and (got > 0).all()
    assert (np.diff(got) >= -1e-11 * got[1:]).all()
    assert (got <= _minkowski(alpha, s, q) * (1 + 1e-12)).all()
    assert (got <= alpha * s * s / 2 * (1 + 1e-12)).all()
    assert (got <= rdp(alpha, noise_multiplier=1 / s, sampling_rate=(1 + q) / 2) * (1 + 1e-11)).all()
    assert (got >= rdp(alpha, noise_multiplier=1.1 / s, sampling_rate=q) * (1 - 1e-11)).all()
    assert rdp(np.inf, noise_multiplier=1 / s, sampling_rate=q) == np.inf


@pytest.mark.parametrize(
    ("sampling_rate", "noise_multiplier", "steps"), [(0.032, 1.2, 1875), (0.125, 0.8, 1000), (0.2, 1, 500), (1, 30, 7)]
)
@pytest.mark.parametrize("delta", [1e-5, 1e-9])
def test_epsilon_of_dp_sgd(sampling_rate, noise_multiplier, steps, delta):
    mechanism = PoissonSubsampledGaussian(noise_multiplier=noise_multiplier, sampling_rate=sampling_rate, steps=steps)
    whole = RenyiBound(mechanism, orders=range(2, 257))
    accountant = public_rdp(range(2, 257), noise_multiplier, sampling_rate, steps)
    assert whole.epsilon(delta) == pytest.approx(accountant.get_epsilon(delta), rel=1e-9)
    assert RenyiBound(mechanism).epsilon(delta) <= whole.epsilon(delta)


def test_known_value():
    mechanism = PoissonSubsampledGaussian(noise_multiplier=1.0, sampling_rate=0.2, steps=500)
    assert RenyiBound(mechanism, orders=range(2, 257)).epsilon(1e-5) == pytest.approx(43.363, rel=1e-5)


def test_bound_keeps_its_promises():
    mechanism = PoissonSubsampledGaussian(noise_multiplier=1.2, sampling_rate=0.032, steps=1875)
    bound = RenyiBound(mechanism)
    assert isinstance(bound, PrivacyBound)
    assert bound.rdp(np.array([[1, 2.5], [3, np.inf]])).shape == (2, 2)
    assert bound.rdp(3) == 1875 * rdp(3, noise_multiplier=1.2, sampling_rate=0.032)
    log_delta = bound.log_delta(np.linspace(0, 300, 60))
    assert np.isfinite(log_delta).all() and (np.diff(log_delta) <= 0).all()
    assert bound.epsilon(np.exp(log_delta[5])) == pytest.approx(300 * 5 / 59, rel=1e-6)
    assert bound.epsilon(1e-5) < RenyiBound(mechanism, conversion=Mironov).epsilon(1e-5)


def test_calibrated_noise_multiplier(experiments_reference):
    for row in experiments_reference["dp_sgd_noise_multiplier_integer_orders_2_256"].values():
        for epsilon, expected in row["dishonest"].items():
            got = calibrate(
                lambda mechanism: RenyiBound(mechanism, orders=range(2, 257)),
                lambda noise_multiplier, row=row: PoissonSubsampledGaussian(
                    noise_multiplier=noise_multiplier, sampling_rate=row["sampling_rate"], steps=row["steps"]
                ),
                parameter="noise_multiplier",
                epsilon=float(epsilon),
                delta=1e-5,
            )
            assert got.value == pytest.approx(expected, rel=1e-5)
            assert got.delta <= 1e-5


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ({"noise_multiplier": 0}, "noise_multiplier must be a finite number > 0: got noise_multiplier=0"),
        ({"noise_multiplier": np.nan}, "noise_multiplier must be a finite number > 0: got noise_multiplier=nan"),
        ({"sampling_rate": 0}, r"sampling_rate must be inside \(0, 1\]: got sampling_rate=0"),
        ({"sampling_rate": 1.01}, r"sampling_rate must be inside \(0, 1\]: got sampling_rate=1.01"),
        ({"steps": 0}, "steps must be an integer >= 1: got steps=0"),
        ({"steps": 10.5}, "steps must be an integer >= 1: got steps=10.5"),
        ({"steps": True}, "steps must be an integer >= 1: got steps=True"),
    ],
)
def test_bad_mechanism(bad, message):
    with pytest.raises(ValueError, match=message):
        PoissonSubsampledGaussian(**{"noise_multiplier": 1.0, "sampling_rate": 0.1, "steps": 10, **bad})


@pytest.mark.parametrize("bad", [0.5, -1, np.nan])
def test_bad_order(bad):
    with pytest.raises(ValueError, match="alpha must be >= 1: got alpha="):
        rdp(bad, noise_multiplier=1.0, sampling_rate=0.1)


@pytest.mark.parametrize("noise_multiplier", [1e-200, 1e-3, 1e30, 1e200])
@pytest.mark.parametrize("orders", [None, range(2, 257)])
def test_absurd_noise(noise_multiplier, orders):
    """No nan and no warning; too little noise grants nothing, and any noise multiplier at all costs something."""
    mechanism = PoissonSubsampledGaussian(noise_multiplier=noise_multiplier, sampling_rate=0.01, steps=10)
    with np.errstate(all="raise", under="ignore"):
        bound = RenyiBound(mechanism, orders=orders)
        log_delta, epsilon = bound.log_delta(np.array([0.0, 1.0, 1e3])), bound.epsilon(1e-5)
    assert not np.isnan(log_delta).any() and (log_delta <= 0).all() and log_delta[0] > -1000
    assert (log_delta[1] == 0 and epsilon > 1) if noise_multiplier < 1 else (log_delta[1] < -20 and epsilon == 0)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((0.0, 0.1), "noise_multiplier must be a finite number > 0: got noise_multiplier=0.0"),
        ((np.nan, 0.1), "noise_multiplier must be a finite number > 0: got noise_multiplier=nan"),
        ((1.0, 0), r"sampling_rate must be inside \(0, 1\]: got sampling_rate=0.0"),
        ((1.0, np.nan), r"sampling_rate must be inside \(0, 1\]: got sampling_rate=nan"),
    ],
)
def test_bad_arguments_of_the_divergence(arguments, message):
    with pytest.raises(ValueError, match=message):
        rdp(2, noise_multiplier=arguments[0], sampling_rate=arguments[1])


@pytest.mark.parametrize("sampling_rate", [1e-4, 0.01, 0.1, 0.5, 0.95])
@pytest.mark.parametrize("noise_multiplier", [0.3, 1.0, 20.0])
def test_the_steepest_order_is_steepest(noise_multiplier, sampling_rate):
    ratios = {"noise_multiplier": noise_multiplier, "sampling_rate": sampling_rate}
    order, growth = steepest_order(**ratios)

    def slopes(log_alpha):
        return np.diff(np.log(rdp(np.exp(log_alpha), **ratios))) / np.diff(log_alpha)

    everywhere = np.linspace(0, np.log1p(30 * noise_multiplier**2 * max(-np.log(sampling_rate), 1)), 3001)
    near = np.clip(np.log(order) + np.linspace(-0.1, 0.1, 3) / growth, 0, None)
    assert growth > 1
    assert growth >= slopes(everywhere).max() * (1 - 1e-6)
    assert growth == pytest.approx(slopes(np.unique(near)).max(), rel=0.05)
    if sampling_rate <= 0.01 and noise_multiplier >= 1:  # where the rare draw's moment overtakes 1
        assert order - 1 == pytest.approx(-2 * noise_multiplier**2 * np.log(sampling_rate), rel=0.05)


def test_nothing_leaps_without_sampling():
    order, growth = steepest_order(noise_multiplier=2.0, sampling_rate=1.0)
    assert np.isnan(order)
    assert growth == 1
    with pytest.raises(ValueError, match="sampling_rate must be inside"):
        steepest_order(noise_multiplier=2.0, sampling_rate=0.0)
