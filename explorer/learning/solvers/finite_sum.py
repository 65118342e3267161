"""The data term of an objective as a sum of N functions, each of a few consecutive records.

The blocks are made once: as views of rows in double precision, as copies of others.
"""

import numpy as np

from explorer.learning.objective import PerturbedObjective, loss_on
from explorer.learning.records.blocks import Records
from explorer.learning.types import Array
from explorer.validation import natural

SHARES = {"sag": 4, "svrg": 1}  # default limit of a block's smoothness, in units of lambda
_LARGEST_BATCH = 64


class FiniteSum:
    """sum_j F_j(theta), with F_j(theta) = weight sum over block j of f(x_i.theta; y_i); no regulariser, no linear term.

    Parameters
    ----------
    objective : PerturbedObjective
    batch_size : int >= 1, records in a block (fewer in the last); None for the largest up to 64 whose
        smoothness is at most SHARES[solver] l2_reg
    solver : str, "sag" or "svrg"

    Attributes
    ----------
    sizes : list of N ints, records in each block
    lipschitz : float, the largest smoothness of N F_j + (lambda / 2) |.|^2, functions whose mean is J - b.theta. For
        F_j, beta_f sum_i |x_i|^2 is used as a bound on the largest eigenvalue.

    Raises
    ------
    ValueError if the records do not offer random access, as records in memory do.
    """

    def __init__(self, objective: PerturbedObjective, *, batch_size: int | None, solver: str) -> None:
        records, n = _random_access(objective, solver), objective.n_records
        size, self.lipschitz = partition(objective, batch_size=batch_size, solver=solver)
        self._objective = objective
        self._blocks = [records.take(slice(first, min(first + size, n))) for first in range(0, n, size)]
        self._losses = [loss_on(block, objective.loss, objective.clip_norm) for block in self._blocks]
        self.sizes = [len(block.y) for block in self._blocks]

    def slopes(self, j: int, theta: Array) -> Array:
        """weight f'(x_i.theta; y_i) for the records i of block j, ndarray (m,)."""
        block = self._blocks[j]
        return self._objective.weight * self._losses[j].derivative(block.dot(theta), block.y)

    def gradient(self, j: int, slopes: Array) -> Array:
        """sum_i slopes_i x_i over block j, ndarray (d,): the gradient of F_j, or a change of it."""
        return self._blocks[j].transposed_dot(slopes)


def partition(objective: PerturbedObjective, *, batch_size: int | None, solver: str) -> tuple[int, float]:
    """The number of records in a block of `FiniteSum`, and its `lipschitz`, without making the blocks."""
    norms = _random_access(objective, solver).norms
    smoothness = objective.weight * objective.loss.smoothness * norms**2
    if batch_size is None:
        allowed = SHARES[solver] * objective.l2_reg / max(smoothness.max(), 1e-300)
        batch_size = int(np.clip(allowed, 1, _LARGEST_BATCH))
    size = natural("batch_size", batch_size)
    blocks = np.add.reduceat(smoothness, range(0, objective.n_records, size))
    return size, float(len(blocks) * blocks.max() + objective.l2_reg)


def _random_access(objective: PerturbedObjective, solver: str) -> Records:
    if isinstance(objective.records, Records):
        return objective.records
    raise ValueError(
        f"solver {solver!r} needs records that can be read in any order: got {type(objective.records).__name__}, which "
        "offers only sums over all records; all solvers except 'sag' and 'svrg' need no more"
    )
