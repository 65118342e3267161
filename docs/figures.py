"""Diagrams of the architecture as SVG inside the page, in the colours of its theme, so that they follow dark mode.

A diagram is a list of boxes on a grid and of arrows between them; the directive `diagram` puts one into a page.
"""

from dataclasses import dataclass
from html import escape

from docutils import nodes
from docutils.parsers.rst import Directive

_WIDTH, _HEIGHT, _GAP_X, _GAP_Y, _LINE = 150, 56, 46, 40, 16  # of a cell and of what lies between, in pixels


@dataclass(frozen=True)
class Box:
    """A box whose first line is its name.

    Attributes
    ----------
    column, row : float, its place on the grid, from the left and from the top
    lines : tuple of str
    columns : float, cells that it spans
    soft : bool, drawn without a fill, for what is outside the program
    """

    column: float
    row: float
    lines: tuple
    columns: float = 1
    soft: bool = False

    @property
    def x(self):
        """Its left edge."""
        return 10 + self.column * (_WIDTH + _GAP_X)

    @property
    def y(self):
        """Its upper edge."""
        return 10 + self.row * (_HEIGHT + _GAP_Y)

    @property
    def width(self):
        """Its width in pixels."""
        return self.columns * _WIDTH + (self.columns - 1) * _GAP_X

    def svg(self):
        """The box and its text."""
        fill = "none" if self.soft else "var(--color-background-secondary)"
        dash = ' stroke-dasharray="5 4"' if self.soft else ""
        yield (
            f'<rect x="{self.x:g}" y="{self.y:g}" width="{self.width:g}" height="{_HEIGHT}" rx="6" fill="{fill}" '
            f'stroke="currentColor" stroke-opacity="0.5"{dash}/>'
        )
        top = self.y + _HEIGHT / 2 - (len(self.lines) - 1) * _LINE / 2 + 4
        for number, line in enumerate(self.lines):
            look = 'font-weight="600" font-size="13"' if number == 0 else 'font-size="11.5" fill-opacity="0.8"'
            x, y = self.x + self.width / 2, top + number * _LINE
            yield f'<text x="{x:g}" y="{y:g}" text-anchor="middle" fill="currentColor" {look}>{escape(line)}</text>'


@dataclass(frozen=True)
class Arrow:
    """A straight arrow from the edge of one box to that of another, with a word beside it; a dashed one answers."""

    start: str
    end: str
    word: str = ""
    dashed: bool = False

    def svg(self, boxes):
        """The line and its word."""
        a, b = boxes[self.start], boxes[self.end]
        (x1, y1), (x2, y2) = _between(a, b)
        dash = ' stroke-dasharray="5 4"' if self.dashed else ""
        yield (
            f'<line x1="{x1:g}" y1="{y1:g}" x2="{x2:g}" y2="{y2:g}" stroke="currentColor" stroke-width="1.5"{dash} '
            'marker-end="url(#tip)"/>'
        )
        if self.word:
            beside = abs(y2 - y1) > abs(x2 - x1)
            x, y = (x1 + x2) / 2 + (7 if beside else 0), (y1 + y2) / 2 + (4 if beside else -6)
            anchor = "start" if beside else "middle"
            yield (
                f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}" font-size="11.5" fill="currentColor">'
                f"{escape(self.word)}</text>"
            )


def _between(a, b):
    """Where an arrow from box a to box b leaves and arrives: in the common part of their sides if there is one."""
    left, right = max(a.x, b.x), min(a.x + a.width, b.x + b.width)
    if left < right and a.row != b.row:
        x, down = (left + right) / 2, b.y > a.y
        return ((x, a.y + _HEIGHT), (x, b.y - 4)) if down else ((x, a.y), (x, b.y + _HEIGHT + 4))
    forward = b.x > a.x
    x1, x2 = (a.x + a.width, b.x - 4) if forward else (a.x, b.x + b.width + 4)
    return (x1, a.y + _HEIGHT / 2), (x2, b.y + _HEIGHT / 2)


LAYERS = {
    "hosting": Box(0, 0, ("hosting", "servers, limits, logs"), 1.5),
    "app": Box(1.74, 0, ("app", "puts the pages on one page"), 2.26),
    "view": Box(0, 1, ("pages/…/view", "draws"), 1.5),
    "interface": Box(1.74, 1, ("interface", "controls, plots, jobs"), 1.13),
    "compute": Box(2.98, 1, ("compute", "long work"), 1.02),
    "state": Box(0, 2, ("pages/…/state", "parameters, answers"), 1.5),
    "computation": Box(0, 3, ("pages/…/computation", "plain functions"), 1.5),
    "study": Box(1.74, 3, ("study", "a grid in, a table out"), 2.26),
    "learning": Box(0, 4, ("learning", "how is it fitted?"), 4),
    "accounting": Box(0, 5, ("accounting", "what does it cost?"), 2.5),
    "vocabulary": Box(2.74, 5, ("vocabulary, validation", "names; checks of arguments"), 1.26),
}

