"""Algorithm 1: approximate minima perturbation with clipped gradients, as scikit-learn estimators."""

from functools import lru_cache, partial

from explorer.accounting import AMPBound, amp_accountant, calibrate_amp
from explorer.learning.certificate import ASSUMPTIONS, certified_minimum
from explorer.learning.learners.linear import (
    PrivateLearner,
    PrivateLinearClassifier,
    PrivateLinearRegressor,
    Release,
    estimator,
)
from explorer.learning.objective import PerturbedObjective, WatchedObjective
from explorer.learning.privacy import PrivacyStatement
from explorer.validation import positive


class _ApproximateMinimaPerturbation(PrivateLearner):
    """Algorithm 1 on one problem; the parameters are those of AMPClassifier."""

    epsilon: float = 1.0
    delta: float = 1e-5
    accountant: object = "hockey_stick"
    loss: object = "logistic"
    clip_norm: float | None = None
    gradient_tol: float = 0.01
    output_noise_std: float = 0.15
    data_norm: float | str = 1.0
    f: float = 1.3
    l2_reg: float | None = None
    solver: object = "auto"
    max_passes: int = 10_000
    watch: object = None

    def _plan(self, problem):
        lipschitz, _ = problem.sensitivity(self.clip_norm)
        calibration = _calibrated(
            self.accountant,
            epsilon=positive("epsilon", self.epsilon),
            delta=self.delta,
            lipschitz=lipschitz,
            smoothness=problem.smoothness,
            gradient_tol=self.gradient_tol,
            output_noise_std=self.output_noise_std,
            f=self.f,
            l2_reg=self.l2_reg,
            monotone_loss=problem.loss.monotone,
            uses=problem.uses,
        )
        return PrivacyStatement(
            epsilon=calibration.epsilon,
            delta=calibration.delta,
            bound=_name(calibration.bound),
            mechanism=calibration.mechanism,
            uses=problem.uses,
            assumptions=ASSUMPTIONS,
        )

    def _release(self, records, problem, plan, rng):
        mechanism = plan.mechanism
        kind = PerturbedObjective if self.watch is None else partial(WatchedObjective, watch=self.watch)
        objective = kind(
            records,
            loss=problem.loss,
            l2_reg=mechanism.l2_reg,
            linear_term=rng.normal(scale=mechanism.noise_std, size=problem.dimension),
            clip_norm=problem.sensitivity(self.clip_norm)[1],
        )
        solution = certified_minimum(
            objective,
            solver=self.solver,
            gradient_tol=mechanism.gradient_tol,
            max_passes=self.max_passes,
            callback=self.callback,
        )
        theta = solution.x + rng.normal(scale=mechanism.output_noise_std, size=problem.dimension)
        return Release(theta, solution.n_gradient_evaluations, solution.gradient_norm)


def _calibrated(accountant, **target):
    """`calibrate_amp`, or what it gave before: folds, trials and draws ask for the same target again and again."""
    try:
        hash((accountant, *target.values()))
    except TypeError:
        return calibrate_amp(bound=amp_accountant(accountant), **target)
    return _remembered(accountant, **target)


@lru_cache(maxsize=64, typed=True)
def _remembered(accountant, **target):
    return calibrate_amp(bound=amp_accountant(accountant), **target)


def _name(bound):
    if isinstance(bound, AMPBound):
        return f"{type(bound.objective_bound).__name__}, composed with the output step"
    return type(bound).__name__


