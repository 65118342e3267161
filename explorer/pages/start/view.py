"""The start page: what this is, and the pages as a path through a lecture."""

import panel as pn
import panel_material_ui as pmui

INTRODUCTION = """
# What does a private model cost?

A model trained on people's records can give a person away. **Objective perturbation** prevents that with one random
slope, added to what training minimises before it is solved. How much privacy this buys, how much accuracy it costs and
how it fares against DP-SGD can be seen, moved and checked here. Every number comes from the library under these pages;
take it along as Python, a table or a picture.
"""


class StartView(pn.viewable.Viewer):
    """The start page as a Panel object.

    Parameters
    ----------
    questions : dict of str by the name of a page, in the order of a lecture
    open_page : callable, receives the name of the page that was chosen
    """

    def __init__(self, questions, open_page, **params):
        super().__init__(**params)
        self.questions, self.open_page = questions, open_page
        self.words = pn.pane.Markdown(INTRODUCTION, sizing_mode="stretch_width", max_width=1000)
        self.path = pmui.Column(*self._steps(), sizing_mode="stretch_width")
        self.set_projector(False)

    def set_projector(self, on):
        """Type for the last row of a lecture room, or for a desk."""
        self.words.styles = {"font-size": "24px" if on else "17px"}
        for step in self.path:
            step.sx = {"textAlign": "left", "textTransform": "none", "fontSize": "24px" if on else "17px"}

    def _steps(self):
        return (
            pmui.Button(
                label=f"{number} · {name}: {question}",
                variant="text",
                on_click=lambda _, name=name: self.open_page(name),
                margin=(0, 5),
            )
            for number, (name, question) in enumerate(self.questions.items(), 1)
        )

    def __panel__(self):
        return pmui.Column(self.words, self.path, sizing_mode="stretch_width")
