"""The common part of learners that release a minimum plus noise: noise, solution, certificate, release.

The noise is drawn before any record is read. The solution is rounded to the grid of the output noise and its gradient
bound is proved there; what is released is a sum of integers. docs/mathematics/floating_point.md proves that this has
the guarantee of the mechanism over the reals, with nothing added to epsilon, and delta grows by
(1 + e^epsilon) (nu + q): nu for the generator of the bits, q the probability of a refusal.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from explorer.accounting import GammaNoise, Gaussian
from explorer.learning.certificate import certified_minimum, largest_number_of_records
from explorer.learning.grid import GridNoise, grid_below, release_on_grid
from explorer.learning.learners.linear import PrivateLearner, Problem, Release
from explorer.learning.losses import Loss
from explorer.learning.noise import draw_noise, norm_quantile
from explorer.learning.objective import PerturbedObjective, WatchedObjective
from explorer.learning.privacy import ARITHMETIC, NEIGHBOURS, RANDOMNESS, PrivacyStatement
from explorer.learning.records.blocks import AbstractRecords
from explorer.learning.sampling.bits import Bits
from explorer.learning.solvers import Solver
from explorer.learning.types import Array

RESERVE = 2e-9
"""The part of delta that is kept for refusals and for the rounding of the accountants."""

_PURE_TAIL = np.log(1e-40)  # of the noise, beyond which n_max is not proved, where delta is 0

ASSUMPTIONS = (
    f"{NEIGHBOURS}; the number of records is not used",
    "the class labels and the number of features are public",
    *RANDOMNESS,
    *ARITHMETIC,
    "whether the fit refuses to release is not part of the guarantee beyond n_max records",
)


class Draws(NamedTuple):
    """The noise of one release: of the linear term, None where there is none, and of the output."""

    linear: GridNoise | None
    output: GridNoise


class MinimumOnGrid(PrivateLearner):
    """A learner whose mechanism has l2_reg, gradient_tol and output_step; `_linear_step` is the noise of b, if any."""

    loss: str | Loss
    clip_norm: float | None
    solver: str | Solver
    max_passes: int
    callback: Callable[[int, float], object] | None

    def _linear_step(self, mechanism: Any) -> Gaussian | GammaNoise | None:
        """The noise of the linear term b, as a mechanism of accounting, or None where b = 0."""
        raise NotImplementedError

    def _draw(self, problem: Problem, plan: PrivacyStatement, bits: Bits) -> Draws:
        linear = self._linear_step(plan.mechanism)
        draw = partial(draw_noise, dimension=problem.dimension, bits=bits)
        return Draws(None if linear is None else draw(linear), draw(plan.mechanism.output_step))

    def _release(self, records: AbstractRecords, problem: Problem, plan: PrivacyStatement, draws: Draws) -> Release:
        mechanism, b = plan.mechanism, draws.linear
        watch: Callable[[Array, Array], object] | None = getattr(self, "watch", None)
        kind = PerturbedObjective if watch is None else partial(WatchedObjective, watch=watch)
        objective = kind(
            records,
            loss=problem.loss,
            l2_reg=mechanism.l2_reg,
            linear_term=np.zeros(problem.dimension) if b is None else b.value,
            clip_norm=problem.sensitivity(self.clip_norm)[1],
        )
        solution = certified_minimum(
            objective,
            gradient_tol=mechanism.gradient_tol,
            grid=draws.output.grid,
            linear_error=0.0 if b is None else b.distance,
            n_max=plan.n_max or 0,
            solver=self.solver,
            max_passes=self.max_passes,
            callback=self.callback,
        )
        return Release(
            release_on_grid(solution.x, draws.output),
            solution.n_gradient_evaluations,
            gradient_norm=solution.gradient_norm,
            grid=draws.output.grid,
        )

    def _stated(self, plan: PrivacyStatement, problem: Problem) -> PrivacyStatement:
        """`plan`, made for (1 - RESERVE) delta, with the reserve added to its delta and with its n_max.

        Up to n_max records a refusal takes a |b| beyond a norm that is exceeded with probability q at most, chosen such
        that (1 + e^epsilon) q for all uses is half of the reserve.
        """
        if not all(hasattr(problem.loss, name) for name in ("relative_error", "absolute_error")):
            raise ValueError(
                "loss must state relative_error and absolute_error, the accuracy of its derivative in doubles: "
                f"got loss={problem.loss!r}"
            )
        mechanism, linear = plan.mechanism, self._linear_step(plan.mechanism)
        norm = error = 0.0
        if linear is not None:
            tail = np.log(RESERVE / 2 * plan.delta) if plan.delta else _PURE_TAIL
            log_tail = float(tail - np.logaddexp(0, plan.epsilon) - np.log(plan.uses))
            scale = linear.noise_std if isinstance(linear, Gaussian) else linear.noise_scale
            error = grid_below(scale) * np.sqrt(problem.dimension) / 2 * (1 + 2.0**-40)
            norm = norm_quantile(linear, dimension=problem.dimension, log_tail=log_tail) + error
        step = mechanism.output_step
        n_max = largest_number_of_records(
            loss=problem.loss,
            dimension=problem.dimension,
            lipschitz=mechanism.lipschitz,
            smoothness=problem.smoothness,
            row_norm=problem.row_norm,
            l2_reg=mechanism.l2_reg,
            gradient_tol=mechanism.gradient_tol,
            grid=grid_below(step.noise_std if isinstance(step, Gaussian) else step.noise_scale),
            linear_norm=norm,
            linear_error=error,
        )
        return replace(plan, n_max=n_max, delta=plan.delta * (1 + RESERVE))
