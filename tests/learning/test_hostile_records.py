"""An adversarial record: its term in every gradient has norm at most C, and other records' terms do not change."""

import re
from contextlib import ExitStack, contextmanager
from copy import deepcopy
from fractions import Fraction
from unittest.mock import patch

import numpy as np
import pytest
import sklearn
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy import sparse

from explorer.learning import (
    AMPClassifier,
    AMPRegressor,
    DPFTRLClassifier,
    DPFTRLRegressor,
    DPGDClassifier,
    DPGDRegressor,
    DPSGDClassifier,
    DPSGDRegressor,
    Huber,
    Logistic,
    OutputPerturbationClassifier,
    OutputPerturbationRegressor,
    Probit,
    PseudoHuber,
    PureObjectivePerturbationClassifier,
    PureObjectivePerturbationRegressor,
    Squared,
)
from explorer.learning.integer_gradients import IntegerGradients, IntegerRecords
from explorer.learning.learners.dp_sgd import _sparse_rows, _SparseBlock
from explorer.learning.learners.linear import Problem, Release
from explorer.learning.losses import losses
from explorer.learning.objective import _gradient
from explorer.learning.records.blocks import Block, Records, canonical, row_norms
from explorer.learning.records.sources import records_of

da = pytest.importorskip("dask.array")
dask = pytest.importorskip("dask")

N, P, HOSTILE = 8, 3, 3  # records, features, and which record it is
FEATURES = np.random.default_rng(0).normal(size=(N, P)) / 2
LABELS = np.array([1.0, -1, 1, 1, -1, -1, 1, -1])
TARGETS = FEATURES @ [1.0, -2.0, 0.5]

QUICK = {"random_state": 0, "epsilon": 5.0}
LEARNERS = {
    "amp": (AMPClassifier, AMPRegressor, {}),
    "output": (OutputPerturbationClassifier, OutputPerturbationRegressor, {}),
    "pure": (PureObjectivePerturbationClassifier, PureObjectivePerturbationRegressor, {}),
    "dp_gd": (DPGDClassifier, DPGDRegressor, {"steps": 3}),
    "dp_sgd": (DPSGDClassifier, DPSGDRegressor, {"epochs": 1, "batch_size": 4}),
    "dp_ftrl": (DPFTRLClassifier, DPFTRLRegressor, {"epochs": 1, "steps": 3}),
}
ONE_BY_ONE = {"dp_sgd", "dp_ftrl"}  # they read single records, which Dask arrays do not offer
LAYOUTS = ("dense", "list", "memmap", "csr", "csc", "coo", "lil", "dask", "dask_csr")
DENSE = ("dense", "list", "memmap", "dask")

MAX, TINY = np.finfo(float).max, 5e-324
NUMBERS = [0.0, -0.0, 1.0, -0.3, TINY, 1e-310, -1e-163, 1e-155, 1e-80, 1e8, 1e25, -1e25, 3e38, -4e38, 2.0**63]
NUMBERS += [1e100, -1e140, 1e154, 1e163, -1e200, MAX / 2, MAX, -MAX]
entries = st.lists(st.tuples(st.integers(0, P - 1), st.sampled_from(NUMBERS) | st.floats(-2, 2)), max_size=7)
targets = st.sampled_from(NUMBERS) | st.floats(-5, 5)


def layout(kind, record, folder=None):
    """FEATURES with `record`, a list of (column, value) as they are stored, in place of one, in a layout."""
    if kind in DENSE:
        X = FEATURES.copy()
        X[HOSTILE] = 0
        for column, value in record:
            X[HOSTILE, column] = value
        if kind == "memmap":
            stored = np.memmap(folder / "X", float, "w+", shape=X.shape)
            stored[:] = X
            return stored
        return da.from_array(X, chunks=(N, P)) if kind == "dask" else X.tolist() if kind == "list" else X
    if kind == "lil":
        X = sparse.lil_array(FEATURES)
        X.rows[HOSTILE], X.data[HOSTILE] = [c for c, _ in record], [v for _, v in record]
        return X
    rows = np.concatenate([np.full(len(record) if i == HOSTILE else P, i) for i in range(N)])
    columns = [[c for c, _ in record] if i == HOSTILE else range(P) for i in range(N)]
    values = [[v for _, v in record] if i == HOSTILE else FEATURES[i] for i in range(N)]
    columns, values = np.concatenate(columns).astype(np.int32), np.concatenate(values)
    starts = np.searchsorted(rows, np.arange(N + 1)).astype(np.int32)
    csr = sparse.csr_array((values, columns, starts), shape=(N, P))
    if kind == "csr":
        return csr
    if kind == "dask_csr":
        return da.from_delayed(dask.delayed(csr), csr.shape, float, meta=sparse.csr_array((0, 0)))
    coo = sparse.coo_array((values, (rows, columns)), shape=(N, P))
    if kind == "coo":
        return coo
    order = np.argsort(columns, kind="stable")  # without scipy, which would sum duplicates
    starts = np.searchsorted(columns[order], np.arange(P + 1)).astype(np.int32)
    return sparse.csc_array((values[order], rows[order].astype(np.int32), starts), shape=(N, P))


