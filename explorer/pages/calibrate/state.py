"""The Calibrate page: from a privacy budget to Algorithm 1's noise and regularisation, and what they cost."""

from functools import lru_cache, partial
from typing import ClassVar, NamedTuple

import numpy as np
import pandas as pd
import param

from explorer.accounting import (
    ApproximateMinimaPerturbation,
    amp_accountant,
    calibrate,
    calibrate_gaussian,
    frontier,
)
from explorer.learning import best_on_frontier, excess_risk_bound
from explorer.pages.state import BOUND_KEYS, PageState, round_up

SLOW = "tight"  # 0.1 s for each value of the bound, ten of which make a point of the frontier
F_RANGE = (0.85, 20.0)  # of the noise in units of sigma_G: what the slider spans and the picture shows
DIGITS = 4  # of an f that is read off the picture: its field shows them all, and up it stays on its side of a wall
CHUNKS = 4  # parts of a frontier that are computed one after the other, each from end to end
POINT, LEAST = "point", "least"
PARTS = (POINT, *range(CHUNKS), LEAST)  # what is computed for each bound, in this order
POINTS = {"few": (3, 7, 4), "many": (3, 20, 9)}  # of a frontier: next to its wall, around its bend, to the right
EDGES = (1e-10, 1e-4, 1.0)  # where those begin: excess over the wall, relative
DRAWN, READ = 1e-4, 1e-9  # relative tolerance of lambda on a curve, and in a readout

_FRONTIER = ("epsilon", "delta", "lipschitz", "smoothness", "monotone_loss", "gradient_tol", "output_noise_std")
_PROBLEM = ("n_records", "dimension", "optimum_norm")

# Section 5 of the paper: logistic loss on rows of norm 1 and a constant column.
_PAPER = {
    "delta": 1e-5,
    "f": 1.3,
    "accountant": "renyi",
    "lipschitz": float(np.sqrt(2)),
    "smoothness": 0.5,
    "monotone_loss": True,
    "gradient_tol": 0.01,
    "output_noise_std": 0.15,
}
PRESETS = {f"Paper, ε = {epsilon:g}": {"epsilon": epsilon, **_PAPER} for epsilon in (0.1, 1.0, 8.0)}


class Point(NamedTuple):
    """A bound's least lambda at the noise f sigma_G, infinite where none is enough, and what its noise must exceed."""

    noise_std: float
    l2_reg: float
    wall: float


class Target(NamedTuple):
    """What a frontier depends on: the bound's name, Algorithm 1 with any noise and regularisation, epsilon, delta."""

    accountant: str
    mechanism: ApproximateMinimaPerturbation
    epsilon: float
    delta: float

    def arguments(self):
        """Those of `frontier` and `calibrate`: the bound, the family of mechanisms, the privacy target."""
        fixed = {name: getattr(self.mechanism, name) for name in _FRONTIER[2:]}
        family = partial(ApproximateMinimaPerturbation, **fixed)
        return amp_accountant(self.accountant), family, {"epsilon": self.epsilon, "delta": self.delta}


