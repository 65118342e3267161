"""One pn.viewable.Viewer per page: draws its state. No mathematics."""

from explorer.views.bounds import BoundsView
from explorer.views.composition import CompositionView
from explorer.views.fit import FitView
from explorer.views.glm import GLMView
from explorer.views.half_normal import HalfNormalView
from explorer.views.renyi import RenyiView
from explorer.views.start import StartView

__all__ = ["BoundsView", "CompositionView", "FitView", "GLMView", "HalfNormalView", "RenyiView", "StartView"]
