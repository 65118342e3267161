"""One pn.viewable.Viewer per page: draws its state. No mathematics."""

from explorer.views.bounds import BoundsView
from explorer.views.calibrate import CalibrateView
from explorer.views.compare import CompareView
from explorer.views.composition import CompositionView
from explorer.views.fit import FitView
from explorer.views.glm import GLMView
from explorer.views.half_normal import HalfNormalView
from explorer.views.renyi import RenyiView
from explorer.views.solvers import SolversView
from explorer.views.spectrum import SpectrumView
from explorer.views.start import StartView
from explorer.views.worst_case import WorstCaseView

__all__ = [
    "BoundsView",
    "CalibrateView",
    "CompareView",
    "CompositionView",
    "FitView",
    "GLMView",
    "HalfNormalView",
    "RenyiView",
    "SolversView",
    "SpectrumView",
    "StartView",
    "WorstCaseView",
]
