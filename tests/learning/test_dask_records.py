"""Dask arrays: the same coefficients as from data in memory, with threads and with the workers of a cluster."""

import numpy as np
import pytest
from scipy import sparse

from explorer.learning import (
    AMPClassifier,
    AMPRegressor,
    DPFTRLClassifier,
    DPSGDClassifier,
    Logistic,
    PerturbedObjective,
    PrivacyWarning,
    Records,
)

da = pytest.importorskip("dask.array")
distributed = pytest.importorskip("distributed")

from explorer.learning.records.dask_records import DaskRecords  # noqa: E402, needs dask

CHUNKS = ((300, 1, 199, 400), (4, 2))  # uneven, and columns in two


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(900, 6)) * rng.uniform(0.1, 1, size=(900, 1))
    y = (X[:, 0] + 0.2 * rng.normal(size=900) > 0).astype(int) + (X[:, 1] > 0.3)
    return X, y


@pytest.fixture(scope="module")
def client():
    with (
        distributed.LocalCluster(2, threads_per_worker=1, processes=True, dashboard_address=None) as cluster,
        distributed.Client(cluster, set_as_default=False) as client,
    ):
        yield client


def assert_same_fit(model, X, y, dask_X, dask_y):
    here, there = (type(model)(**model.get_params()).fit(*data) for data in ((X, y), (dask_X, dask_y)))
    np.testing.assert_allclose(there.coef_, here.coef_, rtol=0, atol=1e-8)
    np.testing.assert_allclose(there.intercept_, here.intercept_, rtol=0, atol=1e-8)
    assert there.n_features_in_ == X.shape[1]
    return here, there


@pytest.mark.parametrize("labels", [2, 3, "words"])
@pytest.mark.parametrize("y_chunks", [None, 250])
def test_same_coefficients_by_threads(data, labels, y_chunks):
    X, y = data
    y = np.array(["no", "perhaps", "yes"])[y] if labels == "words" else np.minimum(y, labels - 1)
    dask_X = da.from_array(X, chunks=CHUNKS)
    dask_y = y if y_chunks is None else da.from_array(y, chunks=y_chunks)
    here, there = assert_same_fit(AMPClassifier(random_state=3, clip_norm=0.5), X, y, dask_X, dask_y)
    np.testing.assert_array_equal(there.classes_, here.classes_)
    np.testing.assert_array_equal(there.predict(dask_X), here.predict(X))


def test_same_coefficients_by_the_workers_of_a_cluster(data, client):
    X, y = data
    with client.as_current():
        dask_X = da.from_array(X, chunks=CHUNKS)
        model = AMPClassifier(random_state=3, gradient_tol=0.3)  # fewer passes, each with a cluster's latency
        assert_same_fit(model, X, y, dask_X, da.from_array(y, chunks=250))
        records = DaskRecords(dask_X.rechunk({1: -1}), da.from_array(y, chunks=CHUNKS[:1]))
        where = client.who_has(distributed.futures_of(list(records._X)))  # the chunks stay on the workers
        assert len(where) == len(CHUNKS[0])
        assert all(where.values())
        np.testing.assert_allclose(records.total(_sums)[0], X.sum(axis=0), rtol=1e-12)


def _sums(block):
    return block.X.sum(axis=0), block.y.sum()


def test_regression_and_unknown_and_empty_chunks(data):
    X, _ = data
    dask_X = da.from_array(X, chunks=CHUNKS)
    unknown = da.concatenate([dask_X[dask_X[:, 0] > -9], dask_X[dask_X[:, 0] > 9]])
    assert np.isnan(unknown.shape[0])
    model = AMPRegressor(random_state=3, data_norm=0.8)
    assert_same_fit(model, X, X[:, 0], unknown, X[:, 0])
    assert_same_fit(model, X, X[:, 0], unknown, unknown[:, 0])
    assert np.isnan(unknown.shape[0])  # the caller's array is left alone


