"""Tuning a private learner's parameters: honestly, at a price in privacy, and as it is often done, at none.

A learning rate picked for its accuracy was found by many fits, and what the others were like is in the choice.
`HonestSelection` pays for that: a random number K of runs, each with a candidate drawn at random, of which the best is
released and nothing else, not even K. `DishonestSelection` fits every candidate and picks: its own statement says that
(epsilon, delta) does not cover it.

References: Liu, Talwar 2019; Papernot, Steinke 2022.
"""

import warnings
from dataclasses import replace
from functools import cache

import numpy as np
from sklearn.base import BaseEstimator, MetaEstimatorMixin, clone, is_classifier
from sklearn.model_selection import ParameterGrid
from sklearn.utils import get_tags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from explorer.accounting import (
    BestOfRuns,
    CompositionBound,
    Gaussian,
    Poisson,
    ScoredRun,
    SelectionProfileBound,
    SelectionRenyiBound,
    calibrate_gaussian,
)
from explorer.learning.learners.descent import resolve_accountant
from explorer.learning.learners.dp_sgd import ORDERS
from explorer.learning.learners.linear import generator
from explorer.learning.privacy import NoReleaseError, PrivacyWarning
from explorer.learning.records.inputs import column, is_dask, label_vector
from explorer.validation import positive


def _by_renyi(run, *, runs):
    return SelectionRenyiBound(run, runs=runs, orders=ORDERS)


def _by_profile(run, *, runs):
    return SelectionProfileBound(CompositionBound(run), runs=runs)


_ACCOUNTANTS = {"renyi": _by_renyi, "profile": _by_profile}
_SETTLED = {"epsilon", "delta", "accountant", "random_state"}  # by the selection, not by a candidate


def _vector(y):
    """y as a vector once for all fits, whose warnings would tell their number; the learner looks at its entries."""
    return y if is_dask(y) else column(y)


def _delegated(name):
    """A method of the chosen estimator, there if `estimator` has one."""

    def method(self, X):
        check_is_fitted(self)
        return getattr(self.best_estimator_, name)(X)

    method.__name__, method.__doc__ = name, f"`{name}` of best_estimator_."
    return available_if(lambda self: hasattr(getattr(self, "best_estimator_", self.estimator), name))(method)


class _Selection(MetaEstimatorMixin, BaseEstimator):
    """What the release of one of several fits looks like."""

    predict = _delegated("predict")
    predict_proba = _delegated("predict_proba")
    decision_function = _delegated("decision_function")

    def score(self, X, y):
        """The chosen estimator's score: accuracy, or R^2 of a regressor."""
        check_is_fitted(self)
        return self.best_estimator_.score(X, y)

    @property
    def classes_(self):
        """Labels of the chosen classifier."""
        return self.best_estimator_.classes_

    @property
    def n_features_in_(self):
        """Number of features seen."""
        return self.best_estimator_.n_features_in_

    def _candidates(self):
        candidates = list(ParameterGrid({} if self.candidates is None else self.candidates))
        if not candidates:
            raise ValueError(f"candidates must name at least one: got candidates={self.candidates!r}")
        return candidates

    def _release(self, learner, candidate, score, privacy):
        """Keep `learner` as the outcome, without the generator: noise could be read from its state."""
        learner.set_params(random_state=None)
        learner.privacy_ = privacy
        self.best_estimator_, self.best_params_, self.best_score_, self.privacy_ = learner, candidate, score, privacy
        return self

    def __sklearn_tags__(self):
        tags, inner = super().__sklearn_tags__(), get_tags(self.estimator)
        tags.estimator_type, tags.target_tags = inner.estimator_type, inner.target_tags
        tags.classifier_tags, tags.regressor_tags = inner.classifier_tags, inner.regressor_tags
        tags.input_tags.sparse = inner.input_tags.sparse
        return tags


