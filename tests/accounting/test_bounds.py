"""What every bound owes: the reference values, the order among the bounds, the round trip, and clear refusals."""

import numpy as np
import pytest
from hypothesis import given

from explorer.accounting import (
    BoundNotApplicable,
    Gaussian,
    GaussianLowerBound,
    HockeyStickBound,
    KiferBound,
    ObjectivePerturbation,
    PrivacyBound,
    ProfileBound,
    RefinedBound,
    RenyiBound,
)
from tests.accounting.strategies import deltas, epsilons, mechanisms

BOUNDS = (GaussianLowerBound, KiferBound, HockeyStickBound, RenyiBound, RefinedBound)
each_bound = pytest.mark.parametrize("bound", BOUNDS, ids=lambda b: b.__name__)


def mechanism_of(row):
    return ObjectivePerturbation(noise_std=row["sigma"], l2_reg=row["lam"], lipschitz=row["L"], smoothness=row["beta"])


@pytest.mark.parametrize(
    ("bound", "column"),
    [(GaussianLowerBound, "gaussian"), (KiferBound, "kifer"), (HockeyStickBound, "hockey_stick")],
    ids=lambda x: getattr(x, "__name__", x),
)
def test_reference_log_delta(bound, column, bounds_reference):
    rows = bounds_reference["log_delta"]
    got = [bound(mechanism_of(row)).log_delta(row["epsilon"]) for row in rows]
    np.testing.assert_allclose(got, [float(row[column]) for row in rows], rtol=1e-12, atol=0)


def test_hockey_stick_deep_in_the_tail():
    mechanism = ObjectivePerturbation(noise_std=1, l2_reg=10, lipschitz=1, smoothness=0.25)
    assert HockeyStickBound(mechanism).log_delta(20) == pytest.approx(-195.853183841, abs=1e-9)
    assert np.isfinite(HockeyStickBound(mechanism).log_delta(800))


def test_the_theorem_as_printed_falls_below_the_lower_bound():
    """The misprint adds -log(1 - kappa) to epsilon; the number it would give is impossible, ours is not."""
    mechanism = ObjectivePerturbation(noise_std=10, l2_reg=5, lipschitz=1, smoothness=1)
    printed = np.log(2) + GaussianLowerBound(mechanism).log_delta(0.5 - np.log1p(-0.2))
    lower = GaussianLowerBound(mechanism).log_delta(0.5)
    assert printed < lower < HockeyStickBound(mechanism).log_delta(0.5)
    assert np.exp(printed) == pytest.approx(9e-15, rel=0.1)
    assert np.exp(lower) == pytest.approx(6.9e-9, rel=0.01)
    assert HockeyStickBound(mechanism).delta(0.5) == pytest.approx(1.9e-4, rel=0.03)


@given(mechanism=mechanisms(), epsilon=epsilons)
def test_order_of_the_bounds(mechanism, epsilon):
    lower, hockey_stick, renyi = (
        bound(mechanism).log_delta(epsilon) for bound in (GaussianLowerBound, HockeyStickBound, RenyiBound)
    )
    assert lower <= hockey_stick * (1 - 1e-13) + 1e-300
    assert hockey_stick <= renyi * (1 - 1e-12)
    assert lower <= KiferBound(mechanism).log_delta(epsilon) * (1 - 1e-13) + 1e-300


@each_bound
@given(mechanism=mechanisms())
def test_profile_is_a_profile(bound, mechanism):
    """Finite, at most 0, never increasing in epsilon, and the same elementwise as all at once."""
    epsilon = np.concatenate([[-3.0, -0.1, 0.0], np.geomspace(1e-5, 1e3, 60)])
    log_delta = bound(mechanism).log_delta(epsilon)
    assert np.isfinite(log_delta).all()
    assert (log_delta <= 0).all()
    assert (np.diff(log_delta) <= 1e-11 * np.abs(log_delta[1:])).all()
    one_by_one = [bound(mechanism).log_delta(e) for e in epsilon]
    np.testing.assert_allclose(log_delta, one_by_one, rtol=1e-13)


@each_bound
@given(mechanism=mechanisms(max_curvature=0.9), delta=deltas)
def test_epsilon_is_the_smallest_that_grants_delta(bound, mechanism, delta):
    profile = bound(mechanism)
    epsilon = profile.epsilon(delta)
    assert epsilon >= 0
    assert profile.log_delta(epsilon) <= np.log(delta) + 1e-10 * abs(np.log(delta))  # two searches over orders
    if epsilon > 1e-6:
        # a hair less epsilon grants strictly less privacy: the answer is not merely an upper bound
        assert profile.log_delta(epsilon * (1 - 1e-6)) > np.log(delta)


