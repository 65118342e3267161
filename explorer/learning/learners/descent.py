"""Noisy gradient descent, the common part of DP-GD and DP-SGD: the noise, the step, the guarantee.

At step t, with S_t the records in the batch (all of them, or a Poisson sample), B their expected number, C the bound
on one record's gradient g_i after clipping, and n the number of records,

    gradient_t = ( sum over i in S_t of g_i(theta_t) + N(0, sigma^2 C^2 I) ) / B + (l2_reg / n) theta_t,
    theta_(t+1) = theta_t - step(gradient_t),        theta_0 = 0,

where `step` is an optimiser's update: by post-processing it costs no privacy. The last theta is released; all
earlier ones are covered by the same guarantee. The sums and their noise are integers
(`explorer.learning.integer_gradients`), so it holds for the bits of all iterates. B is the expected batch size, not the
realised one: dividing by the realised size would reveal it, and an empty sample is a step like any other, of noise
alone.

References: Song, Chaudhuri & Sarwate 2013; Bassily, Smith & Thakurta 2014; Abadi et al. 2016.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from fractions import Fraction
from functools import partial
from typing import Any, ClassVar

import numpy as np

from explorer.accounting import PrivacyBound, calibrate
from explorer.learning.grid import added, doubles
from explorer.learning.integer_gradients import IntegerGradients
from explorer.learning.learners.linear import PrivateLearner, Problem, Release
from explorer.learning.learners.optimizers import Optimizer, optimizer_of
from explorer.learning.losses import Loss
from explorer.learning.privacy import ARITHMETIC, NEIGHBOURS, RANDOMNESS, PrivacyStatement
from explorer.learning.records.blocks import AbstractRecords
from explorer.learning.sampling.bits import Bits
from explorer.learning.sampling.rounded_normal import rounded_normal
from explorer.learning.types import Array
from explorer.validation import non_negative, positive

_ROUND_RECORDS, _ROUND_ENTRIES = 2**13, 2**21  # size of a round of random numbers; it determines how bits are used
INTEGER_SUMS = (
    "a record's slope is the same double wherever the record stands among others, and the records do not change during "
    "the fit",
)
LARGEST_SQUARE = 1e200  # of |theta|^2: below it no margin overflows, which would undo the clipping


class NoisyDescent(PrivateLearner):
    """The iteration above as a learner. A subclass defines the sampling and its accounting:

    - `_accountants`: callables by name, (mechanism, uses=m) to PrivacyBound;
    - `_n_steps(problem)`, `_expected_batch(problem)`: public numbers, T and B;
    - `_mechanism(problem, noise_multiplier)`: the mechanism of all T steps; `_noise_std(problem, mechanism)`: sigma C;
    - `_assumptions`: the assumptions of its guarantee;
    - `_gradients(records, sums, steps, bits)`: for each step, the number of records in the sample and a function from
      theta to the sum of their clipped gradients, in integers by `sums`.
    """

    epsilon: float | None
    delta: float
    loss: str | Loss
    clip_norm: float | None
    noise_multiplier: float | None
    learning_rate: float
    optimizer: str | Optimizer
    l2_reg: float
    accountant: str | Callable[..., PrivacyBound]
    callback: Callable[[int, Array], object] | None
    watch: Callable[[Array, Array], object] | None

    _accountants: ClassVar[Mapping[str, Callable[..., PrivacyBound]]]
    _assumptions: ClassVar[tuple[str, ...]]

    def _n_steps(self, problem: Problem) -> int:
        raise NotImplementedError

    def _expected_batch(self, problem: Problem) -> float:
        raise NotImplementedError

    def _mechanism(self, problem: Problem, noise_multiplier: float) -> Any:
        raise NotImplementedError

    def _noise_std(self, problem: Problem, mechanism: Any) -> float:
        raise NotImplementedError

    def _prepared(self, records: Any, sums: IntegerGradients) -> Any:
        """The records as `_gradients` takes them."""
        return records

    def _gradients(
        self, records: Any, sums: IntegerGradients, steps: int, bits: Bits
    ) -> Iterator[tuple[int, Callable[[Array], np.ndarray]]]:
        raise NotImplementedError

    def _plan(self, problem: Problem) -> PrivacyStatement:
        optimizer_of(self.optimizer)
        positive("learning_rate", self.learning_rate)
        non_negative("l2_reg", self.l2_reg)
        bound = partial(resolve_accountant(self.accountant, self._accountants), uses=problem.uses)
        family = partial(self._mechanism, problem)
        if (self.epsilon is None) == (self.noise_multiplier is None):
            raise ValueError(
                "one of epsilon and noise_multiplier must be given, the other be None: got "
                f"epsilon={self.epsilon!r}, noise_multiplier={self.noise_multiplier!r}"
            )
        if self.noise_multiplier is None:
            epsilon = positive("epsilon", self.epsilon)
            found = calibrate(bound, family, parameter="noise_multiplier", epsilon=epsilon, delta=self.delta)
            mechanism, guarantee, delta = found.mechanism, found.bound, found.delta
        else:
            mechanism = family(noise_multiplier=positive("noise_multiplier", self.noise_multiplier))
            guarantee, delta = bound(mechanism), self.delta
            epsilon = float(guarantee.epsilon(delta))
        return PrivacyStatement(
            epsilon=epsilon,
            delta=delta,
            bound=type(guarantee).__name__,
            mechanism=mechanism,
            uses=problem.uses,
            assumptions=(NEIGHBOURS, *self._assumptions, *RANDOMNESS, *INTEGER_SUMS, *ARITHMETIC[1:]),
        )

    def _release(self, records: AbstractRecords, problem: Problem, plan: PrivacyStatement, draws: Bits) -> Release:
        steps, batch, bits = self._n_steps(problem), self._expected_batch(problem), draws
        sums = integer_gradients(problem, self.clip_norm)
        scale = Fraction(self._noise_std(problem, plan.mechanism)) / Fraction(sums.grid)
        decay = non_negative("l2_reg", self.l2_reg) / problem.n_records
        step = optimizer_of(self.optimizer).start(learning_rate=self.learning_rate, dimension=problem.dimension)
        at_once = int(max(1, min(_ROUND_RECORDS / batch, _ROUND_ENTRIES / batch / problem.dimension)))
        theta, evaluations, done = np.zeros(problem.dimension), 0, 0
        prepared = self._prepared(records, sums)
        with np.errstate(over="ignore", invalid="ignore"):
            while done < steps:
                count = min(at_once, steps - done)
                noise = rounded_normal(scale, count * problem.dimension, bits).reshape(count, problem.dimension)
                gradients = self._gradients(prepared, sums, count, bits)
                for (size, gradient), draw in zip(gradients, noise, strict=True):
                    total = doubles(added(gradient(theta), draw)) * sums.grid
                    theta = theta - step(total / batch + decay * theta)
                    evaluations, done = evaluations + size, done + 1
                    if not theta @ theta <= LARGEST_SQUARE:
                        raise self._overflow(done)
                    if self.callback is not None:
                        self.callback(done, theta.copy())
                    if self.watch is not None:
                        self.watch(theta.copy(), doubles(draw) * sums.grid)
        return Release(theta, evaluations)

    def _overflow(self, step: int) -> FloatingPointError:
        return FloatingPointError(
            f"theta overflowed at step {step}; learning_rate or l2_reg must be smaller: "
            f"got learning_rate={self.learning_rate!r}, l2_reg={self.l2_reg!r}"
        )


def integer_gradients(problem: Problem, clip_norm: float | None) -> IntegerGradients:
    """The exact sums of the gradients of `problem`, each cut to the norm that the accounting assumes."""
    return IntegerGradients(
        loss=problem.loss,
        bound=problem.sensitivity(clip_norm)[0],
        row_norm=problem.row_norm,
        n_records=problem.n_records,
    )


def resolve_accountant(
    accountant: str | Callable[..., PrivacyBound], named: Mapping[str, Callable[..., PrivacyBound]]
) -> Callable[..., PrivacyBound]:
    """The entry of `named` called `accountant`, or `accountant` itself if it is callable; ValueError otherwise."""
    if isinstance(accountant, str) and accountant in named:
        return named[accountant]
    if callable(accountant):
        return accountant
    raise ValueError(f"accountant must be one of {sorted(named)} or callable: got accountant={accountant!r}")
