"""Sphinx's settings: Markdown by MyST, formulas by a MathJax that lies beside the pages, and no address outside."""

import re
import shutil
import sys
from pathlib import Path

import jupyter_server_mathjax

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent), str(HERE.parent / "notebooks")]

import course  # noqa: E402
import docstrings  # noqa: E402
import figures  # noqa: E402

project = "Objective perturbation explorer"
copyright = "the authors of the objective perturbation explorer"
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx.ext.mathjax"]
exclude_patterns = ["_*"]
suppress_warnings = ["myst.header"]  # notebooks may step from # to ###

myst_enable_extensions = ["amsmath", "attrs_block", "colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3
myst_dmath_double_inline = True
myst_update_mathjax = False
myst_links_external_new_tab = False

# MathJax 2, which jupyter-server-mathjax brings for the notebooks' slides, too.
mathjax_path = "mathjax/MathJax.js"
mathjax2_config = {
    "config": ["TeX-AMS-MML_HTMLorMML-full.js"],
    "messageStyle": "none",
    "showMathMenu": False,
    # the only fonts that the package has
    "HTML-CSS": {
        "availableFonts": [],
        "preferredFont": None,
        "imageFont": None,
        "webFont": "STIX-Web",
        "matchFontHeight": False,
        "scale": 112,
        "linebreaks": {"automatic": True},
    },
    "fast-preview": {"disabled": True},  # in fonts that the package does not have
    "menuSettings": {"FastPreview": False},
    "TeX": {"equationNumbers": {"autoNumber": "none"}},
}

autodoc_default_options = {"members": True}
autodoc_member_order = "bysource"
autodoc_typehints = "none"
napoleon_google_docstring = False
napoleon_use_param = False
napoleon_use_rtype = False
napoleon_use_ivar = True
default_role = "py:obj"
add_module_names = False
python_maximum_signature_line_length = 80

html_theme = "furo"
html_title = project
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_sphinx = False
html_show_copyright = False
html_copy_source = False
html_theme_options = {"footer_icons": [], "top_of_page_buttons": []}
pygments_style = "default"
pygments_dark_style = "monokai"


def write_course(app):
    """Write the notebooks as pages, with pictures of the explorer's pages in them under `sphinx-build -t pictures`."""
    course.pages(output=HERE / "course", pictures=app.tags.has("pictures"))


def skip_metadata_routing(app, what, name, obj, skip, options):
    """Leave out the methods that scikit-learn gives every estimator for routing metadata."""
    return True if re.fullmatch(r"set_\w+_request|get_metadata_routing", name) else None


def copy_scripts(app, exception):
    """Copy MathJax, and Bokeh for the course's pictures, to where the pages look for them."""
    if exception is None and app.builder.format == "html":
        static = Path(app.outdir) / "_static"
        shutil.copytree(Path(jupyter_server_mathjax.__file__).parent / "static", static / "mathjax", dirs_exist_ok=True)
        if app.tags.has("pictures"):
            shutil.copy(course.scripts()["bokeh"], static)


def setup(app):
    """Sphinx calls this when it starts."""
    app.add_directive("diagram", figures.Diagram)
    app.connect("builder-inited", write_course)
    app.connect("build-finished", copy_scripts)
    app.connect("autodoc-skip-member", skip_metadata_routing)
    app.connect("autodoc-process-docstring", docstrings.to_restructured_text, priority=400)  # before napoleon, at 500
