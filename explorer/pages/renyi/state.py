"""The Rényi page: the divergence of each mechanism, and of each proof, at every order."""

from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import numpy as np
import pandas as pd
import param

from explorer.accounting import (
    BoundNotApplicable,
    PoissonSubsampledGaussian,
    RefinedBound,
    RenyiBound,
    steepest_order,
)
from explorer.accounting.bounds.renyi import half_normal_rdp, linearised_rdp, normal_rdp
from explorer.accounting.protocol import require_l2_reg_above_smoothness
from explorer.pages.state import ObjectivePerturbationState

POINTS = 200

NORMAL, DP_SGD = "Normal", "DP-SGD"
PROOFS = ("Objective perturbation", "Refined", "Linearised")
NAMES = (NORMAL, "Half-normal", *PROOFS, DP_SGD)

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


@dataclass(frozen=True)
class Leap:
    """Where DP-SGD's epsilon grows fastest: `order`, `growth` = d log epsilon / d log alpha and `epsilon` there.

    Without sampling, p = 1, there is none: nan, 1 and nan.
    """

    order: float
    growth: float
    epsilon: float


class RenyiState(ObjectivePerturbationState):
    """Parameters of one objective perturbation and one DP-SGD, and the order at which their divergences are read."""

    presets: ClassVar = PRESETS
    table_names: ClassVar = ("renyi", "renyi_readouts")

    noise_std = param.Number(10.0)
    l2_reg = param.Number(10.0)
    smoothness = param.Number(0.25)
    monotone_loss = param.Boolean(
        True, doc="Whether the loss's slope never changes sign, as for logistic loss. Only the refined proof profits."
    )
    show_dp_sgd = param.Boolean(
        True,
        label="DP-SGD beside it",
        doc="Draw DP-SGD, noisy gradient descent on random batches, with the three parameters below.",
    )
    sampling_rate = param.Number(
        0.1,
        bounds=(1e-4, 1),
        label="p  sampling rate",
        doc="Chance of each record to be in a step's batch. Smaller is more private; at 1 nothing is sampled.",
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
        label="σ_DP-SGD  noise",
        doc="Noise of a DP-SGD step divided by the largest gradient of one record. Larger is more private.",
    )
    alpha = param.Number(
        10.0,
        bounds=(1, 10_000),
        label="α  order to read at",
        doc="The order at which the readouts give ε. The larger, the more the rare, most telling outcomes count.",
    )
    alpha_max = param.Number(
        1000.0,
        bounds=(2, 10_000),
        label="α_max  end of the axis",
        doc="Right end of the plot.",
    )

    @property
    def dp_sgd(self):
        """The PoissonSubsampledGaussian with the current parameters."""
        return PoissonSubsampledGaussian(
            noise_multiplier=self.noise_multiplier, sampling_rate=self.sampling_rate, steps=self.steps
        )

    @property
    def linearised_end(self):
        """The order 1 + 1 / (2 kappa) from which on the linearised bound is infinite."""
        return 1 + 1 / (2 * self.mechanism.curvature_ratio)

    @property
    def names(self):
        """Names of the curves that are asked for."""
        return NAMES if self.show_dp_sgd else NAMES[:-1]

    def divergences(self):
        """Functions of alpha by name for the current mechanisms, and the reason by name where a theorem refuses."""
        granted, refused = {}, {}
        for name in self.names:
            try:
                granted[name] = _divergence(name, self)
            except BoundNotApplicable as reason:
                refused[name] = str(reason)
        return granted, refused

    def axis(self):
        """The orders of the curves, ndarray (POINTS,)."""
        return np.geomspace(1, self.alpha_max, POINTS)

    def curves(self, names=None):
        """epsilon(alpha), nats, of the named curves, or all, over the orders.

        Returns
        -------
        DataFrame of POINTS rows: "alpha" and a column for each of NAMES: infinity where the bound is void, nan
        throughout where its theorem does not apply, or it is not named or not asked for
        """
        axis, (granted, _) = self.axis(), self.divergences()
        chosen = set(granted).intersection(NAMES if names is None else names)
        return pd.DataFrame(
            {"alpha": axis, **{name: granted[name](axis) if name in chosen else np.nan for name in NAMES}}
        )

    def summary(self):
        """The curves that are asked for at the chosen order.

        Returns
        -------
        DataFrame indexed by name: "epsilon" at alpha (nats), its "ratio" to the normal's, and "refusal", why a theorem
        does not apply (then the numbers are nan) or ""
        """
        granted, refused = self.divergences()
        epsilon = {name: float(granted[name](self.alpha)) if name in granted else np.nan for name in self.names}
        rows = {
            name: {"epsilon": value, "ratio": value / epsilon[NORMAL], "refusal": refused.get(name, "")}
            for name, value in epsilon.items()
        }
        return pd.DataFrame.from_dict(rows, orient="index")

    def leap(self):
        """Where DP-SGD's curve grows fastest, Leap."""
        mechanism = self.dp_sgd
        order, growth = steepest_order(
            noise_multiplier=mechanism.noise_multiplier, sampling_rate=mechanism.sampling_rate
        )
        return Leap(order, growth, np.nan if np.isnan(order) else float(RenyiBound(mechanism).rdp(order)))

    def tables(self):
        """The curves, and the readouts."""
        readouts = self.summary().rename_axis("curve").reset_index()
        return dict(zip(self.table_names, (self.curves(), readouts), strict=True))

    def script(self):
        """Python that computes `curves`, epsilon by name over `alpha`, and prints each at the chosen order."""
        dp_sgd = _SCRIPT_DP_SGD.format(mechanism=repr(self.dp_sgd)) if self.show_dp_sgd else ""
        leap = _SCRIPT_LEAP if self.show_dp_sgd else ""
        imports = ["ObjectivePerturbation", "RefinedBound", "RenyiBound"]
        if self.show_dp_sgd:
            imports += ["PoissonSubsampledGaussian", "steepest_order"]
        return _SCRIPT.format(
            imports=", ".join(sorted(imports)),
            mechanism=repr(self.mechanism),
            alpha_max=self.alpha_max,
            points=POINTS,
            alpha=self.alpha,
            dp_sgd=dp_sgd,
            leap=leap,
        )


