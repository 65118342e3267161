"""Executes the course's notebooks; makes copies for students, slides and pages of the documentation from them.

    python notebooks/course.py execute      runs notebooks and stores them in the form that the tests require
    python notebooks/course.py exercises    copies without solutions and outputs, for students
    python notebooks/course.py slides       slides for the lecturer, which need no network
    python notebooks/course.py pages        Markdown with what the notebooks store; docs/conf.py makes pages of it

Cells say by their tags what they are: `setup` loads the notebook extension and `view` shows a page of the explorer;
`solution` answers an exercise, and `check` after it asserts that the answer is right.
"""

import argparse
import hashlib
import re
import shutil
from copy import deepcopy
from pathlib import Path

import nbformat

HERE = Path(__file__).parent
BUILD = HERE.parent / "build"
KEPT = ("slideshow", "tags")  # of a cell's metadata
CELL_SECONDS = 300

# The page's figures without its controls, which need a running Python. Made in a thread, where no event loop runs, a
# view computes all its curves at once. Fit and Solvers are empty until their buttons are pressed.
PICTURE = """
import asyncio as _asyncio
from bokeh.embed import components as _components
from IPython.display import HTML as _HTML

def _picture(view):
    own = {"styles": view.styles} if hasattr(view, "styles") else {}  # of bounds that the vocabulary does not know
    page = type(view)(view.state, **own)
    for press in {"FitView": ["run"], "SolversView": ["run", "run_growth"]}.get(type(page).__name__, []):
        getattr(page, press)()  # in a thread without an event loop it returns when the job has ended
    sections = getattr(page, "pictures", {})
    figures = [picture.plot for picture in sections[view.state.section]] if sections else page.plots
    _arrange(figures)
    script, divisions = _components(figures)
    return _HTML("<div style='display: flex; flex-wrap: wrap'>" + "".join(divisions) + "</div>" + script)

await _asyncio.to_thread(_picture, view)
"""
# For a slide of 1280 x 720 pixels: one figure, or rows of two.
ON_A_SLIDE = """
def _arrange(figures):
    alone, rows = len(figures) == 1, (len(figures) + 1) // 2
    for figure in figures:
        figure.update(width=1230 if alone else 615, height=min(400, 640 // rows), sizing_mode="fixed", margin=0)
        figure.title.text_font_size = figure.axis.axis_label_text_font_size = "16px" if alone else "13px"
        for legend in [legend for legend in figure.legend if legend in figure.center]:  # off the curves
            legend.update(ncols=1 if alone else 2, margin=0, padding=4)
            figure.add_layout(legend, "right" if alone else "below")
"""
# For a page of any width: one figure below the other.
ON_A_PAGE = """
def _arrange(figures):
    for figure in figures:
        figure.update(height=380, sizing_mode="stretch_width", margin=0)
        figure.toolbar.active_scroll = None
        for legend in [legend for legend in figure.legend if legend in figure.center]:
            legend.update(ncols=2, margin=0, padding=4)
            figure.add_layout(legend, "below")
"""


def notebooks(names=()):
    """Paths, in order, of the notebooks whose file names begin with one of `names`; without names, of all."""
    found = [path for path in sorted(HERE.glob("*.ipynb")) if path.name.startswith(tuple(names) or "")]
    missing = [name for name in names if not any(path.name.startswith(name) for path in found)]
    if missing or not found:
        raise SystemExit(f"no notebook in {HERE} begins with {', '.join(missing) or 'anything'}")
    return found


def tags(cell):
    """The cell's tags, a list."""
    return cell.metadata.get("tags", [])


def run(notebook):
    """Execute the notebook in place from its own folder, as Jupyter does; an error in a cell is raised."""
    from nbclient import NotebookClient

    resources = {"metadata": {"path": str(HERE)}}
    NotebookClient(
        notebook, timeout=CELL_SECONDS, kernel_name="python3", resources=resources, record_timing=False
    ).execute()


