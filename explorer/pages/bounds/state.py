"""The Bounds page: what delta each analysis of objective perturbation grants at each epsilon."""

from functools import lru_cache
from typing import ClassVar

import numpy as np
import pandas as pd
import param

from explorer import vocabulary
from explorer.accounting import (
    AttainedLowerBound,
    BoundNotApplicable,
    GaussianLowerBound,
    HockeyStickBound,
    KiferBound,
    ProfileBound,
    RefinedBound,
    RenyiBound,
    TightBound,
)
from explorer.pages.state import ObjectivePerturbationState, round_up

POINTS = 200

BOUNDS = {
    vocabulary.BOUNDS[key].label: bound
    for key, bound in {
        "kifer": KiferBound,
        "renyi": RenyiBound,
        "hockey_stick": HockeyStickBound,
        "refined": RefinedBound,
        "tight": TightBound,
        "attained": AttainedLowerBound,
        "gaussian": GaussianLowerBound,
    }.items()
}
LOWER_BOUND = vocabulary.BOUNDS["gaussian"].label
LOWER_BOUNDS = (vocabulary.BOUNDS["attained"].label, LOWER_BOUND)
# Tens of milliseconds a curve: a page follows the slider without them.
SLOW = (vocabulary.BOUNDS["tight"].label, vocabulary.BOUNDS["attained"].label)

# Figure 1 of the paper, left and right, with every parameter of its caption.
PRESETS = {
    "Figure 1, left": {"noise_std": 5.0, "l2_reg": 20.0, "smoothness": 1.0, "lipschitz": 1.0, "monotone_loss": False},
    "Figure 1, right": {"noise_std": 10.0, "l2_reg": 5.0, "smoothness": 1.0, "lipschitz": 1.0, "monotone_loss": False},
}


class BoundsState(ObjectivePerturbationState):
    """Parameters of one objective perturbation, and where its bounds are read.

    `bounds` maps the names that the page shows to bounds, callables from ObjectivePerturbation to PrivacyBound; put
    your own beside the package's with BoundsState(bounds={**BOUNDS, "Mine": MyBound}).
    """

    presets: ClassVar = PRESETS
    table_names: ClassVar = ("bounds", "bounds_readouts")

    bounds = param.Dict(BOUNDS, constant=True, doc="Bounds by name; the Gaussian lower bound is among them.")

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

    epsilon_upright = param.Boolean(
        False,
        label="ε upright",
        doc="Draw ε upright and δ level, to read ε at a δ; without it δ is upright, to read δ at an ε.",
    )

    def apply_preset(self, name):
        """Set every parameter of the named preset's caption at once, and an axis that shows all its curves."""
        with param.parameterized.batch_call_watchers(self):
            super().apply_preset(name)
            self.fit_axis()

    def fit_axis(self):
        """Move the right end of the epsilon axis just past the largest epsilon that a bound has at delta."""
        largest = self.summary(self.names(slow=False))["epsilon"].replace(np.inf, np.nan).max()
        low, high = self.param.epsilon_max.bounds
        self.epsilon_max = float(np.clip(round_up(1.1 * largest), low, high))

    def names(self, *, slow):
        """Names of the bounds that take tens of milliseconds, or of the others."""
        return [name for name in self.bounds if (name in SLOW) == slow]

    def proofs(self, names=None):
        """Bounds by name for the current mechanism, and the reason by name where a theorem does not apply."""
        names = list(self.bounds) if names is None else names
        found = {name: _proof(self.bounds[name], self.mechanism) for name in names}
        refused = {name: proof for name, proof in found.items() if isinstance(proof, str)}
        return {name: proof for name, proof in found.items() if name not in refused}, refused

    def axis(self):
        """The epsilons of the curves, ndarray (POINTS,)."""
        return _axis(self.epsilon_max)

    def curves(self, names=None):
        """log10 delta of the named bounds, or all, over the epsilon axis.

        Returns
        -------
        DataFrame of POINTS rows: "epsilon" and one column per bound, nan throughout where it does not apply
        """
        return pd.DataFrame({"epsilon": self.axis(), **self.columns(names)})

    def columns(self, names=None):
        """`curves` but for epsilon, dict of ndarray (POINTS,) by bound; a tenth of a table's time, for a page."""
        mechanism = self.mechanism
        return {
            name: _curve(self.bounds[name], mechanism, self.epsilon_max)
            for name in (self.bounds if names is None else names)
        }

    def summary(self, names=None):
        """The named bounds, or all, at the chosen delta and epsilon.

        Returns
        -------
        DataFrame indexed by bound: "epsilon" at delta, "ratio" to the Gaussian lower bound's, "log10_delta" at epsilon,
        and "refusal", why a bound does not apply (then the numbers are nan) or ""
        """
        return pd.DataFrame.from_dict(self.rows(names), orient="index")

    def rows(self, names=None):
        """`summary` as a dict of its rows, dicts."""
        lowest = self._row(LOWER_BOUND)["epsilon"]
        rows = {}
        for name in self.bounds if names is None else names:
            row = self._row(name)
            rows[name] = {"epsilon": row["epsilon"], "ratio": row["epsilon"] / lowest if lowest > 0 else np.nan, **row}
        return rows

    def _row(self, name):
        given = {"epsilon": self.epsilon, "delta": self.delta, "along": self.epsilon_max}
        return _row(self.bounds[name], self.mechanism, lower=name in LOWER_BOUNDS, **given)

    def split(self):
        """What epsilon at the chosen delta is made of, for the two proofs of the paper that have such parts.

        Both start from the privacy loss -log(1 - kappa) + s^2/2 + |N(0, s^2)|: a term for the curvature (the Jacobian),
        one for the shift of the noise, and what the random rest adds until only delta is left beyond it.

        Returns
        -------
        dict by bound, of those that apply, of dict: "jacobian" -log(1 - beta/lambda), "shift" L^2 / (2 sigma^2) and
        "noise", the rest of epsilon, negative where epsilon is smaller than the other two
        """
        parts = {}
        for name in ("RDP", "Hockey-stick"):
            if name in self.bounds and not (row := self._row(name))["refusal"]:
                jacobian = -np.log1p(-self.mechanism.curvature_ratio)
                shift = self.mechanism.sensitivity_ratio**2 / 2
                parts[name] = {"jacobian": jacobian, "shift": shift, "noise": row["epsilon"] - jacobian - shift}
        return parts

    def tables(self):
        """The curves, and the readouts."""
        summary = self.summary().rename_axis("bound").reset_index()
        return dict(zip(self.table_names, (self.curves(), summary), strict=True))

    def script(self):
        """Python that computes `curves`, log10 delta by name over `epsilon`, and prints epsilon at delta of each."""
        bounds = {name: bound for name, bound in self.bounds.items() if getattr(bound, "__module__", "") != "__main__"}
        own = [bound for bound in bounds.values() if not bound.__module__.startswith("explorer.accounting")]
        names = {bound.__qualname__ for bound in bounds.values() if bound not in own}
        return _SCRIPT.format(
            names="".join(f"    {name},\n" for name in sorted({"BoundNotApplicable", "ObjectivePerturbation", *names})),
            imports="".join(f"from {bound.__module__} import {bound.__qualname__}\n" for bound in own),
            mechanism=repr(self.mechanism),
            epsilon_max=self.epsilon_max,
            points=POINTS,
            bounds="".join(f"    {name!r}: {bound.__qualname__},\n" for name, bound in bounds.items()),
            delta=self.delta,
        )


