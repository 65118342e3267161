"""Sums of gradients in integers: exact, bounded in integers, and the same in any order and place."""

from math import isqrt

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from explorer.learning import DPFTRLClassifier, DPGDClassifier, DPSGDClassifier, Huber, Logistic, Records, Squared
from explorer.learning.integer_gradients import ROWS, IntegerGradients, IntegerRecords
from explorer.learning.learners.dp_sgd import _sparse_rows
from explorer.learning.losses import losses
from explorer.learning.records.sources import records_of

da = pytest.importorskip("dask.array")


def data(n=60, d=4, seed=0, labels="signs"):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * np.exp(rng.normal(size=n))[:, None]
    return X, rng.choice([-1.0, 1.0], n) if labels == "signs" else rng.normal(size=n) * 3


def one_by_one(sums, records, theta):
    """q_i of each record from a block of its own, as Python's integers."""
    return [[int(q) for q in sums.of_block(records.take(np.array([i])), theta)[0]] for i in range(records.n_records)]


@settings(max_examples=80)
@given(
    loss=st.sampled_from(losses),
    seed=st.integers(0, 10**6),
    bound=st.sampled_from([1.0, 0.3, 1e-80, 3e50]),
    data_norm=st.sampled_from([1.0, 7.0, 1e-3]),
    size=st.sampled_from([0.0, 1e-6, 1.0, 1e5]),
    constant=st.booleans(),
    layout=st.sampled_from([np.asarray, sparse.csr_array, lambda X: X.astype(np.float32)]),
)
def test_the_sum_is_that_of_bounded_integer_vectors(loss, seed, bound, data_norm, size, constant, layout):
    """In Python's integers: |q_i| g <= C, and the sum over blocks of doubles loses nothing, in any order."""
    X, y = data(seed=seed, labels=loss.labels)
    records = Records(layout(X), y, data_norm=data_norm, constant=constant, block_bytes=700)
    row_norm = float(np.hypot(data_norm, 1.0)) if constant else data_norm
    sums = IntegerGradients(loss=loss, bound=bound, row_norm=row_norm, n_records=60)
    theta = size * np.random.default_rng(seed).normal(size=records.dimension)
    single = one_by_one(sums, records, theta)
    limit = int(bound / sums.grid)
    assert all(sum(q * q for q in row) <= limit**2 for row in single)
    expected = [sum(column) for column in zip(*single, strict=True)]
    assert records.total(sums.of_block, theta)[0].tolist() == expected
    order = np.random.default_rng(seed).permutation(60)
    assert sums.of_block(records.take(order), theta)[0].tolist() == expected


@pytest.mark.parametrize("loss", losses, ids=repr)
def test_it_is_the_clipped_gradient_to_six_digits(loss):
    X, y = data(labels=loss.labels)
    records = Records(X, y, data_norm=1.0, constant=True)
    sums = IntegerGradients(loss=loss, bound=0.4, row_norm=np.sqrt(2), n_records=60)
    theta = np.random.default_rng(1).normal(size=5)
    block = records.take(slice(None))
    design = np.hstack([block.X * block.scale[:, None], np.ones((60, 1))])
    gradients = loss.derivative(design @ theta, y)[:, None] * design
    gradients *= np.minimum(1, 0.4 / np.maximum(np.linalg.norm(gradients, axis=1), 1e-300))[:, None]
    found = sums.of_block(block, theta)[0] * sums.grid
    np.testing.assert_allclose(found, gradients.sum(axis=0), atol=60 * 2e-6)


@pytest.mark.parametrize("hostile", [[4096.0], [1e-163], [1e300], [5e-324], [0.0]])
@pytest.mark.parametrize("target", [1.0, 1e166, -1.7e308])
def test_caps_of_extreme_records(hostile, target):
    """Also where a cap would not fit into 64 bits, and where a norm underflows."""
    records = Records(np.array([hostile]), np.array([target]), data_norm=5000.0)
    sums = IntegerGradients(loss=Squared(), bound=1.0, row_norm=5000.0, n_records=1)
    with np.errstate(over="ignore"):
        (q,) = one_by_one(sums, records, np.array([2.0]))
    assert abs(q[0]) <= int(1.0 / sums.grid)
    if hostile == [4096.0]:
        assert abs(q[0]) > 0.999 * 1.0 / sums.grid  # the gradient is far beyond the bound


