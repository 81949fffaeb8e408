"""Search of length scale, D, alpha and other parameters; the winner becomes a job file."""

from __future__ import annotations

import os
from typing import Any

import typer

from .command import command
from .data import Rows
from .options import MAP, MODEL, ROWS, SPLIT
from .session import Session
from .values import by_rules, read, several

_USUAL: dict[str, Any] = {"map": "fourier", "alpha": "1e-8,1e-7,1e-6,1e-5,1e-4,1e-3"}
_SIZES = "1024,4096"
Given = dict[str, Any]


@command("out model_out n_rows factor overwrite report", model=MAP | MODEL, rows=ROWS, held_out=SPLIT)
def tune(session: Session, X: Rows, given: Given, model: Given, rows: Given, held_out: Given) -> None:
    """Search length scale, D, alpha on growing row samples; write the winner as a job file of train.

    What has several values between commas is searched: -D 1024,4096, --alpha, --length-scale (or a rule, which stands for
    seven numbers around it), and parameters of the map by --set.

    \b
    Examples:
      distrf tune data.zarr --out best.yaml -D 1024,8192
      distrf train --job best.yaml
    """
    from sklearn.base import is_classifier

    from ..pipeline.rows import open_input, rows_with_target
    from ..ridge.alphas import ALPHA
    from ..tuning import tune as search
    from .estimators import Parts

    parts = Parts(**_USUAL | model)
    out, model_out = given.pop("out", None), given.pop("model_out", "model")
    overwrite, report = given.pop("overwrite", False), given.pop("report", None)
    given = by_rules(search, given)
    data = open_input(X, **rows, **held_out)
    _check_places(X, out, model_out, overwrite)
    session.report_to(report, X, out, model_out)
    by = data.by_column(held_out["by"], held_out["split"])[0] if "by" in held_out else None
    features, y = rows_with_target(data, "training")
    target = parts.target(data, y)
    alphas = several("alpha", parts.given["model"]["alpha"], ALPHA)
    parts.given["model"]["alpha"] = repr(alphas[0])
    learner = parts.learner(target)
    estimator, searched = _searched(parts, data.d, is_classifier(learner))
    session.need_no_workers(data)
    with session.on_cluster():
        tuned = search(
            features, data.seen[parts.seed, parts.model][0], estimator, searched, learner, alphas, scale=parts.scaler(),
            random_state=parts.seed, sample_weight=data.weights(), split=held_out.get("split", "random"), by=by, **given,
            on_level=lambda level, n, rows: session.say(f"level {level + 1}: {n} candidates on {rows:,} rows"),
            on_trial=lambda trial: session.say(f"  {_named(trial)}: score {trial.score:.4f}, {trial.seconds:.2f} s"),
        )  # fmt: skip
    where = {"memory_limit": session.where["memory_limit"]}
    if "://" not in (session.asked or ""):  # a scheduler is gone when others run the job
        where |= {"cluster": session.asked, "tls": session.where["tls"]}
    job = {"X": X, "out": model_out, **rows, **held_out, **_winner(parts, estimator, tuned), **where}
    _write(out, job, tuned, data)
    best = tuned.best
    lines = [
        f"best: {_named(best)}: {tuned.metric} {best.score:.4f} on {tuned.validation_rows:,} held-out rows"
    ]
    lines += [f"split by {tuned.split}"] if tuned.split else []
    lines += [f"note: {note}" for note in tuned.notes]
    lines += [f"written {out}; train on all rows: distrf train --job {out}"]
    result = tuned.to_dict() | {"job": out}
    session.finish(result, "\n".join(lines), tuned, f"Search on {X}", data)


