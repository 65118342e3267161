"""Patches of the libraries in the browser: each fails here when it is no longer needed."""

import panel as pn
import panel_material_ui as pmui
import pytest
from bokeh.plotting import figure

from explorer.interface import compatibility
from tests.hosting.conftest import free_ports, listening, until

TAKE_BACK = """() => {
    const field = [...Bokeh.documents[0]._all_models.values()].find((m) => m.data?.attributes?.label == "here").data
    for (const value of ["7", "8"]) field.setv({value}, {sync: false})  // as from the server
    field.setv({value: "7"})  // as Panel's hook does for the first of them when it comes to it
    return field.value
}"""

# A plot that has not arranged its parts yet is laid out, as by a change of size beside it.
TOO_EARLY = """() => {
    const view = Bokeh.index.find_one(Bokeh.documents[0].get_model_by_name("plot"))
    const layout = view.layout
    view.layout = undefined
    try { view._after_layout(); return "nothing" } catch (error) { return "thrown" } finally { view.layout = layout }
}"""


@pytest.fixture
def page(chromium):
    page = chromium.new_page()
    yield page
    page.close()


def opened(page, patched):
    """The browser's page on a field and a plot, with the patches or without."""

    def build():
        if patched:
            compatibility.patch_browser(pn.state.curdoc)
        plot = figure(name="plot")
        plot.line([0, 1], [0, 1])
        return pn.Column(pmui.TextInput(label="here", value="6"), plot)

    port = free_ports(1)
    server = pn.serve(build, port=port, show=False, threaded=True, verbose=False)
    try:
        until(lambda: listening(port), "the server's thread has begun to listen")
        page.goto(f"http://localhost:{port}")
        page.get_by_label("here").wait_for()
        page.locator(".bk-Figure").first.wait_for()
        yield page
    finally:
        server.stop()


@pytest.mark.parametrize("patched", [True, False])
def test_panels_hook_would_take_back_what_the_server_has_replaced(page, patched):
    for each in opened(page, patched):
        assert each.evaluate(TAKE_BACK) == ("8" if patched else "7")


@pytest.mark.parametrize("patched", [True, False])
def test_bokeh_would_throw_where_a_plot_is_laid_out_too_early(page, patched):
    for each in opened(page, patched):
        assert each.evaluate(TOO_EARLY) == ("nothing" if patched else "thrown")


def test_bokeh_has_no_public_export(page):
    for each in opened(page, patched=True):
        public = "Object.keys(Bokeh).concat(Object.keys(Bokeh.Plotting ?? {})).filter((name) => /export/i.test(name))"
        assert each.evaluate(public) == []