def test_caps_are_nearly_the_largest():
    sums = IntegerGradients(loss=Logistic(), bound=1.7, row_norm=1.0, n_records=1)
    squares = np.array([0.0, 1.0, 2.0, 12345.0, 2.0**44])
    limit = int(1.7 / sums.grid)
    for square, cap in zip(squares[1:], sums.caps(squares, constant=False)[1:], strict=True):
        largest = isqrt(limit**2 // int(square))
        assert largest * (1 - 2**-39) - 1 <= cap <= largest
    assert sums.caps(squares, constant=False)[0] == 0


def test_more_rows_than_one_exact_sum_takes():
    """All gradients parallel and of the largest norm, so that the sum is as large as it can be."""
    n = 4 * ROWS + 3
    X, y = np.ones((n, 1)), np.full(n, -1e6)
    for wide in (n, 2**40):
        sums = IntegerGradients(loss=Huber(threshold=1.0), bound=1.0, row_norm=1.0, n_records=wide)
        records = Records(X, y, data_norm=1.0)
        (total,) = records.total(sums.of_block, np.zeros(1))
        (single,) = one_by_one(sums, Records(X[:1], y[:1], data_norm=1.0), np.zeros(1))
        assert [int(t) for t in total] == [n * single[0]]
        assert isinstance(total[0], int) == (wide > n)


def test_layouts_and_samples_agree_exactly():
    X, y = data(n=300)
    sums = IntegerGradients(loss=Logistic(), bound=1.0, row_norm=np.sqrt(2), n_records=300)
    theta = np.random.default_rng(1).normal(size=5)
    dense, csr = (Records(kind(X), y, data_norm=1.0, constant=True) for kind in (np.asarray, sparse.csr_array))
    expected = dense.total(sums.of_block, theta)[0]
    np.testing.assert_array_equal(csr.total(sums.of_block, theta)[0], expected)
    chunks = records_of(da.from_array(X, chunks=(70, 4)), da.from_array(y, chunks=70), data_norm=1.0, constant=True)
    np.testing.assert_array_equal(chunks.total(sums.of_block, theta)[0], expected)
    samples = [np.arange(0, 300, 7), np.array([], int), np.array([5])]
    for sample, parts in zip(samples, _sparse_rows(IntegerRecords(csr, sums), samples), strict=True):
        found = sum((sums.total(part, theta) for part in parts), np.zeros(5, np.int64))
        np.testing.assert_array_equal(found, sums.of_block(dense.take(sample), theta)[0])


@pytest.mark.parametrize(
    "learner",
    [
        DPSGDClassifier(epochs=3, batch_size=40, random_state=1),
        DPGDClassifier(steps=4, random_state=1),
        DPFTRLClassifier(steps=5, epochs=2, random_state=1),
    ],
    ids=lambda learner: type(learner).__name__,
)
def test_a_fit_does_not_depend_on_how_sums_are_computed(learner, monkeypatch):
    """Reversed rows within each sum, by another BLAS call: bitwise the same release, as for any library and threads."""
    X, y = data(n=200)
    first = learner.fit(X, y).coef_.copy()
    total = IntegerGradients.total

    def reversed_total(self, records, theta):
        rows, targets, caps = records
        return total(self, records._replace(rows=Reversed(rows), y=targets[::-1], caps=caps[::-1]), theta)

    monkeypatch.setattr(IntegerGradients, "total", reversed_total)
    np.testing.assert_array_equal(learner.fit(X, y).coef_, first)


class Reversed:
    def __init__(self, rows):
        self._rows, self.constant = rows, rows.constant

    def dot(self, theta):
        return self._rows.dot(theta)[::-1]

    def transposed_dot(self, weights):
        columns = np.asarray(self._rows.X, order="F")[::-1].T
        total = (columns * weights).sum(axis=1)
        return np.append(total, weights.sum()) if self.constant else total


@pytest.mark.parametrize("layout", [np.asarray, sparse.csr_array])
def test_records_kept_as_integers_and_cut_in_each_step_give_the_same_fit(layout, monkeypatch):
    X, y = data(n=200)
    learner = DPSGDClassifier(epochs=2, batch_size=40, random_state=1)
    kept = learner.fit(layout(X), y).coef_.copy()
    monkeypatch.setattr("explorer.learning.integer_gradients._KEPT_VALUES", 10)
    np.testing.assert_array_equal(learner.fit(layout(X), y).coef_, kept)


def test_the_tree_publishes_noisy_sums_of_integers(monkeypatch):
    """Without noise the estimates of prefix sums are the prefix sums."""
    monkeypatch.setattr(
        "explorer.learning.learners.dp_ftrl.rounded_normal", lambda scale, size, bits: np.zeros(size, np.int64)
    )
    X, y = data(n=90)
    seen = []
    DPFTRLClassifier(steps=7, epochs=2, random_state=0, learning_rate=0.01, watch=lambda *s: seen.append(s)).fit(X, y)
    assert len(seen) == 14
    assert max(np.abs(noise).max() for _, noise in seen) < 1e-12
