"""How curves look: one palette, one figure style, three modes, and updates that reach server and notebook alike."""

from dataclasses import dataclass

import panel as pn
from bokeh.models import ColorBar, CustomJS, HoverTool, LinearColorMapper, SaveTool, Span
from bokeh.palettes import RdBu11, interp_palette
from bokeh.plotting import figure

from explorer.interface.document import in_session
from explorer.interface.legend import CELL_FRAME_WIDTH, FRAME_WIDTH, clear_legend


@dataclass(frozen=True)
class Stroke:
    """Colour (Okabe-Ito, told apart by colour-blind eyes) and dash pattern (told apart without colour)."""

    color: str
    dash: str


STROKES = {
    "Kifer et al. 2012": Stroke("#E69F00", "2 4"),
    "RDP": Stroke("#56B4E9", "12 5"),
    "Hockey-stick": Stroke("#D55E00", "solid"),
    "Refined": Stroke("#CC79A7", "8 3"),
    "Tight": Stroke("#0072B2", "solid"),
    "Attained lower bound": Stroke("#888888", "3 3"),
    "Gaussian lower bound": Stroke("#009E73", "12 4 2 4"),
    "Normal": Stroke("#009E73", "12 4 2 4"),
    "Half-normal": Stroke("#E69F00", "2 4"),
    "Objective perturbation": Stroke("#56B4E9", "12 5"),
    "Linearised": Stroke("#D55E00", "6 3 2 3 2 3"),
    "DP-SGD": Stroke("#0072B2", "solid"),
    "gradient norm": Stroke("#56B4E9", "solid"),
    "Half-normal mechanism": Stroke("#0072B2", "8 3"),
    "start-up gap": Stroke("#888888", "solid"),
    "shift": Stroke("#0072B2", "8 3"),
    "GLM": Stroke("#D55E00", "solid"),
    "Not a GLM": Stroke("#CC79A7", "8 3"),
    "p(θ|Z)": Stroke("#56B4E9", "12 5"),
    "p(θ|Z′)": Stroke("#D55E00", "solid"),
    "log-ratio": Stroke("#0072B2", "solid"),
    "DP-FTRL": Stroke("#E69F00", "6 3 2 3 2 3"),
    "Algorithm 1": Stroke("#D55E00", "12 5"),
    "No record": Stroke("#888888", "3 3"),
    "Linear loss": Stroke("#009E73", "12 4 2 4"),
    "Worst case": Stroke("#D55E00", "solid"),
    "Gradient descent": Stroke("#D55E00", "solid"),
    "Accelerated": Stroke("#E69F00", "8 3"),
    "SAG": Stroke("#0072B2", "solid"),
    "SVRG": Stroke("#56B4E9", "12 5"),
    "L-BFGS": Stroke("#009E73", "12 4 2 4"),
    "Newton": Stroke("#CC79A7", "solid"),
    "Newton-CG": Stroke("#888888", "3 3"),
    "Subsampled Newton": Stroke("#CC79A7", "2 4"),
    "n log n": Stroke("#888888", "12 5"),
    "n²": Stroke("#888888", "6 3 2 3 2 3"),
    "median of the draws": Stroke("#0072B2", "solid"),
    "one draw": Stroke("#56B4E9", "solid"),
    "without privacy": Stroke("#009E73", "12 4 2 4"),
    "always the larger class": Stroke("#888888", "3 3"),
    "same λ, no b": Stroke("#E69F00", "8 3"),
    "−b": Stroke("#D55E00", "solid"),
    "loss": Stroke("#56B4E9", "12 5"),
    "clipped loss": Stroke("#D55E00", "solid"),
    "Algorithm 1, Rényi": Stroke("#56B4E9", "12 5"),
    "Algorithm 1, hockey-stick": Stroke("#D55E00", "solid"),
    "Algorithm 1, tight": Stroke("#CC79A7", "8 3"),
    "Algorithm 1, tight, same λ": Stroke("#0072B2", "20 3"),
    "Algorithm 1, tight, λ by risk": Stroke("#0072B2", "2 4"),
    "DP-SGD, dishonest": Stroke("#E69F00", "6 3 2 3 2 3"),
    "DP-SGD, honest, Rényi": Stroke("#009E73", "12 4 2 4"),
    "DP-SGD, honest, profile": Stroke("#009E73", "4 4"),
    "Output perturbation": Stroke("#888888", "3 3"),
    "Not private": Stroke("#888888", "16 4 4 4"),
}
SPARE = (Stroke("#F0E442", "solid"), Stroke("#CC79A7", "3 3"), Stroke("#0072B2", "8 3"), Stroke("#888888", "solid"))
DIVERGING = interp_palette(RdBu11, 255)  # ColorBrewer's, blue below 0 and red above, told apart by colour-blind eyes
MARK = "#888888"  # thresholds, and where values are read


