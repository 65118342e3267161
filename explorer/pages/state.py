"""What the state of every page is: parameters, presets, the text of an address, tables, a script. No Panel."""

from typing import ClassVar

import param

from explorer.accounting import BoundNotApplicable, ObjectivePerturbation

NAMES = {  # of the datasets, as the pages show them
    "breast_cancer": "Breast cancer",
    "two_clouds": "Two clouds",
    "digits": "Digits",
    "synthetic_l": "Synthetic-L",
    "synthetic_h": "Synthetic-H",
    "adult": "Adult",
    "gisette": "Gisette",
}
ACCOUNTANTS = {  # of Algorithm 1, by what the pages call them
    "Kifer et al. 2012": "kifer",
    "RDP": "renyi",
    "Hockey-stick": "hockey_stick",
    "Refined": "refined",
    "Tight": "tight",
}


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
        """Python that computes the page's numbers with the library alone, str."""
        raise NotImplementedError

    def copy(self):
        """A state with the same parameters, for work beside the event loop while this one's move."""
        names = [name for name in self.param if name != "name" and (self.param[name].precedence or 0) >= 0]
        return type(self)(name=type(self).__name__, **{name: getattr(self, name) for name in names})

    def answers(self, *questions):
        """What several methods give, a tuple; a question is a method's name and its arguments."""
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
        list of str, one for each value that cannot be: it names the parameter and the value, and its default is kept
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
    """Base of the states about one objective perturbation; a page overrides the defaults and bounds that suit it."""

    noise_std = param.Number(
        5.0,
        bounds=(0.05, 1000),
        label="σ  noise",
        doc="Standard deviation of the random linear term. Larger is more private and less accurate.",
    )
    l2_reg = param.Number(
        20.0,
        bounds=(0.01, 10_000),
        label="λ  regularisation",
        doc="Weight of the ridge penalty on the sum of losses. Larger is more private; the fit shrinks towards zero.",
    )
    smoothness = param.Number(
        1.0,
        bounds=(0.01, 100),
        label="β  smoothness",
        doc="Largest curvature one record can add. Smaller is more private. Logistic loss on unit rows has 1/4.",
    )
    lipschitz = param.Number(
        1.0,
        bounds=(0.01, 100),
        label="L  gradient norm",
        doc="Largest gradient one record can have. Smaller is more private. Logistic loss on unit rows has 1.",
    )
    monotone_loss = param.Boolean(
        False,
        label="Monotone loss",
        doc="Whether the loss's slope never changes sign, as for logistic loss. The proofs made here profit from it.",
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
