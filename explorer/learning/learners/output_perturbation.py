"""Output perturbation: the regularised minimum plus noise, as scikit-learn estimators."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from explorer.accounting import (
    Gaussian,
    GaussianLowerBound,
    OutputPerturbation,
    PureBound,
    PureOutputPerturbation,
    calibrate_gaussian,
)
from explorer.learning.learners.linear import PrivateLinearClassifier, PrivateLinearRegressor, Problem
from explorer.learning.learners.minimum import ASSUMPTIONS, RESERVE, MinimumOnGrid
from explorer.learning.losses import Loss
from explorer.learning.noise import coordinate_std
from explorer.learning.privacy import PrivacyStatement
from explorer.learning.solvers import Solver
from explorer.learning.types import RandomState
from explorer.validation import positive, real

_ROUNDING = 1e-14  # relative reserve: the rounding of its parts must not let their sum exceed epsilon


class _OutputPerturbationLearner(MinimumOnGrid):
    """Output perturbation on one problem; the parameters are those of OutputPerturbationClassifier."""

    epsilon: float
    delta: float
    gradient_tol: float
    output_noise_std: float
    l2_reg: float | None

    def _plan(self, problem: Problem) -> PrivacyStatement:
        epsilon = positive("epsilon", self.epsilon)
        delta = real("delta", self.delta, rule="inside [0, 1)", valid=lambda x: (x >= 0) & (x < 1))
        plan = partial(
            _gaussian_plan if delta > 0 else _pure_plan,
            epsilon=epsilon,
            delta=(1 - RESERVE) * delta,
            uses=problem.uses,
            lipschitz=problem.sensitivity(self.clip_norm)[0],
            gradient_tol=self.gradient_tol,
        )
        l2_reg = self.l2_reg
        if l2_reg is None:  # the noise is inversely proportional to it
            unit = coordinate_std(plan(l2_reg=1.0).mechanism.output_step, dimension=problem.dimension)
            l2_reg = unit / positive("output_noise_std", self.output_noise_std)
        return self._stated(plan(l2_reg=l2_reg), problem)

    def _linear_step(self, mechanism: Any) -> None:
        return None


def _gaussian_plan(*, epsilon, delta, uses, **parameters):
    """The composition of `uses` equal Gaussian mechanisms is one whose sensitivity is sqrt(uses) times as large."""
    mechanism = OutputPerturbation(noise_std=1.0, **parameters)
    together = Gaussian(noise_std=1.0, sensitivity=np.sqrt(uses) * mechanism.sensitivity)
    noise_std = calibrate_gaussian(epsilon=epsilon, delta=delta, sensitivity=together.sensitivity).value
    return PrivacyStatement(
        epsilon=epsilon,
        delta=float(GaussianLowerBound(replace(together, noise_std=noise_std)).delta(epsilon)),
        bound="the analytic Gaussian mechanism",
        mechanism=replace(mechanism, noise_std=noise_std),
        uses=uses,
        assumptions=ASSUMPTIONS,
    )


def _pure_plan(*, epsilon, delta, uses, **parameters):
    """An equal share of epsilon for each use, by basic composition."""
    mechanism = PureOutputPerturbation(noise_scale=1.0, **parameters)
    noise_scale = mechanism.sensitivity * uses / (epsilon * (1 - _ROUNDING))
    return PrivacyStatement(
        epsilon=epsilon,
        delta=delta,
        bound=PureBound.__name__,
        mechanism=replace(mechanism, noise_scale=noise_scale),
        uses=uses,
        assumptions=ASSUMPTIONS,
    )


class OutputPerturbationClassifier(PrivateLinearClassifier, _OutputPerturbationLearner):
    """Differentially private linear classification by output perturbation.

    Minimises sum_i f(x_i.theta; y_i) + (lambda/2) |theta|^2, y_i = -1 or +1, until |gradient| <= tau is verified, and
    releases theta plus noise. Adding or removing a record moves the point found by at most (L + 2 tau) / lambda: the
    record changes the gradient by L, each solver leaves a gradient of tau, and by lambda-strong convexity a gradient of
    norm g means a distance of at most g / lambda to the minimiser. The noise is N(0, sigma_out^2 I) by the analytic
    Gaussian mechanism or, for delta = 0, has density proportional to e^(-|noise| / scale) with
    scale = (L + 2 tau) / (lambda epsilon). With m > 2 classes this is done once for each class against the rest: with a
    joint sensitivity sqrt(m) times as large for the Gaussian, with epsilon / m each for delta = 0.

    Parameters
    ----------
    epsilon : float > 0, nats
    delta : float inside [0, 1); 0 for pure epsilon
    loss : name or object of `explorer.learning.losses` for labels -1, +1: "logistic", "smoothed_hinge", "probit"
    clip_norm : float > 0, C, or None for the loss's bound L on the gradient (including the constant column); required
        where that is infinite
    gradient_tol : float > 0, tau, for the gradient of the *sum* of losses
    output_noise_std : float > 0, sigma_out, for the rule of l2_reg
    data_norm : float > 0, B; longer rows are scaled down to it. "max" takes the largest row norm of the data, which is
        not private and raises a PrivacyWarning
    l2_reg : float > 0, lambda, or None for the smallest at which each released coefficient has noise of standard
        deviation output_noise_std, and any margin x.theta of |x| times as much; a rule of public numbers alone, with
        the noise of `AMPClassifier`'s output step. The best value grows with the number of records, which is not public
        here: pass it where a public estimate of that number exists. When given, output_noise_std is not used
    solver : "auto", or a name or function of `explorer.learning.solvers`; where it does not converge, one that always
        does takes over
    max_passes : int >= 1, limit on evaluations of the whole objective by `solver`
    fit_intercept : bool; the constant column counts in the row norm and is regularised and perturbed like the others
    classes : array of the labels, or None to treat the labels found in y as public
    random_state : None (seeded by the operating system), int or numpy Generator. A seed known to others voids privacy.
    callback : callable (n_gradient_evaluations, gradient_norm) or None; an exception it raises aborts the fit.
        Its arguments are not private.

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
    ValueError for parameters out of range.

    Notes
    -----
    coef_ and intercept_ are whole multiples of grid_, sums of integers, and have this guarantee to the last bit; under
    which assumptions, `privacy_` lists, and docs/mathematics/floating_point.md proves it.

    References: Chaudhuri, Monteleoni & Sarwate 2011, Algorithm 1; Balle & Wang 2018.

    Examples
    --------
    >>> from sklearn.datasets import make_blobs
    >>> X, y = make_blobs(2000, centers=[[-0.5, 0], [0.5, 0]], cluster_std=0.2, random_state=0)
    >>> OutputPerturbationClassifier(epsilon=1.0, random_state=0).fit(X, y).score(X, y) > 0.9
    True
    """

    def __init__(
        self,
        epsilon: float = 1.0,
        *,
        delta: float = 1e-5,
        loss: str | Loss = "logistic",
        clip_norm: float | None = None,
        gradient_tol: float = 0.001,
        output_noise_std: float = 0.15,
        data_norm: float | Literal["max"] = 1.0,
        l2_reg: float | None = None,
        solver: str | Solver = "auto",
        max_passes: int = 10_000,
        fit_intercept: bool = True,
        classes: ArrayLike | None = None,
        random_state: RandomState = None,
        callback: Callable[[int, float], object] | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.loss = loss
        self.clip_norm = clip_norm
        self.gradient_tol = gradient_tol
        self.output_noise_std = output_noise_std
        self.data_norm = data_norm
        self.l2_reg = l2_reg
        self.solver = solver
        self.max_passes = max_passes
        self.fit_intercept = fit_intercept
        self.classes = classes
        self.random_state = random_state
        self.callback = callback


class OutputPerturbationRegressor(PrivateLinearRegressor, _OutputPerturbationLearner):
    """Differentially private linear regression by output perturbation: `OutputPerturbationClassifier` for real targets.

    Targets need no bound: one record's gradient is bounded through the loss's derivative or by clip_norm.

    Parameters
    ----------
    loss : name or object of `explorer.learning.losses` for real targets: "huber", "pseudo_huber", "log_cosh", "squared"
        (whose derivative is unbounded: clip_norm is required)
    epsilon, delta, clip_norm, gradient_tol, output_noise_std, data_norm, l2_reg, solver, max_passes, fit_intercept,
    random_state, callback : as in `OutputPerturbationClassifier`

    Attributes
    ----------
    coef_ : ndarray (p,), intercept_ : float, n_features_in_ : int
    grid_ : float, the power of two of which every released number is a whole multiple
    privacy_ : PrivacyStatement
    n_gradient_evaluations_ : int, of single records

    Raises
    ------
    As `OutputPerturbationClassifier`.

    References: Chaudhuri, Monteleoni & Sarwate 2011, Algorithm 1.
    """

    def __init__(
        self,
        epsilon: float = 1.0,
        *,
        delta: float = 1e-5,
        loss: str | Loss = "huber",
        clip_norm: float | None = None,
        gradient_tol: float = 0.001,
        output_noise_std: float = 0.15,
        data_norm: float | Literal["max"] = 1.0,
        l2_reg: float | None = None,
        solver: str | Solver = "auto",
        max_passes: int = 10_000,
        fit_intercept: bool = True,
        random_state: RandomState = None,
        callback: Callable[[int, float], object] | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.loss = loss
        self.clip_norm = clip_norm
        self.gradient_tol = gradient_tol
        self.output_noise_std = output_noise_std
        self.data_norm = data_norm
        self.l2_reg = l2_reg
        self.solver = solver
        self.max_passes = max_passes
        self.fit_intercept = fit_intercept
        self.random_state = random_state
        self.callback = callback
