"""Several adaptive uses, exactly: certified intervals, against independent values, explicit losses and other bounds."""

from functools import cache, partial

import numpy as np
import pytest

from explorer.accounting import (
    AdaptiveCompositionBound,
    CompositionBound,
    Gaussian,
    GaussianLowerBound,
    PrivacyBound,
    PrivacyLossDistribution,
    RenyiBound,
    profile_plds,
)
from explorer.accounting.bounds.exact import ExactBound
from explorer.accounting.bounds.renyi import RenyiCurve
from explorer.accounting.pld.ramp_certificate import _gain, gain_on_slabs
from explorer.accounting.pld.ramps import Ramps
from tests.accounting.maps import inverse, leak, random_map
from tests.accounting.strategies import mechanism

SETTINGS = [(0.1, 0.2, False), (0.05, 0.02, False), (0.3, 1.0, True)]


@cache
def adaptive(s, kappa, monotone, uses):
    """The narrowest intervals only for two uses, to save time."""
    return AdaptiveCompositionBound(mechanism(s, kappa, monotone), uses=uses, width=1e-3 if uses <= 2 else 5e-3)


def grid_profile(epsilon, knots, shift):
    """Profiles of a map at many epsilon, from below up to the width of the intervals of the noise."""
    return np.array([leak(e, knots, shift, steps=1500) for e in epsilon])


@pytest.mark.parametrize(
    ("setting", "remove", "add"),
    [
        ((0.1, 0.2, False), 0.64900, 0.54508),
        ((0.05, 0.02, False), 0.23408, 0.24323),
        ((0.3, 1.0, True), 2.40921, 1.65998),
    ],
)
def test_two_uses_against_an_independent_recursion(setting, remove, add):
    """The values were computed by another discretisation and are correct to 5 digits."""
    bound = adaptive(*setting, 2)
    assert bound.certified
    for direction, value in (("remove", remove), ("add", add)):
        low, high = bound.epsilon_interval(1e-5, direction=direction)
        assert low - 5e-6 <= value <= high + 5e-6  # it is rounded
        assert high - low <= 1e-3
    assert bound.epsilon(1e-5) == bound.epsilon_interval(1e-5).high


def test_one_use_is_the_exact_bound():
    one, exact = adaptive(*SETTINGS[0], 1), ExactBound(mechanism(*SETTINGS[0]))
    epsilon = np.array([-0.2, 0.0, 0.1, 0.3, 0.5])
    low, high = one.log_delta_interval(epsilon)
    assert (low <= exact.log_delta(epsilon)).all()
    assert (exact.log_delta(epsilon) <= high).all()
    np.testing.assert_allclose(low, high, rtol=1e-8)
    assert one.epsilon(1e-5) == pytest.approx(float(exact.epsilon(1e-5)), rel=1e-8)
    assert one.certified


@pytest.mark.parametrize("setting", SETTINGS[:2])
@pytest.mark.parametrize("uses", [2, 3])
def test_between_the_gaussian_and_the_other_bounds(setting, uses):
    bound, one = adaptive(*setting, uses), mechanism(*setting)
    assert isinstance(bound, PrivacyBound)
    low, high = bound.epsilon_interval(1e-5)
    composed = CompositionBound(one, uses=uses, plds=partial(profile_plds, bound=ExactBound))
    floor = GaussianLowerBound(Gaussian(noise_std=one.noise_std / np.sqrt(uses)))
    assert float(floor.epsilon(1e-5)) <= low <= high <= float(composed.epsilon(1e-5))
    epsilon = np.linspace(0, 1.5 * float(high), 9)
    below, above = bound.log_delta_interval(epsilon)
    assert (below <= above).all()
    assert (floor.log_delta(epsilon) <= above).all()
    assert (above <= composed.log_delta(epsilon) + 1e-3).all()


def test_more_uses_leak_more():
    ends = [adaptive(0.1, 0.2, False, uses).epsilon_interval(1e-5) for uses in (1, 2, 3)]
    assert ends[0].high < ends[1].low < ends[1].high < ends[2].low


