"""The grid of the experiments: its cells and their seeds."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass
from itertools import product

import numpy as np

from explorer import datasets
from explorer.study.methods import LEARNING_RATES, METHODS, Method
from explorer.validation import natural, positive, real

PAPER_DATASETS = ("synthetic_l", "synthetic_h", "adult")
EPSILONS = (0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0)
DELTA = 1e-5
TRIALS, SPLITS = 10, 5


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One fit of the grid, or one selection among fits.

    Attributes
    ----------
    dataset, method : str, names in `explorer.datasets.DATASETS` and in `METHODS`
    epsilon, delta : float, nats and probability; infinity and NaN for a method that is not private
    trial : int >= 0
    learning_rate : float, or None for a method that does not take it from the grid
    """

    dataset: str
    method: str
    epsilon: float
    delta: float
    trial: int
    learning_rate: float | None = None

    @property
    def split(self) -> int:
        """Seed of the random split into training and test records: trials use five splits in turn."""
        return self.trial % SPLITS

    @property
    def seed(self) -> int:
        """Seed of all other randomness of the cell, int in 0..2^48-1.

        A hash of the coordinates, with numbers to six digits: it identifies the cell and depends neither on the rest of
        the grid nor on the order of execution.
        """
        coordinates = (f"{part:.6g}" if isinstance(part, float) else str(part) for part in astuple(self))
        return int.from_bytes(hashlib.sha256("|".join(coordinates).encode()).digest()[:6])


def grid(
    *,
    dataset: Sequence[str] = PAPER_DATASETS,
    method: Sequence[str] = tuple(METHODS),
    epsilon: Sequence[float] = EPSILONS,
    delta: float = DELTA,
    trials: int = TRIALS,
    learning_rates: Sequence[float] = LEARNING_RATES,
    methods: Mapping[str, Method] = METHODS,
) -> list[Cell]:
    """The cells of dataset x method x epsilon x trial x learning rate, in this order.

    A method varies with epsilon and with the learning rate only where its `axes` say so.

    Parameters
    ----------
    dataset, method : sequences of str
    epsilon, learning_rates : sequences of float > 0
    delta : float inside (0, 1)
    trials : int >= 1; trial t is on split t mod 5
    methods : dict of Method by name, the possible values of `method`

    Returns
    -------
    list of distinct Cell

    Raises
    ------
    ValueError for an unknown name, listing the known ones, and for a number out of range.
    """
    _known("dataset", dataset, datasets.DATASETS)
    _known("method", method, methods)
    epsilons = [positive("epsilon", value) for value in epsilon]
    rates = [positive("learning_rates", value) for value in learning_rates]
    delta = real("delta", delta, rule="inside (0, 1)", valid=lambda x: (x > 0) & (x < 1))
    cells = []
    for data, name in product(dataset, method):
        budgets = [(value, delta) for value in epsilons] if "epsilon" in methods[name].axes else [(np.inf, np.nan)]
        chosen = rates if "learning_rate" in methods[name].axes else [None]
        for (budget, risk), trial, rate in product(budgets, range(natural("trials", trials)), chosen):
            cells.append(Cell(dataset=data, method=name, epsilon=budget, delta=risk, trial=trial, learning_rate=rate))
    return list({cell.seed: cell for cell in cells}.values())


def _known(parameter, names, accepted):
    for name in names:
        if name not in accepted:
            raise ValueError(f"{parameter} must be one of {', '.join(accepted)}: got {parameter}={name!r}")
