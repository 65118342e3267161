"""From a key that moves σ on the Bounds page to the curves painted anew, in a Chromium on this machine.

python -m tests.benchmarks.latency
"""

import numpy as np
from playwright.sync_api import sync_playwright

from tests.ui.conftest import FLAGS, chromium_path, serve

PRESSES = 60
WATCH = """() => {
    window.times = {pressed: 0, painted: []}
    document.addEventListener('keydown', () => { window.times.pressed = performance.now() }, true)
    const source = Bokeh.documents[0].get_model_by_name('bounds_curves')
    source.properties.data.change.connect(() => {
        const {pressed} = window.times
        requestAnimationFrame(() => setTimeout(() => window.times.painted.push(performance.now() - pressed)))
    })
}"""


def main():
    """Print the median and the 95th percentile."""
    with serve() as address, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium_path(), args=FLAGS)
        page = browser.new_page(viewport={"width": 1280, "height": 950})
        page.goto(f"{address}/?page=bounds")
        slider = page.get_by_role("slider").first
        slider.wait_for(timeout=60_000)
        page.wait_for_timeout(3000)
        page.evaluate(WATCH)
        slider.focus()
        for _ in range(PRESSES):  # always on, to where nothing has been computed before
            page.keyboard.press("ArrowRight")
            page.wait_for_timeout(700)
        times = page.evaluate("() => window.times")
        browser.close()
    median, high = np.percentile(times["painted"] or [np.inf], [50, 95])
    print(f"{len(times['painted'])} times  median {median:.1f} ms  p95 {high:.1f} ms  (median 60, p95 120 ms)")


if __name__ == "__main__":
    main()
