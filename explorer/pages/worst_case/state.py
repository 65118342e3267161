"""The Worst case page's parameters: one objective perturbation, a direction, and where the leak is read."""

from typing import ClassVar

import param

from explorer.accounting import HockeyStickBound, ObjectivePerturbation
from explorer.pages import parameters
from explorer.pages.bounds.state import PRESETS
from explorer.pages.state import Code, ObjectivePerturbationState, call, imports, refusal
from explorer.pages.worst_case.computation import (
    ADD,
    LOSSES,
    REMOVE,
    bends,
    compute_curves,
    compute_noise,
    compute_pieces,
    compute_summary,
    noise_end,
    worst_loss,
)


class WorstCaseState(ObjectivePerturbationState):
    """Parameters of one objective perturbation, a direction, and the epsilon at which a loss is to leak most."""

    # Figure 1 of the paper, and cases in which the worst loss has another shape.
    presets: ClassVar = {
        "Figure 1, left": {**PRESETS["Figure 1, left"], "direction": REMOVE, "epsilon": 0.5, "delta": 1e-5},
        "Figure 1, right": {**PRESETS["Figure 1, right"], "direction": REMOVE, "epsilon": 0.3, "delta": 1e-5},
        "Huber’s loss": {**PRESETS["Figure 1, right"], "direction": ADD, "epsilon": 0.3, "delta": 1e-5},
        "λ below β": {
            **{"noise_std": 5.0, "l2_reg": 0.5, "smoothness": 1.0, "lipschitz": 1.0, "monotone_loss": False},
            **{"direction": REMOVE, "epsilon": 1.0, "delta": 1e-5},
        },
        "Logistic-like": {
            **{"noise_std": 5.0, "l2_reg": 1.0, "smoothness": 0.25, "lipschitz": 1.0, "monotone_loss": True},
            **{"direction": REMOVE, "epsilon": 0.3, "delta": 1e-5},
        },
    }
    table_names: ClassVar = ("worst_case", "worst_case_noise", "worst_case_pieces", "worst_case_readouts")

    noise_std = param.Number(10.0)
    l2_reg = param.Number(5.0)
    direction = param.Selector(
        default=REMOVE,
        objects={"the record is removed": REMOVE, "the record is added": ADD},
        label="Direction",
        doc="Whether p is the output with the record, which is then removed, or without it. A guarantee needs both "
        "directions; removing leaks more.",
    )
    epsilon = parameters.epsilon(
        0.3,
        bounds=(0.001, 100),
        label="ε  at which it leaks most",
        doc="The loss is chosen to have the largest δ at this ε. A smaller ε is the stronger guarantee, and its δ is "
        "larger.",
    )
    delta = parameters.delta(
        label="δ  to read ε at",
        doc="The readouts give each bound’s ε at this δ. A smaller δ is the stronger guarantee, and its ε is larger.",
    )

    def question(self):
        """The epsilon and the direction, keywords of what the computation has."""
        return {"epsilon": self.epsilon, "direction": self.direction}

    def worst(self):
        """`worst_loss` with the current parameters."""
        return worst_loss(self.mechanism, **self.question())

    def noise_end(self):
        """`computation.noise_end` with the current parameters."""
        return noise_end(self.mechanism, **self.question())

    def curves(self, names=LOSSES):
        """`compute_curves` with the current parameters."""
        return compute_curves(self.mechanism, **self.question(), names=names)

    def bends(self):
        """`computation.bends` with the current parameters."""
        return bends(self.mechanism, **self.question())

    def refusal(self):
        """Why the paper's bound does not apply, or ""."""
        return refusal(HockeyStickBound, self.mechanism)

    def pieces(self):
        """`compute_pieces` with the current parameters."""
        return compute_pieces(self.mechanism, **self.question())

    def summary(self):
        """`compute_summary` with the current parameters."""
        return compute_summary(self.mechanism, delta=self.delta, **self.question())

    def tables(self):
        """The losses, the noise with all that happens to it, the pieces of the worst loss, and the readouts."""
        noise = compute_noise(self.mechanism, **self.question())
        readouts = self.summary().rename_axis("bound").reset_index()
        return dict(zip(self.table_names, (self.curves()["loss"], noise, self.pieces(), readouts), strict=True))

    def script(self):
        """Python that leaves the worst `loss`, its `pieces`, the `curves` that are drawn, and the bounds' `summary`."""
        arguments = {"mechanism": Code("mechanism"), **self.question()}
        return "".join(
            (
                imports(ObjectivePerturbation, compute_curves, compute_pieces, compute_summary, worst_loss),
                f"\nmechanism = {self.mechanism!r}\n",
                call(worst_loss, arguments, result="loss"),
                call(compute_pieces, arguments, result="pieces"),
                call(compute_curves, arguments, result="curves"),
                call(compute_summary, arguments | {"delta": self.delta}, result="summary"),
                'print(pieces.to_string(index=False), summary.to_string(), sep="\\n")\n',
            )
        )
