"""The Compare page: the study's numbers, paired by trial; live cells are added, and repeat those of the table."""

import numpy as np
import pandas as pd
import pytest

from explorer.pages.compare import state as compare
from explorer.pages.compare.computation import (
    HONEST,
    LABELS,
    QUESTIONS,
    RANGE,
    Results,
    part_done,
    planned_cells,
    run_live,
)
from explorer.pages.compare.state import ABOUT, DATASETS, CompareState
from explorer.study import EPSILONS, LEARNING_RATES, METHODS, gain, grid, load_published, per_trial, summarise
from explorer.study.results import COLUMNS, SHIPPED
from tests.pages.test_answers import another


def made_up(dataset="synthetic_l", *, trials=6, seed=0):
    """A table of the grid with accuracies that rise with epsilon, by method in its place, with noise by trial."""
    rng, rows = np.random.default_rng(seed), []
    for cell in grid(dataset=(dataset,), epsilon=(0.1, 0.5, 1.0), trials=trials, learning_rates=(0.01, 0.1)):
        level = 0.7 + 0.05 * np.log10(min(cell.epsilon, 10)) + 0.01 * list(METHODS).index(cell.method)
        row = {"accuracy": level + 0.002 * rng.standard_normal(), "error": "", "seed": cell.seed, "split": cell.split}
        rows.append({**{name: getattr(cell, name, np.nan) for name in COLUMNS}, **row})
    return pd.DataFrame(rows, columns=COLUMNS).astype({"learning_rate": float, "l2_reg": float})


@pytest.fixture
def state():
    return CompareState(stored=Results(made_up()), dataset="synthetic_l", epsilon=0.5)


def test_every_method_dataset_and_question_has_a_name():
    assert list(LABELS) == list(METHODS)
    assert len(set(LABELS.values())) == len(LABELS)
    assert set(ABOUT) == set(DATASETS.values())
    assert {name for pair in QUESTIONS.values() for name in pair} <= set(METHODS)
    assert set(METHODS) - set(HONEST) == {"dp_sgd_dishonest", "non_private"}
    assert {key[1] for key in compare.CAUSES} <= set(METHODS)


def test_means_are_the_studys(state):
    expected = summarise(state.stored.frame).set_index(["method", "epsilon"])
    table = state.means()
    stored = table[table["source"] == "stored"].set_index(["method", "epsilon"])
    assert len(stored) == len(expected)
    for name in ("accuracy", "trials", "lowest", "highest"):
        pd.testing.assert_series_equal(stored[name], expected.loc[stored.index, name], check_dtype=False)
    np.testing.assert_allclose(1.96 * stored["standard_error"], expected.loc[stored.index, "margin"])
    np.testing.assert_allclose(stored["high"] - stored["low"], 2 * expected.loc[stored.index, "margin"])
    state.band = RANGE
    stored = state.means().query("source == 'stored'")
    assert (stored["low"] == stored["lowest"]).all()
    assert (stored["high"] == stored["highest"]).all()


def test_the_papers_values_are_beside_them(state):
    paper = state.means().query("source == 'paper'")
    expected = load_published().query("dataset == 'synthetic_l'")
    assert len(paper) == len(expected) == 9
    assert paper["accuracy"].sum() == pytest.approx(expected["accuracy"].sum())
    assert paper["trials"].isna().all()
    state.methods = ["amp_rdp"]
    assert set(state.shown()["method"]) == {"amp_rdp"}


@pytest.mark.parametrize("question", QUESTIONS)
@pytest.mark.parametrize("epsilon", [0.1, 1.0])
def test_answers_are_paired_gains(state, question, epsilon):
    state.epsilon = epsilon
    method, over = QUESTIONS[question]
    expected = gain(state.stored.frame, method, over=over).set_index("epsilon").loc[epsilon]
    answer = state.differences()[question]
    assert answer.mean == pytest.approx(expected["gain"])
    assert answer.standard_error == pytest.approx(expected["margin"] / 1.96)
    assert answer.clear == (abs(expected["gain"]) > 2 * expected["margin"] / 1.96)


def test_the_best_honest_method_and_whom_it_beats(state):
    method, accuracy, beaten = state.best()
    table = per_trial(state.stored.frame).query("epsilon == 0.5")
    honest = table[table["method"].isin(HONEST)].groupby("method")["accuracy"].mean()
    assert (method, accuracy) == (honest.idxmax(), pytest.approx(honest.max()))
    assert list(beaten) == list(honest.sort_values(ascending=False).index[1:])
    for other, gap in beaten.items():
        assert gap.mean == pytest.approx(honest.max() - honest[other])
        assert gap.mean >= 0


