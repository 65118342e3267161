"""Composed mechanisms: each pair's own profile, the paper's figures, and DP-SGD against a public accountant."""

import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_distribution
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.stats import norm

from explorer.accounting import (
    ApproximateMinimaPerturbation,
    BoundNotApplicable,
    CompositionBound,
    DirectedPLDs,
    Gaussian,
    GaussianLowerBound,
    HockeyStickBound,
    ObjectivePerturbation,
    PoissonSubsampledGaussian,
    PrivacyBound,
    PrivacyLossDistribution,
    RenyiBound,
    hockey_stick_plds,
    poisson_subsampled_plds,
    refined_plds,
)
from explorer.accounting.bounds.gaussian import log_delta
from tests.accounting.strategies import log_uniform

PAPER = {"noise_std": 8.0, "l2_reg": 10.0, "lipschitz": 1.0, "smoothness": 1.0}


def dp_sgd(noise_multiplier, sampling_rate, steps=1):
    return PoissonSubsampledGaussian(noise_multiplier=noise_multiplier, sampling_rate=sampling_rate, steps=steps)


@pytest.mark.parametrize("uses", [1, 10, 100, 1000])
def test_the_papers_composition_figure(uses):
    """sigma = 8, beta = 1, lambda = 10: below Renyi composition, above the Gaussian, and narrow."""
    mechanism = ObjectivePerturbation(**PAPER)
    bound = CompositionBound(mechanism, uses=uses, plds=hockey_stick_plds)
    delta = np.array([1e-3, 1e-5, 1e-8, 1e-10])
    low, high = bound.epsilon_interval(delta)
    gaussian = GaussianLowerBound(Gaussian(noise_std=8 / np.sqrt(uses)))
    assert (low <= high).all()
    assert (high < RenyiBound(mechanism, uses=uses).epsilon(delta)).all()
    assert (low > gaussian.epsilon(delta)).all()
    refined = CompositionBound(mechanism, uses=uses).epsilon(delta)
    assert (gaussian.epsilon(delta) < refined).all()
    assert (refined < high).all()
    low, high = bound.delta_interval(high)
    assert (high <= delta).all()
    assert (high - low <= 1e-3 * high).all()


def test_a_single_use_is_the_hockey_stick_bound():
    mechanism = ObjectivePerturbation(**PAPER)
    epsilon = np.linspace(-0.5, 1.5, 21)
    low, high = CompositionBound(mechanism, plds=hockey_stick_plds).log_delta_interval(epsilon)
    exact = HockeyStickBound(mechanism).log_delta(epsilon)
    assert (low <= exact).all()
    assert (exact <= high).all()


def test_refined_directions_against_the_reference(bounds_reference):
    for row in bounds_reference["refined_by_direction"]:
        arguments = {"noise_std": row["sigma"], "l2_reg": row["lam"], "lipschitz": row["L"], "smoothness": row["beta"]}
        general = refined_plds(ObjectivePerturbation(**arguments))
        monotone = refined_plds(ObjectivePerturbation(**arguments, monotone_loss=True))
        for pld, column in ((general.add, "add"), (monotone.add, "add_monotone"), (general.remove, "remove")):
            low, high = pld.log_delta_interval(row["epsilon"])
            exact = float(row[column])
            assert low <= exact + 1e-12 * (1 + abs(exact)), (row, column)
            assert exact <= high + 1e-12 * (1 + abs(exact)), (row, column)
            if exact > np.log(1e-10):
                assert high - low < 1e-3


def test_composed_refined_losses_by_simulation():
    """delta = E[1 - e^(epsilon - sum)]_+ over drawn losses, for every direction."""
    s, kappa, uses, epsilon, draws = 0.5, 0.4, 5, 2.0, 400_000
    normal = np.random.default_rng(1).normal(size=(draws, uses))
    drawn = {
        "add": s * s / 2 + s * np.abs(normal),
        "add_monotone": np.maximum(0, s * s / 2 + s * normal),
        "remove": np.log1p(kappa) + s * s / 2 + s * normal,
    }
    arguments = {"noise_std": 2.0, "l2_reg": 5.0, "lipschitz": 1.0, "smoothness": 2.0}
    general = refined_plds(ObjectivePerturbation(**arguments)).self_compose(uses)
    monotone = refined_plds(ObjectivePerturbation(**arguments, monotone_loss=True)).self_compose(uses)
    for pld, name in ((general.add, "add"), (monotone.add, "add_monotone"), (general.remove, "remove")):
        gain = np.maximum(0, -np.expm1(epsilon - drawn[name].sum(axis=1)))
        error = 4 * gain.std() / np.sqrt(draws)
        low, high = pld.delta_interval(epsilon)
        assert low - error < gain.mean() < high + error


