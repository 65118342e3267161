"""Bounds on the excess empirical risk of objective perturbation: the cost of privacy in accuracy.

F(theta) is the sum of the n convex losses, J(theta) = F(theta) + (lambda/2) |theta|^2 the regularised objective,
b ~ N(0, sigma^2 I) the linear term and theta_hat the minimiser of J(theta) + b.theta. Algorithm 1 stops at a point
whose gradient norm is at most tau and releases theta_out, that point plus N(0, sigma_out^2 I). Risk is in the units
of F: a sum over records, never a mean. theta* is any fixed point to compare with, the minimiser of F if there is one.

None of these numbers is private: |theta*|, X and y come from the data. Use public data or an assumption for them.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from scipy.optimize import minimize_scalar
from scipy.special import chdtrc, chdtri

from explorer.accounting import InfeasibleTarget, calibrate, calibrate_gaussian, frontier
from explorer.learning.losses import Loss
from explorer.learning.types import Array, FeatureMatrix
from explorer.validation import natural, non_negative, positive, real, real_array

_INFEASIBLE = 700.0  # log risk where no noise is private: finite, as the search for the minimum requires
_LARGEST_L2_REG = 1e30  # where the search for a private l2_reg ends
_CELLS, _TAIL = 64, 1e-9  # number of cells of the distance to the minimiser, and the probability of larger noise


@dataclass(frozen=True, kw_only=True)
class ExcessRisk:
    """A bound on E[F(theta_out)] - F(theta*) and its three parts, each a float or an array of one shape.

    Attributes
    ----------
    solver : n L (tau / lambda + sigma_out sqrt(d)), for stopping early and for the output noise
    noise : d sigma^2 / (4 lambda), for the linear term
    regulariser : (lambda / 4) |theta*|^2, for shrinkage towards 0
    """

    solver: Any
    noise: Any
    regulariser: Any

    @property
    def total(self) -> Any:
        """The bound: the sum of the parts."""
        return self.solver + self.noise + self.regulariser

    @property
    def published(self) -> Any:
        """The bound with the constants of the literature, d sigma^2 / (2 lambda) + (lambda / 2) |theta*|^2."""
        return self.solver + 2 * (self.noise + self.regulariser)


@dataclass(frozen=True, kw_only=True)
class RiskOptimum:
    """The parameters with the smallest bound on the excess risk.

    Attributes
    ----------
    l2_reg, noise_std : float, lambda and sigma
    risk : ExcessRisk, the bound there
    """

    l2_reg: float
    noise_std: float
    risk: ExcessRisk


@dataclass(frozen=True, kw_only=True)
class OutputStep:
    """The output step of Algorithm 1: stop at |gradient| <= gradient_tol, then add N(0, output_noise_std^2 I)."""

    gradient_tol: float
    output_noise_std: float


def excess_risk_bound(
    *,
    n_records: ArrayLike,
    dimension: ArrayLike,
    lipschitz: ArrayLike,
    noise_std: ArrayLike,
    l2_reg: ArrayLike,
    optimum_norm: ArrayLike,
    gradient_tol: ArrayLike = 0.0,
    output_noise_std: ArrayLike = 0.0,
) -> ExcessRisk:
    """Bound on E[F(theta_out)] - F(theta*), the excess empirical risk of Algorithm 1.

        n L (tau / lambda + sigma_out sqrt(d)) + d sigma^2 / (4 lambda) + (lambda / 4) |theta*|^2

    Let v = theta_hat - theta*. A subgradient of F at theta_hat is -b - lambda theta_hat, so by convexity, for every b,

        F(theta_hat) - F(theta*) <= -(b + lambda theta_hat).v = -(b + lambda theta*).v - lambda |v|^2,

    which is at most |b + lambda theta*|^2 / (4 lambda) for every v, however it depends on b. Its expectation is
    (d sigma^2 + lambda^2 |theta*|^2) / (4 lambda). The published form, which compares objective values, is twice as
    large. The constant is optimal: F = c |theta - theta*| with c = |b + lambda theta*| / 2 attains it, and |b|
    concentrates in high dimension. F is n L-Lipschitz; the solver's point is within tau / lambda of theta_hat since J
    is lambda-strongly convex, and the output noise has mean length at most sigma_out sqrt(d).

    Parameters
    ----------
    n_records, dimension : int >= 1, n and d; all parameters may be arrays that broadcast
    lipschitz : > 0, L, bound on the gradient norm of one record's loss (the clipping norm where gradients are clipped)
    noise_std : >= 0, sigma
    l2_reg : > 0, lambda
    optimum_norm : >= 0, |theta*|
    gradient_tol, output_noise_std : >= 0, tau and sigma_out; 0 for the exact minimiser

    Returns
    -------
    ExcessRisk

    Raises
    ------
    ValueError if a parameter is out of range.

    References: Redberg, Koskela & Wang 2023; Kifer, Smith & Thakurta 2012, for the published constants.
    """
    n, d = _counts("n_records", n_records), _counts("dimension", dimension)
    slope, l2_reg = n * _positives("lipschitz", lipschitz), _positives("l2_reg", l2_reg)
    tol, spread = _non_negatives("gradient_tol", gradient_tol), _non_negatives("output_noise_std", output_noise_std)
    sigma, norm = _non_negatives("noise_std", noise_std), _non_negatives("optimum_norm", optimum_norm)
    solver = slope * (tol / l2_reg + spread * np.sqrt(d))
    noise, regulariser = d * sigma**2 / (4 * l2_reg), l2_reg * norm**2 / 4
    solver, noise, regulariser = np.broadcast_arrays(solver, noise, regulariser)
    return ExcessRisk(solver=solver[()], noise=noise[()], regulariser=regulariser[()])


def best_l2_reg(
    *,
    n_records: int,
    dimension: int,
    lipschitz: float,
    noise_std: float,
    optimum_norm: float,
    gradient_tol: float = 0.0,
    output_noise_std: float = 0.0,
) -> RiskOptimum:
    """The lambda with the smallest `excess_risk_bound` at fixed noise: sqrt(d sigma^2 + 4 n L tau) / |theta*|.

    The bound is A / lambda + B lambda plus a constant, A = d sigma^2 / 4 + n L tau and B = |theta*|^2 / 4. It is
    smallest at sqrt(A / B), where the two terms are equal and sum to |theta*| sqrt(d sigma^2 + 4 n L tau) / 2.

    Parameters: as in `excess_risk_bound`, single numbers, with noise_std > 0 and optimum_norm > 0 (at 0 the best
    lambda is infinite). Returns a RiskOptimum; raises ValueError if a parameter is out of range. Whether this
    (lambda, sigma) meets a privacy target is not checked: see `best_private_parameters`.
    """
    n, d = natural("n_records", n_records), natural("dimension", dimension)
    sigma, norm = positive("noise_std", noise_std), positive("optimum_norm", optimum_norm)
    spread = d * sigma**2 + 4 * n * positive("lipschitz", lipschitz) * non_negative("gradient_tol", gradient_tol)
    l2_reg = float(np.sqrt(spread)) / norm
    risk = excess_risk_bound(
        n_records=n,
        dimension=d,
        lipschitz=lipschitz,
        noise_std=sigma,
        l2_reg=l2_reg,
        optimum_norm=norm,
        gradient_tol=gradient_tol,
        output_noise_std=output_noise_std,
    )
    return RiskOptimum(l2_reg=l2_reg, noise_std=sigma, risk=risk)


def best_private_parameters(
    bound: Callable,
    mechanism: Callable,
    *,
    epsilon: float,
    delta: float,
    n_records: int,
    dimension: int,
    optimum_norm: float,
) -> RiskOptimum:
    """The private (lambda, sigma) with the smallest `excess_risk_bound`.

    Every lambda requires a least noise sigma(lambda), which decreases to a limit; the risk A(lambda) / lambda +
    B lambda is minimised on a logarithmic scale. Without privacy loss from curvature, sigma would be sigma_G of the
    Gaussian mechanism, so the risk is at least sigma_G sqrt(d) |theta*| / 2, and a lambda whose risk with sigma_G
    exceeds a risk already found is not evaluated. sigma_G is of the order L sqrt(log(1/delta)) / epsilon: the risk
    L |theta*| sqrt(d log(1/delta)) / epsilon is the optimal rate for sums of Lipschitz convex losses.

    Parameters
    ----------
    bound : callable, mechanism to PrivacyBound
    mechanism : callable that accepts `noise_std` and `l2_reg` as keywords and returns a mechanism, such as
        functools.partial(ObjectivePerturbation, lipschitz=1, smoothness=0.25); tau and sigma_out, if it has them, are
        kept and their risk is included
    epsilon : float >= 0, nats
    delta : float inside (0, 1)
    n_records, dimension : int >= 1
    optimum_norm : float > 0, |theta*|

    Returns
    -------
    RiskOptimum; bound(mechanism(noise_std=..., l2_reg=...)) guarantees (epsilon, delta), and the risk is within a
    relative 1e-4 of the least

    Raises
    ------
    InfeasibleTarget (a ValueError) if no l2_reg up to 1e30 reaches the target.

    References: Bassily, Smith & Thakurta 2014 for the optimal rate; Redberg, Koskela & Wang 2023.

    Examples
    --------
    >>> from explorer.accounting import ObjectivePerturbation, RefinedBound
    >>> family = partial(ObjectivePerturbation, lipschitz=1.0, smoothness=0.25)
    >>> best = best_private_parameters(
    ...     RefinedBound, family, epsilon=1.0, delta=1e-5, n_records=1000, dimension=20, optimum_norm=2.0
    ... )
    >>> round(best.l2_reg, 1), round(best.noise_std, 2), round(float(best.risk.total), 1)
    (8.7, 3.88, 17.4)
    """
    problem = {
        "n_records": natural("n_records", n_records),
        "dimension": natural("dimension", dimension),
        "optimum_norm": positive("optimum_norm", optimum_norm),
    }

    @cache  # the search evaluates the best grid point again
    def optimum(l2_reg: float) -> RiskOptimum:
        family = partial(mechanism, l2_reg=l2_reg)
        private: Any = calibrate(bound, family, parameter="noise_std", epsilon=epsilon, delta=delta).mechanism
        return RiskOptimum(l2_reg=l2_reg, noise_std=private.noise_std, risk=_risk_of(private, **problem))

    @cache
    def log_risk(log_l2_reg: float) -> float:
        try:
            return float(np.log(optimum(float(np.exp(log_l2_reg))).risk.total))
        except InfeasibleTarget:
            return _INFEASIBLE

    # one mechanism provides lipschitz, tau and sigma_out; its noise is replaced by the lower bound sigma_G
    example = mechanism(l2_reg=1.0, noise_std=1.0)
    gaussian = calibrate_gaussian(epsilon=epsilon, delta=delta, sensitivity=example.lipschitz).value
    ideal = best_l2_reg(lipschitz=example.lipschitz, noise_std=gaussian, **_output_step_of(example), **problem)
    start = ideal.l2_reg
    while start < _LARGEST_L2_REG and log_risk(np.log(start)) == _INFEASIBLE:
        start *= 4
    slack = optimum(start).risk.total / ideal.risk.total  # raises InfeasibleTarget if no start was feasible
    return optimum(float(np.exp(_argmin(log_risk, *_candidate_interval(ideal, slack)))))


def best_on_frontier(
    bound: Callable,
    mechanism: Callable,
    *,
    noise_std: Array,
    l2_reg: Array,
    epsilon: float,
    delta: float,
    n_records: int,
    dimension: int,
    optimum_norm: float,
) -> RiskOptimum:
    """The private (lambda, sigma) with the smallest `excess_risk_bound`, from points of the frontier already known.

    The result is that of `best_private_parameters`, in a tenth of the time. Along the frontier the risk falls, then
    rises: the minimum is searched between the neighbours of the best point, and beyond the last as long as the risk
    falls. Below the first, sigma hardly decreases: the best lambda for that sigma is taken.

    Parameters
    ----------
    bound, mechanism, epsilon, delta : as in `best_private_parameters`
    noise_std, l2_reg : ndarrays (n,), n >= 2, increasing sigma and lambda = `frontier` of it, finite; dense enough to
        locate the minimum, starting near the least sigma of the whole frontier: if the best lambda is larger than the
        first, the relative loss in risk is twice the relative distance of the first sigma from the least
    n_records, dimension, optimum_norm : as in `best_private_parameters`

    Returns
    -------
    RiskOptimum; bound(mechanism(noise_std=..., l2_reg=...)) guarantees (epsilon, delta)
    """
    problem = {"n_records": n_records, "dimension": dimension, "optimum_norm": optimum_norm}

    def at(noise_std: float, l2_reg: float) -> RiskOptimum:
        private = mechanism(noise_std=float(noise_std), l2_reg=float(l2_reg))
        return RiskOptimum(l2_reg=l2_reg, noise_std=noise_std, risk=_risk_of(private, **problem))

    def between(log_noise: float) -> RiskOptimum:
        sigma = float(np.exp(log_noise))
        smallest = frontier(bound, mechanism, noise_std=sigma, epsilon=epsilon, delta=delta, tolerance=1e-6)
        return at(sigma, float(smallest))

    points = [at(*point) for point in zip(noise_std.tolist(), l2_reg.tolist(), strict=True)]
    best = min(range(len(points)), key=lambda i: points[i].risk.total)
    if best == 0:
        first = mechanism(noise_std=points[0].noise_std, l2_reg=points[0].l2_reg)
        output = _output_step_of(first)
        free = best_l2_reg(lipschitz=first.lipschitz, noise_std=first.noise_std, **output, **problem)
        if free.l2_reg >= first.l2_reg:
            return free
    while best == len(points) - 1:  # ends: where lambda hardly decreases, the risk grows with sigma^2
        points.append(between(np.log(10 * points[-1].noise_std)))
        best += points[-1].risk.total < points[best].risk.total
    low, high = points[max(best - 1, 0)].noise_std, points[best + 1].noise_std
    ends, options = (float(np.log(low)), float(np.log(high))), {"xatol": 1e-2 * float(np.log(high / low))}
    found: Any = minimize_scalar(lambda x: float(between(x).risk.total), bounds=ends, method="bounded", options=options)
    return min(points[best], between(float(found.x)), key=lambda point: point.risk.total)


def _candidate_interval(ideal: RiskOptimum, slack: float) -> tuple[float, float]:
    """The interval of log lambda where even the noise sigma_G allows a risk within `slack` of the ideal optimum.

    Written A/lambda + B lambda + c with least value R + c at lambda_0: the risk is slack (R + c) where
    lambda/lambda_0 + lambda_0/lambda = 2 (slack + (slack - 1) c / R), at log lambda_0 -+ arccosh of half of that.
    """
    ascent = float(2 * ideal.risk.regulariser)
    constant = float(ideal.risk.total) - ascent
    reach = np.arccosh(max(1.0, slack + (slack - 1) * constant / ascent)) + 1e-6
    return np.log(ideal.l2_reg) - reach, np.log(ideal.l2_reg) + reach


def _argmin(function: Callable[[float], float], low: float, high: float) -> float:
    """The minimiser of a function that is smooth except for a few kinks: by a grid, then between its neighbours."""
    grid = np.linspace(low, high, 17).tolist()
    best = min(range(len(grid)), key=lambda i: function(grid[i]))
    around = grid[max(best - 1, 0)], grid[min(best + 1, len(grid) - 1)]
    found: Any = minimize_scalar(function, bounds=around, method="bounded", options={"xatol": 1e-4})
    return min(float(found.x), grid[best], key=function)


def _output_step_of(mechanism: Any) -> dict[str, float]:
    """tau and sigma_out as keywords; both 0 for a mechanism that releases the exact minimiser."""
    return {name: getattr(mechanism, name, 0.0) for name in ("gradient_tol", "output_noise_std")}


def _risk_of(mechanism: Any, **problem: Any) -> ExcessRisk:
    parameters = {name: getattr(mechanism, name) for name in ("lipschitz", "noise_std", "l2_reg")}
    return excess_risk_bound(**parameters, **_output_step_of(mechanism), **problem)


def glm_trace_bound(X: FeatureMatrix, *, noise_std: float, l2_reg: float, curvature: float) -> float:
    """Excess of the linear term in a generalised linear model: (sigma^2 / 2) tr((m X^T X + lambda I)^-1).

    Bounds E[J(theta_hat)] - min J, the regularised objective, when f'' >= m at every margin between x_i.theta_J and
    x_i.theta_hat, with theta_J the minimiser of J. There J exceeds its tangents by at least half the squared norm given
    by H = m X^T X + lambda I; the gradient of J at theta_hat is -b, so with v = theta_hat - theta_J

        J(theta_hat) - J(theta_J) <= -b.v - v.H v / 2 <= b.H^-1 b / 2,

    for every b, and the expectation is the trace. For the squared loss, m = 1, it is the exact value.
    Since min J <= F(theta*) + (lambda / 2) |theta*|^2, adding that term bounds E[F(theta_hat)] - F(theta*).

    The published form, (M sigma^2 / m^2) tr((X^T X + lambda I)^-1) for m <= 1 <= M, follows where m <= f'' <= M and is
    never smaller. With m and M as bounds on f instead of f'' it is false, and also for m > 1 (m must not multiply
    lambda); no upper bound M is needed.

    Parameters
    ----------
    X : ndarray or CSR matrix (n, d)
    noise_std : float > 0, sigma
    l2_reg : float > 0, lambda
    curvature : float > 0, m; see `minimum_curvature`. b is unbounded, and so are the margins: where m holds only for
        bounded margins, as for the logistic loss, this bounds the contribution of such margins to the expectation, and
        `local_trace_bound` bounds all of it.

    Returns
    -------
    float, in the units of J

    Raises
    ------
    ValueError if a parameter is out of range. With curvature 0 there is no trace bound: the excess is at most
    d sigma^2 / (2 lambda).

    References: Redberg, Koskela & Wang 2023, with the condition on f'' instead of f.
    """
    X, sigma, l2_reg = _matrix(X), positive("noise_std", noise_std), positive("l2_reg", l2_reg)
    rule = "a finite number > 0 (without curvature no trace bound exists, only dimension * noise_std^2 / (2 * l2_reg))"
    curvature = real("curvature", curvature, rule=rule, valid=lambda m: np.isfinite(m) & (m > 0))
    return float(sigma**2 / 2 * (1 / _eigenvalues(X, np.full(X.shape[0], curvature), l2_reg)).sum())


def minimum_curvature(loss: Loss, *, margin_bound: float, labels: ArrayLike = (-1.0, 1.0)) -> float:
    """m = min of f''(u; y) over |u| <= margin_bound and the labels, for `glm_trace_bound`.

    Parameters
    ----------
    loss : Loss. Its f'' must be unimodal in u (squared, logistic, Huber, smoothed hinge, Poisson), so that the smallest
        value in an interval is at an end.
    margin_bound : float >= 0, possibly infinite; data_norm * R when |theta| <= R
    labels : array_like, the possible values of y

    Returns
    -------
    float > 0

    Raises
    ------
    ValueError if m is 0: no trace bound exists on this range of margins.
    """
    reach = real("margin_bound", margin_bound, rule=">= 0", valid=lambda x: x >= 0)
    least = float(np.min(_least_curvature(loss, 0.0, reach, real_array("labels", labels))))
    if not least > 0:
        raise ValueError(
            "margin_bound must be such that f'' > 0 up to it: no trace bound exists where f'' reaches 0, "
            f"got margin_bound={reach!r}, loss={loss!r}"
        )
    return least


def local_trace_bound(
    X: FeatureMatrix, y: ArrayLike, *, loss: Loss, minimiser: ArrayLike, noise_std: float, l2_reg: float
) -> float:
    """Bound on E[J(theta_hat)] - min J, also for curvature that vanishes at large margins: an average of trace bounds.

    Within distance r of theta_J margin i moves by at most |x_i| r. With m_i(r) the least f'' within that distance of
    x_i.theta_J, the Hessian of J is at least H(r) = sum_i m_i(r) x_i x_i^T + lambda I there, which decreases in r. The
    gradient of J at theta_hat is -b, so theta_hat is further than r only if |b| > G(r), the integral from 0 to r of H's
    least eigenvalue; otherwise the excess is at most b.H(r)^-1 b / 2 (see `glm_trace_bound`). The direction of b is
    uniform and independent of its length, so the mean of that over |b| in a cell (G(r'), G(r)] is

        (sigma^2 / 2) tr(H(r)^-1) Pr[G(r') < sigma chi_{d+2} <= G(r)],

    chi_{d+2} because the weight |b|^2 adds two degrees of freedom. The sum over cells is the bound, each with G from
    the outer ends (which makes it smaller) and with H(r) = lambda I beyond the last.

    Parameters
    ----------
    X : ndarray or CSR matrix (n, d)
    y : ndarray (n,), in the encoding of the loss
    loss : as in `minimum_curvature`
    minimiser : ndarray (d,), theta_J; the gradient of J there must be negligible compared with the noise
    noise_std : float > 0, sigma
    l2_reg : float > 0, lambda

    Returns
    -------
    float, in the units of J; never above d sigma^2 / (2 lambda)

    Raises
    ------
    ValueError if a parameter is out of range, or the gradient is longer than 1e-4 sigma sqrt(d).
    """
    X, sigma, l2_reg = _matrix(X), positive("noise_std", noise_std), positive("l2_reg", l2_reg)
    minimiser = real_array("minimiser", minimiser, rule="finite", valid=np.isfinite)
    margins, d = np.asarray(X @ minimiser), X.shape[1]
    slope = float(np.linalg.norm(X.T @ loss.derivative(margins, y) + l2_reg * minimiser))
    if not slope <= 1e-4 * sigma * np.sqrt(d):
        raise ValueError(f"minimiser must minimise J for l2_reg={l2_reg!r}: the gradient there has norm {slope:.3g}")
    squares = X.multiply(X) if sparse.issparse(X) else X * X
    norms = np.sqrt(np.asarray(squares.sum(axis=1)).ravel())
    longest = sigma * np.sqrt(chdtri(d + 2, _TAIL))  # |b|
    stiffest = _eigenvalues(X, loss.second_derivative(margins, y), l2_reg).max()
    distances = np.geomspace(longest / stiffest / 10, longest / l2_reg, _CELLS)
    spectra = np.array([_eigenvalues(X, _least_curvature(loss, margins, norms * r, y), l2_reg) for r in distances])
    reached_by = np.cumsum(spectra.min(axis=1) * np.diff(distances, prepend=0))  # G
    weights = -np.diff(chdtrc(d + 2, (reached_by / sigma) ** 2), prepend=1, append=0)
    traces = np.append((1 / spectra).sum(axis=1), d / l2_reg)
    return float(sigma**2 / 2 * weights @ traces)


def output_step(
    *, extra_risk: float, rho: float, n_records: int, dimension: int, lipschitz: float, l2_reg: float
) -> OutputStep:
    """tau and sigma_out of Algorithm 1 that add at most `extra_risk` and are rho-zCDP.

    Two points with gradient norm at most tau are within 2 tau / lambda of each other, so the output step is a Gaussian
    mechanism of sensitivity 2 tau / lambda: rho-zCDP with sigma_out^2 = 2 tau^2 / (lambda^2 rho). (The published value,
    tau^2 / (2 lambda^2 rho), is a quarter of it and gives 4 rho.) Then n L (tau / lambda + sigma_out sqrt(d)) =
    extra_risk is linear in tau:

        tau = lambda extra_risk / (n L (1 + sqrt(2 d / rho))).

    A solver must be able to verify that tau: it has to stay well above the rounding error of a gradient.

    Parameters
    ----------
    extra_risk : float > 0, in the units of F
    rho : float > 0, the output step's share of zero-concentrated differential privacy; its RDP is rho alpha
    n_records, dimension : int >= 1
    lipschitz, l2_reg : float > 0, L and lambda

    Returns
    -------
    OutputStep

    Raises
    ------
    ValueError if a parameter is out of range.

    References: Bun & Steinke 2016 for zCDP; Redberg, Koskela & Wang 2023.
    """
    rho, slope = positive("rho", rho), natural("n_records", n_records) * positive("lipschitz", lipschitz)
    noise_per_distance = np.sqrt(2 / rho)  # sigma_out in units of tau / lambda
    distance = positive("extra_risk", extra_risk) / (
        slope * (1 + noise_per_distance * np.sqrt(natural("dimension", dimension)))
    )
    return OutputStep(
        gradient_tol=float(distance * positive("l2_reg", l2_reg)),
        output_noise_std=float(noise_per_distance * distance),
    )


def _least_curvature(loss: Loss, centre: Any, reach: Any, y: Any) -> Array:
    """min of f''(u; y) over |u - centre| <= reach: at one of the ends, as f'' has a single peak."""
    return np.minimum(loss.second_derivative(centre - reach, y), loss.second_derivative(centre + reach, y))


def _eigenvalues(X: FeatureMatrix, weights: Array, l2_reg: float) -> Array:
    """The d eigenvalues of X^T diag(weights) X + l2_reg I, from the smaller of the two Gram matrices."""
    n, d = X.shape
    root = sparse.diags_array(np.sqrt(weights)) @ X
    gram = root.T @ root if d <= n else root @ root.T
    eigenvalues = np.linalg.eigvalsh(gram.toarray() if sparse.issparse(gram) else gram)
    return np.append(np.maximum(eigenvalues, 0), np.zeros(max(d - n, 0))) + l2_reg


def _matrix(X: FeatureMatrix) -> FeatureMatrix:
    if sparse.issparse(X):
        return X
    X = real_array("X", X, rule="a matrix of finite numbers", valid=np.isfinite)
    if X.ndim != 2:
        raise ValueError(f"X must be a matrix (n_records, dimension): got an array of shape {X.shape}")
    return X


def _counts(name: str, value: ArrayLike) -> Array:
    rule = "an integer >= 1"
    return real_array(name, value, rule=rule, valid=lambda x: np.isfinite(x) & (x >= 1) & (x == np.floor(x)))


def _positives(name: str, value: ArrayLike) -> Array:
    return real_array(name, value, rule="a finite number > 0", valid=lambda x: np.isfinite(x) & (x > 0))


def _non_negatives(name: str, value: ArrayLike) -> Array:
    return real_array(name, value, rule="a finite number >= 0", valid=lambda x: np.isfinite(x) & (x >= 0))