def stands_for(record, kind):
    """The row that `record` represents, in doubles, infinite where it overflows."""
    row = np.zeros(P)
    for column, value in record:
        with np.errstate(over="ignore", invalid="ignore"):
            row[column] = value if kind in DENSE else row[column] + value
    return row


@contextmanager
def watched():
    """Lists of the terms of each sum of gradients, (weights, rows, constant), and of each bound C.

    Terms of integers are multiplied by their unit, a power of two.
    """
    sums, bounds, integers = [], [], []
    dot, sparse_dot, sensitivity = Block.transposed_dot, _SparseBlock.transposed_dot, Problem.sensitivity
    total = IntegerGradients.total

    def noted(weights, X, scale, constant):
        one = 1.0
        if integers:
            weights, one = weights * integers[-1].grid, integers[-1].one
        scaled = weights if scale is None else weights * scale
        sums.append((scaled, X, weights * one if constant else 0 * weights))

    def of_block(block, weights):
        X = block.X.toarray() if sparse.issparse(block.X) else np.asarray(block.X, float)
        noted(weights, X, block.scale, block.constant)
        return dot(block, weights)

    def of_sparse_block(block, weights):
        X = np.zeros((block.n_rows, block.dimension - block.constant))
        np.add.at(X, (block.rows, block.columns), block.values)
        noted(weights, X, None, block.constant)
        return sparse_dot(block, weights)

    def of_integers(self, records, theta):
        integers.append(self)
        result = total(self, records, theta)
        integers.pop()
        return result

    def of_problem(problem, clip_norm):
        bounds.append(sensitivity(problem, clip_norm)[0])
        return sensitivity(problem, clip_norm)

    with ExitStack() as stack:
        for owner, name, spy in (
            (Block, "transposed_dot", of_block),
            (_SparseBlock, "transposed_dot", of_sparse_block),
            (IntegerGradients, "total", of_integers),
            (Problem, "sensitivity", of_problem),
        ):
            stack.enter_context(patch.object(owner, name, spy))
        yield sums, bounds


def squared_lengths(weights, X, constants):
    """|weights_i x_i|^2 + constants_i^2 in exact rationals."""
    for w, row, c in zip(weights, X, constants, strict=True):
        yield Fraction(float(w)) ** 2 * sum(Fraction(float(x)) ** 2 for x in row) + Fraction(float(c)) ** 2


def assert_bounded(sums, bound):
    assert np.isfinite(bound)
    for weights, X, constants in sums:
        assert np.isfinite(weights).all()
        assert max(squared_lengths(weights, X, constants), default=0) <= Fraction(float(bound)) ** 2


