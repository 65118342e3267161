"""On a phone's screen no page has to be scrolled sideways."""

import pytest

from explorer.app import START
from explorer.pages import PAGES
from explorer.pages.fit.state import SECTIONS
from tests.ui.conftest import PATIENCE, Explorer, open_page

WIDTH, HEIGHT = 390, 844
# Frames around an element, also beyond the shadow root that it is in, whose content is wider than they are.
TOO_WIDE = """(element) => {
    const found = []
    for (let e = element; e; e = e.assignedSlot ?? e.parentElement ?? e.getRootNode().host) {
        const scrolls = e == document.documentElement || /auto|scroll/.test(getComputedStyle(e).overflowX)
        if (scrolls && e.scrollWidth > e.clientWidth + 1)
            found.push(`${e.tagName} ${e.className}: ${e.scrollWidth} > ${e.clientWidth}`)
    }
    return found
}"""


@pytest.fixture
def phone(chromium, server):
    page = chromium.new_page(viewport={"width": WIDTH, "height": HEIGHT})
    page.set_default_timeout(PATIENCE)
    yield Explorer(page, server)
    page.close()


def frames_that_scroll(phone):
    """What `TOO_WIDE` finds around the open page's first paragraph."""
    return phone.page.locator("p:visible").first.evaluate(TOO_WIDE)


@pytest.mark.parametrize("name", [START, *PAGES])
def test_no_page_is_wider_than_a_narrow_screen(phone, name):
    open_page(phone.page, phone.address, name)
    if name != START:
        phone.wait_for_controls()
        phone.page.locator(".bk-Figure:visible").first.wait_for()
    phone.page.wait_for_timeout(1000)  # until formulas are set and figures have their size
    assert frames_that_scroll(phone) == []


@pytest.mark.parametrize("section", SECTIONS)
def test_no_section_of_the_fit_page_is(phone, section):
    phone.open("Fit", section=section)
    phone.page.wait_for_timeout(1000)
    assert frames_that_scroll(phone) == []


def test_a_frame_that_scrolls_is_found(phone):
    open_page(phone.page, phone.address, START)
    paragraph = phone.page.locator("p:visible").first
    paragraph.evaluate("element => element.style.width = '500px'")
    assert paragraph.evaluate(TOO_WIDE) != []
