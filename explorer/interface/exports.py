"""Exports: the page's numbers as a Python script or CSV tables, its plots as PNG and SVG."""

import io

import panel as pn
import panel_material_ui as pmui
from bokeh.models import ColumnDataSource

from explorer.interface.compatibility import DRAWN_AS_SVG
from explorer.interface.controls import TOOLTIP_BELOW
from explorer.interface.document import in_session

_COPY = """
const text = script.data.text[0]
const done = () => { source.data.label = 'Copied' }
const select = () => {  // without https, or without permission, the clipboard API is not available
  const field = document.createElement('textarea')
  field.value = text
  document.body.append(field)
  field.select()
  if (document.execCommand('copy')) done()
  field.remove()
}
if (navigator.clipboard && window.isSecureContext) {
  navigator.clipboard.writeText(text).then(done, select)
} else {
  select()
}
"""

# Bokeh cannot export a plot of its SVG backend as PNG (its legend needs a canvas): the browser rasterises the SVG.
_SAVE = (
    DRAWN_AS_SVG
    + """
const plot = Bokeh.documents.map((each) => each.get_model_by_id(id)).find((model) => model != null)
const save = (blob) => {
  const link = document.createElement('a')
  link.href = URL.createObjectURL(blob)
  link.download = `${plot.name}.${format}`
  link.click()
}
const draw = (image) => {
  const scale = 2, canvas = document.createElement('canvas')
  canvas.width = scale * image.width
  canvas.height = scale * image.height
  const context = canvas.getContext('2d')
  context.fillStyle = getComputedStyle(document.body).backgroundColor
  context.fillRect(0, 0, canvas.width, canvas.height)
  context.scale(scale, scale)
  context.drawImage(image, 0, 0)
  canvas.toBlob(save, 'image/png')
}
svg_of(plot).then((svg) => {
  if (format == 'svg') return save(svg)
  const image = new Image()
  image.onload = () => draw(image)
  image.src = URL.createObjectURL(svg)
})
"""
)


def export_buttons(state, *plots, name):
    """Buttons that export the script, the tables and the plots, and the dialog that shows the script.

    Parameters
    ----------
    state : PageState
    plots : Bokeh figures, as in `picture_buttons`
    name : str, the page's
    """
    source = ColumnDataSource({"text": [""]}, name=f"{name}_script")
    listing = pn.pane.HTML(sizing_mode="stretch_width", styles={"max-height": "60vh", "overflow": "auto"})
    copy = pmui.Button(label="Copy", variant="contained", size="small")
    # Among `args` Panel (1.9) would keep a reference to the button, and so to its session, after the page is closed.
    copy.js_on_click(args={"script": source}, code=_COPY)
    dialog = pmui.Dialog(
        listing,
        copy,
        title="These numbers, in Python",
        open=False,
        width_option="lg",
        show_close_button=True,
        close_on_click=True,
    )

    def show_script(_):
        text = state.script()
        source.data = {"text": [text]}
        copy.label = "Copy"
        listing.object = f'<pre tabindex="0">{text.replace("&", "&amp;").replace("<", "&lt;")}</pre>'
        # Within one callback Panel's changes are sent before Bokeh's: open the dialog in the next, after the text.
        pn.state.execute(lambda: dialog.param.update(open=True), schedule=in_session())

    def table(name):
        return io.BytesIO(state.tables()[name].to_csv(index=False).encode())

    python = _button("Copy as Python", "a script that computes this page's numbers with the library.")
    python.on_click(show_script)
    downloads = [
        pmui.FileDownload(
            callback=lambda name=name: table(name),
            filename=f"{name}.csv",
            label=f"{name}.csv",
            variant="text",
            size="small",
        )
        for name in state.table_names
    ]
    return pmui.FlexBox(python, *downloads, *picture_buttons(*plots), dialog)


def picture_buttons(*plots):
    """Buttons that save Bokeh figures as they are drawn at that moment, as PNG and SVG files with their names."""
    buttons = []
    for number, plot in enumerate(plots):
        for form, what in {"png": "bitmap, for slides", "svg": "vector graphic, sharp at any size"}.items():
            which, label = ("this", f"{plot.name}.{form}") if number else ("the", form.upper())
            buttons.append(_button(label, f"{which} plot as a {what}."))
            # Panel keeps references to `args` for ever, and a plot refers to its page, hence to its whole session.
            buttons[-1].js_on_click(args={"id": plot.id, "format": form}, code=_SAVE)
    return buttons


def _button(label, description):
    """A small button; screen readers announce its tooltip as its name, so the tooltip starts with the label."""
    tooltip = f"{label}: {description}"
    return pmui.Button(label=label, description=tooltip, variant="text", size="small", theme_config=TOOLTIP_BELOW)
