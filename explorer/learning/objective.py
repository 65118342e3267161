"""The perturbed objective: a sum of losses, a regulariser and a random linear term."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from explorer.learning.clipping import ClippedLoss
from explorer.learning.losses import Loss
from explorer.learning.records.blocks import AbstractRecords, Block
from explorer.learning.types import Array

_U = 2.0**-53  # the unit roundoff of doubles
_LARGEST_THETA = 1e100  # of |theta|: below it no margin overflows
_LARGEST_N = 2**30  # of records, in the proof of `gradient_bound`


def gamma(m: float) -> float:
    """m u / (1 - m u), the bound on the relative error of m roundings, with u = 2^-53; needs m u < 1.

    References: Higham 2002, Section 3.1.
    """
    return m * _U / (1 - m * _U)


class PerturbedObjective:
    """J(theta) = weight sum_i f(x_i.theta; y_i) + (l2_reg / 2) |theta|^2 + linear_term.theta.

    Sums, not means: the regulariser and the linear term do not scale with the number of records.

    Parameters
    ----------
    records : Records or DaskRecords
    loss : a loss of `explorer.learning.losses`
    l2_reg : float > 0, lambda
    linear_term : ndarray (d,), b; zeros for the plain objective
    clip_norm : float > 0 or None; clips each record's gradient by `ClippedLoss`
    weight : float > 0, of each record; other than 1 only for a subsample that estimates the whole
    """

    def __init__(
        self,
        records: AbstractRecords,
        *,
        loss: Loss,
        l2_reg: float,
        linear_term: Array,
        clip_norm: float | None = None,
        weight: float = 1.0,
    ) -> None:
        self.records, self.loss, self.clip_norm = records, loss, clip_norm
        self.l2_reg, self.linear_term, self.weight = l2_reg, linear_term, weight

    @property
    def n_records(self) -> int:
        """n, the number of single-record gradients in one gradient of the objective."""
        return self.records.n_records

    @property
    def dimension(self) -> int:
        """d, the length of theta."""
        return self.records.dimension

    def value(self, theta: Array) -> float:
        """J(theta), float."""
        return self.value_and_gradient(theta)[0]

    def gradient(self, theta: Array) -> Array:
        """The gradient of J at theta, ndarray (d,)."""
        (data,) = self.records.total(_gradient, theta, self.loss, self.clip_norm)
        return self.weight * data + self.l2_reg * theta + self.linear_term

    def value_and_gradient(self, theta: Array) -> tuple[float, Array]:
        """J(theta), float, and its gradient, ndarray (d,), in one pass over the records."""
        value, data = self.records.total(_value_and_gradient, theta, self.loss, self.clip_norm)
        value = self.weight * value + self.l2_reg / 2 * theta @ theta + self.linear_term @ theta
        return value, self.weight * data + self.l2_reg * theta + self.linear_term

    def hessian(self, theta: Array) -> Array:
        """The Hessian of J at theta, ndarray (d, d): weight sum_i f''(x_i.theta) x_i x_i^T + l2_reg I."""
        (data,) = self.records.total(_hessian, theta, self.loss, self.clip_norm, least_rows=2 * self.dimension)
        return self.weight * data + self.l2_reg * np.eye(self.dimension)

    def hessian_product(self, theta: Array, direction: Array) -> Array:
        """The Hessian at theta times direction, ndarray (d,), without forming the Hessian."""
        (data,) = self.records.total(_hessian_product, theta, direction, self.loss, self.clip_norm)
        return self.weight * data + self.l2_reg * direction

    def gradient_bound(self, theta: Array) -> float:
        """A proven upper bound on the norm over the reals of the gradient at theta, float; infinite where none holds.

        (1 + gamma_(d+3)) |computed gradient| + (1 + 2^-20) E, where, with the computed slopes w_i of blocks of m
        records, N blocks, and beta_f a bound on f'',

            E = sum_i (gamma_(m+N+4) + e_rel) |w_i| |x_i| + e_abs sum_i |x_i| + gamma_(d+2) beta_f |theta| sum_i |x_i|^2
                + gamma_3 (|computed sum over records| + lambda |theta| + |b|).

        The gradient is that of the records stored, scaled and clipped by the doubles that `Records` keeps, with b the
        linear term. Assumed: sums of doubles rounded to nearest, in any order; `loss.derivative` within the loss's
        relative_error and absolute_error of f'; the same records in each pass. Proof: docs/mathematics/
        floating_point.md, Theorem 3.
        """
        data, sizes, chains, lengths, squares, blocks = self.records.total(_bounded, theta, self.loss, self.clip_norm)
        length, d, n = float(np.linalg.norm(theta)), self.dimension, self.n_records
        if not (length <= _LARGEST_THETA and n <= _LARGEST_N):
            return np.inf
        gradient = self.weight * data + self.l2_reg * theta + self.linear_term
        sums = _U * (chains + (blocks + 4) * sizes) / (1 - _U * (n + blocks + 4))
        slopes = self.loss.relative_error * sizes + self.loss.absolute_error * lengths
        margins = gamma(d + 2) * self.loss.smoothness * length * squares
        rest = np.linalg.norm(data) * self.weight + self.l2_reg * length + np.linalg.norm(self.linear_term)
        error = self.weight * (sums + slopes + margins) + gamma(3) * rest
        underflow = (n + 1) * d * 2.0**-500
        return float((1 + gamma(d + 3)) * np.linalg.norm(gradient) + (1 + 2.0**-20) * error + underflow)

    def gradient_lipschitz(self) -> float:
        """An upper bound on the largest eigenvalue of every Hessian, float: l2_reg + weight beta_f |X|_2^2.

        beta_f bounds f''; `records.squared_norm` bounds |X|_2^2 and is computed once.
        """
        return self.l2_reg + self.weight * self.loss.smoothness * self.records.squared_norm

    def gradient_floor(self, theta: Array) -> float:
        """Estimate of the norm of the rounding error of the gradient computed at theta, float.

        2 eps (weight sum_i (|f'_i| |x_i| + f''_i |x_i|^2 |theta|) + l2_reg |theta| + |b|), for errors in the sums and
        in the margins: usually 3 to 200 times the error itself. A gradient norm below it is not meaningful.
        """
        sums, margins = self.records.total(_rounding, theta, self.loss, self.clip_norm)
        length = np.linalg.norm(theta)
        terms = self.weight * (sums + margins * length) + self.l2_reg * length + np.linalg.norm(self.linear_term)
        return 2 * np.finfo(float).eps * terms

    def subsample(self, m: int, *, rng: np.random.Generator) -> PerturbedObjective:
        """This objective estimated from m random records, copied, each with weight n / m; itself if m >= n."""
        if m >= self.n_records:
            return self
        return PerturbedObjective(
            self.records.sample(m, rng=rng),
            loss=self.loss,
            l2_reg=self.l2_reg,
            linear_term=self.linear_term,
            clip_norm=self.clip_norm,
            weight=self.weight * self.n_records / m,
        )


class WatchedObjective(PerturbedObjective):
    """A PerturbedObjective that calls watch(theta, linear_term), with copies, at each evaluation of its gradient."""

    def __init__(self, records: AbstractRecords, *, watch: Callable[[Array, Array], object], **parameters: Any) -> None:
        super().__init__(records, **parameters)
        self.watch = watch

    def gradient(self, theta: Array) -> Array:
        """The gradient of J at theta, ndarray (d,)."""
        self.watch(theta.copy(), self.linear_term.copy())
        return super().gradient(theta)

    def value_and_gradient(self, theta: Array) -> tuple[float, Array]:
        """J(theta), float, and its gradient, ndarray (d,)."""
        self.watch(theta.copy(), self.linear_term.copy())
        return super().value_and_gradient(theta)

    def gradient_bound(self, theta: Array) -> float:
        """The proven bound on the gradient's norm at theta, float."""
        self.watch(theta.copy(), self.linear_term.copy())
        return super().gradient_bound(theta)


def loss_on(block: Block, loss: Loss, clip_norm: float | None) -> Loss | ClippedLoss:
    """`loss`, with the records' gradients clipped to clip_norm unless it is None."""
    return loss if clip_norm is None else ClippedLoss(loss, clip_norm=clip_norm, row_norms=block.norms)


def _gradient(block: Block, theta: Array, loss: Loss, clip_norm: float | None) -> tuple[Array]:
    slopes = loss_on(block, loss, clip_norm).derivative(block.dot(theta), block.y)
    return (block.transposed_dot(slopes),)


def _value_and_gradient(block: Block, theta: Array, loss: Loss, clip_norm: float | None) -> tuple[float, Array]:
    values, slopes = loss_on(block, loss, clip_norm).value_and_derivative(block.dot(theta), block.y)
    return values.sum(), block.transposed_dot(slopes)


def _bounded(block: Block, theta: Array, loss: Loss, clip_norm: float | None) -> tuple:
    """The gradient and the sums of `gradient_bound`: |w_i| |x_i|, also times the block's rows, |x_i|, |x_i|^2, 1."""
    slopes = loss_on(block, loss, clip_norm).derivative(block.dot(theta), block.y)
    rows, norms = len(block.norms), block.norms
    sizes = np.abs(slopes) @ norms
    return block.transposed_dot(slopes), sizes, rows * sizes, norms.sum(), norms @ norms, 1


def _hessian(block: Block, theta: Array, loss: Loss, clip_norm: float | None) -> tuple[Array]:
    return (block.gram(loss_on(block, loss, clip_norm).second_derivative(block.dot(theta), block.y)),)


def _hessian_product(block: Block, theta: Array, direction: Array, loss: Loss, clip_norm: float | None) -> tuple[Array]:
    curvature = loss_on(block, loss, clip_norm).second_derivative(block.dot(theta), block.y)
    return (block.transposed_dot(curvature * block.dot(direction)),)


def _rounding(block: Block, theta: Array, loss: Loss, clip_norm: float | None) -> tuple[float, float]:
    clipped, margins = loss_on(block, loss, clip_norm), block.dot(theta)
    slopes = np.abs(clipped.derivative(margins, block.y))
    curvature = clipped.second_derivative(margins, block.y)
    return float(slopes @ block.norms), float((curvature * block.norms) @ block.norms)
