"""The start page: what the explorer is, and its pages in the order of a lecture."""

import panel as pn
import panel_material_ui as pmui

INTRODUCTION = """
# What does a private model cost?

A model trained on personal records can reveal them. **Objective perturbation** limits that: it adds one random linear
term to the training objective and releases the minimiser. These pages show how much privacy this gives, how much
accuracy it costs and how it compares with DP-SGD. Every number comes from the library behind them and can be copied as
Python, a table or a picture.
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
        """Large type for a projector, or the sizes for a desktop screen."""
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
