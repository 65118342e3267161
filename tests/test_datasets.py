"""Example datasets: unit rows, repeatable splits, and UCI's files, read or refused with the invalid line."""

import gzip
import os
from dataclasses import replace
from types import SimpleNamespace
from urllib.error import URLError

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from explorer import datasets

SHAPES = {
    "breast_cancer": (455, 114, 30),
    "two_clouds": (1600, 400, 2),
    "digits": (1437, 360, 64),
    "synthetic_l": (8000, 2000, 40),
    "synthetic_h": (1600, 400, 2000),
}

# Made up, in UCI's format: eight complete records, three with a missing value.
ADULT_DATA = """\
40, Private, 100000, Bachelors, 13, Never-married, Sales, Not-in-family, White, Female, 500, 0, 40, United-States, <=50K
20, State-gov, 300000, HS-grad, 9, Divorced, Adm-clerical, Unmarried, Black, Male, 0, 0, 20, Cuba, <=50K
50, ?, 200000, Masters, 14, Widowed, ?, Husband, White, Male, 0, 0, 80, United-States, >50K
80, Self-emp-inc, 400000, Doctorate, 16, Widowed, Prof-specialty, Wife, Other, Female, 1000, 0, 60, Peru, >50K
30, Local-gov, 150000, 11th, 7, Separated, Tech-support, Own-child, White, Male, 0, 200, 35, Trinadad&Tobago, >50K
18, Never-worked, 90000, 10th, 6, Never-married, ?, Own-child, White, Female, 0, 0, 10, United-States, <=50K

"""
ADULT_TEST = """\
|1x3 Cross validator
25, Private, 120000, 9th, 5, Never-married, Armed-Forces, Own-child, White, Male, 0, 0, 30, Outlying-US(Guam-USVI-etc), >50K.
35, Without-pay, 80000, Preschool, 1, Divorced, Sales, Wife, Black, Female, 0, 400, 25, Hong, <=50K.
45, Private, 220000, HS-grad, 9, Divorced, Craft-repair, Husband, White, Male, 0, 0, 45, ?, >50K.
60, Federal-gov, 250000, 12th, 8, Widowed, Sales, Wife, Amer-Indian-Eskimo, Female, 0, 0, 50, South, <=50K.
55, Private, 210000, Masters, 14, Divorced, Sales, Husband, White, Male, 250, 0, 55, Canada, >50K.
"""  # noqa: E501


@pytest.fixture
def adult_home(tmp_path, monkeypatch):
    """A folder with the made-up files of Adult, and no folder in the environment."""
    monkeypatch.delenv("EXPLORER_DATA_HOME", raising=False)
    (tmp_path / "adult.data").write_text(ADULT_DATA)
    (tmp_path / "adult.test").write_text(ADULT_TEST)
    return tmp_path


@pytest.fixture(scope="module")
def gisette_records():
    """Made-up features and labels in Gisette's range: six records to train, four to validate."""
    rng = np.random.default_rng(0)
    features = rng.integers(0, 1000, size=(10, 5000)) * (rng.random((10, 5000)) < 0.13)
    return features, np.array([1, -1, 1, 1, -1, -1, 1, -1, -1, 1])


@pytest.fixture
def gisette_home(tmp_path, monkeypatch, gisette_records):
    """A folder with Gisette's files, each line of features ended by a blank as UCI has it."""
    monkeypatch.delenv("EXPLORER_DATA_HOME", raising=False)
    features, labels = gisette_records
    for part, rows in (("train", slice(0, 6)), ("valid", slice(6, 10))):
        lines = [" ".join(map(str, row)) + " \n" for row in features[rows]]
        (tmp_path / f"gisette_{part}.data").write_text("".join(lines))
        (tmp_path / f"gisette_{part}.labels").write_text("".join(f"{label}\n" for label in labels[rows]))
    return tmp_path


def dense(X):
    return X.toarray() if sparse.issparse(X) else X


def all_records(data):
    """Every record with its label, training and test together, in an order that does not depend on the split."""
    table = np.vstack(
        [np.column_stack([dense(data.X_train), data.y_train]), np.column_stack([dense(data.X_test), data.y_test])]
    )
    return table[np.lexsort(table.T)]


