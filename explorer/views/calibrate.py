"""The Calibrate page: the frontiers of noise and regularisation that a privacy budget allows, and the risk along them."""

import time

import numpy as np
import panel as pn
import panel_material_ui as pmui
from bokeh.events import Tap
from bokeh.models import BoxAnnotation, ColumnDataSource, HoverTool, Label, Range1d

from explorer.state.calibrate import ACCOUNTANTS, F_RANGE, LEAST, PARTS, POINT, SLOW, CalibrateState
from explorer.views.background import Latest
from explorer.views.controls import choice, log_slider, switch
from explorer.views.page import PageView
from explorer.views.plotting import MARK, add_curve, add_mark, curve_figure, in_session, redraw, stroke
from explorer.views.readouts import Card, rounded

INTRODUCTION = r"""
A privacy budget (ε, δ) can be paid for in two ways: by **noise** σ and by **regularisation** λ. Each curve, a
*frontier*, is the least λ that one proof of privacy asks for at each σ; what lies above it is private too. **Further down
and left is a better proof**, but none crosses the wall: the noise σ_G of the Gaussian mechanism. Too much of either
spoils the fit: the second picture bounds by how much, and its lowest point is the best choice. The paper takes
σ = 1.3 σ_G. Click a point of a curve, or move f, to choose.

$$\lambda(\sigma) = \min\{\lambda : \delta_{\sigma,\lambda}(\varepsilon) \le \delta\}, \qquad
\mathbb{E}\,F(\theta_{\text{out}}) - F(\theta^*) \le
nL\left(\tfrac{\tau}{\lambda} + \sigma_{\text{out}}\sqrt{d}\right) + \frac{d\,\sigma^2}{4\lambda} +
\frac{\lambda}{4} R^2, \qquad R = \lVert\theta^*\rVert$$
"""

TURN_SECONDS = 0.2  # what is known is drawn this often while the rest is computed
FASTEST_FIRST = sorted(ACCOUNTANTS, key=["hockey_stick", "refined", "renyi", "kifer", SLOW].index and (lambda name: 0))
DECADES = 5  # of lambda in the picture
RISKS = (0.85, 20.0)  # of the least risk: what the second picture shows
POINTS = ("name", "noise_std", "f", "l2_reg", "risk", "color", "size")


class CalibrateView(PageView):
    """The Calibrate page as a Panel object, for the app and for a notebook cell.

    Parameters
    ----------
    state : CalibrateState or None for a new one
    fit_with : callable of no argument that opens the Fit page with the chosen point, or None where there is no such page
    """

    introduction = INTRODUCTION

    def __init__(self, state=None, *, fit_with=None, **params):
        self.state = state or CalibrateState()
        self.known = {}  # parts by (name, part, signature): never of other parameters than those
        self.sources = {
            name: ColumnDataSource({column: [] for column in ("noise_std", "f", name)}, name=f"calibrate_{key}")
            for name, key in ACCOUNTANTS.items()
        }
        self.risk_sources = {
            name: ColumnDataSource({column: [] for column in ("noise_std", "f", name)}, name=f"calibrate_risk_{key}")
            for name, key in ACCOUNTANTS.items()
        }
        self.points = ColumnDataSource({column: [] for column in POINTS}, name="calibrate_points")
        self.best = ColumnDataSource({column: [] for column in POINTS}, name="calibrate_best")
