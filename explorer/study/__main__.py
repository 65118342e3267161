"""`python -m explorer.study` runs the experiments and prints the mean accuracies."""

import argparse
import shlex
import sys
from collections.abc import Sequence

from explorer import datasets
from explorer.study.grid import DELTA, EPSILONS, PAPER_DATASETS, TRIALS, grid
from explorer.study.methods import LEARNING_RATES, METHODS
from explorer.study.run import run_study
from explorer.study.summary import summarise

_EPILOG = """\
methods:
{methods}

A cell is one fit, or one selection among fits, with its own seed, so its result does not depend on the other cells.
After Ctrl-C the same command completes the table; failed cells are run again. Adult and Gisette are read from the
folder that the environment variable EXPLORER_DATA_HOME names, or fetched from OpenML.

examples:
  python -m explorer.study --dataset synthetic_l --epsilon 0.1 1 8 --method amp_rdp amp_exact --trials 5
  python -m explorer.study --dataset gisette --output gisette.csv
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Parse the command line, run the missing cells, print the mean accuracies; return the exit status."""
    arguments = sys.argv[1:] if arguments is None else arguments
    parser = _parser()
    options = parser.parse_args(arguments)
    try:
        cells = grid(
            dataset=options.dataset,
            method=options.method,
            epsilon=options.epsilon,
            delta=options.delta,
            trials=options.trials,
            learning_rates=options.learning_rate,
        )
    except ValueError as error:
        parser.error(str(error))
    command = shlex.join(["python", "-m", "explorer.study", *arguments])
    try:
        results = run_study(cells, options.output, jobs=options.jobs, client=options.dask, command=command)
    except KeyboardInterrupt:
        print(f"\nstopped; run the same command again to complete {options.output}", file=sys.stderr)
        return 130
    seeds = {cell.seed for cell in cells}
    return _report(results[results["seed"].isin(seeds)], options.output)


def _parser():
    width = max(map(len, METHODS))
    methods = "\n".join(f"  {name:{width}}  {method.label}" for name, method in METHODS.items())
    parser = argparse.ArgumentParser(
        prog="python -m explorer.study",
        description="Accuracy of private learners on a grid: dataset x method x epsilon x trial x learning rate.",
        epilog=_EPILOG.format(methods=methods),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    names = f"any of {', '.join(datasets.DATASETS)}"
    add(
        "--dataset",
        nargs="+",
        default=PAPER_DATASETS,
        metavar="NAME",
        help=f"{names} (default: {' '.join(PAPER_DATASETS)})",
    )
    add("--method", nargs="+", default=tuple(METHODS), metavar="NAME", help="any of the methods below (default: all)")
    add(
        "--epsilon",
        nargs="+",
        type=float,
        default=EPSILONS,
        help="privacy budgets, nats (default: nine from 0.025 to 8)",
    )
    add("--delta", type=float, default=DELTA, help="failure probability (default: %(default)g)")
    add("--trials", type=int, default=TRIALS, help="trials of each cell, on five splits in turn (default: %(default)s)")
    add(
        "--learning-rate",
        nargs="+",
        type=float,
        default=LEARNING_RATES,
        metavar="RATE",
        help="learning rates of dishonest DP-SGD (default: the ten from 1e-5 to 0.1 that honest DP-SGD draws from)",
    )
    add("--output", default="study.csv", metavar="FILE", help="table to write or complete (default: %(default)s)")
    add("--jobs", type=int, default=-1, help="processes on this machine (default: one for each core)")
    add("--dask", metavar="ADDRESS", help="run on the cluster of this Dask scheduler instead (extra: cluster)")
    return parser


def _report(results, output):
    """Print mean accuracies in percent and the failed cells; return 1 if there are any, else 0."""
    table = summarise(results)
    for dataset, part in table.groupby("dataset", sort=False):
        print(f"\n{dataset}: mean test accuracy in percent by epsilon")
        print((100 * part.pivot(index="method", columns="epsilon", values="accuracy")).round(2).to_string(na_rep=""))
    failed = results[results["error"] != ""]
    print(f"\n{len(results)} cells in {output}; {len(failed)} failed")
    for error, cells in failed.groupby("error"):
        print(f"  {len(cells)} x {error}")
    return 1 if len(failed) else 0


if __name__ == "__main__":
    sys.exit(main())
