"""The table of results, one line of CSV for each cell, appended when it is done, and a record of how it was computed.

An interrupted run leaves complete lines and possibly a truncated last one, which is removed. A finished file is sorted
by cell and contains no time or place, so the same cells give the same bytes; those are in a JSON file beside it.
"""

import csv
import io
import json
import os
import platform
from collections.abc import Iterable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import joblib
import pandas as pd

SHIPPED = Path(__file__).parent / "results" / "paper.csv"
_PUBLISHED = SHIPPED.with_name("published.csv")
COORDINATES = ("dataset", "method", "epsilon", "delta", "trial", "split", "seed")
OUTCOMES = (
    "learning_rate",
    "accuracy",
    "noise_std",
    "noise_multiplier",
    "l2_reg",
    "n_gradient_evaluations",
    "error",
)
COLUMNS = COORDINATES + OUTCOMES
_LIBRARIES = ("numpy", "scipy", "scikit-learn", "pandas", "joblib")


def load_results(path: str | Path = SHIPPED) -> pd.DataFrame:
    """The table of the study as a DataFrame, one row for each cell.

    Parameters
    ----------
    path : of a table written by `python -m explorer.study --output`; by default, the table that comes with the package

    Returns
    -------
    DataFrame with the columns

    - dataset, method: str, names in `explorer.datasets.DATASETS` and `explorer.study.METHODS`
    - epsilon, delta: float, nats and probability; infinity and NaN where the method is not private
    - trial, split: int; split is the seed of `explorer.datasets.load(..., split_seed=)`
    - seed: int, of all other randomness of the cell
    - learning_rate: float, of the fit or of the selected fit; NaN where there is none
    - accuracy: float in 0..1 on the test records; NaN where the cell failed
    - noise_std, l2_reg: float, sigma and lambda; of output perturbation, the noise of a released coefficient
    - noise_multiplier: float, of each step of DP-SGD
    - n_gradient_evaluations: of single records; NaN for selections, since their number of fits is secret
    - error: str, empty if there was none

    Raises
    ------
    FileNotFoundError if there is no such table.
    """
    path = Path(path)
    if not path.exists():
        raise FileNotFoundError(f"no table of results at {path}: python -m explorer.study --output {path} makes one")
    return _frame(_whole_lines(path))


def load_published() -> pd.DataFrame:
    """Accuracies reported in the paper: a DataFrame with columns dataset, method, epsilon, accuracy; delta = 1e-5.

    References: Redberg, Koskela & Wang 2023, Section 5.
    """
    return pd.read_csv(_PUBLISHED)


def load_provenance(path: str | Path = SHIPPED) -> dict:
    """How the table at `path` was computed, a dict: "machine" with its cores and memory, "libraries" with their
    versions, "sessions" with date, command, number of jobs and cells, and seconds of each run that added cells."""
    return json.loads(Path(path).with_suffix(".json").read_text())


def done_seeds(path: str | Path) -> set[int]:
    """Seeds of the cells in the table at `path` that did not fail; empty if there is no table."""
    if not Path(path).exists():
        return set()
    return {int(row["seed"]) for row in csv.DictReader(io.StringIO(_whole_lines(path))) if not row["error"]}


class ResultsFile:
    """A table being written: `append` each cell, then `finish`.

    Parameters
    ----------
    path : path of the CSV file; it is created if necessary, and a truncated last line is removed
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        lines = _whole_lines(self.path) if self.path.exists() else ""
        header = _line(COLUMNS)
        if lines and not lines.startswith(header):
            raise ValueError(f"output must be a table of the study or a new file: got output={str(self.path)!r}")
        self.path.write_text(lines or header, encoding="utf-8", newline="")

    def append(self, cell: Any, outcome: dict) -> None:
        """Append the line of a cell to the file."""
        with self.path.open("a", encoding="utf-8", newline="") as file:
            file.write(row_of(cell, outcome))

    def finish(self) -> None:
        """Sort the file by cell, keeping the last line of each; the file is replaced atomically."""
        rows = list(csv.DictReader(io.StringIO(_whole_lines(self.path))))
        latest = {row["seed"]: row for row in rows}.values()
        text = _line(COLUMNS) + "".join(_line(row[name] for name in COLUMNS) for row in sorted(latest, key=_place))
        if text != self.path.read_text(encoding="utf-8"):
            temporary = self.path.with_suffix(".partial")
            temporary.write_text(text, encoding="utf-8", newline="")
            temporary.replace(self.path)


def frame_of(pairs: Iterable[tuple[Any, dict]]) -> pd.DataFrame:
    """The table of pairs of a cell and its dict of outcomes, as `load_results` reads it from a file."""
    return _frame(_line(COLUMNS) + "".join(row_of(cell, outcome) for cell, outcome in pairs))


def row_of(cell: Any, outcome: dict) -> str:
    """The line of CSV for a cell and its dict of outcomes, with floats to ten digits."""
    values = {name: getattr(cell, name) for name in (*COORDINATES, "learning_rate")} | outcome
    return _line(_text(values.get(name)) for name in COLUMNS)


def add_session(path: str | Path, session: dict) -> None:
    """Add a run to the JSON file beside the table at `path`; the machine is that of the last run."""
    notes = Path(path).with_suffix(".json")
    sessions = json.loads(notes.read_text())["sessions"] if notes.exists() else []
    content = {"machine": machine(), "libraries": libraries(), "sessions": [*sessions, session]}
    notes.write_text(json.dumps(content, indent=1) + "\n")


def machine() -> dict:
    """System, processor type, cores and memory in gigabytes of this computer."""
    try:
        memory = round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1)
    except (AttributeError, ValueError, OSError):  # no sysconf on Windows
        memory = None
    return {
        "system": platform.system(),
        "processor": platform.machine(),
        "cores": joblib.cpu_count(),
        "memory_gb": memory,
    }


def libraries() -> dict[str, str]:
    """Versions of Python and of the libraries that the results depend on."""
    return {"python": platform.python_version(), **{name: version(name) for name in _LIBRARIES}}


def _frame(text):
    frame = pd.read_csv(io.StringIO(text), dtype={"error": str})
    return frame.assign(error=frame["error"].fillna("")).drop_duplicates("seed", keep="last", ignore_index=True)


def _whole_lines(path):
    text = Path(path).read_bytes().decode("utf-8", errors="replace")
    return text[: text.rfind("\n") + 1]


def _line(values):
    buffer = io.StringIO()
    csv.writer(buffer, lineterminator="\n").writerow(values)
    return buffer.getvalue()


def _text(value):
    if value is None or value != value:
        return ""
    return f"{value:.10g}" if isinstance(value, float) else " ".join(str(value).split())


def _place(row):
    numbers = (float(row[name] or 0) for name in ("epsilon", "delta", "trial", "learning_rate"))
    return row["dataset"], row["method"], *numbers
