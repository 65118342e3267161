"""Readouts: key numbers in large type as cards of plain HTML, rounded so that no guarantee looks better than it is."""

import re
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from html import escape

import numpy as np
import panel as pn

_SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")

LONG = 10  # characters; a longer value is set in smaller type to fit a narrow card

_STYLE = """
:host { container-type: inline-size; }
.headline { font-size: 1.35em; line-height: 1.35; margin: 0 0 0.7em 0; }
.cards { display: grid; grid-template-columns: repeat(auto-fit, minmax(11em, 1fr)); gap: 0.8em; }
.card { border: 1px solid color-mix(in srgb, currentColor 25%, transparent); border-left-width: 0.4em;
        border-radius: 0.5em; padding: 0.6em 0.9em; }
.title { font-weight: 600; }
.value { font-size: 1.9em; line-height: 1.25; font-variant-numeric: tabular-nums; }
.long { font-size: 1.3em; line-height: 1.83; }
.detail { opacity: 0.85; }
"""


@dataclass(frozen=True)
class Card:
    """One readout: a title, a value in large type, a line of detail, and the colour of its curve."""

    title: str
    value: str
    detail: str = ""
    color: str = "currentColor"


class Readouts(pn.pane.HTML):
    """A headline sentence above a row of cards; `show` replaces both."""

    def __init__(self, **params):
        super().__init__(sizing_mode="stretch_width", stylesheets=[_STYLE], **params)

    def show(self, headline, cards):
        """Replace the headline (HTML, str) and the cards (iterable of Card)."""
        boxes = "".join(
            f'<div class="card" style="border-left-color: {card.color}"><div class="title">{escape(card.title)}</div>'
            f'<div class="value{" long" if len(card.value) > LONG else ""}">{_unbroken(escape(card.value))}</div>'
            f'<div class="detail">{_unbroken(escape(card.detail))}</div></div>'
            for card in cards
        )
        self.object = (
            f'<div role="status"><p class="headline">{_unbroken(headline)}</p><div class="cards">{boxes}</div></div>'
        )


def _unbroken(text):
    """The text with no line break inside "ε = 1", "1.32 × 10⁻⁷" or "94 %"."""
    text = re.sub(r" ([=≤≥]|&[lg]t;|×(?= 10)) ", "\N{NO-BREAK SPACE}\\1\N{NO-BREAK SPACE}", text)
    return text.replace(" %", "\N{NO-BREAK SPACE}%")


def percent(part, *, digits=2):
    """A fraction in 0..1 as "94.35 %"."""
    return f"{100 * part:.{digits}f} %"


def rounded(value, *, up, digits=3):
    """`value` to `digits` significant digits, rounded up (a guarantee) or down (a lower bound); infinity as ∞."""
    if not np.isfinite(value):
        return "∞" if value > 0 else "none"
    context = Context(prec=digits, rounding=ROUND_CEILING if up else ROUND_FLOOR)
    return f"{float(context.create_decimal(Decimal(float(value)))):g}"


def power_of_ten(log10_value, *, up):
    """10^x as "1.32 × 10⁻⁷", rounded up or down, for any x, also where 10^x has no float."""
    exponent = np.floor(log10_value)
    mantissa = float(rounded(10 ** (log10_value - exponent), up=up))
    if mantissa >= 10:
        mantissa, exponent = mantissa / 10, exponent + 1
    if -2 <= exponent <= 5:
        return f"{mantissa * 10**exponent:.3g}"
    return f"{mantissa:g} × 10{f'{exponent:.0f}'.translate(_SUPERSCRIPTS)}"
