"""The upload of a CSV file: read into memory, checked and put into the state; no file is written."""

from html import escape

import panel_material_ui as pmui

from explorer import uploads
from explorer.interface.background import LatestOnly
from explorer.interface.compatibility import BoundedFileInput
from explorer.interface.controls import alert
from explorer.uploads import UploadRefused, read_csv
from explorer.vocabulary import DATASETS

LABEL = "Upload CSV …"
LARGEST = 100_000_000  # bytes; the browser does not send a larger file at all

_MEGABYTES = uploads.MAX_BYTES // 1_000_000
RULES = (
    f"{LABEL} Learn from data of your own: click, or drop a file here. At most {_MEGABYTES} MB, "
    f"{uploads.MAX_RECORDS:,} records and {uploads.MAX_COLUMNS} columns: names in the first line, numbers below, the "
    "class in one column. Each row is divided by its norm; columns are not scaled."
)
STORAGE = "The file stays in the server's memory until you remove it or close the page."
CLUSTER = (
    "Each training sends it to the cluster that this server uses: its scheduler and one of its workers hold it until "
    "the training ends."
)
PRIVACY = (
    "<b>A demonstration on a shared server is not a private release</b>: {operator} could read the file, the seed of "
    "the noise is public, and the results of many draws cost more than the ε of one."
)


class UploadControl:
    """A button that takes a CSV file, a summary of the file, and the reason if it was refused.

    Parameters
    ----------
    state : FitState; gets `upload` and `class_column`
    on_cluster : bool, whether the fits' engine sends their data to other machines

    Attributes
    ----------
    pane : for the page's layout
    button : the BoundedFileInput
    refusal : pmui.Alert
    """

    def __init__(self, state, *, on_cluster=False):
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
            description="The label to predict; all other columns are features. No effect on privacy.",
            size="small",
            sizing_mode="stretch_width",
        )
        remove = pmui.Button(label="Remove the file", variant="outlined", size="small")
        remove.on_click(lambda _: self.state.remove_upload())
        self.known = pmui.Column(self.summary, self.column, remove, visible=False, sizing_mode="stretch_width")
        privacy = pmui.Typography(_privacy(on_cluster), variant="caption", margin=(0, 10))
        self.pane = pmui.Column(self.button, self.refusal, self.known, privacy, sizing_mode="stretch_width")
        self.button.most_bytes = uploads.MAX_BYTES
        self.button.unsent = lambda: self._refuse(f"Not used: the file must have at most {_MEGABYTES} MB.")
        self.button.param.watch(self._read, "value")
        self.column.param.watch(lambda event: self._choose(event.new), "value")
        state.param.watch(lambda *_: self._follow(), ["upload", "class_column"])

    def _read(self, event):
        """Parse the file, and release its bytes."""
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
        text = f"{table.name}: {size}, instead of {DATASETS[self.state.dataset]}."
        self.summary.object = escape(text, quote=False)
        self.column.param.update(options=list(table.columns), value=column)
        self.reading.request(lambda: _refusal(table, column), self._refuse)


def _privacy(on_cluster):
    """Where the file is kept, by whom it could be read, and what a demonstration does not promise."""
    if on_cluster:
        return " ".join([STORAGE, CLUSTER, PRIVACY.format(operator="the operators of the server and of the cluster")])
    return " ".join([STORAGE, PRIVACY.format(operator="the server's operator")])


def _table_or_refusal(content, name):
    try:
        return read_csv(content, name=name)
    except UploadRefused as refusal:
        return refusal


def _refusal(table, column):
    """Why the table cannot be used with this column as the class, or ""."""
    try:
        table.dataset(label=column)
    except UploadRefused as refusal:
        return f"Cannot be used yet: {refusal}."
    return ""
