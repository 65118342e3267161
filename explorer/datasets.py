"""Example datasets: feature rows of norm at most 1, labels, and a random 80/20 split determined by its seed.

Dividing each row by its own norm costs no privacy: the result for a record depends on no other record, so neighbouring
datasets stay neighbours. The same holds for leaving out records with a missing value. A statistic of many records (a
mean, a maximum) does cost privacy: where columns are scaled by one, `unaccounted` says so, and no stated
(epsilon, delta) covers it.
"""

import gzip
import os
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
from scipy import sparse
from scipy.special import expit
from sklearn.datasets import fetch_openml, load_breast_cancer, load_digits, make_classification
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import OneHotEncoder, normalize

from explorer.validation import natural, real

_ADULT_FILES = ("adult.data", "adult.test")

# UCI's columns in order, with the values of the categorical ones. They are fixed here, not read from the data, so that
# the columns of X are public. "Never-worked" is omitted since it occurs in no complete record: such records have no
# occupation.
_ADULT_COLUMNS = {
    "age": "",
    "workclass": "Federal-gov Local-gov Private Self-emp-inc Self-emp-not-inc State-gov Without-pay",
    "fnlwgt": "",
    "education": "Preschool 1st-4th 5th-6th 7th-8th 9th 10th 11th 12th HS-grad Some-college Assoc-acdm Assoc-voc "
    "Bachelors Masters Prof-school Doctorate",
    "education-num": "",
    "marital-status": "Divorced Married-AF-spouse Married-civ-spouse Married-spouse-absent Never-married Separated "
    "Widowed",
    "occupation": "Adm-clerical Armed-Forces Craft-repair Exec-managerial Farming-fishing Handlers-cleaners "
    "Machine-op-inspct Other-service Priv-house-serv Prof-specialty Protective-serv Sales Tech-support "
    "Transport-moving",
    "relationship": "Husband Not-in-family Other-relative Own-child Unmarried Wife",
    "race": "Amer-Indian-Eskimo Asian-Pac-Islander Black Other White",
    "sex": "Female Male",
    "capital-gain": "",
    "capital-loss": "",
    "hours-per-week": "",
    "native-country": "Cambodia Canada China Columbia Cuba Dominican-Republic Ecuador El-Salvador England France "
    "Germany Greece Guatemala Haiti Holand-Netherlands Honduras Hong Hungary India Iran Ireland Italy Jamaica Japan "
    "Laos Mexico Nicaragua Outlying-US(Guam-USVI-etc) Peru Philippines Poland Portugal Puerto-Rico Scotland South "
    "Taiwan Thailand Trinadad&Tobago United-States Vietnam Yugoslavia",
    "class": "<=50K >50K",
}
_ADULT_NUMBERS = [column for column, values in _ADULT_COLUMNS.items() if not values]
_ADULT_CATEGORIES = {column: values.split() for column, values in _ADULT_COLUMNS.items() if values}

_GISETTE_FILES = ("gisette_train.data", "gisette_train.labels", "gisette_valid.data", "gisette_valid.labels")
_GISETTE_FEATURES = 5000


@dataclass(frozen=True)
class Dataset:
    """A training and a test set.

    Attributes
    ----------
    name : str
    X_train, X_test : ndarray or CSR matrix (n, d), rows of norm at most 1 up to rounding
    y_train, y_test : ndarray (n,) of int, the classes counted from 0
    unaccounted : str, what was computed from the data without accounting for its privacy cost; empty if nothing
    """

    name: str
    X_train: np.ndarray | sparse.csr_matrix
    X_test: np.ndarray | sparse.csr_matrix
    y_train: np.ndarray
    y_test: np.ndarray
    unaccounted: str = ""


def unit_rows(X: np.ndarray | sparse.csr_matrix) -> np.ndarray | sparse.csr_matrix:
    """The rows of X, ndarray or CSR matrix (n, d), divided by their l2 norms, which costs no privacy; zeros stay."""
    return normalize(X, norm="l2")


def breast_cancer(*, split_seed: int = 0) -> Dataset:
    """Wisconsin diagnostic breast cancer, as shipped with scikit-learn: 569 tumours, 30 features, benign or malignant.

    Columns are standardised by their mean and standard deviation over all rows, since their scales differ by a factor
    of a thousand; that statistic of the data is not covered by any stated (epsilon, delta). Rows are then divided by
    their norm, which costs no privacy. The split is 80/20, drawn by `split_seed`, with the same share of each class.
    """
    X, y = load_breast_cancer(return_X_y=True)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    unaccounted = "columns are standardised with the mean and standard deviation of the data"
    return _split("Breast cancer", X, y, split_seed, stratify=y, unaccounted=unaccounted)