@each_bound
@given(mechanism=mechanisms(max_curvature=0.4), epsilon=epsilons)
def test_more_noise_and_more_regularisation_are_more_private(bound, mechanism, epsilon):
    def log_delta(noise, reg):
        return bound(
            ObjectivePerturbation(
                noise_std=noise * mechanism.noise_std,
                l2_reg=reg * mechanism.l2_reg,
                lipschitz=mechanism.lipschitz,
                smoothness=mechanism.smoothness,
            )
        ).log_delta(epsilon)

    here = log_delta(1, 1)
    assert log_delta(1.1, 1) <= here + 1e-10 * abs(here)
    assert log_delta(1, 1.1) <= here + 1e-10 * abs(here)


@each_bound
def test_shapes_and_limits(bound):
    profile = bound(ObjectivePerturbation(noise_std=5, l2_reg=20, lipschitz=1, smoothness=1))
    assert isinstance(profile, PrivacyBound)
    for shape in [(), (0,), (3,), (2, 3)]:
        assert np.shape(profile.log_delta(np.full(shape, 0.5))) == shape
        assert np.shape(profile.delta(np.full(shape, 0.5))) == shape
        assert np.shape(profile.epsilon(np.full(shape, 1e-5))) == shape
    assert profile.log_delta(np.inf) == -np.inf
    assert profile.log_delta(-np.inf) == 0
    assert profile.delta(0.5) == np.exp(profile.log_delta(0.5))


@each_bound
@pytest.mark.parametrize("delta", [0, 1, -1e-5, 1.5, np.nan, np.inf])
def test_delta_outside_the_unit_interval(bound, delta):
    profile = bound(ObjectivePerturbation(noise_std=5, l2_reg=20, lipschitz=1, smoothness=1))
    with pytest.raises(ValueError, match=r"delta must be inside \(0, 1\): got delta="):
        profile.epsilon(delta)


@each_bound
@pytest.mark.parametrize("epsilon", [np.nan, "half", None, 1j, [0.1, np.nan]])
def test_epsilon_that_is_no_number(bound, epsilon):
    profile = bound(ObjectivePerturbation(noise_std=5, l2_reg=20, lipschitz=1, smoothness=1))
    with pytest.raises(ValueError, match="epsilon must be a real number: got epsilon="):
        profile.log_delta(epsilon)


@each_bound
def test_mechanism_of_the_wrong_kind(bound):
    with pytest.raises(TypeError, match="mechanism"):
        bound("objective perturbation")


@pytest.mark.parametrize("bound", [HockeyStickBound, RenyiBound])
@pytest.mark.parametrize("l2_reg", [0.5, 1.0, 1 + 1e-16])
def test_bounds_that_need_strong_convexity_say_so(bound, l2_reg):
    mechanism = ObjectivePerturbation(noise_std=5, l2_reg=l2_reg, lipschitz=1, smoothness=1.0)
    with pytest.raises(BoundNotApplicable, match=r"l2_reg must exceed smoothness.*l2_reg=.*smoothness=1.0"):
        bound(mechanism)
    KiferBound(mechanism), GaussianLowerBound(mechanism)  # these do not ask for it


@pytest.mark.parametrize("name", ["noise_std", "l2_reg", "lipschitz", "smoothness"])
@pytest.mark.parametrize("value", [0, -1, np.nan, np.inf, "five", None, [1, 2], True, 10**400])
def test_mechanism_validates_itself(name, value):
    good = {"noise_std": 5, "l2_reg": 20, "lipschitz": 1, "smoothness": 1}
    with pytest.raises(ValueError, match=rf"{name} must be a (finite number > 0|single number): got {name}="):
        ObjectivePerturbation(**{**good, name: value})


def test_a_profile_may_be_an_attribute_and_must_be_there():
    class Borrowed(ProfileBound):
        def __init__(self, mechanism):
            self.log_delta = GaussianLowerBound(mechanism).log_delta

    mechanism = Gaussian(noise_std=4)
    assert Borrowed(mechanism).epsilon(1e-5) == GaussianLowerBound(mechanism).epsilon(1e-5)
    with pytest.raises(NotImplementedError):
        ProfileBound().epsilon(1e-5)