def assert_same(data, other):
    assert (data.name, data.unaccounted) == (other.name, other.unaccounted)
    for part in ("X_train", "X_test", "y_train", "y_test"):
        np.testing.assert_array_equal(dense(getattr(data, part)), dense(getattr(other, part)))


def rewrite(path, old, new):
    text = path.read_text()
    assert text.count(old) == 1
    path.write_text(text.replace(old, new))


def compress(path):
    path.with_name(f"{path.name}.gz").write_bytes(gzip.compress(path.read_bytes()))
    path.unlink()


@pytest.mark.parametrize("name", datasets.BUILT_IN)
def test_built_in_data_has_unit_rows_and_a_split_repeated_by_its_seed(name):
    data, again, other = (datasets.load(name, split_seed=seed) for seed in (0, 0, 1))
    n_train, n_test, n_features = SHAPES[name]
    assert (data.X_train.shape, data.X_test.shape) == ((n_train, n_features), (n_test, n_features))
    assert (data.y_train.shape, data.y_test.shape) == ((n_train,), (n_test,))
    for X in (data.X_train, data.X_test):
        norms = np.linalg.norm(X, axis=1)
        assert norms.max() <= 1 + 1e-12
        assert name == "two_clouds" or norms.min() == pytest.approx(1, rel=1e-12)
    assert_same(data, again)
    assert not np.array_equal(data.X_test, other.X_test)
    np.testing.assert_array_equal(all_records(data), all_records(other))  # a split moves records, it makes none


@pytest.mark.parametrize(
    ("name", "n_classes"), [("breast_cancer", 2), ("two_clouds", 2), ("digits", 10), ("synthetic_l", 2)]
)
def test_every_class_has_its_share_in_both_parts(name, n_classes):
    data = datasets.load(name)
    for y in (data.y_train, data.y_test):
        shares = np.bincount(y) / len(y)
        assert len(shares) == n_classes
        assert shares.min() > 0.7 / n_classes


def test_only_column_statistics_are_unaccounted():
    assert "mean and standard deviation" in datasets.breast_cancer().unaccounted
    assert [datasets.load(name).unaccounted for name in ("digits", "synthetic_l", "synthetic_h")] == ["", "", ""]


def test_a_record_is_scaled_by_nothing_but_itself():
    X = np.array([[3.0, 4.0], [0.0, 0.0], [0.0, -2.0]])
    expected = [[0.6, 0.8], [0, 0], [0, -1]]
    np.testing.assert_allclose(datasets.unit_rows(X), expected, rtol=1e-15)
    scaled = datasets.unit_rows(sparse.csr_matrix(X))
    assert scaled.format == "csr"
    np.testing.assert_allclose(scaled.toarray(), expected, rtol=1e-15)
    np.testing.assert_array_equal(X[0], [3, 4])


def test_the_plane_has_rows_in_the_unit_disc_and_labels_of_its_model():
    X, y = datasets.logistic_plane(n_records=20_000, theta=(4.0, -2.0), seed=1)
    assert X.shape == (20_000, 2)
    assert np.linalg.norm(X, axis=1).max() <= 1
    probability = 1 / (1 + np.exp(-(X @ [4.0, -2.0])))
    score = (y - probability) @ np.column_stack([X, np.ones(len(y))])  # the gradient at the true slope: mean zero
    assert (np.abs(score) < 5 * np.sqrt((probability * (1 - probability)).sum())).all()
    again, _ = datasets.logistic_plane(n_records=20_000, seed=1)
    np.testing.assert_array_equal(X, again)


