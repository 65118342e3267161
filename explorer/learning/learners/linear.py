"""Base classes of all private linear learners: validated data, labels, one-vs-rest, and the released coefficients.

A learner implements two steps. `_plan` settles its mechanism and guarantee from public numbers alone; `_release` runs
the mechanism on one problem. With m > 2 classes there are m problems, class against rest, on the same records: adding
one record changes all of them, so the plan is for m uses of the mechanism together.

Every estimator is a class of a kind of target (`PrivateLinearClassifier`, `PrivateLinearRegressor`) and a mechanism,
with an `__init__` of its own: scikit-learn reads the parameters from its signature, and the base classes declare
the types of those that they use.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from scipy.special import expit
from sklearn import config_context
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils import Tags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from explorer.learning.losses import Logistic, Loss, resolve_loss
from explorer.learning.privacy import PrivacyStatement, PrivacyWarning
from explorer.learning.records.blocks import AbstractRecords, canonical
from explorer.learning.records.inputs import is_dask, label_vector, refuse_text, target_vector
from explorer.learning.records.sources import largest_norm, records_of
from explorer.learning.sampling.bits import Bits, FreshStreams, bits_of
from explorer.learning.types import Array, FeatureMatrix, RandomState
from explorer.validation import is_magnitude, magnitude, shorten

NORM_RESERVE = 2.0**-30
"""Relative: what computed norms and scale factors may be too small by, for up to 2^22 entries in a row."""


@dataclass(frozen=True, kw_only=True)
class Problem:
    """The public facts from which a plan is made.

    Attributes
    ----------
    loss : Loss
    data_norm, row_norm : float, largest norms of a feature row and of a design row (with its constant); the latter, and
        with it the constants below, include NORM_RESERVE
    dimension : int, of theta
    n_records : int; used only by learners that subsample records, which state it as an assumption
    uses : int, number of problems on the same records
    """

    loss: Loss
    data_norm: float
    row_norm: float
    dimension: int
    n_records: int
    uses: int

    @property
    def smoothness(self) -> float:
        """Bound on the Hessian of one record's loss in theta."""
        return self.loss.smoothness * self.row_norm**2

    def sensitivity(self, clip_norm: float | None) -> tuple[float, float | None]:
        """(L, C): the bound on one record's gradient, and the clipping norm, None where clipping has no effect.

        L includes NORM_RESERVE, also where it is C.
        """
        lipschitz = self.loss.lipschitz * self.row_norm
        clip_norm = None if clip_norm is None else magnitude("clip_norm", clip_norm)
        if clip_norm is not None and clip_norm < lipschitz:
            return clip_norm * (1 + NORM_RESERVE), clip_norm
        if not np.isfinite(lipschitz):
            raise ValueError(
                f"clip_norm must be given for a loss whose slope is unbounded: got clip_norm=None, {self.loss!r}"
            )
        if not is_magnitude(lipschitz):
            raise ValueError(
                "loss must have a slope whose bound times the largest row norm is a number from 1e-100 to 1e100: "
                f"got {lipschitz!r} with {self.loss!r}"
            )
        return lipschitz, None


class Release(NamedTuple):
    """Result of one run of a mechanism: the private theta (d,), the work done, the proven gradient norm, the grid."""

    theta: Array
    n_gradient_evaluations: int
    gradient_norm: float | None = None
    grid: float | None = None


class PrivateLearner(FreshStreams, BaseEstimator):
    """A mechanism as a learner; subclasses declare the types of its parameters, estimators define `__init__`."""

    _reads_single_records: ClassVar[bool] = False  # whether `_release` takes single records, not only sums over all

    def _plan(self, problem: Problem) -> PrivacyStatement:
        """A PrivacyStatement for `problem`, whose `mechanism` is to run `problem.uses` times."""
        raise NotImplementedError

    def _draw(self, problem: Problem, plan: PrivacyStatement, bits: Bits) -> Any:
        """The noise of one problem, drawn before the records are read; or `bits`, for a learner that draws it later."""
        return bits

    def _release(self, records: AbstractRecords, problem: Problem, plan: PrivacyStatement, draws: Any) -> Release:
        """Run plan.mechanism on the Records of one problem, with the result of `_draw`."""
        raise NotImplementedError


@contextmanager
def _finite_checks() -> Iterator[None]:
    """Make scikit-learn check for finite numbers whatever its configuration; report overflowing Python integers."""
    try:
        with config_context(assume_finite=False):
            yield
    except OverflowError:
        raise ValueError("X and y must be finite in double precision: got an integer beyond 1.8e308") from None


def _refuse_weights(weights: dict[str, Any]) -> None:
    """Raise ValueError if `fit` was given anything but X and y."""
    for name, value in weights.items():
        if value is not None:
            raise ValueError(
                f"{name} must not be given: the guarantee is for records that all count once, and a weight would "
                f"multiply the bounds on a record's gradient and curvature: got {name}={shorten(value)}"
            )


