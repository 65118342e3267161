"""Tests of where a plot's legend stands."""

import numpy as np
import pytest
from bokeh.models import ColumnDataSource, Range1d

from explorer.interface.legend import clear_legend, covered, legend_size
from explorer.interface.plotting import add_curve, curve_figure, set_projector
from explorer.pages.bounds.state import BoundsState
from explorer.pages.bounds.view import BoundsView


def plot_of(x, y, **options):
    plot = curve_figure(name="p", title="", x_label="x", y_label="y", **options)
    add_curve(plot, ColumnDataSource({"x": x, "Exact": y}), "x", "Exact", [])
    set_projector(plot, False)
    return plot


@pytest.mark.parametrize(
    ("y", "corners"),
    [
        ([0.03, 0.03, 0.03], {"top_left", "top_right"}),
        ([0.97, 0.97, 0.97], {"bottom_left", "bottom_right"}),
        ([0.95, 0.5, 0.05], {"bottom_left", "top_right"}),
        ([0.05, 0.5, 0.95], {"top_left", "bottom_right"}),
    ],
)
def test_the_legend_stands_where_no_curve_is(y, corners):
    plot = plot_of([0, 0.5, 1], y, x_range=Range1d(0, 1), y_range=Range1d(0, 1))
    for start in ("bottom_left", "top_left", "top_right", "bottom_right"):
        plot.legend.location = start
        clear_legend(plot)
        assert plot.legend[0].location in corners
        if start in corners:
            assert plot.legend[0].location == start  # it does not move without need


def test_a_curve_that_falls_between_two_samples_is_seen():
    plot = plot_of([0, 0.05, 0.1, 1], [5, 5, -5, -5], x_range=Range1d(0, 1), y_range=Range1d(0, 1))
    plot.legend.location = "bottom_left"
    clear_legend(plot)
    assert plot.legend[0].location in {"top_right", "bottom_right"}


def test_logarithmic_axes_and_hidden_and_missing_curves():
    low = 10.0 ** np.array([-2.9, -2.9])
    ranges = {"x_range": Range1d(1, 1000), "y_range": Range1d(1e-3, 1e3)}
    plot = plot_of([1, 1000], low, x_axis_type="log", y_axis_type="log", **ranges)
    plot.legend.location = "bottom_left"
    plot.renderers[0].visible = False
    clear_legend(plot)
    assert plot.legend[0].location == "bottom_left"
    plot.renderers[0].visible = True
    clear_legend(plot)
    assert plot.legend[0].location == "top_left"
    plot.renderers[0].data_source.data = {"x": [1, 1000], "Exact": [np.nan, 0.0]}
    clear_legend(plot)
    assert plot.legend[0].location == "top_left"


@pytest.mark.parametrize("noise_std", [1, 5, 20, 80, 1000])
def test_on_the_bounds_page_it_covers_no_curve(noise_std):
    plot = BoundsView(BoundsState(noise_std=noise_std)).plot
    clear_legend(plot)  # as wide as on a page
    assert covered(plot.legend[0].location, legend_size(plot.legend[0], plot), plot) == 0
