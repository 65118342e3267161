"""The Fit page's view: draws as they are reported, cancelling, moved parameters, uploads, refusals."""

import asyncio
import time

import numpy as np
import pytest

from explorer import uploads
from explorer.compute.inline import InlineEngine
from explorer.compute.local import LocalEngine
from explorer.pages.fit import view as fit
from explorer.pages.fit.computation import run_fit
from explorer.pages.fit.state import CERTIFICATE, FitState
from explorer.pages.fit.view import FitView
from tests.interface.event_loop import job, run_concurrently
from tests.interface.words import said

PATIENCE = 60
CSV = "\n".join(["a,b,kind", *(f"{i % 13},{i % 7},{'xy'[i % 2]}" for i in range(80))]).encode()


@pytest.fixture
def view():
    return FitView(FitState(draws=4), engine=LocalEngine(max_workers=1, max_queued=0))


def slow_fit(*, report, **arguments):
    report(run_fit(**{**arguments, "draws": 2}))
    time.sleep(PATIENCE)


def drive(view, act=lambda: asyncio.sleep(0)):
    """Run the view's fit and `act`, a coroutine function, beside it."""
    run_concurrently(job(view.runner, view.run), act, seconds=PATIENCE)
    assert view.runner.job is None


def plots(view):
    return {picture.plot.name: picture for pictures in view.pictures.values() for picture in pictures}


def drawn(view, plot, source, column):
    return np.asarray(getattr(plots(view)[plot], source).data[column], float)


async def started(view):
    for _ in range(PATIENCE * 20):
        if len(drawn(view, "fit", "draws", "draw")):
            return
        await asyncio.sleep(0.05)
    raise AssertionError("the fit reported nothing")


def test_every_plot_shows_the_result_and_nothing_is_left_when_a_parameter_moves(view):
    drive(view)
    result = view.state.result
    np.testing.assert_array_equal(drawn(view, "fit", "draws", "accuracy"), result.draws["accuracy"])
    for column, value in zip(("low", "median of the draws", "high"), result.band, strict=True):
        np.testing.assert_array_equal(drawn(view, "fit", "levels", column), [value, value])
    np.testing.assert_array_equal(
        drawn(view, "fit_certificate", "draws", "gradient_norm"), result.draws["gradient_norm"]
    )
    np.testing.assert_array_equal(drawn(view, "fit_descent", "source", "gradient norm"), result.trace["gradient_norm"])
    assert "Certificate holds: all 4 draws" in plots(view)["fit_certificate"].plot.title.text
    assert "in the median of 4 draws" in said(view.readouts)
    assert "holds" in said(view.readouts)
    assert "standardised" in view.notes.object and view.notes.visible
    view.state.section = CERTIFICATE  # another part of the same result
    assert view.state.result is result
    view.state.epsilon = 2.0
    assert view.state.result is None
    assert "Press <b>Train</b>" in said(view.readouts)
    assert not view.notes.visible
    for plot, source in (("fit", "draws"), ("fit", "levels"), ("fit_certificate", "draws"), ("fit_descent", "source")):
        assert all(len(column) == 0 for column in getattr(plots(view)[plot], source).data.values())


def test_a_result_stays_while_a_parameter_that_it_does_not_depend_on_moves(view):
    drive(view)
    result, numbers = view.state.result, said(view.readouts)
    view.state.first_feature = 5  # not used without `two_features`
    assert view.state.result is result
    np.testing.assert_array_equal(drawn(view, "fit", "draws", "accuracy"), result.draws["accuracy"])
    assert said(view.readouts) == numbers
    assert view.notes.visible


def test_a_cancelled_repetition_leaves_the_result_as_it_was(view, monkeypatch):
    drive(view)
    result, numbers = view.state.result, said(view.readouts)
    monkeypatch.setattr(fit, "run_fit", slow_fit)

    async def cancel():
        while len(drawn(view, "fit", "draws", "draw")) != 2:
            await asyncio.sleep(0.05)
        view.runner.cancel()

    drive(view, cancel)
    assert view.state.result is result
    np.testing.assert_array_equal(drawn(view, "fit", "draws", "accuracy"), result.draws["accuracy"])
    assert said(view.readouts) == numbers


def test_two_features_are_drawn(view):
    view.state.param.update(dataset="two_clouds", epsilon=0.5)
    drive(view)
    result = view.state.result
    assert not view.plane_note.visible
    np.testing.assert_array_equal(drawn(view, "fit_coefficients", "draws", "theta_2"), result.draws["theta_2"])
    assert len(plots(view)["fit_plane"].draws.data["x1"]) == 4
    arrow, b = plots(view)["fit_plane"].arrow, result.plane.b[:2]
    np.testing.assert_allclose([arrow.x_end, arrow.y_end], -0.6 * b / np.linalg.norm(b))
    arrow = plots(view)["fit_coefficients"].arrow
    expected = result.plane.without_b[:2] - b / result.plan.mechanism.l2_reg
    np.testing.assert_allclose([arrow.x_end, arrow.y_end], expected)
    view.state.dataset = "breast_cancer"
    assert view.plane_note.visible and not arrow.visible
    assert plots(view)["fit_plane"].draws.data == {"x1": [], "x2": []}


def test_a_void_certificate_releases_nothing_and_says_so(view):
    view.state.param.update(gradient_tol=1e-16, draws=2, dataset="two_clouds")
    drive(view)
    assert "Certificate VOID: 2 of 2 draws" in plots(view)["fit_certificate"].plot.title.text
    assert "<b>No release:</b>" in said(view.readouts)
    assert view.runner.status.severity == "error"
    assert "2 of 2 draws released nothing" in view.runner.status.object
    assert np.isnan(drawn(view, "fit", "draws", "accuracy")).all()
    assert plots(view)["fit_plane"].draws.data == {"x1": [], "x2": []}


