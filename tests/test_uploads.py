"""Uploaded CSV files: the dataset made of them, and every reason for which they are rejected."""

import csv
import io
import pickle
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from explorer import uploads
from explorer.uploads import UploadRefused, read_csv


def lines(*records, header="age,pay,class"):
    return "\n".join((header, *records)).encode()


GOOD = lines(*(f"{i},{i * i / 7},{'yes' if i % 3 else 'no'}" for i in range(1, 61)))


def test_a_file_becomes_data():
    table = read_csv(GOOD, name="pay.csv")
    assert (table.name, table.columns, len(table.records)) == ("pay.csv", ("age", "pay", "class"), 60)
    assert table.features() == ("age", "pay")
    data = table.dataset()
    assert (data.X_train.shape, data.X_test.shape, data.unaccounted) == ((48, 2), (12, 2), "")
    np.testing.assert_allclose(np.linalg.norm(data.X_train, axis=1), 1, rtol=1e-12)
    assert (data.y_train.sum(), data.y_test.sum()) == (32, 8)  # "no" < "yes"; the same share in both parts
    X, y = np.vstack([data.X_train, data.X_test]), np.concatenate([data.y_train, data.y_test])
    ages = 7 * X[:, 1] / X[:, 0]  # each row is (i, i^2 / 7) divided by its norm
    np.testing.assert_allclose(np.sort(ages), np.arange(1, 61), rtol=1e-9)
    np.testing.assert_array_equal(y, np.round(ages) % 3 != 0)
    again = pickle.loads(pickle.dumps(table)).dataset()
    np.testing.assert_array_equal(again.X_train, data.X_train)
    assert not np.array_equal(table.dataset(split_seed=1).X_test, data.X_test)


def test_any_column_can_be_the_class():
    content = lines(*(f"{'a' if i < 20 else 'b'},{i},{-i}" for i in range(40)), header="kind,x,y")
    table = read_csv(content)
    assert table.features(label="kind") == ("x", "y")
    data = table.dataset(label="kind")
    assert set(data.y_train) == {0, 1}
    with pytest.raises(UploadRefused, match="must be finite numbers: got 'a' in line 2, column 'kind'"):
        read_csv(lines(*(f"{'ab'[i % 2]},{i},{i % 2}" for i in range(40)), header="kind,x,y")).dataset()
    for method in (table.features, table.dataset):
        with pytest.raises(UploadRefused, match="no column 'weight'"):
            method(label="weight")


def test_numbers_as_classes_are_ordered_by_value():
    records = [f"{i},{('10', '9', '9.0')[i % 3]}" for i in range(30)]
    data = read_csv(lines(*records, header="x,class")).dataset()
    assert np.concatenate([data.y_train, data.y_test]).sum() == 10  # 9 < 10, and 9.0 is 9


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_other_delimiters_line_ends_byte_order_mark_and_blank_lines(delimiter, newline):
    text = GOOD.decode().replace(",", delimiter).replace("\n", newline) + newline + newline
    assert read_csv(b"\xef\xbb\xbf" + text.encode()).records == read_csv(GOOD).records


def test_quoted_fields():
    table = read_csv(lines('"1","2","yes, ""often"""', header='"age, in years",pay,class'))
    assert table.columns[0] == "age, in years"
    assert table.records == (("1", "2", 'yes, "often"'),)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"x" * (uploads.MAX_BYTES + 1), "at most 5 MB"),
        (b"\x89PNG\r\n\x1a\n\x00\xff", "must be text in UTF-8"),
        ("größe,class\n".encode("latin-1"), "must be text in UTF-8"),
        (b"a,b\n\0,1", "zero bytes"),
        (b"", "a line of column names and at least one record"),
        (b"\n \n", "a line of column names and at least one record"),
        (b"a,b", "a line of column names and at least one record"),
        (b"a\n1\n2", "2 to 500 columns, separated by commas, semicolons or tabs: got 1"),
        (",".join(f"c{i}" for i in range(501)).encode(), "2 to 500 columns.*: got 501"),
        (",".join(f"c{i}" for i in range(10**5)).encode() + b"\n", "2 to 500 columns.*: got 100000"),
        (b"," * (10**6), "2 to 500 columns|at least one record"),
        (b"5.1,3.5,1\n4.9,3.0,0", "must name the columns: got '5.1' for column 1"),
        (b"a,,b\n1,2,3", "must name the columns: got '' for column 2"),
        (b"a,nan\n1,2", "must name the columns: got 'nan' for column 2"),
        (b"a,b,a\n1,2,3", "different names: 'a' comes twice"),
        (b"a,b\n1,2\n1,2,3", "line 3 must have 2 fields, as many as the first line names: got 3"),
        (b"a,b\n1\n", "line 2 must have 2 fields, as many as the first line names: got 1"),
        (b'a,b\n"1"x,2', "line 2 must be CSV"),
        (b'a,b\n1,"2', "must be CSV"),
        (b"a,b\n" + b"x" * 140_000 + b",1", "must be CSV"),
        (b"a,b" + b"\n1,2" * (uploads.MAX_RECORDS + 1), "at most 50,000 records"),
    ],
)
def test_files_that_are_no_table_are_refused(content, message):
    with pytest.raises(UploadRefused, match=message):
        read_csv(content)


