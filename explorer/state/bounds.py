"""The Bounds page: what delta each analysis of objective perturbation grants at each epsilon."""

import numpy as np
import pandas as pd
import param

from explorer.accounting import (
    BoundNotApplicable,
    GaussianLowerBound,
    HockeyStickBound,
    KiferBound,
    ObjectivePerturbation,
    RenyiBound,
)

POINTS = 200

BOUNDS = {
    "Kifer et al. 2012": KiferBound,
    "RDP": RenyiBound,
    "Hockey-stick": HockeyStickBound,
    "Gaussian lower bound": GaussianLowerBound,
}
LOWER_BOUND = "Gaussian lower bound"

# Figure 1 of the paper, left and right, with every parameter of its caption.
PRESETS = {
    "Figure 1, left": {"noise_std": 5.0, "l2_reg": 20.0, "smoothness": 1.0, "lipschitz": 1.0},
    "Figure 1, right": {"noise_std": 10.0, "l2_reg": 5.0, "smoothness": 1.0, "lipschitz": 1.0},
}


class BoundsState(param.Parameterized):
    """Parameters of one objective perturbation, and where its bounds are read.

    `bounds` maps the names that the page shows to bounds, callables from ObjectivePerturbation to PrivacyBound; put
    your own beside the package's with BoundsState(bounds={**BOUNDS, "Mine": MyBound}).
    """

    bounds = param.Dict(BOUNDS, constant=True, doc="Bounds by name; the Gaussian lower bound is among them.")

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
    epsilon = param.Number(
        1.0,
        bounds=(0.001, 100),
        label="ε  to read δ at",
        doc="The privacy parameter at which the readouts give δ. Smaller is a stronger promise.",
    )
    delta = param.Number(
        1e-5,
        bounds=(1e-12, 0.5),
        label="δ  to read ε at",
        doc="The failure probability at which the readouts give ε. Smaller is a stronger promise.",
    )
    epsilon_max = param.Number(
        2.5,
        bounds=(0.01, 200),
        label="ε_max  end of the axis",
        doc="Right end of the plot. “Fit” chooses it so that every curve crosses your δ.",
    )

    @property
    def mechanism(self):
        """The ObjectivePerturbation with the current parameters."""
        return ObjectivePerturbation(
            noise_std=self.noise_std, l2_reg=self.l2_reg, lipschitz=self.lipschitz, smoothness=self.smoothness
        )

    def apply_preset(self, name):
        """Set every parameter of the named preset's caption at once, and an axis that shows all its curves."""
        with param.parameterized.batch_call_watchers(self):
            self.param.update(**PRESETS[name])
            self.fit_axis()

    def fit_axis(self):
        """Move the right end of the epsilon axis just past the largest epsilon that a bound has at delta."""
        largest = self.summary()["epsilon"].replace(np.inf, np.nan).max()
        low, high = self.param.epsilon_max.bounds
        self.epsilon_max = float(np.clip(_round_up(1.1 * largest), low, high))

    def proofs(self):
        """Bounds by name for the current mechanism, and the reason by name where a theorem does not apply."""
        granted, refused = {}, {}
        for name, bound in self.bounds.items():
            try:
                granted[name] = bound(self.mechanism)
            except BoundNotApplicable as reason:
                refused[name] = str(reason)
        return granted, refused

    def curves(self):
        """log10 delta of every bound over the epsilon axis.

        Returns
        -------
        DataFrame of POINTS rows: "epsilon" and one column per bound, nan throughout where it does not apply
        """
        epsilon = np.linspace(0, self.epsilon_max, POINTS)
        granted, _ = self.proofs()
        columns = {
            name: granted[name].log_delta(epsilon) / np.log(10) if name in granted else np.nan for name in self.bounds
        }
        return pd.DataFrame({"epsilon": epsilon, **columns})

    def summary(self):
        """The bounds at the chosen delta and epsilon.

        Returns
        -------
        DataFrame indexed by bound: "epsilon" at delta, "ratio" to the lower bound's, "log10_delta" at epsilon, and
        "refusal", why a bound does not apply (then the numbers are nan) or ""
        """
        granted, refused = self.proofs()
        rows = {
            name: {
                "epsilon": float(granted[name].epsilon(self.delta)) if name in granted else np.nan,
                "log10_delta": float(granted[name].log_delta(self.epsilon)) / np.log(10) if name in granted else np.nan,
                "refusal": refused.get(name, ""),
            }
            for name in self.bounds
        }
        table = pd.DataFrame.from_dict(rows, orient="index")
        lowest = table.loc[LOWER_BOUND, "epsilon"]
        table.insert(1, "ratio", table["epsilon"] / lowest if lowest > 0 else np.nan)
        return table


def _round_up(value):
    """The next number above with two leading digits, so that an axis ends at a readable tick."""
    unit = 10.0 ** (np.floor(np.log10(value)) - 1)
    return np.ceil(value / unit) * unit
