"""The pages, a folder each: computation (plain functions), state (parameters and their answers), view (drawing)."""

from importlib import import_module

PAGES = {  # the path through a lecture: the class of each page's view by its name, loaded when it is asked for
    "Bounds": "bounds.view.BoundsView",
    "Half-normal": "half_normal.view.HalfNormalView",
    "Rényi": "renyi.view.RenyiView",
    "Composition": "composition.view.CompositionView",
    "Worst case": "worst_case.view.WorstCaseView",
    "GLM bug": "glm.view.GLMView",
    "Calibrate": "calibrate.view.CalibrateView",
    "Fit": "fit.view.FitView",
    "Solvers": "solvers.view.SolversView",
    "Spectrum": "spectrum.view.SpectrumView",
    "Compare": "compare.view.CompareView",
}


def view_type(name):
    """The class of the named page's view; loads Panel, which a page's state does without."""
    module, _, view = PAGES[name].rpartition(".")
    return getattr(import_module(f"explorer.pages.{module}"), view)
