"""The estimators behind `--map`: the class, the options that it has (`map_options.USED`), and what is special."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import distrf

from ..errors import InputError
from .map_options import USED, MapOptions, number_or_rule, whole_or_rule

#: Parameters whose option has another name, and options that are text which stands for a number or a rule.
_PARAMETERS = {
    "components": "n_components",
    "grids": "n_grids",
    "map_epochs": "n_epochs",
    "seed": "random_state",
}
_READ: dict[str, Callable[[Any], Any]] = {
    "length_scale": number_or_rule,
    "beta": number_or_rule,
    "lam": number_or_rule,
    "n_mixed": whole_or_rule,
    "map_epochs": whole_or_rule,
}


def _said(kind: str, o: MapOptions) -> dict[str, Any]:
    """{parameter: value} of the options that a map has; what is not said is left to the class."""
    found = {name: getattr(o, name) for name in (*USED[kind], "components", "seed")}
    return {
        _PARAMETERS.get(name, name): _READ[name](value) if name in _READ else value
        for name, value in found.items()
        if value is not None
    }


def _plain(name: str, kind: str, o: MapOptions) -> Any:
    return getattr(distrf, name)(**_said(kind, o))


def tensor_sketch(o: MapOptions) -> Any:
    said = _said("tensor-sketch", o)
    if said.pop("kernel", "polynomial") != "polynomial":
        raise InputError(f"--map tensor-sketch is for the polynomial kernel, got --kernel {o.kernel}")
    return distrf.TensorSketchFeatures(**said)


def compact(o: MapOptions) -> Any:
    bases = [name for name in ESTIMATORS if name not in ("compact", "blockwise", "nystroem", "tefm", "cnm")]
    if o.base not in bases:
        raise InputError(f"--base is one of {', '.join(bases)}, got {o.base!r}")
    inner = ESTIMATORS[o.base](o).set_params(random_state=None)
    return distrf.CompactRandomFeatures(**_said("compact", o) | {"base": inner})


def tefm(o: MapOptions) -> Any:
    below = replace(o, components=4 * o.components if o.base_components is None else o.base_components)
    base = distrf.RandomFourierFeatures(**_said("fourier", below))
    return distrf.TEFM(base, o.components, sketch=o.sketch, n_iter=o.n_iter, random_state=o.seed)


def cnm(o: MapOptions) -> Any:
    from ..kernels.shift_invariant import get_shift_invariant_kernel

    said = _said("cnm", o)
    nu, projection = said.pop("nu"), said.pop("projection")
    if o.kernel == "matern":
        said["kernel"] = get_shift_invariant_kernel("matern", nu=nu)
    if o.structure != "circulant" or projection != "dense":
        said["init"] = projection
    return distrf.CompactNonlinearMap(**said)


def blockwise(o: MapOptions) -> Any:
    from ..maps.blockwise import SAVABLE_TRANSFORMERS, listed_transformer

    cls = listed_transformer(o.transformer or "")
    if cls is None:
        raise InputError(
            f"--map blockwise needs --transformer, one of {', '.join(SAVABLE_TRANSFORMERS)}, got {o.transformer!r}"
        )
    return distrf.Blockwise(cls(), random_state=o.seed)


ESTIMATORS: dict[str, Callable[[MapOptions], Any]] = {
    "fourier": partial(_plain, "RandomFourierFeatures", "fourier"),
    "laplace": partial(_plain, "RandomLaplaceFeatures", "laplace"),
    "binning": partial(_plain, "RandomBinningFeatures", "binning"),
    "tensor-sketch": tensor_sketch,
    "maclaurin": partial(_plain, "RandomMaclaurinFeatures", "maclaurin"),
    "compact": compact,
    "nystroem": partial(_plain, "NystroemFeatures", "nystroem"),
    "tefm": tefm,
    "cnm": cnm,
    "blockwise": blockwise,
}
