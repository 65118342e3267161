"""Signatures of the public names, the order of the modules, and the works that they cite."""

import ast
import inspect
import re
from pathlib import Path

import pytest

import explorer.accounting
import explorer.validation

PACKAGE = Path(explorer.accounting.__file__).parent
REFERENCES = Path(__file__).parents[2] / "docs" / "references.md"
MODULES = sorted(PACKAGE.rglob("*.py"))
LAYERS = [  # lowest first; a module imports none of a higher layer
    "types",
    "logspace",
    "mechanisms",
    "protocol",
    "conversion",
    "bounds",
    "pld",
    "subsampling",
    "selection",
    "approximate_minima",
    "calibration",
    "__init__",
]
_WORK = r"(?:[A-Z][a-z]+(?:, [A-Z][a-z]+)* & )?[A-Z][a-z]+(?: et al\.)? (?:19|20)\d\d"


def public_callables():
    for name in explorer.accounting.__all__:
        value = getattr(explorer.accounting, name)
        if inspect.isclass(value):
            if inspect.isfunction(value.__init__) and not getattr(value, "_is_protocol", False):
                yield f"{name}.__init__", value.__init__
            for base in value.__mro__:
                for attribute, member in vars(base).items():
                    if not base.__module__.startswith("explorer") or attribute.startswith("_"):
                        continue
                    for kind in ("fget", "func", "__func__"):  # property, cached_property, class and static methods
                        member = getattr(member, kind, member)
                    if inspect.isfunction(member):
                        yield f"{name}.{attribute}", member
        elif callable(value):
            yield name, value
    for name, value in vars(explorer.validation).items():
        if inspect.isfunction(value) and not name.startswith("_"):
            yield f"validation.{name}", value


CALLABLES = dict(public_callables())


def parameters(function):
    return [p for p in inspect.signature(function).parameters.values() if p.name not in ("self", "cls", "_cls")]


def test_it_sees_functions_methods_properties_and_constructors():
    assert {
        "calibrate",
        "validation.positive",
        "refined_plds",
        "RenyiBound.__init__",
        "HockeyStickBound.epsilon",
        "Gaussian.sensitivity_ratio",
        "Mironov.log_delta",
        "PrivacyLossDistribution.from_profile",
    } <= set(CALLABLES)


@pytest.mark.parametrize("name", CALLABLES)
def test_every_parameter_and_result_is_annotated(name):
    signature = inspect.signature(CALLABLES[name])
    missing = [p.name for p in parameters(CALLABLES[name]) if p.annotation is p.empty]
    assert not missing
    generated = name.endswith(".__init__") and "__dataclass_fields__" in vars(
        getattr(explorer.accounting, name.removesuffix(".__init__"), object)
    )
    assert generated or name.endswith("__init__") or signature.return_annotation is not signature.empty


@pytest.mark.parametrize("name", [name for name in CALLABLES if not name.startswith("validation.")])
def test_parameters_after_the_first_are_keyword_only(name):
    """So that (sigma, epsilon) cannot be swapped silently. A bound and a mechanism, or the profiles of both directions,
    are positional pairs; Calibration and InfeasibleTarget are constructed by this package alone."""
    kept = {
        "calibrate": ["bound", "mechanism"],
        "frontier": ["bound", "mechanism"],
        "Calibration.__init__": ["parameter", "value", "mechanism", "bound", "epsilon", "delta"],
        "InfeasibleTarget.__init__": ["message", "needed"],
        "poisson_subsampled_plds": ["log_delta_add", "log_delta_remove"],
    }
    positional = [p.name for p in parameters(CALLABLES[name]) if p.kind is not p.KEYWORD_ONLY]
    assert positional == kept[name] if name in kept else len(positional) <= 1


def layer(parts):
    return LAYERS.index(parts[0])


def imported(path):
    """The modules of this package that `path` imports, as tuples of names below explorer.accounting."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("explorer.accounting."):
            yield tuple(node.module.split(".")[2:])


def module_name(path):
    return path.relative_to(PACKAGE).with_suffix("").parts


@pytest.mark.parametrize("path", MODULES, ids=lambda path: "/".join(module_name(path)))
def test_modules_import_from_their_layer_or_below(path):
    for name in imported(path):
        assert layer(name) <= layer(module_name(path)), f"{path} imports {'.'.join(name)}"


def test_no_imports_form_a_cycle():
    arrows = {module_name(path): set(imported(path)) for path in MODULES}
    while arrows:
        free = [name for name, targets in arrows.items() if not targets & set(arrows)]
        assert free, f"each of these imports another one: {sorted(arrows)}"
        for name in free:
            del arrows[name]


def listed_works():
    return re.findall(rf"^\*\*({_WORK})\.\*\*", REFERENCES.read_text(), flags=re.MULTILINE)


def test_every_work_cited_is_in_the_list_of_references():
    works = listed_works()
    assert "Balle & Wang 2018" in works and "Mironov 2017" in works and "Balle et al. 2020" in works
    for path in MODULES:
        text = re.sub(r"\s+", " ", path.read_text())
        cited = set(re.findall(_WORK, text))
        assert cited <= set(works), f"{path.name}: {cited - set(works)}"


def test_each_reference_has_an_anchor_of_its_own():
    text = REFERENCES.read_text()
    for work in listed_works():
        anchor = re.sub(r"[^a-z0-9]+", "-", work.lower())
        assert f"({anchor})=\n**{work}.**" in text
