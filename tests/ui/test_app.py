"""The app in a browser: sliders by keyboard, presets, links, pictures, modes, and the path through its pages."""

import numpy as np
import pytest

from explorer.app import PAGES, slug
from explorer.pages.bounds.state import PRESETS, BoundsState

SYMBOLS = {"noise_std": "σ", "l2_reg": "λ", "smoothness": "β", "lipschitz": "L"}


def test_sigma_slider_by_keyboard_changes_the_curve(explorer):
    explorer.open("Bounds")
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
    explorer.open("Bounds")
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
    explorer.open("Bounds")
    assert explorer.visible("bounds: Hockey-stick")
    slider = explorer.slider("λ")
    slider.focus()
    explorer.page.keyboard.press("Home")
    explorer.until(lambda: not explorer.visible("bounds: Hockey-stick"))
    assert explorer.visible("bounds: Gaussian lower bound")
    explorer.page.get_by_text("Hidden: RDP, Hockey-stick, because λ must exceed β").wait_for()


def test_value_outside_the_bounds_is_refused_and_explained(explorer):
    explorer.open("Bounds")
    field = explorer.page.get_by_role("textbox", name="σ", exact=True)
    field.fill("-3")
    field.press("Enter")
    explorer.page.get_by_text("enter a number from 0.05 to 1000").first.wait_for()
    explorer.until(lambda: field.input_value() == "5")
    field.fill("12.5")
    field.press("Enter")
    explorer.until(lambda: explorer.field("σ") == 12.5)


def test_all_curves_follow_the_slider(explorer):
    explorer.open("Bounds")
    explorer.until(lambda: len(explorer.data("bounds_curves", "Exact")) > 0)
    slider = explorer.slider("σ")
    slider.focus()
    for _ in range(8):
        explorer.page.keyboard.press("ArrowRight")
    explorer.until(lambda: explorer.field("σ") > 6)
    explorer.settle()
    expected = BoundsState(noise_std=explorer.field("σ")).curves()
    for name in ("Exact", "Hockey-stick"):
        np.testing.assert_allclose(explorer.data("bounds_curves", name), expected[name], rtol=1e-12)


def test_the_start_page_leads_to_every_page_by_keyboard(explorer, server):
    page = explorer.page
    page.goto(server)
    page.get_by_role("tab", name="Start", selected=True).wait_for()
    for number, name in enumerate(PAGES, 1):
        page.get_by_role("button", name=f"{number} · {name}: ").focus()
        page.keyboard.press("Enter")
        page.get_by_role("tab", name=name, selected=True).wait_for()
        explorer.wait_for_controls()
        explorer.until(lambda n=name: f"page={slug(n)}" in page.url)
        page.get_by_role("tab", name="Start").click()


def test_a_link_restores_the_page(explorer):
    explorer.open("Bounds")
    page = explorer.page
    explorer.slider("λ").focus()
    page.keyboard.press("ArrowRight")
    page.get_by_text("ε on the y-axis").click()
    explorer.until(lambda: "epsilon_on_y_axis=1" in page.url and "l2_reg" in page.url)
    shown = explorer.field("λ"), page.url
    explorer.open("Fit", epsilon=2.0, seed=7)
    explorer.until(lambda: explorer.field("ε") == 2)
    page.goto(shown[1])
    explorer.slider("σ").wait_for()
    explorer.until(lambda: explorer.field("λ") == shown[0])
    expected = BoundsState(l2_reg=shown[0]).curves()["RDP"]
    explorer.until(lambda: np.allclose(explorer.data("bounds_curves", "RDP"), expected, rtol=1e-12))
    axis = page.evaluate("() => Bokeh.documents[0].get_model_by_name('bounds').left[0].axis_label")
    assert axis == "ε"


def test_a_bad_link_says_so_and_keeps_the_usual_value(explorer, server):
    explorer.page.goto(f"{server}/?page=bounds&noise_std=lots&delta=0.001")
    explorer.page.get_by_text('"noise_std=lots" in the link is not valid here').wait_for()
    explorer.until(lambda: (explorer.field("σ"), explorer.field("δ")) == (5, 0.001))


def test_numbers_and_pictures_to_take_along(explorer):
    explorer.open("Bounds")
    page = explorer.page
    page.get_by_role("button", name="Copy as Python").click()
    page.get_by_role("button", name="Copy", exact=True).click()
    page.get_by_role("button", name="Copied").wait_for()
    script = page.evaluate("() => Bokeh.documents[0].get_model_by_name('bounds_script').data.text[0]")
    assert script == BoundsState().script()
    page.keyboard.press("Escape")
    files = {"bounds.csv": b"epsilon,Kifer", "bounds.png": b"\x89PNG", "bounds.svg": b"<svg"}
    for label, (name, start) in zip(("bounds.csv", "PNG", "SVG"), files.items(), strict=True):
        with page.expect_download() as download:
            page.get_by_text(label, exact=True).click()
        assert download.value.suggested_filename == name
        assert download.value.path().read_bytes().startswith(start)


def test_a_tooltip_does_not_cover_the_next_button(explorer):
    explorer.open("Bounds")
    for label, following in (("Figure 1, left", "Figure 1, right"), ("PNG", "SVG")):
        explorer.page.get_by_text(label, exact=True).hover()
        explorer.page.get_by_role("tooltip").wait_for()
        explorer.page.get_by_text(following, exact=True).click(trial=True)


def test_projector_and_dark_mode_draw_large(explorer):
    explorer.open("Bounds")

    def size():
        script = "() => Bokeh.documents[0].get_model_by_name('bounds').title.text_font_size"
        return float(explorer.page.evaluate(script).removesuffix("px"))

    explorer.until(lambda: size() == pytest.approx(16.8))
    explorer.page.get_by_text("Projector").click()
    explorer.until(lambda: size() == pytest.approx(25.2))
    explorer.page.get_by_role("button", name="Toggle theme").click()
    explorer.page.wait_for_timeout(1000)
    explorer.until(lambda: size() == pytest.approx(25.2))


def test_a_value_that_the_server_has_replaced_is_not_taken_back(explorer):
    explorer.open("Bounds")
    script = """async () => {
        const field = [...Bokeh.documents[0]._all_models.values()].find((m) => m.data?.attributes?.label == "σ").data
        for (const value of ["7", "8"]) field.setv({value}, {sync: false})  // as from the server
        field.setv({value: "7"})  // as Panel's hook does for the first of them when it comes to it
        const kept = field.value
        await new Promise((then) => setTimeout(then, 3000))
        field.setv({value: "7"})  // and as a hand may, later
        return [kept, field.value]
    }"""
    assert explorer.page.evaluate(script) == ["8", "7"]
    explorer.until(lambda: "noise_std=7.0" in explorer.page.url)
