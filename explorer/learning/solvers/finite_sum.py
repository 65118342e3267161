"""The records' part of an objective as a sum of N functions, each of a few consecutive records.

The blocks are made once, as views of rows in double precision and as copies of others.
"""

import numpy as np

from explorer.learning.objective import loss_on
from explorer.validation import natural

SHARES = {"sag": 4, "svrg": 1}  # of lambda, that a block's smoothness may come to where no batch_size is given
_LARGEST_BATCH = 64


class FiniteSum:
    """sum_j F_j(theta), with F_j(theta) = weight sum over block j of f(x_i.theta; y_i); no regulariser, no linear term.

    Parameters
    ----------
    objective : PerturbedObjective
    batch_size : int >= 1, records in a block (fewer in the last); None for what the regulariser allows, the largest up
        to 64 whose smoothness is at most SHARES[solver] l2_reg
    solver : str, who asks: "sag" or "svrg"

    Attributes
    ----------
    sizes : list of N ints, records in each block
    lipschitz : float, the largest smoothness of N F_j + (lambda / 2) |.|^2, functions whose mean is J - b.theta. For
        F_j, beta_f sum_i |x_i|^2 stands in for its largest eigenvalue.

    Raises
    ------
    ValueError if the records cannot be read in any order, as they can in memory.
    """

    def __init__(self, objective, *, batch_size, solver):
        records, n = objective.records, objective.n_records
        if not hasattr(records, "take"):
            raise ValueError(
                f"solver {solver!r} needs records that can be read in any order: got {type(records).__name__}, "
                "which only sums over all; of the solvers only 'sag' and 'svrg' need more than that"
            )
        size, self.lipschitz = partition(objective, batch_size=batch_size, solver=solver)
        self._objective = objective
        self._blocks = [records.take(slice(first, min(first + size, n))) for first in range(0, n, size)]
        self._losses = [loss_on(block, objective.loss, objective.clip_norm) for block in self._blocks]
        self.sizes = [len(block.y) for block in self._blocks]

    def slopes(self, j, theta):
        """weight f'(x_i.theta; y_i) for the records i of block j, ndarray (m,)."""
        block = self._blocks[j]
        return self._objective.weight * self._losses[j].derivative(block.dot(theta), block.y)

    def gradient(self, j, slopes):
        """sum_i slopes_i x_i over block j, ndarray (d,): the gradient of F_j, or a change of it."""
        return self._blocks[j].transposed_dot(slopes)


def partition(objective, *, batch_size, solver):
    """How `FiniteSum` cuts the records, without doing so: the records in a block, int, and its `lipschitz`, float."""
    smoothness = objective.weight * objective.loss.smoothness * objective.records.norms**2
    if batch_size is None:
        allowed = SHARES[solver] * objective.l2_reg / max(smoothness.max(), 1e-300)
        batch_size = np.clip(allowed, 1, _LARGEST_BATCH) // 1
    size = natural("batch_size", batch_size)
    blocks = np.add.reduceat(smoothness, range(0, objective.n_records, size))
    return size, float(len(blocks) * blocks.max() + objective.l2_reg)
