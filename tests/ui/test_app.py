"""The app in a browser: sliders by keyboard, presets, a forbidden combination, and a fit with its certificate."""

import numpy as np
import pytest

from explorer.app import PAGES, slug
from explorer.state.bounds import PRESETS, BoundsState
from explorer.state.calibrate import CalibrateState
from explorer.state.compare import CompareState, run_live
from explorer.state.composition import CompositionState
from explorer.state.fit import FitState, run_fit
from explorer.state.half_normal import PERTURBATION, HalfNormalState
from explorer.state.renyi import RenyiState
from explorer.state.solvers import SolversState, run_race
from explorer.state.spectrum import SpectrumState
from explorer.state.worst_case import WORST, WorstCaseState
from explorer.uploads import read_csv

SYMBOLS = {"noise_std": "σ", "l2_reg": "λ", "smoothness": "β", "lipschitz": "L"}


def test_sigma_slider_by_keyboard_changes_the_curve(explorer):
    before = explorer.data("bounds_curves", "Hockey-stick")
    slider = explorer.slider("σ")
    slider.focus()
    for _ in range(5):
        explorer.page.keyboard.press("ArrowRight")
    explorer.until(lambda: explorer.data("bounds_curves", "Hockey-stick") != before)
    explorer.until(lambda: explorer.field("σ") > 5)
    explorer.settle()
    after = explorer.data("bounds_curves", "Hockey-stick")
    assert max(np.subtract(after, before)) <= 0  # more noise, less delta, everywhere
    expected = BoundsState(noise_std=explorer.field("σ")).curves()["Hockey-stick"]
    np.testing.assert_allclose(after, expected, rtol=1e-12)


@pytest.mark.parametrize("name", PRESETS)
def test_preset_sets_every_parameter_of_its_caption(explorer, name):
    for symbol in SYMBOLS.values():  # away from every preset first
        before = explorer.field(symbol)
        explorer.slider(symbol).focus()
        explorer.page.keyboard.press("ArrowRight")
        explorer.until(lambda s=symbol, b=before: explorer.field(s) != b)
    explorer.page.get_by_role("button", name=name).click()
    for parameter, symbol in SYMBOLS.items():
        explorer.until(lambda s=symbol, v=PRESETS[name][parameter]: explorer.field(s) == v)
    state = BoundsState()
    state.apply_preset(name)
    expected = state.curves()
    explorer.until(lambda: np.allclose(explorer.data("bounds_curves", "RDP"), expected["RDP"], rtol=1e-12))


def test_forbidden_combination_hides_the_curve_and_says_why(explorer):
    assert explorer.visible("bounds: Hockey-stick")
    slider = explorer.slider("λ")
    slider.focus()
    explorer.page.keyboard.press("Home")
    explorer.until(lambda: not explorer.visible("bounds: Hockey-stick"))
    assert explorer.visible("bounds: Gaussian lower bound")
    explorer.page.get_by_text("Hidden: RDP, Hockey-stick, because λ must exceed β").wait_for()


def test_value_outside_the_bounds_is_refused_and_explained(explorer):
    field = explorer.page.get_by_role("textbox", name="σ", exact=True)
    field.fill("-3")
    field.press("Enter")
    explorer.page.get_by_text("enter a number from 0.05 to 1000").first.wait_for()
    explorer.until(lambda: field.input_value() == "5")
    field.fill("12.5")
    field.press("Enter")
    explorer.until(lambda: explorer.field("σ") == 12.5)


def test_slow_curves_follow_and_are_never_of_other_parameters(explorer):
    explorer.until(lambda: np.isfinite(explorer.data("bounds_curves", "Tight")).all())
    slider = explorer.slider("σ")
    slider.focus()
    for _ in range(8):
        explorer.page.keyboard.press("ArrowRight")
    explorer.until(lambda: explorer.field("σ") > 6)
    explorer.settle()
    explorer.until(lambda: np.isfinite(explorer.data("bounds_curves", "Attained lower bound")).all())
    expected = BoundsState(noise_std=explorer.field("σ")).curves()
    for name in ("Tight", "Attained lower bound", "Hockey-stick"):
        np.testing.assert_allclose(explorer.data("bounds_curves", name), expected[name], rtol=1e-12)