@pytest.mark.parametrize("remove", [True, False])
@pytest.mark.parametrize("uses", [2, 3])
def test_copies_of_one_ramp_do_not_leak_more(remove, uses):
    """The same ramp in every use is an adversary without adaptivity; its PLD composes exactly."""
    s, kappa, monotone = SETTINGS[0]
    bound = adaptive(s, kappa, monotone, uses)
    ramps = Ramps(s=s, kappa=kappa, remove=remove, monotone=monotone)
    name = "remove" if remove else "add"
    for centre in (0.0, 1.5):

        def profile(epsilon, centre=centre):
            flat = np.clip(epsilon, -30, 30).ravel()  # beyond, the profile is 1 or 0
            value = ramps.profiles(np.array([centre]), flat).excess[0] + np.maximum(-np.expm1(flat), 0)
            with np.errstate(divide="ignore"):
                return np.log(value).reshape(np.shape(epsilon))

        copies = PrivacyLossDistribution.from_profile(profile, relative_error=1e-11).self_compose(uses)
        for epsilon in (0.0, 0.2, 0.5):
            assert copies.log_delta_interval(epsilon).low <= getattr(bound, f"log_delta_{name}")(epsilon)


@pytest.mark.parametrize(("s", "kappa", "monotone"), [(0.1, 0.2, False), (0.3, 1.0, True)])
@pytest.mark.parametrize("direction", ["add", "remove"])
def test_no_map_followed_by_the_best_one_leaks_more(s, kappa, monotone, direction):
    """E delta_1(epsilon - privacy loss) for random maps and ramps, by direct summation over the noise."""
    rng = np.random.default_rng(3)
    bound, exact = adaptive(s, kappa, monotone, 2), ExactBound(mechanism(s, kappa, monotone))
    single, double = (getattr(each, f"log_delta_{direction}") for each in (exact, bound))
    table = np.linspace(-6, 6, 4001)
    values = np.exp(single(table))
    y = np.linspace(-10, 10, 20001)
    middle = (y[1:] + y[:-1]) / 2
    own = np.exp(-middle * middle / 2) / np.sqrt(2 * np.pi) * (y[1] - y[0])
    for trial in range(30):
        if trial % 2:
            knots, shift = random_map(rng, s=s, kappa=kappa, monotone=monotone)
        else:
            knots = rng.uniform(-3, 3) + np.array([0.0, (1 if monotone else 2) * s / kappa])
            shift = np.array([0.0 if monotone else -s, s])
        if direction == "remove":
            knots, shift = inverse(knots, shift)
        h = np.interp(middle, knots, shift)
        slope = np.diff(np.interp(y, knots, shift)) / (y[1] - y[0])
        loss = h * (middle + h / 2) - np.log1p(slope)
        for epsilon in np.array([0.0, 1.0, 3.0, 5.0]) * s:
            leaked = own @ np.interp(epsilon - loss, table, values)
            assert np.log(leaked) <= float(double(epsilon)) + 1e-4


def test_ramp_profiles_are_those_of_the_maps():
    rng = np.random.default_rng(5)
    for _ in range(12):
        s, kappa = rng.uniform(0.05, 1), rng.uniform(0.1, 3)
        monotone, remove = bool(rng.integers(2)), bool(rng.integers(2))
        ramps, centre = Ramps(s=s, kappa=kappa, remove=remove, monotone=monotone), rng.uniform(0, 2)
        least = 0.0 if monotone else -s
        sign = 1 if remove else -1  # x = y + sign * r
        knots = centre - np.array([s, least]) / ramps.kappa_y
        epsilon = rng.uniform(-1, 1, 4) * (2 * s + ramps.jump)
        profiles = ramps.profiles(np.array([centre]), epsilon)
        value = profiles.excess[0] + np.maximum(-np.expm1(epsilon), 0)
        np.testing.assert_allclose(value, grid_profile(epsilon, knots, sign * np.array([s, least])), atol=2e-4 * s)
        step = 1e-5
        ends = (ramps.profiles(np.array([centre]), epsilon + each).excess[0] for each in (-step, step))
        np.testing.assert_allclose(np.subtract(*ends) / (2 * step), profiles.slope[0], atol=1e-7)


