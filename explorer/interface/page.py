"""The layout of every page: introduction and formula, controls beside a plot, readouts below it."""

import re

import panel as pn
import panel_material_ui as pmui
import param

from explorer.interface.controls import TOOLTIP_BELOW
from explorer.interface.exports import export_buttons
from explorer.interface.plotting import keep_sizes, set_projector
from explorer.interface.readouts import Readouts
from explorer.vocabulary import SYMBOLS

# On a phone, narrower than a formula, the formula scrolls and not the page; padding keeps its ends from being cut off.
_FORMULA = """@media (max-width: 700px) {
    mjx-container { display: block; overflow-x: auto; overflow-y: hidden; padding: 2px 0; }
}"""


class PageView(pn.viewable.Viewer):
    """Base of the pages; a subclass sets its state, makes its plot, gives its introduction and calls `arrange` in
    `__panel__`.

    Attributes
    ----------
    question : str, the question that the page answers, in plain words
    introduction : str, Markdown with $$display$$ formulas
    state_type : class of PageState that it draws
    state : PageState
    words : the introduction as a pane
    plot : Bokeh figure
    pane : the plot as a pane
    plots, panes : tuples of all figures and their panes, `plot` and `pane` first
    readouts : Readouts
    """

    question = introduction = ""
    state_type = None

    def __init__(self, plot, *further, **params):
        super().__init__(**params)
        self.plot, self.plots = plot, (plot, *further)
        self.panes = tuple(pn.pane.Bokeh(each, sizing_mode="stretch_width") for each in self.plots)
        self.pane = self.panes[0]
        self.words = pn.pane.Markdown(
            self.introduction, sizing_mode="stretch_width", max_width=1200, stylesheets=[_FORMULA]
        )
        self.readouts = Readouts(name=f"{plot.name}_readouts")
        for each in self.plots:
            keep_sizes(each)
        self.set_projector(False)

    def set_projector(self, on):
        """Large type and thick lines for a projector, or the sizes for a desktop screen."""
        for pane in (self.words, self.readouts):
            pane.styles = {"font-size": "22px" if on else "16px"}
        for plot in self.plots:
            set_projector(plot, on, height=480 if plot is self.plot else 320)

    def preset_buttons(self):
        """A button for each preset of the state; its tooltip shows the values."""
        return pmui.FlexBox(
            *(
                pmui.Button(
                    label=name,
                    variant="outlined",
                    size="small",
                    description=f"{name}: "
                    + ", ".join(f"{_called(self.state, k)} = {_shown(v)}" for k, v in values.items()),
                    theme_config=TOOLTIP_BELOW,
                    on_click=lambda _, name=name: self.state.apply_preset(name),
                )
                for name, values in self.state.presets.items()
            )
        )

    def arrange(self, controls, *below, picture=None):
        """The whole page, in two columns.

        Parameters
        ----------
        controls : Panel object, the left column
        below : Panel objects between the plot and the readouts, in the right column
        picture : Panel object that replaces the plot and has export buttons of its own; None for the plot itself
        """
        tools = export_buttons(self.state, *(self.plots if picture is None else ()), name=self.plot.name)
        picture = pmui.Column(
            self.pane if picture is None else picture, *below, self.readouts, tools, sizing_mode="stretch_width"
        )
        return pmui.Column(self.words, columns(controls, picture), sizing_mode="stretch_width")


def columns(controls, picture):
    """Controls left and plots right; on a narrow screen one below the other."""
    return pmui.Grid(
        pmui.Grid(controls, size={"xs": 12, "md": 4, "xl": 3}),
        pmui.Grid(picture, size={"xs": 12, "md": 8, "xl": 9}),
        container=True,
        spacing=3,
        sizing_mode="stretch_width",
    )


def symbol(state, name):
    """The Greek letter or first word of a parameter's label."""
    return state.param[name].label.split()[0]


def _called(state, name):
    """The symbol of a numeric parameter; the whole label of any other."""
    return symbol(state, name) if isinstance(state.param[name], param.Number) else state.param[name].label


def in_symbols(reason):
    """The text of an error with symbols for the names of parameters."""
    return re.sub(r"\w+", lambda word: SYMBOLS.get(word.group(), word.group()), reason)


def hidden(refused):
    """Which curves are not drawn and why: a list of sentences, one for each reason in a dict of reasons by curve."""
    return [
        f"Hidden: {', '.join(name for name, why in refused.items() if why == reason)}, because {in_symbols(reason)}."
        for reason in dict.fromkeys(refused.values())
    ]


def _shown(value):
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return ", ".join(map(_shown, value))
    return f"{value:g}" if isinstance(value, int | float) else str(value)
