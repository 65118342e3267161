"""DP-GD, full-batch gradient descent with noise, as scikit-learn estimators.

All T steps together, with one record's gradient bounded by C in each, are one Gaussian mechanism of sensitivity
sqrt(T) C: its cost is known exactly, and choosing later steps by earlier outputs does not change it.
"""

from functools import partial

import numpy as np

from explorer.accounting import Gaussian, GaussianLowerBound
from explorer.learning.learners.descent import NoisyDescent, clipped_gradient
from explorer.learning.learners.linear import PrivateLinearClassifier, PrivateLinearRegressor, estimator
from explorer.validation import natural


class GaussianComposition(GaussianLowerBound):
    """`uses` Gaussian mechanisms on the same data, exactly: one of sensitivity sqrt(uses) times as large."""

    def __init__(self, mechanism, *, uses=1):
        sensitivity = mechanism.sensitivity * np.sqrt(natural("uses", uses))
        super().__init__(Gaussian(noise_std=mechanism.noise_std, sensitivity=sensitivity))


_ACCOUNTANTS = {"exact": GaussianComposition}


class _FullBatchDescent(NoisyDescent):
    """DP-GD on one problem; the parameters are those of DPGDClassifier."""

    steps: int = 100
    learning_rate: float = 1.0
    optimizer: object = "sgd"
    l2_reg: float = 0.0
    accountant: object = "exact"

    _accountants = _ACCOUNTANTS
    _assumptions = (
        "the number of records is public: the gradient's sum is divided by it",
        "the class labels and the number of features are public",
        "theta may be watched at every step",
    )

    def _expected_batch(self, problem):
        return problem.n_records

    def _n_steps(self, problem):
        return natural("steps", self.steps)

    def _mechanism(self, problem, noise_multiplier):
        bound = problem.sensitivity(self.clip_norm)[0]
        return Gaussian(noise_std=noise_multiplier * bound, sensitivity=bound * np.sqrt(self._n_steps(problem)))

    def _noise_std(self, problem, mechanism):
        return mechanism.noise_std

    def _gradients(self, records, problem, steps, rng):
        _, clip_norm = problem.sensitivity(self.clip_norm)
        for _ in range(steps):
            yield records.n_records, partial(_gradient, records, problem.loss, clip_norm)


def _gradient(records, loss, clip_norm, theta):
    return records.total(clipped_gradient, theta, loss, clip_norm)[0]


@estimator
class DPGDClassifier(PrivateLinearClassifier, _FullBatchDescent):
    """Differentially private linear classification by full-batch gradient descent with noise.

    From theta = 0, `steps` times, with per-record gradients clipped to C,

        theta <- theta - step( (sum of all gradients + N(0, noise_multiplier^2 C^2 I)) / n + (l2_reg / n) theta ).

    The last theta is released. With m > 2 classes this is done once for each class against the rest, and the m-fold
    composition is what is granted.

    Parameters
    ----------
    steps : int >= 1, T
    learning_rate : float > 0; for logistic loss, unit rows and a constant, gradient descent is stable up to 4
    accountant : "exact" (`GaussianComposition`), or a callable from Gaussian to a PrivacyBound, also given uses=m
    epsilon, delta, loss, clip_norm, data_norm, noise_multiplier, optimizer, l2_reg, fit_intercept, classes,
    random_state, callback, watch : as in `DPSGDClassifier`

    Attributes
    ----------
    coef_ : ndarray (1, p) or (m, p), intercept_ : ndarray (1,) or (m,), classes_ : ndarray, n_features_in_ : int
    privacy_ : PrivacyStatement; its mechanism is the Gaussian of all steps, noise_multiplier C = noise_std
    n_gradient_evaluations_ : int, of single records

    Raises
    ------
    As `DPSGDClassifier`.

    Notes
    -----
    The noise is drawn in floating point: `explorer.learning.noise` says what its low bits can reveal.

    References: Song, Chaudhuri, Sarwate 2013; Balle, Wang 2018 for the calibration.

    Examples
    --------
    >>> from sklearn.datasets import make_blobs
    >>> X, y = make_blobs(2000, centers=[[-0.5, 0], [0.5, 0]], cluster_std=0.2, random_state=0)
    >>> DPGDClassifier(epsilon=1.0, random_state=0).fit(X, y).score(X, y) > 0.9
    True
    """


@estimator
class DPGDRegressor(PrivateLinearRegressor, _FullBatchDescent):
    """Differentially private linear regression by full-batch gradient descent: `DPGDClassifier` for real targets.

    Targets need no bound: one record's gradient is bounded by the loss's slope or by clip_norm.

    Parameters
    ----------
    loss : name or object of `explorer.learning.losses` for real targets: "huber", "pseudo_huber", "log_cosh", "squared"
        (whose slope is unbounded: clip_norm must be given)
    steps, learning_rate, accountant : as in `DPGDClassifier`
    epsilon, delta, clip_norm, data_norm, noise_multiplier, optimizer, l2_reg, fit_intercept, random_state,
    callback, watch : as in `DPSGDClassifier`

    Attributes
    ----------
    coef_ : ndarray (p,), intercept_ : float, n_features_in_ : int
    privacy_ : PrivacyStatement
    n_gradient_evaluations_ : int, of single records

    Raises
    ------
    As `DPSGDClassifier`.

    References: Song, Chaudhuri, Sarwate 2013.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.linspace(-1, 1, 5000)[:, None]
    >>> DPGDRegressor(epsilon=1.0, random_state=0).fit(X, 0.5 * X[:, 0]).score(X, 0.5 * X[:, 0]) > 0.9
    True
    """
