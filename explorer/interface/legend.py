"""A plot's legend: which curves it names, and in which corner it covers the fewest points of curves."""

import numpy as np
from bokeh.models import Line, LogScale

CORNERS = ("bottom_left", "top_left", "top_right", "bottom_right")
FRAME_WIDTH = 720  # pixels of the plot's frame on a screen 1280 wide
CELL_FRAME_WIDTH = 500  # the same in a notebook's cell
BORDER = 12  # pixels round all entries
AROUND = 5.5  # line heights between a figure's edges and its frame: title, ticks and axis label


def name_only(plot, labels):
    """Name in the legend the curves with these labels, and no others."""
    for item in plot.legend[0].items:
        item.visible = item.label.value in labels


def clear_legend(plot, *, frame_width=FRAME_WIDTH):
    """Move the legend of a Bokeh figure to the corner where it covers least; it stays if it covers nothing.

    The frame's width, in pixels, is an estimate: only the browser knows it.
    """
    for legend in plot.legend:
        if legend.visible and legend in plot.center:
            size = legend_size(legend, plot, frame_width)
            if covered(legend.location, size, plot):
                legend.location = min((legend.location, *CORNERS), key=lambda corner: covered(corner, size, plot))


def legend_size(legend, plot, frame_width=FRAME_WIDTH):
    """Width and height of a legend as fractions of the frame's."""
    base = plot.tags[0]
    labels = [item.label.value for item in legend.items if item.visible]
    columns = legend.ncols
    if columns == "auto":
        columns = max(len(labels), 1) if legend.orientation == "horizontal" else 1
    rows = -(-len(labels) // columns)
    width = columns * base * (4 + 0.45 * max(map(len, labels), default=0)) + BORDER
    return width / frame_width, (rows * (22 + base / 4) + BORDER) / (plot.height - AROUND * base)


def covered(corner, size, plot):
    """Number of line segments of the curves that intersect the legend in this corner."""
    width, height = size
    right, top = "right" in corner, "top" in corner
    left = 1 - width if right else (1 - width) / 2 if "center" in corner else 0.0
    foot = 1 - height if top else 0.0
    return sum(
        np.count_nonzero(_meets(x, left, left + width) & _meets(y, foot, foot + height)) for x, y in _curves(plot)
    )


def _meets(values, low, high):
    """Whether each segment of a curve intersects [low, high] along this axis."""
    before, after = values[:-1], values[1:]
    return (np.maximum(before, after) >= low) & (np.minimum(before, after) <= high)


def _curves(plot):
    """Coordinates of every visible line, as fractions of the frame's width and height."""
    for renderer in plot.renderers:
        if renderer.visible and isinstance(getattr(renderer, "glyph", None), Line):
            data = renderer.data_source.data
            yield (
                _part(data[renderer.glyph.x], plot.x_range, plot.x_scale),
                _part(data[renderer.glyph.y], plot.y_range, plot.y_scale),
            )


def _part(values, axis, scale):
    ends = np.array([axis.start, axis.end], float)
    values = np.asarray(values, float)
    if isinstance(scale, LogScale):
        with np.errstate(divide="ignore", invalid="ignore"):
            values, ends = np.log(values), np.log(ends)
    return (values - ends[0]) / (ends[1] - ends[0])