def _searched(parts: Any, d: int, labels: bool) -> tuple[Any, Given]:
    """The unfitted map, and {parameter: values, or a rule for its length scale}; None for no map."""
    from sklearn.base import clone

    if parts.map == "none":
        return None, {}
    found: Given = {}
    if hasattr(parts.made_map(labels, found), "n_components"):
        parts.given["map"].setdefault("n_components", _SIZES)
    found.clear()
    made = parts.made_map(labels, found)
    made.planned_map(d)
    if "n_components" in parts.given["map"]:
        found["n_components"] = sorted(found.get("n_components", [made.n_components]))
        for size in found["n_components"]:
            clone(made).set_params(n_components=size).planned_map(d)  # odd or too large, before anything runs
    scale = made.scale_parameter()
    if scale is not None and scale not in found:
        value = made.get_params()[scale]
        found[scale] = value if isinstance(value, str) else [value]
    return made, found


def _winner(parts: Any, made: Any, tuned: Any) -> Given:
    """{option of `train`: value} of the best candidate; `made` is of `_searched`."""
    job: Given = {"map": parts.map, "model": parts.model, "alpha": tuned.best.alpha, "random_state": parts.seed}
    best, chosen = tuned.best.parameters, {}
    if made is not None:
        size = made.get_params().get("base__n_components")
        values = {name: read(text) for name, text in parts.given["map"].items() if f"base__{name}" not in best}
        chosen = ({} if size is None else {"base__n_components": size}) | values | best
        job |= {name: chosen.pop(name) for name in ("kernel", "n_components", "length_scale") if name in chosen}
        job["raw_columns"] = "no"
    parameters = {f"map__{name}": value for name, value in chosen.items()}
    parameters |= {
        f"model__{name}": read(text) for name, text in parts.given["model"].items() if name != "alpha"
    }
    job["scale"] = "none" if tuned.scaler is None else tuned.scaler.method
    if job["scale"] == "divide":
        parameters["scale__divisor"] = tuned.scaler.divisor
    return job | ({"set": parameters} if parameters else {})


def _check_places(source: str, out: str | None, model_out: str, overwrite: bool) -> None:
    """Raise for a job file that cannot be written, or lies in what it names."""
    from ..errors import SpecMismatchError
    from ..store import check_apart, check_writable, files

    if out is None:
        raise typer.BadParameter("--out is missing: the job file to write, such as best.yaml")
    check_apart(out, [source], what="--out")
    check_apart(model_out, [source], what="--model-out")
    check_apart(out, [model_out], what="--out", than="--model-out")
    fs, root = files.filesystem(files.normalise(out))
    if fs.isdir(root):
        raise typer.BadParameter(f"--out names a file, but {out!r} is a folder")
    if fs.exists(root) and not overwrite:
        raise SpecMismatchError(f"{out!r} exists; choose another file, or --overwrite")
    check_writable(out)


def _write(path: str, job: Given, tuned: Any, data: Any) -> None:
    from ..store import files
    from .reports import document

    path, best = files.normalise(path), tuned.best
    for name in ("X", "out", "cluster", "tls"):  # relative to the file, where it is on this machine
        value = job.get(name)
        if not (value is None or value in ("local", "none") or "://" in value or os.path.isabs(value)):
            place = os.path.abspath(value)
            job[name] = os.path.relpath(place, os.path.dirname(path)) if files.is_local(path) else place
    said = f"{tuned.metric} {best.score:.4f} on {tuned.validation_rows:,} held-out rows"
    comment = f"# Found by distrf tune: {said}, trained on {best.rows:,} of {data.info.n:,}.\n"
    job = {"command": "train"} | {name: value for name, value in job.items() if value is not None}
    fs, root = files.filesystem(path)
    files.write_bytes(fs, root, (comment + document(job) + "\n").encode())


def _named(trial: Any) -> str:
    """The parameters of a trial, D first."""
    found = sorted(trial.parameters.items(), key=lambda item: item[0] != "n_components")
    words = {name: name.removeprefix("base__").replace("_", " ") for name, _ in found} | {"n_components": "D"}
    values = [(words[name], f"{v:,}" if isinstance(v, (int, float)) else str(v)) for name, v in found]
    return ", ".join(f"{name} {value}" for name, value in [*values, ("alpha", f"{trial.alpha:g}")])
