"""What a served page needs mended in its browser's libraries. All of it is private there: look here first when a new
version of Bokeh or Panel lays out pages wrongly or shows a value that was already replaced."""

from bokeh.models import CustomJS


def mend(document):
    """Let plots be added to a page that is shown, and let the server's last word be the last.

    - A change of size anywhere lays out the whole page, also a plot that has not arranged its own parts yet, and Bokeh
      (3.9) throws there; the plot does so a moment later and asks for a layout itself.
    - When the server changes a property of a component twice while the browser is busy, Panel's (1.9) React hook
      writes the first value back, to the page and to the server: a slider that is dragged jumps back, a job that has
      ended still runs. Such a value, which the server itself has replaced a moment ago, is not taken.
    """
    for code in (_WAIT_FOR_PARTS, _LAST_WORD):
        document.js_on_event("document_ready", CustomJS(code=code))


_WAIT_FOR_PARTS = """
    const view = Bokeh.Models.get("Plot").prototype.default_view.prototype
    for (const name of ["_measure_layout", "_after_layout"]) {
        const method = view[name]
        view[name] = function () { if (this.layout != null) method.call(this) }
    }
"""

_LAST_WORD = """
    let prototype = Bokeh.Models.get("Plot").prototype
    while (!Object.hasOwn(prototype, "setv")) prototype = Object.getPrototypeOf(prototype)
    const setv = prototype.setv
    const told = new WeakMap()  // by model and property, what the server said of late
    const when_idle = window.requestIdleCallback ?? ((then) => setTimeout(then, 500))

    function remember(model, name, value) {
        if (!told.has(model)) told.set(model, {})
        const values = told.get(model)[name] ??= []
        const count = values.push(value)
        when_idle(() => setTimeout(() => { if (values.length == count) values.length = 0 }, 200))
    }

    prototype.setv = function (changes, options) {
        for (const [name, value] of Object.entries(changes)) {
            if (options?.sync === false) {
                remember(this, name, value)
            } else {
                const values = told.get(this)?.[name] ?? []
                if (values.slice(0, -1).includes(value) && value !== values.at(-1)) return
            }
        }
        setv.call(this, changes, options)
    }
"""
