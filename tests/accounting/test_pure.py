"""Pure epsilon against the definition of randomised response, Laplace densities and its own inverse."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.stats import laplace

from explorer.accounting import (
    GammaNoise,
    Gaussian,
    OutputPerturbation,
    PrivacyBound,
    PureBound,
    PureObjectivePerturbation,
    PureOutputPerturbation,
    TreeAggregation,
)
from tests.accounting.strategies import log_uniform

OBJECTIVE = {"l2_reg": 20.0, "lipschitz": 1.5, "smoothness": 0.5, "gradient_tol": 0.01}


@pytest.mark.parametrize("largest", [1e-6, 0.1, 1.0, 8.0, 40.0])
def test_profile_is_that_of_randomised_response(largest):
    bound = PureBound(GammaNoise(noise_scale=1 / largest))
    assert isinstance(bound, PrivacyBound)
    truth, lie = 1 / (1 + np.exp(-largest)), 1 / (1 + np.exp(largest))
    epsilon = largest * np.linspace(-2, 2, 41)
    delta = np.maximum(truth - np.exp(epsilon) * lie, 0) + np.maximum(lie - np.exp(epsilon) * truth, 0)
    np.testing.assert_allclose(bound.delta(epsilon), delta, rtol=1e-8, atol=1e-15)
    assert (bound.log_delta([largest, 2 * largest, np.inf]) == -np.inf).all()
    assert bound.log_delta(-np.inf) == 0


@given(largest=log_uniform(1e-4, 100), delta=log_uniform(1e-14, 0.999))
def test_epsilon_is_the_smallest_that_grants_delta(largest, delta):
    bound = PureBound(GammaNoise(noise_scale=1 / largest))
    epsilon = bound.epsilon(delta)
    assert bound.delta(epsilon) <= delta * (1 + 1e-12)
    assert epsilon == 0 or bound.delta(epsilon - 1e-7 * (largest + delta)) > delta


def test_no_delta_at_epsilon_zero_of_the_mechanism():
    bound = PureBound(GammaNoise(noise_scale=2.0, sensitivity=3.0), uses=4)
    assert bound.epsilon(0) == bound.pure_epsilon == 6.0
    np.testing.assert_array_less(bound.epsilon([0.1, 0.5]), 6.0)
    with pytest.raises(ValueError, match=r"delta must be inside \[0, 1\): got delta=1.0"):
        bound.epsilon(1.0)


@pytest.mark.parametrize("epsilon", [-0.5, 0.0, 0.3, 0.69])
def test_covers_laplace_noise(epsilon):
    """One dimension, where Gamma-norm noise is Laplace's: the integral of (p - e^epsilon q)_+ lies below."""
    p, q = laplace(scale=1 / 0.7).pdf, laplace(loc=1.0, scale=1 / 0.7).pdf
    exact = quad(lambda x: max(p(x) - np.exp(epsilon) * q(x), 0), -40, 40, points=(0, 1), limit=400)[0]
    granted = PureBound(GammaNoise(noise_scale=1 / 0.7)).delta(epsilon)
    assert granted / 3 < exact <= granted + 1e-9


def test_what_each_mechanism_costs():
    output = PureOutputPerturbation(noise_scale=0.3, l2_reg=20.0, lipschitz=1.5, gradient_tol=0.01)
    assert PureBound(output).pure_epsilon == pytest.approx((1.5 + 0.02) / 20 / 0.3, rel=1e-15)
    objective = PureObjectivePerturbation(noise_scale=2.0, output_noise_scale=0.1, **OBJECTIVE)
    cost = 1.5 / 2 + np.log(1 + 0.5 / 20) + 0.02 / 20 / 0.1
    assert PureBound(objective).pure_epsilon == pytest.approx(cost, rel=1e-15)
    with pytest.raises(TypeError, match="no pure epsilon: got mechanism=Gaussian"):
        PureBound(Gaussian(noise_std=1.0))


@given(st.integers(1, 300), st.integers(1, 9))
def test_a_tree_is_one_gaussian_mechanism(steps, epochs):
    """Count, leaf by leaf, the complete nodes [a 2^k, (a+1) 2^k) that hold it."""
    nodes = [range(a << k, (a + 1) << k) for k in range(steps.bit_length()) for a in range(steps >> k)]
    times = [sum(leaf in node for node in nodes) for leaf in (0, steps // 2, steps - 1)]
    tree = TreeAggregation(noise_std=2.0, lipschitz=3.0, steps=steps, epochs=epochs)
    assert times[0] == max(times) == tree.height
    assert tree.gaussian == Gaussian(noise_std=2.0, sensitivity=3.0 * np.sqrt(epochs * tree.height))


@pytest.mark.parametrize(
    ("kind", "good"),
    [
        (GammaNoise, {"noise_scale": 1.0, "sensitivity": 1.0}),
        (OutputPerturbation, {"noise_std": 1.0, "l2_reg": 1.0, "lipschitz": 1.0, "gradient_tol": 0.1}),
        (PureOutputPerturbation, {"noise_scale": 1.0, "l2_reg": 1.0, "lipschitz": 1.0, "gradient_tol": 0.1}),
        (PureObjectivePerturbation, {"noise_scale": 1.0, "output_noise_scale": 1.0, **OBJECTIVE}),
        (TreeAggregation, {"noise_std": 1.0, "lipschitz": 1.0, "steps": 4, "epochs": 2}),
    ],
    ids=lambda x: getattr(x, "__name__", ""),
)
def test_mechanisms_validate_themselves(kind, good):
    kind(**good)
    for name in good:
        for bad in (0, -1, np.inf, np.nan, [], "x", None, True):
            with pytest.raises(ValueError, match=rf"{name} must be .*: got {name}="):
                kind(**{**good, name: bad})
