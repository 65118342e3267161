"""What describes the package agrees: pyproject.toml, environment.yml, CITATION.cff, CHANGELOG.md and the version."""

import ast
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml  # comes with Bokeh

import explorer

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


def test_one_version():
    """explorer.__version__ is its only source; setuptools reads it without importing the package."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert "version" not in project["project"]
    assert project["tool"]["setuptools"]["dynamic"]["version"] == {"attr": "explorer.__version__"}
    assert re.fullmatch(r"\d+\.\d+\.\d+", explorer.__version__)
    assert yaml.safe_load((ROOT / "CITATION.cff").read_text())["version"] == explorer.__version__
    latest = re.search(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(), flags=re.MULTILINE)
    assert latest[1] == explorer.__version__


def test_the_version_is_known_without_an_installation():
    """In a browser's Python the package is a folder; and asking for the version loads nothing else of it."""
    code = (
        f"import sys; sys.path.insert(0, {str(ROOT)!r}); import explorer; print(explorer.__version__, "
        "[name for name in sys.modules if name.startswith('explorer.')])"
    )
    run = subprocess.run([sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout == f"{explorer.__version__} []\n"


def test_classifiers_agree_with_the_supported_pythons():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    minors = [int(m) for m in re.findall(r"Python :: 3\.(\d+)", "\n".join(project["classifiers"]))]
    assert minors == list(range(min(minors), max(minors) + 1))
    assert project["requires-python"] == f">=3.{min(minors)}"
    assert project["classifiers"] == sorted(project["classifiers"])


def test_citation():
    """The fields that the Citation File Format 1.2.0 requires, and the paper that the software implements."""
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert citation["cff-version"] == "1.2.0"
    assert citation["type"] == "software"
    assert {"message", "title", "authors"} <= set(citation)
    assert citation["license"] == tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["license"]
    (paper,) = citation["references"]
    assert {"type", "title", "authors"} <= set(paper)
    assert [author["family-names"] for author in paper["authors"]] == ["Redberg", "Koskela", "Wang"]
    assert paper["url"] in (ROOT / "README.md").read_text()


@pytest.mark.parametrize("path", [".ci/run", "Makefile"])
def test_scripts_name_no_folder_outside_the_repository(path):
    """But by the variable EXPLORER_DATA_HOME, which the caller sets."""
    lines = [line for line in (ROOT / path).read_text().splitlines() if "BASH_SOURCE" not in line and "$0" not in line]
    assert not [line for line in lines if "../" in line]
