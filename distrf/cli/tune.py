"""Search of length scale, D and alpha; the winner becomes a job file."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..errors import SpecMismatchError
from . import options as o
from .groups import PATH, path_parameters
from .jobs import commands, job_text, keys_of
from .map_options import ScaleOptions, whole_or_rule
from .model_options import ModelOptions, alphas_of, check_name, make_model
from .session import Session, UsageError, running

if TYPE_CHECKING:
    from ..pipeline.inputs import Input
    from ..tuning import Trial, Tuned


@dataclass(frozen=True)
class SearchedMap(o.MapOptions):
    """The options of the map, some of them lists."""

    length_scale: Annotated[
        str | None,
        typer.Option(
            "--length-scale",
            help="Numbers, comma-separated, or a rule: its number times 0.35, 0.5, 0.71 ... 2.8.",
            show_default="knn",
        ),
    ] = None
    gamma: Annotated[
        str | None,
        typer.Option("--gamma", help="scikit-learn's gammas, comma-separated, instead of length scales."),
    ] = None  # type: ignore[assignment]
    components: Annotated[
        str, typer.Option("-D", "--components", help="Numbers of random features, comma-separated.")
    ] = "1024,4096"  # type: ignore[assignment]


@dataclass(frozen=True)
class SearchedModel(ModelOptions):
    """The options of the model; several penalties for every kind."""

    alpha: Annotated[str, typer.Option("--alpha", help="Penalties, comma-separated.")] = (
        "1e-8,1e-7,1e-6,1e-5,1e-4,1e-3"
    )


def tune(
    source: o.Source,
    out: Annotated[str, PATH, typer.Option("--out", help="The job file to write, such as best.toml.")],
    map: SearchedMap,
    model: SearchedModel,
    rows: o.ReadOptions,
    scale: ScaleOptions,
    model_out: Annotated[
        str, PATH, typer.Option("--model-out", help="The folder of the model that the job file will train.")
    ] = "model",
    sample_rows: Annotated[
        int, typer.Option("--sample-rows", help="Rows of the largest sample.", min=1, max=2**40)
    ] = 20_000,
    factor: Annotated[
        int,
        typer.Option(
            "--factor",
            help="A level keeps one candidate in so many, on so many times the rows.",
            min=2,
            max=2**20,
        ),
    ] = 3,
    overwrite: o.Overwrite = False,
    *,
    run: o.RunOptions,
) -> None:
    """Search length scale, D and alpha on growing row samples; write the winner as a job file."""
    from ..store import check_apart
    from ..tuning import tune as search
    from .outputs import check_writable, said
    from .training import follow_target, look_at_target, rows_with_target

    session = Session(run)
    check_apart(out, [source], what="--out")
    check_apart(model_out, [source], what="--model-out")
    check_apart(out, [model_out], what="--out", than="--model-out")
    data = o.open_source(source, rows)
    alphas = alphas_of(model.alpha)
    check_name(model.model)
    scaler = o.checked(scale.scaler)
    sizes = [_whole(text) for text in o.listed(map.components) or []]
    first = _plain(map, sizes)
    estimator = o.map_of(first, data.d)
    parameters = _parameters(map, sizes, estimator, data.d, first)
    model = follow_target(model, look_at_target(data, map.seed))  # type: ignore[assignment]
    learner = make_model(replace(model, alpha=str(alphas[0])), seed=map.seed)
    if sample_rows < 20:
        raise UsageError(f"--sample-rows must be at least 20, got {sample_rows}")
    if os.path.isdir(out):
        raise UsageError(f"--out names a file, but {out!r} is a folder")
    if os.path.exists(out) and not overwrite:
        raise SpecMismatchError(f"{out!r} exists; choose another file, or --overwrite")
    check_writable(out)
    with session.connected():
        X, y = rows_with_target(data)
        tuned = search(
            X, y, estimator, parameters, learner, alphas, scale=scaler, n_rows=sample_rows, factor=factor, seed=map.seed,
            **({} if run.json or run.quiet else _printer(session, hasattr(learner, "alphas"))),
        )  # fmt: skip
    scaler = tuned.scaler
    chosen = _chosen(tuned.best, first, parameters)
    values = {"source": source, "out": model_out, **said(chosen), **said(rows)}
    values |= said(ModelOptions(**vars(model))) | {
        "model": model.model,
        "alpha": tuned.best.alpha,
        "map": chosen.map,
    }
    if scaler is not None and scaler.method == "divide":
        values["divide_by"] = scaler.divisor
    else:
        values["scale"] = "none" if scaler is None else scaler.method
    if estimator is not None:
        values["raw_columns"] = "no"
    if "n_components" in parameters:
        values["components"] = chosen.components
    if "length_scale" in values:
        values["length_scale"] = o.number_or_rule(values["length_scale"])
    values |= {"memory_limit": run.memory_limit}
    if not running(run.cluster):  # a scheduler is gone when others run the job
        values["cluster"] = run.cluster
    _write(out, values, tuned, data)
    result = {
        "best": _facts(tuned.best, tuned),
        "trials": [_facts(trial, tuned) for trial in tuned.trials],
        "metric": tuned.metric,
        "validation_rows": tuned.validation_rows,
        "notes": tuned.notes,
        "job": out,
    }
    session.finish(result, lambda console: _report(console, result, tuned))


def _whole(text: str) -> int:
    from ..parameters import whole

    value = whole_or_rule(text)
    o.checked(lambda: whole().check("n_components", value))
    return int(value)


def _numbers(option: str, text: str) -> list[float]:
    values = [o.number_or_rule(part) for part in o.listed(text) or []]
    if not values or any(isinstance(v, str) or not 0 < v < float("inf") for v in values):
        raise UsageError(f"{option} takes positive numbers, comma-separated, got {text!r}")
    return values


def _rule(map: SearchedMap) -> str | None:
    """The rule that `--length-scale` names; None where it lists numbers."""
    value = o.number_or_rule((o.listed(map.length_scale or "knn") or [""])[0])
    return value if isinstance(value, str) else None


def _plain(map: SearchedMap, sizes: list[int]) -> o.MapOptions:
    """The options with the first of each list, as `train` takes them."""
    if not sizes:
        raise UsageError("tune needs at least one -D")
    values = {f.name: getattr(map, f.name) for f in fields(o.MapOptions)} | {"components": sizes[0]}
    if map.gamma is not None:
        values["gamma"] = _numbers("--gamma", map.gamma)[0]
    if _rule(map) is None:
        values["length_scale"] = str(_numbers("--length-scale", map.length_scale or "")[0])
    if map.map == "tefm" and map.base_components is None:
        values["base_components"] = 4 * max(sizes)
    return o.MapOptions(**values)


def _parameters(
    map: SearchedMap, sizes: list[int], estimator: Any, d: int, first: o.MapOptions
) -> dict[str, Any]:
    """{parameter of the estimator: values, or a rule for its length scale}."""
    if estimator is None:
        return {}
    from ..pipeline.families import scale_parameter

    known = estimator.get_params(deep=True)
    found: dict[str, Any] = {}
    rule, name = _rule(map), scale_parameter(estimator)
    if map.gamma is not None:
        found["gamma" if "gamma" in known else "base__gamma"] = _numbers("--gamma", map.gamma)
    elif rule is None:
        found[name or "base__length_scale"] = _numbers("--length-scale", map.length_scale or "")
    elif name is not None:
        found[name] = rule
    if "n_components" in known:
        for size in sizes:
            o.map_of(replace(first, components=size), d)  # refused now rather than on a worker
        found["n_components"] = sizes
    return found


def _chosen(best: Trial, first: o.MapOptions, parameters: Mapping[str, Any]) -> o.MapOptions:
    """The options of `train` that make the winner's map."""
    values = {name.removeprefix("base__"): best.parameters[name] for name in parameters}
    if "n_components" in values:
        values["components"] = values.pop("n_components")
    if "length_scale" in values:
        values["length_scale"] = str(values["length_scale"])
    return replace(first, **values)


