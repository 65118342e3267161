"""README's code runs and prints the numbers that its comments show; links in the top-level documents lead somewhere."""

import contextlib
import io
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "notebooks").glob("*.md")])
MAKE_TARGETS = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), flags=re.MULTILINE))


def test_python_blocks_in_order():
    """One after the other, as a reader would paste them; each printed number starts with what its comment shows."""
    scope = {}
    for block in BLOCKS:
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(block, scope)
        prints = [line for line in block.splitlines() if line.startswith("print(")]
        for source, line in zip(prints, printed.getvalue().splitlines(), strict=False):
            if shown := re.search(r"# (-?[\d.]+?)\.\.\.", source):
                assert line.startswith(shown[1]), source


def test_there_are_blocks_with_numbers():
    assert len(BLOCKS) >= 4
    assert len(re.findall(r"# -?\d", "".join(BLOCKS))) >= 6


def test_readme_is_short():
    assert len(README.splitlines()) <= 130


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_make_target_exists(path):
    named = set(re.findall(r"(?:^    |`)make ([\w-]+)", path.read_text(encoding="utf-8"), flags=re.MULTILINE))
    assert named <= MAKE_TARGETS
    if path.name == "README.md" and path.parent == ROOT:
        assert {"app", "lab", "test", "bench"} <= named


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_somewhere(path):
    """Relative links name files or folders of the repository; the only hosts are those of papers."""
    text = re.sub(r"```.*?```", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)
    for link in re.findall(r"\]\(([^)\s]+)\)", text):
        if link.startswith("https://"):
            assert link.startswith("https://arxiv.org/abs/"), link
        else:
            assert (path.parent / link.partition("#")[0]).exists(), link


def test_the_commands_of_contributing_name_tests_that_exist():
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    named = re.findall(r"-m pytest [^#\n]*?((?:tests|notebooks)/\S+)", text)
    assert len(named) >= 5
    for pattern in named:
        assert list(ROOT.glob(pattern)), pattern
