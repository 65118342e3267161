"""Each method is calibrated to the reference values, and reports what it releases."""

from functools import partial

import numpy as np
import pytest

from explorer.accounting import AMPBound, ApproximateMinimaPerturbation, ExactBound, calibrate_gaussian
from explorer.study import EPSILONS, LEARNING_RATES, Cell, grid, run_cell
from explorer.study.methods import _ACCOUNTANTS, _CachedBound


def outcome(method, epsilon, *, dataset="breast_cancer", learning_rate=None):
    cell = Cell(dataset=dataset, method=method, epsilon=epsilon, delta=1e-5, trial=0, learning_rate=learning_rate)
    result = run_cell(cell)
    assert "error" not in result, result
    return result


@pytest.fixture(scope="module")
def by_accounting():
    """Algorithm 1 at epsilon = 1 by each accounting; its parameters do not depend on the data."""
    names = ("amp_rdp", "amp_hockey_stick", "amp_exact", "amp_exact_noise", "amp_exact_risk")
    return {name: outcome(name, 1.0) for name in names}


def test_the_papers_accounting_has_the_reference_parameters(experiments_reference):
    rows = experiments_reference["algorithm_1_calibration_rdp_f1.3"]["rows"]
    assert [row[0] for row in rows] == list(EPSILONS)
    for epsilon, sigma, l2_reg, _ in rows:
        result = outcome("amp_rdp", epsilon)
        assert result["noise_std"] == pytest.approx(sigma, rel=1e-5)
        assert result["l2_reg"] == pytest.approx(l2_reg, rel=1e-5)


def test_a_tighter_accounting_needs_less_regularisation(by_accounting):
    renyi, stick, tight = (by_accounting[name] for name in ("amp_rdp", "amp_hockey_stick", "amp_exact"))
    assert renyi["noise_std"] == stick["noise_std"] == tight["noise_std"]
    assert renyi["l2_reg"] > stick["l2_reg"] > tight["l2_reg"] > 0


@pytest.mark.parametrize("method", ["amp_exact", "amp_exact_noise", "amp_exact_risk"])
def test_the_exact_bound_guarantees_what_it_calibrated(by_accounting, method):
    mechanism = ApproximateMinimaPerturbation(
        noise_std=by_accounting[method]["noise_std"],
        l2_reg=by_accounting[method]["l2_reg"],
        lipschitz=np.sqrt(2),
        smoothness=0.5,
        gradient_tol=0.01,
        output_noise_std=0.15,
        monotone_loss=True,
    )
    delta = AMPBound(mechanism, bound=ExactBound, accuracy=1e-3).delta(1.0)  # as it was calibrated
    assert 0.998e-5 < delta <= 1e-5


@pytest.mark.parametrize("method", ["amp_exact_noise", "amp_exact_risk"])
def test_exact_accounting_needs_little_more_than_the_gaussian_noise(by_accounting, method):
    gaussian = calibrate_gaussian(epsilon=1, delta=1e-5, sensitivity=np.sqrt(2)).value
    assert gaussian < by_accounting[method]["noise_std"] < 1.05 * gaussian
    assert by_accounting["amp_exact_noise"]["l2_reg"] == pytest.approx(by_accounting["amp_rdp"]["l2_reg"])


def test_risk_parameters_depend_on_the_numbers_of_records_and_features_only():
    first, second = (
        run_cell(Cell(dataset="breast_cancer", method="amp_exact_risk", epsilon=1.0, delta=1e-5, trial=trial))
        for trial in (0, 1)
    )
    assert first["l2_reg"] == second["l2_reg"]
    assert outcome("amp_exact_risk", 1.0, dataset="synthetic_l")["l2_reg"] != first["l2_reg"]


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 8.0])
def test_dp_sgd_has_the_reference_noise(experiments_reference, epsilon):
    reference = experiments_reference["dp_sgd_noise_multiplier_integer_orders_2_256"]["synthetic_l"]["dishonest"]
    result = outcome("dp_sgd_dishonest", epsilon, dataset="synthetic_l", learning_rate=1e-2)
    assert result["noise_multiplier"] == pytest.approx(reference[f"{epsilon:g}"], rel=1e-5)
    assert result["accuracy"] > 0.7


def test_honest_selection_has_the_reference_noise(experiments_reference):
    reference = experiments_reference["dp_sgd_noise_multiplier_integer_orders_2_256"]["synthetic_l"]["honest"]
    result = outcome("dp_sgd_honest_rdp", 1.0, dataset="synthetic_l")
    assert result["noise_multiplier"] == pytest.approx(reference["1"], rel=1e-5)
    assert result["learning_rate"] in LEARNING_RATES
    assert result["accuracy"] > 0.9


def test_honest_selection_is_possible_at_the_smallest_epsilon():
    assert min(EPSILONS) == 0.025
    assert outcome("dp_sgd_honest_rdp", 0.025)["noise_multiplier"] > 100


def test_profiles_ask_less_noise_of_an_honest_selection():
    renyi, profile = (outcome(f"dp_sgd_honest_{name}", 8.0) for name in ("rdp", "profile"))
    assert profile["noise_multiplier"] < renyi["noise_multiplier"]


def test_output_perturbation_and_the_fit_without_privacy():
    private, plain = (
        run_cell(cell)
        for cell in grid(
            dataset=["breast_cancer"], method=["output_perturbation", "non_private"], epsilon=[1], trials=1
        )
    )
    assert private["noise_std"] == pytest.approx(0.15)
    assert plain["accuracy"] > 0.95
    assert 1e-4 <= plain["l2_reg"] <= 10


@pytest.mark.parametrize("name", ["renyi", "hockey_stick", "exact"])
def test_cached_answers_equal_those_of_the_bound(name):
    mechanism = ApproximateMinimaPerturbation(
        noise_std=7, l2_reg=4, lipschitz=1.4, smoothness=0.5, gradient_tol=0.01, output_noise_std=0.15
    )
    epsilon = np.array([[0.5, 1.0], [2.0, 1.0]])
    bound = partial(_CachedBound, name)(mechanism)
    np.testing.assert_allclose(bound.log_delta(epsilon), _ACCOUNTANTS[name](mechanism).log_delta(epsilon), rtol=1e-9)
    assert isinstance(bound.log_delta(1.0), float)
