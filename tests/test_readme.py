"""README's Python runs as it stands, and prints the numbers that its comments show."""

import contextlib
import io
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
BLOCKS = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)


@pytest.mark.parametrize("block", BLOCKS, ids=lambda b: b.strip().splitlines()[0][:60])
def test_python_block(block):
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(block, {})
    shown = re.findall(r"print\(.*# (-?[\d.]+?)\.\.\.", block)
    for number, line in zip(shown, printed.getvalue().splitlines(), strict=False):
        assert line.startswith(number)


def test_there_are_blocks_with_numbers():
    assert len(BLOCKS) >= 2
    assert len(re.findall(r"# -?\d", "".join(BLOCKS))) >= 3


def test_every_make_target_exists():
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE))
    named = set(re.findall(r"(?:^    |`)make (\w+)", README, flags=re.MULTILINE))
    assert {"app", "lab", "test", "bench"} <= named <= targets


def test_every_notebook_is_in_the_table():
    for path in (ROOT / "notebooks").glob("*.ipynb"):
        title = re.search(r'"# (\d\d) · ([^"\\]+)', path.read_text()).groups()
        assert f"| {title[0]} {title[1][0].upper()}{title[1][1:]} |" in README
