"""Privacy loss distributions: the interval contains every closed form, and is as narrow as asked."""

from functools import partial

import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_distribution
from hypothesis import given, settings
from hypothesis import strategies as st
from mpmath import mp, mpf
from scipy.stats import binom

from explorer.accounting import Interval, PrivacyBound, PrivacyLossDistribution
from explorer.accounting.bounds.gaussian import half_normal_log_delta, log_delta
from explorer.accounting.pld.convolution import convolve
from explorer.accounting.pld.discretisation import GridPLD, majorant, minorant
from explorer.accounting.pld.grid import MAX_POINTS
from tests.accounting.strategies import log_uniform


def gaussian(s, **grid):
    return PrivacyLossDistribution.from_profile(partial(log_delta, sensitivity_ratio=s), **grid)


def randomised_response(epsilon):
    """Log profile of the loss +-1 with probabilities proportional to e^(+-1/2)."""
    right = 1 / (1 + np.exp(-1))
    with np.errstate(divide="ignore"):
        gains = [p * -np.expm1(np.minimum(epsilon - loss, 0)) for p, loss in ((right, 1), (1 - right, -1))]
        return np.log(np.add(*gains))


def laplace(epsilon):
    """Log profile of the Laplace mechanism of sensitivity and scale 1: a density between two atoms."""
    with np.errstate(divide="ignore"):
        inside = np.log(-np.expm1((np.clip(epsilon, -1, 1) - 1) / 2))
        return np.where(epsilon < -1, np.log(-np.expm1(np.minimum(epsilon, -1))), inside)


@pytest.mark.parametrize("uses", [1, 2, 10, 100, 1000, 10_000])
@pytest.mark.parametrize("s", [1e-3, 0.125, 1])
def test_composed_gaussians_are_a_gaussian(s, uses):
    composed, ratio = gaussian(s).self_compose(uses), s * np.sqrt(uses)
    epsilon = ratio**2 / 2 + ratio * np.linspace(-7, 12, 77)
    low, high = composed.log_delta_interval(epsilon)
    exact = log_delta(epsilon, sensitivity_ratio=ratio)
    assert (low <= exact).all()
    assert (exact <= high).all()
    assert (-np.expm1(low - high)[high >= np.log(1e-10)] <= 1e-3).all()


