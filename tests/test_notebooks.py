"""The course as it is stored, in copies for students and on slides. That it computes what it shows, nbval sees to."""

import ast
import builtins
import importlib
import re
from pathlib import Path

import course
import nbformat
import pytest

ROOT = Path(__file__).parents[1]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
ORDER = (
    "the privacy of a perturbed objective",
    "the privacy loss",
    "from Kifer to the hockey-stick bound",
    "Rényi and the half-normal gap",
    "dominating pairs and composition",
    "Algorithm 1",
    "solvers and n log n",
    "DP-SGD, honest and dishonest tuning",
    "the paper's experiments",
    "the GLM bug",
    "beyond the paper",
)
FORBIDDEN = {
    "a magic or shell escape": r"^\s*[%!]",
    "an absolute path": r"""["'](/[\w.-]+/|[A-Za-z]:\\\\)""",
    "a download": r"urlopen|urlretrieve|requests\.|fetch_openml|https?://",
}
VOLATILE = {
    "a number that was not rounded": r"\d\.\d{8,}",
    "an address in memory": r"0x[0-9a-f]{8,}",
    "a path": r"(?<![\w.])/(?:home|root|tmp|usr|work|Users)/",
}

tags = course.tags
each_notebook = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)


def read(path):
    return nbformat.read(path, as_version=4)


def code_cells(notebook):
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def sections(notebook):
    """Heading of the second level -> its cells; what stands before the first one is under ""."""
    found, heading = {"": []}, ""
    for cell in notebook.cells:
        if cell.cell_type == "markdown" and (match := re.match(r"## (.+)", cell.source)):
            heading = match[1]
            assert heading not in found, f"two sections are called {heading}"
            found[heading] = []
        found[heading].append(cell)
    return found


def title(path):
    """Number and title of a notebook's first line."""
    return re.match(r"# (\d\d) · (.+)\n", read(path).cells[0].source).groups()


def test_order_and_titles():
    """Each notebook has its own number, is named after its title, and has its row in the README beside it."""
    titles = [title(path) for path in NOTEBOOKS]
    assert [number for number, _ in titles] == [f"{number:02}" for number in range(1, len(ORDER) + 1)]
    for path, (number, name) in zip(NOTEBOOKS, titles, strict=True):
        assert name.lower().startswith(ORDER[int(number) - 1].lower()), name
        plain = name.lower().replace("é", "e").replace("'", "").replace("’", "")
        assert path.stem == f"{number}_" + re.sub(r"[^a-z0-9]+", "_", plain).strip("_")
    rows = re.findall(
        r"^\| (\d\d) (.+?) \| (.+) \|$", (ROOT / "notebooks" / "README.md").read_text(), flags=re.MULTILINE
    )
    assert [row[:2] for row in rows] == [(number, name[0].upper() + name[1:]) for number, name in titles]


@each_notebook
def test_stored_run(path):
    """Executed from top to bottom, without errors, small, and the same on every machine."""
    assert path.stat().st_size < 300_000
    notebook = read(path)
    nbformat.validate(notebook)
    cells = code_cells(notebook)
    assert [cell.execution_count for cell in cells] == list(range(1, len(cells) + 1))
    for cell in cells:
        assert not [o for o in cell.outputs if o.output_type == "error" or o.get("name") == "stderr"]
        assert all(len(line) <= 120 for line in cell.source.splitlines()), "wider than a slide"
        for what, pattern in FORBIDDEN.items():
            assert not re.search(pattern, cell.source, flags=re.MULTILINE), f"{what} in: {cell.source}"
        for what, pattern in VOLATILE.items():
            assert not re.search(pattern, str(cell.outputs)), f"{what} shown by: {cell.source}"
    stored = nbformat.writes(notebook)
    course.normalise(notebook)
    assert nbformat.writes(notebook) == stored, "make notebooks has not been run"


@each_notebook
def test_imports_exist(path):
    """What a cell imports from the package is there: seconds to find out, where running all notebooks takes minutes."""
    for cell in code_cells(read(path)):
        tree = ast.parse(cell.source)
        for node in [n for n in tree.body if isinstance(n, ast.ImportFrom) and n.module.startswith("explorer")]:
            module = importlib.import_module(node.module)
            for alias in node.names:
                if not hasattr(module, alias.name):
                    importlib.import_module(f"{node.module}.{alias.name}")


