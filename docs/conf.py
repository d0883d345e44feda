"""The documentation site, made by ``./docs-site``: Sphinx on the pages as they lie here.

Its source folder is the root of the repository, so that links between the README, docs and
benchmarks lead somewhere on the site as they do in the repository. Nothing is loaded from
elsewhere: formulas are plain text, fonts and the search are the site's own.
"""

import re
import sys
from importlib.util import find_spec
from pathlib import Path

from sphinx.application import Sphinx
from sphinx.domains.python import PyObject

from mustdp.version import __version__

HERE = Path(__file__).parent
ROOT = HERE.parent
sys.path.insert(0, str(HERE / "extensions"))

project = "mustdp"
author = "The mustdp developers"
version = release = __version__
html_title = f"mustdp {__version__}"

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "public_names",
    "command_reference",
    "registered",
    "notebooks",
    "widths",
]
root_doc = "docs/index"
include_patterns = ["*.md", "docs/**", "benchmarks/README.md"]
exclude_patterns = ["build", "src", "tests", ".*", "docs/front", "docs/extensions"]

myst_heading_anchors = 3
smartquotes = False  # two dashes are part of an option
# Formulas and commands are indented; what is code says so.
highlight_language = "none"

autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
# Arrays by the names that the source has for them, not by what these are made of.
autodoc_type_aliases = {name: name for name in ("ArrayLike", "FloatArray", "IntArray")}
python_maximum_signature_line_length = 80
# A word such as "steps" in the shape of an array may be the name of several attributes.
suppress_warnings = ["ref.python"]
toc_object_entries_show_parents = "hide"
napoleon_google_docstring = False
napoleon_use_rtype = False
napoleon_use_ivar = True
# The site needs no packages of extras: where they are missing, a shape takes their place.
autodoc_mock_imports = [
    name
    for name in (
        "torch",
        "sklearn",
        "opacus",
        "pyarrow",
        "joblib",
        "dask",
        "distributed",
        "dp_accounting",
        "jax_privacy",
        "opendp",
        "flwr",
        "yaml",
    )
    if find_spec(name) is None
]

html_theme = "pydata_sphinx_theme"
html_theme_options = {
    "logo": {"text": "mustdp"},
    "header_links_before_dropdown": 7,
    "navigation_with_keys": False,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
}
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_extra_path = ["front"]
html_copy_source = False
html_show_sourcelink = False
html_show_copyright = False


def folders_lead_to_their_page(app: Sphinx, docname: str, source: list[str]) -> None:
    """Let a link to a folder lead to the folder's README, as it does in the repository."""
    folder = (ROOT / docname).parent

    def page(link: re.Match[str]) -> str:
        readme = folder / link[1] / "README.md"
        return f"]({link[1]}README.md)" if readme.exists() else link[0]

    source[0] = re.sub(r"\]\(([\w./-]+/)\)", page, source[0])


def leave_out(
    app: Sphinx, kind: str, name: str, value: object, skip: bool, options: object
) -> bool | None:
    """Leave out what other packages add to a class: scikit-learn's scores, setters of requests."""
    added = name.startswith("set_") and name.endswith("_request")
    home = getattr(value, "__module__", None) or "mustdp"
    return True if added or not home.startswith(("mustdp", "builtins")) else None


def setup(app: Sphinx) -> None:
    """Called by Sphinx."""
    for field in PyObject.doc_field_types:
        if field.name == "variable":  # as the docstrings call them
            field.label = "Attributes"
    app.connect("source-read", folders_lead_to_their_page)
    app.connect("autodoc-skip-member", leave_out)
