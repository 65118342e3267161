"""Calibrated parameters: the reference table, never less private than asked, and honest refusals."""

from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from explorer.accounting import (
    BoundNotApplicable,
    GaussianLowerBound,
    HockeyStickBound,
    InfeasibleTarget,
    ObjectivePerturbation,
    RenyiBound,
    calibrate,
    calibrate_amp,
    calibrate_gaussian,
)
from tests.accounting.strategies import log_uniform

UNIT_ROWS_WITH_CONSTANT = {"lipschitz": np.sqrt(2), "smoothness": 0.5, "output_noise_std": 0.15}


def test_paper_rule_reproduces_the_reference_table(experiments_reference):
    for epsilon, sigma, *regs in experiments_reference["algorithm_1_calibration_rdp_f1.3"]["rows"]:
        for gradient_tol, l2_reg in zip((0.01, 0.0005), regs, strict=True):
            got = calibrate_amp(epsilon=epsilon, delta=1e-5, gradient_tol=gradient_tol, **UNIT_ROWS_WITH_CONSTANT)
            assert got.mechanism.noise_std == pytest.approx(sigma, rel=1e-5)
            assert got.value == pytest.approx(l2_reg, rel=1e-5)
            assert got.delta <= 1e-5


def test_reference_gaussian_noise(experiments_reference):
    for epsilon, sigma in experiments_reference["sigma_gaussian"].items():
        got = calibrate_gaussian(epsilon=float(epsilon), delta=1e-5, sensitivity=np.sqrt(2))
        assert got.value == pytest.approx(sigma, rel=1e-5)


@pytest.mark.parametrize("bound", [HockeyStickBound, RenyiBound])
@given(
    parameter=st.sampled_from(["noise_std", "l2_reg"]),
    epsilon=log_uniform(1e-3, 1e3),
    delta=log_uniform(1e-10, 1e-2),
)
def test_never_less_private_than_asked_and_not_more_than_needed(bound, parameter, epsilon, delta):
    # what is held fixed leaves room for the other: s far below, kappa far below what epsilon needs
    fixed = {"lipschitz": 1.0, "smoothness": 1.0}
    if parameter == "noise_std":
        fixed["l2_reg"] = 1 + 10 / epsilon
    else:
        fixed["noise_std"] = 2 * calibrate_gaussian(epsilon=epsilon, delta=delta / 4).value
    got = calibrate(bound, partial(ObjectivePerturbation, **fixed), parameter=parameter, epsilon=epsilon, delta=delta)
    assert got.bound.log_delta(epsilon) <= np.log(delta)
    assert got.delta <= delta
    hair = ObjectivePerturbation(**fixed, **{parameter: got.value * (1 - 1e-9)})
    try:
        assert bound(hair).log_delta(epsilon) > np.log(delta)
    except BoundNotApplicable:  # the target was so weak that the theorem's own condition is what binds
        assert hair.l2_reg <= hair.smoothness < got.value


def test_infeasible_target_says_what_stands_in_the_way():
    with pytest.raises(
        InfeasibleTarget, match=r"no l2_reg up to 1e\+30 reaches epsilon=1.0, delta=1e-05.*noise_std=3.73"
    ):
        calibrate_amp(
            epsilon=1.0, delta=1e-5, f=1.0, gradient_tol=0.01, output_noise_std=0.15, lipschitz=1, smoothness=1
        )


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ({"epsilon": -1}, "epsilon must be a finite number >= 0: got epsilon=-1"),
        ({"epsilon": np.nan}, "epsilon must be a finite number >= 0: got epsilon=nan"),
        ({"delta": 0}, r"delta must be inside \(0, 1\): got delta=0"),
        ({"delta": [1e-5, 1e-6]}, "delta must be a single number"),
        ({"sensitivity": 0}, "sensitivity must be a finite number > 0: got sensitivity=0"),
    ],
)
def test_bad_targets(bad, message):
    with pytest.raises(ValueError, match=message):
        calibrate_gaussian(**{"epsilon": 1.0, "delta": 1e-5, **bad})


def test_lower_bound_needs_less_noise_than_any_guarantee():
    family = partial(ObjectivePerturbation, l2_reg=50.0, lipschitz=1.0, smoothness=1.0)
    target = {"parameter": "noise_std", "epsilon": 0.5, "delta": 1e-6}
    noise = [calibrate(bound, family, **target).value for bound in (GaussianLowerBound, HockeyStickBound, RenyiBound)]
    assert noise == sorted(noise)
