"""Every further page in a browser: its controls by keyboard, and what it draws against the library's numbers."""

import re

import numpy as np
import pytest

from explorer.interface.readouts import rounded
from explorer.pages.calibrate.state import CalibrateState
from explorer.pages.compare.computation import run_live
from explorer.pages.compare.state import CompareState
from explorer.pages.composition.state import CompositionState
from explorer.pages.fit.computation import run_fit
from explorer.pages.fit.state import FitState
from explorer.pages.glm.computation import GLM, OTHER
from explorer.pages.glm.state import GLMState
from explorer.pages.half_normal.computation import PERTURBATION
from explorer.pages.half_normal.state import HalfNormalState
from explorer.pages.renyi.state import RenyiState
from explorer.pages.solvers.computation import predictions, run_race
from explorer.pages.solvers.state import SolversState
from explorer.pages.spectrum.computation import compare_learners
from explorer.pages.spectrum.state import SpectrumState
from explorer.pages.worst_case.computation import WORST
from explorer.pages.worst_case.state import WorstCaseState
from explorer.uploads import read_csv


def test_half_normal_moves_its_start_with_l2_reg(explorer):
    explorer.open("Half-normal", l2_reg=3.0)
    explorer.until(lambda: explorer.field("λ") == 3)
    explorer.slider("λ").focus()
    for _ in range(5):
        explorer.page.keyboard.press("ArrowRight")
    explorer.until(lambda: explorer.field("λ") > 4)
    explorer.settle()
    expected = HalfNormalState(l2_reg=explorer.field("λ")).curves()
    for name in ("loss", PERTURBATION):
        np.testing.assert_allclose(explorer.data("half_normal_curves", name), expected[name], rtol=1e-12)


def test_renyi_page_draws_and_reads_its_state(explorer):
    page = explorer.page
    explorer.open("Rényi", alpha_max=300.0)
    for symbol in ("σ", "α", "T"):
        before = explorer.field(symbol)
        explorer.slider(symbol).focus()
        for _ in range(5):
            page.keyboard.press("ArrowRight")
        explorer.until(lambda s=symbol, b=before: explorer.field(s) > b)
    explorer.settle()
    state = RenyiState(
        noise_std=explorer.field("σ"), alpha=explorer.field("α"), steps=int(explorer.field("T")), alpha_max=300.0
    )
    expected = state.curves()
    for name in ("Normal", "Refined", "DP-SGD"):
        explorer.until(lambda n=name: np.allclose(explorer.data("renyi_curves", n), expected[n], rtol=1e-12))
    explorer.until(
        lambda: np.allclose(explorer.data("renyi_steepest", "epsilon"), [state.steepest().epsilon], rtol=1e-12)
    )
    page.get_by_text(f"At α = {state.alpha:g} the mechanism has").wait_for()


def test_composition_follows_the_slider_when_it_is_computed(explorer):
    explorer.open("Composition", uses=20)
    explorer.slider("λ").focus()
    explorer.page.keyboard.press("ArrowRight")
    explorer.until(lambda: explorer.field("λ") > 10)
    explorer.until(lambda: "l2_reg" in explorer.page.url)
    explorer.until(lambda: np.isfinite(explorer.data("composition_curves", "Refined")).all())
    state = CompositionState(l2_reg=explorer.field("λ"), uses=20)
    for end, column in (("epsilon", "Refined"), ("epsilon_low", "Refined low")):
        expected = [np.log10(getattr(state.reading("Refined", k), end)) for k in state.runs()]
        np.testing.assert_allclose(explorer.data("composition_curves", column), expected, rtol=1e-12)


def test_solvers_race_and_theirs_is_the_librarys_count(explorer):
    page = explorer.page
    explorer.open("Solvers", n_records=300, dimension=3, sag=0, svrg=0, max_passes=50)
    explorer.until(lambda: explorer.field("n") == 300)
    explorer.slider("λ").focus()
    for _ in range(3):
        page.keyboard.press("ArrowLeft")
    explorer.until(lambda: explorer.field("λ") < 1)
    explorer.settle()
    chosen = {"n_records": 300, "dimension": 3, "sag": False, "svrg": False, "max_passes": 50}
    state = SolversState(l2_reg=explorer.field("λ"), **chosen)
    most = predictions(**state.prediction_arguments())["Accelerated"]
    explorer.until(lambda: explorer.data("solvers_marks: Accelerated", "x") == [most])
    page.get_by_role("button", name="Compare solvers", exact=True).click()
    page.get_by_text("needs the least work").wait_for()
    page.get_by_text("Did not converge: Gradient descent").wait_for()
    race = run_race(**state.race_arguments())
    for name, label in (("newton", "Newton"), ("gradient_descent", "Gradient descent")):
        expected = race.traces[race.traces["solver"] == label]
        assert explorer.data(f"solvers_{name}", "evaluations") == expected["evaluations"].tolist()
        np.testing.assert_allclose(explorer.data(f"solvers_{name}", label), expected["gradient_norm"], rtol=1e-9)


