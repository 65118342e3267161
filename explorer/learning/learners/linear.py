"""What all private linear learners share: checked data, clipped rows, labels, one-vs-rest, the released coefficients.

A learner fills in two steps. `_plan` settles its mechanism and guarantee from public numbers alone; `_release` runs the
mechanism on one problem. With m > 2 classes there are m problems, class against rest, on the same records: adding one
record changes all of them, so the plan is for m uses of the mechanism together.

A learner's class is `@estimator class Name(kind of target, mechanism)`, both of them `PrivateLearner`s that annotate
their parameters. The kind of target comes first: it decides which loss is the default.
"""

import warnings
from contextlib import contextmanager
from dataclasses import dataclass, field, make_dataclass, replace
from inspect import get_annotations
from typing import NamedTuple, dataclass_transform

import numpy as np
from scipy import sparse
from scipy.special import expit
from sklearn import config_context
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from explorer.learning.losses import Logistic, resolve_loss
from explorer.learning.privacy import PrivacyWarning
from explorer.learning.records.blocks import canonical
from explorer.learning.records.inputs import is_dask, label_vector, refuse_text, target_vector
from explorer.learning.records.sources import largest_norm, records_of
from explorer.validation import is_magnitude, magnitude

NEIGHBOURS = "neighbouring datasets differ by one added or removed record"
RANDOMNESS = (
    "the random numbers are secret: with a known random_state there is no privacy",
    "the noise is drawn in floating point",
    "released are coef_ and intercept_; n_gradient_evaluations_, a verified gradient norm and what a callback or "
    "watch sees depend on the data and are for its curator alone",
)


@dataclass(frozen=True, kw_only=True)
class Problem:
    """The public facts that a plan rests on.

    Attributes
    ----------
    loss : the loss
    data_norm, row_norm : float, largest norms of a feature row and of a design row (with its constant)
    dimension : int, of theta
    n_records : int; only learners that sample records by a rate may look at it, and say so
    uses : int, number of problems on the same records
    """

    loss: object
    data_norm: float
    row_norm: float
    dimension: int
    n_records: int
    uses: int

    @property
    def smoothness(self):
        """Bound on the Hessian of one record's loss in theta."""
        return self.loss.smoothness * self.row_norm**2

    def sensitivity(self, clip_norm):
        """(L, C): bound on one record's gradient, and the clipping norm that makes it so, None if it never binds."""
        lipschitz = self.loss.lipschitz * self.row_norm
        clip_norm = None if clip_norm is None else magnitude("clip_norm", clip_norm)
        if clip_norm is not None and clip_norm < lipschitz:
            return clip_norm, clip_norm
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
    """What running the mechanism once gave: the private theta (d,), and what it cost and verified."""

    theta: np.ndarray
    n_gradient_evaluations: int
    gradient_norm: float | None = None


@dataclass_transform()
class PrivateLearner(BaseEstimator):
    """A mechanism as a learner. What the classes of a learner annotate are its parameters, see `estimator`."""

    _picks_records = False  # whether `_release` takes single records, not only sums over all

    def _plan(self, problem):
        """A PrivacyStatement for `problem`, whose `mechanism` is to run `problem.uses` times."""
        raise NotImplementedError

    def _release(self, records, problem, plan, rng):
        """Run plan.mechanism on the Records of one problem; return a Release."""
        raise NotImplementedError


def estimator(cls):
    """Class decorator: give a learner its `__init__`, of all parameters that its classes annotate, bases first.

    It takes epsilon by position or name, the others by name, and assigns them untouched, as scikit-learn asks. Where a
    parameter is annotated twice, the derived class has the default and the base the place, as in dataclasses. One of
    these makes the `__init__`, but a learner is none: dask takes dataclass instances of equal fields for the same,
    though they were fitted to different data.
    """
    annotations = {}
    for base in reversed(cls.__mro__):
        if issubclass(base, PrivateLearner):
            annotations |= get_annotations(base)
    parameters = [
        (name, annotation, field(default=getattr(cls, name), kw_only=name != "epsilon"))
        for name, annotation in annotations.items()
    ]
    cls.__init__ = make_dataclass(cls.__name__, parameters).__init__
    return cls


