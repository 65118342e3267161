"""What the state of every page is: parameters, presets, the text of an address, tables, a script. No Panel."""

from typing import ClassVar

import param


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
        refused = []
        with param.parameterized.batch_call_watchers(self):
            for name in self.shared():
                self.param.update(**{name: self.param[name].default})
            for name, text in query.items():
                try:
                    if name not in self.shared():
                        raise ValueError
                    self.param.update(**{name: _value(self.param[name], text)})
                except (ValueError, OverflowError):
                    refused.append(f"{name}={text[:40]}")
        return refused


def _text(value):
    return str(int(value)) if isinstance(value, bool) else str(value)


def _value(parameter, text):
    """The value that `text` has for a parameter; ValueError where there is none."""
    if isinstance(parameter, param.Boolean):
        return bool(("0", "1").index(text))
    if isinstance(parameter, param.Integer):
        return int(text)
    if isinstance(parameter, param.Number):
        return float(text)
    return text
