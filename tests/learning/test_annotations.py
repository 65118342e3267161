"""Everything public in `explorer.learning` is annotated, and what the annotations say can be evaluated."""

import inspect
from typing import Protocol, get_type_hints

import pytest

import explorer.learning
from explorer.learning import solvers


def own(kind):
    return kind.__module__.startswith("explorer.learning")


def is_protocol(kind):
    return Protocol in kind.__bases__


def functions():
    """(name, function) of every public function, method and property that this package defines."""
    public = {name: getattr(explorer.learning, name) for name in explorer.learning.__all__}
    public |= {f"solvers.{name}": getattr(solvers, name) for name in solvers.__all__}
    for name, thing in public.items():
        if inspect.isfunction(thing):
            yield name, thing
        elif inspect.isclass(thing):
            for base in filter(own, thing.__mro__):
                for attribute, member in vars(base).items():
                    member = member.fget if isinstance(member, property) else getattr(member, "fn", member)
                    member = getattr(member, "__func__", member)
                    shown = not attribute.startswith("_") or (attribute == "__init__" and not is_protocol(base))
                    if shown and inspect.isfunction(member) and member.__code__.co_filename != "<string>":  # dataclass
                        yield f"{name}.{attribute}", inspect.unwrap(member)


FUNCTIONS = dict(functions())


def test_they_are_found():
    for name in ("AMPClassifier.fit", "AMPClassifier.__init__", "AMPRegressor.plan", "AMPClassifier.predict_proba"):
        assert name in FUNCTIONS
    for name in ("ExcessRisk.total", "HonestSelection.predict", "Loss.value", "best_l2_reg", "solvers.newton"):
        assert name in FUNCTIONS
    assert len(FUNCTIONS) > 150


@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_parameter_and_result_is_annotated(name):
    function = FUNCTIONS[name]
    signature = inspect.signature(function)
    bare = [p.name for p in signature.parameters.values() if p.annotation is p.empty and p.name not in ("self", "cls")]
    assert not bare
    assert signature.return_annotation is not signature.empty
    get_type_hints(function)
