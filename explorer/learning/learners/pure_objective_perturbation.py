"""Objective perturbation for pure epsilon, with Gamma-norm noise, as scikit-learn estimators."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from explorer.accounting import GammaNoise, InfeasibleTarget, PureBound, PureObjectivePerturbation
from explorer.learning.learners.linear import PrivateLinearClassifier, PrivateLinearRegressor, Problem
from explorer.learning.learners.minimum import ASSUMPTIONS, MinimumOnGrid
from explorer.learning.losses import Loss
from explorer.learning.privacy import PrivacyStatement
from explorer.learning.solvers import Solver
from explorer.learning.types import RandomState
from explorer.validation import positive, real

_ROUNDING = 1e-14  # relative reserve: the rounding of its parts must not let their sum exceed epsilon


class _PureObjectivePerturbationLearner(MinimumOnGrid):
    """Gamma-norm objective perturbation on one problem; parameters as in PureObjectivePerturbationClassifier."""

    epsilon: float
    gradient_tol: float
    output_share: float
    f: float
    l2_reg: float | None

    def _plan(self, problem: Problem) -> PrivacyStatement:
        epsilon = positive("epsilon", self.epsilon)
        share = real("output_share", self.output_share, rule="inside (0, 1)", valid=lambda x: (x > 0) & (x < 1))
        each = epsilon * (1 - _ROUNDING) / problem.uses
        lipschitz, _ = problem.sensitivity(self.clip_norm)
        l2_reg, curvature_cost = self._regulariser(problem.smoothness, (1 - share) * each)
        gradient_tol = positive("gradient_tol", self.gradient_tol)
        plan = PrivacyStatement(
            epsilon=epsilon,
            delta=0.0,
            bound=PureBound.__name__,
            mechanism=PureObjectivePerturbation(
                noise_scale=lipschitz / ((1 - share) * each - curvature_cost),
                l2_reg=l2_reg,
                lipschitz=lipschitz,
                smoothness=problem.smoothness,
                gradient_tol=gradient_tol,
                output_noise_scale=2 * gradient_tol / (l2_reg * share * each),
            ),
            uses=problem.uses,
            assumptions=ASSUMPTIONS,
        )
        return self._stated(plan, problem)

    def _regulariser(self, smoothness: float, epsilon: float) -> tuple[float, float]:
        """lambda, and the part log(1 + beta / lambda) of `epsilon` that the curvature then takes."""
        if self.l2_reg is None:
            f = real("f", self.f, rule="a finite number > 1", valid=lambda x: np.isfinite(x) & (x > 1))
            cost = epsilon * (1 - 1 / f)
            return smoothness / np.expm1(cost), cost
        l2_reg = positive("l2_reg", self.l2_reg)
        cost = np.log1p(smoothness / l2_reg)
        if cost >= epsilon:
            needed = float(smoothness / np.expm1(epsilon))
            raise InfeasibleTarget(
                f"l2_reg must exceed {needed:.6g} for epsilon={self.epsilon!r}: got l2_reg={l2_reg!r}, whose "
                f"log(1 + smoothness / l2_reg) = {cost:.3g} leaves no part of {epsilon:.3g} for the noise",
                {"l2_reg": needed},
            )
        return l2_reg, cost

    def _linear_step(self, mechanism: PureObjectivePerturbation) -> GammaNoise:
        return GammaNoise(noise_scale=mechanism.noise_scale, sensitivity=mechanism.lipschitz)


class PureObjectivePerturbationClassifier(PrivateLinearClassifier, _PureObjectivePerturbationLearner):
    """Linear classification with pure epsilon-differential privacy by objective perturbation.

    Minimises sum_i f(x_i.theta; y_i) + (lambda/2) |theta|^2 + b.theta, y_i = -1 or +1, b of density proportional to
    e^(-zeta |b|) (uniform direction, norm Gamma(d, 1/zeta)), until |gradient| <= tau is verified. The exact minimiser
    has pure epsilon zeta L + log(1 + kappa), kappa = beta / lambda. It is within tau / lambda of the point found, to
    which noise of density proportional to e^(-|noise| / scale), scale = 2 tau / (lambda output_epsilon), is added. In
    total

        epsilon = zeta L + log(1 + kappa) + output_epsilon,    output_epsilon = output_share epsilon.

    With m > 2 classes this is done once for each class against the rest, with epsilon / m each.

    Parameters
    ----------
    epsilon : float > 0, nats; delta is 0
    loss : name or object of `explorer.learning.losses` for labels -1, +1: "logistic", "smoothed_hinge", "probit"
    clip_norm : float > 0, C, or None for the loss's bound L on the gradient (including the constant column); required
        where that is infinite
    gradient_tol : float > 0, tau, for the gradient of the *sum* of losses. At theta, the output noise is about
        2 tau / (output_share L) times the noise of the objective
    output_share : float inside (0, 1), the fraction of epsilon for the output step
    data_norm : float > 0, B; longer rows are scaled down to it. "max" takes the largest row norm of the data, which is
        not private and raises a PrivacyWarning
    f : float > 1, noise 1/zeta relative to that of a loss without curvature: log(1 + kappa) takes the fraction 1 - 1/f
        of epsilon, which determines lambda
    l2_reg : float > 0, lambda, or None for the rule above; when given, zeta follows from epsilon and f is not used
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
    ValueError for parameters out of range, and InfeasibleTarget (one of them) if l2_reg is too small for epsilon.

    Notes
    -----
    The proof is in `explorer.accounting.bounds.pure`. coef_ and intercept_ are whole multiples of grid_, sums of
    integers, and have this guarantee to the last bit, up to (1 + e^epsilon) times the probability of a refusal and the
    distinguishability of the random bits from uniform ones; docs/mathematics/floating_point.md proves it.

    References: Chaudhuri, Monteleoni & Sarwate 2011, Algorithm 2.

    Examples
    --------
    >>> from sklearn.datasets import make_blobs
    >>> X, y = make_blobs(2000, centers=[[-0.5, 0], [0.5, 0]], cluster_std=0.2, random_state=0)
    >>> PureObjectivePerturbationClassifier(epsilon=1.0, random_state=0).fit(X, y).score(X, y) > 0.9
    True
    """

    def __init__(
        self,
        epsilon: float = 1.0,
        *,
        loss: str | Loss = "logistic",
        clip_norm: float | None = None,
        gradient_tol: float = 0.0001,
        output_share: float = 0.01,
        data_norm: float | Literal["max"] = 1.0,
        f: float = 1.3,
        l2_reg: float | None = None,
        solver: str | Solver = "auto",
        max_passes: int = 10_000,
        fit_intercept: bool = True,
        classes: ArrayLike | None = None,
        random_state: RandomState = None,
        callback: Callable[[int, float], object] | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.loss = loss
        self.clip_norm = clip_norm
        self.gradient_tol = gradient_tol
        self.output_share = output_share
        self.data_norm = data_norm
        self.f = f
        self.l2_reg = l2_reg
        self.solver = solver
        self.max_passes = max_passes
        self.fit_intercept = fit_intercept
        self.classes = classes
        self.random_state = random_state
        self.callback = callback


class PureObjectivePerturbationRegressor(PrivateLinearRegressor, _PureObjectivePerturbationLearner):
    """Linear regression with pure epsilon: `PureObjectivePerturbationClassifier` for real targets.

    Targets need no bound: one record's gradient is bounded through the loss's derivative or by clip_norm.

    Parameters
    ----------
    loss : name or object of `explorer.learning.losses` for real targets: "huber", "pseudo_huber", "log_cosh", "squared"
        (whose derivative is unbounded: clip_norm is required)
    epsilon, clip_norm, gradient_tol, output_share, data_norm, f, l2_reg, solver, max_passes, fit_intercept,
    random_state, callback : as in `PureObjectivePerturbationClassifier`

    Attributes
    ----------
    coef_ : ndarray (p,), intercept_ : float, n_features_in_ : int
    grid_ : float, the power of two of which every released number is a whole multiple
    privacy_ : PrivacyStatement
    n_gradient_evaluations_ : int, of single records

    Raises
    ------
    As `PureObjectivePerturbationClassifier`.

    References: Chaudhuri, Monteleoni & Sarwate 2011, Algorithm 2.
    """

    def __init__(
        self,
        epsilon: float = 1.0,
        *,
        loss: str | Loss = "huber",
        clip_norm: float | None = None,
        gradient_tol: float = 0.0001,
        output_share: float = 0.01,
        data_norm: float | Literal["max"] = 1.0,
        f: float = 1.3,
        l2_reg: float | None = None,
        solver: str | Solver = "auto",
        max_passes: int = 10_000,
        fit_intercept: bool = True,
        random_state: RandomState = None,
        callback: Callable[[int, float], object] | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.loss = loss
        self.clip_norm = clip_norm
        self.gradient_tol = gradient_tol
        self.output_share = output_share
        self.data_norm = data_norm
        self.f = f
        self.l2_reg = l2_reg
        self.solver = solver
        self.max_passes = max_passes
        self.fit_intercept = fit_intercept
        self.random_state = random_state
        self.callback = callback
