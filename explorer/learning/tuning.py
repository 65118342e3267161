"""Hyperparameter tuning of private learners, with and without accounting for it.

A learning rate chosen for its accuracy depends on the outcomes of many fits. `HonestSelection` accounts for that: it
performs a random number K of runs, each with a candidate drawn at random, and releases the best run and nothing else,
not even K. `DishonestSelection` fits every candidate and picks the best; its statement lists the choice as not covered
by (epsilon, delta).

References: Liu & Talwar 2019; Papernot & Steinke 2022.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any, Self, TypeAlias

import numpy as np
from sklearn.base import BaseEstimator, MetaEstimatorMixin, clone, is_classifier
from sklearn.model_selection import ParameterGrid
from sklearn.utils import Tags, get_tags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from explorer.accounting import (
    BestOfRuns,
    CompositionBound,
    Gaussian,
    Poisson,
    PrivacyBound,
    ScoredRun,
    SelectionProfileBound,
    SelectionRenyiBound,
    TruncatedNegativeBinomial,
    calibrate_gaussian,
)
from explorer.learning.grid import release_on_grid
from explorer.learning.learners.descent import resolve_accountant
from explorer.learning.learners.dp_sgd import ORDERS
from explorer.learning.learners.linear import generator
from explorer.learning.noise import draw_noise
from explorer.learning.privacy import NoReleaseError, PrivacyStatement, PrivacyWarning
from explorer.learning.records.inputs import column, is_dask, label_vector
from explorer.learning.sampling.bits import FreshStreams, bits_of
from explorer.learning.types import Array, FeatureMatrix, RandomState
from explorer.validation import positive

Candidates: TypeAlias = Mapping[str, Sequence] | Sequence[Mapping[str, Sequence]]


def _by_renyi(run: ScoredRun, *, runs: Any) -> PrivacyBound:
    return SelectionRenyiBound(run, runs=runs, orders=ORDERS)


def _by_profile(run: ScoredRun, *, runs: Any) -> PrivacyBound:
    return SelectionProfileBound(CompositionBound(run), runs=runs)


_ACCOUNTANTS = {"renyi": _by_renyi, "profile": _by_profile}
_RESERVED = {"epsilon", "delta", "accountant", "random_state"}  # set by the selection, not by a candidate


def _vector(y: Any) -> Any:
    """y as a vector, once for all fits: a warning in each would reveal their number. The learner checks the entries."""
    return y if is_dask(y) else column(y)


def _estimator_has(name: str) -> Callable[[_Selection], bool]:
    return lambda self: hasattr(getattr(self, "best_estimator_", self.estimator), name)


class _Selection(FreshStreams, MetaEstimatorMixin, BaseEstimator):
    """The part common to both selections: the fitted attributes and the methods of the chosen estimator."""

    estimator: Any
    candidates: Candidates | None

    @available_if(_estimator_has("predict"))
    def predict(self, X: FeatureMatrix) -> np.ndarray:
        """`predict` of best_estimator_."""
        check_is_fitted(self)
        return self.best_estimator_.predict(X)

    @available_if(_estimator_has("predict_proba"))
    def predict_proba(self, X: FeatureMatrix) -> Array:
        """`predict_proba` of best_estimator_."""
        check_is_fitted(self)
        return self.best_estimator_.predict_proba(X)

    @available_if(_estimator_has("decision_function"))
    def decision_function(self, X: FeatureMatrix) -> Array:
        """`decision_function` of best_estimator_."""
        check_is_fitted(self)
        return self.best_estimator_.decision_function(X)

    def score(self, X: FeatureMatrix, y: Any) -> float:
        """The chosen estimator's score: accuracy, or R^2 of a regressor."""
        check_is_fitted(self)
        return self.best_estimator_.score(X, y)

    @property
    def classes_(self) -> np.ndarray:
        """Labels of the chosen classifier."""
        return self.best_estimator_.classes_

    @property
    def n_features_in_(self) -> int:
        """Number of features seen."""
        return self.best_estimator_.n_features_in_

    def _candidates(self) -> list[dict[str, Any]]:
        candidates = list(ParameterGrid({} if self.candidates is None else self.candidates))
        if not candidates:
            raise ValueError(f"candidates must name at least one: got candidates={self.candidates!r}")
        return candidates

    def _release(self, learner: Any, candidate: dict[str, Any], score: float, privacy: PrivacyStatement) -> Self:
        """Set the fitted attributes; the generator is removed from `learner`, since its state reveals the noise."""
        learner.set_params(random_state=None)
        learner.privacy_ = privacy
        self.best_estimator_, self.best_params_, self.best_score_, self.privacy_ = learner, candidate, score, privacy
        return self

    def __sklearn_tags__(self) -> Tags:
        tags, inner = super().__sklearn_tags__(), get_tags(self.estimator)
        tags.estimator_type, tags.target_tags = inner.estimator_type, inner.target_tags
        tags.classifier_tags, tags.regressor_tags = inner.classifier_tags, inner.regressor_tags
        tags.input_tags.sparse = inner.input_tags.sparse
        return tags


