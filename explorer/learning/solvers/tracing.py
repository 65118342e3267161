"""The common part of all solvers: counted evaluations, the trace, and the stopping rule.

The unit of all counts is the gradient of one record's loss, two products with its row. A Hessian-vector product counts
one for each record; a Hessian, with its d (d + 1) / 2 multiplications for a record against the gradient's 2 d, counts
(d + 1) / 4. Objective values computed with a gradient are not counted.
"""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import TypeAlias

import numpy as np
from scipy.optimize import OptimizeResult

from explorer.learning.objective import PerturbedObjective
from explorer.learning.types import Array
from explorer.validation import positive, real, real_array

Callback: TypeAlias = Callable[[int, float], object]
"""Called with (n_gradient_evaluations, gradient_norm); an exception it raises ends the solver and propagates."""

_FIRST_CHECK = 10  # gradients without progress before the rounding error is estimated, which costs one more


class Finished(Exception):
    """Raised inside `with run:` to leave it."""


class Run:
    """One run of a solver: `with run:` around an endless iteration, which `evaluated` ends.

    It ends at the first evaluated point whose gradient norm is at most gradient_tol; or once max_passes times n
    single-record gradients are spent; or at the floating-point floor: when the smallest norm has not fallen during k
    gradients (k = 10, 20, 40, ...) and is at most k times `objective.gradient_floor`, so that every run without
    progress ends even where that estimate is too small.

    Parameters
    ----------
    objective : PerturbedObjective
    gradient_tol : float > 0, tau
    start : ndarray (d,) or None for zeros
    max_passes : number >= 1, or infinity
    callback : callable (n_gradient_evaluations, gradient_norm) or None, after each gradient of the whole objective;
        an exception it raises ends the solver and propagates

    Attributes
    ----------
    start : ndarray (d,)
    n_gradient_evaluations : int
    best : OptimizeResult with the x of smallest gradient norm so far, its jac and gradient_norm (infinite before the
        first evaluation)

    Raises
    ------
    ValueError for parameters out of range.
    """

    def __init__(
        self,
        objective: PerturbedObjective,
        *,
        gradient_tol: float,
        start: Array | None,
        max_passes: float,
        callback: Callback | None,
    ) -> None:
        self.objective, self.callback = objective, callback
        self.gradient_tol = positive("gradient_tol", gradient_tol)
        self._budget = objective.n_records * real("max_passes", max_passes, rule=">= 1", valid=lambda x: x >= 1)
        self.start = _start(start, objective.dimension)
        self.n_gradient_evaluations = 0
        self.best = OptimizeResult(x=self.start, jac=np.full(objective.dimension, np.nan), gradient_norm=np.inf)
        self._trace: list[tuple[int, float]] = []
        self._stalled, self._message = 0, ""

    def __enter__(self) -> Run:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> bool:
        if kind is None or not issubclass(kind, Finished):
            return False
        self._message = str(error)
        return True

    def count(self, evaluations: float) -> None:
        """Add work that is not a gradient of the whole objective, in single-record gradients."""
        self.n_gradient_evaluations += int(np.ceil(evaluations))

    def gradient(self, theta: Array) -> Array:
        """The gradient at theta, ndarray (d,), recorded by `evaluated`."""
        gradient = self.objective.gradient(theta)
        self.evaluated(theta, gradient)
        return gradient

    def hessian(self, theta: Array) -> Array:
        """The Hessian at theta, ndarray (d, d)."""
        self.count(self.objective.n_records * (self.objective.dimension + 1) / 4)
        return self.objective.hessian(theta)

    def hessian_product(self, theta: Array, direction: Array) -> Array:
        """The Hessian at theta times direction, ndarray (d,)."""
        self.count(self.objective.n_records)
        return self.objective.hessian_product(theta, direction)

    def evaluated(self, theta: Array, gradient: Array) -> None:
        """Count and record the gradient (d,) of the whole objective at theta; raise `Finished` if the run ends."""
        self.count(self.objective.n_records)
        norm = float(np.linalg.norm(gradient))
        if not self._trace or norm < self.best.gradient_norm:
            self.best, self._stalled = OptimizeResult(x=theta.copy(), jac=gradient, gradient_norm=norm), 0
        else:
            self._stalled += 1
        self._trace.append((self.n_gradient_evaluations, norm))
        if self.callback is not None:
            self.callback(*self._trace[-1])
        self._end(norm)

    def _end(self, norm: float) -> None:
        if norm <= self.gradient_tol:
            raise Finished
        if len(self._trace) == 1 and not np.isfinite(norm):
            raise Finished("the gradient at the start is not finite")
        if self.n_gradient_evaluations >= self._budget:
            raise Finished(f"max_passes spent at gradient norm {self.best.gradient_norm:.3g}")
        checks, rest = divmod(self._stalled, _FIRST_CHECK)
        if rest == 0 and checks.bit_count() == 1:
            self.count(self.objective.n_records)
            if self.best.gradient_norm <= self._stalled * self.objective.gradient_floor(self.best.x):
                raise Finished(f"gradient norm {self.best.gradient_norm:.3g} is at the floating-point floor")

    def result(self) -> OptimizeResult:
        """scipy's OptimizeResult: x (d,), jac (d,), gradient_norm, success, message, n_gradient_evaluations, trace.

        x is the evaluated point of smallest gradient norm, jac the gradient computed there, success whether
        gradient_norm <= gradient_tol. The trace, ndarray (k, 2), has a row for each gradient of the whole objective:
        the count n_gradient_evaluations just after it, and its norm.
        """
        success = self.best.gradient_norm <= self.gradient_tol
        return OptimizeResult(
            self.best,
            success=success,
            message=f"gradient norm {self.best.gradient_norm:.3g} reached" if success else self._message,
            n_gradient_evaluations=self.n_gradient_evaluations,
            trace=np.array(self._trace),
        )


def _start(start: Array | None, dimension: int) -> Array:
    if start is None:
        return np.zeros(dimension)
    start = real_array("start", start, rule="finite", valid=np.isfinite)
    if start.shape != (dimension,):
        raise ValueError(f"start must be an array of shape ({dimension},): got shape {start.shape}")
    return start
