"""The documentation builds without a warning, loads nothing from outside, its links lead somewhere, its code runs."""

import contextlib
import io
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urldefrag

import docstrings
import pytest

import explorer.accounting
import explorer.learning
import explorer.study

DOCS = Path(__file__).parents[1] / "docs"
PAGES = sorted(path for path in DOCS.rglob("*.md") if not path.name.startswith("_") and "course" not in path.parts)
LOADED = {"script": "src", "img": "src", "iframe": "src", "source": "src", "object": "data", "embed": "src"}


class Page(HTMLParser):
    """What an HTML file links to, loads, and can be linked to at."""

    def __init__(self, text):
        super().__init__()
        self.anchors, self.links, self.loads = set(), [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        attributes = dict(attrs)
        self.anchors.update(attributes[key] for key in ("id", "name") if attributes.get(key))
        if tag == "a" and attributes.get("href"):
            self.links.append(attributes["href"])
        elif tag == "link" and "canonical" not in attributes.get("rel", ""):
            self.loads.append(attributes.get("href", ""))
        elif attributes.get(LOADED.get(tag, "")):
            self.loads.append(attributes[LOADED[tag]])


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The built site: every HTML file by its path."""
    output = tmp_path_factory.mktemp("docs")
    command = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-b", "html", DOCS, output]
    built = subprocess.run(command, capture_output=True, text=True, cwd=DOCS.parent)
    assert built.returncode == 0, built.stderr
    return {
        path: Page(path.read_text(encoding="utf-8")) for path in output.rglob("*.html") if "_static" not in path.parts
    }


def test_there_is_a_page_for_each_source_and_each_notebook(site):
    names = {path.stem for path in site}
    assert {path.stem for path in PAGES} <= names
    assert {path.stem for path in (DOCS.parent / "notebooks").glob("*.ipynb")} <= names


def test_links_inside_lead_to_a_page_and_a_place_on_it(site):
    checked = 0
    for path, page in site.items():
        for link in page.links:
            if re.match(r"[a-z]+:", link):
                continue
            address, anchor = urldefrag(link)
            target = (path.parent / unquote(address)).resolve() if address else path
            if target.is_dir():
                target /= "index.html"
            assert target.exists(), f"{path.name}: {link}"
            if anchor and target in site:
                assert unquote(anchor) in site[target].anchors, f"{path.name}: {link}"
            checked += 1
    assert checked > 1000


def test_nothing_is_loaded_from_another_host(site):
    output = next(path for path in site if path.name == "index.html" and (path.parent / "_static").exists()).parent
    for path, page in site.items():
        for address in page.loads:
            assert not re.match(r"[a-z]+:|//", address) or address.startswith("data:"), f"{path.name}: {address}"
    styles = [path for path in (output / "_static").rglob("*.css") if "mathjax" not in path.parts]
    assert styles
    for path in styles:
        for address in re.findall(r"(?:url\(|@import\s+)['\"]?([^'\")\s]+)", path.read_text(encoding="utf-8")):
            assert not re.match(r"https?:|//", address), f"{path.name}: {address}"


def test_formulas_are_set_by_a_mathjax_beside_the_pages(site):
    (refined,) = (path for path in site if path.parts[-2:] == ("mathematics", "refined.html"))
    (script,) = (address for address in site[refined].loads if "MathJax.js" in address)
    script = refined.parent / script.partition("?")[0]
    assert script.is_file()
    assert (script.parent / "config" / "TeX-AMS-MML_HTMLorMML-full.js").is_file()
    assert list((script.parent / "fonts").rglob("*.woff"))


@pytest.mark.parametrize("package", [explorer.accounting, explorer.learning, explorer.study], ids=lambda p: p.__name__)
def test_the_reference_has_every_public_name(package, site):
    anchors = set().union(*(page.anchors for path, page in site.items() if path.parent.name == "api"))
    constants = {name for name in package.__all__ if not callable(getattr(package, name))}
    assert {f"{package.__name__}.{name}" for name in set(package.__all__) - constants} <= anchors


@pytest.mark.parametrize(
    "path", [path for path in PAGES if "```python" in path.read_text(encoding="utf-8")], ids=lambda path: path.stem
)
def test_code_runs_as_it_stands(path, monkeypatch, tmp_path):
    """Blocks in order, as a reader would paste them; each printed number starts with what its comment shows.

    A fragment that is not meant to run is marked as `py`.
    """
    monkeypatch.chdir(tmp_path)
    scope = {"__name__": "__main__"}
    for block in re.findall(r"```python\n(.*?)```", path.read_text(encoding="utf-8"), flags=re.DOTALL):
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(block, str(path), "exec"), scope)
        sources = [line for line in block.splitlines() if line.startswith("print(")]
        for source, line in zip(sources, printed.getvalue().splitlines(), strict=False):
            if shown := re.search(r"# (-?[\d.]+?)\.\.\.", source):
                assert line.startswith(shown[1]), source
            elif shown := re.search(r"# (True|False|\S+)$", source):
                assert line == shown[1], source


def test_docstrings_show_what_they_say():
    """Bars, stars and underscores are no markup; an indented paragraph keeps its lines; doctests stay as they are."""
    plain = [
        "|x| of `coef_` times 2 * y_",
        "",
        "    a formula |x|",
        "    in two lines",
        "",
        "and on",
        "",
        ">>> a * b_",
        "3",
    ]
    assert docstrings.converted(plain) == [
        r"\|x\| of `coef_` times 2 \* y\_",
        "",
        ".. code-block:: text",
        "",
        "    a formula |x|",
        "    in two lines",
        "",
        "and on",
        "",
        ">>> a * b_",
        "3",
    ]
