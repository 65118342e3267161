"""From a key that moves σ on the Bounds page to the curves painted anew, in a Chromium on this machine.

python -m tests.benchmarks.latency
"""

import numpy as np
from playwright.sync_api import sync_playwright

from tests.ui.conftest import FLAGS, chromium_path, serve

PRESSES = 60
WATCH = """() => {
    window.times = {pressed: 0, fast: [], slow: []}
    document.addEventListener('keydown', () => { window.times.pressed = performance.now() }, true)
    const source = Bokeh.documents[0].get_model_by_name('bounds_curves')
    source.properties.data.change.connect(() => {
        const {pressed} = window.times
        const which = Number.isFinite(source.data['Tight'][0]) ? 'slow' : 'fast'
        requestAnimationFrame(() => setTimeout(() => window.times[which].push(performance.now() - pressed)))
    })
}"""


def main():
    """Print the median and the 95th percentile for the curves that follow the hand, and for those that come after."""
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
    for name, target in (("fast", "median 60, p95 120"), ("slow", "300")):
        median, high = np.percentile(times[name] or [np.inf], [50, 95])
        print(f"{name} curves  {len(times[name]):3d} times  median {median:6.1f} ms  p95 {high:6.1f} ms  ({target} ms)")


if __name__ == "__main__":
    main()