class HonestSelection(_Selection):
    """The best of K private fits, with K and the candidates drawn at random, and the whole accounted for.

    K is drawn first, from a distribution that does not look at the data. Each of K runs draws a candidate uniformly
    from the grid, fits it and scores it; the run with the best score is released, and nothing of the others. The
    learner's own calibration is asked for runs so private that the selection as a whole grants (epsilon, delta).

    A score computed on the records that are to be protected is a release too. It is then the number of training records
    that the fit gets right, plus noise, and is paid for in every run. Scores on public validation records are free.

    Parameters
    ----------
    estimator : a private learner of this package whose parameters include epsilon, delta, accountant and random_state;
        what they are set to is not used
    candidates : dict of lists or list of such dicts, as in sklearn.model_selection.ParameterGrid; None for the
        estimator as it is. They are public, and all must lead to one mechanism with the same parameters: for DP-SGD,
        learning_rate, optimizer, l2_reg and clip_norm do, but not batch_size or epochs
    epsilon : float > 0, nats
    delta : float inside (0, 1)
    runs : Poisson or TruncatedNegativeBinomial, the distribution of K; None for the Poisson with Pr[K > 10] = 0.9
    accountant : what must grant (epsilon, delta) for the whole: "renyi" (`SelectionRenyiBound`, integer orders 2 to
        256), "profile" (`SelectionProfileBound`: less noise, seconds to calibrate) or a callable from a ScoredRun
        and the keyword runs to a PrivacyBound
    score_noise_std : float > 0, noise of the number of training records that a fit gets right; None for that of the
        Gaussian mechanism for (epsilon / 10, delta)
    random_state : None (seeded by the operating system), int or numpy Generator. A seed that others know voids privacy.

    Attributes
    ----------
    best_estimator_, best_params_ : the released fit and its candidate
    best_score_ : float, its score as described above, noise included
    privacy_ : PrivacyStatement of the whole; also that of best_estimator_
    classes_ : ndarray, of a classifier; n_features_in_ : int

    Raises
    ------
    NoReleaseError if K = 0, which a Poisson number of runs may be, whatever the data: nothing is released. To fit again
    until K > 0 would be another distribution of K; TruncatedNegativeBinomial never draws 0.
    ValueError for parameters out of range, for candidates that differ in their mechanism, and for a regressor without
    validation records, since its score has no bound. FloatingPointError if theta overflowed in every run; a run in
    which it did ranks last.

    Notes
    -----
    How often a fit ran is secret, and so is how long the whole took. A callback of the estimator sees what is not
    private here. The noise of the scores is drawn in floating point, as `explorer.learning.noise` warns.

    References: Papernot, Steinke 2022; `explorer.accounting.selection` for the bounds.

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
        estimator,
        *,
        candidates=None,
        epsilon=1.0,
        delta=1e-5,
        runs=None,
        accountant="renyi",
        score_noise_std=None,
        random_state=None,
    ):
        self.estimator = estimator
        self.candidates = candidates
        self.epsilon = epsilon
        self.delta = delta
        self.runs = runs
        self.accountant = accountant
        self.score_noise_std = score_noise_std
        self.random_state = random_state

    def fit(self, X, y, *, validation=None):
        """Fit to X, y as `estimator` takes them; return self, or raise and release nothing.

        validation : pair (X, y) of public records that no training record enters, or None to score on the training
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
                "the candidates are public; the number of runs is secret, and so is the time they took",
                "the score adds noise to the number of training records that a run gets right"
                if validation is None
                else "the score's validation records are public, and no protected record is among them",
            ),
        )
        best = None
        for _ in range(runs.draw(rng)):
            chosen = int(rng.integers(len(candidates)))
            outcome = self._run(clone(learners[chosen]).set_params(random_state=rng), X, y, validation, score, rng)
            if best is None or outcome[0] > best[0]:  # of equal scores the first run's: runs are exchangeable
                best = *outcome, candidates[chosen]
        return self._outcome(best, privacy)

    def _outcome(self, best, privacy):
        if best is None:
            raise NoReleaseError(
                "nothing is released: K = 0 runs were drawn, which does not depend on the data. Fitting again until "
                "K > 0 would be another distribution of K than the one accounted for."
            )
        value, learner, candidate = best
        if isinstance(learner, FloatingPointError):
            raise learner
        return self._release(learner.set_params(accountant=self.estimator.accountant), candidate, value, privacy)

    def _score_mechanism(self):
        if self.score_noise_std is not None:
            return Gaussian(noise_std=positive("score_noise_std", self.score_noise_std))
        return calibrate_gaussian(epsilon=positive("epsilon", self.epsilon) / 10, delta=self.delta).mechanism

    def _planned(self, X, y, score, runs):
        """Candidates, learners whose calibration grants (epsilon, delta) to the selection, and the plan they share."""
        if not hasattr(self.estimator, "plan"):
            raise TypeError(f"estimator must be a private learner of this package: got estimator={self.estimator!r}")
        account = resolve_accountant(self.accountant, _ACCOUNTANTS)

        @cache  # every candidate and run is calibrated at the same points
        def accountant(mechanism, uses=1):
            return account(ScoredRun(mechanism=mechanism, uses=uses, score=score), runs=runs)

        settled = {"epsilon": self.epsilon, "delta": self.delta, "accountant": accountant}
        candidates = self._candidates()
        if forbidden := _SETTLED.intersection(name for candidate in candidates for name in candidate):
            raise ValueError(f"candidates must leave {sorted(_SETTLED)} to the selection: got {sorted(forbidden)}")
        learners = [clone(self.estimator).set_params(**candidate, **settled) for candidate in candidates]
        plans = [learner.plan(X, y) for learner in learners]
        for candidate, plan in zip(candidates, plans, strict=True):
            if plan.mechanism != plans[0].mechanism:
                raise ValueError(
                    f"candidates must share one mechanism: got {plans[0].mechanism} with {candidates[0]} and "
                    f"{plan.mechanism} with {candidate}"
                )
        return candidates, learners, plans[0]

    def _run(self, learner, X, y, validation, score, rng):
        """The score and the learner, or the error that it overflowed with, of one run."""
        try:
            learner.fit(X, y)
        except FloatingPointError as error:
            return -np.inf, error
        if validation is not None:
            return float(learner.score(*validation)), learner
        return float(np.count_nonzero(learner.predict(X) == y) + rng.normal(scale=score.noise_std)), learner


