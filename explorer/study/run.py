"""Runs the cells of a grid, on the cores of this machine or on a Dask cluster, and writes an interruptible table."""

import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from functools import cache, lru_cache, partial
from pathlib import Path
from typing import Any

import pandas as pd
from joblib import Parallel, delayed, effective_n_jobs, parallel_config
from threadpoolctl import ThreadpoolController
from tqdm import tqdm

from explorer import datasets
from explorer.study.grid import Cell
from explorer.study.methods import METHODS, Method
from explorer.study.results import ResultsFile, add_session, done_seeds, frame_of, load_results

_progress = partial(tqdm, unit="cell", smoothing=0, mininterval=0.5 if sys.stderr.isatty() else 30)


def run_cell(cell: Cell, *, methods: Mapping[str, Method] = METHODS) -> dict:
    """Run one cell; the result depends on nothing but the cell.

    Parameters
    ----------
    cell : Cell
    methods : dict of Method by name

    Returns
    -------
    dict of `explorer.study.results.OUTCOMES`; only "error" if the dataset or the method raised an exception
    """
    try:
        with _threads().limit(limits=1):  # cells run in parallel, and sums must not depend on the number of cores
            return methods[cell.method].fit(
                _loaded(cell.dataset, cell.split),
                epsilon=cell.epsilon,
                delta=cell.delta,
                learning_rate=cell.learning_rate,
                random_state=cell.seed,
            )
    except Exception as error:
        return {"error": f"{type(error).__name__}: {error}"}


def run_cells(cells: Iterable[Cell], *, methods: Mapping[str, Method] = METHODS) -> pd.DataFrame:
    """Run cells sequentially, without a file.

    Parameters
    ----------
    cells : iterable of Cell
    methods : dict of Method by name

    Returns
    -------
    DataFrame as of `load_results`, in the order of the cells
    """
    return frame_of((cell, run_cell(cell, methods=methods)) for cell in cells)


def run_study(
    cells: Sequence[Cell],
    output: str | Path,
    *,
    methods: Mapping[str, Method] = METHODS,
    jobs: int = -1,
    client: Any = None,
    progress: Callable = _progress,
    command: str = "",
) -> pd.DataFrame:
    """Run the cells that are missing in the table at `output` or have an error there, and add them to it.

    Each cell is written as soon as it is done, so an interrupted run can be continued.

    Parameters
    ----------
    cells : list of Cell, such as `grid(...)`
    output : path of the table, a CSV file; a JSON file beside it records how it was computed
    methods : dict of Method by name
    jobs : int, number of processes on this machine; -1 for one on each core
    client : a Dask Client or the address of a scheduler, to run on its cluster instead; workers that need local data
        must have EXPLORER_DATA_HOME set
    progress : callable (iterable, total=int) to an iterable, a progress bar
    command : str, recorded in the JSON file

    Returns
    -------
    DataFrame as of `load_results`, of the whole table
    """
    file, done = ResultsFile(output), done_seeds(output)
    todo = _in_running_order([cell for cell in cells if cell.seed not in done])
    if todo:
        date, start, added = datetime.now(UTC).date().isoformat(), time.monotonic(), 0
        try:
            for cell, outcome in progress(_outcomes(todo, methods, jobs, client), total=len(todo)):
                file.append(cell, outcome)
                added += 1
        finally:
            seconds = round(time.monotonic() - start)
            where = effective_n_jobs(jobs) if client is None else "cluster"
            session = {"date": date, "command": command, "jobs": where, "cells": added, "seconds": seconds}
            add_session(output, session)
    file.finish()
    return load_results(output)


def _in_running_order(cells):
    """By dataset and split, so that a process needs one at a time; then shuffled, so that progress is uniform."""
    order = list(dict.fromkeys(cell.dataset for cell in cells))
    return sorted(cells, key=lambda cell: (order.index(cell.dataset), cell.split, cell.seed))


def _outcomes(cells, methods, jobs, client):
    """Pairs of a cell and its outcome, in the order in which they are done."""
    backend = {"backend": "loky"}
    if client is not None:
        backend = {"backend": "dask", "scheduler_host" if isinstance(client, str) else "client": client}
    with parallel_config(**backend):
        parallel = Parallel(n_jobs=jobs, return_as="generator_unordered", batch_size=1)
        yield from parallel(delayed(_pair)(cell, methods[cell.method]) for cell in cells)


def _pair(cell, method):
    return cell, run_cell(cell, methods={cell.method: method})


def _loaded(name, split):
    data = _loaded_or_error(name, split)
    if isinstance(data, Exception):
        raise data
    return data


@lru_cache(maxsize=2)
def _loaded_or_error(name, split):
    try:
        return datasets.load(name, split_seed=split)
    except Exception as error:  # cached as well: files that are missing for one cell are missing for all
        return error


@cache
def _threads():
    return ThreadpoolController()
