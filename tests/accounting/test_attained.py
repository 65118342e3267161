"""The attained lower bound: its maps by independent quadrature, its place in the order, how far it reaches."""

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from explorer.accounting import (
    AttainedLowerBound,
    Gaussian,
    GaussianLowerBound,
    ObjectivePerturbation,
    PrivacyBound,
    RefinedBound,
    TightBound,
)
from explorer.accounting.bounds import attained as attained_module
from explorer.accounting.bounds.attained import (
    best_ramp_log_delta,
    interval_log_delta,
    one_ramp_log_delta,
    staircase_log_delta,
    tail_log_delta,
)
from tests.accounting.maps import best_leak, leak
from tests.accounting.strategies import log_uniform, mechanism

GRID = np.concatenate([[0.0], np.geomspace(1e-3, 100, 15)])
parameters = {"s": log_uniform(1e-3, 10), "kappa": log_uniform(1e-4, 10), "monotone": st.booleans()}


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


@settings(max_examples=60)
@given(
    s=log_uniform(0.01, 3),
    kappa=log_uniform(0.01, 10),
    epsilon=log_uniform(1e-3, 2),
    p=st.floats(-4, 4),
    part=st.floats(0, 1),
)
def test_one_ramp_is_the_leak_of_its_map(s, kappa, epsilon, p, part):
    r2 = s * (1 - 2 * part)
    knots = np.array([p, p + (s - r2) * (1 + kappa) / kappa + 1e-12])
    quadrature = leak(epsilon, knots, np.array([s, r2]), steps=20_000)
    value = np.exp(one_ramp_log_delta(epsilon, p, r2, sensitivity_ratio=s, curvature_ratio=kappa))
    assert value == pytest.approx(quadrature, rel=1e-5, abs=1e-10)


@pytest.mark.parametrize(
    ("s", "kappa", "epsilon"), [(0.1, 0.2, 0.3), (0.1, 1, 0.9), (1, 2 / 3, 1.0), (0.5, 1 / 3, 2.0)]
)
def test_staircase_is_the_leak_of_its_map(s, kappa, epsilon, monkeypatch):
    """Rebuild the maps from the pieces that are summed; they must be admissible and leak what is claimed."""
    pieces = []

    def recorder(epsilon, y0, y1, r0, r1):
        pieces.append((y0, y1, r0, r1))
        return interval_log_delta(epsilon, y0, y1, r0, r1)

    monkeypatch.setattr(attained_module, "interval_log_delta", recorder)
    claimed = staircase_log_delta(np.array([epsilon]), sensitivity_ratio=s, curvature_ratio=kappa)[0]
    begin, end, before, after = (np.broadcast_to(x, pieces[0][0].shape)[..., 0] for x in pieces[0])
    speed, leaks = kappa / (1 + kappa), []
    for y0, y1, r0, r1 in zip(begin, end, before, after, strict=True):
        assert r0[0] == s and (r1 >= 0).all()
        assert (y1 >= y0).all() and (y0[1:] >= y1[:-1] - 1e-12).all()
        assert (r0[1:] == r1[:-1]).all()
        assert (r0 - r1 <= speed * (y1 - y0) * (1 + 1e-9) + 1e-15).all()
        knots = np.stack([y0, y1], axis=1).ravel()
        leaks.append(leak(epsilon, knots, np.stack([r0, r1], axis=1).ravel(), steps=20_000))
    assert np.exp(claimed) <= max(leaks) * (1 + 1e-9)
    assert np.exp(claimed) == pytest.approx(max(leaks), rel=2e-3)


def test_the_bracket_at_a_known_point():
    """sigma = 10, lambda = 5, epsilon = 0.3: 6.1e-4 by one ramp, 6.5e-4 by the staircase, against 6.5158e-4."""
    ratios = {"sensitivity_ratio": 0.1, "curvature_ratio": 0.2}
    epsilon = np.array([0.3])
    assert np.exp(best_ramp_log_delta(epsilon, **ratios, lowest=-0.1)) == pytest.approx(6.1e-4, rel=0.01)
    assert np.exp(staircase_log_delta(epsilon, **ratios)) == pytest.approx(6.5e-4, rel=0.005)
    m = ObjectivePerturbation(noise_std=10, l2_reg=5, lipschitz=1, smoothness=1)
    assert TightBound(m).delta(0.3) == pytest.approx(6.5158e-4, rel=1e-4)
    assert AttainedLowerBound(m).delta(0.3) == pytest.approx(6.5158e-4, rel=1e-3)
    # s = 0.1, kappa = 5, epsilon = 1: 0.052 attained, 0.053 proved
    assert AttainedLowerBound(mechanism(0.1, 5)).delta(1.0) == pytest.approx(0.052, rel=0.01)


