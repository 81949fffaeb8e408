"""Write the features of described rows, of a map that is fitted to them or of one that was fitted before."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import dask.array as da
from sklearn.pipeline import Pipeline

from .. import __version__
from ..errors import InputError
from ..execution.write_zarr import Written, write_rows
from ..persistence import load_model, model_details, save_model
from ..pipeline.inputs import Input
from .predicting import Loaded, as_pipeline


@dataclass(frozen=True)
class Features:
    """Lazy features, and the JSON that determines them."""

    X: da.Array
    y: da.Array | None
    map_spec: Any


def fitted_features(
    data: Input, scaler: Any, estimator: Any, save_map: str | None, overwrite: bool, source: str
) -> Features:
    """Features of a map fitted to the rows, scaled where a scaler is given; `save_map` keeps the steps in a folder."""
    X, y = data.rows(uniform=True)
    steps = ([] if scaler is None else [("scale", scaler)]) + [("map", estimator)]
    for _, step in steps:
        X = step.fit(X, y).transform(X)
    if save_map is not None:
        provenance = {"source": source, "distrf": __version__}
        save_model(
            Pipeline(steps), save_map, overwrite=overwrite, input=data.description, provenance=provenance
        )
    specs = [step.map_.spec() for _, step in steps]
    return Features(X, y, specs if len(specs) > 1 else specs[0])


@dataclass(frozen=True)
class Like:
    """The transformers of a saved map or model."""

    loaded: Loaded

    def features(self, data: Input) -> Features:
        X, y = data.rows(uniform=True)
        return Features(
            self.loaded.pipeline.transform(X), y, [step.map_.spec() for step in self.loaded.pipeline]
        )


def open_like(path: str, source: str, target: str | None, strict: bool = False) -> tuple[Like, Input]:
    """The map in folder `path`, and the rows at `source` read as those it was fitted to.

    Raises StoreError for a folder that is not a model, InputError for one without a map.
    """
    details = model_details(path)
    steps = [(name, step) for name, step in as_pipeline(load_model(path)).steps if hasattr(step, "transform")]
    if not any(hasattr(step, "map_") for _, step in steps):
        raise InputError(f"{path!r} holds no map: its features are the columns as they are")
    like = Like(Loaded.of(path, Pipeline(steps), details))
    return like, like.loaded.open(source, target, strict=strict)


def write_features(out: str, features: Features, data: Input, source: str, overwrite: bool) -> Written:
    """Write features, and the targets where there are some, block by block."""
    X, y = features.X, features.y
    return write_rows(
        out,
        {"X": X} | ({} if y is None else {"y": y}),
        kind="features",
        spec={"map": features.map_spec, "input": data.description},
        classes=data.classes(y),
        target=data.target,
        provenance={"source": source, "distrf": __version__},
        overwrite=overwrite,
    )
