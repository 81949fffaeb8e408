"""The notebooks run from top to bottom and show what they promise."""

from __future__ import annotations

import base64
import re
from pathlib import Path

import pytest

nbclient = pytest.importorskip("nbclient", reason="nbclient is not installed")
pytest.importorskip("ipykernel", reason="ipykernel is not installed")
nbformat = pytest.importorskip("nbformat", reason="nbformat is not installed")

NOTEBOOKS = Path(__file__).parents[1] / "notebooks"


def outputs(cell, kind):
    """What a cell put out, by MIME type; "text" for what it printed."""
    if kind == "text":
        return "".join(o.text for o in cell.outputs if o.output_type == "stream" and o.name == "stdout")
    return [o.data[kind] for o in cell.outputs if "data" in o and kind in o.data]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # of Jupyter's own making
def test_quickstart(tmp_path, monkeypatch):
    monkeypatch.setenv("DISTRF_NOTEBOOK_ROWS", "5000")
    notebook = nbformat.read(NOTEBOOKS / "01-quickstart.ipynb", as_version=4)
    client = nbclient.NotebookClient(notebook, timeout=120, resources={"metadata": {"path": str(tmp_path)}})
    client.execute()
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    printed = "".join(outputs(cell, "text") for cell in code)
    linear, kernel = map(float, re.search(r"linear ([\d.]+), kernel ([\d.]+)", printed).groups())
    assert kernel > linear + 0.02
    assert kernel > 0.95
    assert int(re.search(r"(\d+) bytes", printed)[1]) < 1024
    shown = " ".join(html for cell in code for html in outputs(cell, "text/html"))
    assert "Dashboard" in shown
    images = [png for cell in code for png in outputs(cell, "image/png")]
    assert images
    for i, png in enumerate(images):
        data = base64.b64decode(png)
        assert data.startswith(b"\x89PNG")
        (tmp_path / f"{i}.png").write_bytes(data)
    errors = [o.text for cell in code for o in cell.outputs if o.output_type == "stream" and o.name == "stderr"]
    assert not re.search(r"Traceback|Warning:", "".join(errors))


@pytest.mark.parametrize("path", sorted(NOTEBOOKS.glob("*.ipynb")), ids=lambda p: p.stem)
def test_notebooks_are_kept_without_outputs(path):
    """Outputs would make every change of the text a change of megabytes."""
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    assert all(not cell.get("outputs") for cell in notebook.cells)
