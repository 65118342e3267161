"""Any bound composes through its profile: the tight bound, the paper's by duality, and one that a user writes."""

from functools import partial

import numpy as np
import pytest

from explorer.accounting import (
    ApproximateMinimaPerturbation,
    CompositionBound,
    ExactBound,
    Gaussian,
    GaussianLowerBound,
    HockeyStickBound,
    KiferBound,
    ObjectivePerturbation,
    PrivacyBound,
    ProfileBound,
    RefinedBound,
    RenyiBound,
    calibrate_amp,
    hockey_stick_plds,
    profile_plds,
    refined_plds,
)
from explorer.learning import AMPClassifier

MECHANISM = ObjectivePerturbation(noise_std=8, l2_reg=10, lipschitz=1, smoothness=1)
AMP = ApproximateMinimaPerturbation(
    noise_std=7, l2_reg=4, lipschitz=np.sqrt(2), smoothness=0.5, gradient_tol=0.01, output_noise_std=0.15
)


class BestOfTwo(ProfileBound):
    """At every epsilon the better of two proofs."""

    def __init__(self, mechanism):
        self.parts = KiferBound(mechanism), HockeyStickBound(mechanism)

    def log_delta(self, epsilon):
        return np.minimum(*(part.log_delta(epsilon) for part in self.parts))


@pytest.mark.parametrize("bound", [ExactBound, RefinedBound, HockeyStickBound, BestOfTwo])
def test_a_single_use_is_the_bound_itself(bound):
    composed = CompositionBound(MECHANISM, plds=partial(profile_plds, bound=bound))
    assert isinstance(composed, PrivacyBound)
    epsilon = np.array([0.0, 0.1, 0.5, 1.0])
    np.testing.assert_allclose(composed.log_delta(epsilon), bound(MECHANISM).log_delta(epsilon), rtol=1e-9)
    assert (composed.log_delta(epsilon) >= bound(MECHANISM).log_delta(epsilon)).all()


@pytest.mark.parametrize("uses", [2, 10])
def test_tighter_bounds_stay_tighter_in_composition(uses):
    """All lie above the composed Gaussian, a linear loss; duality improves the paper's bound too."""
    plds = {
        "exact": partial(profile_plds, bound=ExactBound),
        "refined": refined_plds,
        "refined by its profile": partial(profile_plds, bound=RefinedBound),
        "hockey-stick by duality": partial(profile_plds, bound=HockeyStickBound),
        "hockey-stick": hockey_stick_plds,
    }
    epsilon = {name: CompositionBound(MECHANISM, uses=uses, plds=pld).epsilon(1e-5) for name, pld in plds.items()}
    floor = GaussianLowerBound(Gaussian(noise_std=8, sensitivity=np.sqrt(uses))).epsilon(1e-5)
    assert floor < epsilon["exact"] < epsilon["refined"] < epsilon["hockey-stick"]
    assert epsilon["refined by its profile"] == pytest.approx(epsilon["refined"], rel=1e-3)
    assert epsilon["exact"] < epsilon["hockey-stick by duality"] <= epsilon["hockey-stick"] * (1 + 1e-3)


def test_duality_is_exact_for_a_symmetric_pair():
    """The Gaussian's two directions are the same, so its profile at epsilon >= 0 gives the whole loss back."""

    class OneSided(ProfileBound):
        def __init__(self, mechanism):
            self.exact = GaussianLowerBound(mechanism)

        def log_delta(self, epsilon):
            assert (np.asarray(epsilon) >= 0).all()
            return self.exact.log_delta(epsilon)

    composed = CompositionBound(MECHANISM, uses=50, plds=partial(profile_plds, bound=OneSided))
    closed = GaussianLowerBound(Gaussian(noise_std=8, sensitivity=np.sqrt(50)))
    for epsilon in (0.5, 2.0, 4.0):
        low, high = composed.delta_interval(epsilon)
        assert low <= closed.delta(epsilon) <= high


@pytest.mark.parametrize("bound", [ExactBound, BestOfTwo])
def test_the_output_step_is_composed(bound):
    whole = CompositionBound(AMP, plds=partial(profile_plds, bound=bound))
    assert whole.epsilon(1e-5) > bound(AMP.objective).epsilon(1e-5)
    paper = CompositionBound(AMP, plds=hockey_stick_plds)
    assert whole.epsilon(1e-5) <= paper.epsilon(1e-5) * (1 + 1e-3)


def test_a_users_bound_accounts_for_a_fit():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(300, 3)), rng.integers(0, 2, 300)
    accountant = partial(CompositionBound, plds=partial(profile_plds, bound=BestOfTwo))
    privacy = AMPClassifier(accountant=accountant, random_state=0).fit(X, y).privacy_
    assert privacy.delta <= 1e-5
    assert accountant(privacy.mechanism).delta(1.0) <= 1e-5
    by_rdp = calibrate_amp(
        epsilon=1.0,
        delta=1e-5,
        lipschitz=np.sqrt(2),
        smoothness=0.5,
        gradient_tol=0.01,
        output_noise_std=0.15,
        monotone_loss=True,
        bound=RenyiBound,
    )
    assert privacy.mechanism.l2_reg < by_rdp.value  # the better proof asks for less regularisation


def test_mechanism_of_the_wrong_kind():
    with pytest.raises(TypeError, match="mechanism must be ObjectivePerturbation or ApproximateMinimaPerturbation"):
        profile_plds(Gaussian(noise_std=1), bound=HockeyStickBound)
