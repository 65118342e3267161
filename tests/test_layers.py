"""Data flows one way, and a file's name says which way: no arrow points up, and below the views nothing draws."""

import ast
import subprocess
import sys
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "explorer"
LAYERS = [
    "validation",
    "vocabulary",
    "accounting",
    "learning",
    "datasets",
    "uploads",
    "study",
    "compute",
    "interface",
    "pages",
    "app",
    "hosting",
    "__main__",
]
FILES = {"computation": 0, "parameters": 0, "state": 1, "plots": 2, "upload": 2, "view": 3}  # of a page, lowest first
NOT_FROM_BELOW_THE_VIEWS = {"compute", "interface"}
DRAWING = {"panel", "panel_material_ui", "holoviews", "bokeh"}
MAY_DRAW = {"interface", "app", "hosting", "__main__"}


def imports(path):
    """Top-level names of everything `path` imports, with explorer.x kept as two parts."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


def parts_of(path):
    return path.relative_to(PACKAGE).with_suffix("").parts


def target(name):
    """The parts below explorer of the module that `name`, a dotted name of it or of something in it, names."""
    parts = name.split(".")[1:]
    while parts and not (PACKAGE.joinpath(*parts).is_dir() or PACKAGE.joinpath(*parts).with_suffix(".py").is_file()):
        parts.pop()
    return parts


@pytest.mark.parametrize("path", sorted(PACKAGE.rglob("*.py")), ids=lambda p: str(p.relative_to(PACKAGE)))
def test_no_arrow_points_up(path):
    layer, *_, file = parts_of(path) if len(parts_of(path)) > 1 else (*parts_of(path), "")
    if layer == "__init__":
        assert not [name for name in imports(path) if name.startswith("explorer")]
        return
    below_views = layer == "pages" and file in ("computation", "state", "parameters", "__init__")
    for name in imports(path):
        root = name.split(".")[0]
        if root in DRAWING:
            assert layer in MAY_DRAW or (layer == "pages" and not below_views), f"{path} imports {root}"
        if root != "explorer":
            continue
        to = target(name)
        assert to, f"{path} imports {name}, which is not there"
        assert LAYERS.index(to[0]) <= LAYERS.index(layer), f"{path} imports {name}"
        if below_views:
            assert to[0] not in NOT_FROM_BELOW_THE_VIEWS, f"{path} imports {name}"
        if layer == to[0] == "pages" and to[-1] in FILES:
            assert FILES[to[-1]] <= FILES[file], f"{path} imports {name}"
            assert file != "computation" or to[-1] != "state", f"{path} imports {name}"


@pytest.mark.parametrize("layer", ["accounting", "learning", "study", "compute", "interface"])
def test_what_is_below_the_pages_does_not_name_them(layer):
    """Not as text either, which a tool that follows imports would not see."""
    for path in (PACKAGE / layer).rglob("*.py"):
        assert "explorer.pages" not in path.read_text(), path


def modules_without_panel():
    below = ["accounting", "learning", "datasets", "uploads", "study", "compute", "pages"]
    files = [p for file in ("computation", "state") for p in sorted((PACKAGE / "pages").rglob(f"{file}.py"))]
    return below + [".".join(parts_of(p)) for p in files]


def test_no_layer_below_the_views_loads_panel():
    """All in one process: whoever loads it is named."""
    code = f"""
import importlib, sys
for name in {modules_without_panel()!r}:
    importlib.import_module("explorer." + name)
    loaded = sorted({DRAWING!r} & set(sys.modules))
    assert not loaded, f"explorer.{{name}} loads {{loaded}}"
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_learning_is_imported_without_dask():
    code = "import sys, explorer.learning; print(sorted({'dask', 'distributed'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_the_command_limits_threads_before_numpy_is_loaded():
    """OpenBLAS reads how many threads it may have when it is loaded, and at no other time."""
    code = "import sys, explorer.__main__; sys.exit('numpy' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)


def module_graph():
    """For each module of the package the modules it imports, at the top, in functions or for a type checker.

    A package is its `__init__.py`. Importing a module also runs the `__init__.py` of its packages; that is not counted,
    since a package may list what is in it.
    """
    modules = {
        ".".join(("explorer", *parts_of(path))).removesuffix(".__init__"): path for path in PACKAGE.rglob("*.py")
    }

    def module(name):
        while name and name not in modules:
            name = name.rpartition(".")[0]
        return name

    return {name: {module(imported) for imported in imports(path)} - {name, ""} for name, path in modules.items()}


def test_no_cycle_of_imports():
    graph = module_graph()
    assert "explorer.learning.records.dask_records" in graph["explorer.learning.records.sources"]  # within a function
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail("import cycle: " + " imports ".join(reversed(error.args[1])))
