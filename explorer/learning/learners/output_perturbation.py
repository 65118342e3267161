"""Output perturbation: the regularised minimum plus noise, as scikit-learn estimators."""

from dataclasses import replace
from functools import partial

import numpy as np

from explorer.accounting import (
    Gaussian,
    GaussianLowerBound,
    OutputPerturbation,
    PureBound,
    PureOutputPerturbation,
    calibrate_gaussian,
)
from explorer.learning.certificate import ASSUMPTIONS, certified_minimum
from explorer.learning.learners.linear import (
    PrivateLearner,
    PrivateLinearClassifier,
    PrivateLinearRegressor,
    Release,
    estimator,
)
from explorer.learning.noise import coordinate_std, draw_noise
from explorer.learning.objective import PerturbedObjective
from explorer.learning.privacy import PrivacyStatement
from explorer.validation import positive, real

_ROUNDING = 1e-14  # epsilon is not exceeded by the rounding of what it is made of


class _OutputPerturbationLearner(PrivateLearner):
    """Output perturbation on one problem; the parameters are those of OutputPerturbationClassifier."""

    epsilon: float = 1.0
    delta: float = 1e-5
    loss: object = "logistic"
    clip_norm: float | None = None
    gradient_tol: float = 0.001
    output_noise_std: float = 0.15
    data_norm: float | str = 1.0
    l2_reg: float | None = None
    solver: object = "auto"
    max_passes: int = 10_000

    def _plan(self, problem):
        epsilon = positive("epsilon", self.epsilon)
        delta = real("delta", self.delta, rule="inside [0, 1)", valid=lambda x: (x >= 0) & (x < 1))
        plan = partial(
            _gaussian_plan if delta > 0 else _pure_plan,
            epsilon=epsilon,
            delta=delta,
            uses=problem.uses,
            lipschitz=problem.sensitivity(self.clip_norm)[0],
            gradient_tol=self.gradient_tol,
        )
        l2_reg = self.l2_reg
        if l2_reg is None:  # the noise is inversely proportional to it
            unit = coordinate_std(plan(l2_reg=1.0).mechanism.output_step, dimension=problem.dimension)
            l2_reg = unit / positive("output_noise_std", self.output_noise_std)
        return plan(l2_reg=l2_reg)

    def _release(self, records, problem, plan, rng):
        mechanism = plan.mechanism
        objective = PerturbedObjective(
            records,
            loss=problem.loss,
            l2_reg=mechanism.l2_reg,
            linear_term=np.zeros(problem.dimension),
            clip_norm=problem.sensitivity(self.clip_norm)[1],
        )
        solution = certified_minimum(
            objective,
            solver=self.solver,
            gradient_tol=mechanism.gradient_tol,
            max_passes=self.max_passes,
            callback=self.callback,
        )
        theta = solution.x + draw_noise(mechanism.output_step, dimension=problem.dimension, rng=rng)
        return Release(theta, solution.n_gradient_evaluations, solution.gradient_norm)


def _gaussian_plan(*, epsilon, delta, uses, **parameters):
    """`uses` Gaussian mechanisms of one sensitivity and noise are one of sensitivity sqrt(uses) times as large."""
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
    """An equal share of epsilon for each use; their sum is what all of them cost."""
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


