"""What a fit claims, held against the exact densities of what it releases, at every scale of the data.

With rows of norm up to q the gradient of one record is bounded by L = q and its Hessian by beta = q^2 / 4 (logistic):
an estimator that scales either wrongly claims too little for some q, and the densities show it.
"""

from dataclasses import replace

import numpy as np
import pytest

from explorer.accounting import HockeyStickBound, RefinedBound
from explorer.learning import AMPClassifier, ClippedLoss, Logistic
from explorer.learning.densities import log_density, log_hockey_stick

EPSILONS = np.array([0.0, 0.25, 0.5, 1.0, 1.5])


def mechanism_of(data_norm, **parameters):
    """The mechanism that a one-feature fit without intercept reports, and the fitted estimator's data."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, size=(40, 1)) * data_norm  # some rows are longer than data_norm
    y = np.where(X[:, 0] + rng.normal(size=40) * data_norm > 0, 1, 0)
    tau = 1e-3 * data_norm
    model = AMPClassifier(data_norm=data_norm, fit_intercept=False, gradient_tol=tau, random_state=0, **parameters)
    return model.fit(X, y).privacy_.mechanism


def worst_log_delta(mechanism, *, x, records, loss=None):
    """The larger of both directions' log delta at EPSILONS when (x, +-1) joins `records`."""
    loss = Logistic() if loss is None else loss
    setting = {"loss": loss, "l2_reg": mechanism.l2_reg, "noise_std": mechanism.noise_std}
    width = (12 * mechanism.noise_std + 2 * abs(x) * (1 + len(records))) / mechanism.l2_reg
    theta = np.linspace(-width, width, 20_001)
    without = log_density(theta, records=records, **setting)
    worst = np.full(EPSILONS.shape, -np.inf)
    for y in (-1.0, 1.0):
        joined = log_density(theta, records=[*records, (x, y)], **setting)
        for pair in ((without, joined), (joined, without)):
            worst = np.maximum(worst, [log_hockey_stick(e, theta, *pair) for e in EPSILONS])
    return worst


@pytest.mark.parametrize("records", [[], [(0.3, 1.0)], [(-1.0, 1.0), (0.7, -1.0)]])
@pytest.mark.parametrize("data_norm", [0.5, 1.0, 10.0, 100.0])
def test_claimed_profile_covers_the_exact_densities(data_norm, records):
    mechanism = mechanism_of(data_norm)
    reserve = 1 + 2**-30  # for the rounding of norms
    assert mechanism.lipschitz == pytest.approx(data_norm * reserve, rel=1e-12)
    assert mechanism.smoothness == pytest.approx((data_norm * reserve) ** 2 / 4, rel=1e-12)
    scaled = [(x * data_norm, y) for x, y in records]
    measured = worst_log_delta(mechanism, x=data_norm, records=scaled)
    objective = mechanism.objective
    assert (measured <= RefinedBound(objective).log_delta(EPSILONS) + 1e-6).all()
    assert (measured <= HockeyStickBound(objective).log_delta(EPSILONS) + 1e-6).all()


@pytest.mark.parametrize("data_norm", [0.5, 10.0])
def test_the_audit_would_notice_a_wrong_scale(data_norm):
    """Claims for L / 1.5, or for beta = 0 where curvature matters, lie below what the densities show."""
    mechanism = mechanism_of(data_norm)
    measured = worst_log_delta(mechanism, x=data_norm, records=[])
    smaller = replace(mechanism.objective, lipschitz=mechanism.lipschitz / 1.5)
    assert (measured > RefinedBound(smaller).log_delta(EPSILONS)).any()
    little_curvature = replace(mechanism, l2_reg=mechanism.smoothness / 4)
    flat = replace(little_curvature.objective, smoothness=mechanism.smoothness * 1e-6)
    measured = worst_log_delta(little_curvature, x=data_norm, records=[])
    assert (measured <= RefinedBound(little_curvature.objective).log_delta(EPSILONS) + 1e-6).all()
    assert (measured > RefinedBound(flat).log_delta(EPSILONS)).any()


def test_clipped_gradients_are_worth_their_sensitivity():
    """Records ten times as long as clipping allows: the densities of the clipped loss stay within the claim for C."""
    mechanism = mechanism_of(10.0, clip_norm=1.0)
    assert mechanism.lipschitz == 1 + 2**-30
    clipped = ClippedLoss(Logistic(), clip_norm=1.0, row_norms=np.array(10.0))
    measured = worst_log_delta(mechanism, x=10.0, records=[], loss=clipped)
    assert (measured <= RefinedBound(mechanism.objective).log_delta(EPSILONS) + 1e-6).all()
    unclipped = worst_log_delta(mechanism, x=10.0, records=[])
    assert (unclipped > HockeyStickBound(mechanism.objective).log_delta(EPSILONS)).any()