def test_the_start_page_leads_to_every_page_by_keyboard(explorer, server):
    page = explorer.page
    page.goto(server)
    page.get_by_role("tab", name="Start", selected=True).wait_for(timeout=60_000)
    for number, name in enumerate(PAGES, 1):
        page.get_by_role("button", name=f"{number} · {name}: ").focus()
        page.keyboard.press("Enter")
        page.get_by_role("tab", name=name, selected=True).wait_for()
        slider = page.locator("[role=slider]:visible, input[type=range]:visible").first
        slider.wait_for(timeout=60_000)  # a page is made when it is first opened
        explorer.until(lambda n=name: f"page={slug(n)}" in page.url)
        page.get_by_role("tab", name="Start").click()


def test_a_link_restores_the_page(explorer):
    page = explorer.page
    explorer.slider("λ").focus()
    page.keyboard.press("ArrowRight")
    page.get_by_text("ε upright").click()
    explorer.until(lambda: "epsilon_upright=1" in page.url and "l2_reg" in page.url)
    shown = explorer.field("λ"), page.url
    explorer.open("Fit", epsilon=2.0, seed=7)
    explorer.until(lambda: explorer.field("ε") == 2)
    page.goto(shown[1])
    explorer.slider("σ").wait_for(timeout=60_000)
    explorer.until(lambda: explorer.field("λ") == shown[0])
    expected = BoundsState(l2_reg=shown[0]).curves()["RDP"]
    explorer.until(lambda: np.allclose(explorer.data("bounds_curves", "RDP"), expected, rtol=1e-12))
    axis = page.evaluate("() => Bokeh.documents[0].get_model_by_name('bounds').left[0].axis_label")
    assert axis == "ε"


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


def test_a_bad_link_says_so_and_keeps_the_usual_value(explorer, server):
    explorer.page.goto(f"{server}/?page=bounds&noise_std=lots&delta=0.001")
    explorer.page.get_by_text("noise_std=lots cannot be").wait_for(timeout=60_000)
    explorer.until(lambda: (explorer.field("σ"), explorer.field("δ")) == (5, 0.001))


def test_numbers_and_pictures_to_take_along(explorer):
    page = explorer.page
    page.get_by_role("button", name="Copy as Python").click()
    page.get_by_role("button", name="Copy", exact=True).click()
    page.get_by_role("button", name="Copied").wait_for()
    script = page.evaluate("() => Bokeh.documents[0].get_model_by_name('bounds_script').data.text[0]")
    assert script == BoundsState().script()
    page.keyboard.press("Escape")
    for label, name, start in (("bounds.csv", "bounds.csv", b"epsilon,Kifer"), ("PNG", "bounds.png", b"\x89PNG")):
        with page.expect_download() as download:
            page.get_by_text(label, exact=True).click()
        assert download.value.suggested_filename == name
        assert download.value.path().read_bytes().startswith(start)


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
    explorer.until(lambda: np.allclose(explorer.data("renyi_leap", "epsilon"), [state.leap().epsilon], rtol=1e-12))
    page.get_by_text(f"At α = {state.alpha:g} the best proof here").wait_for()


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
    most = state.predictions()["Accelerated"]
    explorer.until(lambda: explorer.data("solvers_marks: Accelerated", "x") == [most])
    page.get_by_role("button", name="Race", exact=True).click()
    page.get_by_text("is first with").wait_for(timeout=60_000)
    page.get_by_text("Did not finish: Gradient descent").wait_for()
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
    page.get_by_role("button", name="Run it live").click()
    page.get_by_text("At ε = 1 on Breast cancer (live trials) the best honest method is").wait_for(timeout=60_000)
    methods = ["amp_rdp", "output_perturbation"]
    state = CompareState(dataset="breast_cancer", epsilon=1.0, live_methods=methods, trials=2)
    expected = 100 * run_live(cells=state.cells()).groupby("method")["accuracy"].mean()[methods].to_numpy()
    page.get_by_text("Done.").wait_for()
    np.testing.assert_allclose(explorer.data("compare_live", "accuracy"), expected)


