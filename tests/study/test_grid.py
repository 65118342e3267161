"""The seed of a cell depends on nothing else in the grid."""

from dataclasses import replace

import numpy as np
import pytest

from explorer.study import EPSILONS, LEARNING_RATES, METHODS, Cell, grid


def test_seeds_never_change():
    """They are what makes a published cell repeatable: recorded here when the table was made."""
    amp = Cell(dataset="synthetic_l", method="amp_rdp", epsilon=0.1, delta=1e-5, trial=0)
    sgd = Cell(
        dataset="synthetic_l",
        method="dp_sgd_dishonest",
        epsilon=0.1,
        delta=1e-5,
        trial=0,
        learning_rate=LEARNING_RATES[4],
    )
    plain = Cell(dataset="synthetic_l", method="non_private", epsilon=np.inf, delta=np.nan, trial=0)
    assert (amp.seed, sgd.seed, plain.seed) == (243665212628614, 98918523588626, 203366625940698)


def test_seed_survives_another_rounding_of_the_learning_rates():
    cell = Cell(dataset="adult", method="dp_sgd_dishonest", epsilon=1.0, delta=1e-5, trial=1, learning_rate=1e-4)
    other = replace(cell, learning_rate=1.0000001e-4)
    assert cell.seed == other.seed


def test_no_two_cells_share_a_seed():
    cells = grid(trials=20)
    assert len({cell.seed for cell in cells}) == len(cells)


def test_seeds_do_not_depend_on_the_rest_of_the_grid():
    everything = {cell: cell.seed for cell in grid()}
    part = grid(
        dataset=["adult"], method=["dp_sgd_dishonest"], epsilon=[1], trials=2, learning_rates=LEARNING_RATES[:3]
    )
    assert len(part) == 6
    assert all(everything[cell] == cell.seed for cell in part)


def test_the_whole_grid():
    cells = grid()
    assert {cell.dataset for cell in cells} == {"synthetic_l", "synthetic_h", "adult"}
    for name, method in METHODS.items():
        expected = 3 * 10
        expected *= len(EPSILONS) if "epsilon" in method.axes else 1
        expected *= len(LEARNING_RATES) if "learning_rate" in method.axes else 1
        assert sum(cell.method == name for cell in cells) == expected
    assert {cell.split for cell in cells} == {0, 1, 2, 3, 4}
    assert all(np.isinf(cell.epsilon) and np.isnan(cell.delta) for cell in cells if cell.method == "non_private")


def test_repeated_coordinates_make_one_cell():
    assert len(grid(dataset=["adult", "adult"], method=["amp_rdp"], epsilon=[1, 1.0], trials=1)) == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"dataset": ["iris"]}, "dataset must be one of breast_cancer, .*adult, gisette: got dataset='iris'"),
        ({"method": ["amp"]}, "method must be one of amp_rdp, .*non_private: got method='amp'"),
        ({"epsilon": [0]}, "epsilon must be a finite number > 0"),
        ({"delta": 1}, r"delta must be inside \(0, 1\)"),
        ({"trials": 0}, "trials must be an integer >= 1"),
    ],
)
def test_bad_arguments(arguments, message):
    with pytest.raises(ValueError, match=message):
        grid(**arguments)
