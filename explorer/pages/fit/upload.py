"""Where a visitor drops in a CSV file: read in memory, checked, handed to the state, and kept nowhere else."""

from html import escape

import panel_material_ui as pmui

from explorer import uploads
from explorer.interface.background import LatestOnly
from explorer.interface.compatibility import BoundedFileInput
from explorer.interface.controls import alert
from explorer.uploads import UploadRefused, read_csv
from explorer.vocabulary import DATASETS

LABEL = "Your own CSV …"
LARGEST = 100_000_000  # bytes beyond which a browser does not even begin to send

_MEGABYTES = uploads.MAX_BYTES // 1_000_000
RULES = (
    f"{LABEL} to learn from: click, or drop it here. At most {_MEGABYTES} MB, {uploads.MAX_RECORDS:,} records "
    f"and {uploads.MAX_COLUMNS} columns: names in the first line, numbers below, the class in one column. Rows are "
    "divided by their norm; columns stay as they are."
)
PROMISE = (
    "The file stays in the server's memory, for this visit only. <b>A demonstration on a shared server is no private "
    "release</b>: whoever runs it could read the file, the seed of the noise is known, and what is shown of many draws "
    "costs more than the ε of one."
)


class UploadControl:
    """A button to drop a CSV file on, what is known of the file, and why one was refused.

    Parameters
    ----------
    state : FitState; gets `upload` and `class_column`

    Attributes
    ----------
    pane : what a page arranges
    button : the BoundedFileInput
    refusal : pmui.Alert
    """

    def __init__(self, state):
        self.state, self.reading = state, LatestOnly()
        self.button = BoundedFileInput(
            label=LABEL,
            uploaded_label=LABEL,
            variant="outlined",
            size="small",
            max_file_size=LARGEST,
            chunk_size=1_000_000,
            description=RULES,
        )
        self.refusal = alert("error")
        self.summary = pmui.Typography("", variant="body2", margin=(5, 10))
        self.column = pmui.Select(
            label="Column of the class",
            description="What is to be learned; all other columns are features.",
            size="small",
            sizing_mode="stretch_width",
        )
        leave = pmui.Button(label="Forget the file", variant="outlined", size="small")
        leave.on_click(lambda _: self.state.forget_upload())
        self.known = pmui.Column(self.summary, self.column, leave, visible=False, sizing_mode="stretch_width")
        promise = pmui.Typography(PROMISE, variant="caption", margin=(0, 10))
        self.pane = pmui.Column(self.button, self.refusal, self.known, promise, sizing_mode="stretch_width")
        self.button.most_bytes = uploads.MAX_BYTES
        self.button.unsent = lambda: self._refuse(f"Not used: the file must have at most {_MEGABYTES} MB.")
        self.button.param.watch(self._read, "value")
        self.column.param.watch(lambda event: self._choose(event.new), "value")
        state.param.watch(lambda *_: self._follow(), ["upload", "class_column"])

    def _read(self, event):
        """Parse what came, and let go of its bytes."""
        if event.new is not None:
            content, name = event.new, self.button.filename or "upload.csv"
            self.button.clear()
            self.reading.request(lambda: _table_or_refusal(content, name), self._take)

    def _take(self, table):
        if isinstance(table, UploadRefused):
            self._refuse(f"Not used: {table}.")
        else:
            self.state.param.update(upload=table, class_column=table.columns[-1])

    def _refuse(self, text):
        self.refusal.param.update(object=escape(text, quote=False), visible=bool(text))

    def _choose(self, column):
        if self.state.upload is not None and column in self.state.upload.columns:
            self.state.class_column = column

    def _follow(self):
        table, column = self.state.upload, self.state.class_column
        self._refuse("")
        self.known.visible = table is not None
        if table is None:
            self.reading.forget()
            return
        size = f"{len(table.records):,} records, {len(table.columns) - 1} features"
        text = f"{table.name}: {size}, in place of {DATASETS[self.state.dataset]}."
        self.summary.object = escape(text, quote=False)
        self.column.param.update(options=list(table.columns), value=column)
        self.reading.request(lambda: _refusal(table, column), self._refuse)


def _table_or_refusal(content, name):
    try:
        return read_csv(content, name=name)
    except UploadRefused as refusal:
        return refusal


def _refusal(table, column):
    """Why nothing can be learned from the table with this column as the class, or ""."""
    try:
        table.dataset(label=column)
    except UploadRefused as refusal:
        return f"Cannot be used yet: {refusal}."
    return ""