@pytest.mark.filterwarnings("error::RuntimeWarning")
@pytest.mark.parametrize("name", LEARNERS)
@settings(max_examples=80)
@given(
    record=entries,
    target=targets,
    kind=st.sampled_from(LAYOUTS),
    loss=st.sampled_from([loss for loss in losses if loss != Probit()]),
    clip_norm=st.sampled_from([None, 1.0, 0.05]),
    data_norm=st.sampled_from([1.0, 1e-3, 40.0]),
    fit_intercept=st.booleans(),
)
@example([(0, 1e25), (0, 1.0), (0, -1e25)], 1.0, "csr", Logistic(), None, 1.0, False)
@example([(2, 1e-163)], 1e166, "dense", Squared(), 1.0, 1.0, False)
@example([(2, TINY)], -MAX, "csr", Squared(), 1.0, 1.0, False)
@example([(0, 1.0)], 1e200, "dense", PseudoHuber(), None, 1.0, True)
@example([(0, MAX), (0, MAX)], 1.0, "csc", Logistic(), None, 1.0, True)
@example([(0, -1e200), (1, 1.0)], 1.0, "csr", Logistic(), None, 1e-3, True)
def test_in_every_fit(tmp_path_factory, name, record, target, kind, loss, clip_norm, data_norm, fit_intercept):
    if name in ONE_BY_ONE:
        kind = kind.removeprefix("dask_") if kind != "dask" else "dense"
    if clip_norm is None and not np.isfinite(loss.lipschitz):
        clip_norm = 1.0
    classifier, regressor, options = LEARNERS[name]
    y = (LABELS if loss.labels == "signs" else TARGETS).copy()
    y[HOSTILE] = (1.0 if target > 0 else -1.0) if loss.labels == "signs" else target
    options = QUICK | options | dict(loss=loss, clip_norm=clip_norm, data_norm=data_norm, fit_intercept=fit_intercept)
    learner = (classifier if loss.labels == "signs" else regressor)(**options)
    X = layout(kind, record, tmp_path_factory.mktemp("hostile"))
    if not np.isfinite(stands_for(record, kind)).all():
        with pytest.raises(ValueError, match="infinity"):
            learner.fit(X, y)
        return
    with watched() as (sums, bounds):
        learner.fit(X, y)
    assert np.isfinite(learner.coef_).all()
    assert_bounded(sums, bounds[0])


@pytest.mark.filterwarnings("error::RuntimeWarning")
@settings(max_examples=300)
@example([(0, TINY), (1, TINY)], MAX, "dense", Squared(), 1e-100, False, 0, 1.0)
@given(
    record=entries,
    target=targets,
    kind=st.sampled_from(LAYOUTS),
    loss=st.sampled_from(losses),
    clip_norm=st.sampled_from([1.0, 0.05, 1e-100, 1e100]),
    constant=st.booleans(),
    seed=st.integers(0, 9),
    size=st.sampled_from([1.0, 1e-8, 1e9, 1e60]),
)
def test_wherever_the_gradient_is_taken(tmp_path_factory, record, target, kind, loss, clip_norm, constant, seed, size):
    """At any theta, with the others' weights and rows bitwise the same as with a record of zeros in its place."""
    if not np.isfinite(stands_for(record, kind)).all():
        return
    y = LABELS.copy()
    y[HOSTILE] = (1.0 if target > 0 else -1.0) if loss.labels == "signs" else target
    theta = size * np.random.default_rng(seed).normal(size=P + constant)
    added = []
    for entries in (record, []):
        X = layout(kind, entries, tmp_path_factory.mktemp("X"))
        vector = da.from_array(y, chunks=N) if kind.startswith("dask") else y
        records = records_of(X, vector, data_norm=1.0, constant=constant)
        with watched() as (sums, _), dask.config.set(scheduler="synchronous"):
            total = records.total(_gradient, theta, loss, clip_norm)[0]
            integers = IntegerGradients(loss=loss, bound=clip_norm, row_norm=np.hypot(1.0, constant), n_records=N)
            with np.errstate(over="ignore", invalid="ignore"):  # as the learners have it
                records.total(integers.of_block, theta)
                if kind in ("csr", "csc", "coo", "lil"):
                    ((part,),) = _sparse_rows(IntegerRecords(records, integers), [np.arange(N)])
                    integers.total(part, theta)
        assert np.isfinite(total).all()
        assert_bounded(sums, clip_norm)
        added.append(sums)
    others = np.arange(N) != HOSTILE
    for part, beside_zeros in zip(*added, strict=True):
        for array, same in zip(part, beside_zeros, strict=True):
            np.testing.assert_array_equal(array[others], same[others])


# Regressions: two attacks on the coefficients that earlier versions allowed.


