"""Docstrings of this project are plain text with `names` in backticks; Sphinx reads reStructuredText.

What reStructuredText would take for markup stands for itself in them: |x|, privacy_, 2 * x. An indented paragraph is a
formula or an example and keeps its lines.
"""

import re

_MARKUP = re.compile(r"(``[^`]+``|`[^`]+`)|([*|_\\])")
_SECTION = re.compile(r"-{3,}")


def to_restructured_text(app, what, name, obj, options, lines):
    """Rewrite the lines of a docstring in place; a handler of autodoc-process-docstring."""
    lines[:] = converted(lines)


def converted(lines):
    """The lines as reStructuredText that shows what they show as plain text."""
    result, base, previous_blank, literal = [], 0, True, None
    in_doctest = False
    for number, line in enumerate(lines):
        text = line.strip()
        indent = len(line) - len(line.lstrip())
        if not text:
            in_doctest = False
            previous_blank = True
            result.append("")
            continue
        if literal is not None and indent < literal:
            literal = None
        if text.startswith(">>>"):
            in_doctest = True
        if (
            literal is None
            and not in_doctest
            and previous_blank
            and number
            and indent >= base + 4
            and _stands_alone(result)
        ):
            literal = indent
            result += [" " * base + ".. code-block:: text", ""]
        if literal is not None or in_doctest or _SECTION.fullmatch(text):
            result.append(line)
        else:
            result.append(_escaped(line))
            if previous_blank or indent < base:
                base = indent
        previous_blank = False
    return result


def _stands_alone(result):
    """Whether an indented paragraph here is no description that belongs to a parameter above."""
    return bool(result)


def _escaped(line):
    return _MARKUP.sub(lambda match: match[1] or "\\" + match[2], line)
