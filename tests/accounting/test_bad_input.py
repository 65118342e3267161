"""Every bound and mechanism under absurd input: a clear error or the documented limit, never nan, never a warning."""

import warnings

import numpy as np
import pytest

from explorer.accounting import (
    AdaptiveCompositionBound,
    AMPBound,
    ApproximateMinimaPerturbation,
    CompositionBound,
    Gaussian,
    ObjectivePerturbation,
    Poisson,
    PoissonSubsampledGaussian,
    RefinedBound,
    RenyiBound,
    SelectionCorollaryBound,
    SelectionProfileBound,
    SelectionRenyiBound,
    TruncatedNegativeBinomial,
    bounds,
)

MECHANISM = {"noise_std": 5, "l2_reg": 20, "lipschitz": 1, "smoothness": 1}
SGD = PoissonSubsampledGaussian(noise_multiplier=1.2, sampling_rate=0.03, steps=100)
RUNS = Poisson(mean=15.4)

EVERY_BOUND = {
    **{bound.__name__: lambda bound=bound: bound(ObjectivePerturbation(**MECHANISM)) for bound in bounds},
    "monotone": lambda: bounds[4](ObjectivePerturbation(**MECHANISM, monotone_loss=True)),
    "Algorithm 1": lambda: RenyiBound(ApproximateMinimaPerturbation(**MECHANISM, gradient_tol=0.1, output_noise_std=1)),
    **{
        f"Algorithm 1, {bound.__name__}": lambda bound=bound: AMPBound(
            ApproximateMinimaPerturbation(**MECHANISM, gradient_tol=0.1, output_noise_std=1), bound=bound, accuracy=0.01
        )
        for bound in bounds[:5]
        if bound is not RenyiBound
    },
    "Algorithm 1, monotone": lambda: AMPBound(
        ApproximateMinimaPerturbation(**MECHANISM, gradient_tol=0.1, output_noise_std=1, monotone_loss=True),
        bound=RefinedBound,
    ),
    "composed": lambda: CompositionBound(ObjectivePerturbation(**MECHANISM), uses=10),
    "adaptive": lambda: AdaptiveCompositionBound(ObjectivePerturbation(**MECHANISM), uses=2, width=0.05),
    "DP-SGD, Renyi": lambda: RenyiBound(SGD),
    "DP-SGD, distribution": lambda: CompositionBound(SGD),
    "tuned, Renyi": lambda: SelectionRenyiBound(SGD, runs=RUNS),
    "tuned, profile": lambda: SelectionProfileBound(CompositionBound(SGD), runs=RUNS),
    "tuned, corollary": lambda: SelectionCorollaryBound(CompositionBound(SGD), runs=RUNS),
}

HUGE = 10**400
NO_NUMBER = ["x", None, 1j, True, [1.0, np.nan], np.nan, HUGE, -HUGE]
EPSILON = [
    0,
    -0.0,
    3,
    np.int64(3),
    np.float32(0.5),
    np.inf,
    -np.inf,
    1e308,
    -1e308,
    5e-324,
    -1e-300,
    [],
    [[]],
    [0, 1, 2],
]
DELTA = [5e-324, 1e-300, 0.5, 1 - 1e-16, [], [1e-5, 0.1]]
ALPHA = [1, 1 + 1e-15, 2, 1e6, 1e308, np.inf, [], [1.5, 8]]


@pytest.mark.parametrize("name", EVERY_BOUND)
def test_bounds(name):
    bound = EVERY_BOUND[name]()
    questions = [(ask, EPSILON, []) for ask in (bound.log_delta, bound.delta)]
    questions.append((bound.epsilon, DELTA, [0, 1, -1, 2, np.inf]))
    if hasattr(bound, "rdp"):
        questions.append((bound.rdp, ALPHA, [0, -1, 0.5, -np.inf]))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for ask, good, bad in questions:
            for value in good:
                answer = ask(value)
                assert np.shape(answer) == np.shape(value)
                assert not np.isnan(answer).any(), (ask, value)
            for value in NO_NUMBER + bad:
                with pytest.raises(ValueError, match=r"must be .*: got (epsilon|delta|alpha)="):
                    ask(value)
        assert bound.log_delta(-np.inf) == 0
        assert (np.asarray(bound.log_delta([0.0, 1.0, 1e3])) <= 0).all()
        assert bound.log_delta(np.inf) <= bound.log_delta(1e3)  # a distribution has a floor: its mass at infinity


@pytest.mark.parametrize(
    ("kind", "good"),
    [
        (ObjectivePerturbation, MECHANISM),
        (ApproximateMinimaPerturbation, {**MECHANISM, "gradient_tol": 0.1, "output_noise_std": 1}),
        (Gaussian, {"noise_std": 1, "sensitivity": 1}),
        (PoissonSubsampledGaussian, {"noise_multiplier": 1.0, "sampling_rate": 0.1, "steps": 5}),
        (Poisson, {"mean": 1.0}),
        (TruncatedNegativeBinomial, {"eta": 1.0, "gamma": 0.1}),
    ],
    ids=lambda x: getattr(x, "__name__", ""),
)
def test_mechanisms(kind, good):
    kind(**good)
    for name in good:
        for bad in [-1, np.inf, -np.inf, [], [1], *NO_NUMBER]:
            with pytest.raises(ValueError, match=rf"{name} must be .*: got {name}="):
                kind(**{**good, name: bad})
