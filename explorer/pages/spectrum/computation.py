"""Three learners with the same privacy guarantee, and the correlation of their noise between steps.

DP-SGD adds fresh noise at each step, DP-FTRL that of a binary tree of partial sums, Algorithm 1 one draw b for all
steps.

Unit of all noise: steps are weighted so that together they make one pass over the records, and S_t is the sum of the
first t steps' gradients. A step on all records has weight 1/T, a step on about n/T of them has weight 1. The noise of
S_T is then the noise added to the sum of all records' gradients, in units of the bound L = 1 on a single one.
"""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from explorer import datasets
from explorer.accounting import BoundNotApplicable, InfeasibleTarget, PoissonSubsampledGaussian
from explorer.learning import (
    AMPClassifier,
    DPFTRLClassifier,
    DPGDClassifier,
    DPSGDClassifier,
    Logistic,
    PerturbedObjective,
    PrivacyStatement,
    Records,
    tree_noise_covariance,
)
from explorer.learning.solvers import newton
from explorer.vocabulary import CURVES

DP_SGD, DP_FTRL, ALGORITHM_1 = LEARNERS = tuple(CURVES[key].label for key in ("dp_sgd", "dp_ftrl", "algorithm_1"))
GRADIENT_TOL, OUTPUT_NOISE_STD = 1e-4, 0.01  # of Algorithm 1; small, so that nearly all of its noise is b
WINDOW = (-1.0, 6.0), (-4.5, 1.5)  # smallest ranges of the two coefficients in the figure
FARTHEST = 15.0  # largest size of a coefficient in the figure
GRID = 31  # values of each coefficient at which the loss is computed for its contours

Window = tuple[tuple[float, float], tuple[float, float]]
READOUTS = ["step_std", "final_std", "draws", "successive_correlation", "excess", "epsilon", "delta", "bound"]


@dataclass(frozen=True)
class NoisyFit:
    """One fit and its noise, in the unit of the module's docstring.

    Attributes
    ----------
    privacy : PrivacyStatement
    covariance : ndarray (T, T), of one coordinate of the steps' noise
    noise : ndarray (T,), the first coordinate of the noise in this fit
    path : ndarray (k, 2), the start, the iterates and last the released coefficients
    draws : int, number of random vectors drawn, output noise included
    """

    privacy: PrivacyStatement
    covariance: np.ndarray
    noise: np.ndarray
    path: np.ndarray
    draws: int

    @property
    def prefix_covariance(self) -> np.ndarray:
        """Covariance of the noise of S_1, ..., S_T, ndarray (T, T)."""
        return self.covariance.cumsum(axis=0).cumsum(axis=1)

    def shown_matrix(self, *, prefix_sums: bool, absolute: bool) -> np.ndarray:
        """Covariances (absolute) or correlations of the noise of the prefix sums or of the steps, ndarray (T, T)."""
        covariance = self.prefix_covariance if prefix_sums else self.covariance
        return covariance if absolute else correlation(covariance)

    def shown_noise(self, *, prefix_sums: bool, absolute: bool) -> tuple[np.ndarray, np.ndarray]:
        """Noise of one coordinate against step, and its standard deviation (1 unless absolute): two ndarrays (T,)."""
        noise = self.noise.cumsum() if prefix_sums else self.noise
        std = np.sqrt(np.diag(self.prefix_covariance if prefix_sums else self.covariance))
        return (noise, std) if absolute else (noise / std, np.ones(len(noise)))


@dataclass(frozen=True)
class Comparison:
    """The three learners with the same privacy guarantee.

    Attributes
    ----------
    fits : dict of NoisyFit by learner
    refusals : dict of str by learner, why it cannot reach the privacy guarantee
    readouts : DataFrame, what `summarise` returns
    window : ((low, high), (low, high)), ranges of both coefficients that show the fits
    landscape : what `landscape` returns for the window
    """

    fits: dict[str, NoisyFit]
    refusals: dict[str, str]
    readouts: pd.DataFrame
    window: Window
    landscape: tuple[np.ndarray, np.ndarray, np.ndarray]


