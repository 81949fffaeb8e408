"""A training, a search or an evaluation as one page of HTML, complete in itself."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Any

from dask.utils import format_bytes
from sklearn.base import BaseEstimator

from .. import __version__
from ..errors import InputError
from ..execution.memory_trace import THIS_PROCESS, MemoryTrace
from ..features.scaler import StreamingScaler
from ..features.with_columns import WithColumns
from ..pipeline.evaluating import Evaluation
from ..pipeline.loaded import Loaded
from ..record import pipeline_facts
from ..scores.models import SLICE_SCORES, ClassifierSums
from ..store import check_apart, check_writable, files
from ..tables.encoder import TableEncoder
from ..tuning import Tuned
from .axes import new_figure
from .calibration import CalibrationDisplay
from .confusion import ConfusionMatrixDisplay, figure_size
from .environment import environment
from .learning_curve import LearningCurveDisplay
from .memory import MemoryDisplay
from .page import Page
from .ranking import PrecisionRecallDisplay, RocCurveDisplay
from .residuals import ResidualsDisplay
from .training import training_displays

_ENDINGS = (".html", ".htm")
#: Columns of a table that are shown at once, and at most.
_UNFOLDED, _MOST_COLUMNS = 20, 1000
#: Names of a result that stand in a section of their own, and columns of a table that are shown.
_APART = {
    "history", "choices", "baseline", "warnings", "columns", "classes", "confusion_matrix", "calibration", "slices", "best",
    "trials", "notes", "peak_bytes_per_worker", "alphas", "cv_errors", "seconds", "rows_per_second", "model", "plot", "report",
    "job", "kernel",
}  # fmt: skip


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
    if not path.lower().endswith(_ENDINGS):
        raise InputError(f"a report is HTML: its name ends in .html, got {path!r}")
    check_apart(path, [source for source in sources if source is not None], what="the report")
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
    plan: Any = None,
    trace: MemoryTrace | None = None,
    command: str | None = None,
) -> None:
    """Write a page about a model, a search or an evaluation: figures, choices, scores, time, memory, environment and spec.

    The page is one file without scripts, which loads nothing from elsewhere. It is there whole or not at all, and replaces an
    older one.

    Parameters
    ----------
    result : str, PathLike, estimator, Pipeline, Tuned or Evaluation
        Folder of a model, or a fitted model; or what `distrf.tune` or `distrf.evaluate` returned.
    path : str or PathLike
        The file or URL to write, which ends in .html.
    title : str or None, default=None
        Heading. None says what the result is.
    facts : mapping or None, default=None
        Further facts by name, such as "seconds"; a list "warnings" comes at the top.
    data : mapping or None, default=None
        Facts about the rows by name. None takes what the folder of a model says of them.
    plan : Plan or None, default=None
        What `distrf.plan` returned for the job.
    trace : MemoryTrace or None, default=None
        Memory while the job ran: of `distrf.plot.tracing_memory`.
    command : str or None, default=None
        What makes the result again. None takes what the folder of a model says.

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
    spec = None
    if isinstance(result, Tuned):
        made: dict[str, Any] = result.to_dict()
        usual, body = "Search", partial(_search, tuned=result)
    elif isinstance(result, Evaluation):
        made, usual, body = dict(result), "Evaluation", partial(_evaluation, found=result)
    elif isinstance(result, (str, os.PathLike, BaseEstimator)):
        loaded = Loaded.of(result)
        made, spec = pipeline_facts(loaded.pipeline), loaded.spec
        usual, body = _kind(loaded.pipeline), partial(_model, pipeline=loaded.pipeline, made=made | known)
        known, data, command = _of_folder(loaded, known, data, command)
    else:
        raise InputError(
            "a report is of a model or its folder, or of what distrf.tune or distrf.evaluate returned, got "
            f"{type(result).__name__}"
        )
    facts = made | known
    page = Page(title or usual, f"distrf {__version__}, {datetime.now(UTC):%Y-%m-%d %H:%M} UTC")
    page.cards(_cards(facts, made, result))
    warnings = list(
        dict.fromkeys([*made.get("warnings", ()), *facts.get("warnings", ()), *made.get("notes", ())])
    )
    page.section("Warnings")
    if warnings:
        page.warnings(warnings)
    else:
        page.text("None.")
    if command:
        page.section("Command")
        page.listing(command)
    _data(page, data)
    body(page)
    _columns(page, made.get("columns", ()))
    _time(page, facts)
    _memory(page, facts, plan, trace)
    page.section("Environment")
    page.facts(environment().items())
    page.section("Spec" if spec is not None else "Result")
    listing = _json(made if spec is None else spec)
    with page.folded(f"JSON, {listing.count(chr(10)) + 1:,} lines"):
        page.listing(listing)
    fs, root = files.filesystem(files.normalise(os.fspath(path)))
    files.write_bytes(fs, root, page.html().encode(errors="backslashreplace"))


