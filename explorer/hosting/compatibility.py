"""All of Panel and Bokeh that hosting uses and that is private to them; no other file of hosting uses such things.

Seen with panel 1.9.4 and 1.10.0, bokeh 3.9.2 and 3.10.2. The tests that fail when a part is no longer needed, or is no
longer there, are in tests/hosting/test_host_compatibility.py.
"""

import bokeh.server.urls
from panel.io.server import ComponentResourceHandler, DocHandler, WSHandler

__all__ = ["ComponentResourceHandler", "DocHandler", "WSHandler", "serve_only"]


def serve_only(page_handler, socket_handler):
    """Have servers that start from now on answer for a page by these handlers, and at no other path of it.

    Stands in for a choice of handlers, and for switches of embedding in other sites (autoload.js) and of metadata.
    Bokeh copies its list of patterns at each server's start, and Panel replaces its content in the same way.
    """
    bokeh.server.urls.per_app_patterns[:] = [(r"/ws", socket_handler), (r"/?", page_handler)]
