"""environment.yml and pyproject.toml name the same packages with the same bounds."""

import ast
import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]


def requirement(text):
    name, bound = re.fullmatch(r"([A-Za-z0-9_.-]+)(?:\[\w+\])?(>=[\w.]+)", text.strip()).groups()
    return name.lower().replace("_", "-"), bound


def test_conda_and_pip_agree():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    required = project["dependencies"] + [r for name in ("lab", "notebooks", "test", "cluster") for r in extras[name]]
    declared = {requirement(r) for r in required}
    declared.add(("python", project["requires-python"]))
    entries = re.findall(r"^ +- (.+)$", (ROOT / "environment.yml").read_text(), flags=re.MULTILINE)
    listed = [entry for entry in entries if ">=" in entry]
    assert set(entries) - set(listed) == {"conda-forge", "pip", "pip:"}  # nothing without a lower bound
    assert {requirement(entry) for entry in listed} == declared


def test_every_import_is_declared():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    optional = project["optional-dependencies"]["cluster"]  # test_layers sees to it that the base does without
    declared = {requirement(r)[0] for r in project["dependencies"] + optional}
    distributions = {"sklearn": "scikit-learn", "panel_material_ui": "panel-material-ui"}
    imported = set()
    for path in (ROOT / "explorer").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom):
                imported.add(node.module.split(".")[0])
            elif isinstance(node, ast.Import):
                imported |= {alias.name.split(".")[0] for alias in node.names}
    third_party = {distributions.get(n, n) for n in imported - set(sys.stdlib_module_names) - {"explorer"}}
    assert third_party <= declared


def test_what_bokeh_imports_only_when_it_draws_is_declared():
    """Contours need contourpy, which Bokeh has had in an extra since 3.10; no import here names it."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    declared = {requirement(r)[0] for r in project["dependencies"]}
    used = [path for path in (ROOT / "explorer").rglob("*.py") if ".contour(" in path.read_text()]
    assert used
    assert "contourpy" in declared