def test_no_condition_on_curvature_for_refined_losses():
    steep = ObjectivePerturbation(noise_std=5, l2_reg=0.1, lipschitz=1, smoothness=1)
    assert np.isfinite(CompositionBound(steep, uses=3).epsilon(1e-5))
    with pytest.raises(BoundNotApplicable, match="l2_reg must exceed smoothness"):
        CompositionBound(steep, plds=hockey_stick_plds)


@pytest.mark.parametrize("plds", [refined_plds, hockey_stick_plds])
def test_algorithm_1_adds_the_output_step(plds):
    arguments = {"noise_std": 7.0, "l2_reg": 4.0, "lipschitz": np.sqrt(2), "smoothness": 0.5}
    exact = ObjectivePerturbation(**arguments)
    negligible = ApproximateMinimaPerturbation(**arguments, gradient_tol=1e-6, output_noise_std=10.0)
    noisy = ApproximateMinimaPerturbation(**arguments, gradient_tol=0.01, output_noise_std=0.05)
    epsilon = [CompositionBound(mechanism, plds=plds).epsilon(1e-5) for mechanism in (exact, negligible, noisy)]
    assert epsilon[0] == pytest.approx(epsilon[1], rel=1e-4)
    assert epsilon[2] > epsilon[0] * 1.0001
    assert epsilon[2] < RenyiBound(noisy).epsilon(1e-5)


def test_algorithm_1_by_quadrature():
    """Conditioning on the output step's loss: the mean of the objective's profile at epsilon minus that loss."""
    mechanism = ApproximateMinimaPerturbation(
        noise_std=3.0, l2_reg=4.0, lipschitz=1.0, smoothness=0.5, gradient_tol=0.1, output_noise_std=0.2
    )
    s = mechanism.output_step.sensitivity_ratio
    single = HockeyStickBound(mechanism.objective)
    bound = CompositionBound(mechanism, plds=hockey_stick_plds)
    for epsilon in (-0.5, 0.0, 0.4, 1.5, 2.5):
        exact, _ = quad(lambda z, e=epsilon: norm.pdf(z) * single.delta(e - s * s / 2 - s * z), -9, 9, epsabs=1e-14)
        low, high = bound.delta_interval(epsilon)
        assert low * (1 - 1e-7) <= exact <= high * (1 + 1e-7)


def subsampled_profile(epsilon, q, noise_multiplier):
    """(add, remove) hockey-stick divergences of the subsampled Gaussian pair by quadrature of the definition."""

    def q_density(x):
        return norm.pdf(x, 0, noise_multiplier)

    def p_density(x):
        return norm.pdf(x, 1, noise_multiplier)

    def mixture(x):
        return (1 - q) * q_density(x) + q * p_density(x)

    gamma = np.exp(epsilon)
    points = np.linspace(-12 * noise_multiplier, 1 + 12 * noise_multiplier, 400_001)
    cell = points[1] - points[0]
    # with P and Q exchanged by symmetry, add is (N(0), mixture)
    return tuple(
        float(np.sum(np.maximum(first(points) - gamma * second(points), 0)) * cell)
        for first, second in ((q_density, mixture), (mixture, q_density))
    )


@pytest.mark.parametrize(("q", "noise_multiplier"), [(0.01, 0.5), (0.2, 1.0), (0.7, 3.0), (0.999, 0.8), (1.0, 1.3)])
def test_subsampled_pair_by_its_definition(q, noise_multiplier):
    plds = refined_plds(dp_sgd(noise_multiplier, q))
    for epsilon in (-1.0, -0.05, 0.0, 0.02, 0.5, 1.2):
        for pld, exact in zip(plds, subsampled_profile(epsilon, q, noise_multiplier), strict=True):
            low, high = pld.delta_interval(epsilon)
            assert low - 1e-8 <= exact <= high + 1e-8, (epsilon, exact, low, high)