def test_compare_reads_at_another_epsilon_and_runs_live(explorer):
    page = explorer.page
    explorer.open("Compare", dataset="breast_cancer", live_methods="amp_rdp,output_perturbation", trials=2)
    explorer.slider("ε").focus()
    page.keyboard.press("ArrowRight")
    explorer.until(lambda: "epsilon=1.0" in page.url)
    page.get_by_role("button", name="Run live").click()
    page.get_by_text("At ε = 1 on Breast cancer (live trials) the best honest method is").wait_for()
    methods = ["amp_rdp", "output_perturbation"]
    state = CompareState(dataset="breast_cancer", epsilon=1.0, live_methods=methods, trials=2)
    expected = 100 * run_live(cells=state.cells()).groupby("method")["accuracy"].mean()[methods].to_numpy()
    page.get_by_text("Done.").wait_for()
    np.testing.assert_allclose(explorer.data("compare_live", "accuracy")[1:], expected)


def test_spectrum_draws_the_fits_of_its_slider(explorer):
    page = explorer.page
    explorer.open("Spectrum", sampled=0, steps=8)
    explorer.slider("ε").focus()
    for _ in range(5):
        page.keyboard.press("ArrowRight")
    explorer.until(lambda: explorer.field("ε") > 1)

    def fits():
        state = SpectrumState(sampled=False, steps=8, epsilon=explorer.field("ε"))
        return compare_learners(**state.arguments()).fits

    def drawn():
        paths = {name: explorer.data(f"spectrum_path {name}", name) for name in fits()}
        return all(np.array_equal(paths[name], fit.path[:, 1]) for name, fit in fits().items())

    explorer.until(drawn)
    shown = fits()
    for name, fit in shown.items():
        np.testing.assert_allclose(
            explorer.data("spectrum_noise_curves", name), fit.noise / np.sqrt(np.diag(fit.covariance))
        )
    page.get_by_text("Prefix sums", exact=True).click()
    end = [np.sqrt(fit.covariance.sum()) for fit in shown.values()]
    sums = [fit.noise.sum() / std for fit, std in zip(shown.values(), end, strict=True)]
    explorer.until(lambda: np.allclose([explorer.data("spectrum_noise_curves", name)[-1] for name in shown], sums))


def test_calibrate_follows_keys_and_touches_and_feeds_the_fit(explorer):
    page = explorer.page
    explorer.open("Calibrate", epsilon=2.0)
    explorer.until(lambda: explorer.field("ε") == 2)
    explorer.slider("ε").focus()
    page.keyboard.press("ArrowRight")
    explorer.until(lambda: explorer.field("ε") > 2)
    state = CalibrateState(epsilon=explorer.field("ε"))
    curve = state.curve("Refined")
    for source, column in (("calibrate_refined", "l2_reg"), ("calibrate_risk_refined", "risk")):
        drawn = lambda s=source: explorer.data(s, "Refined")  # noqa: E731
        explorer.until(lambda d=drawn, c=column: np.array_equal(d(), curve[c]))
    touched = curve.iloc[12]
    place = """([x, y]) => {
        const view = Bokeh.index.find_one(Bokeh.documents[0].get_model_by_name('calibrate'))
        const canvas = view.el.getBoundingClientRect()
        return [canvas.x + view.frame.x_scale.compute(x), canvas.y + view.frame.y_scale.compute(y)]
    }"""
    page.mouse.click(*page.evaluate(place, [touched["noise_std"], touched["l2_reg"]]))
    page.get_by_text("the bound Refined needs").wait_for()
    assert explorer.field("f") == pytest.approx(touched["f"], rel=0.02)
    explorer.until(lambda: "accountant=refined" in page.url)
    page.get_by_role("button", name="Fit with these").click()
    page.get_by_role("textbox", name="C", exact=True).wait_for()  # of the Fit page alone
    assert explorer.field("ε") == state.epsilon
    assert explorer.field("C") == pytest.approx(state.lipschitz)
    assert explorer.field("λ") == pytest.approx(touched["l2_reg"], rel=0.2)