def _divergence(name, state):
    """The function of alpha that the named curve shows; BoundNotApplicable where its theorem asks for more."""
    mechanism = state.mechanism
    s, kappa = mechanism.sensitivity_ratio, mechanism.curvature_ratio
    match name:
        case "Normal":
            return partial(normal_rdp, sensitivity_ratio=s)
        case "Half-normal":
            return partial(half_normal_rdp, sensitivity_ratio=s)
        case "Objective perturbation":
            return RenyiBound(mechanism).rdp
        case "Refined":
            return RefinedBound(mechanism).rdp
        case "Linearised":
            require_l2_reg_above_smoothness(mechanism)
            return partial(linearised_rdp, sensitivity_ratio=s, curvature_ratio=kappa)
        case "DP-SGD":
            return RenyiBound(state.dp_sgd).rdp
    raise ValueError(f"name must be one of {NAMES}: got name={name!r}")


_SCRIPT = """\
import numpy as np

from explorer.accounting import {imports}
from explorer.accounting.bounds.renyi import half_normal_rdp, linearised_rdp, normal_rdp

mechanism = {mechanism}
s, kappa = mechanism.sensitivity_ratio, mechanism.curvature_ratio
divergences = {{
    "Normal": lambda alpha: normal_rdp(alpha, sensitivity_ratio=s),
    "Half-normal": lambda alpha: half_normal_rdp(alpha, sensitivity_ratio=s),
    "Objective perturbation": lambda alpha: RenyiBound(mechanism).rdp(alpha),
    "Refined": lambda alpha: RefinedBound(mechanism).rdp(alpha),
    "Linearised": lambda alpha: linearised_rdp(alpha, sensitivity_ratio=s, curvature_ratio=kappa),
}}
{dp_sgd}alpha = np.geomspace(1, {alpha_max!r}, {points})
curves = {{}}
for name, rdp in divergences.items():
    try:
        curves[name] = rdp(alpha)
    except ValueError as reason:  # two theorems need l2_reg > smoothness
        print(f"{{name}}: {{reason}}")
        continue
    print(f"{{name}}: epsilon = {{rdp({alpha!r}):.6g}} at alpha = {alpha!r}")
{leap}"""

_SCRIPT_DP_SGD = """\
dp_sgd = {mechanism}
divergences["DP-SGD"] = RenyiBound(dp_sgd).rdp
"""

_SCRIPT_LEAP = """\
order, growth = steepest_order(noise_multiplier=dp_sgd.noise_multiplier, sampling_rate=dp_sgd.sampling_rate)
print(f"DP-SGD leaps at alpha = {order:.6g}, where epsilon grows like alpha^{growth:.3g}")
"""