def test_spectrum_draws_the_fits_of_its_slider(explorer):
    page = explorer.page
    explorer.open("Spectrum", sampled=0, steps=8)
    explorer.slider("ε").focus()
    for _ in range(5):
        page.keyboard.press("ArrowRight")
    explorer.until(lambda: explorer.field("ε") > 1)

    def fits():
        return SpectrumState(sampled=False, steps=8, epsilon=explorer.field("ε")).fits()[0]

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
    page.get_by_text("the proof Refined asks for").wait_for()
    assert explorer.field("f") == pytest.approx(touched["f"], rel=0.02)
    page.get_by_role("button", name="Fit with these").click()
    page.get_by_role("textbox", name="C", exact=True).wait_for(timeout=60_000)  # of the Fit page alone
    assert explorer.field("ε") == state.epsilon
    assert explorer.field("C") == pytest.approx(state.lipschitz)
    assert explorer.field("λ") == pytest.approx(touched["l2_reg"], rel=0.2)


def test_fit_shows_its_draws_and_a_failed_certificate_voids_them(explorer):
    page = explorer.page
    page.get_by_role("tab", name="Fit", exact=True).click()
    page.get_by_role("button", name="Train").click()
    page.get_by_text("in the median of 20 draws").wait_for(timeout=60_000)
    expected = run_fit(**FitState().arguments())
    np.testing.assert_array_equal(explorer.data("fit_draws", "accuracy"), expected.draws["accuracy"])
    np.testing.assert_array_equal(explorer.data("fit_levels", "high"), [expected.band[2]] * 2)
    page.get_by_text(f"gradient norm {expected.draws['gradient_norm'].max():.2g} ≤ τ = 0.01").wait_for()
    norms = explorer.data("fit_trace", "gradient norm")
    assert norms[0] > 1 > 0.01 >= norms[-1]
    explorer.slider("τ").focus()
    page.keyboard.press("Home")
    page.get_by_text("Press Train to fit").wait_for()  # a result stands only beside its own parameters
    assert explorer.data("fit_draws", "accuracy") == []
    page.get_by_role("button", name="Train").click()
    page.get_by_text("No release:").wait_for(timeout=60_000)
    page.get_by_text("20 of 20 draws released nothing").wait_for()


def test_fit_learns_from_a_visitors_file_and_draws_two_features(explorer):
    page = explorer.page
    explorer.open("Fit", section="Two features", draws=5)
    page.get_by_role("tab", name="Two features", selected=True).wait_for()
    content = "\n".join(["a,b,kind", *(f"{i % 13},{i % 7},{'xy'[i % 2]}" for i in range(80))]).encode()
    drop = page.locator("input[type=file]")
    drop.set_input_files({"name": "mine.csv", "mimeType": "text/csv", "buffer": content + b"\n1,2"})
    page.get_by_text("Not used: line 82 must have 3 fields").wait_for()
    page.wait_for_timeout(3000)  # the button takes no other file until it has shown that it took one
    drop.set_input_files({"name": "mine.csv", "mimeType": "text/csv", "buffer": content})
    page.get_by_text("mine.csv: 80 records, 2 features").wait_for()
    page.get_by_role("button", name="Train").click()
    page.get_by_text("in the median of 5 draws").wait_for(timeout=60_000)
    state = FitState(upload=read_csv(content, name="mine.csv"), draws=5)
    expected = run_fit(**state.arguments()).draws
    np.testing.assert_array_equal(explorer.data("fit_thetas", "theta_2"), expected["theta_2"])
    assert "mine" not in page.url and "upload" not in page.url
    page.get_by_role("button", name="Forget the file").click()
    page.get_by_text("mine.csv: 80 records").wait_for(state="hidden")
    page.get_by_text("Press Train to fit").wait_for()


def test_projector_and_dark_mode_draw_large(explorer):
    def size():
        script = "() => Bokeh.documents[0].get_model_by_name('bounds').title.text_font_size"
        return float(explorer.page.evaluate(script).removesuffix("px"))

    explorer.until(lambda: size() == pytest.approx(16.8))
    explorer.page.get_by_text("Projector").click()
    explorer.until(lambda: size() == pytest.approx(25.2))
    explorer.page.get_by_role("button", name="Toggle theme").click()
    explorer.page.wait_for_timeout(1000)
    explorer.until(lambda: size() == pytest.approx(25.2))


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
    page.get_by_text("It is linear but for one bend between").wait_for()
