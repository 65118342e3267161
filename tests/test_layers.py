"""Data flows one way: accounting and learning, then study, state, views, app. No arrow points up."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "explorer"
LAYERS = [
    "validation",
    "accounting",
    "learning",
    "datasets",
    "uploads",
    "study",
    "state",
    "workers",
    "views",
    "app",
    "hosting",
    "__main__",
]
ALSO_FORBIDDEN = {("state", "workers")}  # only views hand long work to the pool
DRAWING = {"panel", "panel_material_ui", "holoviews", "bokeh"}
MAY_DRAW = {"views", "app", "hosting", "__main__"}


def imports(path):
    """Top-level names of everything `path` imports, with explorer.x kept as two parts."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


def layer_of(path):
    return path.relative_to(PACKAGE).with_suffix("").parts[0]


@pytest.mark.parametrize("path", sorted(PACKAGE.rglob("*.py")), ids=lambda p: str(p.relative_to(PACKAGE)))
def test_no_arrow_points_up(path):
    layer = layer_of(path)
    if layer == "__init__":
        assert not list(imports(path))
        return
    for name in imports(path):
        root, *rest = name.split(".")
        if root == "explorer":
            target = rest[0]
            assert LAYERS.index(target) <= LAYERS.index(layer), f"{layer} imports {name}"
            assert (layer, target) not in ALSO_FORBIDDEN, f"{layer} imports {name}"
        if root in DRAWING:
            assert layer in MAY_DRAW, f"{layer} imports {root}"


@pytest.mark.parametrize(
    "package",
    [
        name
        for name in ("accounting", "learning", "datasets", "uploads", "study", "state", "workers")
        if (PACKAGE / name).exists() or (PACKAGE / f"{name}.py").exists()
    ],
)
def test_lower_layers_run_without_panel(package):
    code = f"import sys, explorer.{package}; print(sorted({DRAWING!r} & set(sys.modules)))"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert loaded.strip() == "[]"


def test_learning_is_imported_without_dask():
    code = "import sys, explorer.learning; print(sorted({'dask', 'distributed'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_the_command_limits_threads_before_numpy_is_loaded():
    """OpenBLAS reads how many threads it may have when it is loaded, and at no other time."""
    code = "import sys, explorer.__main__; sys.exit('numpy' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)
