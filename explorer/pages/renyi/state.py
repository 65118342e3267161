"""The Rényi page's parameters: one objective perturbation, one DP-SGD, and the order at which both are read."""

from typing import ClassVar

import param

from explorer.accounting import ObjectivePerturbation, PoissonSubsampledGaussian
from explorer.pages import parameters
from explorer.pages.renyi.computation import (
    DP_SGD,
    NAMES,
    compute_conversion,
    compute_curves,
    compute_summary,
    divergences,
    order_axis,
    steepest_point,
)
from explorer.pages.state import Code, ObjectivePerturbationState, call, imports

# The paper's panels. Its captions give sigma and lambda, or p and both sigmas; the rest is chosen here: logistic loss
# on rows of norm 1, and for DP-SGD lambda = 10 and T = 1 / p^2.
_LOGISTIC = {"smoothness": 0.25, "lipschitz": 1.0, "monotone_loss": True}
PRESETS = {
    f"σ={noise_std:g}, λ={l2_reg:g}": {
        "noise_std": noise_std,
        "l2_reg": l2_reg,
        **_LOGISTIC,
        "show_dp_sgd": False,
        "alpha_max": 500.0,
    }
    for noise_std, l2_reg in ((100.0, 10.0), (10.0, 1.0), (10.0, 10.0), (1.0, 1.0))
} | {
    f"DP-SGD, p={rate:g}": {
        "noise_std": noise_std,
        "l2_reg": 10.0,
        **_LOGISTIC,
        "show_dp_sgd": True,
        "sampling_rate": rate,
        "steps": round(1 / rate**2),
        "noise_multiplier": rate * noise_std,
        "alpha_max": 2000.0,
    }
    for noise_std, rate in ((100.0, 0.1), (40.0, 0.5))
}


class RenyiState(ObjectivePerturbationState):
    """Parameters of one objective perturbation and one DP-SGD, and where their divergences are read."""

    presets: ClassVar = PRESETS
    table_names: ClassVar = ("renyi", "renyi_readouts")

    noise_std = param.Number(10.0)
    l2_reg = param.Number(10.0)
    smoothness = param.Number(0.25)
    monotone_loss = param.Boolean(
        True,
        doc="Whether the loss’s derivative never changes sign, as for logistic loss. If it never does, the refined "
        "bound is smaller: more private.",
    )
    show_dp_sgd = param.Boolean(
        True,
        label="Compare with DP-SGD",
        doc="Draw DP-SGD, noisy gradient descent on random batches, with the three parameters below. No effect on the "
        "privacy of objective perturbation.",
    )
    sampling_rate = param.Number(
        0.1,
        bounds=(1e-4, 1),
        label="p  sampling rate",
        doc="Chance of each record to be in the batch of a step. Smaller is more private; at 1 nothing is sampled.",
    )
    steps = param.Integer(
        100,
        bounds=(1, 1_000_000),
        label="T  steps",
        doc="Noisy gradient steps of DP-SGD. Fewer is more private: their divergences add up.",
    )
    noise_multiplier = param.Number(
        1.0,
        bounds=(0.1, 1000),
        label="σ_DP-SGD  noise multiplier",
        doc="Noise of a DP-SGD step divided by the largest gradient of one record. Larger is more private.",
    )
    alpha = param.Number(
        10.0,
        bounds=(1, 10_000),
        label="α  order to read at",
        doc="The readouts give ε at this order. Larger orders count rare outcomes with a large privacy loss more, so ε "
        "grows with α. No effect on privacy.",
    )
    delta = parameters.delta(
        label="δ  to convert to",
        doc="The readouts tell how much is lost when the exact divergence is converted to (ε, δ) at this δ. A smaller "
        "δ is a stronger guarantee.",
    )
    alpha_max = param.Number(
        1000.0,
        bounds=(2, 10_000),
        label="α_max  end of the axis",
        doc="Where the axis of orders ends; no effect on privacy.",
    )

    @property
    def dp_sgd(self):
        """The PoissonSubsampledGaussian with the current parameters."""
        return PoissonSubsampledGaussian(
            noise_multiplier=self.noise_multiplier, sampling_rate=self.sampling_rate, steps=self.steps
        )

    @property
    def compared(self):
        """`dp_sgd`, or None where it is not shown."""
        return self.dp_sgd if self.show_dp_sgd else None

    @property
    def names(self):
        """Names of the curves that are shown."""
        return tuple(name for name in NAMES if self.show_dp_sgd or name != DP_SGD)

    def divergences(self):
        """`computation.divergences` with the current parameters."""
        return divergences(self.mechanism, dp_sgd=self.compared)

    def axis(self):
        """The orders of the curves, ndarray (POINTS,)."""
        return order_axis(self.alpha_max)

    def curves(self, *, dp_sgd=True):
        """`compute_curves` with the current parameters; `dp_sgd=False` leaves out what takes tens of milliseconds."""
        return compute_curves(self.mechanism, alpha_max=self.alpha_max, dp_sgd=self.compared if dp_sgd else None)

    def summary(self):
        """`compute_summary` with the current parameters."""
        return compute_summary(self.mechanism, alpha=self.alpha, dp_sgd=self.compared)

    def conversion(self):
        """`compute_conversion` with the current parameters."""
        return compute_conversion(self.mechanism, delta=self.delta)

    def steepest(self):
        """Where DP-SGD's epsilon grows fastest, SteepestPoint."""
        return steepest_point(self.dp_sgd)

    def tables(self):
        """The curves, and the readouts."""
        readouts = self.summary().rename_axis("curve").reset_index()
        return dict(zip(self.table_names, (self.curves(), readouts), strict=True))

    def script(self):
        """Python that leaves `curves` over alpha, the `summary` and the `conversion`; with DP-SGD `steepest` too."""
        arguments = {"mechanism": Code("mechanism"), "dp_sgd": Code("dp_sgd") if self.show_dp_sgd else None}
        needed = [ObjectivePerturbation, compute_conversion, compute_curves, compute_summary]
        dp_sgd = last = ""
        if self.show_dp_sgd:
            needed += [PoissonSubsampledGaussian, steepest_point]
            dp_sgd = f"dp_sgd = {self.dp_sgd!r}\n"
            last = call(steepest_point, {"dp_sgd": Code("dp_sgd")}, result="steepest") + "print(steepest)\n"
        return "".join(
            (
                imports(*needed),
                f"\nmechanism = {self.mechanism!r}\n",
                dp_sgd,
                call(compute_curves, arguments | {"alpha_max": self.alpha_max}, result="curves"),
                call(compute_summary, arguments | {"alpha": self.alpha}, result="summary"),
                "print(summary.to_string())\n",
                call(compute_conversion, {"mechanism": Code("mechanism"), "delta": self.delta}, result="conversion"),
                "print(conversion)\n",
                last,
            )
        )
