"""The perturbed objective: a sum of losses, a regulariser and a random linear term."""

import numpy as np

from explorer.learning.clipping import ClippedLoss


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
    weight : float > 0, of the records; other than 1 only where a part of the records stands for all of them
    """

    def __init__(self, records, *, loss, l2_reg, linear_term, clip_norm=None, weight=1.0):
        self.records, self.loss, self.clip_norm = records, loss, clip_norm
        self.l2_reg, self.linear_term, self.weight = l2_reg, linear_term, weight

    @property
    def n_records(self):
        """n, the number of single-record gradients in one gradient of the objective."""
        return self.records.n_records

    @property
    def dimension(self):
        """d, the length of theta."""
        return self.records.dimension

    def value(self, theta):
        """J(theta), float."""
        return self.value_and_gradient(theta)[0]

    def gradient(self, theta):
        """The gradient of J at theta, ndarray (d,)."""
        (data,) = self.records.total(_gradient, theta, self.loss, self.clip_norm)
        return self.weight * data + self.l2_reg * theta + self.linear_term

    def value_and_gradient(self, theta):
        """J(theta), float, and its gradient, ndarray (d,), in one pass over the records."""
        value, data = self.records.total(_value_and_gradient, theta, self.loss, self.clip_norm)
        value = self.weight * value + self.l2_reg / 2 * theta @ theta + self.linear_term @ theta
        return value, self.weight * data + self.l2_reg * theta + self.linear_term

    def hessian(self, theta):
        """The Hessian of J at theta, ndarray (d, d): weight sum_i f''(x_i.theta) x_i x_i^T + l2_reg I."""
        (data,) = self.records.total(_hessian, theta, self.loss, self.clip_norm, least_rows=2 * self.dimension)
        return self.weight * data + self.l2_reg * np.eye(self.dimension)

    def hessian_product(self, theta, direction):
        """The Hessian at theta times direction, ndarray (d,), without forming the Hessian."""
        (data,) = self.records.total(_hessian_product, theta, direction, self.loss, self.clip_norm)
        return self.weight * data + self.l2_reg * direction

    def gradient_lipschitz(self):
        """A true bound on the largest eigenvalue of every Hessian, float: l2_reg + weight beta_f |X|_2^2.

        beta_f bounds f''; `records.squared_norm` bounds |X|_2^2 and is computed once.
        """
        return self.l2_reg + self.weight * self.loss.smoothness * self.records.squared_norm

    def gradient_floor(self, theta):
        """Estimate of the norm of the rounding error of the gradient computed at theta, float.

        2 eps (weight sum_i (|f'_i| |x_i| + f''_i |x_i|^2 |theta|) + l2_reg |theta| + |b|), for errors in the sums and
        in the margins: usually 3 to 200 times the error itself. A gradient norm below it means little.
        """
        sums, margins = self.records.total(_rounding, theta, self.loss, self.clip_norm)
        length = np.linalg.norm(theta)
        terms = self.weight * (sums + margins * length) + self.l2_reg * length + np.linalg.norm(self.linear_term)
        return 2 * np.finfo(float).eps * terms

    def subsample(self, m, *, rng):
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
    """A PerturbedObjective that calls watch(theta, linear_term), with copies, wherever its gradient is taken."""

    def __init__(self, records, *, watch, **parameters):
        super().__init__(records, **parameters)
        self.watch = watch

    def gradient(self, theta):
        """The gradient of J at theta, ndarray (d,)."""
        self.watch(theta.copy(), self.linear_term.copy())
        return super().gradient(theta)

    def value_and_gradient(self, theta):
        """J(theta), float, and its gradient, ndarray (d,)."""
        self.watch(theta.copy(), self.linear_term.copy())
        return super().value_and_gradient(theta)


def loss_on(block, loss, clip_norm):
    """`loss`, with the records' gradients clipped to clip_norm unless it is None."""
    return loss if clip_norm is None else ClippedLoss(loss, clip_norm=clip_norm, row_norms=block.norms)


def _gradient(block, theta, loss, clip_norm):
    slopes = loss_on(block, loss, clip_norm).derivative(block.dot(theta), block.y)
    return (block.transposed_dot(slopes),)


def _value_and_gradient(block, theta, loss, clip_norm):
    values, slopes = loss_on(block, loss, clip_norm).value_and_derivative(block.dot(theta), block.y)
    return values.sum(), block.transposed_dot(slopes)


def _hessian(block, theta, loss, clip_norm):
    return (block.gram(loss_on(block, loss, clip_norm).second_derivative(block.dot(theta), block.y)),)


def _hessian_product(block, theta, direction, loss, clip_norm):
    curvature = loss_on(block, loss, clip_norm).second_derivative(block.dot(theta), block.y)
    return (block.transposed_dot(curvature * block.dot(direction)),)


def _rounding(block, theta, loss, clip_norm):
    loss, margins = loss_on(block, loss, clip_norm), block.dot(theta)
    slopes = np.abs(loss.derivative(margins, block.y))
    curvature = loss.second_derivative(margins, block.y)
    return slopes @ block.norms, (curvature * block.norms) @ block.norms
