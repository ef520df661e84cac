"""Case studies: Sphinx renders doc/case_studies/*.ipynb with stored outputs; ``python doc/notebooks.py`` runs them.

``--write`` stores the outputs of the run in the notebooks.
"""

import argparse
import base64
import json
import re
from pathlib import Path

from myst_parser.parsers.sphinx_ import MystParser

HERE = Path(__file__).parent
STUDIES = sorted((HERE / "case_studies").glob("*.ipynb"))


def as_markdown(notebook, name):
    """Return the Markdown of a notebook, and write its pictures into doc/generated."""
    parts = []
    for cell in notebook["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            parts.append(source)
            continue
        parts.append(f"```python\n{source}\n```")
        for output in cell["outputs"]:
            if "text" in output:
                parts.append(f"```text\n{''.join(output['text']).rstrip()}\n```")
            elif "image/png" in output.get("data", {}):
                picture = HERE / "generated" / f"{name}-{cell['id']}.png"
                picture.parent.mkdir(exist_ok=True)
                picture.write_bytes(base64.b64decode("".join(output["data"]["image/png"])))
                title = re.search(r"set_title\(f?\"(.*?)\"\)", source)
                alt = re.sub(r"[{}]", "", title[1]) if title else cell["id"]
                parts.append(f"```{{image}} ../generated/{picture.name}\n:alt: {alt}\n:width: 560px\n```")
    parts.append(f"{{download}}`Download this notebook <{name}.ipynb>`.")
    return "\n\n".join(parts) + "\n"


class NotebookParser(MystParser):
    """Sphinx parser of notebooks; nothing is executed."""

    supported = ("ipynb",)

    def parse(self, inputstring, document):
        """Parse the Markdown that the notebook becomes."""
        super().parse(as_markdown(json.loads(inputstring), Path(document["source"]).stem), document)


def setup(app):
    """Register the parser; called by Sphinx."""
    app.add_source_suffix(".ipynb", "ipynb")
    app.add_source_parser(NotebookParser)
    return {"parallel_read_safe": True}


def run(path, write):
    """Execute a notebook; print one line if its data are missing."""
    import nbformat
    from nbclient import NotebookClient
    from nbclient.exceptions import CellExecutionError

    notebook = nbformat.read(path, as_version=4)
    try:
        NotebookClient(notebook, resources={"metadata": {"path": path.parent}}).execute()
    except CellExecutionError as error:
        if error.ename != "SystemExit":
            raise
        print(f"{path.name}: not run. {error.evalue}")
        return
    print(f"{path.name}: runs")
    if not write:
        return
    for cell in notebook["cells"]:
        cell["metadata"] = {}
        for output in cell.get("outputs", []):
            output.get("data", {}).pop("text/plain", None)
            output.pop("metadata", None) if output["output_type"] == "stream" else output.update(metadata={})
    notebook["metadata"] = {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}}
    nbformat.write(notebook, path)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true", help="store the outputs in the notebooks")
    for study in STUDIES:
        run(study, parser.parse_args().write)
