"""A run of the study: repeatable, resumable, and not stopped by failing cells."""

import json

import numpy as np
import pandas as pd
import pytest

from explorer.study import Method, grid, load_provenance, load_results, run_cell, run_cells, run_study
from explorer.study.results import COLUMNS


def noisy(data, *, epsilon, delta, learning_rate, random_state):
    """The training labels' majority, and a number that shows the seed."""
    noise = np.random.default_rng(random_state).random()
    return {"accuracy": float(np.mean(data.y_test == 1)), "noise_std": noise, "l2_reg": 1 / epsilon}


def failing(data, *, epsilon, random_state, **others):
    if epsilon > 1:
        raise ArithmeticError("epsilon is\ntoo, large")
    return noisy(data, epsilon=epsilon, random_state=random_state, delta=None, learning_rate=None)


METHODS = {"noisy": Method(fit=noisy, label="Noisy"), "failing": Method(fit=failing, label="Failing")}


def silent(outcomes, total):
    return outcomes


def interrupting(after):
    def progress(outcomes, total):
        for count, outcome in enumerate(outcomes):
            if count == after:
                raise KeyboardInterrupt
            yield outcome

    return progress


def cells(*, dataset=("breast_cancer",), method=("noisy",), epsilon=(0.5, 1, 2), trials=3):
    return grid(dataset=dataset, method=method, epsilon=epsilon, trials=trials, methods=METHODS)


def run(cells, output, **options):
    return run_study(cells, output, **{"methods": METHODS, "jobs": 1, "progress": silent, **options})


@pytest.fixture
def output(tmp_path):
    return tmp_path / "folder" / "table.csv"


def test_the_table(output):
    table = run(cells(), output)
    assert tuple(table.columns) == COLUMNS
    assert len(table) == 9
    assert table["accuracy"].between(0, 1).all()
    assert table["noise_std"].is_unique
    assert (table["error"] == "").all()
    assert (table["split"] == table["trial"] % 5).all()
    assert load_results(output).equals(table)


def test_a_single_cell_reproduces_its_row(output):
    table = run(cells(), output).set_index("seed")
    for cell in cells():
        assert run_cell(cell, methods=METHODS)["noise_std"] == pytest.approx(table["noise_std"][cell.seed], rel=1e-9)


def test_a_few_cells_without_a_file_give_the_same_rows(output):
    some = cells(method=["noisy", "failing"], trials=1)
    table = run_cells(some, methods=METHODS)
    assert list(table["seed"]) == [cell.seed for cell in some]
    expected = run(some, output).set_index("seed").loc[table["seed"]].reset_index()[list(COLUMNS)]
    pd.testing.assert_frame_equal(table, expected)


def test_the_bytes_depend_on_no_order_and_no_number_of_processes(output, tmp_path):
    run(cells(), output)
    run(cells()[::-1], tmp_path / "reversed.csv")
    run(cells(), tmp_path / "parallel.csv", jobs=2)
    assert output.read_bytes() == (tmp_path / "reversed.csv").read_bytes() == (tmp_path / "parallel.csv").read_bytes()


def test_an_interrupted_run_goes_on(output, tmp_path):
    with pytest.raises(KeyboardInterrupt):
        run(cells(), output, progress=interrupting(4))
    assert len(load_results(output)) == 4
    counted = []
    run(cells(), output, progress=lambda outcomes, total: counted.append(total) or outcomes)
    assert counted == [5]
    run(cells(), tmp_path / "at_once.csv")
    assert output.read_bytes() == (tmp_path / "at_once.csv").read_bytes()
    assert [session["cells"] for session in load_provenance(output)["sessions"]] == [4, 5]


@pytest.mark.parametrize("torn", [1, 10, 40])
def test_a_torn_last_line_is_done_again(output, torn):
    run(cells(), output)
    whole = output.read_bytes()
    output.write_bytes(whole[:-torn])
    assert len(load_results(output)) == 8
    run(cells(), output)
    assert output.read_bytes() == whole


def test_a_torn_header_is_written_again(output):
    run(cells(), output)
    whole = output.read_bytes()
    output.write_bytes(whole[:10])
    run(cells(), output)
    assert output.read_bytes() == whole


def test_more_cells_join_the_table(output):
    run(cells(epsilon=[1]), output)
    assert len(run(cells(epsilon=[2]), output)) == 6


def test_nothing_left_to_do_changes_nothing(output):
    run(cells(), output)
    before = {path.name: path.read_bytes() for path in output.parent.iterdir()}
    run(cells(), output)
    assert {path.name: path.read_bytes() for path in output.parent.iterdir()} == before


def test_a_failing_cell_is_recorded_and_the_rest_goes_on(output):
    table = run(cells(method=["failing", "noisy"], trials=1), output)
    failed = table[table["error"] != ""]
    assert len(table) == 6
    assert list(failed["epsilon"]) == [2]
    assert list(failed["error"]) == ["ArithmeticError: epsilon is too, large"]
    assert failed["accuracy"].isna().all()


def test_failed_cells_are_tried_again(output):
    run(cells(method=["failing"], trials=1), output)
    mended = {"failing": Method(fit=noisy, label="Mended")}
    table = run(cells(method=["failing"], trials=1), output, methods=mended)
    assert len(table) == 3
    assert (table["error"] == "").all()


def test_data_that_cannot_be_had_fail_their_own_cells_only(output, tmp_path, monkeypatch):
    monkeypatch.setenv("EXPLORER_DATA_HOME", str(tmp_path))
    table = run(cells(dataset=["gisette", "breast_cancer"], epsilon=[1], trials=1), output)
    errors = table.set_index("dataset")["error"]
    assert errors["breast_cancer"] == ""
    assert "FileNotFoundError" in errors["gisette"]
    assert "gisette_train.data" in errors["gisette"]


def test_another_file_is_not_overwritten(tmp_path):
    path = tmp_path / "precious.csv"
    path.write_text("a,b\n1,2\n")
    with pytest.raises(ValueError, match="output must be a table of the study or a new file"):
        run(cells(), path)
    assert path.read_text() == "a,b\n1,2\n"


def test_provenance_is_written(output):
    run(cells(), output, command="python -m explorer.study --trials 3")
    notes = load_provenance(output)
    assert notes["machine"]["cores"] >= 1
    assert set(notes["libraries"]) >= {"python", "numpy", "scipy", "scikit-learn"}
    (session,) = notes["sessions"]
    assert session["command"] == "python -m explorer.study --trials 3"
    assert (session["cells"], session["jobs"]) == (9, 1)
    json.dumps(notes)


def test_a_missing_table_says_how_to_make_it(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"python -m explorer\.study --output"):
        load_results(tmp_path / "none.csv")


def test_a_dask_cluster_gives_the_same_table(output, tmp_path):
    distributed = pytest.importorskip("distributed")
    run(cells(), output)
    cluster = {"n_workers": 1, "threads_per_worker": 2, "processes": False, "dashboard_address": None}
    with distributed.LocalCluster(**cluster) as local, distributed.Client(local) as client:
        run(cells(), tmp_path / "dask.csv", client=client, jobs=-1)
    assert output.read_bytes() == (tmp_path / "dask.csv").read_bytes()