class PrivateLinearModel(PrivateLearner):
    """The part of a learner that depends neither on the mechanism nor on the kind of target."""

    loss: str | Loss
    data_norm: float | Literal["max"]
    fit_intercept: bool
    random_state: RandomState

    coef_: Array
    intercept_: Any  # ndarray (m,) of a classifier, float of a regressor
    n_features_in_: int
    grid_: float
    n_gradient_evaluations_: int
    privacy_: PrivacyStatement

    _labels: ClassVar[Literal["signs", "real"]]

    @_finite_checks()
    def _validated(self, X: FeatureMatrix, y: Any) -> tuple[FeatureMatrix, Any]:
        """X, and y converted by `_vector`, both checked."""
        if is_dask(X):
            if self._reads_single_records:
                raise ValueError(
                    f"X must be in memory or memory-mapped for {type(self).__name__}, which reads single records: "
                    "got a dask array"
                )
            from explorer.learning.records.dask_records import validated  # dask is an optional dependency

            return validated(self, X, y, self._vector)
        if sparse.issparse(X):
            X = canonical(X)  # before the check for finite numbers: finite duplicate entries may have an infinite sum
        else:
            refuse_text(X)
        checked: Any = validate_data(self, X, self._vector(y), accept_sparse="csr", dtype=[np.float64, np.float32])
        return checked

    @staticmethod
    def _vector(y: Any) -> Any:
        """y as an array of labels or of real targets."""
        raise NotImplementedError

    def _targets(self, X: FeatureMatrix, y: Any) -> tuple[FeatureMatrix, list, np.ndarray | None]:
        """X and y checked: X, a list with the target vector of each problem, and the labels or None."""
        raise NotImplementedError

    def plan(self, X: FeatureMatrix, y: Any) -> PrivacyStatement:
        """The PrivacyStatement that fit(X, y) would make, from the shape of X and the labels, without a fit."""
        X, targets, _ = self._targets(X, y)
        return self._planned(X, len(targets))[1]

    def _planned(self, X: FeatureMatrix, uses: int) -> tuple[Problem, PrivacyStatement]:
        data_norm, leaked = self._data_norm(X)
        constant = bool(self.fit_intercept)
        problem = Problem(
            loss=resolve_loss(self.loss, labels=self._labels),
            data_norm=data_norm,
            row_norm=float(np.hypot(data_norm, 1.0) if constant else data_norm) * (1 + NORM_RESERVE),
            dimension=X.shape[1] + constant,
            n_records=X.shape[0],
            uses=uses,
        )
        plan = self._plan(problem)
        return problem, replace(plan, leaked=plan.leaked + leaked)

    def _fit(self, X: FeatureMatrix, targets: list) -> None:
        """Release one theta for each target vector; set the fitted attributes."""
        problem, plan = self._planned(X, len(targets))
        bits = bits_of(self.random_state)
        draws = [self._draw(problem, plan, bits) for _ in targets]
        records = records_of(X, targets[0], data_norm=problem.data_norm, constant=bool(self.fit_intercept))
        releases = [
            self._release(records.with_targets(y), problem, plan, draw) for y, draw in zip(targets, draws, strict=True)
        ]
        theta = np.array([release.theta for release in releases])
        if not np.isfinite(theta).all():
            raise FloatingPointError("theta overflowed: nothing is released")
        self.coef_, self.intercept_ = (
            (theta[:, :-1], theta[:, -1]) if self.fit_intercept else (theta, np.zeros(len(theta)))
        )
        if releases[0].grid is not None:
            self.grid_ = releases[0].grid
        self.n_gradient_evaluations_ = sum(release.n_gradient_evaluations for release in releases)
        norms = [release.gradient_norm for release in releases if release.gradient_norm is not None]
        self.privacy_ = replace(plan, gradient_norm=max(norms, default=None))

    def _data_norm(self, X: FeatureMatrix) -> tuple[float, tuple[str, ...]]:
        """The limit on row norms, and a description of what was leaked to set it."""
        if not isinstance(self.data_norm, str):
            return magnitude("data_norm", self.data_norm), ()
        if self.data_norm != "max":
            raise ValueError(f"data_norm must be a finite number > 0 or 'max': got data_norm={self.data_norm!r}")
        norm = largest_norm(X) or 1.0
        if not is_magnitude(norm):
            raise ValueError(f"data_norm='max' requires a largest row norm from 1e-100 to 1e100: got {norm!r}")
        leak = f"data_norm='max' took the largest row norm, {norm:.6g}, from the data"
        warnings.warn(f"{leak}: the stated (epsilon, delta) does not cover it", PrivacyWarning, stacklevel=5)
        return norm, (leak,)

    def _linear(self, X: FeatureMatrix) -> Array:
        check_is_fitted(self)
        if is_dask(X):
            validate_data(self, X, reset=False, skip_check_array=True)
            return np.asarray(X @ self.coef_.T) + self.intercept_
        X = validate_data(self, X, accept_sparse="csr", dtype=[np.float64, np.float32], reset=False)
        return np.asarray(X @ self.coef_.T) + self.intercept_

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


