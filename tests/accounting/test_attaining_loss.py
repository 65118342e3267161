"""The losses that attain the exact bound: their profiles by independent quadrature, their densities, their nearness."""

import mpmath
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from explorer.accounting import (
    AttainingLoss,
    ExactBound,
    Gaussian,
    GaussianLowerBound,
    ObjectivePerturbation,
    OneRecordLoss,
    PrivacyBound,
    attaining_loss,
    linear_loss,
)
from explorer.accounting.bounds.one_record_loss import interval_log_delta, tail_log_delta
from explorer.learning.densities import log_density, log_hockey_stick
from tests.accounting.maps import inverse, leak, random_map
from tests.accounting.strategies import log_uniform, mechanism

DIRECTIONS = ("add", "remove")
FIGURE_1 = ObjectivePerturbation(noise_std=10, l2_reg=5, lipschitz=1, smoothness=1)
CASES = [  # a staircase, Huber's loss, a plan off the centre, one bend of a monotone loss, lambda below beta
    (FIGURE_1, 0.3),
    (FIGURE_1, 0.1),
    (ObjectivePerturbation(noise_std=5, l2_reg=20, lipschitz=1, smoothness=1), 0.3),
    (ObjectivePerturbation(noise_std=5, l2_reg=0.5, lipschitz=1, smoothness=1, monotone_loss=True), 1.0),
    (ObjectivePerturbation(noise_std=2, l2_reg=0.5, lipschitz=1, smoothness=3), 0.5),
]


def in_direction(bound, direction):
    return getattr(bound, f"log_delta_{direction}")


@settings(max_examples=40)
@given(
    s=log_uniform(0.05, 3),
    kappa=log_uniform(0.02, 5),
    monotone=st.booleans(),
    seed=st.integers(0, 2**32 - 1),
    epsilon=st.floats(-2, 2),
)
@example(s=1.0, kappa=1.0, monotone=False, seed=184, epsilon=1.0)  # 4000 steps of the quadrature are off by 1.6e-5
def test_profile_is_the_leak_of_the_map(s, kappa, monotone, seed, epsilon):
    knots, shifts = random_map(np.random.default_rng(seed), s=s, kappa=kappa, monotone=monotone)
    m = ObjectivePerturbation(noise_std=3, l2_reg=2, lipschitz=3 * s, smoothness=2 * kappa, monotone_loss=monotone)
    loss = OneRecordLoss(mechanism=m, knots=3 * knots, shifts=np.clip(3 * shifts, -3 * s, 3 * s))
    maps = {"add": (knots, shifts), "remove": inverse(knots, shifts)}
    expected = {direction: leak(epsilon, *each, steps=20_000) for direction, each in maps.items()}
    for direction in DIRECTIONS:
        delta = np.exp(in_direction(loss, direction)(epsilon))
        assert delta == pytest.approx(expected[direction], rel=1e-5, abs=1e-8)
        assert in_direction(loss, direction)(epsilon) <= in_direction(ExactBound(m), direction)(epsilon) + 1e-9


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize(("m", "epsilon"), CASES)
def test_it_attains_the_bound_and_its_densities_leak_as_much(m, epsilon, direction):
    loss = attaining_loss(m, epsilon=epsilon, direction=direction)
    own, bound = (in_direction(each, direction)(epsilon) for each in (loss, ExactBound(m)))
    assert bound - 1e-8 <= own <= bound + 1e-12
    assert loss.gap == max(bound - own, 0)
    loss = attaining_loss(m, epsilon=epsilon, direction=direction, tolerance=1e-3)  # few jumps, for the quadrature
    own = in_direction(loss, direction)(epsilon)
    noise = np.unique(np.concatenate([np.linspace(-12, 12, 100_001) * m.noise_std, loss.knots]))
    pair = loss.log_density_without(noise), loss.log_density_with(noise)
    difference = in_direction_privacy_loss(loss, direction)(noise)
    np.testing.assert_allclose(difference, (pair[0] - pair[1]) * (1 if direction == "add" else -1), atol=1e-9)
    drawn = log_hockey_stick(epsilon, noise, *(pair if direction == "add" else pair[::-1]))
    assert drawn == pytest.approx(own, abs=2e-3)


def in_direction_privacy_loss(loss, direction):
    return getattr(loss, f"privacy_loss_{direction}")


@pytest.mark.parametrize(("m", "epsilon"), CASES)
def test_the_release_of_this_loss_has_those_densities(m, epsilon):
    """Through the learners' own formula for the density of a minimiser."""
    loss = attaining_loss(m, epsilon=epsilon, direction="remove")

    class Record:
        def derivative(self, u, y):
            return loss.derivative(u)

        def second_derivative(self, u, y):
            return loss.second_derivative(u)

    noise = np.linspace(-6.01, 6, 4001) * m.noise_std
    setting = {"loss": Record(), "l2_reg": m.l2_reg, "noise_std": m.noise_std}
    with_ = log_density(-noise / m.l2_reg, records=[(1.0, 0.0)], **setting)
    without = log_density(-noise / m.l2_reg, records=[], **setting)
    np.testing.assert_allclose(loss.log_density_with(noise) + np.log(m.l2_reg), with_, atol=1e-10)
    np.testing.assert_allclose(loss.log_density_without(noise) + np.log(m.l2_reg), without, atol=1e-10)


