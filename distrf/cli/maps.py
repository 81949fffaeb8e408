"""The estimators behind `--map`: one function and one line in the registry for each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from ..errors import InputError
from .map_options import MapOptions, number_or_rule, whole_or_rule


def _length_scale(o: MapOptions) -> Any:
    return "knn" if o.length_scale is None else number_or_rule(o.length_scale)


def fourier(o: MapOptions) -> Any:
    from ..features import RandomFourierFeatures

    return RandomFourierFeatures(
        o.kernel or "gaussian",
        length_scale=_length_scale(o),
        gamma=o.gamma,
        n_components=o.components,
        projection=o.projection,
        phase=o.phase or "paired",
        whiten=o.whiten,
        nu=o.nu,
        random_state=o.seed,
    )


def laplace(o: MapOptions) -> Any:
    from ..features import RandomLaplaceFeatures

    return RandomLaplaceFeatures(
        o.kernel or "exponential_semigroup",
        beta=number_or_rule(o.beta),
        lam=number_or_rule(o.lam),
        n_components=o.components,
        projection=o.projection,
        n_mixed=whole_or_rule(o.n_mixed),
        random_state=o.seed,
    )


def binning(o: MapOptions) -> Any:
    from ..features import RandomBinningFeatures

    return RandomBinningFeatures(
        o.kernel or "laplacian",
        length_scale=_length_scale(o),
        gamma=o.gamma,
        n_grids=o.grids,
        n_components=o.components,
        bins=o.bins,
        random_state=o.seed,
    )


def tensor_sketch(o: MapOptions) -> Any:
    from ..features import TensorSketchFeatures

    if o.kernel not in (None, "polynomial"):
        raise InputError(f"--map tensor-sketch is for the polynomial kernel, got --kernel {o.kernel}")
    return TensorSketchFeatures(
        o.degree,
        gamma="norm" if o.gamma is None else o.gamma,
        coef0=o.coef0,
        n_components=o.components,
        random_state=o.seed,
    )


def maclaurin(o: MapOptions) -> Any:
    from ..features import RandomMaclaurinFeatures

    return RandomMaclaurinFeatures(
        o.kernel or "polynomial",
        degree=o.degree,
        gamma="norm" if o.gamma is None else o.gamma,
        coef0=o.coef0,
        n_components=o.components,
        random_state=o.seed,
    )


def compact(o: MapOptions) -> Any:
    from ..features import CompactRandomFeatures

    bases = [name for name in ESTIMATORS if name not in ("compact", "blockwise", "nystroem", "tefm", "cnm")]
    if o.base not in bases:
        raise InputError(f"--base is one of {', '.join(bases)}, got {o.base!r}")
    inner = ESTIMATORS[o.base](o).set_params(random_state=None)
    return CompactRandomFeatures(inner, up_factor=o.up_factor, n_components=o.components, random_state=o.seed)


def nystroem(o: MapOptions) -> Any:
    from ..features import NystroemFeatures

    return NystroemFeatures(
        o.kernel or "gaussian",
        length_scale=_length_scale(o),
        gamma=o.gamma,
        degree=o.degree,
        coef0=o.coef0,
        beta=number_or_rule(o.beta),
        lam=number_or_rule(o.lam),
        nu=o.nu,
        n_components=o.components,
        landmarks=o.landmarks,
        random_state=o.seed,
    )


def tefm(o: MapOptions) -> Any:
    from ..features import TEFM

    below = replace(o, components=4 * o.components if o.base_components is None else o.base_components)
    return TEFM(fourier(below), o.components, sketch=o.sketch, n_iter=o.n_iter, random_state=o.seed)


def cnm(o: MapOptions) -> Any:
    from ..kernels.shift_invariant import get_shift_invariant_kernel
    from ..learned import CompactNonlinearMap

    kernel = o.kernel or "gaussian"
    return CompactNonlinearMap(
        o.components,
        o.objective,
        structure=o.structure,
        phase=o.phase or "offset",
        init=None if o.structure == "circulant" and o.projection == "dense" else o.projection,
        kernel=get_shift_invariant_kernel(kernel, nu=o.nu) if kernel == "matern" else kernel,
        length_scale=_length_scale(o),
        gamma=o.gamma,
        n_epochs="auto" if o.map_epochs is None else whole_or_rule(o.map_epochs),
        random_state=o.seed,
    )


def blockwise(o: MapOptions) -> Any:
    from ..features import Blockwise
    from ..maps.blockwise import SAVABLE_TRANSFORMERS, listed_transformer

    cls = listed_transformer(o.transformer or "")
    if cls is None:
        raise InputError(
            f"--map blockwise needs --transformer, one of {', '.join(SAVABLE_TRANSFORMERS)}, got {o.transformer!r}"
        )
    return Blockwise(cls(), random_state=o.seed)


ESTIMATORS: dict[str, Callable[[MapOptions], Any]] = {
    "fourier": fourier,
    "laplace": laplace,
    "binning": binning,
    "tensor-sketch": tensor_sketch,
    "maclaurin": maclaurin,
    "compact": compact,
    "nystroem": nystroem,
    "tefm": tefm,
    "cnm": cnm,
    "blockwise": blockwise,
}