class CalibrateState(PageState):
    """A privacy budget, a loss, the chosen noise and proof, and the problem whose risk is bounded.

    The frontiers are those of Algorithm 1 with its output step, so that a point of one is what the Fit page runs.
    """

    presets: ClassVar = PRESETS
    table_names: ClassVar = ("calibrate", "calibrate_readouts")

    epsilon = param.Number(
        1.0,
        bounds=(0.01, 20),
        label="ε  privacy budget",
        doc="How much one record may change the odds of any outcome. Smaller is more private and costs more.",
    )
    delta = param.Number(
        1e-5,
        bounds=(1e-12, 0.1),
        label="δ  failure probability",
        doc="How often the ε promise may fail. Smaller is more private.",
    )
    f = param.Number(
        1.3,
        bounds=F_RANGE,
        label="f  noise σ = f σ_G",
        doc="The noise, in units of what the Gaussian mechanism needs; the paper's rule is 1.3. Every point of a "
        "frontier is equally private: more noise needs less λ.",
    )
    accountant = param.Selector(
        default="hockey_stick",
        objects=BOUND_KEYS,
        label="Proof",
        doc="Whose frontier the chosen point is on. A better proof needs less noise or λ for the same promise.",
    )
    lipschitz = param.Number(
        float(np.sqrt(2)),
        bounds=(0.01, 10),
        label="L  gradient norm",
        doc="Largest gradient one record can have, or the clipping norm. Larger needs more noise. "
        "Logistic loss on unit rows with a constant column has √2.",
    )
    smoothness = param.Number(
        0.5,
        bounds=(0.01, 100),
        label="β  smoothness",
        doc="Largest curvature one record can add. Larger needs more λ. "
        "Logistic loss on unit rows with a constant column has 1/2.",
    )
    monotone_loss = param.Boolean(
        True,
        label="Monotone loss",
        doc="Whether the loss's slope never changes sign, as for logistic loss. The proofs made here profit from it.",
    )
    gradient_tol = param.Number(
        0.01,
        bounds=(1e-16, 10),
        label="τ  gradient tolerance",
        doc="The solver must bring the gradient below this or nothing is released. Smaller needs less λ, more work.",
    )
    output_noise_std = param.Number(
        0.15,
        bounds=(0.001, 10),
        label="σ_out  output noise",
        doc="Noise added to the coefficients, hiding that the minimum is approximate. Larger needs less λ, and costs.",
    )
    n_records = param.Integer(
        455,
        bounds=(10, 10_000_000),
        label="n  records",
        doc="Size of the data. Privacy does not depend on it; it weighs τ and σ_out in the risk.",
    )
    dimension = param.Integer(
        31,
        bounds=(1, 100_000),
        label="d  coefficients",
        doc="Length of θ, its constant included. Privacy does not depend on it; the noise costs more with more.",
    )
    optimum_norm = param.Number(
        10.0,
        bounds=(0.01, 1000),
        label="R  norm of θ*",
        doc="How far from zero the best fit lies: an assumption, or from public data. Computed from your own data "
        "it would not be private.",
    )
    tight = param.Boolean(
        False,
        label="Tight proof too",
        doc="Also draw the frontier of the tightest proof made here: some ten seconds of computing.",
    )

    @property
    def gaussian(self):
        """sigma_G, the noise that the Gaussian mechanism needs for (epsilon, delta) and sensitivity L."""
        return calibrate_gaussian(epsilon=self.epsilon, delta=self.delta, sensitivity=self.lipschitz).value

    def names(self):
        """Names of the bounds that are asked for, in the order of the legend."""
        return [name for name, key in BOUND_KEYS.items() if key != SLOW or self.tight or self.accountant == SLOW]

    @property
    def chosen(self):
        """The name of the bound whose frontier the chosen point is on."""
        return next(name for name, key in BOUND_KEYS.items() if key == self.accountant)

    @staticmethod
    def needs(part):
        """Names of the parameters that a part of the computation depends on, set of str."""
        return {*_FRONTIER, *{POINT: ("f",), LEAST: _PROBLEM}.get(part, ())}

    def part(self, name, part):
        """A part of the named bound's numbers, kept for the next time.

        Returns
        -------
        POINT : Point; a number below CHUNKS : DataFrame of some points of the frontier, "noise_std" and "l2_reg";
        LEAST : RiskOptimum, the point of the frontier whose risk is bounded best
        """
        target = self._target(name)
        if part == POINT:
            return _point(target, self.f * self.gaussian)
        if part == LEAST:
            return _least(target, **{key: getattr(self, key) for key in _PROBLEM})
        return pd.DataFrame(dict(zip(("noise_std", "l2_reg"), _chunk(target, part), strict=True)))

    def parts(self, names=None):
        """All parts of the named bounds, or of all that are asked for, dict by (name, part)."""
        return {(name, part): self.part(name, part) for name in names or self.names() for part in PARTS}

    def curve(self, name, parts=None):
        """The named bound's frontier and the risk along it.

        Parameters
        ----------
        parts : dict of what is known, by (name, part), one of these points at least; or None for all

        Returns
        -------
        DataFrame: "noise_std" (increasing), "f" in units of sigma_G, "l2_reg" and "risk", of the points that are known
        """
        parts = self.parts([name]) if parts is None else parts
        curve = pd.concat([parts[name, part] for part in range(CHUNKS) if (name, part) in parts], ignore_index=True)
        least = parts.get((name, LEAST))
        if least and curve["noise_std"].min() < least.noise_std < curve["noise_std"].max():
            curve.loc[len(curve)] = least.noise_std, least.l2_reg
        curve = curve.sort_values("noise_std", ignore_index=True)
        curve.insert(1, "f", curve["noise_std"] / self.gaussian)
        curve["risk"] = self.risk(curve["noise_std"].to_numpy(), curve["l2_reg"].to_numpy()).total
        return curve

    def risk(self, noise_std, l2_reg):
        """The ExcessRisk of Algorithm 1 with this noise and regularisation; arrays broadcast."""
        return excess_risk_bound(
            noise_std=noise_std,
            l2_reg=l2_reg,
            **{name: getattr(self, name) for name in ("lipschitz", "gradient_tol", "output_noise_std", *_PROBLEM)},
        )

    def summary(self, parts=None):
        """The chosen noise and the point of least risk under each bound.

        Parameters
        ----------
        parts : dict of what is known, by (name, part), or None for all

        Returns
        -------
        DataFrame indexed by bound, of those whose POINT is known: "l2_reg" at f sigma_G and "risk" there (nan where no
        l2_reg is enough), "least_f", what f must exceed; "best_noise_std", "best_l2_reg" and "best_risk" (nan where
        not yet known); "refusal", why there is no l2_reg, or ""
        """
        parts = self.parts() if parts is None else parts
        rows = {}
        for name in (name for name in self.names() if (name, POINT) in parts):
            point, least = parts[name, POINT], parts.get((name, LEAST))
            finite, f = np.isfinite(point.l2_reg), point.wall / self.gaussian
            rows[name] = {
                "l2_reg": point.l2_reg if finite else np.nan,
                "risk": float(self.risk(point.noise_std, point.l2_reg).total) if finite else np.nan,
                "least_f": f,
                "best_noise_std": least.noise_std if least else np.nan,
                "best_l2_reg": least.l2_reg if least else np.nan,
                "best_risk": float(least.risk.total) if least else np.nan,
                "refusal": "" if finite else f"with so little noise no λ is enough: f must exceed {f:.6g}",
            }
        columns = ["l2_reg", "risk", "least_f", "best_noise_std", "best_l2_reg", "best_risk", "refusal"]
        return pd.DataFrame.from_dict(rows, orient="index", columns=columns)

    def pick(self, column, noise_std, value, curves):
        """Choose the bound and the noise of the point that is nearest, in the picture, to (noise_std, value).

        Parameters
        ----------
        column : "l2_reg" or "risk", what is upright in the picture
        noise_std, value : float, where the picture was touched; nothing happens if one is not positive
        curves : dict of DataFrame by name, what `curve` gave for each bound that is drawn
        """
        if not (noise_std > 0 and value > 0):
            return
        touched = np.log([noise_std, value])
        found = min(
            (_nearest(touched, curve, column, self._wall(name)), name)
            for name, curve in curves.items()
            if len(curve) > 1
        )
        (_, noise), name = found
        f = float(np.clip(round_up(noise / self.gaussian, digits=DIGITS), *F_RANGE))
        self.param.update(accountant=BOUND_KEYS[name], f=f)

    def go_to_least(self):
        """Move f to where the chosen bound's risk is least, as far as the slider goes."""
        best = self.part(self.chosen, LEAST)
        self.f = float(np.clip(round_up(best.noise_std / self.gaussian, digits=DIGITS), *F_RANGE))

    def fit_parameters(self):
        """The chosen point as parameters of the Fit page, dict by name; it then runs with this lambda.

        Raises ValueError where the chosen bound has no point at this noise.
        """
        summary = self.summary({(self.chosen, POINT): self.part(self.chosen, POINT)})
        if reason := summary.loc[self.chosen, "refusal"]:
            raise ValueError(reason)
        names = ("epsilon", "delta", "accountant", "gradient_tol", "output_noise_std")
        values = {name: getattr(self, name) for name in names}
        return {**values, "clip_norm": self.lipschitz, "l2_reg": float(summary.loc[self.chosen, "l2_reg"])}

    def tables(self):
        """The frontiers with their risk, tidy, and the readouts."""
        parts = self.parts()
        curves = pd.concat(
            [
                self.curve(name, parts).assign(bound=name)[["bound", "noise_std", "f", "l2_reg", "risk"]]
                for name in self.names()
            ]
        )
        readouts = self.summary(parts).rename_axis("bound").reset_index()
        return dict(zip(self.table_names, (curves, readouts), strict=True))

    def script(self):
        """Python that computes `curves` (noise_std, l2_reg, risk), `points` and `best` by name, and prints both."""
        values = {name: getattr(self, name) for name in (*_FRONTIER, *_PROBLEM, "f")}
        accountants = "".join(f"    {name!r}: {BOUND_KEYS[name]!r},\n" for name in self.names())
        constants = {"f_max": F_RANGE[1], "edges": EDGES, "drawn": DRAWN, "slow": SLOW}
        return _SCRIPT.format(accountants=accountants, few=POINTS["few"], many=POINTS["many"], **values, **constants)

    def _target(self, name):
        fixed = {key: getattr(self, key) for key in _FRONTIER[2:]}
        mechanism = ApproximateMinimaPerturbation(noise_std=1.0, l2_reg=1.0, **fixed)
        return Target(BOUND_KEYS[name], mechanism, self.epsilon, self.delta)

    def _wall(self, name):
        return _wall(self._target(name))


