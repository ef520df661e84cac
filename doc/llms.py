"""Map of the site for language models: the build writes llms.txt from the table of contents into the HTML root."""

import re
from pathlib import Path

from docutils import nodes

ASIDE = nodes.table | nodes.figure | nodes.note | nodes.warning | nodes.tip

HEAD = """# {title}

> {sentence}

Links are relative to this file. Each line has a page's title, its address and its first sentences.
"""


FEWEST_WORDS = 10  # of a line: a first sentence like "Yes." says too little about a page, and so does a question


def opening(doctree):
    """Return the first sentences of a page: of its first paragraph, or of the docstring that it shows."""
    for paragraph in doctree.findall(nodes.paragraph):
        if not any(isinstance(parent, ASIDE) for parent in parents(paragraph)):
            first, *others = re.split(r"(?<=[.?!])\s+(?=[A-Z])", " ".join(paragraph.astext().split()))
            while others and (first.endswith("?") or len(first.split()) < FEWEST_WORDS):
                first = f"{first} {others.pop(0)}"
            return first
    return ""


def parents(node):
    """Yield the ancestors of a node."""
    while node := node.parent:
        yield node


def entry(env, page, depth):
    """Return the line of a page."""
    title, sentence = env.titles[page].astext(), opening(env.get_doctree(page))
    return f"{'  ' * depth}- [{title}]({page}.html)" + (f": {sentence}" if sentence else "")


def site_map(env):
    """Return the text of the map and the pages that it lists, in the order of the table of contents."""
    root, seen, lines = env.config.root_doc, set(), []

    def add(page, depth):
        if page not in seen:
            seen.add(page)
            lines.append(entry(env, page, depth))
            for child in env.toctree_includes.get(page, ()):
                add(child, depth + 1)

    seen.add(root)
    lines.append(entry(env, root, 0))
    for page in env.toctree_includes.get(root, ()):
        add(page, 0)
    head = HEAD.format(title=env.config.project, sentence=opening(env.get_doctree(root)))
    return head + "\n" + "\n".join(lines) + "\n", seen


def write(app, error):
    """Write llms.txt; stop the build if a page of the site is missing from it."""
    if error or app.builder.format != "html":
        return
    text, listed = site_map(app.env)
    missing = sorted(app.env.found_docs - listed)
    if missing:
        raise ValueError(f"llms.txt does not list {', '.join(missing)}: add them to a toctree.")
    (Path(app.outdir) / "llms.txt").write_text(text, encoding="utf-8")


def setup(app):
    """Write the map at the end of every HTML build; called by Sphinx."""
    app.connect("build-finished", write)
    return {"parallel_read_safe": True}