@pytest.mark.parametrize("kind", ["dense", "csr", "float32"])
def test_objective_equals_that_in_memory(data, kind):
    X, y = data
    X, y = X.astype(np.float32), np.where(y > 0, 1.0, -1.0)
    X = X if kind == "float32" else X.astype(float)
    dask_X = da.from_array(X, chunks=(CHUNKS[0], 6))
    if kind == "csr":
        X, dask_X = sparse.csr_array(X), dask_X.map_blocks(sparse.csr_array)
    theta, b = np.linspace(-1, 1, 7), np.ones(7)
    here, there = (
        PerturbedObjective(records, loss=Logistic(), l2_reg=2.0, linear_term=b, clip_norm=0.4)
        for records in (
            Records(X, y, data_norm=0.8, constant=True),
            DaskRecords(dask_X, da.from_array(y, chunks=CHUNKS[:1]), data_norm=0.8, constant=True),
        )
    )
    assert (there.n_records, there.dimension) == (900, 7)
    for quantity in ("value", "gradient", "hessian", "gradient_floor"):
        np.testing.assert_allclose(getattr(there, quantity)(theta), getattr(here, quantity)(theta), rtol=1e-12)
    assert there.gradient_lipschitz() == pytest.approx(here.gradient_lipschitz(), rel=1e-12)
    np.testing.assert_array_equal(there.gradient(theta), there.gradient(theta))
    part = there.subsample(300, rng=np.random.default_rng(0))
    assert (part.n_records, part.weight) == (300, 3.0)
    losses, estimate = (o.gradient(theta) - 2 * theta - b for o in (here, part))
    assert np.linalg.norm(losses - estimate) <= 6 * 0.4 * 900 / np.sqrt(300)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda X, y: (da.where(X > 2, np.nan, X), y), "X must be finite"),
        (lambda X, y: (da.where(X > 2, np.inf, X), y), "X must be finite"),
        (lambda X, y: (X[:, 0], y), "X must be a dask array of real numbers with two dimensions"),
        (lambda X, y: (X * 1j, y), "X must be a dask array of real numbers"),
        (lambda X, y: (X[X[:, 0] > 9], y), "X must have rows"),
        (lambda X, y: (X, y[:-1]), "X and y must have as many rows: got 900 and 899"),
        (lambda X, y: (X, da.from_array(np.stack([y, y]))), "y must be a vector"),
        (lambda X, y: (X, np.where(y > 1, np.nan, y)), "y must be finite"),
        (lambda X, y: (X, None), "requires y to be passed"),
        (lambda X, y: (X, np.zeros(900)), "y must have two classes"),
    ],
)
def test_bad_data(data, change, message):
    X, y = data
    with pytest.raises(ValueError, match=message):
        AMPClassifier(random_state=0).fit(*change(da.from_array(X, chunks=CHUNKS), y))


def test_norm_taken_from_the_data(data):
    X, y = data
    with pytest.warns(PrivacyWarning, match="the largest row norm"):
        assert_same_fit(AMPClassifier(random_state=3, data_norm="max"), X, y, da.from_array(X, chunks=CHUNKS), y)


@pytest.mark.parametrize("learner", [DPSGDClassifier, DPFTRLClassifier])
def test_learners_that_pick_single_records_say_so(data, learner):
    X, y = data
    with pytest.raises(ValueError, match=f"X must be in memory or memory-mapped for {learner.__name__}"):
        learner().fit(da.from_array(X, chunks=CHUNKS), y)
    with pytest.raises(ValueError, match="solver 'sag' needs records that can be read in any order"):
        AMPClassifier(solver="sag").fit(da.from_array(X, chunks=CHUNKS), y)


def test_named_classes(data):
    X, y = data
    dask_X = da.from_array(X, chunks=CHUNKS)
    assert_same_fit(AMPClassifier(random_state=3, classes=[0, 1, 2, 3]), X, y, dask_X, y)
    with pytest.raises(ValueError, match="y must hold only the labels named in classes"):
        AMPClassifier(classes=[0, 1]).fit(dask_X, y)
