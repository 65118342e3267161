"""Algorithm 1: approximate minima perturbation with clipped gradients, as a scikit-learn estimator."""

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from explorer.accounting import RenyiBound, calibrate_amp
from explorer.learning.losses import Logistic
from explorer.learning.objective import PerturbedObjective, row_norms
from explorer.learning.privacy import NoReleaseError, PrivacyStatement
from explorer.learning.solvers import lbfgs
from explorer.validation import positive

_ASSUMPTIONS = (
    "neighbouring datasets differ by one added or removed record; the number of records is not used",
    "the two class labels and the number of features are public",
    "the random numbers are secret: with a known random_state there is no privacy",
    "Gaussian noise is drawn in floating point, and whether the fit refuses to release is not part of the guarantee",
)


class AMPClassifier(ClassifierMixin, BaseEstimator):
    """Differentially private logistic regression by Algorithm 1 (approximate minima perturbation).

    Minimises sum_i log(1 + e^(-y_i x_i.theta)) + (lambda/2) |theta|^2 + b.theta with b ~ N(0, sigma^2 I) and
    clipped per-record gradients until |gradient| <= gradient_tol is verified, then releases
    theta + N(0, output_noise_std^2 I). sigma = f sigma_G, with sigma_G the analytic Gaussian noise for
    (epsilon, delta), and lambda is the smallest value for which the accountant's bound of the whole algorithm
    grants (epsilon, delta).

    Parameters
    ----------
    epsilon : float > 0, nats
    delta : float inside (0, 1)
    data_norm : float > 0; longer rows are scaled down to it, never trusted
    clip_norm : float > 0 or None, C; None is the loss's own bound L = sqrt(data_norm^2 + 1) with the constant column
    gradient_tol : float > 0, tau, for the gradient of the *sum* of losses
    output_noise_std : float > 0, sigma_out
    f : float > 1, noise relative to sigma_G
    accountant : callable, ApproximateMinimaPerturbation to PrivacyBound; what must grant (epsilon, delta) for the whole
        of Algorithm 1. The default is the paper's Renyi bound.
    fit_intercept : bool; the constant column counts in the row norm, is regularised and perturbed like the rest
    max_passes : int >= 1, limit on evaluations of the whole objective
    random_state : None (seeded by the operating system), int or numpy Generator. A seed that others know voids privacy.
    callback : callable (n_gradient_evaluations, gradient_norm) or None; an exception it raises aborts the fit.
        What it sees is not private.

    Attributes
    ----------
    coef_ : ndarray (1, d), intercept_ : ndarray (1,), classes_ : ndarray (2,), n_features_in_ : int
    privacy_ : PrivacyStatement
    n_gradient_evaluations_ : int, of single records

    Raises
    ------
    NoReleaseError if the gradient norm is not reached: nothing is released, no attribute is set.
    ValueError for parameters out of range, or labels that are not of two classes.

    Notes
    -----
    The noise is a floating-point approximation of a Gaussian; see Mironov 2012 for what its low bits can reveal.

    References: Redberg, Koskela, Wang 2023, Algorithm 1; Iyengar et al. 2019.

    Examples
    --------
    >>> from sklearn.datasets import make_blobs
    >>> X, y = make_blobs(2000, centers=[[-0.5, 0], [0.5, 0]], cluster_std=0.2, random_state=0)
    >>> AMPClassifier(epsilon=1.0, random_state=0).fit(X, y).score(X, y) > 0.9
    True
    """

    def __init__(
        self,
        epsilon=1.0,
        *,
        delta=1e-5,
        data_norm=1.0,
        clip_norm=None,
        gradient_tol=0.01,
        output_noise_std=0.15,
        f=1.3,
        accountant=RenyiBound,
        fit_intercept=True,
        max_passes=10_000,
        random_state=None,
        callback=None,
    ):
        self.epsilon = epsilon
        self.delta = delta
        self.data_norm = data_norm
        self.clip_norm = clip_norm
        self.gradient_tol = gradient_tol
        self.output_noise_std = output_noise_std
        self.f = f
        self.accountant = accountant
        self.fit_intercept = fit_intercept
        self.max_passes = max_passes
        self.random_state = random_state
        self.callback = callback

    def fit(self, X, y):
        """Fit to X, ndarray or CSR (n, d), and y, labels (n,) of two classes; return self or raise NoReleaseError."""
        X, y = validate_data(self, X, y, accept_sparse="csr", dtype=float)
        classes, signs = _two_classes(y)
        calibration, clip_norm = self._calibrate()
        mechanism, rng = calibration.mechanism, _generator(self.random_state)
        X = _with_constant(_within_norm(X, self.data_norm), self.fit_intercept)
        objective = PerturbedObjective(
            X,
            signs,
            loss=Logistic(),
            l2_reg=mechanism.l2_reg,
            linear_term=rng.normal(scale=mechanism.noise_std, size=X.shape[1]),
            clip_norm=clip_norm,
        )
        solution = lbfgs(
            objective, gradient_tol=mechanism.gradient_tol, max_passes=self.max_passes, callback=self.callback
        )
        norm = float(np.linalg.norm(objective.gradient(solution.x)))
        if not norm <= mechanism.gradient_tol:
            raise NoReleaseError(
                f"nothing is released: the gradient norm must be <= gradient_tol={mechanism.gradient_tol!r}, "
                f"got {norm:.3g} after {solution.n_gradient_evaluations} single-record gradients ({solution.message}). "
                "Raise gradient_tol or max_passes; that this fit refused is itself outside the guarantee."
            )
        theta = solution.x + rng.normal(scale=mechanism.output_noise_std, size=X.shape[1])
        self.classes_ = classes
        self.coef_, self.intercept_ = _split(theta, self.fit_intercept)
        self.n_gradient_evaluations_ = solution.n_gradient_evaluations
        self.privacy_ = PrivacyStatement(
            epsilon=calibration.epsilon,
            delta=calibration.delta,
            bound=type(calibration.bound).__name__,
            mechanism=mechanism,
            gradient_norm=norm,
            assumptions=_ASSUMPTIONS,
        )
        return self

    def decision_function(self, X):
        """x.coef + intercept, ndarray (n,); positive means classes_[1]."""
        check_is_fitted(self)
        X = validate_data(self, X, accept_sparse="csr", dtype=float, reset=False)
        return np.asarray(X @ self.coef_[0]) + self.intercept_[0]

    def predict(self, X):
        """Labels, ndarray (n,)."""
        positive_side = self.decision_function(X) > 0
        return self.classes_[positive_side.astype(int)]

    def _calibrate(self):
        """The mechanism that grants (epsilon, delta), as a Calibration, and the clipping norm if it ever binds."""
        loss, norm = Logistic(), np.hypot(positive("data_norm", self.data_norm), float(bool(self.fit_intercept)))
        lipschitz = loss.lipschitz * norm
        clip_norm = None if self.clip_norm is None else positive("clip_norm", self.clip_norm)
        if clip_norm is not None and clip_norm >= lipschitz:
            clip_norm = None
        calibration = calibrate_amp(
            epsilon=positive("epsilon", self.epsilon),
            delta=self.delta,
            f=self.f,
            lipschitz=lipschitz if clip_norm is None else clip_norm,
            smoothness=loss.smoothness * norm**2,
            gradient_tol=self.gradient_tol,
            output_noise_std=self.output_noise_std,
            monotone_loss=loss.monotone,
            bound=self.accountant,
        )
        return calibration, clip_norm

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        tags.classifier_tags.poor_score = True  # at epsilon = 1 on the toy data of the estimator checks
        tags.input_tags.sparse = True
        return tags


