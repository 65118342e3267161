"""The compared methods: from a dataset, a privacy target and a seed to the accuracy on the test records.

All minimise the logistic loss on rows of unit norm and a constant column, so C = L = sqrt(2) and beta = 1/2. All other
parameters are fixed here, the same for all datasets and chosen without the test records, except DP-SGD's learning rate:
as in the paper, it is chosen by accuracy on the *test* records, which favours both DP-SGD variants.

- Algorithm 1: tau = 0.01, sigma_out = 0.15, sigma = f sigma_G with f = 1.3 and the smallest lambda that the accounting
  allows. Two variants use another lambda and the smallest sigma that exact accounting allows: "amp_exact_noise" the
  lambda of "amp_rdp", "amp_exact_risk" that of the excess-risk bound, where |theta*| = 10 is assumed for all datasets
  and the number of records is public.
- DP-SGD: Adam, 60 epochs of Poisson samples of 256 records on average, ten learning rates, equally spaced in their
  logarithm. Dishonest: every rate is a separate cell with the privacy of one fit, and the summary takes the best of a
  trial. Honest: K ~ Poisson with Pr[K > 10] = 0.9 runs, each with a rate drawn at random, all accounted for.
- Output perturbation: lambda by the learner's rule, which gives each released coefficient noise of standard deviation
  0.15.
- Non-private: scikit-learn's logistic regression, C by cross-validation on the training records.

References: Redberg, Koskela & Wang 2023, Section 5.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV

from explorer.accounting import (
    AMPBound,
    ApproximateMinimaPerturbation,
    CompositionBound,
    ProfileBound,
    RefinedBound,
    RenyiBound,
    SelectionProfileBound,
    SelectionRenyiBound,
    amp_accountant,
    calibrate_amp,
)
from explorer.learning import (
    AMPClassifier,
    DPSGDClassifier,
    HonestSelection,
    OutputPerturbationClassifier,
    best_private_parameters,
)
from explorer.vocabulary import METHODS as TERMS

LEARNING_RATES = tuple(np.logspace(-5, -1, 10).tolist())
OPTIMUM_NORM = 10.0
NOISE_FACTOR = 1.3
_LOSS = {"lipschitz": float(np.sqrt(2)), "smoothness": 0.5, "monotone_loss": True}  # logistic, on rows and a constant
_AMP = {"gradient_tol": 0.01, "output_noise_std": 0.15}
_DP_SGD = {"optimizer": "adam", "epochs": 60, "batch_size": 256}
# For epsilon >= 0.1 the best integer order is at most 256; for tuning at epsilon = 0.025 larger orders are necessary.
_ORDERS = (*range(2, 257), *range(260, 513, 4), *range(528, 1025, 16))


@dataclass(frozen=True, kw_only=True)
class Method:
    """A method of the study; pass methods={**METHODS, name: Method(...)} to `grid` and `run_study` to add one.

    Attributes
    ----------
    fit : callable (Dataset, *, epsilon, delta, learning_rate, random_state) to a dict with "accuracy", in 0..1, and
        any other of `explorer.study.results.OUTCOMES`; an exception becomes the cell's error
    label : str, for tables and plots
    axes : those of "epsilon" and "learning_rate" that it depends on; the others are set to infinity (with delta NaN)
        and None
    """

    fit: Callable
    label: str
    axes: tuple[str, ...] = ("epsilon",)


def _fit_amp(data, *, epsilon, delta, learning_rate, random_state, accountant, l2_reg=lambda **problem: None):
    model = AMPClassifier(
        epsilon,
        delta=delta,
        accountant=partial(_CachedBound, accountant),
        f=NOISE_FACTOR,
        l2_reg=l2_reg(data=data, epsilon=epsilon, delta=delta),
        random_state=random_state,
        **_AMP,
    ).fit(data.X_train, data.y_train)
    mechanism = model.privacy_.mechanism
    return {**_outcome(model, data), "noise_std": mechanism.noise_std, "l2_reg": mechanism.l2_reg}


def _fit_output_perturbation(data, *, epsilon, delta, learning_rate, random_state):
    model = OutputPerturbationClassifier(epsilon, delta=delta, random_state=random_state)
    model.fit(data.X_train, data.y_train)
    mechanism = model.privacy_.mechanism
    return {**_outcome(model, data), "noise_std": mechanism.noise_std, "l2_reg": mechanism.l2_reg}


def _fit_dp_sgd(data, *, epsilon, delta, learning_rate, random_state):
    model = DPSGDClassifier(
        epsilon,
        delta=delta,
        learning_rate=learning_rate,
        accountant=partial(_CachedBound, "dp_sgd_renyi"),
        random_state=random_state,
        **_DP_SGD,
    ).fit(data.X_train, data.y_train)
    return {**_outcome(model, data), "noise_multiplier": model.privacy_.mechanism.noise_multiplier}


def _select_dp_sgd(data, *, epsilon, delta, learning_rate, random_state, accountant):
    search = HonestSelection(
        DPSGDClassifier(**_DP_SGD),
        candidates={"learning_rate": LEARNING_RATES},
        epsilon=epsilon,
        delta=delta,
        accountant=partial(_CachedBound, accountant),
        random_state=random_state,
    ).fit(data.X_train, data.y_train, validation=(data.X_test, data.y_test))
    return {
        "accuracy": float(search.score(data.X_test, data.y_test)),
        "learning_rate": search.best_params_["learning_rate"],
        "noise_multiplier": search.privacy_.mechanism.run.mechanism.noise_multiplier,
    }


def _fit_non_private(data, *, epsilon, delta, learning_rate, random_state):
    search = GridSearchCV(LogisticRegression(max_iter=1000), {"C": [0.1, 1.0, 10.0, 100.0, 1000.0, 10000.0]})
    search.fit(data.X_train, data.y_train)
    return {"accuracy": float(search.score(data.X_test, data.y_test)), "l2_reg": 1 / search.best_params_["C"]}


def _outcome(model, data):
    return {
        "accuracy": float(model.score(data.X_test, data.y_test)),
        "n_gradient_evaluations": model.n_gradient_evaluations_,
    }


def _l2_reg_by_renyi(*, data, epsilon, delta):
    """lambda by the paper's rule with the paper's (Rényi) accounting."""
    return _papers_l2_reg(epsilon, delta)


@cache
def _papers_l2_reg(epsilon, delta):
    return calibrate_amp(epsilon=epsilon, delta=delta, f=NOISE_FACTOR, bound="renyi", **_LOSS, **_AMP).value


def _l2_reg_by_risk(*, data, epsilon, delta):
    """lambda with the least bound on the excess risk, where sigma is the least that the refined bound allows."""
    n_records, n_features = data.X_train.shape
    return _best_l2_reg(n_records, n_features + 1, epsilon, delta)


@cache  # the same for every split and trial
def _best_l2_reg(n_records, dimension, epsilon, delta):
    family = partial(ApproximateMinimaPerturbation, **_LOSS, **_AMP)
    return best_private_parameters(
        partial(AMPBound, bound=RefinedBound),
        family,
        epsilon=epsilon,
        delta=delta,
        n_records=n_records,
        dimension=dimension,
        optimum_norm=OPTIMUM_NORM,
    ).l2_reg


# By name, so that a task sent to a process is small and the process caches the answers.
_ACCOUNTANTS = {
    "renyi": amp_accountant("renyi"),
    "hockey_stick": amp_accountant("hockey_stick"),
    "exact": amp_accountant("exact"),
    "dp_sgd_renyi": partial(RenyiBound, orders=_ORDERS),
    "selection_renyi": partial(SelectionRenyiBound, orders=_ORDERS),
    "selection_profile": lambda run, *, runs: SelectionProfileBound(CompositionBound(run), runs=runs),
}


class _CachedBound(ProfileBound):
    """The bound _ACCOUNTANTS[name](mechanism), with answers cached per process.

    A calibration evaluates it about a hundred times, some of which take seconds, and each trial repeats them.
    """

    def __init__(self, name: str, mechanism: object, **others: object) -> None:
        self.arguments = name, mechanism, tuple(others.items())

    def log_delta(self, epsilon):
        """Log of delta, of epsilon's shape."""
        return np.vectorize(partial(_log_delta, *self.arguments), otypes=[float])(epsilon)[()]


