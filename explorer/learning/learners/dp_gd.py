"""DP-GD, full-batch gradient descent with noise, as scikit-learn estimators.

The composition of all T steps, with one record's gradient bounded by C in each, is a Gaussian mechanism of sensitivity
sqrt(T) C, so the accounting is exact, and that later steps depend on earlier outputs does not change it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from explorer.accounting import Gaussian, GaussianLowerBound, PrivacyBound
from explorer.learning.integer_gradients import ROWS, IntegerGradients, IntegerRecords, total_of_parts
from explorer.learning.learners.descent import NoisyDescent
from explorer.learning.learners.linear import PrivateLinearClassifier, PrivateLinearRegressor, Problem
from explorer.learning.learners.optimizers import Optimizer
from explorer.learning.losses import Loss
from explorer.learning.records.blocks import AbstractRecords, Records
from explorer.learning.sampling.bits import Bits
from explorer.learning.types import Array, RandomState
from explorer.validation import natural


class GaussianComposition(GaussianLowerBound):
    """The exact composition of `uses` equal Gaussian mechanisms: one of sensitivity sqrt(uses) times as large."""

    def __init__(self, mechanism: Gaussian, *, uses: int = 1) -> None:
        sensitivity = mechanism.sensitivity * np.sqrt(natural("uses", uses))
        super().__init__(Gaussian(noise_std=mechanism.noise_std, sensitivity=sensitivity))


_ACCOUNTANTS = {"exact": GaussianComposition}


class _FullBatchDescent(NoisyDescent):
    """DP-GD on one problem; the parameters are those of DPGDClassifier."""

    steps: int

    _accountants = _ACCOUNTANTS
    _assumptions = (
        "the number of records is public: the gradient's sum is divided by it",
        "the class labels and the number of features are public",
        "every iterate theta may be observed",
    )

    def _expected_batch(self, problem: Problem) -> float:
        return problem.n_records

    def _n_steps(self, problem: Problem) -> int:
        return natural("steps", self.steps)

    def _mechanism(self, problem: Problem, noise_multiplier: float) -> Gaussian:
        bound = problem.sensitivity(self.clip_norm)[0]
        return Gaussian(noise_std=noise_multiplier * bound, sensitivity=bound * np.sqrt(self._n_steps(problem)))

    def _noise_std(self, problem: Problem, mechanism: Gaussian) -> float:
        return mechanism.noise_std

    def _prepared(self, records: Any, sums: IntegerGradients) -> tuple[int, Callable[[Array], np.ndarray]]:
        """The number of records, and a function from theta to the integer sum of all gradients."""
        if isinstance(records, Records) and (kept := IntegerRecords(records, sums)).is_kept:
            slices = [slice(start, start + ROWS) for start in range(0, records.n_records, ROWS)]
            return records.n_records, partial(total_of_parts, sums, [kept.take(rows) for rows in slices])
        return records.n_records, partial(_gradient, records, sums)

    def _gradients(
        self, records: Any, sums: IntegerGradients, steps: int, bits: Bits
    ) -> Iterator[tuple[int, Callable[[Array], np.ndarray]]]:
        for _ in range(steps):
            yield records


def _gradient(records: AbstractRecords, sums: IntegerGradients, theta: Array) -> np.ndarray:
    return records.total(sums.of_block, theta)[0]


class DPGDClassifier(PrivateLinearClassifier, _FullBatchDescent):
    """Differentially private linear classification by full-batch gradient descent with noise.

    From theta = 0, `steps` times, with per-record gradients clipped to C,

        theta <- theta - step( (sum of all gradients + N(0, noise_multiplier^2 C^2 I)) / n + (l2_reg / n) theta ).

    The last theta is released. With m > 2 classes this is done once for each class against the rest, and
    (epsilon, delta) holds for the m-fold composition.

    Parameters
    ----------
    steps : int >= 1, T
    learning_rate : float > 0; for logistic loss, unit rows and a constant, gradient descent is stable up to 4
    accountant : "exact" (`GaussianComposition`), or a callable from Gaussian to a PrivacyBound, which also receives
        uses=m
    epsilon, delta, loss, clip_norm, data_norm, noise_multiplier, optimizer, l2_reg, fit_intercept, classes,
    random_state, callback, watch : as in `DPSGDClassifier`

    Attributes
    ----------
    coef_ : ndarray (1, p) or (m, p), intercept_ : ndarray (1,) or (m,), classes_ : ndarray, n_features_in_ : int
    privacy_ : PrivacyStatement; its mechanism is the Gaussian of all steps, noise_multiplier C = noise_std
    n_gradient_evaluations_ : int, of single records

    Raises
    ------
    As `DPSGDClassifier`.

    Notes
    -----
    Gradients are summed in integers and the noise is exact, so the guarantee holds for the bits of all iterates:
    docs/mathematics/floating_point.md, Theorem 5.

    References: Song, Chaudhuri & Sarwate 2013; Balle & Wang 2018 for the calibration.

    Examples
    --------
    >>> from sklearn.datasets import make_blobs
    >>> X, y = make_blobs(2000, centers=[[-0.5, 0], [0.5, 0]], cluster_std=0.2, random_state=0)
    >>> DPGDClassifier(epsilon=1.0, random_state=0).fit(X, y).score(X, y) > 0.9
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
        steps: int = 100,
        learning_rate: float = 1.0,
        optimizer: str | Optimizer = "sgd",
        l2_reg: float = 0.0,
        accountant: str | Callable[..., PrivacyBound] = "exact",
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
        self.steps = steps
        self.learning_rate = learning_rate
        self.optimizer = optimizer
        self.l2_reg = l2_reg
        self.accountant = accountant
        self.fit_intercept = fit_intercept
        self.classes = classes
        self.random_state = random_state
        self.callback = callback
        self.watch = watch


class DPGDRegressor(PrivateLinearRegressor, _FullBatchDescent):
    """Differentially private linear regression by full-batch gradient descent: `DPGDClassifier` for real targets.

    Targets need no bound: one record's gradient is bounded through the loss's derivative or by clip_norm.

    Parameters
    ----------
    loss : name or object of `explorer.learning.losses` for real targets: "huber", "pseudo_huber", "log_cosh", "squared"
        (whose derivative is unbounded: clip_norm is required)
    steps, learning_rate, accountant : as in `DPGDClassifier`
    epsilon, delta, clip_norm, data_norm, noise_multiplier, optimizer, l2_reg, fit_intercept, random_state,
    callback, watch : as in `DPSGDClassifier`

    Attributes
    ----------
    coef_ : ndarray (p,), intercept_ : float, n_features_in_ : int
    privacy_ : PrivacyStatement
    n_gradient_evaluations_ : int, of single records

    Raises
    ------
    As `DPSGDClassifier`.

    References: Song, Chaudhuri & Sarwate 2013.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.linspace(-1, 1, 5000)[:, None]
    >>> DPGDRegressor(epsilon=1.0, random_state=0).fit(X, 0.5 * X[:, 0]).score(X, 0.5 * X[:, 0]) > 0.9
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
        steps: int = 100,
        learning_rate: float = 1.0,
        optimizer: str | Optimizer = "sgd",
        l2_reg: float = 0.0,
        accountant: str | Callable[..., PrivacyBound] = "exact",
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
        self.steps = steps
        self.learning_rate = learning_rate
        self.optimizer = optimizer
        self.l2_reg = l2_reg
        self.accountant = accountant
        self.fit_intercept = fit_intercept
        self.random_state = random_state
        self.callback = callback
        self.watch = watch