def stroke(label):
    """The stroke of a curve by its label; labels that the house does not know share a few spare ones."""
    return STROKES.get(label) or SPARE[sum(label.encode()) % len(SPARE)]


def curve_figure(*, name, title, x_label, y_label, **options):
    """A Bokeh figure in the house style; `name` is its model name and the file name of its export."""
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


def add_curve(plot, source, x, label, tooltips):
    """The column `label` of `source` over the column `x` as a line in its stroke, with a hover that names it."""
    style = stroke(label)
    line = plot.line(
        x,
        label,
        source=source,
        name=f"{plot.name}: {label}",
        legend_label=label,
        color=style.color,
        line_dash=style.dash,
        line_width=3,
    )
    plot.add_tools(HoverTool(renderers=[line], tooltips=[("", label), *tooltips], line_policy="nearest", visible=False))
    return line


def add_tail(plot, source, x, label):
    """The area between the columns "foot" and `label` of `source`, shaded in the colour of the curve `label`."""
    area = plot.varea(x, "foot", label, source=source, fill_color=stroke(label).color, fill_alpha=0.3)
    area.level = "underlay"
    return area


def add_mark(plot, dimension):
    """A dotted line across the plot where something is read; `dimension` is "width" or "height"."""
    mark = Span(dimension=dimension, line_color=MARK, line_width=2, line_dash="dotted")
    plot.add_layout(mark)
    return mark


def add_heat_maps(plot, source, tooltips):
    """Matrices as images, red above 0 and blue below, and their colour bar.

    Parameters
    ----------
    source : ColumnDataSource of "image" (ndarrays, rows upwards; nan is left blank) and "x", "y", "dw", "dh" (place)
    tooltips : of the hover; where a column holds matrices, the entry under the pointer is shown

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
    """Make text and legend keep this project's sizes under every theme.

    When a page changes its theme, Material's own sizes (in em of 13 pixels, whatever the page's type is) are written
    to every plot in the browser; a callback there turns them into pixels of the plot's base size, kept in its tags.
    """
    for model, name, _ in _texts(plot):
        code = f"const s = cb_obj.{name}; if (s.endsWith('em')) cb_obj.{name} = `${{parseFloat(s) * plot.tags[0]}}px`"
        model.js_on_change(name, CustomJS(args={"plot": plot}, code=code))
    for legend in plot.legend:
        code = "if (cb_obj.glyph_width != 3 * plot.tags[0]) cb_obj.glyph_width = 3 * plot.tags[0]"
        legend.js_on_change("glyph_width", CustomJS(args={"plot": plot}, code=code))
        legend.update(inactive_fill_color=MARK, inactive_fill_alpha=0.3)


def set_projector(plot, on, *, height=480):
    """Text and lines that can be read from the last row, or the usual ones; `height` is that for a desk, in pixels."""
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
    """Let a plot's legend out of the curves' way, and send what changed in its Bokeh pane to a notebook cell.

    A served page gets it without help.
    """
    clear_legend(pane.object, frame_width=FRAME_WIDTH if in_session() else CELL_FRAME_WIDTH)
    if not in_session():
        pn.io.push_notebook(pane)
