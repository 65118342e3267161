"""The paper's experiments: from a grid of cells to one tidy table.

See `python -m explorer.study --help` for the command and `load_results` for the table that comes with the package.
"""

from explorer.study.grid import DELTA, EPSILONS, PAPER_DATASETS, SPLITS, TRIALS, Cell, grid
from explorer.study.methods import LEARNING_RATES, METHODS, Method
from explorer.study.results import load_provenance, load_published, load_results
from explorer.study.run import run_cell, run_cells, run_study
from explorer.study.summary import STANDARD_ERRORS, gain, paired, per_trial, summarise

__all__ = [
    "DELTA",
    "EPSILONS",
    "LEARNING_RATES",
    "METHODS",
    "PAPER_DATASETS",
    "SPLITS",
    "STANDARD_ERRORS",
    "TRIALS",
    "Cell",
    "Method",
    "gain",
    "grid",
    "load_provenance",
    "load_published",
    "load_results",
    "paired",
    "per_trial",
    "run_cell",
    "run_cells",
    "run_study",
    "summarise",
]