def _two_classes(y):
    check_classification_targets(y)
    classes, index = np.unique(y, return_inverse=True)
    if len(classes) == 1:
        raise ValueError(f"y must have two classes: got 1 class, {classes[0]!r}")
    if len(classes) > 2:
        raise ValueError(f"Only binary classification is supported: y must have two classes, got {len(classes)}")
    return classes, 2.0 * index - 1


def _generator(random_state):
    if isinstance(random_state, np.random.RandomState):
        return np.random.default_rng(random_state.randint(2**32, size=8, dtype=np.uint64))
    return np.random.default_rng(random_state)


def _within_norm(X, limit):
    """Rows longer than `limit` scaled down to it, by a factor that survives rounding."""
    norms = row_norms(X)
    scale = np.where(norms > limit, limit / np.maximum(norms, limit) * (1 - 1e-15), 1.0)
    return sparse.diags_array(scale).tocsr() @ X if sparse.issparse(X) else X * scale[:, None]


def _with_constant(X, fit_intercept):
    if not fit_intercept:
        return X
    ones = np.ones((X.shape[0], 1))
    return sparse.hstack([X, ones], format="csr") if sparse.issparse(X) else np.hstack([X, ones])


def _split(theta, fit_intercept):
    if fit_intercept:
        return theta[None, :-1], theta[-1:]
    return theta[None, :], np.zeros(1)
