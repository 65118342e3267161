"""Controls: zero on a logarithmic slider, soft bounds, and lists."""

import param
import pytest

from explorer.views.controls import choice, log_slider


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
