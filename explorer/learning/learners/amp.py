"""Algorithm 1: approximate minima perturbation with clipped gradients, as scikit-learn estimators."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Literal

from numpy.typing import ArrayLike

from explorer.accounting import (
    AMPBound,
    ApproximateMinimaPerturbation,
    Gaussian,
    PrivacyBound,
    amp_accountant,
    calibrate_amp,
)
from explorer.learning.learners.linear import PrivateLinearClassifier, PrivateLinearRegressor, Problem
from explorer.learning.learners.minimum import ASSUMPTIONS, RESERVE, MinimumOnGrid
from explorer.learning.losses import Loss
from explorer.learning.privacy import PrivacyStatement
from explorer.learning.solvers import Solver
from explorer.learning.types import Array, RandomState
from explorer.validation import positive, real


class _ApproximateMinimaPerturbation(MinimumOnGrid):
    """Algorithm 1 on one problem; the parameters are those of AMPClassifier."""

    epsilon: float
    delta: float
    accountant: str | Callable[..., PrivacyBound]
    gradient_tol: float
    output_noise_std: float
    f: float
    l2_reg: float | None
    watch: Callable[[Array, Array], object] | None

    def _plan(self, problem: Problem) -> PrivacyStatement:
        lipschitz, _ = problem.sensitivity(self.clip_norm)
        calibration = _calibrated(
            self.accountant,
            epsilon=positive("epsilon", self.epsilon),
            delta=(1 - RESERVE) * real("delta", self.delta, rule="inside (0, 1)", valid=lambda x: (x > 0) & (x < 1)),
            lipschitz=lipschitz,
            smoothness=problem.smoothness,
            gradient_tol=self.gradient_tol,
            output_noise_std=self.output_noise_std,
            f=self.f,
            l2_reg=self.l2_reg,
            monotone_loss=problem.loss.monotone,
            uses=problem.uses,
        )
        plan = PrivacyStatement(
            epsilon=calibration.epsilon,
            delta=calibration.delta,
            bound=_name(calibration.bound),
            mechanism=calibration.mechanism,
            uses=problem.uses,
            assumptions=ASSUMPTIONS,
        )
        return self._stated(plan, problem)

    def _linear_step(self, mechanism: ApproximateMinimaPerturbation) -> Gaussian:
        return Gaussian(noise_std=mechanism.noise_std, sensitivity=mechanism.lipschitz)


def _calibrated(accountant, **target):
    """`calibrate_amp` with a cache: folds, trials and repeated draws calibrate for the same target."""
    try:
        hash((accountant, *target.values()))
    except TypeError:
        return calibrate_amp(bound=amp_accountant(accountant), **target)
    return _cached(accountant, **target)


@lru_cache(maxsize=64, typed=True)
def _cached(accountant, **target):
    return calibrate_amp(bound=amp_accountant(accountant), **target)


def _name(bound):
    if isinstance(bound, AMPBound):
        return f"{type(bound.objective_bound).__name__}, composed with the output step"
    return type(bound).__name__


class AMPClassifier(PrivateLinearClassifier, _ApproximateMinimaPerturbation):
    """Differentially private linear classification by Algorithm 1 (approximate minima perturbation).

    Minimises sum_i f(x_i.theta; y_i) + (lambda/2) |theta|^2 + b.theta with b ~ N(0, sigma^2 I), y_i = -1 or +1 and
    per-record gradients clipped to C, until |gradient| <= gradient_tol is verified, then releases
    theta + N(0, output_noise_std^2 I). By the paper's rule sigma = f sigma_G, with sigma_G the analytic Gaussian noise
    for (epsilon, delta), and lambda is the smallest value for which the accountant's bound of the whole algorithm
    guarantees (epsilon, delta). With m > 2 classes this is done once for each class against the rest, and
    (epsilon, delta) holds for the m-fold composition.

    Parameters
    ----------
    epsilon : float > 0, nats
    delta : float inside (0, 1)
    accountant : the bound that must grant (epsilon, delta) for the whole of Algorithm 1: a name ("exact", which
        needs the least; "refined", in closed form; the paper's "hockey_stick" and, in its experiments, "renyi";
        "kifer"), a class of bounds on ObjectivePerturbation, or a callable from ApproximateMinimaPerturbation to a
        PrivacyBound, which also receives uses=m when there are m > 2 classes
    loss : name or object of `explorer.learning.losses` for labels -1, +1: "logistic", "smoothed_hinge", "probit"
    clip_norm : float > 0, C, or None for the loss's bound L on the gradient (including the constant column); required
        where that is infinite
    gradient_tol : float > 0, tau, for the gradient of the *sum* of losses
    output_noise_std : float > 0, sigma_out
    data_norm : float > 0, B; longer rows are scaled down to it. "max" takes the largest row norm of the data, which is
        not private and raises a PrivacyWarning
    f : float > 1, noise relative to sigma_G
    l2_reg : float > 0, lambda, or None for the rule above; when given, sigma is the smallest that guarantees
        (epsilon, delta) and f is not used
    solver : "auto", or a name or function of `explorer.learning.solvers`; where it does not converge, one that always
        does takes over
    max_passes : int >= 1, limit on evaluations of the whole objective by `solver`
    fit_intercept : bool; the constant column counts in the row norm and is regularised and perturbed like the others
    classes : array of the labels, or None to treat the labels found in y as public
    random_state : None (seeded by the operating system), int or numpy Generator. A seed known to others voids privacy.
    callback : callable (n_gradient_evaluations, gradient_norm) or None; an exception it raises aborts the fit.
        Its arguments are not private.
    watch : callable (theta, b) or None, called wherever the solver evaluates the gradient of the whole objective, the
        last time at the point that is released after adding output noise; both ndarray (d,). For demonstrations only:
        b is the secret noise.

    Attributes
    ----------
    coef_ : ndarray (1, p) or (m, p), intercept_ : ndarray (1,) or (m,), classes_ : ndarray, n_features_in_ : int
    grid_ : float, the power of two of which every released number is a whole multiple
    privacy_ : PrivacyStatement
    n_gradient_evaluations_ : int, of single records

    Raises
    ------
    NoReleaseError if gradient_tol is below what can be proved in floating point, which for up to privacy_.n_max records
    does not happen: nothing is released, no attribute is set.
    ValueError for parameters out of range, and InfeasibleTarget (one of them) if no lambda or sigma meets the target.

    Notes
    -----
    coef_ and intercept_ are whole multiples of grid_, sums of integers, and have this guarantee to the last bit; under
    which assumptions, `privacy_` lists, and docs/mathematics/floating_point.md proves it.

    References: Redberg, Koskela & Wang 2023, Algorithm 1; Iyengar et al. 2019.

    Examples
    --------
    >>> from sklearn.datasets import make_blobs
    >>> X, y = make_blobs(2000, centers=[[-0.5, 0], [0.5, 0]], cluster_std=0.2, random_state=0)
    >>> AMPClassifier(epsilon=1.0, random_state=0).fit(X, y).score(X, y) > 0.9
    True
    """

    def __init__(
        self,
        epsilon: float = 1.0,
        *,
        delta: float = 1e-5,
        accountant: str | Callable[..., PrivacyBound] = "exact",
        loss: str | Loss = "logistic",
        clip_norm: float | None = None,
        gradient_tol: float = 0.01,
        output_noise_std: float = 0.15,
        data_norm: float | Literal["max"] = 1.0,
        f: float = 1.3,
        l2_reg: float | None = None,
        solver: str | Solver = "auto",
        max_passes: int = 10_000,
        fit_intercept: bool = True,
        classes: ArrayLike | None = None,
        random_state: RandomState = None,
        callback: Callable[[int, float], object] | None = None,
        watch: Callable[[Array, Array], object] | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.accountant = accountant
        self.loss = loss
        self.clip_norm = clip_norm
        self.gradient_tol = gradient_tol
        self.output_noise_std = output_noise_std
        self.data_norm = data_norm
        self.f = f
        self.l2_reg = l2_reg
        self.solver = solver
        self.max_passes = max_passes
        self.fit_intercept = fit_intercept
        self.classes = classes
        self.random_state = random_state
        self.callback = callback
        self.watch = watch


class AMPRegressor(PrivateLinearRegressor, _ApproximateMinimaPerturbation):
    """Differentially private linear regression by Algorithm 1: `AMPClassifier` for real targets.

    Targets need no bound: one record's gradient is bounded through the loss's derivative or by clip_norm.

    Parameters
    ----------
    loss : name or object of `explorer.learning.losses` for real targets: "huber", "pseudo_huber", "log_cosh", "squared"
        (whose derivative is unbounded: clip_norm is required)
    epsilon, delta, accountant, clip_norm, gradient_tol, output_noise_std, data_norm, f, l2_reg, solver, max_passes,
    fit_intercept, random_state, callback, watch : as in `AMPClassifier`

    Attributes
    ----------
    coef_ : ndarray (p,), intercept_ : float, n_features_in_ : int
    grid_ : float, the power of two of which every released number is a whole multiple
    privacy_ : PrivacyStatement
    n_gradient_evaluations_ : int, of single records

    Raises
    ------
    As `AMPClassifier`.

    References: Redberg, Koskela & Wang 2023, Algorithm 1.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.linspace(-1, 1, 5000)[:, None]
    >>> AMPRegressor(epsilon=1.0, random_state=0).fit(X, 2 * X[:, 0]).score(X, 2 * X[:, 0]) > 0.9
    True
    """

    def __init__(
        self,
        epsilon: float = 1.0,
        *,
        delta: float = 1e-5,
        accountant: str | Callable[..., PrivacyBound] = "exact",
        loss: str | Loss = "huber",
        clip_norm: float | None = None,
        gradient_tol: float = 0.01,
        output_noise_std: float = 0.15,
        data_norm: float | Literal["max"] = 1.0,
        f: float = 1.3,
        l2_reg: float | None = None,
        solver: str | Solver = "auto",
        max_passes: int = 10_000,
        fit_intercept: bool = True,
        random_state: RandomState = None,
        callback: Callable[[int, float], object] | None = None,
        watch: Callable[[Array, Array], object] | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.accountant = accountant
        self.loss = loss
        self.clip_norm = clip_norm
        self.gradient_tol = gradient_tol
        self.output_noise_std = output_noise_std
        self.data_norm = data_norm
        self.f = f
        self.l2_reg = l2_reg
        self.solver = solver
        self.max_passes = max_passes
        self.fit_intercept = fit_intercept
        self.random_state = random_state
        self.callback = callback
        self.watch = watch