@pytest.mark.parametrize(
    ("s", "kappa", "levels", "grid"),
    [
        (0.1, 0.2, 200, (0.05, 0.1, 0.2, 0.3)),
        (1, 2 / 3, 200, (0.3, 1.0, 2.0)),
        (0.1, 5, 60, (0.5, 1.7)),
        (3, 10, 200, (1.0,)),
    ],
)
@pytest.mark.parametrize("monotone", [False, True])
def test_as_good_as_the_best_map_of_a_dynamic_program(s, kappa, levels, grid, monotone):
    bound = AttainedLowerBound(mechanism(s, kappa, monotone))
    for epsilon in grid:
        best = best_leak(epsilon, s=s, kappa=kappa, direction="remove", monotone=monotone, levels=levels)
        assert bound.log_delta_remove(epsilon) == pytest.approx(np.log(best), abs=3e-3)


@settings(max_examples=25)
@given(**parameters)
def test_order(s, kappa, monotone):
    """Gaussian <= attained <= tight <= refined, in each direction and at both signs of epsilon."""
    m = mechanism(s, kappa, monotone)
    for direction in ("log_delta_add", "log_delta_remove"):
        for epsilon in (GRID, -GRID):
            gaussian = GaussianLowerBound(m).log_delta(epsilon)
            lower, tight, refined = (
                getattr(bound(m), direction)(epsilon) for bound in (AttainedLowerBound, TightBound, RefinedBound)
            )
            assert (gaussian <= lower).all()
            assert (lower <= tight + 1e-12 * np.abs(tight) + 1e-15).all()
            assert (tight <= refined).all()
    bound = AttainedLowerBound(m)
    assert bound.log_delta_add(0.0) == bound.log_delta_remove(0.0)


@settings(max_examples=40)
@given(s=log_uniform(1e-3, 10), kappa=log_uniform(1e-4, 10), monotone=st.booleans())
def test_the_sums_themselves_stay_below_the_tight_bound(s, kappa, monotone):
    """Without the clip to the refined bound that the class applies: nothing here overestimates."""
    bound, upper = AttainedLowerBound(mechanism(s, kappa, monotone)), TightBound(mechanism(s, kappa, monotone))
    tight = upper.log_delta_remove(GRID)
    assert (bound._remove(GRID) <= tight + 1e-12 * np.abs(tight) + 1e-13).all()


@settings(max_examples=30)
@given(**parameters, epsilon=log_uniform(1e-3, 30))
def test_monotone_up_to_the_search(s, kappa, monotone, epsilon):
    def log_delta(noise, reg, epsilon):
        return AttainedLowerBound(mechanism(s / noise, kappa / reg, monotone)).log_delta(epsilon)

    here = log_delta(1, 1, epsilon)
    slack = 0.02 * min(1, abs(here)) + 1e-12
    assert log_delta(1.1, 1, epsilon) <= here + slack
    assert log_delta(1, 1.1, epsilon) <= here + slack
    assert log_delta(1, 1, 1.05 * epsilon) <= here + slack


def test_interface_and_absurd_parameters():
    bound = AttainedLowerBound(ObjectivePerturbation(noise_std=5, l2_reg=0.5, lipschitz=1, smoothness=1))
    assert isinstance(bound, PrivacyBound) and not isinstance(bound, TightBound)
    for shape in [(), (0,), (3,), (2, 3)]:
        assert np.shape(bound.log_delta(np.full(shape, 0.5))) == shape
        assert np.shape(bound.epsilon(np.full(shape, 1e-5))) == shape
    epsilon = np.array([0.0, 0.3, -0.2, 4.0])
    np.testing.assert_allclose(
        bound.log_delta_remove(epsilon), [bound.log_delta_remove(e) for e in epsilon], rtol=1e-13
    )
    with pytest.raises(TypeError, match="mechanism must be ObjectivePerturbation: got mechanism="):
        AttainedLowerBound(Gaussian(noise_std=1))
    with pytest.raises(ValueError, match="epsilon must be a real number: got epsilon="):
        bound.log_delta_remove(np.nan)
    for s in (1e-25, 1e-6, 1e6):
        for kappa in (1e-25, 1.0, 1e25):
            bound = AttainedLowerBound(mechanism(s, kappa))
            value = bound.log_delta(np.concatenate([GRID, -GRID, [1e200, -1e300, np.log1p(kappa)]]))
            assert not np.isnan(value).any() and (value <= 0).all()
            assert bound.log_delta(np.inf) == -np.inf and bound.log_delta(-np.inf) == 0