def test_gains_are_the_derivatives_of_ramps_and_within_their_bounds():
    rng = np.random.default_rng(7)
    for _ in range(20):
        s, remove = np.exp(rng.uniform(-4, 0.5)), bool(rng.integers(2))
        kappa = np.exp(rng.uniform(np.log(max(0.02, s / 8)), 3))
        ramps = Ramps(s=s, kappa=kappa, remove=remove, monotone=False)
        epsilon = rng.uniform(-1, 1, 41) * (ramps.jump + 4 * s)
        level = epsilon if remove else -epsilon
        low = rng.uniform(-1, 1, 60) * (s / ramps.kappa_y + 5)
        high = low + rng.uniform(0.005, 0.5, 60)
        bounds = gain_on_slabs(ramps, low, high, level)
        for part in (0.0, 0.2, 0.7, 1.0):
            gain = _gain(ramps, (low + part * (high - low))[:, None], level)
            rounding = 1e-9 * (np.abs(gain.end) + np.abs(gain.start))
            assert (bounds[0] - rounding <= gain.value).all()
            assert (gain.value <= bounds[1] + rounding).all()
        t, step = rng.uniform(0, 4, 20), 1e-5
        ends = (ramps.profiles(t + each, epsilon).excess for each in (step, -step))
        slope = np.subtract(*ends) / (2 * step) / np.exp(-t * t / 2)[:, None] * np.sqrt(2 * np.pi)
        gains = _gain(ramps, t[:, None], level).value - _gain(ramps, -t[:, None], level).value
        np.testing.assert_allclose(slope, gains, atol=1e-3 * (1 + gains.max()))


def test_where_the_width_is_not_reached_the_other_bound_stands():
    """kappa is so small that the grid would be too large; and a width that no grid of this size reaches."""
    tiny = mechanism(1.0, 1e-3)
    bound = AdaptiveCompositionBound(tiny, uses=2)
    assert not bound.certified
    composed = CompositionBound(tiny, uses=2, plds=partial(profile_plds, bound=ExactBound))
    low, high = bound.epsilon_interval(1e-5)
    assert high == composed.epsilon(1e-5)
    assert low == pytest.approx(float(GaussianLowerBound(Gaussian(noise_std=np.sqrt(0.5))).epsilon(1e-5)), rel=1e-9)
    assert bound.log_delta(1.0) <= composed.log_delta(1.0) + 1e-12


def test_composition_takes_the_smaller_one_of_pld_and_renyi():
    """At (0.1, 0.2) the Renyi divergence is better for 2 and 8 uses, and for (0.02, 0.1) the PLD is."""
    plds = partial(profile_plds, bound=ExactBound)
    for s, kappa, uses, renyi_is_better in [(0.1, 0.2, 8, True), (0.02, 0.1, 8, False)]:
        one = mechanism(s, kappa)
        exact, bound = ExactBound(one), CompositionBound(one, uses=uses, plds=plds)
        by_pld = max(float(each.epsilon(1e-5)) for each in (bound.add, bound.remove))
        curves = (exact.rdp_add, exact.rdp_remove)
        by_renyi = max(float(RenyiBound(RenyiCurve(curve), uses=uses).epsilon(1e-5)) for curve in curves)
        assert (by_renyi < by_pld) == renyi_is_better
        assert float(bound.epsilon(1e-5)) <= min(by_pld, by_renyi) + 1e-12
        low, high = bound.epsilon_interval(1e-5)
        assert low <= high == bound.epsilon(1e-5)
        assert float(bound.log_delta(float(high))) <= np.log(1e-5) + 1e-9


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"uses": 0}, "uses must be"),
        ({"uses": 1.5}, "uses must be"),
        ({"delta": 0.0}, "delta must be"),
        ({"delta": 1.0}, "delta must be"),
        ({"width": 0.0}, "width must be"),
        ({"width": np.nan}, "width must be"),
    ],
)
def test_parameters_out_of_range(options, message):
    with pytest.raises((ValueError, TypeError), match=message):
        AdaptiveCompositionBound(mechanism(0.1, 0.2), **options)


def test_the_wrong_mechanism_or_direction():
    with pytest.raises(TypeError, match="mechanism must be ObjectivePerturbation"):
        AdaptiveCompositionBound(Gaussian(noise_std=1.0), uses=2)
    with pytest.raises(ValueError, match="direction must be"):
        adaptive(*SETTINGS[0], 1).epsilon_interval(1e-5, direction="both")
    with pytest.raises(ValueError, match="delta"):
        adaptive(*SETTINGS[0], 1).epsilon(0.0)