@estimator
class OutputPerturbationClassifier(PrivateLinearClassifier, _OutputPerturbationLearner):
    """Differentially private linear classification by output perturbation.

    Minimises sum_i f(x_i.theta; y_i) + (lambda/2) |theta|^2, y_i = -1 or +1, until |gradient| <= tau is verified, and
    releases theta plus noise. One record more or less moves the point found by (L + 2 tau) / lambda at most: the
    gradient there changes by L, each solver leaves tau, and lambda-strong convexity turns a gradient of g into a
    distance of g / lambda at most. The noise is N(0, sigma_out^2 I) by the analytic Gaussian mechanism, or, for
    delta = 0, of density proportional to e^(-|noise| / scale), scale = (L + 2 tau) / (lambda epsilon). With m > 2
    classes this is done once for each class against the rest: jointly a sensitivity of sqrt(m) times as much for the
    Gaussian, epsilon / m for each without delta.

    Parameters
    ----------
    epsilon : float > 0, nats
    delta : float inside [0, 1); 0 asks for pure epsilon
    loss : name or object of `explorer.learning.losses` for labels -1, +1: "logistic", "smoothed_hinge", "probit"
    clip_norm : float > 0, C, or None for the loss's own bound L on the gradient (with the constant column counted);
        needed where that is infinite
    gradient_tol : float > 0, tau, for the gradient of the *sum* of losses
    output_noise_std : float > 0, sigma_out, for the rule of l2_reg
    data_norm : float > 0; longer rows are scaled down to it, never trusted. "max" takes the data's largest norm, which
        is not private, and says so with a PrivacyWarning
    l2_reg : float > 0, lambda, or None for the smallest at which the released coefficients carry noise of standard
        deviation output_noise_std each, and so any margin x.theta one of |x| times as much; a rule of public numbers
        alone, the noise being that of `AMPClassifier`'s output step. The best value grows with the number of records,
        which is not public here: give it where a guess is. When given, output_noise_std is not used
    solver : "auto", or a name or function of `explorer.learning.solvers`; where it does not get there, one that always
        converges takes over
    max_passes : int >= 1, limit on evaluations of the whole objective by `solver`
    fit_intercept : bool; the constant column counts in the row norm, is regularised and perturbed like the rest
    classes : array of the labels, or None to take those in y for public
    random_state : None (seeded by the operating system), int or numpy Generator. A seed that others know voids privacy.
    callback : callable (n_gradient_evaluations, gradient_norm) or None; an exception it raises aborts the fit.
        What it sees is not private.

    Attributes
    ----------
    coef_ : ndarray (1, p) or (m, p), intercept_ : ndarray (1,) or (m,), classes_ : ndarray, n_features_in_ : int
    privacy_ : PrivacyStatement
    n_gradient_evaluations_ : int, of single records

    Raises
    ------
    NoReleaseError if gradient_tol lies below what floating point can verify: nothing is released, no attribute is set.
    ValueError for parameters out of range.

    Notes
    -----
    The noise is drawn in floating point: `explorer.learning.noise` says what its low bits can reveal.

    References: Chaudhuri, Monteleoni, Sarwate 2011, Algorithm 1; Balle & Wang 2018.

    Examples
    --------
    >>> from sklearn.datasets import make_blobs
    >>> X, y = make_blobs(2000, centers=[[-0.5, 0], [0.5, 0]], cluster_std=0.2, random_state=0)
    >>> OutputPerturbationClassifier(epsilon=1.0, random_state=0).fit(X, y).score(X, y) > 0.9
    True
    """


@estimator
class OutputPerturbationRegressor(PrivateLinearRegressor, _OutputPerturbationLearner):
    """Differentially private linear regression by output perturbation: `OutputPerturbationClassifier` for real targets.

    Targets need no bound: one record's gradient is bounded by the loss's slope or by clip_norm.

    Parameters
    ----------
    loss : name or object of `explorer.learning.losses` for real targets: "huber", "pseudo_huber", "log_cosh", "squared"
        (whose slope is unbounded: clip_norm must be given)
    epsilon, delta, clip_norm, gradient_tol, output_noise_std, data_norm, l2_reg, solver, max_passes, fit_intercept,
    random_state, callback : as in `OutputPerturbationClassifier`

    Attributes
    ----------
    coef_ : ndarray (p,), intercept_ : float, n_features_in_ : int
    privacy_ : PrivacyStatement
    n_gradient_evaluations_ : int, of single records

    Raises
    ------
    As `OutputPerturbationClassifier`.

    References: Chaudhuri, Monteleoni, Sarwate 2011, Algorithm 1.
    """
