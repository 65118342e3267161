"""Controls of the pages: logarithmic sliders with a field for the exact value, switches, lists, alerts."""

import numpy as np
import panel as pn
import panel_material_ui as pmui
import param

from explorer.interface.compatibility import at_once

STEPS = 200  # positions of a slider between its ends
ZERO_STEPS = 10  # positions between the smallest positive value and zero
SHORT = 8  # characters that fit into a field of the usual width
# The theme of a button in a row: its tooltip opens below it, not over the next button, which could not be clicked then.
TOOLTIP_BELOW = {
    "components": {
        "MuiTooltip": {
            "defaultProps": {"slotProps": {"popper": {"placement": "bottom"}}},
            "styleOverrides": {"tooltip": {"width": "max-content"}},
        }
    }
}


@at_once("value")
class LiveSlider(pmui.FloatSlider):
    """A slider that updates the curves while it is dragged."""


def log_slider(state, name):
    """A control for a param.Number or Integer with bounds: a logarithmic slider, and a field for the value.

    The slider spans the soft bounds where there are some. Zero, where the bounds allow it, is its lowest position.

    Parameters
    ----------
    state : param.Parameterized
    name : str, the parameter's; its label, doc and bounds are shown

    Returns
    -------
    pmui.Row of the slider and the field
    """
    parameter = state.param[name]
    kind = round if isinstance(parameter, param.Integer) else float
    scale = _LogScale(parameter)
    slider = LiveSlider(
        label=parameter.label,
        description=parameter.doc,
        start=scale.start,
        end=scale.end,
        step=scale.step,
        value=scale.position(getattr(state, name)),
        value_label=_text(getattr(state, name)),  # announced by screen readers instead of the logarithm
        show_value=False,
        size="small",
        sizing_mode="stretch_width",
    )
    field = number_field(state, name)

    # True while the slider sets the parameter or the parameter the slider: without it the parameter would lose its
    # exact value to the slider's rounding, and a late update would pull the slider back while it is dragged.
    linking = False

    def slide(event):
        nonlocal linking
        if not linking:
            linking = True
            try:
                if event.new != event.new:  # nan: only a forged message holds it
                    slider.value = scale.position(getattr(state, name))
                    return
                with pn.io.hold():  # all changes go to the browser in one message
                    setattr(state, name, kind(np.clip(scale.value(event.new), *parameter.bounds)))
            finally:
                linking = False

    def follow(event):
        nonlocal linking
        slider.value_label = _text(event.new)
        if not linking:
            linking = True
            try:
                slider.value = scale.position(event.new)
            finally:
                linking = False

    slider.param.watch(slide, "value")
    state.param.watch(follow, name)
    return pmui.Row(slider, field, sizing_mode="stretch_width", margin=(0, 0))


class _LogScale:
    """Positions of a slider: log10 of the value; zero lies ZERO_STEPS to the left of the smallest positive value."""

    def __init__(self, parameter):
        self.zero = parameter.bounds[0] == 0
        self.low, self.end = (float(x) for x in np.log10(parameter.get_soft_bounds()))
        self.step = (self.end - self.low) / STEPS
        self.start = self.low - ZERO_STEPS * self.step if self.zero else self.low

    def position(self, value):
        """The slider's position for a value."""
        return float(np.clip(np.log10(value), self.low, self.end)) if value > 0 else self.start

    def value(self, position):
        """The value at a position, to three digits; positions beyond the ends count as the ends."""
        position = min(max(position, self.start), self.end)  # first: a power of a huge integer would not end
        if self.zero and position < self.low - self.step / 2:
            return 0.0
        return _rounded(10.0 ** max(position, self.low))


def switch(state, name):
    """A switch for a param.Boolean, with its label and doc."""
    parameter = state.param[name]
    control = pmui.Switch(label=parameter.label, description=parameter.doc, value=getattr(state, name))
    control.param.watch(lambda event: setattr(state, name, event.new), "value")
    state.param.watch(lambda event: setattr(control, "value", event.new), name)
    return control


def choice(state, name):
    """A drop-down list for a param.Selector."""
    return _selection(pmui.Select, state, name, size="small", sizing_mode="stretch_width")


def choices(state, name):
    """A multiple-choice list for a param.ListSelector."""
    return _selection(pmui.MultiChoice, state, name, sizing_mode="stretch_width")


def step_slider(state, name):
    """A labelled slider for a param.Selector of numbers in ascending order."""
    return _selection(pmui.DiscreteSlider, state, name, size="small", sizing_mode="stretch_width")


def _selection(widget, state, name, **options):
    parameter = state.param[name]
    control = widget(
        label=parameter.label,
        description=parameter.doc,
        options=parameter.get_range(),
        value=getattr(state, name),
        **options,
    )
    control.param.watch(lambda event: setattr(state, name, event.new), "value")
    state.param.watch(lambda event: setattr(control, "value", event.new), name)
    return control


def number_field(state, name, **options):
    """A field for the exact value of a param.Number or param.Integer, refusing what lies outside its bounds.

    Further options are those of pmui.TextInput.
    """
    parameter = state.param[name]
    low, high = parameter.bounds
    field = pmui.TextInput(
        label=parameter.label.split()[0],
        **_shown(getattr(state, name)),
        size="small",
        margin=(12, 5, 0, 5),
        sx={"& input": {"textAlign": "right", "paddingLeft": "6px"}},
        **options,
    )

    def enter(event):
        try:
            value = type(getattr(state, name))(float(event.new))
            if not low <= value <= high:
                raise ValueError
        except (ValueError, OverflowError):
            if pn.state.notifications is not None:
                pn.state.notifications.warning(f"{parameter.label}: enter a number from {low:g} to {high:g}.")
            field.value = _text(getattr(state, name))
            return
        setattr(state, name, value)

    def follow(event):
        field.param.update(**_shown(event.new))

    field.param.watch(enter, "value")
    state.param.watch(follow, name)
    return field


def alert(severity="info", *, visible=False, **options):
    """An alert for messages, hidden until there is one, as wide as the cards below it; options as of pmui.Alert."""
    return pmui.Alert(severity=severity, visible=visible, margin=(5, 10), sizing_mode="stretch_width", **options)


def labelled_field(state, name):
    """A field for the exact value after the parameter's label, for numbers such as seeds that need no slider."""
    parameter = state.param[name]
    label = pmui.Typography(parameter.label, variant="body1", margin=(20, 10))
    field = number_field(state, name, description=parameter.doc)
    return pmui.Row(label, pn.layout.HSpacer(), field, sizing_mode="stretch_width")


def limit_active(tabs):
    """Refuse tab numbers that do not exist: the browser never sends one, a forged message can."""
    tabs.param.active.bounds = (0, len(tabs) - 1)  # of this object alone


def _rounded(value):
    """Three significant digits, the precision of a slider."""
    return float(f"{value:.3g}")


def _shown(value):
    """The text of a field, and the width that fits all its digits."""
    text = _text(value)
    return {"value": text, "width": 110 if len(text) <= SHORT else 165}


def _text(value):
    return f"{value:.10g}"
