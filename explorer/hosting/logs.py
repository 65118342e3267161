"""Logs without personal data: the explorer's own messages, and of other records only where they were made.

Messages of libraries contain what users send: addresses with their query, tokens, the content of widgets. Of these the
time, the level, the line of code and the types of exceptions are written, which is what a bug report needs.
"""

import logging
import traceback

OWN = "explorer"


class ImpersonalFormatter(logging.Formatter):
    """Formats the whole text of the explorer's own records, and the line of code of all others."""

    def __init__(self):
        super().__init__("%(asctime)s %(levelname)s %(name)s[%(process)d] %(impersonal)s")

    def format(self, record):
        record.impersonal = self._text(record)
        # The base class would append the exception with its message, which can quote what a user sent.
        stripped = logging.makeLogRecord({**record.__dict__, "msg": "", "args": (), "exc_info": None, "exc_text": None})
        stripped.stack_info = None
        return super().format(stripped)

    @staticmethod
    def _text(record):
        own = record.name.partition(".")[0] == OWN
        text = record.getMessage() if own else f"{record.module}:{record.lineno}"
        if record.exc_info and record.exc_info[1] is not None:
            text += "".join(_exception(record.exc_info[1]))
        return text


def _exception(error):
    while error is not None:
        yield f"\n  {type(error).__name__} at "
        yield " < ".join(f"{f.filename}:{f.lineno}" for f in reversed(traceback.extract_tb(error.__traceback__)))
        error = error.__cause__ or error.__context__


def configure_logging():
    """Have every logger of this process write to standard error by ImpersonalFormatter."""
    handler = logging.StreamHandler()
    handler.setFormatter(ImpersonalFormatter())
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(logging.WARNING)
    logging.getLogger(OWN).setLevel(logging.INFO)
    logging.captureWarnings(True)
    for name in list(logging.root.manager.loggerDict):  # libraries that have set up handlers of their own
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [], True
        if name.partition(".")[0] != OWN:
            logger.setLevel(logging.NOTSET)
