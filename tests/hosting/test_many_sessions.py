"""Many pages of one server that move at once: each shows at every moment what the library says of its parameters."""

import asyncio
import random
from dataclasses import dataclass, field

import numpy as np
import panel as pn

from explorer.app import Session
from explorer.hosting.server import prepare
from explorer.pages.bounds.state import BoundsState
from explorer.pages.bounds.view import DEEPEST
from tests.hosting.conftest import PATIENCE, free_ports
from tests.hosting.connection import Document

PAGES, MOVES = 10, 25
MOVED = {"σ": "noise_std", "λ": "l2_reg", "β": "smoothness", "L": "lipschitz"}


@dataclass
class Seen:
    """A session, and at each change of its curves the parameters and what was drawn."""

    session: Session
    drawn: list = field(default_factory=list)

    def watch(self):
        view = self.session.views["Bounds"]
        show = view._show_curves

        def note(curves):
            show(curves)
            values = {name: getattr(view.state, name) for name in MOVED.values()}
            self.drawn.append((values, {name: np.array(column) for name, column in view.source.data.items()}))

        view._show_curves = note
        return self


def test_each_page_shows_its_own_numbers():
    seen = []

    def build():
        session = Session()
        page = session.page()
        seen.append(Seen(session).watch())
        return page

    async def move(address, number):
        choice = random.Random(number)
        page = await Document.visit(address, "?page=bounds")
        sliders = [m["data"] for m in page.models if isinstance(m.get("data"), dict) and "attributes" in m["data"]]
        sliders = [s for s in sliders if {"start", "end", "label"} <= s["attributes"].keys()]
        sliders = [s for s in sliders if s["attributes"]["label"].split()[0] in MOVED]
        assert len(sliders) == len(MOVED)
        for _ in range(MOVES):
            slider = choice.choice(sliders)
            low, high = (slider["attributes"][end] for end in ("start", "end"))
            await page.change(slider, "value", choice.uniform(low, high))
            await asyncio.sleep(choice.uniform(0, 0.1))  # twenty moves a second
        return page

    async def act():
        port = free_ports(1)
        server = pn.serve(build, port=port, start=False, show=False, verbose=False)
        prepare(server)
        server.start()
        pages = await asyncio.gather(*(move(f"http://localhost:{port}", i) for i in range(PAGES)))
        async with asyncio.timeout(PATIENCE):
            while not all(each.drawn for each in seen):
                await asyncio.sleep(0.1)
        for page in pages:
            page.close()
        server.stop(wait=False)

    asyncio.run(act())
    assert len(seen) == PAGES
    for each in seen:
        assert (
            len({tuple(values.values()) for values, _ in each.drawn}) > MOVES / 6
        )  # moves that come while curves are drawn are drawn together
        for values, drawn in each.drawn:
            state = BoundsState(**values)
            for name, curve in state.columns().items():
                np.testing.assert_array_equal(drawn[name], np.maximum(curve, DEEPEST))