def line(record, target, kind, folder):
    """300 records on a line, and the hostile one, in a layout; y follows the feature."""
    x = np.linspace(-1, 1, 300)
    y = np.append(np.where(x > 0, 1.0, -1.0) if target is None else 0.5 * x, 1.0 if target is None else target)
    rows, values = np.append(np.arange(300), np.full(len(record), 300)), np.append(x, record)
    starts = np.append(np.arange(301), 300 + len(record)).astype(np.int32)
    columns = np.zeros(len(rows), np.int32)
    if kind in ("csr", "dask_csr"):
        X = sparse.csr_array((values, columns, starts), shape=(301, 1))
    elif kind == "csc":
        X = sparse.csc_array((values, rows.astype(np.int32), np.array([0, len(rows)], np.int32)), shape=(301, 1))
    elif kind == "coo":
        X = sparse.coo_array((values, (rows, columns)), shape=(301, 1))
    else:
        X = np.append(x, sum(record))[:, None]
    if kind == "memmap":
        np.save(folder / "X.npy", X)
        X = np.load(folder / "X.npy", mmap_mode="r")
    if kind == "dask":
        X = da.from_array(X, chunks=(151, 1))
    if kind == "dask_csr":
        X = da.from_delayed(dask.delayed(X), X.shape, float, meta=sparse.csr_array((0, 0)))
    return X, y


STEADY = {
    "amp": {},
    "output": {},
    "pure": {"l2_reg": 1.0},  # at the default for epsilon = 50, the output noise has a scale of 40
    "dp_gd": {"steps": 20},
    "dp_sgd": {"epochs": 5},
    "dp_ftrl": {},
}


@pytest.mark.parametrize("kind", ["csr", "csc", "coo", "dask_csr"])
@pytest.mark.parametrize("name", STEADY)
def test_entries_that_cancel_do_not_cancel_other_records(tmp_path, name, kind):
    if name in ONE_BY_ONE and kind.startswith("dask"):
        pytest.skip("this learner takes no Dask arrays")
    learner = LEARNERS[name][0](epsilon=50.0, random_state=0, fit_intercept=False, **STEADY[name])
    hostile, harmless = (
        learner.fit(*line(record, None, kind, tmp_path)).coef_.item() for record in ([1e25, 1.0, -1e25], [])
    )
    assert hostile == pytest.approx(harmless, abs=0.02 * abs(harmless))
    assert harmless > 1


@pytest.mark.parametrize("kind", ["dense", "memmap", "csr", "dask"])
@pytest.mark.parametrize("name", STEADY)
def test_a_norm_whose_square_underflows_is_clipped(tmp_path, name, kind):
    if name in ONE_BY_ONE and kind.startswith("dask"):
        pytest.skip("this learner takes no Dask arrays")
    learner = LEARNERS[name][1](
        epsilon=50.0, random_state=0, fit_intercept=False, loss="squared", clip_norm=1.0, **STEADY[name]
    )
    hostile, harmless = (learner.fit(*line(record, 1e166, kind, tmp_path)).coef_.item() for record in ([1e-163], [0.0]))
    assert abs(hostile - harmless) < 0.1  # it was 50 with AMP, 100 with DP-GD, 21 with DP-FTRL
    assert 0 < harmless < 1


# The functions that guarantee it.


def test_duplicate_entries_are_summed():
    given = sparse.csr_array(([3.0, 1.0, 0.0, 2.0], [1, 0, 2, 1], [0, 4]), shape=(1, 3))
    copies = [array.copy() for array in (given.data, given.indices, given.indptr)]
    rows = canonical(given)
    np.testing.assert_array_equal(rows.toarray(), [[1, 5, 0]])
    np.testing.assert_array_equal(rows.indices, [0, 1])
    for array, copy in zip((given.data, given.indices, given.indptr), copies, strict=True):
        np.testing.assert_array_equal(array, copy)  # shared buffers are unchanged
    again = canonical(rows)
    assert np.shares_memory(again.data, rows.data)


def test_flags_of_a_sparse_matrix_are_not_used():
    given = sparse.csr_array(([1e25, 1.0, -1e25], [0, 0, 0], [0, 3]), shape=(1, 2))
    given.has_canonical_format = True
    assert canonical(given).nnz == 0


def test_small_integers_are_added_up_as_doubles():
    given = sparse.csr_array((np.array([100, 100], np.int8), [0, 0], [0, 2]), shape=(1, 1))
    assert canonical(given).toarray() == 200.0


