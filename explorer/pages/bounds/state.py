"""The Bounds page's parameters: one objective perturbation, where its bounds are read, and the axes."""

import sys
from typing import ClassVar

import numpy as np
import param

from explorer.accounting import ObjectivePerturbation
from explorer.pages import parameters
from explorer.pages.bounds.computation import (
    BOUNDS,
    HOCKEY_STICK,
    RDP,
    applicable_bounds,
    compute_curves,
    compute_summary,
    curve_columns,
    epsilon_axis,
    split_epsilon,
    summary_rows,
)
from explorer.pages.state import Code, ObjectivePerturbationState, call, imports, round_up

# Figure 1 of the paper, left and right, with every parameter of its caption.
PRESETS = {
    "Figure 1, left": {"noise_std": 5.0, "l2_reg": 20.0, "smoothness": 1.0, "lipschitz": 1.0, "monotone_loss": False},
    "Figure 1, right": {"noise_std": 10.0, "l2_reg": 5.0, "smoothness": 1.0, "lipschitz": 1.0, "monotone_loss": False},
}


class BoundsState(ObjectivePerturbationState):
    """Parameters of one objective perturbation, and where its bounds are read.

    `bounds` maps labels to bounds, callables from ObjectivePerturbation to PrivacyBound; show your own beside this
    project's by BoundsState(bounds={**BOUNDS, "Mine": MyBound}).
    """

    presets: ClassVar = PRESETS
    table_names: ClassVar = ("bounds", "bounds_readouts")

    bounds = param.Dict(BOUNDS, constant=True, doc="Bounds by label; the Gaussian lower bound is among them.")

    epsilon = parameters.epsilon(
        bounds=(0.001, 100),
        label="ε  to read δ at",
        doc="The readouts give each bound’s δ at this ε. A smaller ε is the stronger guarantee, and its δ is larger.",
    )
    delta = parameters.delta(
        label="δ  to read ε at",
        doc="The readouts give each bound’s ε at this δ. A smaller δ is the stronger guarantee, and its ε is larger.",
    )
    epsilon_max = param.Number(
        2.5,
        bounds=(0.01, 200),
        label="ε_max  end of the axis",
        doc="Where the ε axis ends; no effect on privacy. “Fit the axis” lets every curve cross your δ.",
    )

    epsilon_on_y_axis = param.Boolean(
        False,
        label="ε on the y-axis",
        doc="Draw ε on the y-axis and δ on the x-axis, to read ε at a given δ; no effect on privacy.",
    )

    def apply_preset(self, name):
        """Set every parameter of the named preset's caption at once, and an axis that shows all its curves."""
        with param.parameterized.batch_call_watchers(self):
            super().apply_preset(name)
            self.fit_axis()

    def fit_axis(self):
        """Move the end of the epsilon axis just past the largest epsilon that a bound has at delta."""
        largest = max(row["epsilon"] for row in self.rows().values() if row["epsilon"] < np.inf)
        low, high = self.param.epsilon_max.bounds
        self.epsilon_max = float(np.clip(round_up(1.1 * largest), low, high))

    def applicable(self, names=None):
        """The named bounds, or all, of the current mechanism by label, and the reason by label where one is refused."""
        return applicable_bounds(self.mechanism, bounds=self.chosen(names))

    def axis(self):
        """The epsilons of the curves, ndarray (POINTS,)."""
        return epsilon_axis(self.epsilon_max)

    def curves(self, names=None):
        """`compute_curves` of the named bounds, or all, with the current parameters."""
        return compute_curves(self.mechanism, epsilon_max=self.epsilon_max, bounds=self.chosen(names))

    def columns(self, names=None):
        """`curve_columns` of the named bounds, or all, with the current parameters."""
        return curve_columns(self.mechanism, epsilon_max=self.epsilon_max, bounds=self.chosen(names))

    def summary(self, names=None):
        """`compute_summary` of the named bounds, or all, with the current parameters."""
        return compute_summary(self.mechanism, **self.position(), bounds=self.chosen(names))

    def rows(self, names=None):
        """`summary_rows` of the named bounds, or all, with the current parameters."""
        return summary_rows(self.mechanism, **self.position(), bounds=self.chosen(names))

    def split(self):
        """`split_epsilon` of the paper's two bounds at the chosen delta, dict by label of those that apply."""
        rows = self.rows([name for name in (RDP, HOCKEY_STICK) if name in self.bounds])
        return {
            name: split_epsilon(self.mechanism, epsilon=row["epsilon"])
            for name, row in rows.items()
            if not row["refusal"]
        }

    def position(self):
        """Where the bounds are read, as keywords of `compute_summary`."""
        return {"epsilon": self.epsilon, "delta": self.delta, "epsilon_max": self.epsilon_max}

    def chosen(self, names=None):
        """The named bounds, or all, by label."""
        return self.bounds if names is None else {name: self.bounds[name] for name in names}

    def tables(self):
        """The curves, and the readouts."""
        summary = self.summary().rename_axis("bound").reset_index()
        return dict(zip(self.table_names, (self.curves(), summary), strict=True))

    def script(self):
        """Python that leaves `curves`, log10 delta by bound over epsilon, and the `summary`, which it prints."""
        own, setting = _own_bounds(self.bounds)
        arguments = {"mechanism": Code("mechanism"), "bounds": Code("bounds") if setting else BOUNDS}
        return "".join(
            (
                imports(ObjectivePerturbation, compute_curves, compute_summary, *own),
                "from explorer.pages.bounds.computation import BOUNDS\n" if setting else "",
                f"\nmechanism = {self.mechanism!r}\n",
                setting,
                call(compute_curves, arguments | {"epsilon_max": self.epsilon_max}, result="curves"),
                call(compute_summary, arguments | self.position(), result="summary"),
                "print(summary.to_string())\n",
            )
        )


def _own_bounds(bounds):
    """The bounds that are not this project's and can be imported, and the assignment of a dict of all, str.

    It is "" where the bounds are exactly this project's.
    """
    if bounds == BOUNDS:
        return [], ""
    own, lines = [], []
    for label, bound in bounds.items():
        if bound is BOUNDS.get(label):
            lines.append(f"    {label!r}: BOUNDS[{label!r}],\n")
        elif _importable(bound):
            own.append(bound)
            lines.append(f"    {label!r}: {bound.__name__},\n")
        else:
            lines.append(f"    # {label!r}: left out, since no module has it under a name\n")
    return own, f"bounds = {{\n{''.join(lines)}}}\n"


def _importable(bound):
    module, name = (getattr(bound, attribute, "") for attribute in ("__module__", "__name__"))
    return module != "__main__" and bool(name) and getattr(sys.modules.get(module), name, None) is bound
