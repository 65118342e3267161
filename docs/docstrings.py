"""Docstrings of this project are plain text with `names` in backticks; Sphinx reads reStructuredText.

What reStructuredText would take for markup stands for itself in them: |x|, privacy_, 2 * x. An indented paragraph is a
formula or an example and keeps its lines.
"""

import re

_MARKUP = re.compile(r"(``[^`]+``|`[^`]+`)|([*|_\\])")
_RULE = re.compile(r"-{3,}")  # below the head of a section


def to_restructured_text(app, what, name, obj, options, lines):
    """Rewrite the lines of a docstring in place; a handler of autodoc-process-docstring."""
    lines[:] = converted(lines)


def converted(lines):
    """The lines as reStructuredText that shows what they show as plain text.

    A paragraph that follows a blank line and is indented by four more than the one before is literal, up to the next
    line that is indented less. The description of a parameter follows its name without a blank line.
    """
    result, base, literal, example, after_blank = [], 0, None, False, False
    for line in lines:
        text, indent = line.strip(), len(line) - len(line.lstrip())
        if not text:
            result.append("")
            example, after_blank = False, bool(len(result) > 1)
            continue
        example = example or text.startswith(">>>")
        if literal is not None and indent < literal:
            literal = None
        if literal is None and not example and after_blank and indent >= base + 4:
            literal = indent
            result += [" " * base + ".. code-block:: text", ""]
        as_it_is = literal is not None or example or _RULE.fullmatch(text)
        result.append(line if as_it_is else _MARKUP.sub(lambda match: match[1] or "\\" + match[2], line))
        if not as_it_is and (after_blank or indent < base):
            base = indent
        after_blank = False
    return result
