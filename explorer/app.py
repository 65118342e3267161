"""The explorer as an app: `panel serve explorer/app.py`, or `python -m explorer`."""

import unicodedata

import panel as pn
import panel_material_ui as pmui

from explorer.state.bounds import BoundsState
from explorer.state.composition import CompositionState
from explorer.state.fit import FitState
from explorer.state.glm import GLMState
from explorer.state.half_normal import HalfNormalState
from explorer.state.renyi import RenyiState
from explorer.views import BoundsView, CompositionView, FitView, GLMView, HalfNormalView, RenyiView
from explorer.views.address import Address, query_of_session

pn.extension("mathjax", notifications=True)

PAGES = {
    "Bounds": (BoundsState, BoundsView),
    "Rényi": (RenyiState, RenyiView),
    "Half-normal": (HalfNormalState, HalfNormalView),
    "Composition": (CompositionState, CompositionView),
    "GLM bug": (GLMState, GLMView),
    "Fit": (FitState, FitView),
}


def slug(name):
    """A page's name in an address: lower case, without accents, with hyphens for spaces."""
    letters = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode()
    return letters.lower().replace(" ", "-")


def build():
    """The whole app for one session, as a panel_material_ui.Page; a page is built when it is first opened."""
    states = {name: state() for name, (state, _) in PAGES.items()}
    views, rooms = {}, {name: pmui.Column(sizing_mode="stretch_width") for name in PAGES}
    projector = pmui.Switch(label="Projector", description="Large type and thick lines.")
    tabs = pmui.Tabs(*rooms.items(), name="pages", sizing_mode="stretch_width", styles={"visibility": "hidden"})
    address = Address({slug(name): state for name, state in states.items()}, tabs)
    refused = address.restore(query_of_session())
    page = pmui.Page(
        title="Objective perturbation explorer",
        header=[pn.layout.HSpacer(), projector],
        main=[pmui.Column(tabs, address.pane, sizing_mode="stretch_width")],
    )

    def open_page(*_):
        name = list(PAGES)[tabs.active]
        if name not in views:
            views[name] = PAGES[name][1](states[name])
            views[name].set_projector(projector.value)
            rooms[name].append(views[name])

    def set_projector(event):
        page.theme_config = {"typography": {"fontSize": 17 if event.new else 14}}
        for view in views.values():
            view.set_projector(event.new)

    open_page()
    tabs.param.watch(open_page, "active")
    projector.param.watch(set_projector, "value")

    # What a control changes before the browser has reported the page complete can be lost on the way back (panel 1.9),
    # and hidden controls cannot be touched.
    def loaded():
        tabs.styles = {"visibility": "visible"}
        if refused and pn.state.notifications is not None:
            pn.state.notifications.warning(f"The link's {', '.join(refused)} cannot be; the usual value is used.", 0)

    pn.state.onload(loaded)
    return page


if pn.state.served:
    build().servable()
