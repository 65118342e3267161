"""Calibrated parameters: the reference table, never less private than asked, and honest refusals."""

import pickle
from dataclasses import replace
from functools import partial
from unittest.mock import ANY

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from explorer.accounting import (
    BoundNotApplicable,
    ExactBound,
    GaussianLowerBound,
    HockeyStickBound,
    InfeasibleTarget,
    KiferBound,
    ObjectivePerturbation,
    PoissonSubsampledGaussian,
    ProfileBound,
    RenyiBound,
    bounds,
    calibrate,
    calibrate_amp,
    calibrate_gaussian,
    frontier,
)
from tests.accounting.strategies import log_uniform

UNIT_ROWS_WITH_CONSTANT = {"lipschitz": np.sqrt(2), "smoothness": 0.5, "output_noise_std": 0.15}
AT_EPSILON_1 = partial(calibrate_amp, epsilon=1.0, delta=1e-5, gradient_tol=0.01, **UNIT_ROWS_WITH_CONSTANT)


def test_paper_rule_reproduces_the_reference_table(experiments_reference):
    for epsilon, sigma, *regs in experiments_reference["algorithm_1_calibration_rdp_f1.3"]["rows"]:
        for gradient_tol, l2_reg in zip((0.01, 0.0005), regs, strict=True):
            setting = {"gradient_tol": gradient_tol, **UNIT_ROWS_WITH_CONSTANT}
            got = calibrate_amp(epsilon=epsilon, delta=1e-5, **setting, bound=RenyiBound)
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


def test_infeasible_f_is_answered_with_the_f_that_would_do():
    ask = partial(AT_EPSILON_1, bound=RenyiBound)
    with pytest.raises(
        InfeasibleTarget, match=r"f must exceed 1\.12478: got f=1\.0; no l2_reg up to 1e\+30"
    ) as refusal:
        ask(f=1.0)
    needed = refusal.value.needed["f"]
    assert ask(f=needed * (1 + 1e-6)).delta <= 1e-5
    with pytest.raises(InfeasibleTarget):
        ask(f=needed * (1 - 1e-6))


@pytest.mark.parametrize("epsilon", [0.025, 0.1, 1.0, 8.0])
def test_tighter_accountants_ask_for_less_regularisation(epsilon):
    ask = partial(AT_EPSILON_1, epsilon=epsilon)
    found = [ask(bound=name) for name in ("renyi", "hockey_stick", "refined")]
    assert found[0].value > found[1].value > found[2].value
    for calibration in found:
        assert 1e-5 * (1 - 1e-8) <= calibration.delta <= 1e-5
    assert ask() == replace(found[1], bound=ANY)  # the default


def test_noise_at_a_given_l2_reg():
    for name in ("renyi", "hockey_stick", "refined"):
        regularised = AT_EPSILON_1(bound=name)
        got = AT_EPSILON_1(bound=name, l2_reg=regularised.value, f=np.nan)  # f plays no part
        assert got.parameter == "noise_std"
        assert got.mechanism.l2_reg == regularised.value
        assert got.value == pytest.approx(regularised.mechanism.noise_std, rel=1e-8)
        assert 1e-5 * (1 - 1e-8) <= got.delta <= 1e-5


def test_a_given_l2_reg_that_is_too_small():
    with pytest.raises(
        InfeasibleTarget, match=r"l2_reg must exceed smoothness.*l2_reg=0\.4.*needs only l2_reg > 0"
    ) as no:
        AT_EPSILON_1(l2_reg=0.4)
    assert AT_EPSILON_1(l2_reg=no.value.needed["l2_reg"] * (1 + 1e-6)).delta <= 1e-5
    with pytest.raises(InfeasibleTarget, match=r"no noise_std up to 1e\+30.*l2_reg must exceed") as no:
        AT_EPSILON_1(l2_reg=0.4, bound="refined")
    assert AT_EPSILON_1(l2_reg=no.value.needed["l2_reg"] * (1 + 1e-6), bound="refined").delta <= 1e-5
    with pytest.raises(ValueError, match="l2_reg must be a finite number > 0: got l2_reg=-1"):
        AT_EPSILON_1(l2_reg=-1)


