"""Every work that a docstring cites by author and year has an entry in docs/references.md."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CITING = [*ROOT.glob("explorer/learning/**/*.py"), *ROOT.glob("explorer/study/*.py"), ROOT / "explorer/datasets.py"]
NAME = r"[A-ZÀ-Ž][\w-]*(?: Roux)?"
CITATION = re.compile(rf"((?:{NAME}, )*{NAME} & {NAME}|{NAME} et al\.|{NAME}),? \(?((?:19|20)\d\d)\b")


def citations():
    for path in CITING:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)):
                text = " ".join((ast.get_docstring(node) or "").split())
                yield from (f"{match[1]} {match[2]}" for match in CITATION.finditer(text))


CITED = sorted(set(citations()))


def test_citations_are_found():
    assert {"Redberg, Koskela & Wang 2023", "Schmidt, Le Roux & Bach 2017", "Jin et al. 2022", "Huber 1964"} <= set(
        CITED
    )
    assert len(CITED) > 30


@pytest.mark.parametrize("cited", CITED)
def test_cited_works_are_listed(cited):
    references = " ".join((ROOT / "docs" / "references.md").read_text(encoding="utf-8").split())
    assert f"**{cited}.**" in references