@pytest.mark.parametrize("elongation", [1, 30, 1e4])
def test_elongated_records(elongation):
    X, y = datasets.elongated(20_000, dimension=3, elongation=elongation, seed=5)
    np.testing.assert_allclose(np.linalg.norm(X, axis=1), 1, rtol=1e-12)
    first, second, third = (np.median(np.abs(column)) for column in X.T)
    assert first / third == pytest.approx(elongation, rel=0.6)  # dividing by the norm mixes the scales a little
    assert first >= second >= third or elongation == 1
    margins = 4 * X.sum(axis=1) / np.sqrt(3)
    expected = 1 / (1 + np.exp(-margins))
    assert abs(np.mean((y == 1) - expected)) < 5 * 0.5 / np.sqrt(len(y))
    assert np.mean(y * margins) == pytest.approx(np.mean(margins * np.tanh(margins / 2)), rel=0.05)


def test_elongated_records_are_one_endless_sequence():
    few, many = (datasets.elongated(n, dimension=4, elongation=10, seed=1) for n in (50, 200))
    for a, b in zip(few, many, strict=True):
        np.testing.assert_array_equal(a, b[:50])
    assert not np.array_equal(datasets.elongated(50, dimension=4, elongation=10, seed=2)[0], few[0])
    assert datasets.elongated(3, dimension=1, elongation=10, seed=1)[0].shape == (3, 1)


@pytest.mark.parametrize(
    ("bad", "message"),
    [({"n_records": 0}, "n_records must be an integer >= 1"), ({"elongation": 0.5}, "elongation must be >= 1")],
)
def test_elongated_refuses(bad, message):
    with pytest.raises(ValueError, match=message):
        datasets.elongated(**{"n_records": 5, "dimension": 2, "elongation": 1, "seed": 0, **bad})


def test_registry():
    names = ["breast_cancer", "two_clouds", "digits", "synthetic_l", "synthetic_h", "adult", "gisette"]
    assert list(datasets.DATASETS) == names
    assert set(datasets.BUILT_IN) < set(datasets.DATASETS)
    with pytest.raises(ValueError, match=r"name must be one of breast_cancer, .*gisette: got name='mnist'"):
        datasets.load("mnist")


@pytest.mark.parametrize("name", datasets.BUILT_IN)
def test_columns_are_named_without_loading(name):
    width = SHAPES[name][2]
    assert len(set(datasets.column_names(name))) == len(datasets.column_names(name)) == width
    assert datasets.missing(name) == ""


def test_missing_files_are_reported_before_loading(adult_home, monkeypatch):
    empty = adult_home / "empty"
    empty.mkdir()
    for home in ("", str(empty)):
        monkeypatch.setenv("EXPLORER_DATA_HOME", home)
        assert "adult.data and adult.test, plain or gzipped" in datasets.missing("adult")
        assert str(adult_home) not in datasets.missing("gisette")  # no visitor needs to know the server's folders
    monkeypatch.setenv("EXPLORER_DATA_HOME", str(adult_home))
    assert datasets.missing("adult") == ""
    assert len(datasets.column_names("adult")) == datasets.adult().X_train.shape[1] == 104
    assert datasets.missing("gisette").startswith("Gisette is not on this machine")


@pytest.mark.parametrize("name", ["breast_cancer", "two_clouds"])
def test_two_columns_keep_their_records_and_stay_in_the_ball(name):
    data = datasets.load(name)
    pair = datasets.two_columns(data, (1, 0))
    scale = max(1, np.sqrt(data.X_train.shape[1] / 8))
    np.testing.assert_array_equal(pair.y_test, data.y_test)
    for X, whole in ((pair.X_train, data.X_train), (pair.X_test, data.X_test)):
        expected = scale * whole[:, [1, 0]]
        norms = np.linalg.norm(expected, axis=1)
        np.testing.assert_allclose(X[norms <= 1], expected[norms <= 1], rtol=1e-12)
        np.testing.assert_allclose(X[norms > 1], (expected / norms[:, None])[norms > 1], rtol=1e-12)
    sparse_data = replace(data, X_train=sparse.csr_matrix(data.X_train))
    np.testing.assert_array_equal(datasets.two_columns(sparse_data, (1, 0)).X_train, pair.X_train)


@pytest.mark.parametrize("columns", [(0, 0), (0, 2), (-1, 0)])
def test_columns_that_are_not_there(columns):
    with pytest.raises(ValueError, match=r"columns must be two different integers in 0\.\.1: got columns="):
        datasets.two_columns(datasets.two_clouds(), columns)


