"""The Bokeh document that code runs for, and how coroutines change it."""

import panel as pn


def in_session():
    """Whether this code runs in a session of a server, not in a notebook or a script."""
    return pn.state.curdoc is not None and pn.state.curdoc.session_context is not None


def session_name():
    """The id of this session, by which a compute engine tells sessions apart; None in a notebook or a script."""
    return pn.state.curdoc.session_context.id if in_session() else None


def on_document(update):
    """Run `update`, which changes Bokeh models, under the document's lock, as a coroutine must.

    The changes are sent as one message, in order: without `hold` they could overtake a message still queued in Panel
    (1.9) that creates the models they change.
    """

    def held():
        with pn.io.hold():
            update()

    pn.state.execute(held, schedule=in_session())
