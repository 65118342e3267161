"""Renyi differential privacy: the divergence of each mechanism at every order alpha >= 1, and the bound it gives.

All functions are elementwise in alpha, return nats, take the limit at alpha = 1 (the Kullback-Leibler divergence) and
infinity at alpha = infinity, and raise ValueError for alpha < 1.
"""

from functools import singledispatch

import numpy as np
from scipy.special import erf, log_ndtr

from explorer.accounting.bound import ProfileBound, log_target
from explorer.accounting.conversion import CanonneKamathSteinke, Optimum, kl_log_delta, minimise_over_orders
from explorer.accounting.hockey_stick import require_strong_convexity
from explorer.accounting.mechanisms import ApproximateMinimaPerturbation, Gaussian, ObjectivePerturbation
from explorer.validation import delta_array, epsilon_array, order_array


def normal_rdp(alpha, *, sensitivity_ratio):
    """alpha s^2 / 2, the Gaussian mechanism's divergence, for s = sensitivity / noise_std. Mironov 2017, Prop. 7."""
    return order_array(alpha) * sensitivity_ratio * sensitivity_ratio / 2  # in this order: infinity times 0 is nan


def half_normal_rdp(alpha, *, sensitivity_ratio):
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

    References: Redberg, Koskela, Wang 2023, RDP theorem, without its leading term.
    """
    s = sensitivity_ratio
    excess = order_array(alpha) - 1
    t = excess * s
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        log_mass = np.where(t < 1, np.log1p(erf(t / np.sqrt(2))), np.log(2) + log_ndtr(t))
        start_up = np.where(t < 1e-290, s * np.sqrt(2 / np.pi), log_mass / excess)
    return (s * s / 2 + s * t / 2 + start_up)[()]


def objective_perturbation_rdp(alpha, *, sensitivity_ratio, curvature_ratio):
    """-log(1 - kappa) plus `half_normal_rdp`: the paper's divergence of objective perturbation, for kappa < 1.

    Parameters
    ----------
    alpha : array_like, any shape, >= 1
    sensitivity_ratio : float > 0, s = L / sigma
    curvature_ratio : float in (0, 1), kappa = beta / lambda

    Returns
    -------
    ndarray of alpha's shape, nats. At alpha = 1 the limit, which is below the value the paper states there.

    References: Redberg, Koskela, Wang 2023, RDP theorem.
    """
    return half_normal_rdp(alpha, sensitivity_ratio=sensitivity_ratio) - np.log1p(-curvature_ratio)


@singledispatch
def rdp_of(mechanism):
    """The divergence of `mechanism` as a function of alpha alone.

    Raises TypeError for a mechanism without one, BoundNotApplicable where the theorem asks for more.
    """
    raise TypeError(f"mechanism has no Renyi analysis: got mechanism={mechanism!r}")


@rdp_of.register
def _(mechanism: Gaussian):
    return lambda alpha: normal_rdp(alpha, sensitivity_ratio=mechanism.sensitivity_ratio)


@rdp_of.register
def _(mechanism: ObjectivePerturbation):
    require_strong_convexity(mechanism)
    ratios = {"sensitivity_ratio": mechanism.sensitivity_ratio, "curvature_ratio": mechanism.curvature_ratio}
    return lambda alpha: objective_perturbation_rdp(alpha, **ratios)


@rdp_of.register
def _(mechanism: ApproximateMinimaPerturbation):
    # Adaptive composition: the output noise is one more Gaussian mechanism, 2 tau^2 alpha / (sigma_out lambda)^2.
    steps = rdp_of(mechanism.objective), rdp_of(mechanism.output_step)
    return lambda alpha: sum(step(alpha) for step in steps)


class RenyiBound(ProfileBound):
    """The (epsilon, delta) that follow from a mechanism's Renyi divergence at its best order.

    Parameters
    ----------
    mechanism : Gaussian, ObjectivePerturbation, ApproximateMinimaPerturbation or any other with an `rdp_of`
    orders : array_like of orders >= 1 to choose from, or None for a continuous search over alpha in (1, 10^12]
    conversion : `CanonneKamathSteinke` (default) or `Mironov`

    Raises
    ------
    BoundNotApplicable (a ValueError) for objective perturbation with l2_reg <= smoothness; ValueError for an empty
    or invalid `orders`; TypeError for a mechanism without a Renyi analysis.

    References: Redberg, Koskela, Wang 2023, RDP theorem and Algorithm 1; the conversions cite their own.
    """

    def __init__(self, mechanism, *, orders=None, conversion=CanonneKamathSteinke):
        self.mechanism = mechanism
        self.conversion = conversion
        self._rdp = rdp_of(mechanism)
        self.orders = None if orders is None else np.unique(order_array(np.array(list(orders))))
        if self.orders is not None and not self.orders.size:
            raise ValueError("orders must contain at least one order: got orders=[]")

    def rdp(self, alpha):
        """Renyi divergence of order alpha (array_like, >= 1), of alpha's shape, nats."""
        return self._rdp(alpha)[()]

    def log_delta(self, epsilon):
        """Smallest log delta over the orders, of epsilon's shape: the conversion, or Bretagnolle-Huber if smaller."""
        epsilon = epsilon_array(epsilon)
        flat = epsilon.reshape(-1, 1)
        finite = np.where(np.isfinite(flat), flat, 0.0)
        best = self._search(lambda alpha, rdp: self.conversion.log_delta(finite, alpha=alpha, rdp=rdp), flat.size).value
        kl_holds = np.where(flat[:, 0] >= 0, self._kl_log_delta, 0.0)
        best = np.where(np.isposinf(flat[:, 0]), -np.inf, np.minimum(np.minimum(best, kl_holds), 0.0))
        return np.where(np.isneginf(flat[:, 0]), 0.0, best).reshape(epsilon.shape)[()]

    def epsilon(self, delta):
        """Smallest epsilon >= 0 over the orders, of delta's shape, nats; `optimum` also tells the order."""
        return self.optimum(delta).value

    def optimum(self, delta):
        """The best epsilon at `delta`, the order that gives it and whether that order is an end of the search.

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
        free = self.log_delta(0.0) <= log_delta[:, 0]
        value = np.where(free, 0.0, np.maximum(best.value, np.finfo(float).tiny))
        return Optimum(*(a.reshape(delta.shape)[()] for a in (value, best.order, best.at_edge)))

    def _search(self, value, rows):
        proper = None if self.orders is None else self.orders[(self.orders > 1) & np.isfinite(self.orders)]
        if rows == 0 or (proper is not None and not proper.size):
            return Optimum(np.full(rows, np.inf), np.full(rows, np.nan), np.ones(rows, bool))
        return minimise_over_orders(value, self._rdp, rows=rows, orders=proper)

    @property
    def _kl_log_delta(self):
        # Renyi divergences grow with the order, so the smallest order known bounds the divergence at 1.
        return kl_log_delta(self._rdp(1.0 if self.orders is None else self.orders[0]))