@pytest.mark.parametrize("seed", [-1, 2**32, 0.5, None, "0", True])
def test_bad_split_seed(seed):
    with pytest.raises(ValueError, match=r"split_seed must be an integer in 0\.\.2\^32-1"):
        datasets.digits(split_seed=seed)


def test_adult_files_become_the_documented_features(adult_home):
    data = datasets.adult(data_home=adult_home)
    assert (data.name, data.X_train.shape, data.X_test.shape) == ("Adult", (6, 104), (2, 104))
    assert data.X_train.format == data.X_test.format == "csr"
    table = all_records(data)
    np.testing.assert_allclose(np.linalg.norm(table[:, :-1], axis=1), 1, rtol=1e-12)
    np.testing.assert_array_equal((table[:, 6:-1] > 0).sum(axis=1), 8)  # one value of each categorical column
    unscaled = table[:, :6] / table[:, 6:-1].max(axis=1, keepdims=True)
    found = {tuple(row): label for row, label in zip(np.round(unscaled, 12).tolist(), table[:, -1], strict=True)}
    maxima = np.array([80, 400_000, 16, 1000, 400, 60])  # the 80 hours of a record with a missing value do not count
    records = {
        (40, 100_000, 13, 500, 0, 40): 0,
        (20, 300_000, 9, 0, 0, 20): 0,
        (80, 400_000, 16, 1000, 0, 60): 1,
        (30, 150_000, 7, 0, 200, 35): 1,
        (25, 120_000, 5, 0, 0, 30): 1,
        (35, 80_000, 1, 0, 400, 25): 0,
        (60, 250_000, 8, 0, 0, 50): 0,
        (55, 210_000, 14, 250, 0, 55): 1,
    }
    assert found == {tuple(np.round(np.array(row) / maxima, 12).tolist()): label for row, label in records.items()}
    assert "maximum" in data.unaccounted


def test_adult_columns_do_not_depend_on_which_values_occur(adult_home):
    """A value that no longer occurs leaves its column empty; the others stay where they were."""
    before = all_records(datasets.adult(data_home=adult_home))[:, :-1].any(axis=0)
    rewrite(adult_home / "adult.data", "Cuba", "Vietnam")
    after = all_records(datasets.adult(data_home=adult_home))[:, :-1].any(axis=0)
    cuba, vietnam = 63 + 4, 63 + 39  # countries are the last 41 columns, in alphabetical order
    assert np.flatnonzero(before & ~after).tolist() == [cuba]
    assert np.flatnonzero(after & ~before).tolist() == [vietnam]


def test_a_column_of_zeros_stays(adult_home):
    for path in ("adult.data", "adult.test"):
        text = (adult_home / path).read_text()
        for gain in (" 500,", " 1000,", " 250,"):
            text = text.replace(gain, " 0,")
        (adult_home / path).write_text(text)
    assert np.isfinite(all_records(datasets.adult(data_home=adult_home))).all()


def test_gzipped_files_and_the_environment_give_the_same(adult_home, monkeypatch):
    plain = datasets.adult(data_home=adult_home, split_seed=3)
    compress(adult_home / "adult.data")
    assert_same(datasets.load("adult", data_home=str(adult_home), split_seed=3), plain)
    compress(adult_home / "adult.test")
    monkeypatch.setenv("EXPLORER_DATA_HOME", str(adult_home))
    assert_same(datasets.adult(split_seed=3), plain)


def test_openml_gives_the_same_as_uci_files(adult_home, monkeypatch):
    """OpenML has numbers, categories, NaN for what is missing, and the records of UCI's test file first."""
    lines = ADULT_TEST.replace("K.", "K").splitlines()[1:] + ADULT_DATA.splitlines()[:-1]
    frame = pd.DataFrame([line.split(", ") for line in lines], columns=list(datasets._ADULT_COLUMNS)).replace("?", None)
    numbers = ["age", "fnlwgt", "education-num", "capital-gain", "capital-loss", "hours-per-week"]
    frame = frame.astype({column: "int64" if column in numbers else "category" for column in frame})
    asked = []

    def fetch(**which):
        asked.append(which)
        return SimpleNamespace(data=frame.drop(columns="class"), target=frame["class"])

    monkeypatch.setattr(datasets, "fetch_openml", fetch)
    assert_same(datasets.adult(), datasets.adult(data_home=adult_home))
    assert (asked[0]["name"], asked[0]["version"], len(asked)) == ("adult", 2, 1)