@pytest.mark.parametrize("index", [N, 2**31 - 1, -1, -(2**31)])
@pytest.mark.parametrize("kind", ["csr", "csc", "bsr", "coo", "lil", "dask"])
def test_entries_outside_the_matrix_are_refused(kind, index):
    outside = sparse.csr_array(np.eye(N)).asformat("csc" if kind == "dask" else kind)
    if kind == "lil":
        outside.rows[HOSTILE][0] = index
    else:
        where = outside.coords[1] if kind == "coo" else outside.indices
        where[HOSTILE] = index
    given = da.from_delayed(dask.delayed(outside), outside.shape, float) if kind == "dask" else outside
    copy = deepcopy(outside)
    with pytest.raises(ValueError, match=r"ind(ex|ices)|must have a column for each value"):
        AMPClassifier().fit(given, LABELS)
    for name in ("indices", "indptr", "coords", "rows", "data"):
        np.testing.assert_array_equal(getattr(outside, name, 0), getattr(copy, name, 0))


@pytest.mark.parametrize("kind", ["csc", "bsr"])
@pytest.mark.parametrize("starts", [[0, 3, 2, 3], [0, 1, 2, 10**9], [1, 1, 2, 3]])
def test_rows_and_columns_outside_the_buffers_are_refused(kind, starts):
    outside = sparse.csr_array(np.diag([1.0, 2.0, 3.0])).asformat(kind)
    outside.indptr[:] = starts
    with pytest.raises(ValueError, match="ind"):
        AMPClassifier().fit(outside, [0, 1, 0])


def joins_lists():
    """Whether this Dask can join LIL chunks; 2025.1 could not."""
    chunk = da.from_delayed(dask.delayed(sparse.lil_array((2, 2))), (2, 2), float, meta=sparse.csr_array((0, 0)))
    try:
        da.concatenate([chunk, chunk], axis=1).compute(scheduler="synchronous")
    except ValueError:
        return False
    return True


@pytest.mark.parametrize("columns, values", [([0], 3), ([0, 1, 2], 1), ([], 3), ([0, 1, 2], 0), ([2**40], 1)])
def test_lists_of_a_row_that_differ_in_length_are_refused(columns, values):
    given = sparse.lil_array(FEATURES)
    given.rows[HOSTILE], given.data[HOSTILE] = columns, [1.0] * values
    chunk = da.from_delayed(dask.delayed(given), given.shape, float, meta=sparse.csr_array((0, 0)))
    beside = [da.concatenate([chunk, chunk], axis=1)] if joins_lists() else []
    for rows in (given, chunk, *beside):
        with pytest.raises(
            ValueError, match="X must have a column for each value in a row of a LIL matrix, one of its 3"
        ):
            AMPClassifier().fit(rows, LABELS)


def test_empty_rows_take_the_fast_path():
    X = np.where(np.arange(20)[:, None] % 2, [3.0, 4.0], 0.0)
    with patch("explorer.learning.records.blocks._rows", side_effect=AssertionError):
        np.testing.assert_array_equal(row_norms(sparse.csr_array(X)), 5.0 * (np.arange(20) % 2))


@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("size", [TINY, 1e-310, 1e-163, 1e-150, 1.0, 1e150, 1e200, MAX / 8])
def test_norms_of_any_size(kind, size):
    row = size * np.array([[3.0, 0.0, -4.0], [0.0, 0.0, 0.0]])
    np.testing.assert_allclose(row_norms(kind(row)), [5 * size, 0], rtol=4e-16)


def test_norms_in_records_are_from_above():
    X = np.random.default_rng(1).normal(size=(200, 50))
    for rows in (X, sparse.csr_array(X)):
        for norm, row in zip(Records(rows, np.ones(200)).norms, X, strict=True):
            assert Fraction(float(norm)) ** 2 >= sum(Fraction(float(x)) ** 2 for x in row)


@pytest.mark.parametrize("value", [1e-101, 1e-163, 1e101])
@pytest.mark.parametrize("name", ["data_norm", "clip_norm"])
def test_scales_out_of_range_are_refused(name, value):
    with pytest.raises(
        ValueError, match=re.escape(f"{name} must be a number from 1e-100 to 1e100: got {name}={value}")
    ):
        AMPClassifier(**{name: value}).fit(FEATURES, LABELS)


