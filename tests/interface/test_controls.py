"""Controls: zero on a logarithmic slider, soft bounds, and lists."""

import panel_material_ui as pmui
import param
import pytest

from explorer.interface.controls import choice, labelled_field, limit_active, log_slider


class State(param.Parameterized):
    size = param.Number(1.0, bounds=(0.1, 10), label="s  size", doc="How large.")
    optional = param.Number(0.0, bounds=(0, 100), softbounds=(0.1, 10), label="o  optional", doc="Zero for none.")
    kind = param.Selector(default="a", objects=["a", "b"], label="Kind", doc="Which.")


@pytest.fixture
def state():
    return State()


def test_zero_is_the_lowest_position(state):
    slider, field = log_slider(state, "optional")
    assert slider.value == slider.start < -1
    slider.value = -1.0
    assert state.optional == 0.1
    slider.value = slider.end
    assert state.optional == 10
    slider.value = slider.start
    assert (state.optional, field.value) == (0.0, "0")
    state.optional = 1.0
    assert slider.value == 0
    state.optional = 50.0  # beyond what the slider spans, within the bounds
    assert (slider.value, field.value) == (1.0, "50")
    field.value = "0"
    assert (state.optional, slider.value) == (0.0, slider.start)


def test_a_positive_parameter_has_no_zero(state):
    slider, _ = log_slider(state, "size")
    assert (slider.start, slider.end) == (-1, 1)
    slider.value = slider.start
    assert state.size == 0.1
    state.size = 0.123456
    assert state.size == 0.123456  # the slider follows and does not round it


def test_choice(state):
    control = choice(state, "kind")
    assert (control.label, control.description, list(control.options)) == ("Kind", "Which.", ["a", "b"])
    control.value = "b"
    assert state.kind == "b"
    state.kind = "a"
    assert control.value == "a"


def test_a_field_without_a_slider_has_its_parameters_doc_as_tooltip(state):
    label, _, field = labelled_field(state, "size")
    assert (label.object, field.description, field.value) == ("s  size", "How large.", "1")
    field.value = "2"
    assert state.size == 2


@pytest.mark.parametrize("far", [1e308, float("inf"), 10**9, 10**400])
@pytest.mark.parametrize("name", ["size", "optional"])
def test_positions_beyond_the_ends_are_the_ends(state, name, far):
    """Such a message froze the server: it computed ten to the power of that integer."""
    slider, _ = log_slider(state, name)
    slider.value = far
    assert getattr(state, name) == 10
    slider.value = -far
    assert getattr(state, name) == (0.1 if name == "size" else 0)


def test_what_is_no_position_changes_nothing(state):
    slider, field = log_slider(state, "size")
    state.size = 0.123456
    position = slider.value
    slider.value = float("nan")
    assert (state.size, slider.value, field.value) == (0.123456, position, "0.123456")
    slider.value = 1.0
    assert state.size == 10


@pytest.mark.parametrize("text", ["", "five", "nan", "inf", "-1", "11", "9" * 100_000, "[]", "\0"])
def test_a_field_refuses_and_shows_the_value_that_holds(state, text):
    _, field = log_slider(state, "size")
    field.value = text
    assert (state.size, field.value) == (1.0, "1")
    field.value = "2"
    assert state.size == 2


@pytest.mark.parametrize("number", [-1, -5, 2, 99, 10**400, None, "x"])
def test_a_tab_that_is_not_there_cannot_be_chosen(number):
    tabs = pmui.Tabs(("a", "one"), ("b", "two"), active=1)
    limit_active(tabs)
    with pytest.raises(ValueError, match="active"):
        tabs.active = number
    assert tabs.active == 1
    pmui.Tabs(("a", "one")).active = 7  # others are not bound
