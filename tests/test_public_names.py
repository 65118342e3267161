"""The packages of the library show their public names, and nothing else."""

import importlib
import tomllib
from pathlib import Path

import pytest

import explorer

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize("package", ["accounting", "learning"])
def test_dir_lists_the_public_names(package):
    module = importlib.import_module(f"explorer.{package}")
    assert [name for name in dir(module) if not name.startswith("__")] == sorted(module.__all__)
    assert {"__all__", "__doc__", "__name__", "__path__"} <= set(dir(module))
    for name in module.__all__:
        assert type(getattr(module, name)).__name__ != "module", name


def test_annotations_ship_with_the_package():
    """Type checkers read those of an installed package only if it has a file py.typed."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert "py.typed" in project["tool"]["setuptools"]["package-data"]["explorer"]
    assert (Path(explorer.__file__).parent / "py.typed").is_file()