def digits(*, split_seed: int = 0) -> Dataset:
    """Handwritten digits, as shipped with scikit-learn: 1797 images of 8 x 8 pixels from 0 to 16, ten classes.

    Rows are divided by their norm, so a common public factor such as 1/16 cancels.
    """
    return _split("Digits", *load_digits(return_X_y=True), split_seed)


def synthetic_l(*, split_seed: int = 0) -> Dataset:
    """The paper's low-dimensional data: 10 000 generated records, 40 features, two classes.

    References: Redberg, Koskela & Wang 2023; the generator follows Guyon 2003.
    """
    X, y = make_classification(
        n_samples=10_000, n_features=40, n_informative=30, n_classes=2, class_sep=2.0, random_state=1000
    )
    return _split("Synthetic-L", X, y, split_seed)


def synthetic_h(*, split_seed: int = 0) -> Dataset:
    """The paper's high-dimensional data: 2000 generated records, 2000 features of which 10 are informative.

    References: as in `synthetic_l`.
    """
    X, y = make_classification(
        n_samples=2000,
        n_features=2000,
        n_informative=10,
        n_redundant=0,
        n_classes=2,
        class_sep=2.0,
        random_state=1,
    )
    return _split("Synthetic-H", X, y, split_seed)


def logistic_plane(
    *, n_records: int = 1260, theta: Sequence[float] = (4.0, -2.0), seed: int = 0
) -> tuple[np.ndarray, np.ndarray]:
    """Synthetic records in the plane with labels from a logistic model: for illustrations, not in `DATASETS`.

    Parameters
    ----------
    n_records : int
    theta : sequence of 2 floats, the coefficients of the model from which labels are drawn
    seed : int

    Returns
    -------
    X : ndarray (n_records, 2), uniform in an ellipse within the unit disc
    y : ndarray (n_records,) of 0 and 1; 1 with probability 1 / (1 + e^(-x.theta))
    """
    rng = np.random.default_rng(seed)
    angle, radius = 2 * np.pi * rng.random(n_records), np.sqrt(rng.random(n_records))
    X = radius[:, None] * np.column_stack([np.cos(angle), np.sin(angle)]) @ np.array([[0.9, 0.1], [0.1, 0.6]])
    return X, (rng.random(n_records) < expit(X @ np.asarray(theta))).astype(int)


def adult(*, split_seed: int = 0, data_home: str | os.PathLike | None = None) -> Dataset:
    """Adult: 45 222 complete records of the US census of 1994, 104 features; class 1 earned more than 50 000 dollars.

    The 6 continuous columns are divided by their maximum over all records, test records included; that statistic of
    the data is not covered by any stated (epsilon, delta). The 8 categorical columns are one-hot encoded into 98
    columns by fixed lists of their values. Rows are then divided by their norm. Features are CSR: at most 14 of a row's
    104 entries are not zero.

    Parameters
    ----------
    split_seed : int in 0..2^32-1
    data_home : path or None; the folder that holds UCI's files adult.data and adult.test, plain or gzipped. None means
        the folder that the environment variable EXPLORER_DATA_HOME names, and OpenML if that is not set. With a
        folder, OpenML is not used. The split is the same for both sources.

    Raises
    ------
    FileNotFoundError if the folder lacks a file; ConnectionError if OpenML cannot be reached; ValueError for files
    that are not in UCI's format, naming file, line and what was expected.

    References: Becker & Kohavi 1996, UCI Machine Learning Repository; OpenML "adult", version 2.
    """
    paths = _local_files(_ADULT_FILES, data_home)
    parts = {path.name: _read_adult(path) for path in paths} if paths else {"OpenML's adult": _fetch_adult()}
    complete = {name: records for name, part in parts.items() if not (records := part.dropna()).empty}
    if not complete:
        raise ValueError(f"{' and '.join(parts)} must hold at least one record without a missing value: got none")
    table = _in_canonical_order(_adult_table(pd.concat(complete)))
    numbers, codes, labels = np.split(table, [len(_ADULT_NUMBERS), -1], axis=1)
    maxima = numbers.max(axis=0)
    encoder = OneHotEncoder(categories=[np.arange(len(values)) for values in list(_ADULT_CATEGORIES.values())[:-1]])
    scaled = sparse.csr_matrix(numbers / np.where(maxima > 0, maxima, 1))
    X = sparse.hstack([scaled, encoder.fit_transform(codes)], format="csr")
    unaccounted = "continuous columns are divided by their maximum over the data"
    return _split("Adult", X, labels.ravel(), split_seed, unaccounted=unaccounted)


