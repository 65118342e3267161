"""DP-SGD for generalised linear models, as scikit-learn estimators.

Samples are Poisson, as the accounting assumes: every record enters every step's sample independently; a sample may be
empty. A record's gradient is f'(x.theta; y) x, so clipping it amounts to clipping the number f' at C / |x|: per-record
gradients are never formed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache, partial
from math import ceil
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from explorer.accounting import CompositionBound, PoissonSubsampledGaussian, PrivacyBound, RenyiBound
from explorer.learning.integer_gradients import IntegerGradients, IntegerRecords, IntegerRows, limited, total_of_parts
from explorer.learning.learners.descent import NoisyDescent
from explorer.learning.learners.linear import PrivateLinearClassifier, PrivateLinearRegressor, Problem
from explorer.learning.learners.optimizers import Optimizer
from explorer.learning.losses import Loss
from explorer.learning.sampling.bits import Bits
from explorer.learning.sampling.coins import PoissonSampler
from explorer.learning.types import Array, RandomState
from explorer.validation import natural, positive

# RDP at integer orders is a finite sum: calibration takes 0.05 s and at most 1% more noise than with all orders.
ORDERS = range(2, 257)

_ACCOUNTANTS = {"renyi": partial(RenyiBound, orders=ORDERS), "profile": CompositionBound}


class _PoissonSampledDescent(NoisyDescent):
    """DP-SGD on one problem; the parameters are those of DPSGDClassifier."""

    batch_size: float
    epochs: int

    _accountants = _ACCOUNTANTS
    _reads_single_records = True
    _assumptions = (
        "the number of records is public: the sampling rate and the number of steps follow from it",
        "the class labels and the number of features are public",
        "every step takes an independent, secret Poisson sample; every iterate theta may be observed",
    )

    def _expected_batch(self, problem: Problem) -> float:
        return self._expected_batch_of(problem.n_records)

    def _expected_batch_of(self, n_records: int) -> float:
        return min(positive("batch_size", self.batch_size), n_records)

    def _n_steps(self, problem: Problem) -> int:
        return natural("epochs", self.epochs) * ceil(problem.n_records / self._expected_batch(problem))

    def _mechanism(self, problem: Problem, noise_multiplier: float) -> PoissonSubsampledGaussian:
        return PoissonSubsampledGaussian(
            noise_multiplier=noise_multiplier,
            sampling_rate=self._expected_batch(problem) / problem.n_records,
            steps=self._n_steps(problem),
        )

    def _noise_std(self, problem: Problem, mechanism: PoissonSubsampledGaussian) -> float:
        return mechanism.noise_multiplier * problem.sensitivity(self.clip_norm)[0]

    def _prepared(self, records: Any, sums: IntegerGradients) -> IntegerRecords:
        return IntegerRecords(records, sums)

    def _gradients(
        self, records: IntegerRecords, sums: IntegerGradients, steps: int, bits: Bits
    ) -> Iterator[tuple[int, Callable[[Array], np.ndarray]]]:
        n = records.n_records
        samples = _sampler(n, self._expected_batch_of(n) / n).draw(steps, bits)
        for rows in (_sparse_rows if records.is_sparse else _dense_rows)(records, samples):
            yield sum(len(part.y) for part in rows), partial(total_of_parts, sums, rows)


@lru_cache(maxsize=16)
def _sampler(n_records: int, sampling_rate: float) -> PoissonSampler:
    """The sampler of public numbers: its table takes as long as some steps."""
    return PoissonSampler(n_records=n_records, sampling_rate=sampling_rate)


def _dense_rows(records: IntegerRecords, samples: list[np.ndarray]) -> Iterator[list[IntegerRows]]:
    for sample in samples:
        yield [records.take(part) for part in limited(sample)]


def _sparse_rows(records: IntegerRecords, samples: list[np.ndarray]) -> Iterator[list[IntegerRows]]:
    """The rows of each sample. All are indexed at once: an indexing operation has a high constant cost."""
    together = records.take(np.concatenate(samples))
    X: Any = together.rows.X  # pyright: ignore[reportAttributeAccessIssue]
    starts, columns, counts, low = X.indptr, X.indices.astype(np.intp), np.diff(X.indptr), 0
    for sample in samples:
        parts = []
        for part in limited(sample):
            high = low + len(part)
            entries = slice(starts[low], starts[high])
            block = _SparseBlock(
                values=X.data[entries],
                columns=columns[entries],
                rows=np.repeat(np.arange(high - low), counts[low:high]),
                n_rows=high - low,
                dimension=X.shape[1] + together.rows.constant,
                constant=together.rows.constant,
            )
            parts.append(IntegerRows(block, together.y[low:high], together.caps[low:high]))
            low = high
        yield parts


@dataclass(frozen=True, kw_only=True)
class _SparseBlock:
    """Sparse rows by their entries, as a `Block` without scale; both products have a tenth of scipy's overhead."""

    values: np.ndarray
    columns: np.ndarray
    rows: np.ndarray
    n_rows: int
    dimension: int
    constant: bool

    def dot(self, theta: Array) -> Array:
        """Margins x_i.theta, ndarray (m,)."""
        u = np.bincount(self.rows, weights=self.values * theta[self.columns], minlength=self.n_rows)
        return u + theta[-1] if self.constant else u

    def transposed_dot(self, weights: Array) -> Array:
        """sum_i weights_i x_i, ndarray (d,)."""
        total = np.bincount(self.columns, weights=self.values * weights[self.rows], minlength=self.dimension)
        if self.constant:
            total[-1] = weights.sum()
        return total