def compare_learners(
    *,
    steps: int,
    epsilon: float,
    delta: float,
    learning_rate: float,
    l2_reg: float,
    sampled: bool,
    seed: int,
) -> Comparison:
    """Fit the three learners to the records of `plane` with the same privacy guarantee.

    Parameters
    ----------
    steps : int >= 2, T, of DP-SGD and DP-FTRL
    epsilon : float > 0, nats; delta : float inside (0, 1)
    learning_rate : float > 0, of DP-SGD and DP-FTRL, for the mean gradient
    l2_reg : float > 0, lambda of Algorithm 1
    sampled : bool, whether each step of DP-SGD is on a random sample, each record with probability 1/T, rather than on
        all records
    seed : int, of the noise and of the samples

    Returns
    -------
    Comparison
    """
    fits, refusals = {}, {}
    learners = specifications(
        steps=steps,
        epsilon=epsilon,
        delta=delta,
        learning_rate=learning_rate,
        l2_reg=l2_reg,
        sampled=sampled,
        seed=seed,
    )
    for name, (kind, parameters) in learners.items():
        try:
            fits[name] = _watch_fit(name, kind(**parameters), steps=steps, sampled=sampled)
        except InfeasibleTarget as reason:
            needed = reason.needed.get("l2_reg")
            refusals[name] = f"l2_reg must exceed {needed:.6g} for this ε and δ" if needed else str(reason)
        except BoundNotApplicable as reason:
            refusals[name] = str(reason)
    shown = window(fits)
    return Comparison(fits, refusals, summarise(fits, refusals), shown, landscape(shown))


def specifications(
    *,
    steps: int,
    epsilon: float,
    delta: float,
    learning_rate: float,
    l2_reg: float,
    sampled: bool,
    seed: int,
) -> dict[str, tuple[type, dict]]:
    """Class and parameters of the three learners, dict by name; the arguments are those of `compare_learners`."""
    n = len(plane()[1])
    given = {"epsilon": epsilon, "delta": delta, "fit_intercept": False, "random_state": seed}
    descent = {**given, "learning_rate": learning_rate}
    passes = {"batch_size": n / steps, "epochs": 1} if sampled else {"steps": steps}
    on_sums = {**given, "learning_rate": learning_rate * steps / n}
    certified = {"gradient_tol": GRADIENT_TOL, "output_noise_std": OUTPUT_NOISE_STD, "solver": "gradient_descent"}
    return {
        DP_SGD: (DPSGDClassifier if sampled else DPGDClassifier, {**descent, **passes}),
        DP_FTRL: (DPFTRLClassifier, {**on_sums, "steps": steps, "epochs": 1}),
        ALGORITHM_1: (AMPClassifier, {**given, "l2_reg": l2_reg, **certified}),
    }


def summarise(fits: dict[str, NoisyFit], refusals: dict[str, str]) -> pd.DataFrame:
    """The readouts of each learner.

    Returns
    -------
    DataFrame indexed by learner: "step_std" and "final_std", standard deviations of the noise in a step (root mean
    square over the steps) and in S_T; "draws"; "successive_correlation", the mean over successive steps; "excess",
    by how much the mean loss at the released point exceeds its minimum, in nats; "epsilon", "delta", "bound"; and
    "refusal", why a learner cannot reach the guarantee (then the numbers are nan) or ""
    """
    rows = {}
    for name in LEARNERS:
        rows[name] = {"refusal": refusals.get(name, "")}
        if name in fits:
            fit = fits[name]
            rows[name] |= {
                "step_std": np.sqrt(np.diag(fit.covariance).mean()),
                "final_std": np.sqrt(fit.covariance.sum()),
                "draws": fit.draws,
                "successive_correlation": np.diag(correlation(fit.covariance), 1).mean(),
                "excess": float(excess(fit.path[-1])),
                "epsilon": fit.privacy.epsilon,
                "delta": fit.privacy.delta,
                "bound": fit.privacy.bound,
            }
    return pd.DataFrame.from_dict(rows, orient="index").reindex(columns=[*READOUTS, "refusal"])


def noise_table(fits: dict[str, NoisyFit]) -> pd.DataFrame:
    """Noise against step, tidy: "learner", "step", "noise" and its "std", "prefix_noise" and its "prefix_std"."""
    tables = [
        pd.DataFrame(
            {
                "learner": name,
                "step": np.arange(1, len(fit.noise) + 1),
                "noise": fit.noise,
                "std": np.sqrt(np.diag(fit.covariance)),
                "prefix_noise": fit.noise.cumsum(),
                "prefix_std": np.sqrt(np.diag(fit.prefix_covariance)),
            }
        )
        for name, fit in fits.items()
    ]
    return _stacked(tables)


def covariance_table(fits: dict[str, NoisyFit]) -> pd.DataFrame:
    """Covariances, tidy: "learner", "step", "other_step", "covariance" of the steps and "prefix_covariance"."""
    tables = []
    for name, fit in fits.items():
        steps = np.arange(1, len(fit.noise) + 1)
        pairs = {"step": np.repeat(steps, len(steps)), "other_step": np.tile(steps, len(steps))}
        values = {"covariance": fit.covariance.ravel(), "prefix_covariance": fit.prefix_covariance.ravel()}
        tables.append(pd.DataFrame({"learner": name, **pairs, **values}))
    return _stacked(tables)


