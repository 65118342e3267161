"""Widgets' values that no hand can enter, sent by the protocol: refused on the server, felt by nobody else."""

import asyncio

import pytest

from tests.hosting.conftest import get
from tests.hosting.connection import Document

TELLTALE = "elltale"
LONG = "9" * 100_000


def number(value):
    return {"type": "number", "value": value}


WRONG = {
    "nan": number("nan"),
    "inf": number("+inf"),
    "-inf": number("-inf"),
    "far": 1e308,
    "far below": -1e308,
    "an integer whose power fills a machine": 10**9,
    "an integer of many digits": 10**400,
    "negative": -5,
    "none": None,
    "text": TELLTALE,
    "long text": LONG,
    "list": [TELLTALE, 1],
    "map": {"type": "map", "entries": [[TELLTALE, 1]]},
    "no encoding": {TELLTALE: 1},
    "no model": {"id": TELLTALE},
}


def controls(document):
    """Every (model, attribute) that holds the value of a control."""
    for model in document.models:
        data = model.get("data")
        if isinstance(data, dict) and "attributes" in data:
            found = {"value", "active", "checked"} & data["attributes"].keys()
            yield from (({"id": data["id"]}, attribute) for attribute in found)


async def enter(document, label, text, *, expected="?page="):
    """Type into the field with this label; the first address after it that holds what is expected."""
    await document.change(document.component(label=label)[1], "value", text)
    while "?page=" not in (content := await document.answer()) or expected not in content:
        pass
    return content


@pytest.mark.parametrize(("page", "label", "parameter"), [("bounds", "σ", "noise_std"), ("fit", "ε", "epsilon")])
def test_wrong_values_of_every_control_leave_the_page_and_the_others_as_they_are(proxied, page, label, parameter):
    proxy, host = proxied
    address, mark = proxy.address, len(host.log())

    async def run():
        bystander = await Document.visit(address, f"?page={page}&{parameter}=3")
        document = await Document.visit(address, f"?page={page}")
        places = list(controls(document))
        assert len(places) >= 8
        for value in WRONG.values():
            for model, attribute in places:
                await document.change(model, attribute, value)
        await enter(bystander, label, "3.5", expected=f"{parameter}=3.5")
        await enter(document, label, "4.5", expected=f"{parameter}=4.5")
        for each in (bystander, document):
            each.close()

    asyncio.run(run())
    assert get(f"{address}/readyz")[0] == 200
    assert TELLTALE not in host.log()[mark:] and LONG[:50] not in host.log()[mark:]


@pytest.mark.parametrize("name", ["nan", "far", "an integer whose power fills a machine", "negative", "none"])
def test_a_slider_stays_within_its_bounds_and_its_page_lives_on(proxied, name):
    async def run():
        document = await Document.visit(proxied[0].address, "?page=bounds&noise_std=7")
        slider = document.component(label="σ  noise")[1]
        await document.change(slider, "value", WRONG[name])
        await document.change(document.component(label="ε")[1], "value", "0.5")
        while "epsilon=0.5" not in (content := await document.answer()):
            pass
        expected = {"far": 1000.0, "an integer whose power fills a machine": 1000.0, "negative": 0.05}
        assert f"noise_std={expected.get(name, 7.0)}" in content
        document.close()

    asyncio.run(run())


@pytest.mark.parametrize("number", [-5, 99, 10**400, "x", None], ids=["below", "beyond", "huge", "text", "none"])
def test_a_tab_that_is_not_there_is_not_opened(proxied, number):
    async def run():
        document = await Document.visit(proxied[0].address, "?page=bounds")
        tabs = [m for m in document.models if isinstance(m.get("data"), dict)]
        tabs = [m["data"] for m in tabs if "active" in m["data"].get("attributes", {})]
        assert len(tabs) == 1
        await document.change(tabs[0], "active", number)
        assert "?page=bounds&noise_std=6.0" in await enter(document, "σ", "6", expected="noise_std")
        document.close()

    asyncio.run(run())
