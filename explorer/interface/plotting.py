"""Figures in one style for light, dark and projector modes, updated alike on a server and in a notebook."""

import panel as pn
from bokeh.models import ColorBar, CustomJS, HoverTool, LinearColorMapper, SaveTool, Span
from bokeh.palettes import RdBu11, interp_palette
from bokeh.plotting import figure

from explorer.interface.document import in_session
from explorer.interface.legend import CELL_FRAME_WIDTH, FRAME_WIDTH, clear_legend
from explorer.vocabulary import style

DIVERGING = interp_palette(RdBu11, 255)  # ColorBrewer: blue below 0, red above, safe for colour-blind readers
MARK = "#888888"  # thresholds and readout positions


def curve_figure(*, name, title, x_label, y_label, **options):
    """A Bokeh figure in this project's style; `name` is its model name and the file name of its export."""
    plot = figure(
        name=name,
        title=title,
        x_axis_label=x_label,
        y_axis_label=y_label,
        sizing_mode="stretch_width",
        height=480,
        min_width=320,
        min_border_right=35,
        tools="pan,wheel_zoom,box_zoom,reset",
        output_backend="svg",
        **options,
    )
    plot.toolbar.active_drag = None
    plot.toolbar.logo = None
    plot.add_tools(SaveTool(filename=name))  # without a file name it opens a prompt
    return plot


def add_curve(plot, source, x, label, tooltips, *, own_style=None):
    """The column `label` of `source` over the column `x` as a line, with a hover that names it.

    It is drawn in `own_style`, or in the style that the vocabulary has for the label.
    """
    drawn = own_style or style(label)
    line = plot.line(
        x,
        label,
        source=source,
        name=f"{plot.name}: {label}",
        legend_label=label,
        color=drawn.color,
        line_dash=drawn.dash,
        line_width=3,
    )
    plot.add_tools(HoverTool(renderers=[line], tooltips=[("", label), *tooltips], line_policy="nearest", visible=False))
    return line


def add_tail(plot, source, x, label):
    """The area between the columns "foot" and `label` of `source`, shaded in the colour of the curve `label`."""
    area = plot.varea(x, "foot", label, source=source, fill_color=style(label).color, fill_alpha=0.3)
    area.level = "underlay"
    return area


def add_mark(plot, dimension):
    """A dotted line across the plot at a threshold or readout; `dimension` is "width" or "height"."""
    mark = Span(dimension=dimension, line_color=MARK, line_width=2, line_dash="dotted")
    plot.add_layout(mark)
    return mark


def add_heat_maps(plot, source, tooltips):
    """Matrices as images, red above 0 and blue below, and their colour bar.

    Parameters
    ----------
    source : ColumnDataSource of "image" (ndarrays, first row at the bottom, nan blank) and "x", "y", "dw", "dh" (place)
    tooltips : of the hover; a column of matrices shows the entry under the pointer

    Returns
    -------
    the renderer, and the ColorBar, whose `color_mapper` has the range
    """
    mapper = LinearColorMapper(palette=DIVERGING, low=-1, high=1, nan_color="rgba(0, 0, 0, 0)")
    maps = plot.image(
        "image", x="x", y="y", dw="dw", dh="dh", source=source, color_mapper=mapper, name=f"{plot.name}: maps"
    )
    plot.grid.visible = False
    bar = ColorBar(color_mapper=mapper, background_fill_alpha=0, width=20)
    plot.add_layout(bar, "right")
    plot.add_tools(HoverTool(renderers=[maps], tooltips=tooltips, visible=False))
    return maps, bar


def keep_sizes(plot):
    """Keep this project's sizes of text and legend under every theme.

    When a page changes its theme, Material writes its own sizes (in em of 13 pixels, whatever the page's type size) to
    every plot in the browser; a callback there turns them into pixels of the plot's base size, kept in its tags.
    """
    for model, name, _ in _texts(plot):
        code = f"const s = cb_obj.{name}; if (s.endsWith('em')) cb_obj.{name} = `${{parseFloat(s) * plot.tags[0]}}px`"
        model.js_on_change(name, CustomJS(args={"plot": plot}, code=code))
    for legend in plot.legend:
        code = "if (cb_obj.glyph_width != 3 * plot.tags[0]) cb_obj.glyph_width = 3 * plot.tags[0]"
        legend.js_on_change("glyph_width", CustomJS(args={"plot": plot}, code=code))
        legend.update(inactive_fill_color=MARK, inactive_fill_alpha=0.3)


def set_projector(plot, on, *, height=480):
    """Large text and thick lines for a projector, or the usual ones; `height` is the desktop height in pixels."""
    base = 24 if on else 16
    plot.tags = [base]
    for model, name, em in _texts(plot):
        setattr(model, name, f"{em * base:g}px")
    for legend in plot.legend:
        legend.update(glyph_width=3 * base, spacing=4)
    for renderer in plot.renderers:
        if hasattr(getattr(renderer, "glyph", None), "line_width"):  # an area has none, contours have several glyphs
            renderer.glyph.line_width = 5 if on else 3
    plot.height = height * 7 // 6 if on else height
    clear_legend(plot)


def _texts(plot):
    """(model, property, size in em) of every text of a plot; the sizes are those of the theme."""
    yield plot.title, "text_font_size", 1.05
    for axis in plot.axis:
        yield axis, "axis_label_text_font_size", 1.0
        yield axis, "major_label_text_font_size", 0.925
    for legend in plot.legend:
        yield legend, "label_text_font_size", 0.85
    for bar in plot.select(ColorBar):
        yield bar, "title_text_font_size", 0.925
        yield bar, "major_label_text_font_size", 0.925


def redraw(pane):
    """Move a plot's legend off the curves, and push the changes of its Bokeh pane to a notebook cell.

    A served page is updated by Bokeh itself.
    """
    clear_legend(pane.object, frame_width=FRAME_WIDTH if in_session() else CELL_FRAME_WIDTH)
    if not in_session():
        pn.io.push_notebook(pane)