def normalise(notebook):
    """Drop, in place, what differs between two equal runs: ignored outputs, timings, versions."""
    for cell in notebook.cells:
        cell.metadata = nbformat.from_dict({key: cell.metadata[key] for key in KEPT if key in cell.metadata})
        if "nbval-ignore-output" in tags(cell):
            cell.outputs = []
    kernel = {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"}
    notebook.metadata = nbformat.from_dict({"kernelspec": kernel, "language_info": {"name": "python"}})


def execute(names=()):
    """Run notebooks and store them, normalised, where they are."""
    for path in notebooks(names):
        notebook = nbformat.read(path, as_version=4)
        run(notebook)
        normalise(notebook)
        nbformat.write(notebook, path)
        print(f"{path.name}: {path.stat().st_size / 1000:.0f} kB")


def question(source):
    """The comment that a solution cell begins with: it says what the answer is to define."""
    return re.match(r"(?:#.*\n?)*", source)[0].rstrip()


def exercise_copy(notebook):
    """A copy in which solutions are the question alone, and nothing has been run yet."""
    copy = deepcopy(notebook)
    for cell in copy.cells:
        if "solution" in tags(cell):
            cell.source = question(cell.source) + "\n" if cell.cell_type == "code" else "*Your answer:*"
            cell.metadata.tags = ["answer"]
        if cell.cell_type == "code":
            cell.execution_count, cell.outputs = None, []
    return copy


def exercises(names=(), output=BUILD / "exercises"):
    """Write the copies to the folder `output`; a file that is there already may hold somebody's answers and is kept."""
    output.mkdir(parents=True, exist_ok=True)
    for path in notebooks(names):
        target = output / path.name
        if target.exists():
            print(f"{target} is kept as it is; move it away for a new copy")
            continue
        nbformat.write(exercise_copy(nbformat.read(path, as_version=4)), target)
        print(target)


def with_pictures(notebook, arrange):
    """A copy that makes pictures of its views, in their place; `arrange` is ON_A_SLIDE or ON_A_PAGE."""
    copy = deepcopy(notebook)
    for cell in copy.cells:
        if "view" in tags(cell):
            cell.source = cell.source.removesuffix("view") + arrange + PICTURE
    return copy


def slides_of(notebook, title):
    """The notebook, executed now, as the text of one HTML file that looks for its scripts beside itself."""
    from nbconvert import SlidesExporter
    from traitlets.config import Config

    executed = with_pictures(notebook, ON_A_SLIDE)
    run(executed)
    for shown, stored in zip(executed.cells, notebook.cells, strict=True):
        shown.source = stored.source
    exporter = SlidesExporter(
        config=Config(TagRemovePreprocessor={"enabled": True, "remove_input_tags": {"view"}}),
        exclude_input_prompt=True,
        exclude_output_prompt=True,
        extra_template_basedirs=[str(HERE)],
        template_name="slides",
        mathjax_url="mathjax/MathJax.js?config=TeX-AMS-MML_HTMLorMML-full,Safe",
        reveal_url_prefix="reveal",
        reveal_theme="white",
        reveal_number="h.v",
        reveal_transition="none",
        reveal_width="1280",
        reveal_height="720",
    )
    return exporter.from_notebook_node(executed, resources={"metadata": {"name": title}})[0]


def scripts():
    """Folder beside the slides -> what is copied into it: MathJax from a package of Jupyter's, reveal.js from Panel."""
    import bokeh
    import jupyter_server_mathjax
    import panel

    (reveal,) = (Path(panel.__file__).parent / "dist" / "bundled").glob("reveal.js@*")
    return {
        "mathjax": Path(jupyter_server_mathjax.__file__).parent / "static",
        "reveal": reveal,
        "bokeh": Path(bokeh.__file__).parent / "server" / "static" / "js" / "bokeh.min.js",
    }


def slides(names=(), output=BUILD / "slides"):
    """Write one HTML file for each notebook to the folder `output`, and beside them the scripts that they load."""
    output.mkdir(parents=True, exist_ok=True)
    for folder, source in scripts().items():
        if source.is_dir():
            shutil.copytree(source, output / folder, dirs_exist_ok=True)
        else:
            (output / folder).mkdir(exist_ok=True)
            shutil.copy(source, output / folder)
    style = output / "reveal" / "dist" / "reveal.min.css"  # all that Panel has since 1.10
    shutil.copy(style, style.with_name("reveal.css"))  # what nbconvert's page asks for
    for path in notebooks(names):
        target = output / f"{path.stem}.html"
        target.write_text(slides_of(nbformat.read(path, as_version=4), path.stem), encoding="utf-8")
        print(target)


def pages(names=(), output=BUILD / "pages", *, pictures=False):
    """Write one Markdown file for each notebook to the folder `output`, as MyST reads it.

    Outputs are those that are stored in the notebook; with `pictures` it is executed, and its views are drawn. What was
    executed is kept in build/executed for as long as neither the notebook nor the package changes.
    """
    output.mkdir(parents=True, exist_ok=True)
    for path in notebooks(names):
        notebook = nbformat.read(path, as_version=4)
        shown = _executed(path, notebook) if pictures else notebook
        text = "\n\n".join(part for cell in shown.cells for part in _page_parts(cell)) + "\n"
        target = output / f"{path.stem}.md"
        if not target.exists() or target.read_text(encoding="utf-8") != text:  # Sphinx reads again what is newer
            target.write_text(text, encoding="utf-8")


def _executed(path, notebook):
    """The notebook with pictures of its views, from the folder of those executed before if it is there."""
    digest = hashlib.sha256(path.read_bytes() + Path(__file__).read_bytes())
    for source in sorted((HERE.parent / "explorer").rglob("*.py")):
        digest.update(source.read_bytes())
    kept = BUILD / "executed" / f"{path.stem}-{digest.hexdigest()[:16]}.ipynb"
    if not kept.exists():
        print(f"executing {path.name}")
        executed = with_pictures(notebook, ON_A_PAGE)
        run(executed)
        for shown, stored in zip(executed.cells, notebook.cells, strict=True):
            shown.source = stored.source
        kept.parent.mkdir(parents=True, exist_ok=True)
        for older in kept.parent.glob(f"{path.stem}-*.ipynb"):
            older.unlink()
        nbformat.write(executed, kept)
    return nbformat.read(kept, as_version=4)


def _page_parts(cell):
    """Pieces of Markdown, between blank lines; solutions are folded."""
    fold = "solution" in tags(cell)
    if fold:
        yield _raw("<details><summary>A solution</summary>")
    if cell.cell_type == "markdown":
        yield cell.source
    elif cell.cell_type == "code":
        yield f"```python\n{cell.source}\n```"
        yield from filter(None, map(_output, cell.outputs))
    if fold:
        yield _raw("</details>")


def _output(output):
    if output.output_type == "stream":
        return f"```text\n{output.text.rstrip()}\n```"
    data = output.get("data", {})
    if html := data.get("text/html"):
        script = '<script src="../_static/bokeh.min.js"></script>' if "data-root-id" in html else ""
        return _raw(f'<div class="picture">{script}{html}</div>')
    return f"```text\n{data['text/plain']}\n```" if "text/plain" in data else None


def _raw(html):
    return f"``````{{raw}} html\n{html}\n``````"


def main(arguments=None):
    """The command line; see the module's docstring."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=("execute", "exercises", "slides", "pages"))
    parser.add_argument("names", nargs="*", help="beginnings of file names, such as 01 02; without them, all")
    parser.add_argument("--output", type=Path, help="folder for exercises, slides or pages, instead of one in build/")
    options = parser.parse_args(arguments)
    if options.command == "execute":
        if options.output:
            parser.error("execute stores notebooks where they are: it takes no --output")
        return execute(options.names)
    make = {"exercises": exercises, "slides": slides, "pages": pages}[options.command]
    return make(options.names, **({"output": options.output} if options.output else {}))


if __name__ == "__main__":
    main()