def _write(path: str, values: Mapping[str, Any], tuned: Tuned, data: Input) -> None:
    command = commands()["train"]
    paths, folder = path_parameters(command.callback), os.path.dirname(os.path.abspath(path))
    entries = {}
    for key, parameter in keys_of(command).items():
        value = values.get(parameter.name)
        if parameter.name in paths and value is not None and "://" not in value and not os.path.isabs(value):
            value = os.path.relpath(os.path.abspath(value), folder)
        entries[key] = value
    best = tuned.best
    comment = (
        f"Found by distrf tune: {tuned.metric} {best.score:.4f} on {tuned.validation_rows:,} held-out rows, trained "
        f"on {best.rows:,} of {data.info.n:,}."
    )
    os.makedirs(folder, exist_ok=True)
    partial = f"{path}.partial"
    with open(partial, "w", encoding="utf-8") as file:
        file.write(job_text("train", entries, comment))
    os.replace(partial, path)


def _facts(trial: Trial, tuned: Tuned) -> dict[str, Any]:
    return {
        **vars(trial),
        "level": trial.level + 1,
        "scores": {str(a): s for a, s in zip(tuned.alphas, trial.scores, strict=True)},
    }


def _printer(session: Session, squares: bool) -> dict[str, Any]:
    """Callbacks that print the table as it grows; mean squared errors for models that minimise them."""

    def on_level(level: int, candidates: int, rows: int) -> None:
        session.output.print(f"\nlevel {level + 1}: {candidates} candidates on {rows:,} rows")

    def on_trial(trial: Trial) -> None:
        named = ", ".join(
            f"{'D' if name == 'n_components' else name.removeprefix('base__').replace('_', ' ')} {value:>7,}"
            for name, value in sorted(trial.parameters.items(), key=lambda item: item[0] != "n_components")
        )
        error = f"  error {trial.error:<8.4g}" if squares else ""
        session.output.print(
            f"  {named}  alpha {trial.alpha:<7g} score {trial.score:.4f}{error}  {trial.seconds:6.2f} s",
            soft_wrap=True,
        )

    return {"on_level": on_level, "on_trial": on_trial}


def _report(console: Any, result: dict[str, Any], tuned: Tuned) -> None:
    best = tuned.best
    named = ", ".join(
        f"{'D' if k == 'n_components' else k.removeprefix('base__').replace('_', ' ')} = {v:,}"
        for k, v in sorted(best.parameters.items(), key=lambda item: item[0] != "n_components")
    )
    console.print(
        f"\nbest: {named}{', ' if named else ''}alpha = {best.alpha:g}: {tuned.metric} {best.score:.4f} on "
        f"{tuned.validation_rows:,} held-out rows",
        soft_wrap=True,
    )
    for note in result["notes"]:
        console.print(f"note: {note}", soft_wrap=True)
    console.print(f"written {result['job']}; train on all rows: distrf run {result['job']}", soft_wrap=True)
