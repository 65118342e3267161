"""The pairs of noise sigma and regularisation lambda that a privacy budget allows, and the excess risk of each.

For each bound, the frontier of Algorithm 1 is lambda(sigma) = min {lambda : delta_{sigma, lambda}(epsilon) <= delta}.
It falls with sigma and exists above the bound's noise limit, which is at least sigma_G, the noise of the Gaussian
mechanism. Along it, `explorer.learning.excess_risk_bound` is computed.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from explorer.accounting import (
    ApproximateMinimaPerturbation,
    amp_accountant,
    calibrate,
    calibrate_gaussian,
    frontier,
)
from explorer.learning import ExcessRisk, RiskOptimum, best_on_frontier, excess_risk_bound
from explorer.vocabulary import ACCOUNTANTS, BOUNDS

LABELS = {key: BOUNDS[key].label for key in ACCOUNTANTS}
F_RANGE = (0.85, 20.0)  # of the noise in units of sigma_G: what the slider spans and the figure shows
CHUNKS = 4  # parts of a frontier that are computed one after the other, each from end to end
POINT, LEAST = "point", "least"
PARTS = (POINT, *range(CHUNKS), LEAST)  # what is computed for each bound, in this order
POINTS = {"few": (3, 7, 4), "many": (3, 20, 9)}  # of a frontier: close to its noise limit, around its bend, beyond
EDGES = (1e-10, 1e-4, 1.0)  # where those ranges begin: excess over the noise limit, relative
DRAWN, READ = 1e-4, 1e-9  # relative tolerance of lambda on a curve, and in a readout
NEARLY_INFINITE = 1e12  # lambda in units of the curvature it has to outweigh

READOUTS = ["l2_reg", "risk", "least_f", "best_noise_std", "best_l2_reg", "best_risk", "refusal"]
_ASPECT = 7.0  # a decade of sigma is about this many times as long in the figure as a decade on the y-axis


class Point(NamedTuple):
    """A bound's smallest lambda at one noise.

    Attributes
    ----------
    noise_std : float, sigma
    l2_reg : float, lambda; infinite where no lambda is large enough
    noise_limit : float, what sigma must exceed for this bound
    """

    noise_std: float
    l2_reg: float
    noise_limit: float


Part = Point | tuple[np.ndarray, np.ndarray] | RiskOptimum  # what `compute_part` returns


class Target(NamedTuple):
    """Everything that a frontier depends on.

    Attributes
    ----------
    bound : str, what `amp_accountant` accepts
    mechanism : ApproximateMinimaPerturbation, Algorithm 1 with any noise and regularisation
    epsilon : float > 0, nats
    delta : float inside (0, 1)
    """

    bound: str
    mechanism: ApproximateMinimaPerturbation
    epsilon: float
    delta: float

    def arguments(self):
        """Those of `frontier` and `calibrate`: the bound, the family of mechanisms, epsilon and delta by name."""
        names = ("lipschitz", "smoothness", "monotone_loss", "gradient_tol", "output_noise_std")
        fixed = {name: getattr(self.mechanism, name) for name in names}
        family = partial(ApproximateMinimaPerturbation, **fixed)
        return amp_accountant(self.bound), family, {"epsilon": self.epsilon, "delta": self.delta}


class Problem(NamedTuple):
    """What the excess risk depends on beside the mechanism: see `excess_risk_bound`."""

    n_records: int
    dimension: int
    optimum_norm: float


class Question(NamedTuple):
    """Everything that one part of a bound's numbers depends on; the arguments of `compute_part`.

    Attributes
    ----------
    target : Target
    part : POINT, a number below CHUNKS, or LEAST
    given : float for POINT, the noise; Problem for LEAST; None for a number
    """

    target: Target
    part: str | int
    given: float | Problem | None


@dataclass(frozen=True, kw_only=True)
class Settings:
    """A privacy budget, Algorithm 1 but for its noise and regularisation, the chosen noise, and the learning problem.

    Attributes
    ----------
    epsilon : float > 0, nats; delta : float inside (0, 1)
    f : float > 0, the chosen noise in units of sigma_G
    lipschitz, smoothness, monotone_loss, gradient_tol, output_noise_std : as in `ApproximateMinimaPerturbation`
    n_records, dimension, optimum_norm : as in `excess_risk_bound`
    """

    epsilon: float
    delta: float
    f: float
    lipschitz: float
    smoothness: float
    monotone_loss: bool
    gradient_tol: float
    output_noise_std: float
    n_records: int
    dimension: int
    optimum_norm: float

    @property
    def gaussian(self) -> float:
        """sigma_G, the noise that the Gaussian mechanism needs for (epsilon, delta) and sensitivity L."""
        return _gaussian(self.epsilon, self.delta, self.lipschitz)

    @property
    def noise_std(self) -> float:
        """The chosen noise, sigma = f sigma_G."""
        return self.f * self.gaussian

    def question(self, bound: str, part: str | int) -> Question:
        """The Question that the named part of this bound's numbers answers."""
        mechanism = ApproximateMinimaPerturbation(
            noise_std=1.0,
            l2_reg=1.0,
            lipschitz=self.lipschitz,
            smoothness=self.smoothness,
            monotone_loss=self.monotone_loss,
            gradient_tol=self.gradient_tol,
            output_noise_std=self.output_noise_std,
        )
        problem = Problem(self.n_records, self.dimension, self.optimum_norm)
        given = self.noise_std if part == POINT else problem if part == LEAST else None
        return Question(Target(bound, mechanism, self.epsilon, self.delta), part, given)

    def risk(self, noise_std: ArrayLike, l2_reg: ArrayLike) -> ExcessRisk:
        """The ExcessRisk of Algorithm 1 with this noise and regularisation; arrays broadcast."""
        return excess_risk_bound(
            noise_std=noise_std,
            l2_reg=l2_reg,
            lipschitz=self.lipschitz,
            gradient_tol=self.gradient_tol,
            output_noise_std=self.output_noise_std,
            n_records=self.n_records,
            dimension=self.dimension,
            optimum_norm=self.optimum_norm,
        )