def test_fit_shows_its_draws_and_a_failed_certificate_voids_them(explorer):
    page = explorer.page
    explorer.open("Fit")
    page.get_by_role("button", name="Train").click()
    page.get_by_text("in the median of 20 draws").wait_for()
    expected = run_fit(**FitState().arguments())
    np.testing.assert_array_equal(explorer.data("fit_draws", "accuracy"), expected.draws["accuracy"])
    np.testing.assert_array_equal(explorer.data("fit_levels", "high"), [expected.band[2]] * 2)
    page.get_by_text(f"gradient norm {expected.draws['gradient_norm'].max():.2g} ≤ τ = 0.01").wait_for()
    norms = explorer.data("fit_trace", "gradient norm")
    assert norms[0] > 1 > 0.01 >= norms[-1]
    explorer.slider("τ").focus()
    page.keyboard.press("Home")
    page.get_by_text("Press Train to fit").wait_for()  # a result is shown only with its own parameters
    assert explorer.data("fit_draws", "accuracy") == []
    page.get_by_role("button", name="Train").click()
    page.get_by_text("No release:").wait_for()
    page.get_by_text("20 of 20 draws released nothing").wait_for()


def test_fit_learns_from_an_uploaded_file_and_draws_two_features(explorer):
    page = explorer.page
    explorer.open("Fit", section="Two features", draws=5)
    page.get_by_role("tab", name="Two features", selected=True).wait_for()
    content = "\n".join(["a,b,kind", *(f"{i % 13},{i % 7},{'xy'[i % 2]}" for i in range(80))]).encode()
    drop = page.locator("input[type=file]")
    explorer.settle()  # a file that comes before the button is made would be lost
    drop.set_input_files({"name": "mine.csv", "mimeType": "text/csv", "buffer": content + b"\n1,2"})
    page.get_by_text("Not used: line 82 must have 3 fields").wait_for()
    page.wait_for_timeout(3000)  # the button takes no other file until it has shown that it took one
    drop.set_input_files({"name": "mine.csv", "mimeType": "text/csv", "buffer": content})
    page.get_by_text("mine.csv: 80 records, 2 features").wait_for()
    page.get_by_role("button", name="Train").click()
    page.get_by_text("in the median of 5 draws").wait_for()
    state = FitState(upload=read_csv(content, name="mine.csv"), draws=5)
    expected = run_fit(**state.arguments()).draws
    np.testing.assert_array_equal(explorer.data("fit_thetas", "theta_2"), expected["theta_2"])
    assert "mine" not in page.url and "upload" not in page.url
    page.get_by_role("button", name="Remove the file").click()
    page.get_by_text("mine.csv: 80 records").wait_for(state="hidden")
    page.get_by_text("Press Train to fit").wait_for()


def test_worst_case_loss_follows_the_slider_and_the_direction(explorer):
    page = explorer.page
    explorer.open("Worst case", direction="add")
    explorer.slider("β").focus()
    page.keyboard.press("ArrowLeft")
    explorer.until(lambda: explorer.field("β") < 1)
    expected = WorstCaseState(direction="add", smoothness=explorer.field("β")).curves()
    for source, key in (("worst_case_curves", "loss"), ("worst_case_map_curves", "map")):
        explorer.until(lambda s=source: np.isfinite(explorer.data(s, WORST)).all())
        np.testing.assert_allclose(explorer.data(source, WORST), expected[key][WORST], rtol=1e-12, atol=1e-14)
    page.get_by_text("It is linear but for one ramp of its slope: it bends between").wait_for()


def test_glm_bug_follows_the_record_and_reads_at_its_dimension(explorer):
    page = explorer.page
    explorer.open("GLM bug")
    explorer.slider("x").focus()
    for _ in range(3):
        page.keyboard.press("ArrowLeft")
    dimension = page.get_by_role("textbox", name=re.compile(r"^d\b"))
    dimension.fill("1000")
    dimension.press("Enter")
    explorer.until(lambda: explorer.field("x") < 1)
    explorer.settle()
    state = GLMState(x=explorer.field("x"), dimension=1000)
    for source, table in (("glm_bug_densities", state.densities()), ("glm_bug_curves", state.curves())):
        explorer.until(lambda s=source, t=table: all(np.allclose(explorer.data(s, c), t[c], rtol=1e-12) for c in t))
    row, _ = state.readouts()
    page.get_by_text(
        f"that is not a GLM is {rounded(row[OTHER], up=True)} nats, {row[OTHER] / row[GLM]:.3g} × the GLM’s"
    ).wait_for()