@pytest.mark.parametrize("name", ["adult", "gisette"])
def test_without_a_network_the_error_says_what_to_do(name, monkeypatch):
    def fetch(**which):
        raise URLError("Name or service not known")

    monkeypatch.delenv("EXPLORER_DATA_HOME", raising=False)
    monkeypatch.setattr(datasets, "fetch_openml", fetch)
    with pytest.raises(ConnectionError, match=r"not known.*UCI's files .*\.data, .*EXPLORER_DATA_HOME"):
        datasets.load(name)


def test_a_named_folder_is_the_only_place_looked_in(adult_home, tmp_path, monkeypatch):
    monkeypatch.setattr(datasets, "fetch_openml", lambda **which: pytest.fail("asked OpenML"))
    (adult_home / "adult.test").unlink()
    with pytest.raises(FileNotFoundError, match=r"adult\.data, adult\.test.* no adult\.test in data_home='"):
        datasets.adult(data_home=adult_home)
    monkeypatch.setenv("EXPLORER_DATA_HOME", str(tmp_path / "nowhere"))
    with pytest.raises(FileNotFoundError, match=r"no gisette_train\.data, .* in EXPLORER_DATA_HOME='.*nowhere'"):
        datasets.gisette()


@pytest.mark.parametrize(
    ("file", "old", "new", "message"),
    [
        ("adult.data", "Cuba, <=50K", "<=50K", r"adult\.data, line 2: expected 15 fields separated by commas, got 14"),
        ("adult.data", "80, Self", "80, 1, Self", r"adult\.data, line 4: expected 15 fields .*, got 16"),
        ("adult.data", "80, Self", "old, Self", r"line 4: age must be a finite number >= 0: got 'old'"),
        ("adult.data", "80, Self", "inf, Self", r"line 4: age must be a finite number >= 0: got 'inf'"),
        ("adult.data", "80, Self", "-80, Self", r"line 4: age must be a finite number >= 0: got '-80'"),
        ("adult.test", "Hong", "Atlantis", r"adult\.test, line 3: native-country must be one of .*: got 'Atlantis'"),
        ("adult.test", "Hong, <=50K.", "Hong, 50K.", r"line 3: class must be one of <=50K, >50K: got '50K'"),
        ("adult.data", "Cuba, <=50K", "Cuba,", r"line 2: class must be one of <=50K, >50K: got ''"),
    ],
)
def test_malformed_adult_files(adult_home, file, old, new, message):
    rewrite(adult_home / file, old, new)
    with pytest.raises(ValueError, match=message):
        datasets.adult(data_home=adult_home)