class HonestSelection(_Selection):
    """The best of K private fits, with K and the candidates drawn at random, and privacy accounted for the whole.

    K is drawn first, from a distribution that does not depend on the data. Each of K runs draws a candidate uniformly
    from the grid, fits it and scores it; the run with the best score is released, and nothing of the others. Each run
    is calibrated so that the selection as a whole guarantees (epsilon, delta).

    A score computed on the protected records is a release as well. It is then the number of training records that are
    classified correctly, plus noise, and is included in the privacy of every run. Scores on public validation records
    cost no privacy.

    Parameters
    ----------
    estimator : a private learner of this package whose parameters include epsilon, delta, accountant and random_state;
        their values are not used
    candidates : dict of lists or list of such dicts, as in sklearn.model_selection.ParameterGrid; None for the
        unchanged estimator. They are public and must all have the same mechanism with the same parameters: for DP-SGD
        they may vary learning_rate, optimizer, l2_reg and clip_norm, but not batch_size or epochs
    epsilon : float > 0, nats
    delta : float inside (0, 1)
    runs : Poisson or TruncatedNegativeBinomial, the distribution of K; None for the Poisson with Pr[K > 10] = 0.9
    accountant : the bound that must grant (epsilon, delta) for the whole: "renyi" (`SelectionRenyiBound`, integer
        orders 2 to 256), "profile" (`SelectionProfileBound`: less noise, seconds to calibrate) or a callable from a
        ScoredRun and the keyword runs to a PrivacyBound
    score_noise_std : float > 0, noise of the number of correctly classified training records; None for that of the
        Gaussian mechanism for (epsilon / 10, delta)
    random_state : None (seeded by the operating system), int or numpy Generator. A seed known to others voids privacy.

    Attributes
    ----------
    best_estimator_, best_params_ : the released fit and its candidate
    best_score_ : float, its score as described above, noise included
    privacy_ : PrivacyStatement of the whole; also that of best_estimator_
    classes_ : ndarray, of a classifier; n_features_in_ : int

    Raises
    ------
    NoReleaseError if K = 0, which a Poisson number of runs may be, for any data: nothing is released. Fitting again
    until K > 0 would change the distribution of K; TruncatedNegativeBinomial never draws 0.
    ValueError for parameters out of range, for candidates that differ in their mechanism, and for a regressor without
    validation records, since its score has no bound. FloatingPointError if theta overflowed in every run; a run in
    which it did ranks last.

    Notes
    -----
    The number of fits is secret, and so is the total running time. The arguments of a callback of the estimator are not
    private here.

    References: Papernot & Steinke 2022; `explorer.accounting.selection` for the bounds.

    Examples
    --------
    >>> from sklearn.datasets import make_blobs
    >>> from explorer.learning import DPSGDClassifier
    >>> X, y = make_blobs(5000, centers=[[-0.5, 0], [0.5, 0]], cluster_std=0.2, random_state=0)
    >>> search = HonestSelection(
    ...     DPSGDClassifier(epochs=5), candidates={"learning_rate": [0.01, 0.1, 1.0]}, epsilon=1.0, random_state=0
    ... )
    >>> search.fit(X, y).score(X, y) > 0.9
    True
    """

    def __init__(
        self,
        estimator: Any,
        *,
        candidates: Candidates | None = None,
        epsilon: float = 1.0,
        delta: float = 1e-5,
        runs: Poisson | TruncatedNegativeBinomial | None = None,
        accountant: str | Callable[..., PrivacyBound] = "renyi",
        score_noise_std: float | None = None,
        random_state: RandomState = None,
    ) -> None:
        self.estimator = estimator
        self.candidates = candidates
        self.epsilon = epsilon
        self.delta = delta
        self.runs = runs
        self.accountant = accountant
        self.score_noise_std = score_noise_std
        self.random_state = random_state

    def fit(self, X: FeatureMatrix, y: Any, *, validation: tuple[FeatureMatrix, Any] | None = None) -> Self:
        """Fit to X, y as `estimator` takes them; return self, or raise and release nothing.

        validation : pair (X, y) of public records that contains no training record, or None to score on the training
        records, with noise
        """
        if validation is None and not is_classifier(self.estimator):
            raise ValueError("validation must be given for a regressor, whose score has no bound: got validation=None")
        y = _vector(y) if validation is not None else label_vector(y)
        rng = generator(self.random_state)
        runs = Poisson.with_more_than(10, probability=0.9) if self.runs is None else self.runs
        score = None if validation is not None else self._score_mechanism()
        candidates, learners, plan = self._planned(X, y, score, runs)
        privacy = replace(
            plan,
            mechanism=BestOfRuns(run=ScoredRun(mechanism=plan.mechanism, uses=plan.uses, score=score), runs=runs),
            uses=1,
            assumptions=(
                *plan.assumptions,
                "the candidates are public; the number of runs is secret, and so is the total running time",
                "the score adds noise to the number of training records that a run classifies correctly"
                if validation is None
                else "the validation records of the score are public, and no protected record is among them",
            ),
        )
        best = None
        for _ in range(runs.draw(rng)):
            chosen = int(rng.integers(len(candidates)))
            learner: Any = clone(learners[chosen])
            learner.set_params(random_state=self.random_state if self.random_state is None else rng)
            value, outcome = self._run(learner, X, y, validation, score, rng)
            if best is None or value > best[0]:  # the first of equal scores: runs are exchangeable
                best = value, outcome, candidates[chosen]
        return self._outcome(best, privacy)

    def _outcome(self, best: tuple[float, Any, dict[str, Any]] | None, privacy: PrivacyStatement) -> Self:
        if best is None:
            raise NoReleaseError(
                "nothing is released: K = 0 runs were drawn, which does not depend on the data. Fitting again until "
                "K > 0 would change the distribution of K that is accounted for."
            )
        value, learner, candidate = best
        if isinstance(learner, FloatingPointError):
            raise learner
        return self._release(learner.set_params(accountant=self.estimator.accountant), candidate, value, privacy)

    def _score_mechanism(self) -> Gaussian:
        if self.score_noise_std is not None:
            return Gaussian(noise_std=positive("score_noise_std", self.score_noise_std))
        noise_std = calibrate_gaussian(epsilon=positive("epsilon", self.epsilon) / 10, delta=self.delta).value
        return Gaussian(noise_std=noise_std)

    def _planned(
        self, X: FeatureMatrix, y: Any, score: Gaussian | None, runs: Any
    ) -> tuple[list[dict[str, Any]], list[Any], Any]:
        """Candidates, learners calibrated so that the selection guarantees (epsilon, delta), and their common plan."""
        if not hasattr(self.estimator, "plan"):
            raise TypeError(f"estimator must be a private learner of this package: got estimator={self.estimator!r}")
        account = resolve_accountant(self.accountant, _ACCOUNTANTS)

        @cache  # every candidate and run is calibrated at the same points
        def accountant(mechanism: Any, uses: int = 1) -> PrivacyBound:
            return account(ScoredRun(mechanism=mechanism, uses=uses, score=score), runs=runs)

        reserved = {"epsilon": self.epsilon, "delta": self.delta, "accountant": accountant}
        candidates = self._candidates()
        if forbidden := _RESERVED.intersection(name for candidate in candidates for name in candidate):
            raise ValueError(f"candidates must leave {sorted(_RESERVED)} to the selection: got {sorted(forbidden)}")
        clones: list[Any] = [clone(self.estimator) for _ in candidates]
        learners = [
            learner.set_params(**candidate, **reserved) for learner, candidate in zip(clones, candidates, strict=True)
        ]
        plans = [learner.plan(X, y) for learner in learners]
        for candidate, plan in zip(candidates, plans, strict=True):
            if plan.mechanism != plans[0].mechanism:
                raise ValueError(
                    f"candidates must share one mechanism: got {plans[0].mechanism} with {candidates[0]} and "
                    f"{plan.mechanism} with {candidate}"
                )
        return candidates, learners, plans[0]

    def _run(
        self,
        learner: Any,
        X: FeatureMatrix,
        y: Any,
        validation: Any,
        score: Any,
        rng: np.random.Generator,
    ) -> tuple[float, Any]:
        """The score of one run and the learner, or the FloatingPointError if theta overflowed."""
        try:
            learner.fit(X, y)
        except FloatingPointError as error:
            return -np.inf, error
        if validation is not None:
            return float(learner.score(*validation)), learner
        noise = draw_noise(score, dimension=1, bits=bits_of(self.random_state if self.random_state is None else rng))
        return release_on_grid(np.array([float(np.count_nonzero(learner.predict(X) == y))]), noise).item(), learner