@pytest.mark.parametrize("loss", [Huber(1.7e-220), Huber(TINY), PseudoHuber(1e-310), Huber(1e101)])
@pytest.mark.parametrize("name", LEARNERS)
def test_bounds_out_of_range_are_refused(name, loss):
    learner = LEARNERS[name][1](loss=loss)
    with pytest.raises(ValueError, match=r"loss must have a slope whose bound times .* got .* with (Pseudo)?Huber\("):
        learner.fit(FEATURES, TARGETS)
    if loss.threshold > 1:
        learner.set_params(clip_norm=1.0, random_state=0).fit(FEATURES, TARGETS)


@pytest.mark.parametrize("name", LEARNERS)
def test_numbers_are_checked_for_any_configuration_of_scikit_learn(name):
    X, y = FEATURES.copy(), TARGETS.copy()
    X[HOSTILE, 0] = y[HOSTILE] = np.nan
    with sklearn.config_context(assume_finite=True):
        for rows, values in ((X, TARGETS), (sparse.csr_array(X), TARGETS), (FEATURES, y)):
            with pytest.raises(ValueError, match="NaN"):
                LEARNERS[name][1]().fit(rows, values)
        with pytest.raises(ValueError, match="NaN"):
            LEARNERS[name][0]().fit(X, LABELS)


@pytest.mark.filterwarnings("error::RuntimeWarning")
@pytest.mark.parametrize("rate", [1e200, 1e307])
def test_a_learning_rate_at_which_theta_overflows(rate):
    for learner in (DPFTRLClassifier(learning_rate=rate), DPFTRLRegressor(learning_rate=rate)):
        with pytest.raises(FloatingPointError, match="theta overflowed: nothing is released"):
            learner.fit(FEATURES, LABELS)
        assert not hasattr(learner, "coef_")


@pytest.mark.parametrize("name", LEARNERS)
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_nothing_is_released_that_is_not_finite(name, value):
    kind = LEARNERS[name][0]
    broken = Release(np.array([0.0, value, 0.0, 0.0]), 0)
    with patch.object(kind, "_release", return_value=broken):
        learner = kind()
        with pytest.raises(FloatingPointError, match="theta overflowed: nothing is released"):
            learner.fit(FEATURES, LABELS)
    assert not [
        attribute for attribute in ("coef_", "intercept_", "privacy_", "classes_") if hasattr(learner, attribute)
    ]


@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array, lambda X: da.from_array(X, chunks=(4, P))])
def test_features_too_small_to_learn_their_norm_from(kind):
    with pytest.raises(ValueError, match="data_norm='max' requires a largest row norm from 1e-100 to 1e100: got 1"):
        AMPClassifier(data_norm="max").fit(kind(FEATURES * 1e-163), LABELS)


@pytest.mark.skipif(np.finfo(np.longdouble).max == np.finfo(float).max, reason="long doubles are doubles here")
def test_numbers_beyond_double_precision_are_refused():
    wide = np.longdouble(10) ** 4000
    X, y = FEATURES.astype(np.longdouble), TARGETS.astype(np.longdouble)
    X[HOSTILE, 0] = y[HOSTILE] = wide
    with np.errstate(over="ignore"):
        for rows, values in ((X, TARGETS), (da.from_array(X, chunks=(4, P)), TARGETS)):
            with pytest.raises(ValueError, match=r"finite|infinity"):
                AMPRegressor().fit(rows, values)
        for rows in (FEATURES, da.from_array(FEATURES, chunks=(4, P))):
            with pytest.raises(ValueError, match=r"y must be finite"):
                AMPRegressor().fit(rows, y)
    with pytest.raises(ValueError, match="y must be finite in double precision: got an integer beyond"):
        AMPRegressor().fit(FEATURES, np.array([10**400, *range(N - 1)], dtype=object))


@pytest.mark.parametrize("loss", [loss for loss in losses if loss.labels == "real"], ids=repr)
def test_slopes_and_curvature_at_huge_targets(loss):
    y = np.array([1e160, 1e200, MAX])
    with np.errstate(over="ignore"):
        for sign in (1, -1):
            slope = loss.value_and_derivative(np.zeros(3), sign * y)[1]
            np.testing.assert_array_equal(slope, loss.derivative(np.zeros(3), sign * y))
            expected = -sign * np.minimum(y, loss.lipschitz)
            np.testing.assert_allclose(slope, expected)
            curvature = loss.second_derivative(np.zeros(3), sign * y)
            np.testing.assert_array_equal(curvature, 1.0 if loss == Squared() else 0.0)