@pytest.mark.parametrize(("m", "epsilon"), CASES)
def test_the_loss_is_convex_and_within_its_constants(m, epsilon):
    loss = attaining_loss(m, epsilon=epsilon, direction="remove")
    theta = np.linspace(-8, 8, 20_001) * m.noise_std / m.l2_reg
    slope, bend = loss.derivative(theta), loss.second_derivative(theta)
    assert (np.diff(slope) >= 0).all()
    assert np.abs(slope).max() <= m.lipschitz
    assert ((bend >= 0) & (bend <= m.smoothness * (1 + 1e-6))).all()
    rise = (slope[:-1] + slope[1:]) / 2 * np.diff(theta)
    np.testing.assert_allclose(np.diff(loss.value(theta)), rise, atol=2e-3 * np.abs(rise).max())
    assert loss.value(0.0) == 0
    if m.monotone_loss:
        assert slope.min() >= 0 or slope.max() <= 0


def test_hubers_loss_is_the_worst_of_both_signs():
    """Both sides of the noise leak as much as a linear loss does on one: delta is twice the Gaussian's."""
    loss = attaining_loss(FIGURE_1, epsilon=0.3, direction="add")
    assert (loss.knots, loss.shifts) == ((-5, 5), (-1, 1))
    theta = np.linspace(-3, 3, 61)
    huber = np.where(np.abs(theta) <= 1, theta**2 / 2, np.abs(theta) - 0.5)
    np.testing.assert_allclose(loss.value(theta), huber, atol=1e-14)
    assert loss.log_delta_add(0.3) == pytest.approx(np.log(2) + GaussianLowerBound(FIGURE_1).log_delta(0.3), rel=1e-12)


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_the_linear_loss_is_the_gaussian_mechanism(direction):
    loss, gaussian = linear_loss(FIGURE_1, direction=direction), GaussianLowerBound(FIGURE_1)
    assert isinstance(loss, PrivacyBound)
    epsilon = np.array([[-3.0, -0.1, 0.0], [0.05, 2.0, 60.0]])
    for of_loss in (loss.log_delta_add, loss.log_delta_remove, loss.log_delta):
        np.testing.assert_allclose(of_loss(epsilon), gaussian.log_delta(epsilon), rtol=1e-12, atol=1e-14)
    assert loss.epsilon(1e-5) == pytest.approx(gaussian.epsilon(1e-5), rel=1e-9)
    assert (loss.log_delta(np.inf), loss.log_delta(-np.inf)) == (-np.inf, 0)
    monotone = ObjectivePerturbation(noise_std=10, l2_reg=5, lipschitz=1, smoothness=1, monotone_loss=True)
    if direction == "add":
        assert attaining_loss(monotone, epsilon=0.3, direction="add").shifts == (1.0,)


def test_mirror_images_leak_alike():
    loss = attaining_loss(FIGURE_1, epsilon=0.3, direction="remove")
    mirrored = OneRecordLoss(mechanism=FIGURE_1, knots=-np.array(loss.knots)[::-1], shifts=-np.array(loss.shifts)[::-1])
    epsilon = np.array([-0.5, 0.0, 0.2, 0.3, 1.0, 8.0])
    for direction in DIRECTIONS:
        np.testing.assert_allclose(
            in_direction(mirrored, direction)(epsilon), in_direction(loss, direction)(epsilon), rtol=1e-10, atol=1e-14
        )


@settings(max_examples=25)
@given(
    s=log_uniform(1e-5, 2000),
    kappa=log_uniform(1e-6, 1e4),
    epsilon=log_uniform(1e-3, 100),
    monotone=st.booleans(),
    direction=st.sampled_from(DIRECTIONS),
)
def test_the_whole_range_of_a_page_has_its_loss(s, kappa, epsilon, monotone, direction):
    m = mechanism(s, kappa, monotone)
    loss = attaining_loss(m, epsilon=epsilon, direction=direction)
    own, bound = (in_direction(each, direction)(epsilon) for each in (loss, ExactBound(m)))
    assert own <= bound + 1e-12 * abs(bound) + 1e-13
    if bound > -50:
        assert own >= bound - 1e-8
    assert loss.gap == max(bound - own, 0)
    assert np.isfinite(loss.log_density_with(np.linspace(-9, 9, 7) / s)).all()