def compute_part(target: Target, part: str | int, given: float | Problem | None) -> Part:
    """One part of a bound's numbers; the arguments are the fields of a `Question`.

    Returns
    -------
    POINT : Point; a number below CHUNKS : the noise and lambda of every CHUNKS-th point of the frontier, two ndarrays;
    LEAST : RiskOptimum, the point of the frontier with the smallest excess risk
    """
    if part == POINT:
        return _point(target, given)
    counts = POINTS["few" if target.bound == "exact" else "many"]
    if part == LEAST:
        return _least_risk(target, given, counts)
    return _frontier_points(target, part, counts)


def all_parts(settings: Settings, *, bounds: Iterable[str]) -> dict[Question, Part]:
    """Every part of these bounds' numbers, dict by `Question`."""
    questions = [settings.question(bound, part) for bound in bounds for part in PARTS]
    return {question: compute_part(*question) for question in questions}


def frontier_curve(settings: Settings, *, bound: str, parts: dict[Question, Part]) -> pd.DataFrame:
    """A bound's frontier and the excess risk along it.

    Parameters
    ----------
    settings : Settings
    bound : str
    parts : dict of what `compute_part` returned, by Question: all or some of the frontier's, and LEAST

    Returns
    -------
    DataFrame of the points that are known: "noise_std" (increasing), "f" in units of sigma_G, "l2_reg" and "risk"
    """
    questions = [settings.question(bound, part) for part in range(CHUNKS)]
    noise_std, l2_reg = np.concatenate([parts[each] for each in questions if each in parts], axis=1)
    least = parts.get(settings.question(bound, LEAST))
    if isinstance(least, RiskOptimum) and noise_std.min() < least.noise_std < noise_std.max():
        noise_std, l2_reg = np.append(noise_std, least.noise_std), np.append(l2_reg, least.l2_reg)
    order = np.argsort(noise_std, kind="stable")
    noise_std, l2_reg = noise_std[order], l2_reg[order]
    risk = settings.risk(noise_std, l2_reg).total
    return pd.DataFrame({"noise_std": noise_std, "f": noise_std / settings.gaussian, "l2_reg": l2_reg, "risk": risk})


def frontiers(settings: Settings, *, bounds: Iterable[str]) -> pd.DataFrame:
    """The frontiers of these bounds, each as `frontier_curve` gives it, after a column "bound" (its label)."""
    bounds = list(bounds)
    parts = all_parts(settings, bounds=bounds)
    curves = [
        frontier_curve(settings, bound=bound, parts=parts)
        .assign(bound=LABELS[bound])
        .reindex(columns=["bound", "noise_std", "f", "l2_reg", "risk"])
        for bound in bounds
    ]
    return pd.concat(curves)


def readouts(settings: Settings, *, bounds: Iterable[str], parts: dict[Question, Part] | None = None) -> pd.DataFrame:
    """The chosen noise and the point of least risk for each bound.

    Parameters
    ----------
    settings : Settings
    bounds : iterable of str
    parts : dict of what `compute_part` returned, by Question, or None for all

    Returns
    -------
    DataFrame indexed by the label of each bound whose POINT is known: "l2_reg" at f sigma_G and "risk" there (nan where
    no l2_reg is enough), "least_f", what f must exceed; "best_noise_std", "best_l2_reg" and "best_risk" (nan where
    not known); "refusal", why there is no l2_reg, or ""
    """
    bounds = list(bounds)
    parts = all_parts(settings, bounds=bounds) if parts is None else parts
    rows = {}
    for bound in bounds:
        point = parts.get(settings.question(bound, POINT))
        if point is not None:
            rows[LABELS[bound]] = _readout(settings, point, parts.get(settings.question(bound, LEAST)))
    return pd.DataFrame.from_dict(rows, orient="index", columns=READOUTS)


