"""The exact privacy of objective perturbation over all losses that its constants allow."""

from collections.abc import Callable
from typing import TypedDict

import numpy as np
from numpy.typing import ArrayLike

from explorer.accounting.bounds.exact_add import add_log_delta
from explorer.accounting.bounds.exact_remove import remove_log_delta
from explorer.accounting.bounds.exact_renyi import exact_rdp
from explorer.accounting.bounds.gaussian import log_delta
from explorer.accounting.bounds.refined import DirectionalBound, RefinedBound, dual_log_delta
from explorer.accounting.bounds.renyi import normal_rdp
from explorer.accounting.types import FloatArray
from explorer.validation import epsilon_array, order_array

_FARTHEST = 1e100  # epsilon beyond which the closed form of RefinedBound is taken


class _Ratios(TypedDict):
    sensitivity_ratio: float
    curvature_ratio: float
    monotone: bool


class ExactBound(DirectionalBound):
    """The privacy profile and the Renyi divergence of objective perturbation: what the worst loss leaks, and no more.

    Every number is a supremum over the losses with the mechanism's constants, on every pair of neighbouring datasets,
    in each direction; `attaining_loss` gives a loss that leaks as much. For epsilon > log(1 + beta/lambda) the "remove"
    profile is approached by losses and attained by none. No other bound with these constants can be smaller.

    The profiles of both directions hold at every real epsilon, each the other's dual. Being suprema of profiles they
    are convex in e^epsilon, so privacy loss distributions can be made of them (`profile_plds`), which bound several
    uses from above; Renyi divergences of several uses add up exactly.

    Parameters
    ----------
    mechanism : ObjectivePerturbation, with any l2_reg > 0; its `monotone_loss` restricts the losses to one sign of f'

    Raises
    ------
    TypeError for another mechanism.

    Notes
    -----
    Quadrature and root searches lose less than 1e-9 of log delta and of the divergence (tests against 40 digits). The
    result is clipped to the Gaussian's profile from below and to the refined bound from above, between which it lies.

    References: this project, docs/mathematics; `explorer.accounting.bounds.exact_remove`,
    `explorer.accounting.bounds.exact_renyi`.

    Examples
    --------
    >>> from explorer.accounting import ObjectivePerturbation
    >>> bound = ExactBound(ObjectivePerturbation(noise_std=10, l2_reg=5, lipschitz=1, smoothness=1))
    >>> print(f"{bound.log_delta_remove(0.3):.8f} {bound.rdp(2.0):.8f}")
    -7.33611067 0.02104685
    """

    def log_delta_add(self, epsilon: ArrayLike) -> FloatArray:
        """Log delta of M(Z) from M(Z'), Z' having one record more, of epsilon's shape; any real epsilon, nats."""
        return self._profile(epsilon, self._add, self._remove, RefinedBound(self.mechanism).log_delta_add)

    def log_delta_remove(self, epsilon: ArrayLike) -> FloatArray:
        """Log delta of M(Z') from M(Z), Z' having one record more, of epsilon's shape; any real epsilon, nats."""
        return self._profile(epsilon, self._remove, self._add, RefinedBound(self.mechanism).log_delta_remove)

    def rdp_add(self, alpha: ArrayLike) -> FloatArray:
        """Renyi divergence of M(Z) from M(Z'), of alpha's shape, alpha >= 1 (1: Kullback-Leibler), nats."""
        return self._rdp(alpha, "add")

    def rdp_remove(self, alpha: ArrayLike) -> FloatArray:
        """Renyi divergence of M(Z') from M(Z), of alpha's shape, alpha >= 1 (1: Kullback-Leibler), nats."""
        return self._rdp(alpha, "remove")

    def rdp(self, alpha: ArrayLike) -> FloatArray:
        """The larger of both directions, of alpha's shape, nats."""
        return np.maximum(self.rdp_add(alpha), self.rdp_remove(alpha))

    def _add(self, epsilon: FloatArray) -> FloatArray:
        return add_log_delta(epsilon, **self._ratios)

    def _remove(self, epsilon: FloatArray) -> FloatArray:
        return remove_log_delta(epsilon, **self._ratios)

    def _rdp(self, alpha: ArrayLike, direction: str) -> FloatArray:
        alpha = order_array(alpha)
        value = exact_rdp(alpha, direction=direction, **self._ratios)
        # Where doubles overflow, the refined bound stands: between the two lies the exact value.
        refined = getattr(RefinedBound(self.mechanism), f"rdp_{direction}")(alpha)
        return np.maximum(np.fmin(value, refined), normal_rdp(alpha, sensitivity_ratio=self._s))[()]

    @property
    def _ratios(self) -> _Ratios:
        return {
            "sensitivity_ratio": self._s,
            "curvature_ratio": self._kappa,
            "monotone": self.mechanism.monotone_loss,
        }

    def _profile(self, given: ArrayLike, own: Callable, other: Callable, refined: Callable) -> FloatArray:
        epsilon = epsilon_array(given)
        value, negative = np.full(epsilon.shape, np.inf), epsilon < 0
        for side, profile in (~negative, own), (negative, other):
            served = side & (np.abs(epsilon) <= _FARTHEST)
            if served.any():
                value[served] = profile(np.abs(epsilon[served]))
        # Where doubles cannot resolve the optimal map, log delta being below -1e15, the refined bound stands.
        value = np.where(np.isnan(value) | (value == -np.inf), np.inf, value)
        value[negative] = dual_log_delta(epsilon[negative], np.clip(value[negative], -np.inf, 0))
        gaussian = log_delta(epsilon, sensitivity_ratio=self._s)
        return np.maximum(np.minimum(value, refined(epsilon)), gaussian)[()]