def test_within_two_standard_errors_nothing_is_clear():
    same = made_up()
    rows = same["method"] == "amp_exact"
    shift = np.resize([0.01, -0.01], rows.sum())
    paired = same.loc[same["method"] == "amp_rdp", "accuracy"].to_numpy()
    same.loc[rows, "accuracy"] = paired + shift
    state = CompareState(stored=Results(same), epsilon=0.1)
    answer = state.differences()["Exact over the paper's accounting"]
    assert not answer.clear
    assert answer.standard_error == pytest.approx(0.01 * np.sqrt(6 / 5) / np.sqrt(6))
    same.loc[rows, "accuracy"] = paired + shift + 0.02
    assert CompareState(stored=Results(same), epsilon=0.1).differences()["Exact over the paper's accounting"].clear


def test_one_trial_has_no_error_and_no_clear_difference():
    state = CompareState(stored=Results(made_up(trials=1)), epsilon=0.1)
    answer = state.differences()["Exact over the paper's accounting"]
    assert np.isfinite(answer.mean)
    assert np.isnan(answer.standard_error)
    assert not answer.clear


@pytest.mark.parametrize("dataset", DATASETS.values())
def test_without_any_table_the_papers_values_stay(dataset):
    state = CompareState(stored=None, dataset=dataset)
    assert set(state.means()["source"]) <= {"paper"}
    assert (state.source(), state.best(), state.remarks()) == ("", None, [])
    assert all(np.isnan(answer.mean) for answer in state.differences().values())
    assert tuple(state.tables()) == state.table_names


def test_differences_from_the_paper_are_remarked_on():
    papers = load_published().set_index(["dataset", "method", "epsilon"])["accuracy"]
    table = made_up()
    keys = table[["dataset", "method", "epsilon"]].itertuples(index=False, name=None)
    table["accuracy"] = [papers.get(key, 0.5) + 0.009 for key in keys]
    state = CompareState(stored=Results(table))
    np.testing.assert_allclose(state.against_the_paper()["points"], 0.9)
    assert len(state.against_the_paper()) == 6
    assert state.remarks() == []
    table.loc[(table["method"] == "dp_sgd_dishonest") & (table["epsilon"] == 0.1), "accuracy"] = 0.9072
    table.loc[(table["method"] == "amp_rdp") & (table["epsilon"] == 1), "accuracy"] = 0.964
    first, second = CompareState(stored=Results(table)).remarks()
    assert first == (
        "DP-SGD, dishonest at ε = 0.1: 90.72 % here, 93.85 % in the paper (−3.1 points; the cause is unknown)."
    )
    assert second.startswith("Algorithm 1, Rényi at ε = 1: 96.40 % here, 94.50 % in the paper (+1.9 points; ")


def test_plan_of_a_live_run():
    state = CompareState(dataset="breast_cancer", live_methods=["amp_rdp", "dp_sgd_dishonest"], trials=2, first_trial=7)
    cells = state.cells()
    assert {cell.trial for cell in cells} == {7, 8}
    assert [cell.trial for cell in cells] == sorted(cell.trial for cell in cells)
    assert {cell.epsilon for cell in cells} == {state.epsilon}
    assert len(cells) == 2 * (1 + len(LEARNING_RATES))
    state.all_epsilons = True
    assert {cell.epsilon for cell in state.cells()} == set(EPSILONS)
    state.dataset = "adult"
    assert state.cells() == []
    state.param.update(dataset="synthetic_l", live_methods=[])
    assert state.cells() == []


def test_cells_are_of_the_trials_asked_for():
    trials = {("non_private", None): [4, 2], ("dp_sgd_dishonest", 0.5): [2], ("non_private", 0.5): [2]}
    cells = planned_cells(dataset="breast_cancer", trials=trials)
    assert [(cell.method, cell.trial) for cell in cells[::10]] == [("non_private", 2), ("dp_sgd_dishonest", 2)]
    assert (len(cells), cells[-1].trial, cells[0].epsilon) == (2 + len(LEARNING_RATES), 4, np.inf)
    whole = grid(dataset=("breast_cancer",), method=("non_private", "dp_sgd_dishonest"), epsilon=(0.5,), trials=5)
    assert {cell.seed for cell in cells} <= {cell.seed for cell in whole}


