"""Reference data, and property tests that draw the same examples on every machine."""

import json
from pathlib import Path

import pytest
from hypothesis import settings

settings.register_profile("repeatable", derandomize=True, deadline=None)
settings.load_profile("repeatable")

DATA = Path(__file__).parent / "data"


@pytest.fixture(scope="session")
def bounds_reference():
    """Values computed independently at 30 to 60 digits, as tables of rows."""
    return json.loads((DATA / "bounds.json").read_text())


@pytest.fixture(scope="session")
def experiments_reference():
    """The paper's experiments, measured once by an independent implementation, and calibrated parameters."""
    return json.loads((DATA / "experiments.json").read_text())