@lru_cache(maxsize=1000)
def _wall(target):
    """The smallest noise with which some lambda reaches the target: that of a lambda next to infinity."""
    bound, family, privacy = target.arguments()
    mechanism = target.mechanism
    l2_reg = 1e12 * (mechanism.smoothness + mechanism.gradient_tol / mechanism.output_noise_std)
    return calibrate(bound, partial(family, l2_reg=l2_reg), parameter="noise_std", **privacy).value


@lru_cache(maxsize=1000)
def _grid(target):
    """The noise of a frontier's points, ndarray: its excess over the wall, then itself, in steps of equal ratio."""
    wall, mechanism = _wall(target), target.mechanism
    gaussian = calibrate_gaussian(epsilon=target.epsilon, delta=target.delta, sensitivity=mechanism.lipschitz).value
    end = max(F_RANGE[1] * gaussian / wall, 3.0)
    close, bend, right = POINTS["few" if target.accountant == SLOW else "many"]
    excess = [np.geomspace(*EDGES[:2], close, endpoint=False), np.geomspace(*EDGES[1:], bend, endpoint=False)]
    return wall * np.concatenate([1 + np.concatenate(excess), np.geomspace(1 + EDGES[2], end, right)])


@lru_cache(maxsize=10_000)
def _chunk(target, number):
    """Every CHUNKS-th point of the frontier: noise and lambda."""
    bound, family, privacy = target.arguments()
    noise_std = _grid(target)[number::CHUNKS]
    return noise_std, frontier(bound, family, noise_std=noise_std, tolerance=DRAWN, **privacy)


