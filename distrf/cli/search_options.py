"""The options of a search: those of training, each of which may be a list between commas."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..ridge.alphas import SEVERAL
from .estimator_options import MapOptions, ModelOptions
from .signatures import Parameter, as_number
from .spelling import Options
from .usage import UsageError, checked, flag

_SIZES, _ALPHAS = "1024,4096", "1e-8,1e-7,1e-6,1e-5,1e-4,1e-3"


class SearchedMap(MapOptions):
    """The options of the map; what has commas is searched."""

    @classmethod
    def options(cls) -> Options:
        rules = "Numbers, comma-separated, or a rule: its number times 0.35, 0.5, 0.71 ... 2.8."
        sizes = Parameter("n_components", "Numbers of random features, comma-separated.", _SIZES)
        scales = Parameter("length_scale", rules, "knn")
        return super().options() | {p.name: p.spelled("Map") for p in (sizes, scales)}

    def __init__(self, n_components: str = _SIZES, **given: Any):
        super().__init__(n_components=n_components, **given)
        self.lists = {
            name: [part.strip() for part in str(text).split(",")] for name, text in self.typed.items()
        }
        if self.map == "none" and self.typed.keys() == {"n_components"}:  # which has a default here
            self.lists = {}
        for name, parts in self.lists.items():
            if "" in parts or len(set(parts)) < len(parts):
                raise UsageError(
                    f"{flag(name)} is one value or several, comma-separated, got {self.typed[name]!r}"
                )

    def searched(self, d: int) -> tuple[Any, dict[str, Any]]:
        """The unfitted map, and {parameter: values, or a rule for its length scale}; None for no map.

        The map below another one has the size that goes with the largest of the latter.
        """
        sizes = sorted(self.lists.get("n_components", []), key=lambda text: (len(text), text))
        first = (
            {name: parts[0] for name, parts in self.lists.items()} | {"n_components": sizes[-1]}
            if sizes
            else {}
        )
        made = MapOptions(self.map, self.seed, **first).make(d)
        if made is None:
            return None, {}
        found: dict[str, Any] = {}
        for name, parts in self.lists.items():
            several = [MapOptions(self.map, self.seed, **first | {name: part}).make(d) for part in parts]
            if len(parts) > 1 or name == "n_components":
                found[self.place(name)] = [one.get_params(deep=True)[self.place(name)] for one in several]
        scale = made.scale_parameter()
        if scale is not None and scale not in found:
            value = made.get_params(deep=True)[scale]
            found[scale] = value if isinstance(value, str) else [value]
        return made, found

    def found(self, made: Any, best: Mapping[str, Any]) -> dict[str, Any]:
        """{option: value} of `train` for the winner: its parameters, and the size of the map below."""
        options = {self.place(name): name for name in type(self).options() if name in self.lists}
        size = made.get_params(deep=True).get("base__n_components")
        below = {} if size is None else {"base_n_components": size}
        return below | {options.get(place, place.rpartition("__")[2]): value for place, value in best.items()}


class SearchedModel(ModelOptions):
    """The options of the model; several penalties for every kind."""

    @classmethod
    def options(cls) -> Options:
        return super().options() | {
            "alpha": Parameter("alpha", "Penalties, comma-separated.", _ALPHAS).spelled("Model")
        }

    def __init__(self, alpha: str = _ALPHAS, **given: Any):
        super().__init__(alpha=alpha, **given)

    @property
    def alphas(self) -> list[float]:
        """The penalties. Raises UsageError for what is no number."""
        found = [as_number(part) for part in self.typed["alpha"].split(",")]
        checked(lambda: SEVERAL.check("alpha", found))
        return found

    @property
    def first(self) -> ModelOptions:
        """The options with the first penalty."""
        return ModelOptions(self.model, **self.typed | {"alpha": str(self.alphas[0])})