class DishonestSelection(_Selection):
    """The best of all candidates by their score, with the privacy of a single fit: the choice is not accounted for.

    This is how results are often reported. `privacy_.leaked` states what (epsilon, delta) does not cover, and every fit
    raises a PrivacyWarning.

    Parameters
    ----------
    estimator : a private learner of this package; its epsilon and delta are those of each fit
    candidates : dict of lists or list of such dicts, as in sklearn.model_selection.ParameterGrid; each is fitted once
    random_state : None (seeded by the operating system), int or numpy Generator

    Attributes
    ----------
    best_estimator_, best_params_, best_score_ : the chosen fit, its candidate and its score
    scores_ : list of float, of the candidates in the grid's order; minus infinity where theta overflowed
    privacy_ : PrivacyStatement of the chosen fit alone, with what it does not cover in `leaked`
    classes_ : ndarray, of a classifier; n_features_in_ : int

    Raises
    ------
    ValueError for an empty grid; FloatingPointError if theta overflows for every candidate.
    """

    def __init__(
        self, estimator: Any, *, candidates: Candidates | None = None, random_state: RandomState = None
    ) -> None:
        self.estimator = estimator
        self.candidates = candidates
        self.random_state = random_state

    def fit(self, X: FeatureMatrix, y: Any, *, validation: tuple[FeatureMatrix, Any] | None = None) -> Self:
        """Fit every candidate to X, y; keep the one with the best score on validation, a pair (X, y), or on X, y."""
        y = _vector(y)
        rng = generator(self.random_state)
        candidates = self._candidates()
        outcomes = [
            self._run(candidate, X, y, (X, y) if validation is None else validation, rng) for candidate in candidates
        ]
        self.scores_ = [score for score, _ in outcomes]
        best = int(np.argmax(self.scores_))
        score, learner = outcomes[best]
        if isinstance(learner, FloatingPointError):
            raise learner
        where = "the training records" if validation is None else "validation records"
        leak = f"the fit was chosen among {len(candidates)} candidates by its score on {where}"
        warnings.warn(f"{leak}: the stated (epsilon, delta) does not cover it", PrivacyWarning, stacklevel=2)
        privacy = replace(learner.privacy_, leaked=(*learner.privacy_.leaked, leak))
        return self._release(learner, candidates[best], score, privacy)

    def _run(
        self,
        candidate: dict[str, Any],
        X: FeatureMatrix,
        y: Any,
        validation: tuple[FeatureMatrix, Any],
        rng: np.random.Generator,
    ) -> tuple[float, Any]:
        base: Any = clone(self.estimator)
        learner = base.set_params(**candidate, random_state=self.random_state if self.random_state is None else rng)
        try:
            return float(learner.fit(X, y).score(*validation)), learner
        except FloatingPointError as error:
            return -np.inf, error