@lru_cache(maxsize=10_000)
def _point(target, noise_std):
    bound, family, privacy = target.arguments()
    wall = _wall(target)
    if noise_std <= wall:  # without a search for what is not there
        return Point(noise_std, np.inf, wall)
    return Point(noise_std, float(frontier(bound, family, noise_std=noise_std, tolerance=READ, **privacy)), wall)


@lru_cache(maxsize=1000)
def _least(target, **problem):
    bound, family, privacy = target.arguments()
    noise_std, l2_reg = np.concatenate([_chunk(target, number) for number in range(CHUNKS)], axis=1)
    order = np.argsort(noise_std)
    return best_on_frontier(bound, family, noise_std=noise_std[order], l2_reg=l2_reg[order], **privacy, **problem)


_ASPECT = 7.0  # a decade of sigma is about that many times as long in the picture as one of what is upright


def _nearest(touched, curve, column, wall):
    """(squared distance, noise) of the point of a curve, drawn by its vertices, nearest to `touched`, in logarithms."""
    stretch = np.array([_ASPECT, 1.0])
    vertices = np.log(curve[["noise_std", column]].to_numpy()) * stretch
    start, step = vertices[:-1], np.diff(vertices, axis=0)
    along = np.clip(((touched * stretch - start) * step).sum(axis=1) / (step**2).sum(axis=1), 0, 1)
    distance = ((start + along[:, None] * step - touched * stretch) ** 2).sum(axis=1)
    i = int(np.argmin(distance))
    low, high = np.log(curve["noise_std"].to_numpy()[i : i + 2] - wall)  # what lambda is nearly a power of
    return float(distance[i]), float(wall + np.exp(low + along[i] * (high - low)))