@contextmanager
def _strictly():
    """Where scikit-learn checks that numbers are finite, though set not to, and where Python's integers overflow."""
    try:
        with config_context(assume_finite=False):
            yield
    except OverflowError:
        raise ValueError("X and y must be finite in double precision: got an integer beyond 1.8e308") from None


class PrivateLinearModel(PrivateLearner):
    """The part of a learner that depends neither on the mechanism nor on the kind of target."""

    fit_intercept: bool = True

    @_strictly()
    def _validated(self, X, y):
        """X and what `_vector` makes of y, both checked."""
        if is_dask(X):
            if self._picks_records:
                raise ValueError(
                    f"X must be in memory or memory-mapped for {type(self).__name__}, which picks single records: "
                    "got a dask array"
                )
            from explorer.learning.records.dask_records import validated  # dask is an extra

            return validated(self, X, y, self._vector)
        if sparse.issparse(X):
            X = canonical(X)  # before it is checked: finite entries may have an infinite sum
        else:
            refuse_text(X)
        return validate_data(self, X, self._vector(y), accept_sparse="csr", dtype=[np.float64, np.float32])

    def _targets(self, X, y):
        """X and y checked: X, a list with the target vector of each problem, and the labels or None."""
        raise NotImplementedError

    def plan(self, X, y):
        """The PrivacyStatement that fit(X, y) would make, from the shape of X and the labels, without a fit."""
        X, targets, _ = self._targets(X, y)
        return self._planned(X, len(targets))[1]

    def _planned(self, X, uses):
        data_norm, leaked = self._data_norm(X)
        constant = bool(self.fit_intercept)
        problem = Problem(
            loss=resolve_loss(self.loss, labels=self._labels),
            data_norm=data_norm,
            row_norm=float(np.hypot(data_norm, 1.0) * (1 + 2 * np.finfo(float).eps)) if constant else data_norm,
            dimension=X.shape[1] + constant,
            n_records=X.shape[0],
            uses=uses,
        )
        plan = self._plan(problem)
        return problem, replace(plan, leaked=plan.leaked + leaked)

    def _fit(self, X, targets):
        """Release one theta for each target vector; set the coefficients and everything said about them."""
        problem, plan = self._planned(X, len(targets))
        rng = generator(self.random_state)
        records = records_of(X, targets[0], data_norm=problem.data_norm, constant=bool(self.fit_intercept))
        releases = [self._release(records.with_targets(y), problem, plan, rng) for y in targets]
        theta = np.array([release.theta for release in releases])
        if not np.isfinite(theta).all():
            raise FloatingPointError("theta overflowed: nothing is released")
        self.coef_, self.intercept_ = (
            (theta[:, :-1], theta[:, -1]) if self.fit_intercept else (theta, np.zeros(len(theta)))
        )
        self.n_gradient_evaluations_ = sum(release.n_gradient_evaluations for release in releases)
        norms = [release.gradient_norm for release in releases if release.gradient_norm is not None]
        self.privacy_ = replace(plan, gradient_norm=max(norms, default=None))
        return self

    def _data_norm(self, X):
        """The limit on row norms, and what was leaked to learn it."""
        if not isinstance(self.data_norm, str):
            return magnitude("data_norm", self.data_norm), ()
        if self.data_norm != "max":
            raise ValueError(f"data_norm must be a finite number > 0 or 'max': got data_norm={self.data_norm!r}")
        norm = largest_norm(X) or 1.0
        if not is_magnitude(norm):
            raise ValueError(f"data_norm='max' must find a largest row norm from 1e-100 to 1e100: got {norm!r}")
        leak = f"data_norm='max' took the largest row norm, {norm:.6g}, from the data"
        warnings.warn(f"{leak}: the stated (epsilon, delta) does not cover it", PrivacyWarning, stacklevel=5)
        return norm, (leak,)

    def _linear(self, X):
        check_is_fitted(self)
        if is_dask(X):
            validate_data(self, X, reset=False, skip_check_array=True)
            return np.asarray(X @ self.coef_.T) + self.intercept_
        X = validate_data(self, X, accept_sparse="csr", dtype=[np.float64, np.float32], reset=False)
        return np.asarray(X @ self.coef_.T) + self.intercept_

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


