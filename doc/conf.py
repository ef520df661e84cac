"""Sphinx: ``make doc`` builds the pages into doc/_build/html, without a network."""

import re
import sys
from importlib.util import find_spec
from pathlib import Path

from docutils import nodes

sys.path.insert(0, str(Path(__file__).parent))

import cheat_sheet
import pictures
from gallery_order import ORDER
from guide_links import LINKS

import skribbon

project = "skribbon"
author = "the skribbon developers"
copyright = f"2026, {author}"  # Sphinx wants this name
version = release = skribbon.__version__

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "sphinx.ext.viewcode",
    "sphinx-mathjax-offline",
    "myst_parser",
    "notebooks",  # doc/notebooks.py: case studies with stored outputs
    "llms",  # doc/llms.py: llms.txt, a map of the site for language models
    "numpydoc",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = ["_build", "_templates", "auto_examples/*.ipynb", "package.md"]
templates_path = ["_templates"]
nitpicky = True  # a reference to a name of ours must lead somewhere
nitpick_ignore_regex = [("py:.*", "(?!skribbon).*")]  # numpydoc's type words, and names of other projects

myst_enable_extensions = ["colon_fence", "deflist", "dollarmath", "amsmath"]
myst_heading_anchors = 3

autosummary_generate = True
autosummary_context = {
    "guide": LINKS,
    "inherited_from_scikit_learn": [  # scikit-learn documents these
        "get_params",
        "set_params",
        "get_metadata_routing",
        "set_callbacks",
    ]
    + [f"set_{method}_request" for method in ("fit", "predict", "predict_proba", "score")],
}
autodoc_mock_imports = [name for name in ("skorch", "torch") if find_spec(name) is None]  # an extra, not needed here
autodoc_typehints = "none"  # the docstrings say it in words
autodoc_inherit_docstrings = True
numpydoc_show_class_members = False  # the class template lists them
numpydoc_xref_param_type = False

copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True

sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "auto_examples",
    "filename_pattern": r"plot_",
    "ignore_pattern": r"demo\.py",
    "within_subsection_order": "gallery_order.ReadingOrder",
    "capture_repr": ("_repr_html_",),  # tables, and no names of artists
    "backreferences_dir": "generated/examples",
    "doc_module": ("skribbon",),
    "reference_url": {"skribbon": None},
    "abort_on_example_error": True,
    "download_all_examples": False,
    "show_signature": False,
    "min_reported_time": 1e9,
    "write_computation_times": False,
    "remove_config_comments": True,
    "parallel": 2,
}

html_theme = "pydata_sphinx_theme"
html_title = "skribbon"
html_favicon = "_static/favicon.svg"
html_static_path = ["_static"]
html_css_files = ["skribbon.css"]
html_js_files = ["skribbon.js"]
html_show_sourcelink = False
html_theme_options = {
    "logo": {"text": "skribbon"},
    "header_links_before_dropdown": 6,
    "navbar_align": "left",
    "navbar_end": ["theme-switcher"],
    # the gallery and the tables of the paper need the room of the table of contents
    "secondary_sidebar_items": {"**": ["page-toc"], "appendix/paper": []}
    | {f"auto_examples/{Path(name).stem}": [] for name in (*ORDER, "torch_module.py")},
    "footer_start": ["copyright"],
    "footer_end": [],
}
# where there is no short list of neighbours, the text gets their room
ALONE = ["index", "getting_started", "explore", "cheat_sheet", "method", "api", "generated/*"]
ALONE += ["choosing", "results", "extending", "contributing", "glossary", "whats_new"]
html_sidebars: dict[str, list[str]] = {page: [] for page in ALONE}
toc_object_entries_show_parents = "hide"


def link_scikit_learn(app, env, node, contents):
    """A reference into scikit-learn, whose addresses follow from the names: no inventory to download."""
    name = node.get("reftarget", "")
    if node.get("refdomain") != "py" or not name.startswith("sklearn."):
        return None
    address = f"https://scikit-learn.org/stable/modules/generated/{name}.html"
    return nodes.reference("", "", contents, internal=False, refuri=address, reftitle="in scikit-learn")


def skip_inherited_from_scikit_learn(app, what, name, member, skip, options):
    """get_params and its like are scikit-learn's to document."""
    module = getattr(member, "__module__", None) or ""
    return skip or module.startswith("sklearn.") or name == "get_metadata_routing"


def keep_numbers_together(app, doctree, docname):
    """A number and its error stay on one line of a table's cell."""
    for entry in doctree.findall(nodes.entry):
        for text in list(entry.findall(nodes.Text)):
            text.parent.replace(text, nodes.Text(re.sub(r"(?<=\d) ([±/]) (?=[-\d.])", "\u00a0\\1\u00a0", text)))


def describe_thumbnails(app, doctree, docname):
    """A thumbnail of the gallery has the title of its example as alternative text."""
    for image in doctree.findall(nodes.image):
        found = re.search(r"sphx_glr_(\w+)_thumb", image.get("uri", ""))
        if found and not image.get("alt"):
            image["alt"] = f"Picture of the example: {app.env.titles[f'auto_examples/{found[1]}'].astext()}"


def setup(app):
    """Connect the four above; draw what pages show."""
    generated = Path(__file__).parent / "generated"
    cheat_sheet.draw(generated)
    pictures.draw(generated)
    (generated / "cheat_sheet.inc").write_text(cheat_sheet.as_markdown(), encoding="utf-8")
    app.connect("doctree-resolved", keep_numbers_together)
    app.connect("doctree-resolved", describe_thumbnails)
    app.connect("missing-reference", link_scikit_learn)
    app.connect("autodoc-skip-member", skip_inherited_from_scikit_learn)