def table_with(changed, *, line=7):
    """GOOD with one line replaced."""
    rows = GOOD.decode().splitlines()
    rows[line - 1] = changed
    return read_csv("\n".join(rows).encode())


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ("nan,1,yes", "finite numbers: got 'nan' in line 7, column 'age'"),
        ("1,inf,yes", "finite numbers: got 'inf' in line 7, column 'pay'"),
        ("1,,yes", "finite numbers: got '' in line 7, column 'pay'"),
        ("1,1e999,yes", "finite numbers: got '1e999' in line 7"),
        ("=1+1,1,yes", "finite numbers: got '=1.1' in line 7, column 'age'"),
        ("1,=cmd|' /C calc'!A0,yes", "finite numbers: got .* in line 7, column 'pay'"),
        ("1,@SUM(A1:A9),yes", "finite numbers: got '@SUM.* in line 7, column 'pay'"),
        ("old,1,yes", "finite numbers: got 'old' in line 7, column 'age'"),
        ("1,2,", "every record must have a class: line 7 has none in 'class'"),
        ("1,2,maybe", "every class must have at least 5 records: got 1 of 'maybe'"),
        (f"{'x' * 100},1,yes", f"got '{'x' * 40}…' in line 7"),
    ],
)
def test_records_that_cannot_be_learned_from_are_named(changed, message):
    with pytest.raises(UploadRefused, match=message):
        table_with(changed).dataset()


@pytest.mark.parametrize(
    ("values", "message"),
    [(["1"] * 30, "'class' has only one; choose another"), (map(str, range(30)), "has 30; choose another")],
)
def test_a_column_that_is_no_class(values, message):
    with pytest.raises(UploadRefused, match=message):
        read_csv(lines(*(f"1,{value}" for value in values), header="x,class")).dataset()
    with pytest.raises(UploadRefused, match="no finite number"):
        read_csv(lines(*(f"1,{v}" for v in ["1"] * 9 + ["nan"]), header="x,class")).dataset()


@given(content=st.binary(max_size=400))
@settings(max_examples=200)
def test_any_bytes_are_read_or_refused(content):
    try:
        table = read_csv(content)
        table.dataset()
    except UploadRefused as refusal:
        assert str(refusal)


@given(
    cells=st.lists(st.lists(st.text(max_size=6), min_size=3, max_size=3), max_size=8),
    names=st.lists(st.text(min_size=1, max_size=5), min_size=3, max_size=3),
)
@settings(max_examples=40)
def test_any_text_is_read_as_written_or_refused(cells, names):
    stream = io.StringIO()
    csv.writer(stream).writerows([names, *cells])
    try:
        table = read_csv(stream.getvalue().encode("utf-8", errors="replace"))
    except UploadRefused:
        return
    assert all(len(record) == len(table.columns) for record in table.records)
    try:
        table.dataset()
    except UploadRefused as refusal:
        assert str(refusal)


_WATCHED = """
import os, sys, tempfile
from explorer.pages.fit.computation import run_fit
from explorer.pages.fit.state import FitState
from explorer.uploads import read_csv
from explorer.compute.job import pack

content = sys.stdin.buffer.read()
state = FitState(draws=2)
run_fit(**state.arguments())  # whatever the libraries load late is loaded now
writing = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_TRUNC
changes = {"os.mkdir", "os.rename", "os.link", "os.symlink", "os.truncate", "shutil.copyfile"}
seen = []

def watch(event, arguments):
    if event == "open":
        path, mode, flags = arguments
        if (flags or 0) & writing or set(mode or "") & set("wax+"):
            seen.append(f"{event} {path}")
    elif event in changes or event.startswith("tempfile."):
        seen.append(f"{event} {arguments}")

sys.addaudithook(watch)
state.upload = read_csv(content, name="pay.csv")
work = pack(run_fit, state.arguments())  # as it goes to a worker process
assert len(run_fit(**state.arguments()).draws) == 2 and b"yes" in work
state.script(), state.tables()
print(seen)
with tempfile.TemporaryFile():
    print(len(seen) > 0)
"""


def test_no_file_is_written_by_reading_and_fitting():
    run = subprocess.run([sys.executable, "-c", _WATCHED], input=GOOD, capture_output=True, check=False)
    assert run.stdout.decode().split("\n")[:2] == ["[]", "True"], run.stderr.decode()