def _kind(pipeline: Any) -> str:
    """A model, and what its features are, in a few words."""
    steps = [step for _, step in pipeline.steps]
    features = [step for step in steps[:-1] if not isinstance(step, (TableEncoder, StreamingScaler))][-1:]
    joined = " and columns" if any(isinstance(step, WithColumns) for step in features) else ""
    maps = [type(step.base if isinstance(step, WithColumns) else step).__name__ for step in features]
    return " on ".join([type(steps[-1]).__name__, *maps]) + joined


def _json(value: Any) -> str:
    """Indented JSON, in which lists of numbers are lines."""
    text = json.dumps(value, indent=1, default=str, ensure_ascii=False)
    # A line break is inside no text of JSON: what begins with one is a list.
    return re.sub(r"\[\n[^\[\]{}\"]+\]", lambda found: re.sub(r"\s+", " ", found[0]), text)


def _of_folder(
    loaded: Loaded, facts: dict[str, Any], data: Mapping[str, Any] | None, command: str | None
) -> tuple[dict[str, Any], Mapping[str, Any] | None, str | None]:
    """What the folder of a model says of its making, where it is not given."""
    if loaded.path is None:
        return facts, data, command
    from ..persistence import model_details

    made = model_details(loaded.path).get("provenance", {})
    if made.get("seconds") is not None:
        facts.setdefault("seconds", made["seconds"])
    if data is None:
        data = {"from": made.get("source")} | {
            k: v for k, v in loaded.reading.items() if not isinstance(v, (list, dict))
        }
    if command is None and made.get("command"):
        command = f"distrf {made['command']}"
    return facts, data, command


def _cards(facts: Mapping[str, Any], made: Mapping[str, Any], result: Any) -> list[tuple[str, Any]]:
    """The numbers at the top."""
    cards: list[tuple[str, Any]] = []
    if isinstance(result, Tuned):
        cards.append((f"{result.metric} on {result.validation_rows:,} held-out rows", result.best.score))
        cards += [
            (k.replace("_", " "), v) for k, v in (result.best.parameters | {"alpha": result.best.alpha}).items()
        ]
    elif isinstance(result, Evaluation):
        of = f" of {made['positive']!r}" if made["score"] == "average_precision" else ""
        cards.append((made["score"].replace("_", " ") + of, made[made["score"]]))
    else:
        cards += _compared(made.get("baseline", ()))
    if facts.get("rows") is not None:
        cards.append(("rows", facts["rows"]))
    if facts.get("seconds") is not None:
        cards.append(("seconds", round(float(facts["seconds"]), 2)))
    if peaks := facts.get("peak_bytes_per_worker"):
        cards.append(("peak of a worker", format_bytes(max(peaks.values()))))
    return [card for card in cards if card[1] is not None]


def _compared(comparisons: Sequence[Mapping[str, Any]]) -> list[tuple[str, Any]]:
    """The score of the machine, in words: over all rows, where these were judged by the same measure as the sample."""
    same = [c for c in comparisons if c["what"] == comparisons[0]["what"]]
    for last in same[-1:]:
        rows, _, how = last["rows"].partition(" (cross-validation)")
        found = rows != last["rows"]
        return [(f"{last['what']}{' by cross-validation' * found} on {rows}{how}", last["machine"])]
    return []


def _data(page: Page, data: Mapping[str, Any] | None) -> None:
    if data:
        page.section("Data")
        page.facts((name.replace("_", " "), value) for name, value in data.items())


def _columns(page: Page, columns: Sequence[Mapping[str, Any]]) -> None:
    """What the columns of a table were taken for; many are folded."""
    if not columns:
        return
    page.section("Columns")
    names = {"name": "column", "kind": "taken for", "why": "since", "encoding": "encoding"}
    with page.folded(f"{len(columns):,} columns", shown=len(columns) <= _UNFOLDED):
        page.table([
            {label: column.get(key) for key, label in names.items()}
            | {"missing": f"{100 * column['missing']:.3g} %" if column.get("missing") else None}
            for column in columns
        ], _MOST_COLUMNS)  # fmt: skip


def _model(page: Page, pipeline: Any, made: Mapping[str, Any]) -> None:
    page.section("Model")
    page.facts((name, type(step).__name__) for name, step in pipeline.steps)
    page.facts(_flat(made))
    page.figures(
        {caption: partial(_on, draw, pipeline) for caption, draw in training_displays(pipeline).items()}
    )
    if made.get("choices"):
        page.heading("Choices")
        page.table([choice | {"what": choice["what"].replace("_", " ")} for choice in made["choices"]])
    if made.get("baseline"):
        page.heading("Beside a linear model and a constant")
        page.table(made["baseline"])
    if made.get("history"):
        page.heading("Epochs")
        page.table(made["history"])