def test_nothing_stays_of_a_cancelled_run(view, monkeypatch):
    monkeypatch.setattr(fit, "run_fit", slow_fit)

    async def cancel():
        await started(view)
        view.runner.cancel()

    drive(view, cancel)
    assert view.runner.status.object == "Cancelled. Nothing was released."
    assert view.state.result is None
    assert "Press <b>Train</b>" in said(view.readouts)
    assert len(drawn(view, "fit", "draws", "draw")) == 0


def test_moving_a_parameter_cancels(view, monkeypatch):
    monkeypatch.setattr(fit, "run_fit", slow_fit)

    async def move():
        await started(view)
        view.state.gradient_tol = 0.1

    drive(view, move)
    assert view.runner.status.object == "Cancelled. Nothing was released."
    assert len(drawn(view, "fit", "draws", "draw")) == 0


def test_bad_targets_and_missing_data_are_explained(view, monkeypatch):
    monkeypatch.delenv("EXPLORER_DATA_HOME", raising=False)
    view.state.accountant = "kifer"
    drive(view)
    said_of_it = view.runner.status.object
    assert said_of_it.startswith("The fit failed and released nothing: with f = 1.3 no λ meets this (ε, δ)")
    assert said_of_it.endswith("f must exceed 2.703.")
    assert view.remedy_button.visible and view.remedy_button.label == "Train with f = 2.84"
    view._take_remedy()
    drive(view)
    assert (view.state.f, view.state.result.released.size) == (2.84, 4)
    assert not view.remedy_button.visible
    view.state.param.update(l2_reg=0.05, accountant="hockey_stick")
    drive(view)
    assert "λ must exceed" in view.runner.status.object
    view.state.param.update(l2_reg=0.0)
    assert not view.remedy_button.visible
    view.state.dataset = "gisette"
    assert view.runner.status.object.startswith("Gisette is not on this machine")
    drive(view)
    assert view.runner.status.severity == "error"
    view.state.dataset = "digits"
    assert not view.runner.status.visible


class EngineOfACluster(InlineEngine):
    on_cluster = True


def test_an_upload_that_would_leave_the_machine_is_told_so_beforehand(view):
    def about(view):
        return view.upload.pane[-1].object

    assert "cluster" not in about(view) and "the server's operator could read" in about(view)
    there = FitView(engine=EngineOfACluster())
    assert "one of its workers hold it until the training ends" in about(there)
    assert "the operators of the server and of the cluster could read" in about(there)


def send(view, content, name="mine.csv", chunk=1000):
    """Send a file as the browser does."""
    button = view.upload.button
    total = -(-len(content) // chunk) or 1
    for number in range(total):
        part = content[number * chunk : (number + 1) * chunk]
        button._process_chunk(
            {"name": name, "chunk": number + 1, "total_chunks": total, "mime_type": "text/csv", "data": part}
        )
    button._handle_msg({"status": "finished"})


def test_an_upload_is_fitted_and_forgotten(view):
    send(view, CSV)
    state, upload = view.state, view.upload
    assert (state.upload.columns, state.class_column) == (("a", "b", "kind"), "kind")
    assert "mine.csv: 80 records, 2 features, instead of Breast cancer." in upload.summary.object
    assert upload.known.visible and not upload.refusal.visible
    assert upload.button.value is None  # the text is not kept twice
    drive(view)
    assert state.result.data == "mine.csv"
    upload.column.value = "a"
    assert state.class_column == "a"
    assert state.result is None
    assert "'a' has 13; choose another" in upload.refusal.object and upload.refusal.visible
    upload.column.value = "kind"
    assert not upload.refusal.visible
    state.dataset = "two_clouds"
    assert state.upload is None
    assert not upload.known.visible


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"a,b\n1,2\n1", "line 3 must have 2 fields"),
        (b"x" * (uploads.MAX_BYTES + 3), "at most 5 MB"),
        (b"<img src=x>,b\n1", "line 2 must have"),
    ],
)
def test_a_refused_upload_leaves_what_was_there(view, content, message):
    send(view, CSV)
    before = view.state.upload
    send(view, content, chunk=1_000_000)
    assert message in view.upload.refusal.object
    assert view.state.upload is before


def test_no_more_is_kept_of_a_file_than_a_file_may_have(view):
    button = view.upload.button
    for name in ("a", "b"):
        for number in range(9):
            msg = {"name": name, "chunk": number + 1, "total_chunks": 10, "mime_type": "", "data": b"x" * 1_000_000}
            button._process_chunk(msg)
    held = sum(len(chunk) for file in button._file_buffer.values() for chunk in file["chunks"].values())
    assert held == uploads.MAX_BYTES + 1
    button._handle_msg({"status": "error", "error": "larger than 100 MB"})
    assert "at most 5 MB" in view.upload.refusal.object
    assert not button._file_buffer


def test_text_of_a_file_is_shown_as_text(view):
    send(view, CSV.replace(b"kind", b"<img src=x>"), name="<b>bold</b>.csv")
    assert "<" not in view.upload.summary.object
    view.upload.column.value = "b"
    assert "got 'x' in line 2, column '&lt;img src=x&gt;'" in view.upload.refusal.object
    drive(view)
    assert "<img" not in view.runner.status.object
    assert "&lt;img" in view.runner.status.object


def test_sections_are_part_of_the_address(view):
    view.state.from_query({"section": CERTIFICATE})
    tabs = view._sections()
    assert tabs.active == 2
    tabs.active = 1
    assert view.state.to_query() == {"section": "Two features"}