class DishonestSelection(_Selection):
    """The best of all candidates by their score, at the privacy of a single fit: not a guarantee, and it says so.

    This is how results are often reported. `privacy_.leaked` tells what (epsilon, delta) does not cover, and every fit
    warns with a PrivacyWarning.

    Parameters
    ----------
    estimator : a private learner of this package; its epsilon and delta are those of each fit
    candidates : dict of lists or list of such dicts, as in sklearn.model_selection.ParameterGrid; each is fitted once
    random_state : None (seeded by the operating system), int or numpy Generator

    Attributes
    ----------
    best_estimator_, best_params_, best_score_ : the chosen fit, its candidate and its score
    scores_ : list of float, of the candidates in the grid's order; minus infinity where theta overflowed
    privacy_ : PrivacyStatement of the chosen fit alone, with what it leaves out in `leaked`
    classes_ : ndarray, of a classifier; n_features_in_ : int

    Raises
    ------
    ValueError for an empty grid; FloatingPointError if theta overflows for every candidate.
    """

    def __init__(self, estimator, *, candidates=None, random_state=None):
        self.estimator = estimator
        self.candidates = candidates
        self.random_state = random_state

    def fit(self, X, y, *, validation=None):
        """Fit every candidate to X, y; keep the best by its score on validation, a pair (X, y), or on X, y; self."""
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

    def _run(self, candidate, X, y, validation, rng):
        learner = clone(self.estimator).set_params(**candidate, random_state=rng)
        try:
            return float(learner.fit(X, y).score(*validation)), learner
        except FloatingPointError as error:
            return -np.inf, error