@settings(max_examples=20)
@given(q=log_uniform(1e-4, 0.99), s=log_uniform(0.03, 3), epsilon=st.floats(0, 3))
def test_amplification_identity(q, s, epsilon):
    """remove: delta_q(log(1 + q (e^epsilon - 1))) = q delta(epsilon); add is no larger."""
    add, remove = refined_plds(dp_sgd(1 / s, q))
    at = np.log1p(q * np.expm1(epsilon))
    amplified = np.log(q) + log_delta(epsilon, sensitivity_ratio=s)
    low, high = remove.log_delta_interval(at)
    assert low <= amplified <= high + 1e-9 * abs(amplified)
    assert add.log_delta_interval(at).low <= amplified


def test_full_sampling_is_composition():
    low, high = CompositionBound(dp_sgd(5.0, 1.0, 30)).epsilon_interval(1e-6)
    assert low <= GaussianLowerBound(Gaussian(noise_std=5 / np.sqrt(30))).epsilon(1e-6) <= high
    almost = CompositionBound(dp_sgd(5.0, 1 - 1e-9, 30)).epsilon(1e-6)
    assert almost == pytest.approx(high, rel=1e-4)


def public_accountant(q, noise_multiplier, steps, *, pessimistic, interval):
    return privacy_loss_distribution.from_gaussian_mechanism(
        noise_multiplier,
        sampling_prob=q,
        pessimistic_estimate=pessimistic,
        value_discretization_interval=interval,
        use_connect_dots=pessimistic,
    ).self_compose(steps)


CASES = [
    # rate, multiplier, steps, the public accountant's grid
    (1e-4, 1.0, 100_000, 1e-4),
    (1e-4, 300.0, 1, 1e-6),
    (1e-3, 0.6, 1000, 1e-3),
    (1e-3, 10.0, 10_000, 1e-4),
    (0.01, 0.3, 10, 1e-3),
    (0.01, 1.0, 1000, 1e-4),
    (0.01, 300.0, 100_000, 1e-5),
    (0.032, 1.2, 1875, 1e-4),
    (0.1, 3.0, 100, 1e-4),
    (0.125, 0.8, 1000, 1e-3),
    (0.2, 1.0, 500, 1e-3),
    (0.5, 0.3, 1, 1e-3),
    (0.5, 20.0, 10_000, 1e-4),
    (1.0, 2.0, 100, 1e-3),
    (1.0, 300.0, 100_000, 1e-4),
]


@pytest.mark.parametrize(("q", "noise_multiplier", "steps", "interval"), CASES)
def test_dp_sgd_agrees_with_a_public_accountant(q, noise_multiplier, steps, interval):
    """Inside its pessimistic and optimistic ends, which are wider."""
    low, high = CompositionBound(dp_sgd(noise_multiplier, q, steps), accuracy=5e-3).epsilon_interval(1e-5)
    above = public_accountant(q, noise_multiplier, steps, pessimistic=True, interval=interval)
    assert low <= above.get_epsilon_for_delta(1e-5) * (1 + 1e-9)
    assert high >= public_accountant(
        q, noise_multiplier, steps, pessimistic=False, interval=10 * interval
    ).get_epsilon_for_delta(1e-5) * (1 - 1e-9)
    assert high <= above.get_epsilon_for_delta(1e-5) * 1.001 + 1e-12


def test_where_accountants_are_known_to_fail():
    assert CompositionBound(dp_sgd(1.0, 0.2, 500)).epsilon_interval(1e-5) == pytest.approx((38.170, 38.170), abs=1e-3)
    low, high = CompositionBound(dp_sgd(0.8, 0.125, 1000)).epsilon_interval(1e-5)
    assert 52.54 < low <= high < 52.541


def test_rare_large_losses():
    """Rate 1e-4, multiplier 0.3: almost every loss is in one cell of any grid that can be composed 10^5 times."""
    low, high = CompositionBound(dp_sgd(0.3, 1e-4, 100_000), accuracy=0.02).epsilon_interval(1e-5)
    assert low <= 23.3149 <= high  # the public accountant's pessimistic 23.31484 at interval 1e-4, after 18 s
    assert high - low < 0.1


