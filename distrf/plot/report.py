"""A training or an evaluation as one page of HTML, complete in itself: facts for report.html.j2."""

from __future__ import annotations

import base64
import io
import os
import platform
import warnings
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from dask.utils import format_bytes
from jinja2 import Environment, PackageLoader, StrictUndefined
from sklearn.base import BaseEstimator

from .. import __version__
from ..errors import InputError
from ..pipeline.evaluating import Evaluation
from ..pipeline.loaded import Loaded
from ..plain_data import shown
from ..record import pipeline_facts
from ..store import check_apart, check_writable, files
from .displays import displays, new_figure

#: Rows of a table that are shown.
_ROWS = 1000
#: Classes whose numbers are written into a confusion matrix.
_WRITTEN = 15


def check_report(path: str | os.PathLike[str], *sources: str | None) -> None:
    """Refuse a report that could not be written, before anything runs.

    Parameters
    ----------
    path : str or PathLike
        Where the report is to be.
    *sources : str or None
        Places that it must not lie in.

    Raises
    ------
    InputError
        The name does not end in .html, or matplotlib is not there.
    StoreError
        There can be no file at this path, or it lies in one of the places.
    """
    path = os.fspath(path)
    if not path.lower().endswith((".html", ".htm")):
        raise InputError(f"a report is HTML: its name ends in .html, got {path!r}")
    check_apart(path, sources, what="the report")
    check_writable(path)
    fs, root = files.filesystem(files.normalise(path))
    if fs.isdir(root):
        raise InputError(f"a report is a file, but {path!r} is a folder")
    new_figure()


def write_report(
    result: Any,
    path: str | os.PathLike[str],
    *,
    title: str | None = None,
    facts: Mapping[str, Any] | None = None,
    data: Mapping[str, Any] | None = None,
    command: str | None = None,
) -> None:
    """Write a page about a model or an evaluation: figures, choices, scores, time and memory.

    The page is one file without scripts, which loads nothing from elsewhere. It is there whole or not at all, and replaces an
    older one.

    Parameters
    ----------
    result : str, PathLike, estimator, Pipeline or Evaluation
        Folder of a model, or a fitted model; or what `distrf.evaluate` returned.
    path : str or PathLike
        The file or URL to write, which ends in .html.
    title : str or None, default=None
        Heading. None says what the result is.
    facts : mapping or None, default=None
        Further facts by name, such as "seconds"; a list "warnings" comes at the top.
    data : mapping or None, default=None
        Facts about the rows by name. None takes what the folder of a model says of them.
    command : str or None, default=None
        What makes the result again.

    Returns
    -------
    None
        Nothing; the page is at `path`.

    Raises
    ------
    InputError
        The result is none of these, the name does not end in .html, or matplotlib is not there.
    StoreError
        There can be no file at this path.

    Examples
    --------
    >>> import tempfile
    >>> import distrf
    >>> from distrf.datasets import load_digits_split
    >>> from distrf.plot import write_report
    >>> X, y, _, _ = load_digits_split()
    >>> model = distrf.StreamingRidgeClassifier(alpha=[1e-4, 1e-2]).fit(X, y)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_report(distrf.evaluate(model, X, y), f"{folder}/scores.html")
    """
    check_report(path)
    known = dict(facts or {})
    if isinstance(result, Evaluation):
        section, made = "Scores", dict(result)
    elif isinstance(result, (str, os.PathLike, BaseEstimator)):
        loaded = Loaded.of(result)
        steps = ", ".join(type(getattr(step, "base", step)).__name__ for step in loaded.pipeline)
        section, made = "Model", {"steps": steps} | pipeline_facts(loaded.pipeline)
        if loaded.path is not None:  # what the folder says of its making, where it is not given
            of_folder = loaded.details.get("provenance", {})
            known = {"seconds": of_folder.get("seconds")} | known
            data = {"from": of_folder.get("source")} | loaded.reading if data is None else data
    else:
        raise InputError(
            f"a report is of a model or its folder, or of what distrf.evaluate returned, got {type(result).__name__}"
        )
    texts = [*made.get("warnings", []), *known.get("warnings", [])]
    system = f"distrf {__version__}, Python {platform.python_version()}, {platform.platform(terse=True)}"
    page = {
        "title": title or section, "section": section, "command": command, "data": data or {}, "known": made | known,
        "most": _ROWS, "subtitle": f"{system}, {datetime.now(UTC):%Y-%m-%d %H:%M} UTC", "warnings": dict.fromkeys(texts),
        "figures": _figures(result) if isinstance(result, Evaluation) else [],
    }  # fmt: skip
    made_of = Environment(
        loader=PackageLoader("distrf", "plot"), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )  # fmt: skip
    made_of.filters |= {"shown": shown, "bytes": format_bytes}
    text = made_of.get_template("report.html.j2").render(page)
    files.write_bytes(files.normalise(path), text.encode(errors="backslashreplace"))


def _figures(result: Evaluation) -> list[tuple[str, str]]:
    """(caption, PNG in base64) of all that there is to draw."""
    drawn = []
    for name, display in displays(result).items():
        options: dict[str, Any] = {"plot_chance_level": True} if "curve" in name else {}
        if hasattr(display, "confusion_matrix"):  # numbers of many classes lie upon each other
            numbers = len(display.display_labels) <= _WRITTEN
            options = {"include_values": numbers, "xticks_rotation": "vertical", "cmap": "Blues"}
        file, figure = io.BytesIO(), new_figure()
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Glyph")  # a script that the font does not have: boxes
            display.plot(ax=figure.add_subplot(), **options)
            figure.savefig(file, format="png", dpi=110)
        drawn.append((name.replace("_", " "), base64.b64encode(file.getvalue()).decode()))
    return drawn
