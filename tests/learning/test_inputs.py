"""Conversion of inputs: no entry's type changes the conversion of others; invalid labels and numbers are refused."""

import re
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from explorer.learning import AMPClassifier, DPFTRLClassifier, DPGDClassifier, DPGDRegressor, DPSGDRegressor, Records

da = pytest.importorskip("dask.array")
dask = pytest.importorskip("dask")

N = 12
X = np.random.default_rng(0).normal(size=(N, 2)) / 2
LABELS = np.array([0, 1] * (N // 2))
TARGETS = X @ [1.0, -2.0]
BIG = 2**53  # the next whole number is no double


def classifier(**parameters):
    return DPGDClassifier(steps=2, random_state=0, **parameters)


def regressor(**parameters):
    return DPGDRegressor(steps=2, random_state=0, **parameters)


def on_dask(array, meta=None):
    """A Dask array in two chunks; with the type that `meta` says, whatever it is."""
    parts = [(array[:5], 5), (array[5:], N - 5)]
    dtype = array.dtype if meta is None else meta
    return da.concatenate([da.from_delayed(dask.delayed(p), (n, *array.shape[1:]), dtype=dtype) for p, n in parts])


def replaced(values, value, row=3):
    """A list of `values` with one of them replaced."""
    values = list(values)
    values[row] = value
    return values


# Masks.

MASK = np.arange(N) == 3
MASKED = np.ma.masked_array(X, np.column_stack([MASK, np.zeros(N, bool)]))


@pytest.mark.parametrize(
    "rows",
    [MASKED, list(MASKED), on_dask(X).map_blocks(np.ma.masked_greater, 0.0), da.ma.masked_array(on_dask(X), X > 0)],
    ids=["array", "list", "dask", "dask with numpy's mask"],
)
def test_masked_features_are_refused(rows):
    for learner, y in ((classifier(), LABELS), (regressor(), TARGETS)):
        with pytest.raises(ValueError, match="X must hold no masked entries"):
            learner.fit(rows, y)


@pytest.mark.parametrize(
    "kind", [lambda y: y, list, lambda y: y[:, None], lambda y: da.ma.masked_array(y.data, y.mask)]
)
def test_masked_targets_are_refused(kind):
    for learner, y in ((classifier(), LABELS), (regressor(), TARGETS)):
        for rows in (X, on_dask(X)):
            with pytest.raises(ValueError, match="y must hold no masked entries"):
                learner.fit(rows, kind(np.ma.masked_array(y, MASK)))


def test_masked_entries_are_refused_by_records_too():
    with pytest.raises(ValueError, match="X must hold no masked entries: got 1 of them"):
        Records(MASKED, LABELS)
    with pytest.raises(ValueError, match="y must hold no masked entries: got 1 of them"):
        Records(X, np.ma.masked_array(TARGETS, MASK))


@pytest.mark.parametrize(
    "rows",
    [
        np.ma.masked_array(X, np.zeros_like(X, bool)),
        da.ma.masked_array(on_dask(X), np.zeros_like(X, bool)),
        on_dask(X).map_blocks(np.matrix),
        on_dask(X).map_blocks(sparse.csr_matrix),
    ],
    ids=["unmasked", "dask unmasked", "dask matrix", "dask csr_matrix"],
)
@pytest.mark.filterwarnings("ignore:the matrix subclass:PendingDeprecationWarning")
def test_arrays_of_other_classes_are_plain_data(rows):
    y = np.ma.masked_array(TARGETS, False)
    vector = on_dask(y) if isinstance(rows, da.Array) else y
    for clip_norm in (None, 0.1):
        learner = regressor(clip_norm=clip_norm)
        np.testing.assert_allclose(learner.fit(rows, vector).coef_, learner.fit(X, TARGETS).coef_, rtol=1e-12)


# Labels.


def targets_of(y, learner=None):
    """The signs that a classifier makes of y, and its classes."""
    _, signs, classes = (learner or classifier())._targets(X, y)
    return np.array(signs), classes


@pytest.mark.parametrize(
    "y",
    [
        [BIG, BIG + 1] * 6,
        tuple([BIG, np.int64(BIG + 1)] * 6),
        replaced([BIG, BIG + 1] * 6, np.uint64(BIG + 1)),
        replaced([BIG, BIG + 1] * 6, np.int8(0), row=0),
        np.array([BIG, BIG + 1] * 6, dtype=object),
        pd.Series([BIG, BIG + 1] * 6, dtype="Int64"),
        pd.Series([BIG, BIG + 1] * 6, dtype="category"),
        pd.DataFrame({"y": [BIG, BIG + 1] * 6}, dtype=object),
    ],
    ids=lambda y: type(y).__name__,
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.DataConversionWarning")
def test_neighbouring_large_integers_stay_distinct(y):
    signs, classes = targets_of(y, classifier(classes=[BIG, BIG + 1]) if 0 not in list(y) else None)
    assert classes.dtype == np.int64
    given = np.ravel(np.asarray(y, dtype=object))
    expected = [np.where(given == one, 1.0, -1.0) for one in (classes[1:] if len(classes) == 2 else classes)]
    np.testing.assert_array_equal(signs, expected)


@pytest.mark.parametrize(
    ("others", "value", "found"),
    [
        ([BIG, BIG + 1], float(BIG), f"whole numbers .* and other numbers {re.escape('(9007199254740992.0)')}"),
        ([0.5, 1.5], 1, "other numbers .* and whole numbers"),
        ([0, 1], True, r"whole numbers \(1\) and booleans \(True\)"),
        ([0, 1], "1", r"whole numbers \(1\) and text \('1'\)"),
        (["a", "b"], np.nan, r"text \('b'\) and other numbers \(nan\)"),
    ],
)
def test_mixed_labels_are_refused(others, value, found):
    for kind in (list, tuple, lambda y: np.array(y, dtype=object), lambda y: pd.Series(y, dtype=object)):
        y = kind(replaced(others * (N // 2), value))
        for rows, vector in ((X, y), (on_dask(X), y), (on_dask(X), on_dask(np.array(y, dtype=object)))):
            with pytest.raises(ValueError, match=f"y must hold labels of one kind, be it .*: got .*{found}"):
                classifier().fit(rows, vector)


@pytest.mark.parametrize(
    ("value", "found"),
    [(None, "None"), ((1, 2), r"\(1, 2\)"), (1j, "1j"), (b"a", "b'a'"), (pd.NA, "<NA>"), ({}, "{}")],
)
@pytest.mark.parametrize("others", [[0, 1], ["a", "b"]])
def test_invalid_labels_are_refused(others, value, found):
    y = replaced(others * (N // 2), value)
    for vector in (y, pd.Series(y, dtype=object)):
        with pytest.raises(ValueError, match=f"y must hold booleans, whole numbers, other numbers, text: got {found}"):
            classifier().fit(X, vector)


def test_labels_beyond_64_bits_are_refused():
    for value in (2**63, np.uint64(2**63), -(10**5000)):
        with pytest.raises(ValueError, match="y must hold whole numbers that int64 can hold: got one beyond"):
            classifier().fit(X, replaced(LABELS.tolist(), value))


@pytest.mark.parametrize("dtype", ["Int64", "boolean"])
def test_missing_labels_are_refused(dtype):
    y = pd.Series(replaced(LABELS.astype(int if dtype == "Int64" else bool), None), dtype=dtype)
    with pytest.raises(ValueError, match=r"<NA>|NaN"):
        classifier().fit(X, y)


@pytest.mark.parametrize(
    "y",
    [
        np.array(["no", "yes"] * 6),
        np.array(["no", "yes"] * 6, dtype=object),
        ["no", "yes"] * 6,
        pd.Series(["no", "yes"] * 6),
        pd.Series(["no", "yes"] * 6, dtype=object),
        pd.Series(["no", "yes"] * 6, dtype="category"),
        [False, True] * 6,
        [np.bool_(False), True] * 6,
        pd.Series([False, True] * 6, dtype="boolean"),
        [0.0, np.float32(1)] * 6,
        [Fraction(0), Decimal(1)] * 6,
    ],
    ids=lambda y: f"{type(y).__name__} of {type(y[1]).__name__}",
)
def test_labels_of_one_kind(y):
    expected = np.asarray(y)[:2].astype(object)
    model, plain = classifier().fit(X, y), classifier().fit(X, LABELS)
    assert (model.classes_ == expected).all()
    np.testing.assert_array_equal(model.coef_, plain.coef_)
    assert (model.predict(X) == expected[plain.predict(X)]).all()
    assert model.score(X, y) == plain.score(X, LABELS)
    for vector in (y, on_dask(np.asarray(y))):
        there = classifier().fit(on_dask(X), vector)
        assert (there.classes_ == expected).all()
        np.testing.assert_allclose(there.coef_, plain.coef_, rtol=1e-12)


def test_a_label_that_ends_in_nothing_and_one_that_is_long():
    signs, classes = targets_of(replaced(["a", "a\0"] * 6, "a" * 100_000))
    assert classes.tolist() == ["a", "a" + "\0", "a" * 100_000]
    assert (signs == 1).sum(axis=1).tolist() == [6, 5, 1]


def test_the_score_takes_labels_as_fit_does():
    y = pd.Series([BIG, BIG + 1] * 6, dtype="Int64")
    model = classifier().fit(X, y)
    right = np.count_nonzero(model.predict(X) == np.array([BIG, BIG + 1] * 6))
    assert model.score(X, y) == right / N
    assert 0 < right < N


def test_named_classes_are_of_one_kind():
    with pytest.raises(ValueError, match="classes must hold labels of one kind"):
        classifier(classes=[0, "1"]).fit(X, LABELS)
    for y in (np.array(["0", "1"] * 6), ["0", "1"] * 6):
        with pytest.raises(ValueError, match=r"y must hold only the labels named in classes=\[0, 1\]: got '[01]'"):
            classifier(classes=[0, 1]).fit(X, y)
    assert classifier(classes=["b", "a"]).fit(X, np.array(["a", "b"] * 6)).classes_.tolist() == ["a", "b"]


# Real targets.


def test_each_target_is_converted_by_itself():
    values = [
        np.float32(0.1),
        1,
        Fraction(1, 3),
        True,
        np.uint64(2**64 - 1),
        np.longdouble(0.1),
        Decimal("0.1"),
        BIG + 1,
    ]
    y = values + [0.5] * (N - len(values))
    for vector in (y, np.array(y, dtype=object), pd.Series(y, dtype=object)):
        (found,) = regressor()._targets(X, vector)[1]
        assert found.dtype == float
        assert found.tolist() == [float(value) for value in y]


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("0.5", "y must hold finite real numbers: got '0.5'"),
        (b"0.5", "y must hold finite real numbers: got b'0.5'"),
        (None, "y must hold finite real numbers: got None"),
        (np.nan, "y must hold finite real numbers: got nan"),
        (pd.NA, "y must hold finite real numbers: got <NA>"),
        (-np.inf, "y must hold finite real numbers: got -inf"),
        (1j, "y must hold finite real numbers: got 1j"),
        (10**400, "y must be finite in double precision: got an integer beyond 1.8e308"),
    ],
    ids=lambda text: text[-12:] if isinstance(text, str) else "",
)
def test_invalid_targets_are_refused(value, message):
    y = replaced(TARGETS, value)
    array = np.array(y, dtype=object)
    for rows, vector in ((X, y), (X, array), (X, pd.Series(array)), (on_dask(X), y), (on_dask(X), on_dask(array))):
        with pytest.raises(ValueError, match=re.escape(message)):
            regressor().fit(rows, vector)


def test_text_is_no_target():
    y = np.array([f"{value:.3f}" for value in TARGETS])
    for vector in (y, pd.Series(y), pd.Series(y, dtype="category")):
        with pytest.raises(ValueError, match=r"y must hold (finite )?real numbers: got"):
            DPSGDRegressor().fit(X, vector)
    with pytest.raises(ValueError, match="y must hold real numbers"):
        regressor().fit(on_dask(X), on_dask(y))


# Features.


@pytest.mark.parametrize("text", ["0.5", b"0.5", np.str_("0.5")])
def test_features_of_text_are_refused(text):
    rows = X.tolist()
    rows[3][1] = text
    array = np.array(rows, dtype=object)
    frame = pd.DataFrame(X).astype({1: object})
    frame.iloc[3, 1] = text
    words = X.astype(str) if isinstance(text, str) else X.astype(str).astype(bytes)
    for given in (rows, tuple(rows), array, list(array), frame, words, pd.DataFrame(words)):
        with pytest.raises(ValueError, match=r"X must hold numbers, not text: got .*\.[0-9]+'"):
            DPFTRLClassifier().fit(given, LABELS)


def test_a_row_of_another_type_leaves_the_others_as_they_are():
    single = X.astype(np.float32)
    for row in (single[3].astype(np.longdouble), [1, 2], np.array([BIG + 1, 2]), np.array([1, Fraction(1, 3)])):
        found, _, _ = classifier()._targets(replaced(single, row), LABELS)
        assert found.dtype == float
        expected = single.astype(float)
        expected[3] = [float(value) for value in row]
        np.testing.assert_array_equal(found, expected)


def test_complex_features_are_refused():
    for rows in (replaced(X.tolist(), [1j, 0.0]), X * 1j, np.array(replaced(X, [1j, 0.0]), dtype=object)):
        with pytest.raises(ValueError, match="Complex data not supported"):
            classifier().fit(rows, LABELS)


def test_integers_beyond_doubles_are_refused():
    rows = np.array(replaced(X, [10**400, 0.0]), dtype=object)
    for given in (rows, rows.tolist(), pd.DataFrame(rows), on_dask(rows).astype(float)):
        with pytest.raises(ValueError, match="X and y must be finite in double precision: got an integer beyond"):
            classifier().fit(given, LABELS)
    y = on_dask(np.array(replaced(TARGETS, 10**400), dtype=object)).astype(float)
    with pytest.raises(ValueError, match="X and y must be finite in double precision"):
        regressor().fit(on_dask(X), y)


@pytest.mark.parametrize("kind", [object, str])
def test_chunks_must_have_the_declared_type(kind):
    with pytest.raises(ValueError, match="X must hold real numbers: got a chunk of"):
        classifier().fit(on_dask(X.astype(kind), meta=float), LABELS)
    with pytest.raises(ValueError, match="y must hold float64 in all chunks: got a chunk of"):
        regressor().fit(on_dask(X), on_dask(TARGETS.astype(kind), meta=float))


def test_a_chunk_of_another_type_leaves_the_others_labels_as_they_are():
    whole = np.array([BIG, BIG + 1] * 6)
    parts = [whole[:5], whole[5:].astype(float)]
    chunks = [da.from_delayed(dask.delayed(part), part.shape, dtype=np.int64) for part in parts]
    _, (signs,), classes = classifier()._targets(on_dask(X), da.concatenate(chunks))
    assert classes.tolist() == [BIG, BIG + 1]
    np.testing.assert_array_equal(np.asarray(signs)[:5], [-1, 1, -1, 1, -1])


def test_y_must_be_there():
    for rows in (X, on_dask(X)):
        with pytest.raises(ValueError, match="requires y to be passed"):
            AMPClassifier().fit(rows, None)
