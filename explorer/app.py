"""The explorer as an app: `panel serve explorer/app.py`, or `python -m explorer`."""

import unicodedata

import panel as pn
import panel_material_ui as pmui

from explorer.compute import engine
from explorer.interface.address import Address, query_of_session
from explorer.interface.compatibility import (
    forget_document,
    never_busy,
    one_event_at_a_time,
    patch_browser,
    send_at_once,
    silence_closed_connections,
    watch_busy_from_the_loop,
)
from explorer.interface.controls import limit_active
from explorer.interface.document import in_session
from explorer.pages import PAGES, view_type
from explorer.pages.start.view import StartView

pn.extension("mathjax", notifications=True)

START = "Start"
_TABS = {  # large type needs a second row, where Material's moving indicator is not drawn
    "& .MuiTabs-list, & .MuiTabs-flexContainer": {"flexWrap": "wrap"},
    "& .MuiTabs-indicator": {"display": "none"},
    "& .MuiTab-root": {"borderBottom": "2px solid transparent"},
    "& .Mui-selected": {"borderBottomColor": "currentColor"},
}
_TITLE = {"& .header .title": {"@media (max-width: 599px)": {"fontSize": "1.1rem"}}}  # two lines on a phone, not three


def slug(name):
    """A page's name in an address: lower case, without accents, with hyphens for spaces."""
    letters = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode()
    return letters.lower().replace(" ", "-")


class Session:
    """One browser session: the state of every page, and the views of the pages that were opened.

    Attributes
    ----------
    states : dict of PageState by the page's name
    views : dict of views by the page's name; one is made when its page is opened
    tabs, projector : the controls that choose the page and the size of its type
    """

    def __init__(self):
        self._types = {name: view_type(name) for name in PAGES}
        self.states = {name: view.state_type() for name, view in self._types.items()}
        self.views = {}
        # Bokeh's columns: a Material column loses children that are added while the browser builds it
        # (panel-material-ui 0.16).
        self._placeholders = {name: pn.Column("Opening …", sizing_mode="stretch_width") for name in (START, *PAGES)}
        self.tabs = pmui.Tabs(
            *self._placeholders.items(),
            name="pages",
            sizing_mode="stretch_width",
            styles={"visibility": "hidden"},
            sx=_TABS,
        )
        limit_active(self.tabs)
        self.projector = pmui.Switch(label="Projector", description="Large type and thick lines.")
        self.tabs.param.watch(lambda _: self._show(), "active")
        self.projector.param.watch(lambda event: self._set_projector(event.new), "value")

    def open(self, name):
        """Show the named page."""
        self.tabs.active = list(self._placeholders).index(name)

    def page(self):
        """The whole app, as a panel_material_ui.Page that opens where the address says."""
        states = {slug(START): None, **{slug(name): state for name, state in self.states.items()}}
        address = Address(states, self.tabs)
        refused = address.restore(query_of_session())
        self._show()
        self._page = pmui.Page(
            title="Objective perturbation explorer",
            header=[pn.layout.HSpacer(), self.projector],
            main=[pmui.Column(self.tabs, address.pane, sizing_mode="stretch_width")],
            busy_indicator=None,  # a page has its own progress
            sx=_TITLE,
        )
        never_busy(self._page, self.projector.param.disabled)

        # Changes that a control makes before the browser reports the page complete can be lost (panel 1.9): controls
        # stay hidden until then.
        def loaded():
            send_at_once()
            self.tabs.styles = {"visibility": "visible"}
            if refused and pn.state.notifications is not None:
                pn.state.notifications.warning(" ".join(refused), 0)

        pn.state.onload(loaded)
        if in_session():
            silence_closed_connections()
            one_event_at_a_time()
            patch_browser(pn.state.curdoc)
            engine().prepare()
            pn.state.on_session_destroyed(forget_document)
        return self._page

    def _show(self):
        name = list(self._placeholders)[self.tabs.active]
        if name not in self.views:
            self.views[name] = self._view(name)
            self.views[name].set_projector(self.projector.value)
            self._placeholders[name][:] = [self.views[name]]

    def _view(self, name):
        if name == START:
            return StartView({name: view.question for name, view in self._types.items()}, self.open)
        view = self._types[name](self.states[name])
        if name == "Calibrate":
            view.fit = self._fit
        return view

    def _fit(self, values):
        """Open the Fit page with these parameters, dict by name; show a warning if it does not accept them."""
        fit = self.states["Fit"]
        try:
            type(fit)(**values)  # all of them are set, or none
        except ValueError as error:
            pn.state.notifications.warning(f"The Fit page does not accept these parameters: {error}", 0)
            return
        fit.param.update(**values)
        self.open("Fit")

    def _set_projector(self, on):
        self._page.theme_config = {"typography": {"fontSize": 17 if on else 14}}
        for view in self.views.values():
            view.set_projector(on)


def build():
    """The whole app for one session, as a panel_material_ui.Page."""
    return Session().page()


if pn.state.served:  # as a script: its module belongs to one page and is cleared when that page is closed
    from explorer import app

    watch_busy_from_the_loop()
    app.build().servable()
