"""The options of the map."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Annotated, Any

import typer

MAPS = (
    "fourier", "laplace", "binning", "tensor-sketch", "maclaurin", "compact", "nystroem", "tefm", "cnm",
    "blockwise",
)  # fmt: skip


def _option(*names: str, help: str, default: bool | str = True, **bounds: Any) -> Any:
    return typer.Option(*names, help=help, rich_help_panel="Map", show_default=default, **bounds)


KernelName = Annotated[
    str | None,
    _option(
        "--kernel",
        help="gaussian, laplacian, cauchy or matern; laplace: exponential_semigroup or reciprocal_semigroup. "
        "Default: the map's first.",
    ),
]
LengthScale = Annotated[
    str | None,
    _option("--length-scale", help="A number, or knn, knn-cnm, median, scale.", default="knn"),
]
Gamma = Annotated[float | None, _option("--gamma", help="scikit-learn's gamma instead of a length scale.")]
Nu = Annotated[float, _option("--nu", help="Smoothness of the Matern kernel: 0.5, 1.5 or 2.5.")]
Phase = Annotated[
    str | None, _option("--phase", help="paired or offset. Default: paired; cnm: offset.", default=False)
]
Seed = Annotated[
    int, _option("--seed", help="Seed of the map, the folds and the order of rows.", min=0, max=2**63 - 1)
]


@dataclass(frozen=True)
class MapOptions:
    """What the command line says about the map, as typed; None is not said."""

    map: Annotated[str, _option("--map", help=f"{', '.join(MAPS)}, or none for the columns as they are.")] = (
        "fourier"
    )
    kernel: KernelName = None
    length_scale: LengthScale = None
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
        int | None, _option("--base-D", help="Tefm: Fourier features below; default 4 D.", min=1)
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
        str | None,
        _option(
            "--map-epochs", help="Cnm: passes over the rows; auto takes them from their number.", default="auto"
        ),
    ] = None
    structure: Annotated[str, _option("--structure", help="Cnm: dense or circulant frequencies.")] = "dense"
    n_iter: Annotated[int, _option("--n-iter", help="Tefm: products with F'F after the sketch.")] = 1
    seed: Seed = 0


@dataclass(frozen=True)
class TrainMapOptions(MapOptions):
    """The options of the map of a model: what is not said is chosen from a sample of rows."""

    map: Annotated[
        str,
        _option(
            "--map",
            help=f"{', '.join(MAPS)}; none for the columns as they are, auto for fourier or none, whichever does better.",
        ),
    ] = "auto"
    length_scale: Annotated[
        str | None,
        _option(
            "--length-scale",
            help="A number, or knn, knn-cnm, median, scale; auto searches around knn.",
            default="auto",
        ),
    ] = None
    components: Annotated[str, _option("-D", "--components", help="Number of random features, or auto.")] = (
        "auto"  # type: ignore[assignment]
    )
    raw_columns: Annotated[
        str,
        _option("--raw-columns", help="Whether the columns stand beside the features: auto, yes or no."),
    ] = "auto"

    def plain(self, n: int, memory: int) -> MapOptions:
        """The options of the map that is planned, with numbers for what is chosen later.

        memory : bytes of a worker, 0 for unknown. Raises InputError for a value that is none.
        """
        from ..errors import InputError
        from ..parameters import one_of, whole
        from ..pipeline.deciding import auto_components, share_of

        values = {f.name: getattr(self, f.name) for f in fields(MapOptions)}
        values["map"] = "fourier" if self.map == "auto" else self.map
        check_gamma(self)
        if self.length_scale == "auto":
            values["length_scale"] = None
        if self.components == "auto":
            values["components"] = share_of(auto_components(n, memory), values["map"])
        else:
            values["components"] = whole_or_rule(str(self.components))
            (whole() | one_of("auto")).check("n_components", values["components"])
        if self.raw_columns not in _JOINED:
            raise InputError(f"--raw-columns is auto, yes or no, got {self.raw_columns!r}")
        return MapOptions(**values)

    @property
    def free(self) -> bool:
        """Whether nothing is said of the map, so that the columns may do without."""
        names = ("map", "length_scale", "components", "raw_columns", "seed")
        return self.map == "auto" and all(
            getattr(self, f.name) == f.default for f in fields(self) if f.name not in names
        )

    def chosen(self, estimator: Any) -> dict[str, Any]:
        """What `distrf.make_model` is to choose and what it is given; `estimator` is of `plain`."""
        said = self.components != "auto"
        return {
            "map": "auto" if self.free else estimator,
            "length_scale": "auto"
            if self.length_scale in (None, "auto")
            else number_or_rule(self.length_scale)
            if self.free
            else None,
            "n_components": (whole_or_rule(self.components) if self.free else None) if said else "auto",
            "raw_columns": _JOINED[self.raw_columns],
            "random_state": self.seed,
        }


_JOINED: dict[str, bool | str] = {"auto": "auto", "yes": True, "no": False}


@dataclass(frozen=True)
class ScaleOptions:
    """How columns are scaled; part of the model."""

    scale: Annotated[
        str,
        _option(
            "--scale",
            help="robust, standard, minmax, maxabs, l1-rows, l2-rows, divide, or none; auto takes robust or none, "
            "whichever does better on held-out rows.",
        ),
    ] = "auto"
    divide_by: Annotated[
        float | None, _option("--divide-by", help="Scale by a number: 255 for grey values.", default=False)
    ] = None

    def scaler(self) -> Any:
        """An unfitted scaler, "auto" or None. Raises InputError for an unknown method."""
        from ..errors import InputError
        from ..features import StreamingScaler
        from ..parameters import check_parameters

        if self.divide_by is not None:
            if self.scale not in ("auto", "none", "divide"):
                raise InputError("--scale and --divide-by exclude each other")
            if not 0 < abs(self.divide_by) < float("inf"):
                raise InputError(f"--divide-by is a finite number other than 0, got {self.divide_by}")
            return StreamingScaler("divide", divisor=self.divide_by)
        if self.scale == "auto":
            return "auto"
        if self.scale == "none":
            return None
        scaler = StreamingScaler(self.scale)
        check_parameters(scaler)
        return scaler


@dataclass(frozen=True)
class PlainScaleOptions(ScaleOptions):
    """Scaling only where it is asked for."""

    scale: Annotated[
        str, _option("--scale", help="robust, standard, minmax, maxabs, l1-rows, l2-rows, or none.")
    ] = "none"


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
    """Raise InputError for an option that was given but would change nothing: the map does not have it, or another rules."""
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
    check_gamma(options)


def check_gamma(options: MapOptions) -> None:
    """Raise InputError for both of two options that say the same thing."""
    from ..errors import InputError

    if options.gamma is not None and options.length_scale is not None:
        raise InputError(
            "--gamma and --length-scale exclude each other: gamma sets the length scale; leave one out"
        )


def whole_or_rule(text: str) -> int | str:
    """An integer where the text is one, 1e3 too, else the text."""
    try:
        return int(text)
    except ValueError:
        value = number_or_rule(text)
        return int(value) if isinstance(value, float) and value.is_integer() else text


def number_or_rule(text: str | None) -> Any:
    """A float where the text is one, else the text."""
    try:
        return None if text is None else float(text)
    except ValueError:
        return text