@settings(max_examples=15)
@given(q=log_uniform(1e-4, 1), noise_multiplier=log_uniform(0.3, 300), steps=log_uniform(1, 1e5).map(int))
def test_every_dp_sgd_has_an_interval(q, noise_multiplier, steps):
    """Narrow even at a coarse accuracy, and not above what no subsampling at all would give."""
    bound = CompositionBound(dp_sgd(noise_multiplier, q, steps), accuracy=0.05)
    low, high = bound.log_delta_interval(np.linspace(0, 1, 5))
    assert (low <= high).all()
    low, high = bound.epsilon_interval(1e-5)
    assert 0 <= low <= high
    assert high <= low + 0.02 * (1 + low)
    everything = GaussianLowerBound(Gaussian(noise_std=noise_multiplier / np.sqrt(steps))).epsilon(1e-5)
    assert low <= everything * (1 + 1e-9)


def test_directions_are_tracked_and_the_larger_is_reported():
    bound = CompositionBound(dp_sgd(1.0, 0.2, 10))
    epsilon = np.linspace(0, 4, 9)
    add, remove = (pld.log_delta(epsilon) for pld in (bound.add, bound.remove))
    assert (add != remove).all()
    np.testing.assert_array_equal(bound.log_delta(epsilon), np.maximum(add, remove))
    assert bound.epsilon(1e-5) == max(bound.add.epsilon(1e-5), bound.remove.epsilon(1e-5))


def test_your_own_losses():
    """A pair of bounds, each direction on its own, subsampled and composed."""
    s = 0.7

    def plds(_):
        add = PrivacyLossDistribution.from_profile(lambda e: log_delta(e, sensitivity_ratio=s))
        remove = PrivacyLossDistribution.from_profile(lambda e: log_delta(e - 0.2, sensitivity_ratio=s))
        return DirectedPLDs(add, remove)

    low, high = CompositionBound(None, uses=4, plds=plds).log_delta_interval(3.0)
    assert low <= log_delta(3.0 - 0.8, sensitivity_ratio=2 * s) <= high
    subsampled = poisson_subsampled_plds(
        lambda e: log_delta(e, sensitivity_ratio=s), lambda e: log_delta(e, sensitivity_ratio=s), sampling_rate=0.3
    )
    with pytest.raises(ValueError, match=r"sampling_rate must be inside \(0, 1\]: got sampling_rate=0"):
        poisson_subsampled_plds(plds, plds, sampling_rate=0)
    whole = CompositionBound(dp_sgd(1 / s, 0.3, 4)).log_delta(1.0)
    assert max(pld.self_compose(4).log_delta(1.0) for pld in subsampled) == pytest.approx(whole, rel=1e-12)


def test_it_is_a_privacy_bound_with_validated_arguments():
    mechanism = ObjectivePerturbation(**PAPER)
    bound = CompositionBound(mechanism, uses=2)
    assert isinstance(bound, PrivacyBound)
    for shape in [(), (0,), (3,), (2, 3)]:
        assert np.shape(bound.epsilon(np.full(shape, 1e-5))) == shape
        assert np.shape(bound.delta_interval(np.full(shape, 1.0)).low) == shape
    assert bound.delta(0.5) == bound.delta_interval(0.5).high
    with pytest.raises(ValueError, match="uses must be an integer >= 1: got uses=0"):
        CompositionBound(mechanism, uses=0)
    with pytest.raises(ValueError, match="accuracy must be inside"):
        CompositionBound(mechanism, accuracy=2)
    for plds in (refined_plds, hockey_stick_plds):
        with pytest.raises(TypeError, match="mechanism has no privacy loss distribution: got mechanism='DP'"):
            CompositionBound("DP", plds=plds)


BAD = {
    "noise_multiplier": [0, -1, np.nan, np.inf, None],
    "sampling_rate": [0, -0.1, 1.1, np.nan, "half"],
    "steps": [0, 1.5, -3, np.inf, None],
}


@pytest.mark.parametrize(("name", "value"), [(name, value) for name, values in BAD.items() for value in values])
def test_dp_sgd_validates_itself(name, value):
    with pytest.raises(ValueError, match=rf"{name} must be .*: got {name}="):
        PoissonSubsampledGaussian(**{"noise_multiplier": 1, "sampling_rate": 0.1, "steps": 10, name: value})
