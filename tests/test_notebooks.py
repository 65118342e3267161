"""Notebooks as they are stored: executed, without errors, small, and the same on every machine. nbval runs them."""

import re
from pathlib import Path

import nbformat
import pytest

NOTEBOOKS = sorted((Path(__file__).parents[1] / "notebooks").glob("*.ipynb"))
FORBIDDEN = {
    "a magic or shell escape": r"^\s*[%!]",
    "an absolute path": r"""["'](/[\w.-]+/|[A-Za-z]:\\\\)""",
    "a download": r"urlopen|urlretrieve|requests\.|fetch_openml|https?://",
}


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)
def test_stored_notebook(path):
    assert path.stat().st_size < 300_000
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in cells] == list(range(1, len(cells) + 1))
    for cell in cells:
        assert not [o for o in cell.outputs if o.output_type == "error" or o.get("name") == "stderr"]
        if "nbval-ignore-output" in cell.metadata.get("tags", []):
            assert cell.outputs == []
        for what, pattern in FORBIDDEN.items():
            assert not re.search(pattern, cell.source, flags=re.MULTILINE), f"{what} in: {cell.source}"
    assert any("assert " in cell.source for cell in cells)
    assert any("solution" in cell.metadata.get("tags", []) for cell in cells)


def test_there_is_a_first_notebook():
    assert NOTEBOOKS[0].name == "01_the_privacy_of_a_perturbed_objective.ipynb"
