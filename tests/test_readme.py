"""README's Python runs as it stands, and prints the numbers that its comments show."""

import contextlib
import io
import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
BLOCKS = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)


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


def test_every_make_target_exists():
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE))
    named = set(re.findall(r"(?:^    |`)make ([\w-]+)", README, flags=re.MULTILINE))
    assert {"app", "lab", "test", "bench"} <= named <= targets
