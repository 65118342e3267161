"""Uploaded CSV files as datasets: parsed in memory, within size limits, or rejected with a reason.

The first line names the columns; every other line is a record. One column, by default the last, holds the class; all
others must be finite numbers. No file is written.
"""

import csv
import io
from collections import Counter
from dataclasses import dataclass

import numpy as np
from sklearn.model_selection import train_test_split

from explorer.datasets import Dataset, unit_rows

MAX_BYTES = 5_000_000
MAX_RECORDS = 50_000
MAX_COLUMNS = 500
MAX_CLASSES = 10
FEWEST = 5  # records of a class, as an 80/20 split by class needs
_SHOWN = 40  # characters of the file's text in a message


class UploadRefused(ValueError):
    """The file cannot be used; the message says why, addressed to its author."""


@dataclass(frozen=True)
class Table:
    """The text of a CSV file.

    Attributes
    ----------
    name : str, the file's
    columns : tuple of distinct str
    records : tuple of tuples of str, one for each column
    lines : tuple of int, the line number at which each record ends
    """

    name: str
    columns: tuple[str, ...]
    records: tuple[tuple[str, ...], ...]
    lines: tuple[int, ...]

    def features(self, *, label: str | None = None) -> tuple[str, ...]:
        """Names of all columns except that of the class; `label` as in `dataset`."""
        return tuple(column for column in self.columns if column != self._label(label))

    def dataset(self, *, label: str | None = None, split_seed: int = 0) -> Dataset:
        """The file as a dataset: rows divided by their norm, a stratified 80/20 split.

        Columns are not rescaled: no statistic of a column is computed. Classes are numbered in the order of their
        names, or of their values if all are numbers.

        Parameters
        ----------
        label : str or None, the column of the class; None for the last
        split_seed : int in 0..2^32-1

        Returns
        -------
        Dataset

        Raises
        ------
        UploadRefused for a column with anything but finite numbers, naming line and column; for a missing class, a
        single class, more than MAX_CLASSES, or a class of fewer than FEWEST records.
        """
        place = self.columns.index(self._label(label))
        y = _numbered(self, place)
        X = np.column_stack([_numbers(self, j) for j in range(len(self.columns)) if j != place])
        parts = train_test_split(unit_rows(X), y, test_size=0.2, random_state=split_seed, stratify=y)
        return Dataset(self.name, *parts)

    def _label(self, label: str | None) -> str:
        if label is not None and label not in self.columns:
            raise UploadRefused(f"the file has no column {_quoted(label)}")
        return self.columns[-1] if label is None else label


def read_csv(content: bytes, *, name: str = "upload.csv") -> Table:
    """The Table of a CSV file.

    Parameters
    ----------
    content : bytes of UTF-8 text; fields separated by commas, semicolons or tabs, whichever the first line has most
    name : str, the file's, for display

    Raises
    ------
    UploadRefused if it is too large, is not text, has a line with more or fewer fields than the first, no names in the
    first line, a repeated name, fewer than two columns, more than MAX_COLUMNS or more than MAX_RECORDS records.
    """
    text = _text(content)
    delimiter = max(",;\t", key=text.partition("\n")[0].count)
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    columns, records, lines = None, [], []
    try:
        for fields in reader:
            if not any(field.strip() for field in fields):
                continue
            fields = tuple(field.strip() for field in fields)
            if columns is None:
                columns = _names(fields)
                continue
            if len(fields) != len(columns):
                expected = f"{len(columns)} fields, as many as the first line names"
                raise UploadRefused(f"line {reader.line_num} must have {expected}: got {len(fields)}")
            if len(records) == MAX_RECORDS:
                raise UploadRefused(f"the file must have at most {MAX_RECORDS:,} records: it has more")
            records.append(fields)
            lines.append(reader.line_num)
    except csv.Error as error:
        raise UploadRefused(f"line {reader.line_num} must be CSV: {error}") from None
    if not records:
        raise UploadRefused("the file must have a line of column names and at least one record below it: it has none")
    return Table(name[:_SHOWN], columns, tuple(records), tuple(lines))


def _text(content: bytes) -> str:
    if len(content) > MAX_BYTES:
        raise UploadRefused(f"the file must have at most {MAX_BYTES // 1_000_000} MB: it is larger")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise UploadRefused("the file must be text in UTF-8: it is not; save it as CSV UTF-8") from None
    if "\0" in text:
        raise UploadRefused("the file must be text: it contains zero bytes, as binary files and UTF-16 text do")
    return text


def _names(fields: tuple[str, ...]) -> tuple[str, ...]:
    if not 2 <= len(fields) <= MAX_COLUMNS:
        rule = f"2 to {MAX_COLUMNS} columns, separated by commas, semicolons or tabs"
        raise UploadRefused(f"the file must have {rule}: got {len(fields)}")
    for place, field in enumerate(fields, start=1):
        if not field or _is_number(field):
            raise UploadRefused(f"the first line must name the columns: got {_quoted(field)} for column {place}")
    twice = [field for field, times in Counter(fields).items() if times > 1]
    if twice:
        raise UploadRefused(f"the columns must have different names: {_quoted(twice[0])} comes twice")
    return fields


def _numbers(table: Table, place: int) -> np.ndarray:
    """A column as floats, ndarray (n,)."""
    values = [record[place] for record in table.records]
    try:
        column = np.array(values, dtype=float)
        good = np.isfinite(column)
    except ValueError:
        good = np.array([_is_number(value) and np.isfinite(float(value)) for value in values])
    if not good.all():
        first = int(np.argmin(good))
        raise UploadRefused(
            f"every column but that of the class must be finite numbers: got {_quoted(values[first])} in line "
            f"{table.lines[first]}, column {_quoted(table.columns[place])}"
        )
    return column


def _numbered(table: Table, place: int) -> np.ndarray:
    """The classes of a column counted from 0, ndarray (n,) of int."""
    values, column = [record[place] for record in table.records], _quoted(table.columns[place])
    if "" in values:
        raise UploadRefused(
            f"every record must have a class: line {table.lines[values.index('')]} has none in {column}"
        )
    if all(map(_is_number, values)):
        values = [float(value) for value in values]
        if not np.isfinite(values).all():
            raise UploadRefused(f"every record must have a class: column {column} has one that is no finite number")
    counts = Counter(values)
    if not 2 <= len(counts) <= MAX_CLASSES:
        got = "only one" if len(counts) == 1 else f"{len(counts):,}"
        raise UploadRefused(
            f"the column of the class must have 2 to {MAX_CLASSES} different values: {column} has {got}; choose another"
        )
    rarest = min(counts, key=counts.get)
    if counts[rarest] < FEWEST:
        got = f"{counts[rarest]} of {_quoted(rarest)} in {column}"
        raise UploadRefused(f"every class must have at least {FEWEST} records: got {got}")
    return np.searchsorted(sorted(counts), values)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _quoted(value: object) -> str:
    text = str(value)
    return repr(text if len(text) <= _SHOWN else text[:_SHOWN] + "…")
