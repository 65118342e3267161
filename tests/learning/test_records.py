"""Blocks of records: upper bounds on norms, sums independent of threads, no copies."""

import threading
import time
import tracemalloc
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst
from scipy import sparse
from threadpoolctl import threadpool_info, threadpool_limits

from explorer.learning import Logistic, PerturbedObjective, Records
from explorer.learning.records.blocks import row_norms
from explorer.learning.records.threads import _AHEAD, ordered_total, own_threads


def design(records):
    """The design rows themselves, from the Block of all records, by unit vectors."""
    block = records.take(slice(None))
    return np.array([block.dot(unit) for unit in np.eye(records.dimension)]).T


@given(
    X=npst.arrays(float, npst.array_shapes(min_dims=2, max_dims=2, max_side=6), elements=st.floats(-1e3, 1e3)),
    data_norm=st.floats(1e-3, 1e4),
    constant=st.booleans(),
    csr=st.booleans(),
)
def test_no_row_is_longer_than_the_norm(X, data_norm, constant, csr):
    records = Records(sparse.csr_array(X) if csr else X, np.ones(len(X)), data_norm=data_norm, constant=constant)
    rows = design(records)
    features = rows[:, :-1] if constant else rows
    lengths = np.sqrt((features.astype(np.longdouble) ** 2).sum(axis=1))
    assert (lengths <= data_norm).all()
    np.testing.assert_allclose(records.norms, np.linalg.norm(rows, axis=1), rtol=1e-12, atol=1e-150)
    short = np.linalg.norm(X, axis=1) <= data_norm * (1 - 1e-14)  # nearer, a true norm beyond it cannot be excluded
    np.testing.assert_array_equal(features[short], X[short])  # rows within the norm are not touched


def test_norms_of_single_precision_and_of_repeated_entries():
    X = np.full((3, 1000), 0.1, np.float32)
    np.testing.assert_allclose(row_norms(X), np.linalg.norm(X.astype(float), axis=1), rtol=1e-14)
    twice = sparse.csr_array(([3.0, 1.0], [1, 1], [0, 2]), shape=(1, 2))  # 3 and 1 in the same place
    assert row_norms(twice) == 4.0
    records = Records(twice, np.ones(1), data_norm=1.0)
    assert np.linalg.norm(design(records)) == pytest.approx(1.0)


@pytest.mark.parametrize("density", [1.0, 0.02])
def test_gram_by_the_cheaper_product(density):
    rng = np.random.default_rng(0)
    X = sparse.random_array((300, 400), density=density, rng=rng, format="csr")
    weights = rng.uniform(size=300)
    block = Records(X, np.ones(300), data_norm=2.0, constant=True).take(slice(None))
    assert block._sparse_product_is_faster == (density < 0.1)
    rows = design(Records(X.toarray(), np.ones(300), data_norm=2.0, constant=True))
    np.testing.assert_allclose(block.gram(weights), (rows.T * weights) @ rows, rtol=1e-12, atol=1e-13)


def test_take_copies_no_slice_and_accepts_any_rows():
    X = np.arange(20.0).reshape(10, 2)
    records = Records(X, np.arange(10.0), data_norm=5.0)
    assert np.shares_memory(records.take(slice(2, 5)).X, X)
    csr = Records(sparse.csr_array(X), np.arange(10.0))
    assert np.shares_memory(csr.take(slice(2, 5)).X.data, csr.X.data)
    rows = np.array([7, 0, 7])
    block = records.take(rows)
    np.testing.assert_array_equal(block.X, X[rows])
    np.testing.assert_array_equal(block.y, rows)
    np.testing.assert_array_equal(block.norms, records.norms[rows])
    np.testing.assert_array_equal(block.scale, records.scale[rows])
    np.testing.assert_array_equal(csr.take(rows).X.toarray(), X[rows])


def test_new_targets_share_the_rows():
    X = np.arange(20.0).reshape(10, 2)
    first = Records(X, np.ones(10), data_norm=5.0)
    sums = [first.total(lambda block: (block.y.sum(),))]
    second = first.with_targets(np.zeros(10))
    sums += [records.total(lambda block: (block.y.sum(),)) for records in (second, first)]
    assert sums == [(10.0,), (0.0,), (10.0,)]
    assert second.X is first.X
    assert second.squared_norm == first.squared_norm == pytest.approx(np.linalg.norm(design(first), 2) ** 2)


def test_no_records_sum_to_zero():
    records = Records(np.empty((0, 3)), np.empty(0), data_norm=1.0, constant=True)
    objective = PerturbedObjective(records, loss=Logistic(), l2_reg=2.0, linear_term=np.arange(4.0))
    np.testing.assert_array_equal(objective.gradient(np.ones(4)), 2 + np.arange(4.0))
    np.testing.assert_array_equal(objective.hessian(np.ones(4)), 2 * np.eye(4))


@pytest.mark.parametrize("function", ["gradient", "hessian"])
def test_same_bits_with_any_number_of_threads(function):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(160_000, 30))  # 38 MB: enough for threads
    records = Records(X, rng.choice([-1.0, 1.0], len(X)), data_norm=4.0, constant=True)
    objective = PerturbedObjective(records, loss=Logistic(), l2_reg=1.0, linear_term=np.zeros(31))
    theta = rng.normal(size=31)
    with threadpool_limits(limits=1, user_api="blas"):
        alone = getattr(objective, function)(theta)
    for threads in (2, 4):
        with threadpool_limits(limits=threads, user_api="blas"):
            np.testing.assert_array_equal(getattr(objective, function)(theta), alone)


def test_sums_are_added_in_order_and_few_wait_for_a_slow_one():
    started, release = [], threading.Event()

    def first_waits(i):
        started.append(i)
        if i == 0:
            release.wait(timeout=10)
        return (f"{i},",)

    with ThreadPoolExecutor(1) as pool:
        total = pool.submit(ordered_total, first_waits, range(100), threads=3)
        for _ in range(1000):
            time.sleep(0.005)
            if len(started) >= _AHEAD:
                break
        time.sleep(0.05)
        ahead = max(started)
        release.set()
        assert total.result() == ("".join(f"{i}," for i in range(100)),)
    assert ahead == _AHEAD - 1


@pytest.mark.parametrize("threads", [1, 3])
def test_an_error_in_a_thread_is_raised_and_ends_the_others(threads):
    def broken(i):
        if i == 5:
            raise KeyError("broken")
        return (1,)

    with pytest.raises(KeyError, match="broken"):
        ordered_total(broken, range(10_000), threads=threads)


def blas_threads():
    return {library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"}


def test_threads_are_taken_once_and_given_back():
    with threadpool_limits(limits=2, user_api="blas"):
        with own_threads() as outer:
            assert blas_threads() == {1}
            with own_threads() as inner:
                assert inner == 1
        assert outer in (1, 2)  # one on a machine with one core
        assert blas_threads() == {2}
    with threadpool_limits(limits=1, user_api="blas"), own_threads() as limited:
        assert limited == 1


def test_a_pass_allocates_a_few_blocks_only():
    X = np.ones((50_000, 100), np.float32)  # 20 MB, to be cast block by block
    records = Records(X, np.ones(len(X)), data_norm=1.0, constant=True)
    objective = PerturbedObjective(records, loss=Logistic(), l2_reg=1.0, linear_term=np.zeros(101))
    objective.gradient(np.zeros(101))
    tracemalloc.start()
    objective.gradient(np.zeros(101))
    objective.hessian(np.zeros(101))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 12e6