_SCRIPT = """\
from functools import partial

import numpy as np

from explorer.accounting import (
    ApproximateMinimaPerturbation,
    amp_accountant,
    calibrate,
    calibrate_gaussian,
    frontier,
)
from explorer.learning import best_on_frontier, excess_risk_bound

accountants = {{
{accountants}}}
lipschitz, smoothness = {lipschitz!r}, {smoothness!r}
gradient_tol, output_noise_std = {gradient_tol!r}, {output_noise_std!r}
family = partial(
    ApproximateMinimaPerturbation,
    lipschitz=lipschitz,
    smoothness=smoothness,
    gradient_tol=gradient_tol,
    output_noise_std=output_noise_std,
    monotone_loss={monotone_loss!r},
)
target = {{"epsilon": {epsilon!r}, "delta": {delta!r}}}
problem = {{"n_records": {n_records!r}, "dimension": {dimension!r}, "optimum_norm": {optimum_norm!r}}}
risk = partial(
    excess_risk_bound,
    lipschitz=lipschitz,
    gradient_tol=gradient_tol,
    output_noise_std=output_noise_std,
    **problem,
)
gaussian = calibrate_gaussian(**target, sensitivity=lipschitz).value
chosen = {f!r} * gaussian

curves, points, best = {{}}, {{}}, {{}}
for name, accountant in accountants.items():
    bound = amp_accountant(accountant)
    shrunk = partial(family, l2_reg=1e12 * (smoothness + gradient_tol / output_noise_std))
    wall = calibrate(bound, shrunk, parameter="noise_std", **target).value
    close, bend, right = {few!r} if accountant == {slow!r} else {many!r}
    noise_std = [
        wall * (1 + np.geomspace({edges[0]!r}, {edges[1]!r}, close, endpoint=False)),
        wall * (1 + np.geomspace({edges[1]!r}, {edges[2]!r}, bend, endpoint=False)),
        wall * np.geomspace(1 + {edges[2]!r}, max({f_max!r} * gaussian / wall, 3.0), right),
    ]
    noise_std = np.concatenate(noise_std)
    l2_reg = frontier(bound, family, noise_std=noise_std, **target, tolerance={drawn!r})
    curves[name] = noise_std, l2_reg, risk(noise_std=noise_std, l2_reg=l2_reg).total
    points[name] = frontier(bound, family, noise_std=chosen, **target)
    best[name] = best_on_frontier(bound, family, noise_std=noise_std, l2_reg=l2_reg, **target, **problem)
    print(f"{{name}}: lambda = {{points[name]:.6g}} at sigma = {{chosen:.6g}}; sigma must exceed {{wall:.6g}}")
    print(
        f"{{name}}: least risk {{best[name].risk.total:.4g}} "
        f"at sigma = {{best[name].noise_std:.4g}}, lambda = {{best[name].l2_reg:.4g}}"
    )
"""