@cache
def _log_delta(name, mechanism, others, epsilon):
    return float(_ACCOUNTANTS[name](mechanism, **dict(others)).log_delta(float(epsilon)))


METHODS = {
    "amp_rdp": Method(
        fit=partial(_fit_amp, accountant="renyi"),
        label=TERMS["amp_rdp"].title,
    ),
    "amp_hockey_stick": Method(
        fit=partial(_fit_amp, accountant="hockey_stick"),
        label=TERMS["amp_hockey_stick"].title,
    ),
    "amp_exact": Method(
        fit=partial(_fit_amp, accountant="exact"),
        label=TERMS["amp_exact"].title,
    ),
    "amp_exact_noise": Method(
        fit=partial(_fit_amp, accountant="exact", l2_reg=_l2_reg_by_renyi),
        label=TERMS["amp_exact_noise"].title,
    ),
    "amp_exact_risk": Method(
        fit=partial(_fit_amp, accountant="exact", l2_reg=_l2_reg_by_risk),
        label=TERMS["amp_exact_risk"].title,
    ),
    "dp_sgd_dishonest": Method(
        fit=_fit_dp_sgd,
        label=TERMS["dp_sgd_dishonest"].title,
        axes=("epsilon", "learning_rate"),
    ),
    "dp_sgd_honest_rdp": Method(
        fit=partial(_select_dp_sgd, accountant="selection_renyi"),
        label=TERMS["dp_sgd_honest_rdp"].title,
    ),
    "dp_sgd_honest_profile": Method(
        fit=partial(_select_dp_sgd, accountant="selection_profile"),
        label=TERMS["dp_sgd_honest_profile"].title,
    ),
    "output_perturbation": Method(fit=_fit_output_perturbation, label=TERMS["output_perturbation"].title),
    "non_private": Method(fit=_fit_non_private, label=TERMS["non_private"].title, axes=()),
}
