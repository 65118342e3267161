"""The packages of the library show their public names, and nothing else."""

import importlib

import pytest


@pytest.mark.parametrize("package", ["accounting", "learning"])
def test_dir_lists_the_public_names(package):
    module = importlib.import_module(f"explorer.{package}")
    assert [name for name in dir(module) if not name.startswith("__")] == sorted(module.__all__)
    assert {"__all__", "__doc__", "__name__", "__path__"} <= set(dir(module))
    for name in module.__all__:
        assert type(getattr(module, name)).__name__ != "module", name
