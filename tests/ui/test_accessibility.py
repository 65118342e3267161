"""What axe-core finds in every page, light, dark and on the projector; and where the Tab key leads."""

from pathlib import Path

import pytest

from explorer.app import PAGES, START
from tests.ui.conftest import open_page

AXE = Path(__file__).parent / "axe-core/axe.min.js"  # 4.14, from npm's registry, unchanged

# What the libraries write and nothing here can change, and where a reader finds the same (panel-material-ui 0.16).
THEIRS = {
    "aria-prohibited-attr": "the icon of a tooltip has its text as a label, but no role",
    "aria-progressbar-name": "progress bars have no name; the status line under ours says it in words",
    "svg-img-alt": "formulas are drawn without a text; the words before each say what it does",
}

RUN = """async (theirs) => {
    const tags = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]
    const rules = Object.fromEntries(theirs.map((name) => [name, {enabled: false}]))
    const options = {runOnly: {type: "tag", values: tags}, rules, resultTypes: ["violations"]}
    const why = (node) => node.any.concat(node.all, node.none).map((check) => check.message)
    const where = (node) => `${node.target.flat().join(" ")} ${node.html.slice(0, 200)} ${why(node)}`
    const found = await axe.run(document, options)
    return found.violations.map((rule) => `${rule.id} (${rule.help}): ${rule.nodes.map(where).join("; ")}`)
}"""


def violations(page):
    """What axe-core finds when the page has come to rest: colours change by and by when the theme does."""
    for _ in range(4):
        page.wait_for_timeout(700)
        found = page.evaluate(RUN, list(THEIRS))
        if not found:
            break
    return found


@pytest.mark.parametrize("name", (START, *PAGES))
def test_nobody_is_shut_out(chromium, server, name):
    page = chromium.new_page(viewport={"width": 1280, "height": 950})
    open_page(page, server, name)
    if name != START:
        page.locator("[role=slider]:visible, input[type=range]:visible").first.wait_for(timeout=60_000)
    page.add_script_tag(path=AXE)
    assert violations(page) == []
    page.get_by_role("button", name="Toggle theme").click()
    assert violations(page) == [], "dark"
    page.get_by_text("Projector").click()
    assert violations(page) == [], "dark, projector"
    page.close()


def test_tab_leads_through_a_page_in_reading_order(explorer):
    page = explorer.page
    explorer.open("Bounds")
    page.get_by_role("tab", name="Bounds", exact=True).focus()
    names = []
    for _ in range(40):
        page.keyboard.press("Tab")
        names.append(page.evaluate(_FOCUSED))
        if names[-1].startswith("PNG"):
            break
    assert all(names), names  # nothing that has the focus is without a name
    order = ["Figure 1, left", "σ", "λ", "β", "L ", "Monotone loss", "δ", "ε ", "ε_max", "Fit the axis", "Copy as"]
    places = [next(i for i, name in enumerate(names) if name.startswith(start)) for start in order]
    assert places == sorted(places), names


_FOCUSED = """() => {
    let at = document.activeElement
    while (at.shadowRoot?.activeElement) at = at.shadowRoot.activeElement
    const root = at.getRootNode()
    const ids = (at.getAttribute("aria-labelledby") ?? "").split(" ")
    const labels = ids.map((id) => root.getElementById?.(id)?.innerText)
    const name = at.getAttribute("aria-label") || labels.join(" ").trim() || at.labels?.[0]?.innerText
    return name || at.innerText || at.title || (at.matches(".bk-events") ? "the plot" : "")
}"""