def _on(draw: Any, pipeline: Any, ax: Any) -> None:
    draw(pipeline, ax=ax)


def _search(page: Page, tuned: Tuned) -> None:
    page.section("Search")
    figures: dict[str, Any] = {}
    curves = [("n_components", "Best score of each number of features: would more help?")]
    curves += [("rows", "Best score of each sample: would more rows help?")]
    for over, caption in curves:
        names = {name.rpartition("__")[2] for name in tuned.parameters}
        compared = over in names or over == "rows"
        levels = {trial.rows for trial in tuned.trials} if over == "rows" else set(_searched(tuned, over))
        if compared and len(levels) > 1:
            figures[caption] = partial(_of_search, tuned, over)
    page.figures(figures)
    page.heading("Best")
    best = tuned.best
    page.facts(
        [
            *best.parameters.items(),
            ("alpha", best.alpha),
            (tuned.metric, best.score),
            ("training rows", best.rows),
        ]
    )
    page.heading("Trials")
    page.table([
        {"level": t.level + 1, "rows": t.rows, **t.parameters, "alpha": t.alpha, tuned.metric: t.score, "seconds": t.seconds,
         "kept": "kept" if t.kept else None}
        for t in tuned.trials
    ])  # fmt: skip


def _of_search(tuned: Tuned, over: str, ax: Any) -> None:
    LearningCurveDisplay.from_tuned(tuned, over=over, ax=ax)


def _searched(tuned: Tuned, over: str) -> list[Any]:
    """The values of a parameter that some trials of one sample share."""
    return next((v for name, v in tuned.parameters.items() if name.rpartition("__")[2] == over), [])


def _evaluation(page: Page, found: Evaluation) -> None:
    page.section("Scores")
    page.facts(_flat(found))
    sums = found.sums
    drawn: dict[str, Any] = {}
    if isinstance(sums, ClassifierSums):
        if sums.labels.matrix is not None:
            drawn["Confusion matrix, rows"] = ConfusionMatrixDisplay
        if any(ranking.defined for ranking in sums.rankings.each):
            drawn["ROC curve"] = RocCurveDisplay
            drawn["Precision over recall"] = PrecisionRecallDisplay
        if sums.probabilities.weight > 0:
            drawn["Calibration of the probabilities"] = CalibrationDisplay
        page.figures({caption: partial(_of_evaluation, cls, found, {}) for caption, cls in drawn.items()})
        page.heading("By class")
        page.table(found["classes"])
    elif len(sums.sample.rows):
        kinds = {"Residuals": "residual_vs_predicted", "Targets and predictions": "actual_vs_predicted"}
        page.figures({
            caption: partial(_of_evaluation, ResidualsDisplay, found, {"kind": kind}) for caption, kind in kinds.items()
        })  # fmt: skip
    if found.get("slices"):
        page.heading(f"By {found['by']}" if found["by"] else "By slice")
        names = dict.fromkeys(["value", "rows", found["score"], *SLICE_SCORES])
        page.table([{name: piece.get(name) for name in names} for piece in found["slices"]])


def _of_evaluation(display: Any, found: Evaluation, options: dict[str, Any], ax: Any) -> None:
    if display is ConfusionMatrixDisplay:
        ax.figure.set_size_inches(*figure_size(len(found["classes"])))
    display.from_evaluation(found, ax=ax, **options)


def _time(page: Page, facts: Mapping[str, Any]) -> None:
    if facts.get("seconds") is None:
        return
    page.section("Time")
    page.facts([("seconds", float(facts["seconds"])), ("rows a second", facts.get("rows_per_second"))])


def _memory(page: Page, facts: Mapping[str, Any], plan: Any, trace: MemoryTrace | None) -> None:
    peaks = dict(facts.get("peak_bytes_per_worker") or {})
    if not peaks and plan is None and (trace is None or not trace.processes):
        return
    page.section("Memory")
    if trace is not None and trace.processes:
        level = (
            {} if plan is None else {"planned": plan.memory.peak, "limit": plan.workers.memory_limit or None}
        )
        one = "; client and worker are one process, which also holds what draws this page"
        caption = f"Memory over time{one if THIS_PROCESS in trace.processes else ''}"
        page.figures({caption: lambda ax: MemoryDisplay.from_trace(trace, **level, ax=ax)})
    if peaks:
        page.heading("Peaks")
        page.facts((name, format_bytes(size)) for name, size in peaks.items())
    if plan is not None:
        page.heading("Plan")
        page.facts((name.strip(), value) for name, value in plan.lines())


def _flat(facts: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """Facts without parts that stand in no section of their own."""
    return [
        (name.replace("_", " "), value)
        for name, value in facts.items()
        if name not in _APART
        and not isinstance(value, (dict, list))
        and not (name.endswith("_error") and not value)
    ]