def _axis(epsilon_max):
    return np.linspace(0, epsilon_max, POINTS)


# What all sessions of a process share: a class moves the same sliders over the same positions.


@lru_cache(maxsize=1024)
def _proof(bound, mechanism):
    """The bound of the mechanism, or the reason, str, why it does not apply."""
    try:
        return bound(mechanism)
    except BoundNotApplicable as reason:
        return str(reason)


@lru_cache(maxsize=4096)
def _curve(bound, mechanism, epsilon_max):
    """log10 delta over the axis, ndarray (POINTS,); nan where the bound does not apply."""
    proof = _proof(bound, mechanism)
    curve = np.full(POINTS, np.nan) if isinstance(proof, str) else proof.log_delta(_axis(epsilon_max)) / np.log(10)
    curve.setflags(write=False)
    return curve


@lru_cache(maxsize=4096)
def _row(bound, mechanism, *, epsilon, delta, lower, along):
    """The bound's row of the summary, but for the ratio; a dict that nobody changes.

    `along` is the end of the curve along which epsilon at delta is sought, where a bound has no faster way of its own.
    """
    proof = _proof(bound, mechanism)
    if isinstance(proof, str):
        return {"epsilon": np.nan, "log10_delta": np.nan, "refusal": proof}
    curve = _curve(bound, mechanism, along)
    searched = getattr(type(proof), "epsilon", None) is ProfileBound.epsilon
    if searched and curve[0] > np.log10(delta) >= curve[-1]:
        read = _read_along(curve, proof, epsilon_max=along, epsilon=epsilon, delta=delta, lower=lower)
    else:
        read = float(proof.epsilon(delta)), float(proof.log_delta(epsilon)) / np.log(10)
    return {"epsilon": read[0], "log10_delta": read[1], "refusal": ""}


def _read_along(curve, proof, *, epsilon_max, epsilon, delta, lower):
    """(epsilon at delta, log10 delta at epsilon) of a bound whose curve crosses delta, asked twice and not a dozen
    times: the former is still an epsilon at which it was asked, on the safe side and within 1e-5 of the axis."""

    def around(grid, log10_delta):
        # The first point at most at delta, and the one before it: also where rounding puts the very first there.
        i = max(1, int(np.argmax(log10_delta <= np.log10(delta))))
        return grid[i - 1], grid[i]

    grid = np.linspace(*around(_axis(epsilon_max), curve), 65)
    *log10_delta, at_epsilon = proof.log_delta(np.append(grid, epsilon)) / np.log(10)
    grid = np.linspace(*around(grid, np.array(log10_delta)), 65)
    before, after = around(grid, proof.log_delta(grid) / np.log(10))
    return float(before if lower else after), float(at_epsilon)


_SCRIPT = """\
import numpy as np

from explorer.accounting import (
{names})
{imports}
mechanism = {mechanism}
bounds = {{
{bounds}}}
epsilon = np.linspace(0, {epsilon_max!r}, {points})
curves = {{}}
for name, bound in bounds.items():
    try:
        proof = bound(mechanism)
    except BoundNotApplicable as reason:
        print(f"{{name}}: {{reason}}")
        continue
    curves[name] = proof.log_delta(epsilon) / np.log(10)
    print(f"{{name}}: epsilon = {{proof.epsilon({delta!r}):.6g}} at delta = {delta!r}")
"""