@pytest.mark.parametrize("bound", [RenyiBound, HockeyStickBound])
def test_several_uses_share_the_target(bound):
    got = AT_EPSILON_1(uses=3, l2_reg=10.0, bound=bound)
    assert got.bound.uses == 3
    assert got.bound.delta(1.0) == pytest.approx(1e-5)
    assert got.value > np.sqrt(3) * AT_EPSILON_1(l2_reg=10.0, bound=bound).value
    sigma_g = calibrate_gaussian(epsilon=1.0, delta=1e-5, sensitivity=np.sqrt(2 * 3)).value
    by_rule = AT_EPSILON_1(uses=3, f=2.0, bound=RenyiBound)
    assert by_rule.mechanism.noise_std == pytest.approx(2 * sigma_g, rel=1e-12)
    assert by_rule.delta <= 1e-5
    with pytest.raises(ValueError, match="uses must be an integer >= 1: got uses=0"):
        AT_EPSILON_1(uses=0)


def test_no_calibration_by_a_lower_bound():
    with pytest.raises(ValueError, match="bound must be an upper bound: got bound=GaussianLowerBound"):
        AT_EPSILON_1(bound=GaussianLowerBound)
    with pytest.raises(ValueError, match=r"bound must be a bound or one of .*: got bound='attained'"):
        AT_EPSILON_1(bound="attained")


def test_infeasible_noise_is_answered_with_the_l2_reg_that_would_do():
    family = partial(ObjectivePerturbation, l2_reg=2.0, lipschitz=1.0, smoothness=1.0)
    ask = {"parameter": "noise_std", "epsilon": 0.1, "delta": 1e-5}
    with pytest.raises(InfeasibleTarget, match=r"no noise_std up to 1e\+30.*l2_reg must exceed 10\.5") as refusal:
        calibrate(HockeyStickBound, family, **ask)
    needed = refusal.value.needed["l2_reg"]
    assert needed == pytest.approx(1 / -np.expm1(-0.1), rel=1e-3)  # -log(1 - beta/lambda) alone eats epsilon
    enough = partial(family, l2_reg=1.01 * needed)
    assert calibrate(HockeyStickBound, enough, **ask).delta <= 1e-5


@pytest.mark.parametrize("bound", bounds, ids=lambda b: b.__name__)
@pytest.mark.parametrize("epsilon", [0.001, 0.1, 1.0, 30.0, 1000.0])
def test_every_bound_calibrates_over_the_whole_range(bound, epsilon):
    family = partial(ObjectivePerturbation, l2_reg=1 + 3 / epsilon, lipschitz=1.0, smoothness=1.0)
    got = calibrate(bound, family, parameter="noise_std", epsilon=epsilon, delta=1e-5)
    assert 1e-5 * (1 - 1e-9) <= got.delta <= 1e-5
    hair = bound(family(noise_std=got.value * (1 - 1e-7)))
    assert hair.delta(epsilon) > 1e-5


def test_the_private_side_of_a_root_below_one():
    """The search runs in the logarithm, which is negative here; a step towards privacy must still go up."""
    epsilon, delta = float(np.exp(6.67578125)), float(np.exp(-23))
    family = partial(ObjectivePerturbation, l2_reg=1 + 10 / epsilon, lipschitz=1.0, smoothness=1.0)
    got = calibrate(HockeyStickBound, family, parameter="noise_std", epsilon=epsilon, delta=delta)
    assert 0.029 < got.value < 0.03
    assert delta * (1 - 1e-9) <= got.delta <= delta