DIAGRAMS = {
    "layers": (
        "The layers of the package; every arrow is an import",
        LAYERS,
        [
            Arrow("app", "interface"),
            Arrow("interface", "compute"),
            Arrow("view", "interface"),
            Arrow("view", "state"),
            Arrow("state", "computation"),
            Arrow("computation", "study"),
            Arrow("computation", "learning"),
            Arrow("study", "learning"),
            Arrow("learning", "accounting"),
            Arrow("accounting", "vocabulary"),
            Arrow("hosting", "app"),
        ],
    ),
    "slider": (
        "What happens when a slider moves",
        {
            "slider": Box(0, 0, ("slider", "in the browser"), soft=True),
            "control": Box(1, 0, ("control", "interface/controls")),
            "state": Box(2, 0, ("state", "one parameter set")),
            "view": Box(3, 0, ("view", "its watcher")),
            "fast": Box(3, 1, ("fast curves", "in the event loop")),
            "source": Box(1.5, 1, ("ColumnDataSource", "its data replaced"), 1.2),
            "picture": Box(0, 1, ("picture", "redrawn"), soft=True),
            "latest": Box(3, 2, ("LatestOnly", "drops older requests")),
            "process": Box(1.5, 2, ("compute process", "remembers answers"), 1.2),
        },
        [
            Arrow("slider", "control", "event"),
            Arrow("control", "state"),
            Arrow("state", "view"),
            Arrow("view", "fast"),
            Arrow("fast", "source"),
            Arrow("source", "picture", "one message"),
            Arrow("fast", "latest", "slow curves"),
            Arrow("latest", "process"),
            Arrow("process", "source", "answer", dashed=True),
        ],
    ),
    "fit": (
        "What happens when a fit is started",
        {
            "button": Box(0, 0, ("Run button", "in the browser"), soft=True),
            "runner": Box(1, 0, ("JobRunner", "interface/job")),
            "engine": Box(2, 0, ("engine", "submit, cancel")),
            "queue": Box(3, 0, ("queue", "fair between sessions")),
            "worker": Box(3, 1, ("worker", "computation(report=…)")),
            "messages": Box(2, 1, ("job", "messages, result")),
            "progress": Box(1, 1, ("progress", "and time left")),
            "bar": Box(0, 1, ("progress bar", "curves so far"), soft=True),
            "state": Box(2, 2, ("state", "keeps the answer")),
            "view": Box(1, 2, ("view", "draws it")),
            "picture": Box(0, 2, ("picture", ""), soft=True),
        },
        [
            Arrow("button", "runner", "event"),
            Arrow("runner", "engine"),
            Arrow("engine", "queue"),
            Arrow("queue", "worker"),
            Arrow("worker", "messages", "reports", dashed=True),
            Arrow("messages", "progress", dashed=True),
            Arrow("progress", "bar", dashed=True),
            Arrow("messages", "state", "result"),
            Arrow("state", "view"),
            Arrow("view", "picture"),
        ],
    ),
}


def svg(name):
    """The diagram of this name as SVG to stand in a page."""
    title, boxes, arrows = DIAGRAMS[name]
    width = max(box.x + box.width for box in boxes.values()) + 10
    height = max(box.y for box in boxes.values()) + _HEIGHT + 10
    parts = [part for box in boxes.values() for part in box.svg()]
    parts += [part for arrow in arrows for part in arrow.svg(boxes)]
    return "\n".join(
        [
            f'<div class="figure-wide"><svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" '
            f'role="img" aria-label="{escape(title)}" font-family="sans-serif">',
            '<defs><marker id="tip" viewBox="0 0 8 8" refX="6" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
            '<path d="M0,0 L8,4 L0,8 z" fill="currentColor"/></marker></defs>',
            *parts,
            "</svg></div>",
        ]
    )


class Diagram(Directive):
    """The directive `diagram` with the name of one of DIAGRAMS."""

    required_arguments = 1

    def run(self):
        """The nodes that stand in the page."""
        return [nodes.raw("", svg(self.arguments[0]), format="html")]
