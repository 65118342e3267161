"""The perturbed objective: a sum of losses, a regulariser and a random linear term."""

import numpy as np
from scipy import sparse

from explorer.learning.clipping import ClippedLoss


def row_norms(X):
    """l2 norm of each row of a dense or CSR matrix, ndarray (n,)."""
    squares = X.multiply(X).sum(axis=1) if sparse.issparse(X) else np.einsum("ij,ij->i", X, X)
    return np.sqrt(np.asarray(squares, float).ravel())


class PerturbedObjective:
    """J(theta) = sum_i f(x_i.theta; y_i) + (l2_reg / 2) |theta|^2 + linear_term.theta.

    Parameters
    ----------
    X : ndarray or CSR matrix (n, d)
    y : ndarray (n,), in the loss's own encoding
    loss : a loss of `explorer.learning.losses`
    l2_reg : float > 0, lambda, for the sum of losses
    linear_term : ndarray (d,), b; zeros for the plain objective
    clip_norm : float > 0 or None; clips each record's gradient by `ClippedLoss`
    """

    def __init__(self, X, y, *, loss, l2_reg, linear_term, clip_norm=None):
        self.X, self.y, self.l2_reg, self.linear_term = X, y, l2_reg, linear_term
        self.loss = loss if clip_norm is None else ClippedLoss(loss, clip_norm=clip_norm, row_norms=row_norms(X))

    @property
    def n_records(self):
        """n, the number of single-record gradients in one gradient of the objective."""
        return self.X.shape[0]

    @property
    def dimension(self):
        """d, the length of theta."""
        return self.X.shape[1]

    def value_and_gradient(self, theta):
        """J(theta), float, and its gradient, ndarray (d,)."""
        u = self.X @ theta
        value = self.loss.value(u, self.y).sum() + self.l2_reg / 2 * theta @ theta + self.linear_term @ theta
        return value, self._gradient(u, theta)

    def gradient(self, theta):
        """The gradient of J at theta, ndarray (d,)."""
        return self._gradient(self.X @ theta, theta)

    def _gradient(self, u, theta):
        return self.X.T @ self.loss.derivative(u, self.y) + self.l2_reg * theta + self.linear_term
