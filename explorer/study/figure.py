"""Accuracy against epsilon as a small SVG file, without a browser or a plotting library.

The same table gives the same bytes on every machine, so that tests can compare the figures in the documentation with
the table. Bokeh, which draws the explorer's other plots, needs a browser to export a file.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

import numpy as np

_WIDTH, _HEIGHT = 900, 460
_LEFT, _RIGHT, _TOP, _BOTTOM = 60, 560, 40, 400  # edges of the frame; the legend is to its right
_PERCENT_STEPS = (0.5, 1, 2, 5, 10, 20)


@dataclass(frozen=True)
class Curve:
    """A line with error bars.

    Attributes
    ----------
    label : str
    x, y, margin : ndarrays (n,); epsilon, accuracy in percent, half the length of its error bar
    color, dash : str, as in SVG
    """

    label: str
    x: np.ndarray
    y: np.ndarray
    margin: np.ndarray
    color: str
    dash: str = ""


def accuracy_figure(
    curves: Sequence[Curve], *, title: str, x_label: str, level: float | None = None, level_label: str = ""
) -> str:
    """The text of an SVG file.

    Parameters
    ----------
    curves : list of Curve
    title, x_label : str
    level : float or None, an accuracy in percent to mark by a horizontal line
    level_label : str, its name in the legend
    """
    ticks_x = sorted({float(x) for curve in curves for x in curve.x})
    values = [value for c in curves for value in (c.y - c.margin, c.y + c.margin)] + [[level] if level else []]
    ticks_y = _percent_ticks(np.concatenate(values))
    across, up = _scale(np.log(ticks_x), _LEFT + 20, _RIGHT - 20), _scale(ticks_y, _BOTTOM, _TOP)
    parts = [_text(_LEFT, 24, title, weight="bold"), *_axes(ticks_x, ticks_y, across, up, x_label)]
    entries = [(curve.label, curve.color, curve.dash) for curve in curves]
    if level is not None:
        parts.append(_line(_LEFT, up(level), _RIGHT, up(level), "#888888", dash="2 3"))
        entries.append((level_label, "#888888", "2 3"))
    for curve in curves:
        parts += _curve(curve, across, up)
    parts += _legend(entries)
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{_HEIGHT}" '
        f'viewBox="0 0 {_WIDTH} {_HEIGHT}" font-family="sans-serif" font-size="13" role="img">'
    )
    background = f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="#ffffff"/>'
    return "\n".join([head, f"<title>{escape(title)}</title>", background, *parts, "</svg>", ""])


def _scale(domain, start, end):
    """The linear map of the least and the largest number of `domain` to start and end."""
    low, high = float(min(domain)), float(max(domain))
    return lambda value: start + (value - low) / ((high - low) or 1) * (end - start)


def _percent_ticks(values):
    """Round numbers that enclose all values, about eight of them."""
    low, high = float(np.nanmin(values)), float(np.nanmax(values))
    step = next((s for s in _PERCENT_STEPS if (high - low) / s <= 8), _PERCENT_STEPS[-1])
    return np.arange(np.floor(low / step), np.ceil(high / step) + 1) * step


def _axes(ticks_x, ticks_y, across, up, x_label):
    for tick in ticks_y:
        yield _line(_LEFT, up(tick), _RIGHT, up(tick), "#dddddd", width=1)
        yield _text(_LEFT - 8, up(tick) + 4, f"{tick:g}", anchor="end")
    for tick in ticks_x:
        x = across(np.log(tick))
        yield _line(x, _BOTTOM, x, _BOTTOM + 5, "#333333", width=1)
        yield _text(x, _BOTTOM + 20, f"{tick:g}", anchor="middle")
    yield _line(_LEFT, _BOTTOM, _RIGHT, _BOTTOM, "#333333", width=1)
    yield _text((_LEFT + _RIGHT) / 2, _BOTTOM + 44, x_label, anchor="middle")
    yield _text(_RIGHT, 24, "test accuracy, %", anchor="end")


def _curve(curve, across, up):
    x = across(np.log(np.asarray(curve.x)))
    points = " ".join(f"{a:.1f},{up(b):.1f}" for a, b in zip(x, curve.y, strict=True))
    dash = f' stroke-dasharray="{curve.dash}"' if curve.dash else ""
    yield f'<polyline points="{points}" fill="none" stroke="{curve.color}" stroke-width="2.5"{dash}/>'
    for a, b, margin in zip(x, curve.y, curve.margin, strict=True):
        if np.isfinite(margin):
            yield _line(a, up(b - margin), a, up(b + margin), curve.color, width=1.5)
        yield f'<circle cx="{a:.1f}" cy="{up(b):.1f}" r="3" fill="{curve.color}"/>'


def _legend(entries):
    for row, (label, color, dash) in enumerate(entries):
        y = _TOP + 10 + 26 * row
        yield _line(_RIGHT + 16, y, _RIGHT + 50, y, color, dash=dash)
        yield _text(_RIGHT + 58, y + 4, label)


def _line(x1, y1, x2, y2, color, *, width=2.5, dash=""):
    dashes = f' stroke-dasharray="{dash}"' if dash else ""
    ends = f'x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"'
    return f'<line {ends} stroke="{color}" stroke-width="{width:g}"{dashes}/>'


def _text(x, y, text, *, anchor="start", weight="normal"):
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-weight="{weight}">{escape(text)}</text>'
