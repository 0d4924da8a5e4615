"""The notebook of the documents runs in a real kernel, and its cells print what it shows.

``pytest tests/docs/test_notebook.py --update-transcripts`` writes the outputs anew.
"""

import copy
from pathlib import Path
from typing import Any

import pytest
from calling import DEADLINE_S

pytest.importorskip("ipykernel")
pytest.importorskip("matplotlib")
nbclient = pytest.importorskip("nbclient")
nbformat = pytest.importorskip("nbformat")

ROOT = Path(__file__).parent.parent.parent
NOTEBOOK = ROOT / "docs" / "notebook.ipynb"


def texts(cell: Any) -> str:
    """Text that a cell prints and shows; a picture differs from one release of matplotlib to the next.

    What it prints may come in one piece or in several.
    """
    shown = (output.get("text") or output.get("data", {}).get("text/plain", "") for output in cell.get("outputs", []))
    return "".join(shown)


def test_the_cells_print_what_the_notebook_shows(monkeypatch: pytest.MonkeyPatch, request: Any) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("COLUMNS", "100")
    shown = nbformat.read(NOTEBOOK, as_version=4)
    book = copy.deepcopy(shown)
    nbclient.NotebookClient(book, timeout=DEADLINE_S, resources={"metadata": {"path": str(NOTEBOOK.parent)}}).execute()
    if request.config.getoption("--update-transcripts"):
        for cell in book.cells:
            cell.metadata.pop("execution", None)
        book.metadata = shown.metadata
        nbformat.write(book, NOTEBOOK)
    else:
        assert [texts(cell) for cell in book.cells] == [texts(cell) for cell in shown.cells]
    pictures = [o for cell in book.cells for o in cell.get("outputs", []) if "image/png" in o.get("data", {})]
    assert len(pictures) == 2