class PrivateLinearClassifier(ClassifierMixin, PrivateLinearModel):
    """Two classes, or one-vs-rest of several. `classes` of None takes the labels found in y for public."""

    classes: object = None
    random_state: object = None
    callback: object = None

    _labels = "signs"
    _vector = staticmethod(label_vector)

    def fit(self, X, y):
        """Fit to X, ndarray, CSR or Dask array (n, p), and labels y (n,); return self, or raise and release nothing."""
        X, targets, classes = self._targets(X, y)
        self._fit(X, targets)
        self.classes_ = classes
        return self

    def _targets(self, X, y):
        X, y = self._validated(X, y)
        labels = np.asarray(np.unique(y))  # here, also of a Dask array
        check_classification_targets(labels)
        classes = labels if self.classes is None else np.unique(label_vector(self.classes, "classes"))
        if len(classes) < 2:
            raise ValueError(f"y must have two classes or more: got 1 class, {classes.tolist()[0]!r}")
        if strange := set(labels.tolist()).difference(classes.tolist()):
            raise ValueError(
                f"y must hold only the labels named in classes={self.classes!r}: got {next(iter(strange))!r}"
            )
        ones = classes[1:, None] if len(classes) == 2 else classes[:, None]  # rows: text alone would lose a last "\0"
        return X, [np.where(y == one, 1.0, -1.0) for one in ones], classes

    def decision_function(self, X):
        """x.coef + intercept: ndarray (n,), positive for classes_[1]; with m > 2 classes (n, m), one column each."""
        scores = self._linear(X)
        return scores[:, 0] if scores.shape[1] == 1 else scores

    def predict(self, X):
        """Labels, ndarray (n,): the side of the plane, or the class of the largest score."""
        scores = self.decision_function(X)
        return self.classes_[(scores > 0).astype(int) if scores.ndim == 1 else scores.argmax(axis=1)]

    def score(self, X, y, sample_weight=None):
        """The part of y, labels as `fit` takes them, that is predicted right: float."""
        return super().score(X, label_vector(y), sample_weight)

    @available_if(lambda self: self.loss == "logistic" or isinstance(self.loss, Logistic))
    def predict_proba(self, X):
        """Probabilities by the logistic model, ndarray (n, m); one-vs-rest scores are normalised to sum to 1.

        The noise is in them as it is in the coefficients.
        """
        probability = expit(self._linear(X))
        if probability.shape[1] == 1:
            return np.hstack([1 - probability, probability])
        return probability / np.maximum(probability.sum(axis=1, keepdims=True), np.finfo(float).tiny)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.classifier_tags.poor_score = True  # at epsilon = 1 on the toy data of the estimator checks
        return tags


class PrivateLinearRegressor(RegressorMixin, PrivateLinearModel):
    """Real targets."""

    loss: object = "huber"
    random_state: object = None
    callback: object = None

    _labels = "real"
    _vector = staticmethod(target_vector)

    def fit(self, X, y):
        """Fit to X, ndarray, CSR or Dask array (n, p), and real y (n,); return self, or raise and release nothing."""
        X, targets, _ = self._targets(X, y)
        self._fit(X, targets)
        self.coef_, self.intercept_ = self.coef_[0], float(self.intercept_[0])
        return self

    def _targets(self, X, y):
        X, y = self._validated(X, y)
        return X, [_doubles(y)], None

    def predict(self, X):
        """x.coef + intercept, ndarray (n,)."""
        return self._linear(X)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.regressor_tags.poor_score = True
        return tags


def _doubles(y):
    """Real targets as doubles; raises ValueError where one is too large for that, as a wider type can hold."""
    with np.errstate(over="ignore"):
        doubles = y.astype(float)
    if not np.isfinite(doubles).all():
        raise ValueError("y must be finite in double precision: got a number beyond 1.8e308")
    return doubles


def generator(random_state):
    """A numpy Generator: seeded by the operating system for None, from a seed, or from an old RandomState."""
    if isinstance(random_state, np.random.RandomState):
        return np.random.default_rng(random_state.randint(2**32, size=8, dtype=np.uint64))
    return np.random.default_rng(random_state)