def test_broken_gzip_files(adult_home):
    path = adult_home / "adult.data"
    whole = gzip.compress(path.read_bytes())
    path.unlink()
    for broken in (whole[: len(whole) // 2], ADULT_DATA.encode(), whole[:20] + b"\0" * 40 + whole[60:]):
        (adult_home / "adult.data.gz").write_bytes(broken)
        with pytest.raises(ValueError, match=r"adult\.data\.gz must be a whole gzip file"):
            datasets.adult(data_home=adult_home)


def test_adult_files_without_a_complete_record(adult_home):
    (adult_home / "adult.data").write_text("")
    (adult_home / "adult.test").write_text(ADULT_TEST.splitlines()[3])
    with pytest.raises(ValueError, match=r"adult\.data and adult\.test must hold at least one record"):
        datasets.adult(data_home=adult_home)


def test_gisette_files(gisette_home, gisette_records):
    data = datasets.gisette(data_home=gisette_home)
    assert (data.name, data.X_train.shape, data.X_test.shape) == ("Gisette", (8, 5000), (2, 5000))
    assert data.X_train.format == "csr"
    assert data.unaccounted == ""
    features, labels = gisette_records
    expected = np.column_stack([features / np.linalg.norm(features, axis=1, keepdims=True), labels > 0])
    np.testing.assert_allclose(all_records(data), expected[np.lexsort(expected.T)], rtol=1e-12)
    for path in list(gisette_home.iterdir()):
        compress(path)
    assert_same(datasets.load("gisette", data_home=gisette_home), data)


@pytest.mark.parametrize("keep", [np.asarray, sparse.csr_matrix], ids=["dense", "csr"])
def test_openml_gives_the_same_as_gisette_files(gisette_home, gisette_records, monkeypatch, keep):
    features, labels = (part[::-1] for part in gisette_records)

    def fetch(*, data_id, as_frame):
        assert (data_id, as_frame) == (41026, False)
        return SimpleNamespace(data=keep(features.astype(float)), target=labels.astype(str).astype(object))

    monkeypatch.setattr(datasets, "fetch_openml", fetch)
    assert_same(datasets.gisette(), datasets.gisette(data_home=gisette_home))


def test_openml_features_outside_the_public_range(gisette_records, monkeypatch):
    features, labels = gisette_records
    monkeypatch.delenv("EXPLORER_DATA_HOME", raising=False)
    monkeypatch.setattr(
        datasets, "fetch_openml", lambda **which: SimpleNamespace(data=features / 500 - 1, target=labels)
    )
    with pytest.raises(ValueError, match=r"5000 integers in 0\.\.999 .*got 5000 features in -1\.\."):
        datasets.gisette()


@pytest.mark.parametrize(
    ("file", "number", "line", "message"),
    [
        ("train.data", 3, "1 2 3", r"line 3: expected 5000 integers in 0\.\.999, got '1 2 3' \(fields: 3\)"),
        ("valid.data", 2, "0 " * 4999 + "1000", r"line 2: expected 5000 integers in 0\.\.999, got '0 0"),
        ("valid.data", 1, "0 " * 4999 + "0.5", r"line 1: expected 5000 integers in 0\.\.999, got '0 0"),
        (
            "train.data",
            1,
            "0 " * 4999 + "x",
            r"line 1: expected 5000 integers in 0\.\.999, got '0 0 .*\(fields: 5000\)",
        ),
        ("train.labels", 2, "0", r"line 2: expected -1 or 1, got '0'"),
        ("valid.labels", 4, "", r"gisette_valid\.data has 4 records, gisette_valid\.labels has 3: must be equal"),
    ],
    ids=["short", "range", "fraction", "text", "label", "lengths"],
)
def test_malformed_gisette_files(gisette_home, file, number, line, message):
    path = gisette_home / f"gisette_{file}"
    lines = path.read_text().splitlines()
    lines[number - 1] = line
    path.write_text("\n".join(lines))
    with pytest.raises(ValueError, match=message) as raised:
        datasets.gisette(data_home=gisette_home)
    assert path.name in str(raised.value)


def test_an_empty_gisette_file(gisette_home):
    (gisette_home / "gisette_valid.data").write_text("")
    with pytest.raises(ValueError, match=r"gisette_valid\.data must hold at least one record"):
        datasets.gisette(data_home=gisette_home)


@pytest.mark.skipif(
    not os.environ.get("EXPLORER_DATA_HOME"),
    reason="EXPLORER_DATA_HOME is not set: it names the folder that holds adult.data and adult.test",
)
def test_the_real_adult():
    data = datasets.adult()
    assert (data.X_train.shape, data.X_test.shape) == ((36177, 104), (9045, 104))
    assert len(data.y_train) + len(data.y_test) == 45222
    X = sparse.vstack([data.X_train, data.X_test], format="csr")
    np.testing.assert_allclose(np.sqrt(X.multiply(X).sum(axis=1)), 1, rtol=1e-12)
    assert X.getnnz(axis=0).min() > 0  # every column occurs
    assert np.diff(X.indptr).max() <= 14
    assert data.y_train.sum() + data.y_test.sum() == 11208  # of those without a missing value, as UCI counts them
