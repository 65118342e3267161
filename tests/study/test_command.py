"""The command python -m explorer.study."""

import subprocess
import sys

import pytest

from explorer.study import METHODS, load_provenance, load_results
from explorer.study.__main__ import main

SMALL = ["--dataset", "synthetic_l", "--epsilon", "1", "--trials", "1", "--method", "amp_rdp", "non_private"]


def test_help_in_a_fresh_interpreter():
    command = [sys.executable, "-m", "explorer.study", "--help"]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    for option in ("--dataset", "--method", "--epsilon", "--trials", "--learning-rate", "--output", "--jobs", "--dask"):
        assert option in text
    assert all(name in text for name in METHODS)


def test_a_small_run_and_its_table(tmp_path, capsys):
    output = str(tmp_path / "small.csv")
    assert main([*SMALL, "--output", output, "--jobs", "1"]) == 0
    printed = capsys.readouterr().out
    assert "synthetic_l: mean test accuracy in percent" in printed
    assert "2 cells" in printed
    table = load_results(output).set_index("method")
    assert 0.9 < table["accuracy"]["amp_rdp"] < 1
    assert 0.93 < table["accuracy"]["non_private"] < 1
    (session,) = load_provenance(output)["sessions"]
    assert session["command"].startswith("python -m explorer.study --dataset synthetic_l --epsilon 1")


def test_failures_are_counted_and_shown(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("EXPLORER_DATA_HOME", str(tmp_path))
    options = ["--dataset", "gisette", "--method", "non_private", "--trials", "2", "--jobs", "1"]
    assert main([*options, "--output", str(tmp_path / "failed.csv")]) == 1
    printed = capsys.readouterr().out
    assert "2 failed" in printed
    assert "2 x FileNotFoundError" in printed


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--dataset", "iris"], "dataset must be one of breast_cancer"),
        (["--method", "sgd"], "method must be one of amp_rdp"),
        (["--epsilon", "-1"], "epsilon must be"),
        (["--trials", "0"], "trials must be an integer >= 1"),
    ],
)
def test_bad_options_say_what_is_accepted(options, message, capsys):
    with pytest.raises(SystemExit) as stop:
        main(options)
    assert stop.value.code == 2
    assert message in capsys.readouterr().err


def test_interrupted(tmp_path, capsys, monkeypatch):
    def interrupt(*arguments, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr("explorer.study.__main__.run_study", interrupt)
    assert main([*SMALL, "--output", str(tmp_path / "table.csv")]) == 130
    assert "run the same command again" in capsys.readouterr().err