@estimator
class AMPClassifier(PrivateLinearClassifier, _ApproximateMinimaPerturbation):
    """Differentially private linear classification by Algorithm 1 (approximate minima perturbation).

    Minimises sum_i f(x_i.theta; y_i) + (lambda/2) |theta|^2 + b.theta with b ~ N(0, sigma^2 I), y_i = -1 or +1 and
    per-record gradients clipped to C, until |gradient| <= gradient_tol is verified, then releases
    theta + N(0, output_noise_std^2 I). By the paper's rule sigma = f sigma_G, with sigma_G the analytic Gaussian noise
    for (epsilon, delta), and lambda is the smallest value for which the accountant's bound of the whole algorithm
    grants (epsilon, delta). With m > 2 classes this is done once for each class against the rest, and the m-fold
    composition is what is granted.

    Parameters
    ----------
    epsilon : float > 0, nats
    delta : float inside (0, 1)
    accountant : what must grant (epsilon, delta) for the whole of Algorithm 1: a name ("hockey_stick", the published
        bound; "renyi", what the paper's experiments use; "refined", "tight", proved here; "kifer"), a class of bounds
        on ObjectivePerturbation, or a callable from ApproximateMinimaPerturbation to a PrivacyBound, which is also
        given uses=m when there are m > 2 classes
    loss : name or object of `explorer.learning.losses` for labels -1, +1: "logistic", "smoothed_hinge", "probit"
    clip_norm : float > 0, C, or None for the loss's own bound L on the gradient (with the constant column counted);
        needed where that is infinite
    gradient_tol : float > 0, tau, for the gradient of the *sum* of losses
    output_noise_std : float > 0, sigma_out
    data_norm : float > 0; longer rows are scaled down to it, never trusted. "max" takes the data's largest norm, which
        is not private, and says so with a PrivacyWarning
    f : float > 1, noise relative to sigma_G
    l2_reg : float > 0, lambda, or None for the rule above; when given, sigma is the smallest that grants
        (epsilon, delta) and f is not used
    solver : "auto", or a name or function of `explorer.learning.solvers`; where it does not get there, one that always
        converges takes over
    max_passes : int >= 1, limit on evaluations of the whole objective by `solver`
    fit_intercept : bool; the constant column counts in the row norm, is regularised and perturbed like the rest
    classes : array of the labels, or None to take those in y for public
    random_state : None (seeded by the operating system), int or numpy Generator. A seed that others know voids privacy.
    callback : callable (n_gradient_evaluations, gradient_norm) or None; an exception it raises aborts the fit.
        What it sees is not private.
    watch : callable (theta, b) or None, wherever the solver takes the gradient of the whole objective and last at the
        point to be released but for its output noise, both ndarray (d,). For demonstrations only: whoever knows b
        knows the data.

    Attributes
    ----------
    coef_ : ndarray (1, p) or (m, p), intercept_ : ndarray (1,) or (m,), classes_ : ndarray, n_features_in_ : int
    privacy_ : PrivacyStatement
    n_gradient_evaluations_ : int, of single records

    Raises
    ------
    NoReleaseError if gradient_tol lies below what floating point can verify: nothing is released, no attribute is set.
    ValueError for parameters out of range, and InfeasibleTarget (one of them) if no lambda or sigma grants the target.

    Notes
    -----
    The noise is a floating-point approximation of a Gaussian; `explorer.learning.noise` says what its low bits can
    reveal (Mironov 2012; Jin et al. 2022), and what a known seed does.

    References: Redberg, Koskela, Wang 2023, Algorithm 1; Iyengar et al. 2019.

    Examples
    --------
    >>> from sklearn.datasets import make_blobs
    >>> X, y = make_blobs(2000, centers=[[-0.5, 0], [0.5, 0]], cluster_std=0.2, random_state=0)
    >>> AMPClassifier(epsilon=1.0, random_state=0).fit(X, y).score(X, y) > 0.9
    True
    """


@estimator
class AMPRegressor(PrivateLinearRegressor, _ApproximateMinimaPerturbation):
    """Differentially private linear regression by Algorithm 1: `AMPClassifier` for real targets.

    Targets need no bound: one record's gradient is bounded by the loss's slope or by clip_norm.

    Parameters
    ----------
    loss : name or object of `explorer.learning.losses` for real targets: "huber", "pseudo_huber", "log_cosh", "squared"
        (whose slope is unbounded: clip_norm must be given)
    epsilon, delta, accountant, clip_norm, gradient_tol, output_noise_std, data_norm, f, l2_reg, solver, max_passes,
    fit_intercept, random_state, callback, watch : as in `AMPClassifier`

    Attributes
    ----------
    coef_ : ndarray (p,), intercept_ : float, n_features_in_ : int
    privacy_ : PrivacyStatement
    n_gradient_evaluations_ : int, of single records

    Raises
    ------
    As `AMPClassifier`.

    References: Redberg, Koskela, Wang 2023, Algorithm 1.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.linspace(-1, 1, 5000)[:, None]
    >>> AMPRegressor(epsilon=1.0, random_state=0).fit(X, 0.5 * X[:, 0]).score(X, 0.5 * X[:, 0]) > 0.9
    True
    """