class PrivateLinearClassifier(ClassifierMixin, PrivateLinearModel):
    """Two classes, or one-vs-rest of several. classes=None treats the labels found in y as public."""

    classes: ArrayLike | None

    classes_: np.ndarray

    _labels = "signs"

    @staticmethod
    def _vector(y: Any) -> Any:
        return label_vector(y)

    def fit(self, X: FeatureMatrix, y: Any, **weights: Any) -> Self:
        """Fit to X, ndarray, CSR or Dask array (n, p), and labels y (n,); return self, or raise and release nothing.

        No weights are taken: ValueError for sample_weight and the like.
        """
        _refuse_weights(weights)
        X, targets, classes = self._targets(X, y)
        self._fit(X, targets)
        self.classes_ = classes
        return self

    def _targets(self, X: FeatureMatrix, y: Any) -> tuple[FeatureMatrix, list, np.ndarray]:
        X, y = self._validated(X, y)
        labels = np.asarray(np.unique(y))  # in memory, also for a Dask array
        check_classification_targets(labels)
        classes = labels if self.classes is None else np.unique(label_vector(self.classes, "classes"))
        if len(classes) < 2:
            raise ValueError(f"y must have two classes or more: got 1 class, {classes.tolist()[0]!r}")
        if unknown := set(labels.tolist()).difference(classes.tolist()):
            raise ValueError(
                f"y must hold only the labels named in classes={self.classes!r}: got {next(iter(unknown))!r}"
            )
        ones = classes[1:, None] if len(classes) == 2 else classes[:, None]  # arrays: a NumPy scalar drops a final "\0"
        return X, [np.where(y == one, 1.0, -1.0) for one in ones], classes

    def decision_function(self, X: FeatureMatrix) -> Array:
        """x.coef + intercept: ndarray (n,), positive for classes_[1]; with m > 2 classes (n, m), one column each."""
        scores = self._linear(X)
        return scores[:, 0] if scores.shape[1] == 1 else scores

    def predict(self, X: FeatureMatrix) -> np.ndarray:
        """Labels, ndarray (n,): by the sign of the score for two classes, of the largest score for more."""
        scores = self.decision_function(X)
        return self.classes_[(scores > 0).astype(int) if scores.ndim == 1 else scores.argmax(axis=1)]

    def score(self, X: FeatureMatrix, y: Any, sample_weight: ArrayLike | None = None) -> float:
        """Accuracy on X and y, with labels as `fit` takes them."""
        return super().score(X, label_vector(y), sample_weight)

    @available_if(lambda self: self.loss == "logistic" or isinstance(self.loss, Logistic))
    def predict_proba(self, X: FeatureMatrix) -> Array:
        """Probabilities by the logistic model, ndarray (n, m); one-vs-rest scores are normalised to sum to 1.

        They carry the noise of the coefficients and are not calibrated.
        """
        probability = expit(self._linear(X))
        if probability.shape[1] == 1:
            return np.hstack([1 - probability, probability])
        return probability / np.maximum(probability.sum(axis=1, keepdims=True), np.finfo(float).tiny)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.poor_score = True  # at epsilon = 1 on the toy data of the estimator checks
        return tags


class PrivateLinearRegressor(RegressorMixin, PrivateLinearModel):
    """Real targets."""

    _labels = "real"

    @staticmethod
    def _vector(y: Any) -> Any:
        return target_vector(y)

    def fit(self, X: FeatureMatrix, y: Any, **weights: Any) -> Self:
        """Fit to X, ndarray, CSR or Dask array (n, p), and real y (n,); return self, or raise and release nothing.

        No weights are taken: ValueError for sample_weight and the like.
        """
        _refuse_weights(weights)
        X, targets, _ = self._targets(X, y)
        self._fit(X, targets)
        self.coef_, self.intercept_ = self.coef_[0], float(self.intercept_[0])
        return self

    def _targets(self, X: FeatureMatrix, y: Any) -> tuple[FeatureMatrix, list, None]:
        X, y = self._validated(X, y)
        return X, [y], None

    def predict(self, X: FeatureMatrix) -> Array:
        """x.coef + intercept, ndarray (n,)."""
        return self._linear(X)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.regressor_tags.poor_score = True
        return tags


def generator(random_state: RandomState) -> np.random.Generator:
    """A numpy Generator: seeded by the operating system for None, from a seed, or from a legacy RandomState."""
    if isinstance(random_state, np.random.RandomState):
        return np.random.default_rng(random_state.randint(2**32, size=8, dtype=np.uint64))
    return np.random.default_rng(random_state)
