"""The page that code runs for, and its turn to be changed."""

import panel as pn


def in_session():
    """Whether this code runs for a page of a server, rather than in a notebook or a script."""
    return pn.state.curdoc is not None and pn.state.curdoc.session_context is not None


def session_name():
    """What tells this page's session from others in the pool of workers; None in a notebook or a script."""
    return pn.state.curdoc.session_context.id if in_session() else None


def on_document(update):
    """Run `update`, which changes Bokeh models, under the document's lock: what a coroutine has to do.

    Its changes are sent together and in their turn: not held, they can overtake the message, still queued in Panel
    (1.9), that brings the very models to a page.
    """

    def held():
        with pn.io.hold():
            update()

    pn.state.execute(held, schedule=in_session())
