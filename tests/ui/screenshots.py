"""Pictures of the app in a Chromium: README's, or every page in three modes and two widths.

python -m tests.ui.screenshots [folder]
"""

import sys
from pathlib import Path

from playwright.sync_api import sync_playwright

from explorer.app import PAGES, START, slug
from tests.ui.conftest import FLAGS, chromium_path, serve

PICTURE = Path(__file__).parents[2] / "docs" / "explorer.png"
MODES = {"light": (), "dark": ("Toggle theme",), "projector": ("Projector",)}
WIDTHS = (1280, 1920)
HEIGHT = 950
QUIET_MS = 3000  # curves that are computed beside the others have come by then
HIDDEN = """() => {  // pixels of the page that its scrolling frame, inside a component's own tree, does not show
    const below = (root) => Math.max(0, ...Array.from(root.querySelectorAll("*"), (e) => Math.max(
        /auto|scroll/.test(getComputedStyle(e).overflowY) ? e.scrollHeight - e.clientHeight : 0,
        e.shadowRoot ? below(e.shadowRoot) : 0)))
    return below(document)
}"""


def main(arguments=None):
    """Write README's picture, or all of them to the folder that is given."""
    folders = sys.argv[1:] if arguments is None else arguments
    with serve() as address, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium_path(), args=FLAGS)
        if not folders:
            _shoot(browser, f"{address}/?page=bounds", PICTURE, clip={"x": 0, "y": 0, "width": 1280, "height": HEIGHT})
        for name in (START, *PAGES) if folders else ():
            for mode, buttons in MODES.items():
                for width in WIDTHS:
                    path = Path(folders[0]) / f"{slug(name)}-{mode}-{width}.png"
                    _shoot(browser, f"{address}/?page={slug(name)}", path, width=width, buttons=buttons)
        browser.close()


def _shoot(browser, url, path, *, width=1280, buttons=(), clip=None):
    page = browser.new_page(viewport={"width": width, "height": HEIGHT})
    page.goto(url)
    page.get_by_role("tab", selected=True).first.wait_for(timeout=60_000)
    for label in buttons:
        page.get_by_label(label).first.click()
    page.wait_for_timeout(QUIET_MS)
    path.parent.mkdir(parents=True, exist_ok=True)
    if clip is None:
        page.set_viewport_size({"width": width, "height": HEIGHT + page.evaluate(HIDDEN)})
        page.wait_for_timeout(500)
    page.screenshot(path=path, clip=clip)
    print(path)
    page.close()


if __name__ == "__main__":
    main()
