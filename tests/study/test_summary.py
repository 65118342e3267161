"""Means over trials, and the plots and tables made of them."""

import re
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pytest

from explorer.study import LEARNING_RATES, METHODS, gain, load_published, paired, per_trial, summarise
from explorer.study.report import figures, page

PROVENANCE = {
    "machine": {"system": "Linux", "processor": "x86_64", "cores": 2, "memory_gb": 8.0},
    "libraries": {"python": "3.11.0", "numpy": "2.0.0"},
    "sessions": [{"seconds": 5400}, {"seconds": 1800}],
}


@pytest.fixture(scope="module")
def results():
    """A made-up table: accuracy is 0.8, higher by trial, by method in the order of METHODS and at middling rates."""
    rows = []
    for dataset in ("synthetic_l", "adult"):
        for place, (name, method) in enumerate(METHODS.items()):
            rates = LEARNING_RATES if "learning_rate" in method.axes else [np.nan]
            for epsilon in [0.1, 1.0, 8.0] if method.axes else [np.inf]:
                for trial in range(10):
                    for index, rate in enumerate(rates):
                        accuracy = 0.8 + 0.002 * trial + 0.01 * place - 0.01 * (index - 4) ** 2 * (len(rates) > 1)
                        rows.append((dataset, name, epsilon, 1e-5, trial, trial % 5, rate, accuracy))
    columns = ["dataset", "method", "epsilon", "delta", "trial", "split", "learning_rate", "accuracy"]
    frame = pd.DataFrame(rows, columns=columns).assign(noise_std=2.0, noise_multiplier=3.0, l2_reg=4.0, error="")
    return frame.assign(seed=np.arange(len(frame)))


def test_the_best_learning_rate_of_each_trial(results):
    best = per_trial(results)
    dishonest = best[best["method"] == "dp_sgd_dishonest"]
    assert len(dishonest) == 2 * 3 * 10
    assert set(dishonest["learning_rate"]) == {LEARNING_RATES[4]}


def test_tables_put_together_need_no_new_index(results):
    halves = results.iloc[::2], results.iloc[1::2]
    together = pd.concat([half.reset_index(drop=True) for half in halves])
    columns = ["dataset", "method", "epsilon", "accuracy"]
    expected = summarise(results)[columns].sort_values(columns, ignore_index=True)
    pd.testing.assert_frame_equal(summarise(together)[columns].sort_values(columns, ignore_index=True), expected)


def test_means_and_margins(results):
    table = summarise(results).set_index(["dataset", "method", "epsilon"])
    row = table.loc["adult", "amp_rdp", 1.0]
    trials = 0.8 + 0.002 * np.arange(10)
    assert row["trials"] == 10
    assert row["accuracy"] == pytest.approx(trials.mean())
    assert row["margin"] == pytest.approx(1.96 * trials.std(ddof=1) / np.sqrt(10))
    assert (row["lowest"], row["highest"]) == (pytest.approx(0.8), pytest.approx(0.818))
    assert table.loc[("adult", "non_private", np.inf), "trials"] == 10


def test_failed_cells_are_left_out(results):
    some = results.copy()
    some.loc[(some["method"] == "amp_rdp") & (some["trial"] == 3), "accuracy"] = np.nan
    table = summarise(some)
    assert set(table.loc[table["method"] == "amp_rdp", "trials"]) == {9}


def test_paired_has_a_row_for_each_trial(results):
    table = paired(results[(results["method"] != "amp_exact") | (results["trial"] > 0)])
    assert len(table) == 2 * (3 * 10 + 10)
    row = table.loc["adult", 1.0, 1e-5, 3]
    assert row["amp_rdp"] == pytest.approx(0.806)
    assert np.isnan(row["non_private"])
    assert np.isnan(table.loc[("adult", 1.0, 1e-5, 0), "amp_exact"])


def test_gain_compares_trial_by_trial(results):
    table = gain(results, "amp_exact", over="amp_rdp")
    assert len(table) == 6
    np.testing.assert_allclose(table["gain"], 0.02)
    np.testing.assert_allclose(table["margin"], 0, atol=1e-12)


def test_published_numbers_are_the_papers(experiments_reference):
    names = {"dp_sgd_dishonest": "dishonest", "amp_rdp": "algorithm_1", "dp_sgd_honest_rdp": "honest"}
    published = load_published()
    assert len(published) == 18
    for row in published.itertuples():
        paper = experiments_reference[row.dataset]["paper"][names[row.method]]
        assert 100 * row.accuracy == pytest.approx(paper[f"{row.epsilon:g}"])


def test_the_page_shows_the_tables_numbers(results):
    text = page(results, PROVENANCE)
    assert "in 2.0 hours on 2 cores (Linux, x86_64, 8 GB; python 3.11.0, numpy 2.0.0)" in text
    assert "| Algorithm 1 | 80.90 ± 0.38 | 90.05 |" in text
    assert "-9.2 on Synthetic-L at ε = 0.1" in text
    assert "Of 6 cells each: Algorithm 1, hockey-stick: above its margin in 6, below in 0;" in text
    assert "| Algorithm 1, exact | +2.00 ± 0.00 |" in text
    assert "| privacy profile over Rényi | +1.00 ± 0.00 |" in text
    widths = {
        block: {line.count("|") for line in block.splitlines()} for block in re.findall(r"(?:^\|.*\n)+", text, re.M)
    }
    assert len(widths) == 9
    assert all(len(width) == 1 for width in widths.values())


def test_a_plot_for_each_dataset_with_a_curve_for_each_method(results):
    plots = figures(results)
    assert set(plots) == {"accuracy_synthetic_l.svg", "accuracy_adult.svg"}
    for text in plots.values():
        root = ElementTree.fromstring(text)
        lines = root.findall("{http://www.w3.org/2000/svg}polyline")
        assert len(lines) == len(METHODS) - 1
        for line in lines:
            points = np.array([point.split(",") for point in line.get("points").split()], float)
            assert points.shape == (3, 2)
            assert (np.diff(points[:, 0]) > 0).all()
            assert ((points[:, 1] >= 40) & (points[:, 1] <= 400)).all()
        shown = {element.text for element in root.iter("{http://www.w3.org/2000/svg}text")}
        assert {method.label for method in METHODS.values()} <= shown