def test_the_parts_of_the_loss_are_named():
    """A ramp alone up to log(1+kappa); beyond it a ramp and what follows; a linear loss has neither."""
    ramp = attaining_loss(FIGURE_1, epsilon=0.1, direction="remove")
    assert (ramp.ramp, ramp.followed) == (ramp.knots, None)
    both = attaining_loss(FIGURE_1, epsilon=0.19, direction="remove")
    assert isinstance(both, AttainingLoss)
    assert both.ramp[0] == both.knots[0] and both.ramp[1] == both.followed[0] < both.followed[1] == both.knots[-1]
    slope = both.shift_slope(np.linspace(*both.ramp, 7)[:-1])
    np.testing.assert_allclose(slope, FIGURE_1.curvature_ratio, rtol=1e-9)
    inside = both.shift_slope(np.linspace(*both.followed, 5000)[:-1])
    assert 0 < inside.mean() < 0.9 * FIGURE_1.curvature_ratio
    monotone = ObjectivePerturbation(noise_std=10, l2_reg=5, lipschitz=1, smoothness=1, monotone_loss=True)
    assert attaining_loss(monotone, epsilon=0.3, direction="add").ramp is None


def test_fewer_steps_come_less_near():
    rough, fine = (attaining_loss(FIGURE_1, epsilon=0.3, direction="remove", tolerance=t) for t in (1e-4, 1e-8))
    assert 1e-6 < rough.gap <= 1e-4 and fine.gap <= 1e-8
    assert len(rough.knots) < len(fine.knots) / 10


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_below_zero_the_loss_attains_by_duality(direction):
    loss = attaining_loss(FIGURE_1, epsilon=-0.3, direction=direction)
    own, bound = (in_direction(each, direction)(-0.3) for each in (loss, ExactBound(FIGURE_1)))
    assert bound - 1e-8 <= own <= bound + 1e-12


@pytest.mark.parametrize(
    ("epsilon", "y0", "y1", "r0", "r1"),
    [
        (0.3, 1.0, 1.2, 0.1, 0.08),
        (2.0, 7.0, 7.5, 0.3, 0.2),
        (50.0, 499.9, 500.0, 0.1, 0.0999),
        (0.1, -3, 2, 1.0, -0.5),
        (0.0, -40, 1, 2, 2),
        (5.0, 40, 41, 0.2, 0.2),
    ],
)
def test_pieces_are_their_integrals_from_below(epsilon, y0, y1, r0, r1):
    with mpmath.workdps(60):
        e, a, b, ra, rb = map(mpmath.mpf, (epsilon, y0, y1, r0, r1))
        tail = lambda x: mpmath.erfc(x / mpmath.sqrt(2)) / 2  # noqa: E731
        exact = tail(a) - tail(b) - mpmath.exp(e) * (tail(a + ra) - tail(b + rb))
        beyond = tail(a) - mpmath.exp(e) * tail(a + ra)
        for value, got in (
            (exact, interval_log_delta(epsilon, y0, y1, r0, r1)),
            (beyond, tail_log_delta(epsilon, y0, r0)),
        ):
            if value > 0:
                log_value = float(mpmath.log(value))
                assert got <= log_value + 1e-15 * abs(log_value)
                assert got == pytest.approx(log_value, rel=1e-9, abs=1e-9)
            else:
                assert got == -np.inf


def test_nothing_is_earned_over_nothing():
    assert interval_log_delta(0.1, 1.0, 1.0, 0.1, 0.1) == -np.inf
    assert interval_log_delta(0.1, 2.0, 1.0, 0.1, 0.1) == -np.inf


def test_bad_parameters_are_named():
    def loss(**changes):
        return OneRecordLoss(**{"mechanism": FIGURE_1, "knots": (0, 10), "shifts": (-1, 1), **changes})

    assert loss().shift(2.5) == -0.5
    with pytest.raises(TypeError, match="mechanism must be ObjectivePerturbation"):
        loss(mechanism=Gaussian(noise_std=1))
    with pytest.raises(ValueError, match="knots must increase, one for each of shifts"):
        loss(knots=(0, 0))
    with pytest.raises(ValueError, match="knots must increase, one for each of shifts"):
        loss(knots=(0,))
    with pytest.raises(ValueError, match=r"slope of at most smoothness / l2_reg = 0\.2"):
        loss(knots=(0, 9.9))
    with pytest.raises(ValueError, match="shifts must rise"):
        loss(shifts=(1, -1))
    with pytest.raises(ValueError, match="shifts must be within lipschitz=1"):
        loss(shifts=(0, 1.1))
    with pytest.raises(ValueError, match="one sign for a monotone loss"):
        loss(mechanism=ObjectivePerturbation(noise_std=1, l2_reg=1, lipschitz=1, smoothness=1, monotone_loss=True))
    with pytest.raises(ValueError, match="epsilon must be a finite number"):
        attaining_loss(FIGURE_1, epsilon=np.inf, direction="add")
    with pytest.raises(ValueError, match="tolerance must be a finite number > 0"):
        attaining_loss(FIGURE_1, epsilon=0.1, direction="add", tolerance=0)
    for function in (attaining_loss, linear_loss):
        with pytest.raises(ValueError, match="direction must be one of add, remove: got direction='both'"):
            function(FIGURE_1, direction="both", **({"epsilon": 1.0} if function is attaining_loss else {}))
