"""The base of every page's state: parameters, presets, answers, query of an address, tables, script. Without Panel."""

import inspect
import sys
from typing import ClassVar

import numpy as np
import param

from explorer.accounting import BoundNotApplicable, ObjectivePerturbation
from explorer.pages import parameters
from explorer.vocabulary import ACCOUNTANTS, BOUNDS

BOUND_KEYS = {BOUNDS[key].label: key for key in ACCOUNTANTS}  # of Algorithm 1's accountants, by label


class Answer:
    """What a computation gave, as an attribute of a state: it is dropped when its question changes.

    A state declares `race = Answer("race_arguments", doc)`; `race_arguments` is the method that gives the arguments of
    the computation, a dict. What is assigned to `state.race` is kept with the arguments of that moment, and read as
    None as soon as these differ, so that a state never hands out an answer to another question.
    """

    def __init__(self, question, doc):
        self.question, self.__doc__ = question, doc

    def __set_name__(self, owner, name):
        self.slot = f"_{name}_and_question"

    def __get__(self, state, owner=None):
        if state is None:
            return self
        answer, question = vars(state).get(self.slot, (None, None))
        if answer is not None and question != getattr(state, self.question)():
            del vars(state)[self.slot]
            return None
        return answer

    def __set__(self, state, answer):
        vars(state)[self.slot] = answer, None if answer is None else getattr(state, self.question)()


class PageState(param.Parameterized):
    """Base of the pages' states.

    A subclass declares its parameters with bounds, labels and docs, and gives `presets`, `tables` (under
    `table_names`) and `script`. Parameters that are constant or of negative precedence are not part of the address.
    """

    presets: ClassVar[dict] = {}
    table_names: ClassVar[tuple] = ()

    def apply_preset(self, name):
        """Set every parameter of the named preset at once."""
        self.param.update(**self.presets[name])

    def tables(self):
        """The numbers behind the page: dict of DataFrame by name, those in `table_names`."""
        raise NotImplementedError

    def script(self):
        """Python that computes the page's numbers by its `computation`, str; see `call`."""
        raise NotImplementedError

    def copy(self):
        """A state with the same parameters, for work in the background while this one's parameters change."""
        names = [name for name in self.param if name != "name" and (self.param[name].precedence or 0) >= 0]
        return type(self)(name=type(self).__name__, **{name: getattr(self, name) for name in names})

    def answers(self, *questions):
        """What several methods return, a tuple; a question is a method's name and its arguments."""
        return tuple(getattr(self, method)(*arguments) for method, *arguments in questions)

    @classmethod
    def shared(cls):
        """Names of the parameters that an address holds, in the order of their declaration."""
        return [
            name
            for name, parameter in cls.param.objects().items()
            if name != "name" and not parameter.constant and (parameter.precedence or 0) >= 0
        ]

    def to_query(self):
        """The parameters that differ from their defaults, dict of text by name; `from_query` restores them exactly."""
        values = {name: getattr(self, name) for name in self.shared()}
        return {name: _text(value) for name, value in values.items() if value != self.param[name].default}

    def from_query(self, query):
        """Set the parameters that `query`, a dict of text by name, holds, and all others to their defaults.

        Returns
        -------
        list of str "name=value", one for each value that is not valid; the parameter keeps its default
        """
        refused, shared = [], self.shared()
        with param.parameterized.batch_call_watchers(self):
            self.param.update(**{name: self.param[name].default for name in shared})
            for name, text in query.items():
                try:
                    if name not in shared:
                        raise ValueError
                    self.param.update(**{name: _value(self.param[name], text)})
                except (ValueError, OverflowError):
                    refused.append(f"{name}={text[:40]}")
        return refused


class ObjectivePerturbationState(PageState):
    """Base of the states of one objective perturbation; a page overrides defaults and bounds where it needs others."""

    noise_std = parameters.noise_std()
    l2_reg = parameters.l2_reg()
    smoothness = parameters.smoothness()
    lipschitz = parameters.lipschitz()
    monotone_loss = param.Boolean(
        False,
        label="Monotone loss",
        doc="Whether the loss's derivative never changes sign, as for logistic loss. On is the more private side: "
        "the refined and the exact bound are then smaller.",
    )

    @property
    def mechanism(self):
        """The ObjectivePerturbation with the current parameters."""
        return ObjectivePerturbation(
            noise_std=self.noise_std,
            l2_reg=self.l2_reg,
            lipschitz=self.lipschitz,
            smoothness=self.smoothness,
            monotone_loss=self.monotone_loss,
        )


class Code(str):
    """Python that stands for a value in a script, such as a variable's name; for `call`."""

    __slots__ = ()

    def __repr__(self):
        return str(self)


def call(function, arguments, *, result):
    """Python that calls a function of a page's computation, str.

    Parameters
    ----------
    function : callable, of a module that can be imported
    arguments : dict of `Code`, or values whose repr is Python; what is equal to the function's default is left out
    result : str, the name that the script gives to what the function returns
    """
    defaults = {name: each.default for name, each in inspect.signature(function).parameters.items()}
    given = {name: value for name, value in arguments.items() if not _equal(value, defaults[name])}
    lines = "".join(f"    {name}={value!r},\n" for name, value in given.items())
    return f"{result} = {function.__name__}(\n{lines})\n" if lines else f"{result} = {function.__name__}()\n"


def imports(*objects):
    """Import statements, one a line, for functions and classes; of packages that export them rather than modules."""
    names = {}
    for each in objects:
        package = ".".join(each.__module__.split(".")[:2])
        exported = getattr(sys.modules.get(package), each.__name__, None) is each
        names.setdefault(package if exported else each.__module__, set()).add(each.__name__)
    return "".join(f"from {module} import {', '.join(sorted(names[module]))}\n" for module in sorted(names))


def _equal(value, default):
    return type(value) is type(default) and value == default


def round_up(value, *, digits=2):
    """The next number above with two leading digits, so that an axis ends at a readable tick, or with more."""
    unit = 10.0 ** (np.floor(np.log10(value)) - digits + 1)
    return float(f"{np.ceil(value / unit) * unit:.{digits}g}")


def refusal(bound, mechanism):
    """Why `bound`, a class of them, does not apply to the mechanism, or ""."""
    try:
        bound(mechanism)
    except BoundNotApplicable as reason:
        return str(reason)
    return ""


def _text(value):
    if isinstance(value, list):
        return ",".join(map(_text, value))
    return str(int(value)) if isinstance(value, bool) else str(value)


def _value(parameter, text):
    """The value that `text` has for a parameter; ValueError where there is none."""
    if isinstance(parameter, param.Boolean):
        return bool(("0", "1").index(text))
    if isinstance(parameter, param.Integer):
        return int(text)
    if isinstance(parameter, param.Number):
        return float(text)
    if isinstance(parameter, param.ListSelector):
        return [_object(parameter, part) for part in text.split(",")] if text else []
    if isinstance(parameter, param.Selector):
        return _object(parameter, text)
    return text


def _object(parameter, text):
    """What a param.Selector offers under the text."""
    objects = {_text(each): each for each in parameter.objects}
    if text not in objects:
        raise ValueError
    return objects[text]
