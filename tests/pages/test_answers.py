"""No state hands out an answer to another question: each parameter is moved after each computation."""

import pandas as pd
import param
import pytest

from explorer.pages.bounds.state import BoundsState
from explorer.pages.calibrate import computation as calibrate
from explorer.pages.calibrate.state import CalibrateState
from explorer.pages.compare.state import CompareState
from explorer.pages.composition import state as composition
from explorer.pages.composition.state import CompositionState
from explorer.pages.fit.computation import run_fit
from explorer.pages.fit.state import FitState
from explorer.pages.glm.state import GLMState
from explorer.pages.half_normal.state import HalfNormalState
from explorer.pages.renyi.state import RenyiState
from explorer.pages.solvers.computation import run_growth, run_race
from explorer.pages.solvers.state import SolversState
from explorer.pages.spectrum.computation import compare_learners
from explorer.pages.spectrum.state import SpectrumState
from explorer.pages.state import Answer
from explorer.pages.worst_case.state import WorstCaseState

# Parameters with which a page computes in milliseconds, and what it computes, by the name of the Answer.
COMPUTED = {
    CompareState: ({}, {}),  # results are data: a row is of its own cell
    BoundsState: ({}, {}),
    RenyiState: ({}, {}),
    HalfNormalState: ({}, {}),
    FitState: (
        {"draws": 2, "dataset": "two_clouds", "epsilon": 4.0},
        {"result": lambda state: run_fit(**state.arguments())},
    ),
    GLMState: ({}, {}),
    WorstCaseState: ({}, {}),
    SolversState: (
        {"n_records": 64, "dimension": 2, "max_passes": 10, "sag": False, "svrg": False},
        {
            "race": lambda state: run_race(**state.race_arguments()),
            "growth": lambda state: run_growth(**state.growth_arguments() | {"sizes": (32,), "l2_regs": (1.0,)}),
        },
    ),
    CompositionState: ({"uses": 2}, {}),
    CalibrateState: ({}, {}),
    SpectrumState: (
        {"steps": 4, "sampled": False},
        {"comparison": lambda state: compare_learners(**state.arguments())},
    ),
}
CASES = [(kind, name) for kind, (start, _) in COMPUTED.items() for name in kind(**start).shared()]


@pytest.fixture(scope="module", autouse=True)
def few_points():
    """Where a table is a sweep, a few of its points tell as much."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(composition, "RUNS", (1, 20))
        patch.setattr(calibrate, "POINTS", {"few": (1, 2, 2), "many": (2, 3, 2)})
        yield


def another(state, name):
    """A value of the parameter that it does not have now."""
    parameter, value = state.param[name], getattr(state, name)
    if isinstance(parameter, param.Boolean):
        return not value
    if isinstance(parameter, param.ListSelector):
        return list(parameter.objects)[: 1 + (len(value) == 1)]
    if isinstance(parameter, param.Selector):
        return next(each for each in parameter.objects if each != value)
    low, high = parameter.bounds
    if isinstance(parameter, param.Integer):
        return value + 1 if value < high else value - 1
    return value * 1.01 if low <= value * 1.01 <= high and value else low + (high - low) / 1000


@pytest.fixture(scope="module")
def answers():
    """What each page computes, by state and name, once."""
    found = {}
    for kind, (start, computations) in COMPUTED.items():
        state = kind(**start)
        found[kind] = {name: compute(state) for name, compute in computations.items()}
    return found


def test_every_answer_of_every_state_is_moved_here():
    for kind, (_, computations) in COMPUTED.items():
        assert {name for name in dir(kind) if isinstance(getattr(kind, name), Answer)} == set(computations)


@pytest.mark.parametrize("kind, name", CASES, ids=[f"{kind.__name__}-{name}" for kind, name in CASES])
def test_no_table_answers_for_other_parameters(answers, kind, name):
    start = COMPUTED[kind][0]
    state = kind(**start)
    for answer, value in answers[kind].items():
        setattr(state, answer, value)
        assert getattr(state, answer) is value
    questions = {answer: getattr(state, getattr(kind, answer).question)() for answer in answers[kind]}
    setattr(state, name, another(state, name))
    fresh = kind(**start | {name: getattr(state, name)})
    for answer, value in answers[kind].items():
        same = getattr(state, getattr(kind, answer).question)() == questions[answer]
        assert getattr(state, answer) is (value if same else None)
        if same:
            setattr(fresh, answer, value)
    tables = fresh.tables()
    assert tables.keys() == state.tables().keys()
    for key, table in state.tables().items():
        pd.testing.assert_frame_equal(table, tables[key])


def test_an_answer_that_was_dropped_stays_dropped(answers):
    state = SolversState(**COMPUTED[SolversState][0])
    state.race = answers[SolversState]["race"]
    state.l2_reg *= 2
    assert state.race is None
    state.l2_reg /= 2
    assert state.race is None