def test_a_single_use_needs_no_grid():
    epsilon = np.array([-2.0, 0, 0.3, 5, 40])
    low, high = PrivacyLossDistribution.from_profile(laplace, shift=0.3).log_delta_interval(epsilon)
    np.testing.assert_allclose(low, laplace(epsilon - 0.3), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(high, laplace(epsilon - 0.3), rtol=1e-12, atol=1e-12)
    assert gaussian(0.5).epsilon(1e-300) > 18


def test_losses_that_are_infinite_but_for_a_millionth():
    """From below no finite mass is left of them: nothing to convolve."""

    def profile(epsilon):
        with np.errstate(divide="ignore"):
            return np.maximum(np.log1p(-1e-6), np.log(-np.expm1(np.minimum(epsilon, 0))))

    low, high = PrivacyLossDistribution.from_profile(profile).self_compose(10).log_delta_interval([0.0, 1, 50])
    assert (low >= np.log1p(-2e-5)).all() and (low <= 0).all()
    assert (high == 0).all()


@settings(max_examples=25)
@given(s=log_uniform(1e-5, 30), uses=st.integers(1, 300), accuracy=log_uniform(1e-4, 0.3))
def test_every_accuracy_is_kept_and_certified(s, uses, accuracy):
    composed, ratio = gaussian(s, accuracy=accuracy).self_compose(uses), s * np.sqrt(uses)
    epsilon = ratio**2 / 2 + ratio * np.linspace(-5, 9, 29)
    low, high = composed.log_delta_interval(epsilon)
    exact = log_delta(epsilon, sensitivity_ratio=ratio)
    assert (low <= exact).all()
    assert (exact <= high).all()
    assert (-np.expm1(low - high)[high >= np.log(1e-10)] <= accuracy).all()


@pytest.mark.parametrize("step", [1e-3, 0.01, 0.1, 0.7])
def test_any_step_is_sound_and_the_error_is_quadratic(step):
    s, uses = 1.0, 30
    epsilon = s**2 * uses / 2 + s * np.sqrt(uses) * np.linspace(-4, 5, 10)
    exact = log_delta(epsilon, sensitivity_ratio=s * np.sqrt(uses))
    low, high = gaussian(s, step=step).self_compose(uses).log_delta_interval(epsilon)
    assert (low <= exact).all()
    assert (exact <= high).all()
    if step < 0.05:
        low, high, exact = low[4:], high[4:], exact[4:]  # the rest is so small that rounding shows
        finer = gaussian(s, step=step / 2).self_compose(uses).log_delta_interval(epsilon[4:])
        assert (high - low) / (finer.high - finer.low) == pytest.approx(4, rel=0.05)
        assert (high - low)[-1] < 12 * step**2 * uses


def test_the_rate_at_which_rounding_up_would_fail():
    """k * step of slack, what rounding each loss up costs, would be 100 times the width that is reported."""
    composed = gaussian(0.125, step=1e-3).self_compose(1000)
    low, high = composed.epsilon_interval(1e-5)
    assert high - low < 1000 * 1e-3 / 100


@pytest.mark.parametrize("epsilon", [-2.0, -0.3, 0.0, 0.7, 3.0])
@pytest.mark.parametrize("uses", [1, 7])
def test_different_mechanisms(uses, epsilon):
    first, second, third = 0.3, 0.02, 1.1
    composed = gaussian(first).compose(gaussian(second)).self_compose(uses).compose(gaussian(third))
    exact = log_delta(epsilon, sensitivity_ratio=np.sqrt(uses * (first**2 + second**2) + third**2))
    low, high = composed.log_delta_interval(epsilon)
    assert low <= exact <= high
    assert high - low < 2e-3


def test_a_loss_composed_with_itself_is_self_composition():
    pld = gaussian(0.4)
    assert pld.compose(pld).compose(pld).epsilon(1e-6) == pld.self_compose(3).epsilon(1e-6)


def exact_randomised_response(epsilon, uses):
    successes = np.arange(uses + 1)
    loss, mass = 2 * successes - uses, binom.pmf(successes, uses, 1 / (1 + np.exp(-1)))
    return np.sum(mass * -np.expm1(np.minimum(np.subtract.outer(epsilon, loss), 0)), axis=-1)


@pytest.mark.parametrize("uses", [1, 2, 25])
@pytest.mark.parametrize("grid", [{}, {"step": 0.25}, {"step": 0.3}])
def test_atoms(uses, grid):
    epsilon = np.linspace(-uses - 0.5, uses + 0.5, 41)
    pld = PrivacyLossDistribution.from_profile(randomised_response, **grid).self_compose(uses)
    low, high = pld.delta_interval(epsilon)
    exact = exact_randomised_response(epsilon, uses)
    assert (low <= exact + 1e-15).all()
    assert (exact <= high + 1e-15).all()
    if not grid:
        assert (high - low < 5e-3).all()


def test_laplace_against_a_public_accountant():
    theirs = privacy_loss_distribution.from_laplace_mechanism(1.0, value_discretization_interval=1e-4).self_compose(20)
    epsilon = np.linspace(0, 15, 16)
    low, high = PrivacyLossDistribution.from_profile(laplace).self_compose(20).delta_interval(epsilon)
    pessimistic = theirs.get_delta_for_epsilon(epsilon)
    assert (low <= pessimistic).all()
    np.testing.assert_allclose(high, pessimistic, rtol=2e-3)


@pytest.mark.parametrize("uses", [1, 50, 2000])
def test_mass_at_infinity_composes_exactly(uses):
    lost, s = 1e-3, 0.5

    def profile(epsilon):
        return np.logaddexp(np.log(lost), np.log1p(-lost) + log_delta(epsilon, sensitivity_ratio=s))

    ratio = s * np.sqrt(uses)
    epsilon = ratio**2 / 2 + ratio * np.linspace(-4, 6, 21)
    kept = np.exp(uses * np.log1p(-lost))
    exact = -np.expm1(uses * np.log1p(-lost)) + kept * np.exp(log_delta(epsilon, sensitivity_ratio=ratio))
    pld = PrivacyLossDistribution.from_profile(profile).self_compose(uses)
    low, high = pld.delta_interval(epsilon)
    assert (low <= exact).all()
    assert (exact <= high).all()
    assert (high - low < 1e-3 * high).all()
    assert pld.delta_interval(np.inf) == pytest.approx((1 - kept, 1 - kept), rel=1e-6)
    assert pld.epsilon((1 - kept) / 2) == np.inf
    assert pld.infinity_mass == pytest.approx(1 - kept, rel=1e-9)


def test_a_bound_that_is_not_convex_is_replaced_by_its_envelope():
    """The smaller of two bounds has a kink that points up; composing it still dominates what it bounds."""
    s, uses = 0.5, 10

    def smaller(epsilon):
        loose = half_normal_log_delta(epsilon, sensitivity_ratio=s)
        shifted = log_delta(epsilon - 0.1, sensitivity_ratio=s)
        return np.minimum(loose, shifted)

    epsilon = np.linspace(-2, 15, 50)
    composed = PrivacyLossDistribution.from_profile(smaller).self_compose(uses)
    assert (composed.log_delta(epsilon) >= log_delta(epsilon, sensitivity_ratio=s * np.sqrt(uses))).all()
    for looser in (
        partial(half_normal_log_delta, sensitivity_ratio=s),
        lambda e: log_delta(e - 0.1, sensitivity_ratio=s),
    ):
        alone = PrivacyLossDistribution.from_profile(looser).self_compose(uses)
        assert (composed.log_delta_interval(epsilon).low <= alone.log_delta(epsilon)).all()


@pytest.mark.parametrize("noise", [1e-9, 1e-6, 1e-4])
def test_a_noisy_profile_is_covered_by_its_stated_error(noise):
    rng = np.random.default_rng(0)

    def noisy(epsilon):
        return log_delta(epsilon, sensitivity_ratio=0.5) + noise * rng.uniform(-1, 1, np.shape(epsilon))

    epsilon = np.linspace(0, 12, 25)
    pld = PrivacyLossDistribution.from_profile(noisy, relative_error=noise).self_compose(10)
    low, high = pld.log_delta_interval(epsilon)
    exact = log_delta(epsilon, sensitivity_ratio=0.5 * np.sqrt(10))
    assert (low <= exact).all()
    assert (exact <= high).all()
    assert (pld.probabilities >= 0).all()


@settings(max_examples=30)
@given(s=log_uniform(1e-3, 20), cells=st.integers(1, 60), width=log_uniform(0.05, 20), start=st.integers(-30, 10))
def test_majorant_and_minorant_by_definition(s, cells, width, start):
    """Any grid, however coarse or misplaced, gives a profile above and one below at every epsilon."""
    step = float(np.float32(width * s / cells))
    profile = partial(log_delta, sensitivity_ratio=s)
    knots = np.unique(start + np.round(np.linspace(0, cells, max(2, cells // 2))).astype(int))
    epsilon = s * s / 2 + s * np.linspace(-8, 12, 201)
    exact = np.exp(profile(epsilon))

    def delta(pld):
        gain = -np.expm1(np.minimum(np.subtract.outer(epsilon, pld.index * step), 0))
        return gain @ pld.mass + pld.infinity_mass

    above, below = (side(profile, knots, step=step, relative_error=1e-14) for side in (majorant, minorant))
    assert (above.mass >= 0).all() and (below.mass >= 0).all()
    assert (delta(above) >= exact * (1 - 1e-13)).all()
    assert (delta(below) <= exact * (1 + 1e-13)).all()


def test_rounding_and_wrap_around_are_inside_the_error():
    """A binomial in extended precision: 1000 coin losses, each transform's error bound covers its error everywhere."""
    step, uses = 2.0**-4, 1000
    p = 1 / (1 + np.exp(-step))  # the loss +-step/2 of a biased coin, on a grid of half steps
    pld = GridPLD(step / 2, np.array([-1, 1]), np.array([1 - p, p]), 0.0)

    for tilt in (0.0, 0.5, 2.0):
        profile = convolve([pld], [uses], tilt=tilt)
        for epsilon in (0.0, 3.0, 6.0, 9.0, 14.0):
            with mp.workdps(40):
                successes = range(int((epsilon / (step / 2) + uses) / 2), uses + 1)
                exact = sum(
                    mp.binomial(uses, j) * mpf(p) ** j * (1 - mpf(p)) ** (uses - j) * (1 - mp.exp(epsilon - x))
                    for j in successes
                    if (x := mpf(2 * j - uses) * mpf(step) / 2) > epsilon
                )
                exact = float(mp.log(exact))
            low, high = (float(profile.log_delta(np.array(epsilon), sign=sign)[0]) for sign in (-1, 1))
            assert low <= exact <= high, (tilt, epsilon)


def test_below_the_rounding_floor_the_interval_says_so():
    low, high = gaussian(0.125).self_compose(1000).log_delta_interval([60.0, 80.0, 1e3, 1e6, 1e300])
    assert (low == -np.inf).all()
    assert np.isfinite(high[:2]).all()
    assert (np.diff(high) <= 0).all()
    assert (high >= log_delta([60.0, 80.0, 1e3, 1e6, 1e300], sensitivity_ratio=0.125 * np.sqrt(1000))).all()


@pytest.mark.parametrize("uses", [1, 100])
def test_dominating_pld_has_no_smaller_profile(uses):
    pld, ratio = gaussian(0.3).self_compose(uses), 0.3 * np.sqrt(uses)
    assert (np.diff(pld.privacy_losses) > 0).all()
    assert (pld.probabilities >= 0).all()
    assert pld.probabilities.sum() + pld.infinity_mass == pytest.approx(1, abs=1e-9)
    epsilon = ratio**2 / 2 + ratio * np.linspace(-6, 8, 40)
    gain = -np.expm1(np.minimum(np.subtract.outer(epsilon, pld.privacy_losses), 0))
    dominating = gain @ pld.probabilities + pld.infinity_mass
    exact = np.exp(log_delta(epsilon, sensitivity_ratio=ratio))
    assert (dominating >= exact * (1 - 1e-12)).all()
    np.testing.assert_allclose(dominating[exact > 1e-10], exact[exact > 1e-10], rtol=1e-3)


@pytest.mark.parametrize("s", [1e-300, 1e-12, 100, 1e4])
@pytest.mark.parametrize("uses", [1, 3])
def test_extreme_scales(s, uses):
    ratio = s * np.sqrt(uses)
    epsilon = ratio**2 / 2 + ratio * np.array([-3, 0, 3, 6.0])
    low, high = gaussian(s).self_compose(uses).delta_interval(epsilon)
    exact = np.exp(log_delta(epsilon, sensitivity_ratio=ratio))
    assert (low <= exact).all()
    assert (exact <= high).all()


def test_ten_million_uses_stay_within_the_grid():
    pld = gaussian(1e-3).self_compose(10**7)
    low, high = pld.epsilon_interval(1e-5)
    exact = gaussian(1e-3 * np.sqrt(10**7)).epsilon_interval(1e-5)
    assert low <= exact.high and exact.low <= high
    assert high - low < 0.01
    assert pld.privacy_losses.size <= 2 * MAX_POINTS


def test_no_privacy_loss_at_all():
    def nothing(epsilon):
        with np.errstate(divide="ignore"):
            return np.log(-np.expm1(np.minimum(epsilon, 0)))

    pld = PrivacyLossDistribution.from_profile(nothing).self_compose(5)
    assert pld.epsilon(1e-6) < 1e-15
    low, high = pld.delta_interval([-1.0, 1e-9, 1.0])
    np.testing.assert_allclose(low, [1 - np.exp(-1), 0, 0], rtol=1e-12)
    np.testing.assert_allclose(high, [1 - np.exp(-1), 0, 0], rtol=1e-9, atol=1e-16)


def test_shapes_limits_and_round_trip():
    pld = gaussian(0.2).self_compose(4)
    assert isinstance(pld, PrivacyBound)
    for shape in [(), (0,), (3,), (2, 3)]:
        for interval in (pld.delta_interval(np.full(shape, 0.5)), pld.epsilon_interval(np.full(shape, 1e-5))):
            assert isinstance(interval, Interval)
            assert np.shape(interval.low) == np.shape(interval.high) == shape
        assert np.shape(pld.log_delta(np.full(shape, 0.5))) == shape
    assert pld.log_delta(-np.inf) == 0
    assert pld.delta(np.inf) < 1e-35
    for delta in (0.1, 1e-3, 1e-8, 1e-15):
        low, high = pld.epsilon_interval(delta)
        assert pld.epsilon(delta) == high
        assert pld.log_delta(high) <= np.log(delta)
        assert pld.log_delta(high * (1 - 1e-9)) > np.log(delta)
        assert low <= gaussian(0.4).epsilon_interval(delta).high
    assert pld.epsilon_interval(0.9) == (0, 0)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"log_delta": 1.0}, TypeError, "log_delta must be callable: got log_delta=1.0"),
        ({"shift": np.nan}, ValueError, "shift must be a finite number: got shift=nan"),
        ({"relative_error": 0}, ValueError, r"relative_error must be inside \(0, 0.01\]: got relative_error=0"),
        ({"accuracy": 1}, ValueError, r"accuracy must be inside \(0, 1\): got accuracy=1"),
        ({"step": 0}, ValueError, "step must be a finite number > 0: got step=0"),
    ],
)
def test_bad_arguments(arguments, error, message):
    with pytest.raises(error, match=message):
        PrivacyLossDistribution.from_profile(**{"log_delta": randomised_response, **arguments})


def test_bad_uses_profiles_and_grids():
    for k in (0, -1, 1.5, np.inf, np.nan, "two"):
        with pytest.raises(ValueError, match="k must be an integer >= 1: got k="):
            gaussian(1).self_compose(k)
    with pytest.raises(TypeError, match="other must be PrivacyLossDistribution"):
        gaussian(1).compose(3)
    with pytest.raises(ValueError, match=r"step must be at least .*: got step=1e-09"):
        gaussian(1, step=1e-9).self_compose(2).epsilon(1e-5)
    for uses in (1, 2):
        with pytest.raises(ValueError, match="log_delta must be a number at every epsilon: got nan at epsilon="):
            PrivacyLossDistribution.from_profile(lambda e: e * np.nan).self_compose(uses).epsilon(1e-5)
    with pytest.raises(ValueError, match="log_delta must not be 0 everywhere"):
        PrivacyLossDistribution.from_profile(np.zeros_like).self_compose(2).epsilon(1e-5)
    for delta in (0, 1, np.nan):
        with pytest.raises(ValueError, match=r"delta must be inside \(0, 1\)"):
            gaussian(1).epsilon_interval(delta)