def path_table(fits: dict[str, NoisyFit]) -> pd.DataFrame:
    """Paths of the coefficients, tidy: "learner", "step", "theta_1" and "theta_2"."""
    tables = []
    for name, fit in fits.items():
        path = {"step": np.arange(len(fit.path)), "theta_1": fit.path[:, 0], "theta_2": fit.path[:, 1]}
        tables.append(pd.DataFrame({"learner": name, **path}))
    return _stacked(tables)


def correlation(covariance: np.ndarray) -> np.ndarray:
    """The correlation matrix of a covariance matrix, ndarray of its shape."""
    std = np.sqrt(np.diag(covariance))
    return covariance / np.outer(std, std)


@lru_cache(maxsize=1)
def plane() -> tuple[np.ndarray, np.ndarray]:
    """The synthetic records, X (n, 2) and y (n,)."""
    return datasets.logistic_plane()


@lru_cache(maxsize=1)
def minimum() -> np.ndarray:
    """The coefficients without privacy or regularisation, ndarray (2,)."""
    X, y = plane()
    records = Records(X, np.where(y == 1, 1.0, -1.0), data_norm=1.0, constant=False)
    objective = PerturbedObjective(records, loss=Logistic(), l2_reg=0.0, linear_term=np.zeros(2))
    return newton(objective, gradient_tol=1e-9).x


def excess(theta: ArrayLike) -> np.ndarray:
    """By how much the mean loss of the records exceeds its minimum: theta (..., 2) to ndarray (...), nats."""
    X, y = plane()
    signs = np.where(y == 1, 1.0, -1.0)
    here, least = (Logistic().value(np.asarray(point) @ X.T, signs).mean(axis=-1) for point in (theta, minimum()))
    return here - least


@lru_cache(maxsize=32)
def landscape(window: Window) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """`excess` over ((low, high), (low, high)): two ndarrays (GRID,) and one (GRID, GRID), rows by the second."""
    first, second = (np.linspace(*ends, GRID) for ends in window)
    return first, second, excess(np.stack(np.meshgrid(first, second), axis=-1))


def window(fits: dict[str, NoisyFit]) -> Window:
    """The ranges of both coefficients that show WINDOW and, up to FARTHEST, every path: ((low, high), (low, high))."""
    points = np.vstack([np.transpose(WINDOW), *(fit.path for fit in fits.values())])
    left, bottom = np.maximum(np.floor(2 * points.min(axis=0)) / 2, -FARTHEST).tolist()
    right, top = np.minimum(np.ceil(2 * points.max(axis=0)) / 2, FARTHEST).tolist()
    return (left, right), (bottom, top)


def step_weight(name: str, *, steps: int, sampled: bool) -> float:
    """Weight of a step of a learner in one pass over the records, float; see the module's docstring."""
    on_part = name == DP_FTRL or (name == DP_SGD and sampled)
    return 1.0 if on_part else 1 / steps


def _watch_fit(name, learner, *, steps, sampled):
    """The NoisyFit of a learner, from what it reports to its parameter `watch`."""
    seen = []
    learner.set_params(watch=lambda *reported: seen.append(reported)).fit(*plane())
    thetas, noise = (np.array(column) for column in zip(*seen, strict=True))
    if name == ALGORITHM_1:  # it reports from the start to the last point before the output noise
        path, noise = np.vstack([thetas, learner.coef_]), np.tile(noise[0], (steps, 1))
    else:
        path = np.vstack([np.zeros(2), thetas])
    mechanism, weight = learner.privacy_.mechanism, step_weight(name, steps=steps, sampled=sampled)
    subsampled = isinstance(mechanism, PoissonSubsampledGaussian)
    std = mechanism.noise_multiplier if subsampled else mechanism.noise_std  # L = 1
    return NoisyFit(
        privacy=learner.privacy_,
        covariance=(weight * std) ** 2 * _COVARIANCES[name](steps),
        noise=weight * noise[:, 0],
        path=path,
        draws=_DRAWS[name](steps),
    )


def _stacked(tables):
    return pd.concat(tables, ignore_index=True) if tables else pd.DataFrame(columns=["learner"])


_COVARIANCES = {  # of the steps' noise, in units of its variance
    DP_SGD: np.eye,
    DP_FTRL: tree_noise_covariance,
    ALGORITHM_1: lambda steps: np.ones((steps, steps)),
}
_DRAWS = {
    DP_SGD: lambda steps: steps,
    DP_FTRL: lambda steps: sum(steps >> level for level in range(steps.bit_length())),  # one for each complete node
    ALGORITHM_1: lambda steps: 2,  # b and the output noise
}
