"""Renyi differential privacy: the divergence of each mechanism at every order alpha >= 1, and the bound that follows.

All functions are elementwise in alpha and return nats: the limit (the Kullback-Leibler divergence) at alpha = 1,
infinity at alpha = infinity. They raise ValueError for alpha < 1.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property, singledispatch

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize.elementwise import find_root
from scipy.special import erf, log_ndtr

from explorer.accounting.conversion import CanonneKamathSteinke, Conversion, Optimum, kl_log_delta, minimise_over_orders
from explorer.accounting.mechanisms import ApproximateMinimaPerturbation, Gaussian, ObjectivePerturbation
from explorer.accounting.protocol import ProfileBound, log_target, require_l2_reg_above_smoothness
from explorer.accounting.types import Divergence, FloatArray
from explorer.validation import delta_array, epsilon_array, natural, order_array, positive, real

# The non-GLM integrand is a polynomial times e^(tz - z^2/2) and falls below e^-50 of its peak within 10 of its mode:
# on that interval this rule is exact to rounding.
_RADIUS = 10.0
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(96)


def normal_rdp(alpha: ArrayLike, *, sensitivity_ratio: float) -> FloatArray:
    """alpha s^2 / 2, the Gaussian mechanism's divergence, for s = sensitivity / noise_std.

    References: Mironov 2017, Proposition 7.
    """
    s = positive("sensitivity_ratio", sensitivity_ratio)
    return order_array(alpha) * s * s / 2  # not alpha * (s * s): infinity times an underflow to 0 is nan


def half_normal_rdp(alpha: ArrayLike, *, sensitivity_ratio: float) -> FloatArray:
    """s^2/2 + log E e^((alpha-1)|X|) / (alpha-1), X ~ N(0, s^2): the divergence of the half-normal mechanism.

    With t = (alpha - 1) s the log-moment is t^2/2 + log(2 Phi(t)), and log(2 Phi(t)) = log1p(erf(t / sqrt 2)) has no
    cancellation as alpha -> 1, where the limit is s^2/2 + s sqrt(2/pi).

    Parameters
    ----------
    alpha : array_like, any shape, >= 1
    sensitivity_ratio : float > 0, s = L / sigma

    Returns
    -------
    ndarray of alpha's shape, nats

    References: Redberg, Koskela & Wang 2023, RDP theorem, without its leading term.
    """
    s = positive("sensitivity_ratio", sensitivity_ratio)
    excess = order_array(alpha) - 1
    t = excess * s
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        log_mass = np.where(t < 1, np.log1p(erf(t / np.sqrt(2))), np.log(2) + log_ndtr(t))
        fold = np.where(t < 1e-290, s * np.sqrt(2 / np.pi), log_mass / excess)
    return (s * s / 2 + s * t / 2 + fold)[()]


def objective_perturbation_rdp(alpha: ArrayLike, *, sensitivity_ratio: float, curvature_ratio: float) -> FloatArray:
    """-log(1 - kappa) plus `half_normal_rdp`: a bound on the divergence of objective perturbation, for kappa < 1.

    Parameters
    ----------
    alpha : array_like, any shape, >= 1
    sensitivity_ratio : float > 0, s = L / sigma
    curvature_ratio : float in (0, 1), kappa = beta / lambda

    Returns
    -------
    ndarray of alpha's shape, nats. At alpha = 1 the limit, which is below the value the paper states there.

    References: Redberg, Koskela & Wang 2023, RDP theorem.
    """
    return half_normal_rdp(alpha, sensitivity_ratio=sensitivity_ratio) - np.log1p(-_curvature(curvature_ratio))


def linearised_rdp(
    alpha: ArrayLike, *, sensitivity_ratio: float, curvature_ratio: float, hoelder_p: float | None = None
) -> FloatArray:
    """The linearised bound on the divergence of objective perturbation: with t = alpha - 1 and 1/p + 1/q = 1,

        -log(1 - kappa) + s^2/2 + p t s^2/2 - log(1 - 2 q t kappa) / (2 q t),    where q t kappa < 1/2

    and infinity elsewhere; at alpha = 1 the limit -log(1 - kappa) + s^2/2 + kappa. The paper omits a factor 1/sigma^2
    in the exponent of its second expectation; with that factor the noise is standard normal and sigma cancels.

    Parameters
    ----------
    alpha : array_like, any shape, >= 1
    sensitivity_ratio : float > 0, s = L / sigma
    curvature_ratio : float in (0, 1), kappa = beta / lambda
    hoelder_p : float > 1, exponent of Hoelder's inequality, or None for the best one at each order

    Returns
    -------
    ndarray of alpha's shape, nats

    References: Redberg, Koskela & Wang 2023, linearised RDP bound (appendix).
    """
    s, kappa = positive("sensitivity_ratio", sensitivity_ratio), _curvature(curvature_ratio)
    excess = order_array(alpha) - 1
    if hoelder_p is None:
        u = _best_inverse_hoelder(excess, s, kappa)
    else:
        u = 1 / real("hoelder_p", hoelder_p, rule="a finite number > 1", valid=lambda p: np.isfinite(p) & (p > 1))
    with np.errstate(divide="ignore", invalid="ignore"):
        moment = kappa * _log1p_ratio(2 * excess * kappa / (1 - u))
        return (s * s / 2 - np.log1p(-kappa) + excess * s * s / (2 * u) + moment)[()]


def _best_inverse_hoelder(excess: FloatArray, s: float, kappa: float) -> FloatArray:
    """u = 1/p that minimises the linearised bound, elementwise; any u in (0, 1 - 2 t kappa) is valid.

    Both terms, t s^2 / (2u) and -((1-u) / 2t) log(1 - c/(1-u)) with c = 2 t kappa (a perspective), are convex in u, and
    the derivative increases from -inf to inf: it has one root.
    """
    c = 2 * np.minimum(excess * kappa, 0.5)

    def slope(w: FloatArray, c: FloatArray, excess: FloatArray) -> FloatArray:
        u = w * (1 - c)
        # With v = 1 - u and rise = c/(v - c), log(1 - c/v) + c/(v - c) = rise - log1p(rise), about rise^2/2. The
        # product (1 - w)(1 - c) is v - c without cancellation, which would give 0 where v is close to c.
        rise = c / ((1 - w) * (1 - c))
        gain = np.where(rise < 1e-4, rise**2 * (0.5 - rise / 3), rise - np.log1p(rise))
        return np.square(excess * s / u) - gain

    start = s / (s + np.sqrt(2) * kappa)  # the limit at alpha = 1
    active = (c > 0) & (c < 1)
    w = np.full(excess.shape, start)
    if active.any():
        tiny = 1e-12 * min(start, 1 - start)
        with np.errstate(over="ignore", divide="ignore"):
            root = find_root(slope, (tiny, 1 - 1e-15), args=(c[active], excess[active]), tolerances={"xrtol": 1e-10})
        w[active] = np.where(root.success, root.x, start)
    return w * (1 - c)


def linearised_add_rdp(alpha: ArrayLike, *, sensitivity_ratio: float, curvature_ratio: float) -> FloatArray:
    """The linearised bound without Hoelder's inequality, for the "add" direction only: with t = (alpha - 1) kappa,

        s^2/2 + (alpha - 1) s^2 / (2 (1 - 2t)) - log(1 - 2t) / (2 (alpha - 1)),    where t < 1/2

    and infinity elsewhere; at alpha = 1 the limit s^2/2 + kappa. There is no term -log(1 - kappa) and kappa may
    exceed 1. It is below `linearised_rdp` for every p.

    In units sigma = 1 let u be the component of the noise along the record's direction and g(u) the derivative of the
    record's loss at the minimiser: |g(u) - g(0)| <= kappa |u|, |g(0)| <= s, and g(0) depends on the orthogonal noise
    alone. So the privacy loss is at most s^2/2 - g(0) u + kappa u^2, and given the orthogonal noise its moment of order
    alpha - 1 is one Gaussian integral.

    Parameters, returns : as `linearised_rdp`, with curvature_ratio any float > 0
    """
    s, kappa = positive("sensitivity_ratio", sensitivity_ratio), positive("curvature_ratio", curvature_ratio)
    excess = order_array(alpha) - 1
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        remainder = 1 - 2 * excess * kappa
        shift = np.where(remainder > 0, excess * s * s / (2 * remainder), np.inf)
        return (s * s / 2 + shift + kappa * _log1p_ratio(2 * excess * kappa))[()]


def _log1p_ratio(x: FloatArray) -> FloatArray:
    """-log(1 - x) / x for x >= 0: 1 at x = 0, infinity for x >= 1."""
    inside = np.where((x > 0) & (x < 1), x, 0.5)
    return np.where(x >= 1, np.inf, np.where(x > 0, -np.log1p(-inside) / inside, 1.0))


def non_glm_rdp(alpha: ArrayLike, *, sensitivity_ratio: float, curvature_ratio: float, dimension: int) -> FloatArray:
    """A bound on the divergence of objective perturbation for a loss that is not a generalised linear model:

        -d log(1 - kappa) + s^2/2 + log E e^(t Z) / (alpha - 1),    t = (alpha - 1) s,  Z ~ chi_d

    in dimension d. At alpha = 1 the last term is s E[Z]. (The paper prints L / (2 sigma^2) for L^2 / (2 sigma^2).)

    With n = d - 1, E e^(tZ) is the ratio at t and at 0 of the integral over z > 0 of exp(n log z - z^2/2 + t z), whose
    mode is z_t = sqrt(n) e^a, a = asinh(t / (2 sqrt(n))). The peaks differ by n a + t z_t / 2, a sum of positive terms;
    the remaining factor is computed by a Gauss rule around each mode. Where t E[Z] is small the logarithm is log1p(E
    expm1(tZ)).

    Parameters
    ----------
    alpha : array_like, any shape, >= 1
    sensitivity_ratio : float > 0, s = L / sigma
    curvature_ratio : float in (0, 1), kappa = beta / lambda
    dimension : int >= 1, d

    Returns
    -------
    ndarray of alpha's shape, nats

    References: Redberg, Koskela & Wang 2023, RDP theorem for non-GLM losses (appendix).
    """
    s, kappa = positive("sensitivity_ratio", sensitivity_ratio), _curvature(curvature_ratio)
    d = natural("dimension", dimension)
    n = d - 1
    excess = order_array(alpha) - 1
    t = np.where(np.isinf(excess), 0.0, excess) * s
    mass_0, z_0 = _chi_mass(np.sqrt(n), n)
    mass_0, z_0 = mass_0[0], z_0[0]
    mean = mass_0 @ z_0 / mass_0.sum()
    turn = np.arcsinh(t / (2 * np.sqrt(n))) if n else np.zeros_like(t)
    mode = np.sqrt(n) * np.exp(turn) if n else t
    mass_t, _ = _chi_mass(mode.ravel(), n)
    log_ratio = np.log(mass_t.sum(axis=1) / mass_0.sum()).reshape(t.shape)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        far = s * mode / 2 + (n * turn + log_ratio) / excess
        small = np.minimum(t, 1 / mean)
        near = np.log1p(np.expm1(small[..., None] * z_0) @ mass_0 / mass_0.sum()) / excess
    moment = np.where(t * mean < 1, np.where(t < 1e-290, s * mean, near), far)
    return np.where(np.isinf(excess), np.inf, s * s / 2 - d * np.log1p(-kappa) + moment)[()]


def _chi_mass(mode: ArrayLike, n: int) -> tuple[FloatArray, FloatArray]:
    """Weighted samples of exp(n log z - z^2/2 + t z), relative to the peak at `mode`, and their z; rows are modes."""
    mode = np.atleast_1d(mode)[:, None]
    low, high = np.maximum(mode - _RADIUS, 0), mode + _RADIUS
    step = (low - mode) + (high - low) * (1 + _NODES) / 2
    relative = step / mode if n else np.zeros_like(step)
    return _WEIGHTS * (high - low) / 2 * np.exp(n * (np.log1p(relative) - relative) - step**2 / 2), mode + step


def _curvature(value: float) -> float:
    return real("curvature_ratio", value, rule="inside (0, 1)", valid=lambda x: (x > 0) & (x < 1))


@singledispatch
def rdp_of(mechanism: object) -> Divergence:
    """The Renyi divergence of `mechanism` as a function of alpha.

    Raises TypeError for a mechanism without a Renyi analysis, BoundNotApplicable where the conditions of its theorem do
    not hold.
    """
    raise TypeError(f"mechanism has no Renyi analysis: got mechanism={mechanism!r}")


@rdp_of.register
def _(mechanism: Gaussian) -> Divergence:
    return lambda alpha: normal_rdp(alpha, sensitivity_ratio=mechanism.sensitivity_ratio)


@rdp_of.register
def _(mechanism: ObjectivePerturbation) -> Divergence:
    require_l2_reg_above_smoothness(mechanism)
    ratios = {"sensitivity_ratio": mechanism.sensitivity_ratio, "curvature_ratio": mechanism.curvature_ratio}
    return lambda alpha: objective_perturbation_rdp(alpha, **ratios)


@rdp_of.register
def _(mechanism: ApproximateMinimaPerturbation) -> Divergence:
    # Adaptive composition with the output step, whose divergence is 2 tau^2 alpha / (sigma_out lambda)^2.
    objective, output_step = rdp_of(mechanism.objective), rdp_of(mechanism.output_step)
    return lambda alpha: objective(alpha) + output_step(alpha)


@dataclass(frozen=True)
class RenyiCurve:
    """A mechanism of which only this bound on its Renyi divergence is known: callable, elementwise in alpha >= 1."""

    rdp: Divergence


@rdp_of.register
def _(mechanism: RenyiCurve) -> Divergence:
    return mechanism.rdp


class RenyiBound(ProfileBound):
    """The (epsilon, delta) that follow from a mechanism's Renyi divergence at its best order.

    Parameters
    ----------
    mechanism : Gaussian, ObjectivePerturbation, ApproximateMinimaPerturbation, PoissonSubsampledGaussian or any other
        registered with `explorer.accounting.bounds.renyi.rdp_of`
    uses : int >= 1, number of runs on the same data; divergences of adaptive compositions add up
    orders : array_like of orders >= 1 to choose from, or None for a continuous search over alpha in (1, 10^12]
    conversion : `CanonneKamathSteinke` (default) or `Mironov`

    Raises
    ------
    BoundNotApplicable (a ValueError) for objective perturbation with l2_reg <= smoothness; ValueError for an empty
    or invalid `orders`; TypeError for a mechanism without a Renyi analysis.

    Examples
    --------
    >>> from explorer.accounting import ObjectivePerturbation, RenyiBound
    >>> mechanism = ObjectivePerturbation(noise_std=5, l2_reg=20, lipschitz=1, smoothness=1)
    >>> round(float(RenyiBound(mechanism).epsilon(1e-5)), 4)
    0.8787

    References: Redberg, Koskela & Wang 2023, RDP theorem and Algorithm 1; see the conversions for theirs.
    """

    def __init__(
        self,
        mechanism: object,
        *,
        uses: int = 1,
        orders: Iterable[float] | None = None,
        conversion: Conversion = CanonneKamathSteinke,
    ) -> None:
        self.mechanism = mechanism
        self.uses = natural("uses", uses)
        self.conversion = conversion
        single = rdp_of(mechanism)
        self._rdp: Divergence = single if self.uses == 1 else lambda alpha: self.uses * single(alpha)
        self.orders = None if orders is None else np.unique(order_array(np.array(list(orders))))
        if self.orders is not None and not self.orders.size:
            raise ValueError("orders must contain at least one order: got orders=[]")

    def rdp(self, alpha: ArrayLike) -> FloatArray:
        """Renyi divergence of order alpha (array_like, >= 1), of alpha's shape, nats."""
        return self._rdp(alpha)[()]

    def log_delta(self, epsilon: ArrayLike) -> FloatArray:
        """Smallest log delta over the orders, of epsilon's shape: the conversion, or Bretagnolle-Huber if smaller."""
        epsilon = epsilon_array(epsilon)
        flat = epsilon.reshape(-1, 1)
        finite = np.where(np.isfinite(flat), flat, 0.0)
        best = self._search(lambda alpha, rdp: self.conversion.log_delta(finite, alpha=alpha, rdp=rdp), flat.size).value
        kl_holds = np.where(flat[:, 0] >= 0, self._kl_log_delta, 0.0)
        best = np.where(np.isposinf(flat[:, 0]), -np.inf, np.minimum(np.minimum(best, kl_holds), 0.0))
        return np.where(np.isneginf(flat[:, 0]), 0.0, best).reshape(epsilon.shape)[()]

    def epsilon(self, delta: ArrayLike) -> FloatArray:
        """Smallest epsilon >= 0 over the orders, of delta's shape, nats; `optimum` also returns the order."""
        return self.optimum(delta).value

    def optimum(self, delta: ArrayLike) -> Optimum:
        """The best epsilon at `delta`, the order that attains it and whether that order is an end of the search.

        epsilon = 0 is returned only where log_delta(0) <= log delta has been established, by the conversion at
        epsilon = 0 or by Bretagnolle-Huber (delta >= sqrt(1 - e^-KL)).

        Parameters
        ----------
        delta : array_like, any shape, inside (0, 1)

        Returns
        -------
        Optimum of arrays of delta's shape
        """
        delta = delta_array(delta)
        log_delta = log_target(delta).reshape(-1, 1)
        best = self._search(lambda alpha, rdp: self.conversion.epsilon(log_delta, alpha=alpha, rdp=rdp), delta.size)
        zero = self.log_delta(0.0) <= log_delta[:, 0]
        value = np.where(zero, 0.0, np.maximum(best.value, np.finfo(float).tiny))
        shape = delta.shape
        return Optimum(value.reshape(shape)[()], best.order.reshape(shape)[()], best.at_edge.reshape(shape)[()])

    def _search(self, value: Callable[[FloatArray, FloatArray], FloatArray], rows: int) -> Optimum:
        proper = self._proper
        if rows == 0 or (proper is not None and not proper[0].size):
            return Optimum(np.full(rows, np.inf), np.full(rows, np.nan), np.ones(rows, bool))
        if proper is None:
            return minimise_over_orders(value, self._rdp, rows=rows)
        return minimise_over_orders(value, lambda _: proper[1], rows=rows, orders=proper[0])

    @cached_property
    def _proper(self) -> tuple[FloatArray, FloatArray] | None:
        """Those of the given orders that are finite and above 1, as the conversions need, and their divergences."""
        if self.orders is None:
            return None
        proper = self.orders[(self.orders > 1) & np.isfinite(self.orders)]
        return proper, self._rdp(proper)

    @property
    def _kl_log_delta(self) -> FloatArray:
        # Renyi divergences do not decrease with the order, so the one at the smallest order bounds the one at order 1.
        return kl_log_delta(self._rdp(1.0 if self.orders is None else self.orders[0]))