def gisette(*, split_seed: int = 0, data_home: str | os.PathLike | None = None) -> Dataset:
    """Gisette: 7000 images of the handwritten digits 4 and 9, 5000 features, half of them random; class 1 is UCI's +1.

    UCI's training and validation records together (its test records have no public labels), split 80/20 at random like
    the other datasets. Features are integers in 0..999; rows are divided by their norm, so a common public factor such
    as 1/999 cancels. Features are CSR, since most are zero.

    Parameters
    ----------
    split_seed : int in 0..2^32-1
    data_home : path or None, as in `adult`; the files are gisette_train.data, gisette_train.labels, gisette_valid.data
        and gisette_valid.labels

    Raises
    ------
    As `adult`.

    References: Guyon et al. 2004; UCI Machine Learning Repository; OpenML data 41026.
    """
    paths = _local_files(_GISETTE_FILES, data_home)
    parts = [_read_gisette(*paths[:2]), _read_gisette(*paths[2:])] if paths else [_fetch_gisette()]
    table = _in_canonical_order(np.vstack(parts))
    return _split("Gisette", sparse.csr_matrix(table[:, :-1], dtype=float), table[:, -1] > 0, split_seed)


def elongated(n_records: int, *, dimension: int, elongation: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Synthetic records of norm 1 with a given ratio of standard deviations; a prefix of one infinite sequence.

    Row i is z / |z| with independent z_j ~ N(0, elongation^(-2 (j-1)/(d-1))), j = 1..d. Its label is 1 with probability
    1 / (1 + e^-u), u = 4 (x_i1 + ... + x_id) / sqrt(d).

    Parameters
    ----------
    n_records : int >= 1, n; a larger n with the same seed has the same first rows and labels
    dimension : int >= 1, d
    elongation : float >= 1, standard deviation of z_1 divided by that of z_d; 1 for isotropic records
    seed : int >= 0

    Returns
    -------
    X : ndarray (n, d)
    y : ndarray (n,) of -1 and 1

    Raises
    ------
    ValueError for parameters out of range.
    """
    n, d = natural("n_records", n_records), natural("dimension", dimension)
    ratio = real("elongation", elongation, rule=">= 1 and finite", valid=lambda r: np.isfinite(r) & (r >= 1))
    rows, labels = np.random.default_rng(seed).spawn(2)
    X = unit_rows(rows.normal(size=(n, d)) * ratio ** -np.linspace(0, 1, d))
    margins = 4 * X.sum(axis=1) / np.sqrt(d)
    return X, np.where(labels.random(n) < expit(margins), 1.0, -1.0)


def two_clouds(*, split_seed: int = 0) -> Dataset:
    """Two-dimensional data: 2000 generated points of two overlapping isotropic Gaussian classes.

    The class means are -(0.35, 0.2) and (0.35, 0.2), the standard deviation is 0.25; points outside the unit circle are
    scaled to norm 1. Other rows are not divided by their norm, which would place all points on the circle.
    """
    rng = np.random.default_rng(7)
    y = rng.integers(2, size=2000)
    X = np.outer(2 * y - 1, [0.35, 0.2]) + 0.25 * rng.normal(size=(2000, 2))
    return _split("Two clouds", X, y, split_seed, scale=_clip_rows)


_LOADERS = (breast_cancer, two_clouds, digits, synthetic_l, synthetic_h, adult, gisette)
DATASETS = {loader.__name__: loader for loader in _LOADERS}
BUILT_IN = ("breast_cancer", "two_clouds", "digits", "synthetic_l", "synthetic_h")  # need neither files nor a network
_FILES = {"adult": _ADULT_FILES, "gisette": _GISETTE_FILES}


def load(name: str, *, split_seed: int = 0, data_home: str | os.PathLike | None = None) -> Dataset:
    """The Dataset called `name` in `DATASETS`; `data_home` as in `adult`, not used by those in `BUILT_IN`."""
    if name not in DATASETS:
        raise ValueError(f"name must be one of {', '.join(DATASETS)}: got name={name!r}")
    if name in BUILT_IN:
        return DATASETS[name](split_seed=split_seed)
    return DATASETS[name](split_seed=split_seed, data_home=data_home)


def missing(name: str) -> str:
    """A sentence that says which files `load(name)` lacks; empty if the data are on this machine."""
    if name in BUILT_IN:
        return ""
    try:
        if _local_files(_FILES[name], None) is not None:
            return ""
    except FileNotFoundError:
        pass
    names = " and ".join((", ".join(_FILES[name][:-1]), _FILES[name][-1]))
    return (
        f"{name.capitalize()} is not on this machine: its files {names}, plain or gzipped, must be in the folder "
        "that the environment variable EXPLORER_DATA_HOME names when the explorer starts"
    )


@cache
def column_names(name: str) -> tuple[str, ...]:
    """Public names of the features of the dataset called `name` in `DATASETS`, without loading its records."""
    if name == "breast_cancer":
        return tuple(load_breast_cancer().feature_names.tolist())
    if name == "digits":
        return tuple(f"pixel {i}, {j}" for i in range(8) for j in range(8))
    if name == "adult":
        categories = list(_ADULT_CATEGORIES.items())[:-1]
        return (*_ADULT_NUMBERS, *(f"{column}={value}" for column, values in categories for value in values))
    return tuple(f"x{j + 1}" for j in range(_N_FEATURES[name]))


_N_FEATURES = {"two_clouds": 2, "synthetic_l": 40, "synthetic_h": 2000, "gisette": _GISETTE_FEATURES}


def two_columns(data: Dataset, columns: tuple[int, int]) -> Dataset:
    """`data` with two of its d features, multiplied by the public number max(1, sqrt(d / 8)).

    The factor compensates for the norm of the dropped features. Rows longer than 1 are then scaled down to norm 1,
    each on its own, which costs no privacy.

    Parameters
    ----------
    data : Dataset of two classes or more
    columns : two different int in 0..d-1

    Raises
    ------
    ValueError for columns that data does not have, or two equal ones.
    """
    width = data.X_train.shape[1]
    first, second = columns
    if first == second or not all(0 <= column < width for column in columns):
        raise ValueError(f"columns must be two different integers in 0..{width - 1}: got columns={tuple(columns)}")
    scale = max(1.0, np.sqrt(width / 8))
    parts = [_clip_rows(scale * _dense(X[:, [first, second]])) for X in (data.X_train, data.X_test)]
    return replace(data, X_train=parts[0], X_test=parts[1])


def _dense(X):
    return X.toarray() if sparse.issparse(X) else X


def _clip_rows(X):
    """X with rows longer than 1 scaled down to norm 1; the others are unchanged."""
    return X / np.maximum(np.linalg.norm(X, axis=1, keepdims=True), 1)


def _split(name, X, y, split_seed, *, stratify=None, unaccounted="", scale=unit_rows):
    """The Dataset of X with rows scaled to norm at most 1; `split_seed` draws a fifth of them as test records."""
    rule = "an integer in 0..2^32-1"
    seed = real("split_seed", split_seed, rule=rule, valid=lambda s: (s >= 0) & (s < 2**32) & (s == np.floor(s)))
    parts = train_test_split(scale(X), y.astype(int), test_size=0.2, random_state=int(seed), stratify=stratify)
    return Dataset(name, *parts, unaccounted=unaccounted)


def _in_canonical_order(table):
    """Rows sorted by their values, last column first: OpenML and UCI list the same records in different orders."""
    return table[np.lexsort(table.T)]


def _local_files(names, data_home):
    """Paths of UCI's files, or None if no folder is named; raises FileNotFoundError if a file is missing."""
    origin, folder = "data_home", data_home
    if data_home is None:
        origin, folder = "EXPLORER_DATA_HOME", os.environ.get("EXPLORER_DATA_HOME") or None
    if folder is None:
        return None
    folder = Path(folder).expanduser()
    candidates = [(folder / name, folder / f"{name}.gz") for name in names]
    paths = [next((path for path in pair if path.is_file()), None) for pair in candidates]
    missing = [name for name, path in zip(names, paths, strict=True) if path is None]
    if missing:
        raise FileNotFoundError(
            f"{origin} must name a folder that holds UCI's files {', '.join(names)}, each plain or with .gz added: "
            f"no {', '.join(missing)} in {origin}={str(folder)!r}"
        )
    return paths


def _openml(names, **which):
    """OpenML's data through scikit-learn's cache; raises ConnectionError, which says what to do without a network."""
    try:
        return fetch_openml(**which)
    except (OSError, ValueError) as error:  # no network; no such data, or a checksum mismatch
        raise ConnectionError(
            f"OpenML did not deliver {which}: {error}. Without it, put UCI's files {', '.join(names)}, plain or "
            "gzipped, into a folder and set data_home or the environment variable EXPLORER_DATA_HOME to its path."
        ) from error


def _lines(path):
    """Pairs of line number, from 1, and stripped text, for the lines of a plain or gzipped file that are not blank."""
    opened = gzip.open if path.suffix == ".gz" else open
    try:
        with opened(path, "rt", encoding="utf-8", errors="replace") as file:
            for number, line in enumerate(file, start=1):
                if line.strip():
                    yield number, line.strip()
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise ValueError(f"{path.name} must be a whole gzip file: {error}") from error


def _read_adult(path):
    """UCI's records as strings by line number, NaN for '?'. The test file has a comment line and dots after labels."""
    numbers, records = [], []
    for number, line in _lines(path):
        if line.startswith("|"):
            continue
        fields = line.removesuffix(".").replace(" ", "").split(",")  # UCI puts a blank after each comma
        if len(fields) != len(_ADULT_COLUMNS):
            expected = f"{len(_ADULT_COLUMNS)} fields separated by commas"
            raise ValueError(f"{path.name}, line {number}: expected {expected}, got {len(fields)}")
        numbers.append(number)
        records.append(fields)
    frame = pd.DataFrame(records, index=numbers, columns=list(_ADULT_COLUMNS))
    return frame.mask(frame == "?")


def _fetch_adult():
    """OpenML's records in UCI's columns."""
    bunch = _openml(_ADULT_FILES, name="adult", version=2, as_frame=True)
    return bunch.data.assign(**{"class": bunch.target})[list(_ADULT_COLUMNS)]


def _adult_table(records):
    """Complete records as floats, (n, 15): the continuous columns, the codes of the categorical ones, the label."""
    numbers = records[_ADULT_NUMBERS].apply(pd.to_numeric, errors="coerce").astype(float)
    for column in numbers:
        _check(records[column], (numbers[column] >= 0) & np.isfinite(numbers[column]), "a finite number >= 0")
    codes = []
    for column, values in _ADULT_CATEGORIES.items():
        code = pd.Index(values).get_indexer(records[column].astype(str))
        _check(records[column], code >= 0, f"one of {', '.join(values)}")
        codes.append(code)
    return np.column_stack([numbers, *codes])


def _check(column, good, rule):
    """Raise ValueError for the first invalid value of a column that is indexed by file and line."""
    if not good.all():
        (file, line), value = next(iter(column[~good].items()))
        raise ValueError(f"{file}, line {line}: {column.name} must be {rule}: got {value!r}")


def _read_gisette(data, labels):
    """Features in 0..999 and the label, -1 or 1, int16 (n, 5001)."""
    features = _read_integers(data, _GISETTE_FEATURES, f"{_GISETTE_FEATURES} integers in 0..999", _is_intensity)
    signs = _read_integers(labels, 1, "-1 or 1", _is_sign)
    if len(features) != len(signs):
        raise ValueError(f"{data.name} has {len(features)} records, {labels.name} has {len(signs)}: must be equal")
    return np.hstack([features, signs])


def _fetch_gisette():
    """OpenML's records in the form of `_read_gisette`."""
    bunch = _openml(_GISETTE_FILES, data_id=41026, as_frame=False)
    features = bunch.data.toarray() if sparse.issparse(bunch.data) else np.asarray(bunch.data, float)
    signs = np.asarray(bunch.target, float)
    if features.shape[1] != _GISETTE_FEATURES or not _is_intensity(features).all() or not _is_sign(signs).all():
        raise ValueError(
            f"OpenML's gisette must have {_GISETTE_FEATURES} integers in 0..999 and labels -1 or 1: got "
            f"{features.shape[1]} features in {features.min():g}..{features.max():g}, labels {np.unique(signs)}"
        )
    return np.column_stack([features, signs]).astype(np.int16)


def _read_integers(path, width, rule, valid):
    """One row for each line, int16 (n, width)."""
    rows = []
    for number, line in _lines(path):
        try:
            row = np.loadtxt([line], comments=None, ndmin=1)
        except ValueError:
            row = np.empty(0)
        if len(row) != width or not valid(row).all():
            text = line if len(line) <= 40 else f"{line[:40]}..."
            fields = len(line.split())
            raise ValueError(f"{path.name}, line {number}: expected {rule}, got {text!r} (fields: {fields})")
        rows.append(row.astype(np.int16))
    if not rows:
        raise ValueError(f"{path.name} must hold at least one record: got none")
    return np.array(rows)


def _is_intensity(x):
    return (x >= 0) & (x <= 999) & (x == np.floor(x))


def _is_sign(x):
    return np.abs(x) == 1
