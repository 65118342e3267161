"""Slides as `make slides` builds them: complete beside themselves, and drawn by a browser without a network."""

import re

import course
import nbformat
import pytest

pytest.importorskip("jupyter_server_mathjax", reason="MathJax for the slides comes with the extra `notebooks`")
(SOURCE,) = course.notebooks(["01"])
CELLS = nbformat.read(SOURCE, as_version=4).cells

# Titles of the slides on which something, all fragments shown, is below the page's end or right of a code cell's.
CUT = """() => {
    const cut = [];
    for (const slide of Reveal.getSlides()) {
        const { h, v } = Reveal.getIndices(slide);
        Reveal.slide(h, v);
        while (Reveal.availableFragments().next) Reveal.nextFragment();
        const code = [...slide.querySelectorAll(".jp-InputArea pre")];
        const wide = code.some(pre => pre.scrollWidth > pre.clientWidth || pre.offsetWidth > slide.clientWidth);
        if (wide || slide.scrollHeight > Reveal.getConfig().height) cut.push(slide.innerText.slice(0, 60));
    }
    return cut;
}"""


@pytest.fixture(scope="module")
def slides(tmp_path_factory):
    """The first notebook's slides, built once: path of the HTML file."""
    folder = tmp_path_factory.mktemp("slides")
    course.main(["slides", "01", "--output", str(folder)])
    return folder / f"{SOURCE.stem}.html"


def test_everything_is_beside_them(slides):
    page = slides.read_text()
    loaded = re.findall(r"<(?:script|link|img|iframe)\b[^>]*?\b(?:src|href)=\"([^\"]+)\"", page)
    assert {name.split("/")[0] for name in loaded} == {"bokeh", "mathjax", "reveal"}
    for name in loaded:
        assert (slides.parent / name.split("?")[0]).is_file(), name
    assert "pn.extension" not in page  # set-up is skipped


def test_browser_draws_them_without_a_network(slides, chromium):
    context = chromium.new_context(offline=True)
    page, requests, errors = context.new_page(), [], []
    page.on("request", lambda request: requests.append(request.url))
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.goto(slides.as_uri())
    page.wait_for_function("Reveal.isReady() && MathJax.Hub.queue.pending + MathJax.Hub.queue.running === 0")
    kinds = [cell.metadata.slideshow.slide_type for cell in CELLS]
    assert page.evaluate("Reveal.getTotalSlides()") == kinds.count("slide") + kinds.count("subslide")
    formulas = sum(cell.source.replace("$$", "$").count("$") // 2 for cell in CELLS if cell.cell_type == "markdown")
    assert page.locator(".slides script[type^='math/tex']").count() == formulas
    assert page.locator(".slides span.MathJax").count() == formulas
    assert page.locator(".MathJax_Error, .merror").count() == 0
    headings = [cell.source for cell in CELLS if cell.metadata.slideshow.slide_type == "slide"]
    page.evaluate(f"Reveal.slide({headings.index(next(h for h in headings if 'Move it yourself' in h))})")
    page.evaluate("while (Reveal.availableFragments().next) Reveal.nextFragment()")
    page.locator(".bk-Figure").first.wait_for()
    drawn = "Object.keys(Bokeh.index).length && Bokeh.documents[0].get_model_by_name('bounds_curves').data['Exact']"
    assert all(value < 0.001 for value in page.evaluate(f"Array.from({drawn})"))
    frame = "[...Bokeh.index.roots].filter(view => view.frame).map(view => view.frame.bbox.width / view.bbox.width)"
    page.wait_for_function(f"{frame}.every(share => share > 0.6)")  # the legend beside it takes no more than it needs
    assert page.evaluate(CUT) == []
    assert not [url for url in requests if not url.startswith(("file:", "data:", "about:"))]
    assert errors == []
    context.close()