class DPSGDClassifier(PrivateLinearClassifier, _PoissonSampledDescent):
    """Differentially private linear classification by DP-SGD.

    From theta = 0, epochs * ceil(n / batch_size) times: every record enters the sample independently with
    probability q = batch_size / n; with per-record gradients clipped to C,

        theta <- theta - step( (sum of the sample's gradients + N(0, noise_multiplier^2 C^2 I)) / batch_size
                               + (l2_reg / n) theta ).

    The last theta is released. With m > 2 classes this is done once for each class against the rest, and
    (epsilon, delta) holds for the m-fold composition.

    Parameters
    ----------
    epsilon : float > 0, nats; None if noise_multiplier is given
    delta : float inside (0, 1)
    loss : name or object of `explorer.learning.losses` for labels -1, +1: "logistic", "smoothed_hinge", "probit"
    clip_norm : float > 0, C, or None for the loss's bound L on the gradient (including the constant column); required
        where that is infinite
    data_norm : float > 0, B; longer rows are scaled down to it. "max" takes the largest row norm of the data, which is
        not private and raises a PrivacyWarning
    noise_multiplier : float > 0, noise relative to C, or None for the smallest that guarantees (epsilon, delta); when
        it is given, epsilon must be None and `privacy_` states the resulting one
    batch_size : float > 0, expected number of records in a sample; n and more for all of them
    epochs : int >= 1
    learning_rate : float > 0
    optimizer : "sgd", "momentum", "adam" or an object of `explorer.learning.learners.optimizers` such as
        Momentum(decay=0.8)
    l2_reg : float >= 0, weight of the regulariser (l2_reg / 2) |theta|^2 for the *sum* of losses
    accountant : the bound that must grant (epsilon, delta): "renyi" (integer orders 2 to 256, as in the literature;
        fast), "profile" (`CompositionBound`: 5 to 10% less noise, seconds to calibrate) or a callable from
        PoissonSubsampledGaussian to a PrivacyBound, which also receives uses=m
    fit_intercept : bool; the constant column counts in the row norm and is regularised and perturbed like the others
    classes : array of the labels, or None to treat the labels found in y as public
    random_state : None (seeded by the operating system), int or numpy Generator. A seed known to others voids privacy.
    callback : callable (step, theta) or None; an exception it raises aborts the fit. Its arguments are covered by the
        guarantee.
    watch : callable (theta, noise) or None, after each step: the iterate, and the noise added to the step's sum of
        gradients, both ndarray (d,). For demonstrations only: the noise is secret.

    Attributes
    ----------
    coef_ : ndarray (1, p) or (m, p), intercept_ : ndarray (1,) or (m,), classes_ : ndarray, n_features_in_ : int
    privacy_ : PrivacyStatement
    n_gradient_evaluations_ : int, of single records

    Raises
    ------
    ValueError for parameters out of range. FloatingPointError if |theta| exceeds 1e100, which takes an extreme
    learning rate or learning_rate * l2_reg above 2 n: clipped gradients alone cannot diverge. All iterates are private,
    so this error reveals nothing that the guarantee does not cover.

    Notes
    -----
    The number of records is assumed public. Batches of a shuffled pass over the data, as in most software, are not
    Poisson samples, and this accounting does not hold for them. Coins and noise are exact and gradients are summed in
    integers, so the guarantee holds for the bits of all iterates: docs/mathematics/floating_point.md, Theorem 5.

    References: Abadi et al. 2016; Mironov, Talwar & Zhang 2019.

    Examples
    --------
    >>> from sklearn.datasets import make_blobs
    >>> X, y = make_blobs(2000, centers=[[-0.5, 0], [0.5, 0]], cluster_std=0.2, random_state=0)
    >>> DPSGDClassifier(epsilon=1.0, epochs=10, random_state=0).fit(X, y).score(X, y) > 0.9
    True
    """

    def __init__(
        self,
        epsilon: float | None = 1.0,
        *,
        delta: float = 1e-5,
        loss: str | Loss = "logistic",
        clip_norm: float | None = None,
        data_norm: float | Literal["max"] = 1.0,
        noise_multiplier: float | None = None,
        batch_size: float = 256,
        epochs: int = 60,
        learning_rate: float = 1.0,
        optimizer: str | Optimizer = "sgd",
        l2_reg: float = 0.0,
        accountant: str | Callable[..., PrivacyBound] = "renyi",
        fit_intercept: bool = True,
        classes: ArrayLike | None = None,
        random_state: RandomState = None,
        callback: Callable[[int, Array], object] | None = None,
        watch: Callable[[Array, Array], object] | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.loss = loss
        self.clip_norm = clip_norm
        self.data_norm = data_norm
        self.noise_multiplier = noise_multiplier
        self.batch_size = batch_size
        self.epochs = epochs
        self.learning_rate = learning_rate
        self.optimizer = optimizer
        self.l2_reg = l2_reg
        self.accountant = accountant
        self.fit_intercept = fit_intercept
        self.classes = classes
        self.random_state = random_state
        self.callback = callback
        self.watch = watch


class DPSGDRegressor(PrivateLinearRegressor, _PoissonSampledDescent):
    """Differentially private linear regression by DP-SGD: `DPSGDClassifier` for real targets.

    Targets need no bound: one record's gradient is bounded through the loss's derivative or by clip_norm.

    Parameters
    ----------
    loss : name or object of `explorer.learning.losses` for real targets: "huber", "pseudo_huber", "log_cosh", "squared"
        (whose derivative is unbounded: clip_norm is required)
    epsilon, delta, clip_norm, data_norm, noise_multiplier, batch_size, epochs, learning_rate, optimizer, l2_reg,
    accountant, fit_intercept, random_state, callback, watch : as in `DPSGDClassifier`

    Attributes
    ----------
    coef_ : ndarray (p,), intercept_ : float, n_features_in_ : int
    privacy_ : PrivacyStatement
    n_gradient_evaluations_ : int, of single records

    Raises
    ------
    As `DPSGDClassifier`.

    References: Abadi et al. 2016.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.linspace(-1, 1, 5000)[:, None]
    >>> DPSGDRegressor(epsilon=1.0, epochs=10, random_state=0).fit(X, 0.5 * X[:, 0]).score(X, 0.5 * X[:, 0]) > 0.9
    True
    """

    def __init__(
        self,
        epsilon: float | None = 1.0,
        *,
        delta: float = 1e-5,
        loss: str | Loss = "huber",
        clip_norm: float | None = None,
        data_norm: float | Literal["max"] = 1.0,
        noise_multiplier: float | None = None,
        batch_size: float = 256,
        epochs: int = 60,
        learning_rate: float = 1.0,
        optimizer: str | Optimizer = "sgd",
        l2_reg: float = 0.0,
        accountant: str | Callable[..., PrivacyBound] = "renyi",
        fit_intercept: bool = True,
        random_state: RandomState = None,
        callback: Callable[[int, Array], object] | None = None,
        watch: Callable[[Array, Array], object] | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.loss = loss
        self.clip_norm = clip_norm
        self.data_norm = data_norm
        self.noise_multiplier = noise_multiplier
        self.batch_size = batch_size
        self.epochs = epochs
        self.learning_rate = learning_rate
        self.optimizer = optimizer
        self.l2_reg = l2_reg
        self.accountant = accountant
        self.fit_intercept = fit_intercept
        self.random_state = random_state
        self.callback = callback
        self.watch = watch