@pytest.fixture(scope="module")
def live_run():
    """Messages and value of a small live run, and its cells."""
    methods = ["amp_rdp", "dp_sgd_dishonest", "non_private"]
    state = CompareState(stored=None, dataset="breast_cancer", live_methods=methods, trials=2, epsilon=2.0)
    messages = []
    return state.cells(), run_live(cells=state.cells(), report=messages.append), messages


def test_a_live_run_reports_whole_trials(live_run):
    cells, result, messages = live_run
    assert list(result["seed"]) == [cell.seed for cell in cells]
    assert (result["error"] == "").all()
    assert [len(table) for table, _ in messages] == [1, 10, 1] * 2
    pd.testing.assert_frame_equal(pd.concat([table for table, _ in messages], ignore_index=True), result)


def test_part_done_weighs_methods_by_their_seconds(live_run):
    cells, _, messages = live_run
    timed = [(table, seconds) for (table, _), seconds in zip(messages, [1, 10, 1, 1, 10, 1], strict=True)]
    assert part_done(cells, timed[:1]) == pytest.approx(1 / 6)
    assert part_done(cells, timed[:3]) == pytest.approx(1 / 2)
    assert part_done(cells, timed[:4]) == pytest.approx(13 / 24)
    assert part_done(cells, timed) == 1


def test_live_cells_join_and_repeat(live_run):
    _, result, _ = live_run
    state = CompareState(stored=Results(result.iloc[:3]), dataset="breast_cancer", epsilon=2.0)
    assert state.repeated() == (0, 0)
    state.add_live([result.iloc[:5]])
    state.add_live([result.iloc[3:]])
    assert len(state.live.frame) == len(result)
    assert state.repeated() == (3, 0)
    table = state.means().query("source == 'live'").set_index("method")
    best = result[result["method"] == "dp_sgd_dishonest"].groupby("trial")["accuracy"].max()
    assert table.loc["dp_sgd_dishonest", "accuracy"] == pytest.approx(best.mean())
    assert table.loc["amp_rdp", "trials"] == 2
    other = CompareState(stored=Results(result.assign(accuracy=0.5)), dataset="breast_cancer")
    other.add_live([result])
    assert other.repeated() == (len(result), len(result))


@pytest.mark.parametrize("name", CompareState.shared())
def test_live_rows_are_those_of_their_cells_whatever_moves(live_run, name):
    _, result, _ = live_run
    state = CompareState(stored=None, dataset="breast_cancer", epsilon=2.0)
    state.add_live([result])
    setattr(state, name, another(state, name))
    expected = per_trial(result).groupby(["dataset", "method", "epsilon"])["accuracy"].mean()
    expected = expected[expected.index.get_level_values("dataset") == state.dataset].droplevel("dataset")
    found = state.means().query("source == 'live'").set_index(["method", "epsilon"])["accuracy"].sort_index()
    pd.testing.assert_series_equal(found, expected.sort_index(), check_index_type=False)
    trials = state.tables()["compare_trials"]
    assert set(trials["dataset"]) <= {state.dataset} and set(trials["method"]) <= set(state.methods)


def test_a_dataset_without_stored_results_is_read_from_live_ones(live_run):
    _, result, _ = live_run
    state = CompareState(stored=Results(made_up()), dataset="breast_cancer", epsilon=2.0)
    assert state.source() == ""
    state.add_live([result])
    assert (state.source(), state.best()[0]) == ("live", "amp_rdp")
    state.dataset = "synthetic_l"
    assert state.source() == "stored"
    assert "live" not in set(state.means()["source"])


@pytest.mark.parametrize("name", CompareState.presets)
def test_presets_choose_methods(name, state):
    state.apply_preset(name)
    assert state.methods == CompareState.presets[name]["methods"]
    assert set(state.methods) <= set(METHODS)


@pytest.mark.skipif(not SHIPPED.exists(), reason="no table of results is in the package yet: make study")
@pytest.mark.parametrize("dataset", ["synthetic_l", "synthetic_h", "adult"])
def test_the_shipped_table_answers_everything(dataset):
    state = CompareState(dataset=dataset)
    assert state.source() == "stored"
    for epsilon in EPSILONS:
        state.epsilon = epsilon
        assert state.best()[0] in HONEST
        assert all(np.isfinite(answer.standard_error) for answer in state.differences().values())
