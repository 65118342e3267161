"""One pn.viewable.Viewer per page: draws its state. No mathematics."""

from explorer.views.bounds import BoundsView
from explorer.views.compare import CompareView
from explorer.views.composition import CompositionView
from explorer.views.fit import FitView
from explorer.views.glm import GLMView
from explorer.views.half_normal import HalfNormalView
from explorer.views.renyi import RenyiView

__all__ = ["BoundsView", "CompareView", "CompositionView", "FitView", "GLMView", "HalfNormalView", "RenyiView"]
