"""The base class of all kernels (name, parameters, spec, exact values) and the registry of their names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, asdict, dataclass, fields
from typing import Any, ClassVar, TypeVar, cast

import numpy as np
import scipy.sparse as sp

from ..errors import InputError, did_you_mean
from ..parameters import Rule, check_fields
from ..typing import Rows

#: The registered kernels of all families, by name.
REGISTRY: dict[str, type[AnyKernel]] = {}
_ANYTHING = Rule(("anything",), lambda value: True)
K = TypeVar("K", bound="AnyKernel")


@dataclass(frozen=True)
class AnyKernel:
    """Base of all kernels. A kernel is a frozen dataclass whose fields are its parameters, declared by `param(default=..., rule=..., kw_only=False)`.

    A family (shift-invariant, semigroup, dot-product) is a subclass with a registry of its own. A kernel is a subclass
    of a family; `register_kernel` enters its name.

    Attributes
    ----------
    name : str, key in the registry and in specs
    registry : the kernels of the family by name
    family : str, the family in the words of messages, before the word "kernel"
    """

    name: ClassVar[str]
    registry: ClassVar[dict[str, Any]]
    family: ClassVar[str]

    def __post_init__(self) -> None:
        check_fields(self)

    @classmethod
    def rules(cls) -> dict[str, Rule]:
        """What each parameter of the kernel may be, in the order of its fields."""
        return {one.name: one.metadata.get("rule", _ANYTHING) for one in fields(cls)}

    def __call__(self, X: Rows, Y: Rows | None = None, length_scale: float = 1.0) -> np.ndarray:
        """Exact kernel matrix, entry by entry.

        Parameters
        ----------
        X : array or sparse matrix of shape (n, d)
        Y : array or sparse matrix of shape (m, d); None takes X
        length_scale : l of a shift-invariant kernel; no other family has one

        Returns
        -------
        Array of shape (n, m), float64.
        """
        X = as_float64(X)
        return self._matrix(X, X if Y is None else as_float64(Y), length_scale)

    def _matrix(self, X: np.ndarray, Y: np.ndarray, length_scale: float) -> np.ndarray:
        """The kernel matrix of float64 rows, float64."""
        raise NotImplementedError

    def check_rows(self, X: Rows) -> None:
        """Raise InputError for an array or CSR matrix of rows on which the kernel is not defined."""

    def spec(self) -> dict[str, Any]:
        """The JSON of the kernel. Raises InputError for a kernel that is not registered: it could not be loaded."""
        if self.registry.get(self.name) is not type(self):
            raise InputError(
                f"the kernel {type(self).__name__}, named {self.name!r}, is not one of "
                f"{', '.join(sorted(self.registry))}: what is saved with it could not be loaded; make it known by "
                "distrf.kernels.register_kernel, also where it is loaded, or fit and transform without saving"
            )
        return {"name": self.name, **asdict(self)}


def as_float64(X: Any) -> np.ndarray:
    """Rows, CSR or not, as an array of float64."""
    return np.asarray(X.toarray() if sp.issparse(X) else X, dtype=np.float64)


def register_kernel(kernel: type[K]) -> type[K]:
    """Register a kernel by its name, so that estimators, specs and saved models can name it; a class decorator.

    A program that loads a model with the kernel must register it first.

    Parameters
    ----------
    kernel : frozen dataclass, a subclass of `Kernel`, `SemigroupKernel` or `DotProductKernel`

    Returns
    -------
    The class.

    Raises
    ------
    InputError : another kernel has the name; or a parameter has no default, so that the name alone is not a kernel
    """
    if bare := [one.name for one in fields(kernel) if one.default is MISSING]:
        raise InputError(
            f"the parameters {bare} of the kernel {kernel.name!r} have no default, so its name alone means no kernel; "
            "give them one"
        )
    known = REGISTRY.get(kernel.name)
    # A class of the same module and name may be registered again: a notebook's cell ran twice.
    if known and (known.__module__, known.__qualname__) != (kernel.__module__, kernel.__qualname__):
        raise InputError(
            f"the name {kernel.name!r} is that of the kernel {known.__module__}.{known.__qualname__}; choose another"
        )
    REGISTRY[kernel.name] = kernel.registry[kernel.name] = kernel
    return kernel


def parameter_rule(name: str) -> Rule:
    """The rule of an estimator's parameter that is passed to its kernel: a value that some kernel allows for it."""

    def rules() -> list[Rule]:
        return [kernel.rules()[name] for kernel in REGISTRY.values() if name in kernel.rules()]

    return Rule(
        lambda: tuple(dict.fromkeys(words for rule in rules() for words in rule.texts())),
        lambda value: any(rule.allows(value) for rule in rules()),
    )


def get_kernel(kernel: Any, family: type[K] = AnyKernel, values: Mapping[str, Any] | None = None) -> K:  # type: ignore[assignment]
    """A kernel of a family, any by default: itself, from its spec, or from its name.

    Parameters
    ----------
    kernel : str, a name; or a kernel or a spec, which already have their parameters
    family : the family of the kernel
    values : numbers by name, such as all parameters of an estimator; those that the kernel of a name does not have are ignored

    Raises
    ------
    InputError : a name that the family does not know, a spec with parameters that the kernel does not have, a value that breaks its rule
    """
    if isinstance(kernel, family):
        return kernel
    given = dict(kernel) if isinstance(kernel, dict) else {"name": kernel}
    name, known = given.pop("name", ""), REGISTRY if family is AnyKernel else family.registry
    if not isinstance(name, str) or name not in known:
        words = "" if family is AnyKernel else family.family
        raise InputError(
            f"unknown {words}kernel {name!r}{did_you_mean(name, known)}; known: {', '.join(sorted(known))}, or a kernel object"
        )
    takes = known[name].rules()
    if unknown := sorted(set(given) - set(takes)):
        raise InputError(
            f"kernel {name!r} does not take the parameters {unknown}; it takes {', '.join(takes) or 'none'}"
        )
    return cast(K, known[name](**{k: v for k, v in (values or {}).items() if k in takes} | given))