def test_frontier_is_a_falling_curve_behind_a_wall():
    family = partial(ObjectivePerturbation, lipschitz=1.0, smoothness=1.0)
    target = {"epsilon": 1.0, "delta": 1e-5}
    noise = np.array([[3.0, 4.0, 5.0], [8.0, 20.0, 100.0]])
    curve = frontier(HockeyStickBound, family, noise_std=noise, **target)
    assert curve.shape == noise.shape
    assert curve[0, 0] == np.inf  # below sigma_G = 3.73 nothing helps
    assert (np.diff(curve.ravel()[1:]) < 0).all()
    for sigma, l2_reg in zip(noise.ravel()[1:], curve.ravel()[1:], strict=True):
        assert HockeyStickBound(family(noise_std=sigma, l2_reg=l2_reg)).delta(1.0) <= 1e-5
        assert HockeyStickBound(family(noise_std=sigma, l2_reg=l2_reg * (1 - 1e-6))).delta(1.0) > 1e-5
    tighter = frontier(ExactBound, family, noise_std=noise.ravel()[1:], **target)
    assert (tighter <= curve.ravel()[1:]).all()
    with pytest.raises(ValueError, match="noise_std must be > 0: got noise_std=-1"):
        frontier(HockeyStickBound, family, noise_std=-1, **target)


@pytest.mark.parametrize("bound", [HockeyStickBound, RenyiBound])
def test_a_coarse_frontier_is_private_and_as_near_as_it_says(bound):
    family, target = partial(ObjectivePerturbation, lipschitz=1.0, smoothness=1.0), {"epsilon": 0.7, "delta": 1e-6}
    noise = np.array([7.0, 30.0, 9.0, 100.0, 8.0])  # in no order
    calls = []
    counted = lambda mechanism: calls.append(mechanism) or bound(mechanism)  # noqa: E731
    coarse = frontier(counted, family, noise_std=noise, tolerance=1e-3, **target)
    assert len(calls) < 15 * len(noise)
    exact = [calibrate(bound, partial(family, noise_std=sigma), parameter="l2_reg", **target).value for sigma in noise]
    assert (coarse >= np.multiply(exact, 1 - 1e-9)).all()
    np.testing.assert_allclose(coarse, exact, rtol=1.01e-3)
    for sigma, l2_reg in zip(noise, coarse, strict=True):
        assert bound(family(noise_std=sigma, l2_reg=l2_reg)).delta(0.7) <= 1e-6
    with pytest.raises(ValueError, match="tolerance must be a finite number > 0: got tolerance=0"):
        frontier(bound, family, noise_std=noise, tolerance=0, **target)


def test_noise_multiplier_of_dp_sgd(experiments_reference):
    bound = partial(RenyiBound, orders=range(2, 257))
    for data in experiments_reference["dp_sgd_noise_multiplier_integer_orders_2_256"].values():
        family = partial(PoissonSubsampledGaussian, sampling_rate=data["sampling_rate"], steps=data["steps"])
        for epsilon, expected in data["dishonest"].items():
            got = calibrate(bound, family, parameter="noise_multiplier", epsilon=float(epsilon), delta=1e-5)
            assert got.value == pytest.approx(expected, rel=1e-5)
            assert got.bound.epsilon(1e-5) <= float(epsilon) * (1 + 1e-12)


class BestOfTwo(ProfileBound):
    """A bound that a user might write: at every epsilon the better of two proofs."""

    def __init__(self, mechanism):
        self.parts = KiferBound(mechanism), HockeyStickBound(mechanism)

    def log_delta(self, epsilon):
        return np.minimum(*(part.log_delta(epsilon) for part in self.parts))


def test_a_users_own_bound_calibrates():
    family = partial(ObjectivePerturbation, l2_reg=1.5, lipschitz=1.0, smoothness=1.0)
    ask = {"parameter": "noise_std", "epsilon": 1.35, "delta": 1e-5}
    noise = {kind: calibrate(kind, family, **ask).value for kind in (KiferBound, HockeyStickBound, BestOfTwo)}
    assert noise[BestOfTwo] == pytest.approx(min(noise[KiferBound], noise[HockeyStickBound]))


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


def test_a_refusal_comes_back_from_another_process():
    refusal = pickle.loads(pickle.dumps(InfeasibleTarget("f must exceed 2", {"f": 2.0})))
    assert (str(refusal), refusal.needed) == ("f must exceed 2", {"f": 2.0})
