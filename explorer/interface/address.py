"""The address bar holds the state of the open page, so that a link restores it."""

import contextlib
from urllib.parse import urlencode

import panel as pn
from bokeh.models import CustomJS, Div

from explorer.interface.document import in_session

QUIET_SECONDS = 0.3  # browsers refuse to rewrite the address at every event of a slider

_REWRITE = "window.history.replaceState(null, '', window.location.pathname + cb_obj.tags[0])"


class Address:
    """Updates "?page=bounds&noise_std=7.0" when the open page's state changes; default values are left out.

    Parameters
    ----------
    states : dict of PageState by the page's name in an address, in the order of the tabs; None for a page without state
    tabs : Panel tabs
    """

    def __init__(self, states, tabs):
        self.states, self.tabs = states, tabs
        self._waiting = None
        self._text = Div(visible=False, tags=[""], name="address")
        self._text.js_on_change("tags", CustomJS(code=_REWRITE))
        self.pane = pn.pane.Bokeh(self._text, width=0, height=0, margin=0)
        tabs.param.watch(self._later, "active")
        for state in states.values():
            if state is not None:
                state.param.watch(self._later, state.shared())

    def restore(self, query):
        """Open the page and set the parameters that `query`, a dict of text by name, names.

        Returns
        -------
        list of str, a sentence for each part of the query that is not valid; its default is used
        """
        query = dict(query)
        page = query.pop("page", None)
        if page is None:
            return [_not_valid(name) for name in query]
        if page not in self.states:
            return [f'Unknown page "{page[:40]}" in the link: showing the start page instead.']
        state = self.states[page]
        refused = [_not_valid(part) for part in (query if state is None else state.from_query(query))]
        self.tabs.active = list(self.states).index(page)  # a page is made when it is opened, now with its parameters
        return refused

    def query(self):
        """The query of the open page, dict of text by name."""
        page, state = list(self.states.items())[self.tabs.active]
        return {"page": page, **({} if state is None else state.to_query())}

    def _later(self, *_):
        if not in_session():
            return
        document = pn.state.curdoc
        if self._waiting is not None:
            with contextlib.suppress(ValueError):  # it has just begun
                document.remove_timeout_callback(self._waiting)
        self._waiting = document.add_timeout_callback(self._write, int(1000 * QUIET_SECONDS))

    def _write(self):
        self._waiting = None
        with pn.io.hold():
            self._text.tags = ["?" + urlencode(self.query())]


def _not_valid(part):
    return f'"{part}" in the link is not valid here: using the default.'


def query_of_session():
    """What the browser's address holds, dict of text by name; empty outside a server."""
    arguments = pn.state.session_args or {}
    return {name: values[-1].decode(errors="replace") for name, values in arguments.items() if values}
