"""The options of the map."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Annotated, Any

import typer

MAPS = (
    "fourier", "laplace", "binning", "tensor-sketch", "maclaurin", "compact", "nystroem", "tefm", "cnm",
    "blockwise",
)  # fmt: skip


def _option(*names: str, help: str, default: bool = True) -> Any:
    return typer.Option(*names, help=help, rich_help_panel="Map", show_default=default)


KernelName = Annotated[
    str | None,
    _option(
        "--kernel",
        help="gaussian, laplacian, cauchy or matern; laplace: exponential_semigroup or reciprocal_semigroup. "
        "Default: the map's first.",
    ),
]
LengthScale = Annotated[str, _option("--length-scale", help="A number, or knn, knn-cnm, median, scale.")]
Gamma = Annotated[float | None, _option("--gamma", help="scikit-learn's gamma instead of a length scale.")]
Nu = Annotated[float, _option("--nu", help="Smoothness of the Matern kernel: 0.5, 1.5 or 2.5.")]
Phase = Annotated[
    str | None, _option("--phase", help="paired or offset. Default: paired; cnm: offset.", default=False)
]
Seed = Annotated[int, _option("--seed", help="Seed of the map, the folds and the order of rows.")]


@dataclass(frozen=True)
class MapOptions:
    """What the command line says about the map, as typed; None is not said."""

    map: Annotated[str, _option("--map", help=f"{', '.join(MAPS)}, or none for the columns as they are.")] = (
        "fourier"
    )
    kernel: KernelName = None
    length_scale: LengthScale = "knn"
    gamma: Gamma = None
    nu: Nu = 1.5
    components: Annotated[int, _option("-D", "--components", help="Number of random features.")] = 1024
    projection: Annotated[
        str, _option("--projection", help="How weights are drawn; auto picks the cheapest of low error.")
    ] = "dense"
    phase: Phase = None
    whiten: Annotated[bool, _option("--whiten", help="Whiten the rows first.")] = False
    beta: Annotated[str, _option("--beta", help="Of exponential_semigroup: a number, or median.")] = "median"
    lam: Annotated[str, _option("--lam", help="Of reciprocal_semigroup: a number, or median.")] = "median"
    n_mixed: Annotated[str, _option("--n-mixed", help="Laplace, alternating_circulant: 2 or log2.")] = "2"
    grids: Annotated[int, _option("--grids", help="Binning: number of grids.")] = 128
    bins: Annotated[str, _option("--bins", help="Binning: hashed or exact.")] = "hashed"
    degree: Annotated[int, _option("--degree", help="Of polynomial kernels.")] = 2
    coef0: Annotated[float, _option("--coef0", help="Of the polynomial kernel: weight of low powers.")] = 1.0
    base: Annotated[str, _option("--base", help="Compact: tensor-sketch, maclaurin, fourier, ...")] = (
        "tensor-sketch"
    )
    up_factor: Annotated[float, _option("--up-factor", help="Compact: features of the base, over -D.")] = 8.0
    landmarks: Annotated[
        str, _option("--landmarks", help="Nystroem: uniform, k-means++, kmeans or leverage.")
    ] = "uniform"
    transformer: Annotated[
        str | None,
        _option("--transformer", help="Blockwise: a transformer of scikit-learn, such as AdditiveChi2Sampler."),
    ] = None
    base_components: Annotated[
        int | None, _option("--base-D", help="Tefm: Fourier features below; default 4 D.")
    ] = None
    sketch: Annotated[str, _option("--sketch", help="Tefm: gaussian, srht or sparse.")] = "gaussian"
    objective: Annotated[
        str,
        _option(
            "--objective",
            help="Cnm: kernel, or a loss, which needs the target: multinomial, hinge, squared, ...",
        ),
    ] = "kernel"
    map_epochs: Annotated[
        int | None,
        _option("--map-epochs", help="Cnm: passes over the rows. Default: from their number.", default=False),
    ] = None
    structure: Annotated[str, _option("--structure", help="Cnm: dense or circulant frequencies.")] = "dense"
    n_iter: Annotated[int, _option("--n-iter", help="Tefm: products with F'F after the sketch.")] = 1
    seed: Seed = 0

    def scale(self) -> float | str:
        """`--length-scale` as a number or a known rule. Raises InputError for anything else."""
        from ..errors import InputError
        from ..features.length_scale import RULES

        scale = number_or_rule(self.length_scale)
        if isinstance(scale, str) and scale not in RULES:
            raise InputError(f"unknown length-scale rule {scale!r}; known: {', '.join(RULES)}, or a number")
        return scale


#: Options that a map has; `--components` and `--seed` are for all, `--map compact` has those of its base too.
_FOURIER = ("kernel", "length_scale", "gamma", "nu", "projection", "phase", "whiten")
USED: dict[str, tuple[str, ...]] = {
    "fourier": _FOURIER,
    "laplace": ("kernel", "beta", "lam", "projection", "n_mixed"),
    "binning": ("kernel", "length_scale", "gamma", "grids", "bins"),
    "tensor-sketch": ("kernel", "gamma", "degree", "coef0"),
    "maclaurin": ("kernel", "gamma", "degree", "coef0"),
    "compact": ("base", "up_factor"),
    "nystroem": ("kernel", "length_scale", "gamma", "nu", "degree", "coef0", "beta", "lam", "landmarks"),
    "tefm": (*_FOURIER, "base_components", "sketch", "n_iter"),
    "cnm": (
        "kernel",
        "length_scale",
        "gamma",
        "nu",
        "projection",
        "phase",
        "objective",
        "structure",
        "map_epochs",
    ),
    "blockwise": ("transformer",),
    "none": (),
}


def check_applies(options: MapOptions) -> None:
    """Raise InputError for an option that was given but that the map does not have: it would change nothing."""
    from ..errors import InputError

    def has(kind: str, name: str) -> bool:
        return name in USED[kind] or (kind == "compact" and name in USED.get(options.base, ()))

    for field in fields(options):
        name = field.name
        if name in ("map", "components", "seed") or getattr(options, name) == field.default:
            continue
        if not has(options.map, name):
            flag = "--base-D" if name == "base_components" else "--" + name.replace("_", "-")
            maps = ", ".join(kind for kind in USED if has(kind, name))
            raise InputError(f"{flag} is for --map {maps}; this is --map {options.map}")


def number_or_rule(text: str | None) -> Any:
    """A float where the text is one, else the text."""
    try:
        return None if text is None else float(text)
    except ValueError:
        return text