@each_notebook
def test_what_a_lecture_needs(path):
    notebook = read(path)
    opening = notebook.cells[0].source
    assert "After this notebook you can" in opening
    assert 2 <= len(re.findall(r"^- ", opening, flags=re.MULTILINE)) <= 5
    parts = sections(notebook)
    taught = {name: cells for name, cells in parts.items() if name and not name.startswith("Exercise")}
    assert list(parts)[-2:] == ["Recap", "References"]
    assert len(re.findall(r"^- .*\d{4}\.$|\d{4}\.$", parts["References"][0].source, flags=re.MULTILINE)) >= 2
    assert len(taught) >= 6  # four ideas at least, beside recap and references
    prose = " ".join(cell.source for cell in notebook.cells if cell.cell_type == "markdown")
    assert 600 <= len(prose.split()) <= 4000  # with what is computed between, 20 to 40 minutes
    for name, cells in taught.items():
        computed = [cell for cell in cells if cell.cell_type == "code" and not {"setup", "view"} & set(tags(cell))]
        assert not computed or any("assert " in cell.source for cell in computed), f"nothing is claimed in {name}"
    (setup,) = (cell for cell in notebook.cells if "setup" in tags(cell))
    assert 'pn.extension("mathjax", inline=True)' in setup.source
    views = [cell for cell in notebook.cells if "view" in tags(cell)]
    assert views and all(re.search(r"^view = .*\nview$", cell.source, flags=re.MULTILINE) for cell in views)
    assert all("nbval-ignore-output" in tags(cell) for cell in [setup, *views])


@each_notebook
def test_every_cell_knows_its_slide(path):
    notebook = read(path)
    kinds = [cell.metadata["slideshow"]["slide_type"] for cell in notebook.cells]
    assert set(kinds) <= {"slide", "subslide", "fragment", "skip", "notes", "-"}
    assert kinds[0] == "slide"
    headed = [k for cell, k in zip(notebook.cells, kinds, strict=True) if cell.source.startswith("## ")]
    assert set(headed) == {"slide"}


def assigned(source):
    """Names that a cell binds at its top level."""
    names = set()
    for node in ast.parse(source).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            names |= {alias.asname or alias.name for alias in node.names}
        else:
            names |= {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    return names


def used(source):
    return {node.id for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Name)}


@each_notebook
def test_exercises_check_themselves(path):
    """Each has a question, a solution, and a check that fails without it; the copy keeps question and check."""
    notebook = read(path)
    copy = course.exercise_copy(notebook)
    exercises = {name: cells for name, cells in sections(notebook).items() if name.startswith("Exercise")}
    assert [name[:10] for name in exercises] == [f"Exercise {k + 1}" for k in range(len(exercises))]
    assert 2 <= len(exercises) <= 3
    for name, cells in exercises.items():
        solved = [cell for cell in cells if "solution" in tags(cell) and cell.cell_type == "code"]
        (check,) = (cell for cell in cells if "check" in tags(cell))
        assert solved and "assert " in check.source, name
        assert cells.index(solved[-1]) < cells.index(check)
        asked = set()
        for cell in solved:
            question = course.question(cell.source)
            named = set(re.findall(r"`(\w+)", question))
            assert named and named <= assigned(cell.source), f"{name} does not say what to define: {question!r}"
            asked |= named
        before = notebook.cells[: notebook.cells.index(solved[0])]
        known = set().union(*(assigned(cell.source) for cell in before if cell.cell_type == "code"))
        assert asked <= used(check.source) - known, f"{name} can be passed without an answer"
        # what the check needs beyond the answer does not stand in the solution, which a student does not have
        given = known | assigned(check.source) | asked | set(dir(builtins))
        local = {a.arg for n in ast.walk(ast.parse(check.source)) if isinstance(n, ast.arguments) for a in n.args}
        assert used(check.source) <= given | local | inner(check.source), f"{name}'s check leans on its solution"
    for cell, original in zip(copy.cells, notebook.cells, strict=True):
        if "solution" in tags(original):
            left = course.question(original.source) if cell.cell_type == "code" else "*Your answer:*"
            assert cell.source.strip() == left and len(left) < len(original.source)
            assert tags(cell) == ["answer"]
        else:
            assert cell.source == original.source
        assert cell.cell_type == "markdown" or (cell.outputs, cell.execution_count) == ([], None)


def inner(source):
    """Names bound anywhere inside, such as in functions and comprehensions."""
    return {n.id for n in ast.walk(ast.parse(source)) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}


def test_copies_are_written_once(tmp_path, capsys):
    course.main(["exercises", "--output", str(tmp_path)])
    assert sorted(path.name for path in tmp_path.iterdir()) == [path.name for path in NOTEBOOKS]
    mine = tmp_path / NOTEBOOKS[0].name
    mine.write_text("my answers")
    capsys.readouterr()
    course.main(["exercises", "01", "--output", str(tmp_path)])
    assert mine.read_text() == "my answers"
    assert "kept" in capsys.readouterr().out


def test_unknown_notebook_is_named():
    with pytest.raises(SystemExit, match="99"):
        course.main(["exercises", "99"])