def nearest_point(
    curve: pd.DataFrame, *, column: str, noise_std: float, value: float, noise_limit: float
) -> tuple[float, float]:
    """The point of a frontier nearest to a place in the figure, whose axes are logarithmic.

    Parameters
    ----------
    curve : DataFrame, what `frontier_curve` gave, of at least two points
    column : "l2_reg" or "risk", what is on the y-axis
    noise_std, value : float > 0, the place
    noise_limit : float, what `find_noise_limit` gave for the bound

    Returns
    -------
    squared distance in the figure, and the noise there: float, float
    """
    stretch = np.array([_ASPECT, 1.0])
    place = np.log([noise_std, value]) * stretch
    vertices = np.log(curve[["noise_std", column]].to_numpy()) * stretch
    start, step = vertices[:-1], np.diff(vertices, axis=0)
    along = np.clip(((place - start) * step).sum(axis=1) / (step**2).sum(axis=1), 0, 1)
    distance = ((start + along[:, None] * step - place) ** 2).sum(axis=1)
    i = int(np.argmin(distance))
    # between two vertices, lambda is nearly a power of the excess over the limit
    low, high = np.log(curve["noise_std"].to_numpy()[i : i + 2] - noise_limit)
    return float(distance[i]), float(noise_limit + np.exp(low + along[i] * (high - low)))


@lru_cache(maxsize=1000)
def find_noise_limit(target: Target) -> float:
    """The noise above which some lambda reaches the target: the smallest noise at an almost infinite lambda."""
    bound, family, privacy = target.arguments()
    mechanism = target.mechanism
    l2_reg = NEARLY_INFINITE * (mechanism.smoothness + mechanism.gradient_tol / mechanism.output_noise_std)
    return calibrate(bound, partial(family, l2_reg=l2_reg), parameter="noise_std", **privacy).value


@lru_cache(maxsize=1000)
def _gaussian(epsilon, delta, lipschitz):
    return calibrate_gaussian(epsilon=epsilon, delta=delta, sensitivity=lipschitz).value


@lru_cache(maxsize=1000)
def _grid(target, counts):
    """The noise of a frontier's points, ndarray: first its excess over the limit in equal ratios, then itself."""
    limit = find_noise_limit(target)
    end = max(F_RANGE[1] * _gaussian(target.epsilon, target.delta, target.mechanism.lipschitz) / limit, 3.0)
    close, bend, beyond = counts
    excess = [np.geomspace(*EDGES[:2], close, endpoint=False), np.geomspace(*EDGES[1:], bend, endpoint=False)]
    return limit * np.concatenate([1 + np.concatenate(excess), np.geomspace(1 + EDGES[2], end, beyond)])


@lru_cache(maxsize=10_000)
def _frontier_points(target, number, counts):
    """Every CHUNKS-th point of the frontier: noise and lambda."""
    bound, family, privacy = target.arguments()
    noise_std = _grid(target, counts)[number::CHUNKS]
    return noise_std, frontier(bound, family, noise_std=noise_std, tolerance=DRAWN, **privacy)


@lru_cache(maxsize=10_000)
def _point(target, noise_std):
    bound, family, privacy = target.arguments()
    limit = find_noise_limit(target)
    if noise_std <= limit:  # no lambda is large enough: do not search for one
        return Point(noise_std, np.inf, limit)
    return Point(noise_std, float(frontier(bound, family, noise_std=noise_std, tolerance=READ, **privacy)), limit)


@lru_cache(maxsize=1000)
def _least_risk(target, problem, counts):
    bound, family, privacy = target.arguments()
    points = [_frontier_points(target, number, counts) for number in range(CHUNKS)]
    noise_std, l2_reg = np.concatenate(points, axis=1)
    order = np.argsort(noise_std)
    points = {"noise_std": noise_std[order], "l2_reg": l2_reg[order]}
    return best_on_frontier(bound, family, **points, **privacy, **problem._asdict())


def _readout(settings, point, least):
    """A row of `readouts`; `least` is None where it is not known."""
    finite, least_f = np.isfinite(point.l2_reg), point.noise_limit / settings.gaussian
    refusal = f"f must exceed {least_f:.6g}: got f={settings.f!r}, at which no l2_reg reaches epsilon and delta"
    return {
        "l2_reg": point.l2_reg if finite else np.nan,
        "risk": float(settings.risk(point.noise_std, point.l2_reg).total) if finite else np.nan,
        "least_f": least_f,
        "best_noise_std": least.noise_std if least else np.nan,
        "best_l2_reg": least.l2_reg if least else np.nan,
        "best_risk": float(least.risk.total) if least else np.nan,
        "refusal": "" if finite else refusal,
    }
