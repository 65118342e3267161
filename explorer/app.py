"""The explorer as an app: `panel serve explorer/app.py`, or `python -m explorer`."""

import unicodedata

import panel as pn
import panel_material_ui as pmui

from explorer.views import BoundsView, CompareView, CompositionView, FitView, GLMView, HalfNormalView, RenyiView
from explorer.views.address import Address, query_of_session

pn.extension("mathjax", notifications=True)

PAGES = {
    "Bounds": BoundsView,
    "Rényi": RenyiView,
    "Half-normal": HalfNormalView,
    "Composition": CompositionView,
    "GLM bug": GLMView,
    "Compare": CompareView,
    "Fit": FitView,
}


def slug(name):
    """A page's name in an address: lower case, without accents, with hyphens for spaces."""
    letters = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode()
    return letters.lower().replace(" ", "-")


def build():
    """The whole app for one session, as a panel_material_ui.Page."""
    views = {name: view() for name, view in PAGES.items()}
    projector = pmui.Switch(label="Projector", description="Large type and thick lines.")
    tabs = pmui.Tabs(*views.items(), name="pages", sizing_mode="stretch_width", styles={"visibility": "hidden"})
    address = Address({slug(name): view.state for name, view in views.items()}, tabs)
    refused = address.restore(query_of_session())
    page = pmui.Page(
        title="Objective perturbation explorer",
        header=[pn.layout.HSpacer(), projector],
        main=[pmui.Column(tabs, address.pane, sizing_mode="stretch_width")],
    )

    def set_projector(event):
        page.theme_config = {"typography": {"fontSize": 17 if event.new else 14}}
        for view in views.values():
            view.set_projector(event.new)

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
