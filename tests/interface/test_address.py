"""Links that hold a state: what is not valid in one is named, and the rest is taken."""

from types import SimpleNamespace

from explorer.interface.address import Address
from explorer.pages.bounds.state import BoundsState


def test_a_link_says_what_is_not_valid_in_it():
    states = {"start": None, "bounds": BoundsState()}
    tabs = SimpleNamespace(active=0, param=SimpleNamespace(watch=lambda *_: None))
    address = Address(states, tabs)
    assert address.restore({"page": "boundz"}) == ['Unknown page "boundz" in the link: showing the start page instead.']
    assert tabs.active == 0
    refused = address.restore({"page": "bounds", "noise_std": "7", "l2_reg": "-1"})
    assert refused == ['"l2_reg=-1" in the link is not valid here: using the default.']
    assert (states["bounds"].noise_std, states["bounds"].l2_reg) == (7.0, BoundsState.param.l2_reg.default)
    assert tabs.active == 1
