"""Where scikit-learn's habits would void a guarantee: clones, pickles, weights, missing labels, data frames."""

import pickle
from copy import deepcopy

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.model_selection import cross_validate

from explorer.learning import AMPClassifier, AMPRegressor, DPSGDClassifier, HonestSelection

X = np.random.default_rng(0).normal(size=(60, 3))
Y = np.where(X[:, 0] > 0, 1, 0)


def noise_of(learner):
    """b of a fit."""
    seen = []
    learner.set_params(watch=lambda theta, b: seen.append(tuple(b))).fit(X, Y)
    return seen[0]


@pytest.mark.parametrize("make", [np.random.default_rng, np.random.RandomState])
def test_learners_that_came_from_one_never_share_their_noise(make):
    """Two releases with the same b would differ by a function of the records alone."""
    learner = AMPClassifier(random_state=make(0))
    others = [clone(learner), clone(learner), deepcopy(learner), pickle.loads(pickle.dumps(learner))]
    others.append(clone(others[0]))
    drawn = [noise_of(each) for each in [learner, *others, learner]]
    assert len(set(drawn)) == 7


def test_folds_have_noise_of_their_own():
    seen = []
    learner = AMPClassifier(random_state=np.random.default_rng(0), watch=lambda theta, b: seen.append(tuple(b)))
    cross_validate(learner, X, Y, cv=4)
    assert len(set(seen)) == 4


def test_a_pickled_model_holds_no_generator_of_its_noise():
    rng = np.random.default_rng(0)
    drawn = rng.bit_generator.state["state"]["inc"]
    stored = pickle.loads(pickle.dumps(AMPClassifier(random_state=rng).fit(X, Y)))
    assert stored.random_state.bit_generator.state["state"]["inc"] != drawn
    np.testing.assert_array_equal(stored.predict(X), stored.predict(X))
    search = HonestSelection(DPSGDClassifier(epochs=1), random_state=rng)
    assert pickle.loads(pickle.dumps(search)).random_state.bit_generator.state["state"]["inc"] != drawn


@pytest.mark.parametrize("kind", [AMPClassifier, AMPRegressor, DPSGDClassifier])
@pytest.mark.parametrize("name", ["sample_weight", "class_weight"])
def test_weights_are_refused_with_a_reason(kind, name):
    with pytest.raises(ValueError, match=rf"{name} must not be given: the guarantee is for records that"):
        kind().fit(X, Y, **{name: np.ones(60)})
    kind(random_state=0).fit(X, Y, **{name: None})


@pytest.mark.parametrize("missing", [None, np.nan, pd.NA, pd.NaT])
@pytest.mark.parametrize("kind", [list, lambda values: pd.Series(values, dtype=object)])
def test_missing_labels_are_refused(missing, kind):
    for learner in (AMPClassifier(), AMPRegressor()):
        with pytest.raises(ValueError, match=r"\by must"):
            learner.fit(X, kind([missing, *Y[1:].tolist()]))
    with pytest.raises(ValueError, match=r"\by\b"):
        AMPClassifier().fit(X, pd.Series([missing, *["a", "b"] * 29, "a"], dtype=object))


def test_missing_labels_in_typed_columns_and_labels_without_an_order_are_refused():
    for column in (
        np.array([np.nan, *Y[1:]]),
        pd.Series([pd.NA, *Y[1:]], dtype="Int64"),
        pd.Series([None, *["a", "b"] * 29, "a"], dtype="category"),
        np.array([1, "a"] * 30, dtype=object),
    ):
        with pytest.raises(ValueError, match=r"\by\b"):
            AMPClassifier().fit(X, column)


def test_a_dask_data_frame_is_refused_with_what_to_call():
    class Frame:
        """A collection of Dask's that can be converted, as its DataFrame, which needs pyarrow."""

        shape, ndim = X.shape, 2

        def __dask_graph__(self):
            return {}

        def to_dask_array(self, lengths=None):
            raise AssertionError

    pytest.importorskip("dask.array")
    with pytest.raises(ValueError, match=r"X\.to_dask_array\(lengths=True\) converts a DataFrame"):
        AMPClassifier().fit(Frame(), Y)
