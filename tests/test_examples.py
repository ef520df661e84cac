"""Form of the gallery and the case studies; ``make examples`` runs them."""

import ast
import json
import re
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parent.parent / "examples"
SCRIPTS = sorted(EXAMPLES.glob("plot_*.py"))
NOTEBOOKS = sorted((EXAMPLES.parent / "doc" / "case_studies").glob("*.ipynb"))
MAX_LINES = 130
MAX_COLUMNS = 88  # what the code boxes of the site show without scrolling
ABSOLUTE_PATH = re.compile(r"(?<![\w.:/])(?:/(?:home|Users|root|tmp|work|usr|opt|mnt|var)/|[A-Za-z]:\\)")


def code_cells(notebook):
    return [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]


@pytest.fixture(params=NOTEBOOKS, ids=lambda path: path.stem)
def notebook(request):
    return json.loads(request.param.read_text(encoding="utf-8"))


@pytest.fixture(params=SCRIPTS, ids=lambda path: path.stem)
def script(request):
    return request.param.read_text(encoding="utf-8")


def test_scripts_and_notebooks_exist():
    assert len(SCRIPTS) >= 12
    assert len(NOTEBOOKS) >= 2


def test_script_has_an_underlined_title_and_a_question(script):
    title, underline, blank, *text = ast.get_docstring(ast.parse(script)).splitlines()
    assert underline == "=" * len(title)
    assert blank == ""
    assert text


def test_script_is_short(script):
    assert len(script.splitlines()) <= MAX_LINES


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.py")), ids=lambda path: path.name)
def test_script_fits_into_the_code_boxes(path):
    assert [line for line in path.read_text(encoding="utf-8").splitlines() if len(line) > MAX_COLUMNS] == []


def test_script_links_to_examples_that_exist(script):
    linked = re.findall(r"sphx_glr_auto_examples_(\w+\.py)", script)
    assert {name for name in linked if not (EXAMPLES / name).exists()} == set()


def test_script_links_to_case_studies_that_exist(script):
    linked = set(re.findall(r"/case_studies/(\w+)", script))
    assert linked <= {path.stem for path in NOTEBOOKS}


def test_notebook_has_small_outputs_without_warnings_and_errors(notebook):
    cells = code_cells(notebook)
    assert [cell["execution_count"] for cell in cells] == list(range(1, len(cells) + 1))
    outputs = [output for cell in cells for output in cell["outputs"]]
    assert {output["output_type"] for output in outputs} <= {"stream", "display_data"}
    assert not [output for output in outputs if output.get("name") == "stderr"]
    lines = [line for output in outputs for line in output.get("text", [])]
    assert lines
    assert max(map(len, lines)) <= MAX_COLUMNS


def test_notebook_metadata_is_only_the_kernel(notebook):
    assert notebook["metadata"].keys() == {"kernelspec"}
    assert notebook["metadata"]["kernelspec"]["name"] == "python3"
    assert all(cell["metadata"] == {} for cell in notebook["cells"])


def test_notebook_cell_ids_are_unique(notebook):
    names = [cell["id"] for cell in notebook["cells"]]
    assert len(set(names)) == len(names)
    assert not [name for name in names if re.fullmatch(r"[0-9a-f]{8}", name)]  # what a machine would call them


def test_notebook_code_is_valid_python_of_few_columns(notebook):
    for cell in code_cells(notebook):
        source = "".join(cell["source"])
        ast.parse(source)
        assert max(map(len, source.splitlines())) <= MAX_COLUMNS


@pytest.mark.parametrize("path", [*SCRIPTS, *NOTEBOOKS], ids=lambda path: path.name)
def test_no_absolute_paths(path):
    assert ABSOLUTE_PATH.findall(path.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize("text", ['open("/home/me/x.csv")', "'/mnt/x'", r'"C:\data"'])
def test_absolute_paths_are_detected(text):
    assert ABSOLUTE_PATH.search(text)
