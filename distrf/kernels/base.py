"""What every kernel says of itself: its name, its parameters, its spec. And the registry of names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, asdict, dataclass, field, fields
from typing import Any, ClassVar, TypeVar, cast

import numpy as np

from ..errors import InputError
from ..parameters import Rule
from ..typing import Rows

#: Every kernel that a name or a spec can mean, of all families.
REGISTRY: dict[str, type[AnyKernel]] = {}
_ANYTHING = Rule(("anything",), lambda value: True)
K = TypeVar("K", bound="AnyKernel")
T = TypeVar("T")


@dataclass(frozen=True)
class KernelParameter:
    """A parameter of a kernel's own, as the kernel's class declares it.

    Attributes
    ----------
    name : str, the field of the class, and the key in specs
    default : the value where none is given
    type : type of the default
    rule : Rule, the values that are allowed, in words and as a test
    help : str, one line for a person
    """

    name: str
    default: Any
    rule: Rule
    help: str

    @property
    def type(self) -> type:
        return type(self.default)


def declared(default: T, rule: Rule, help: str) -> T:
    """A field of a kernel's class: a parameter with its default, its rule and a line of help."""
    made: T = field(default=default, metadata={"rule": rule, "help": help})
    return made


@dataclass(frozen=True)
class AnyKernel:
    """Base of all kernels. A kernel is a frozen dataclass whose fields are its parameters.

    A family is a subclass with a registry of its own; a kernel is a subclass of a family, made known by
    `register_kernel`.

    Attributes
    ----------
    name : str, key in the registry and in specs
    registry : the kernels of the family by name
    family : str, the family in words that stand before "kernel"
    exact_from : "products", "squares" or "differences": what the exact values of a block come from, see
        `distrf.kernels.exact.kernel_block`
    """

    name: ClassVar[str]
    registry: ClassVar[dict[str, Any]]
    family: ClassVar[str]

    def __post_init__(self) -> None:
        for p in self.parameters():
            p.rule.check(p.name, getattr(self, p.name))

    @property
    def exact_from(self) -> str:
        return "differences"

    @classmethod
    def parameters(cls) -> tuple[KernelParameter, ...]:
        """The parameters of the kernel's own, in the order of its fields."""
        return tuple(
            KernelParameter(f.name, f.default, f.metadata.get("rule", _ANYTHING), f.metadata.get("help", ""))
            for f in fields(cls)
        )

    def __call__(self, X: np.ndarray, Y: np.ndarray | None = None, length_scale: float = 1.0) -> np.ndarray:
        """Exact kernel matrix, entry by entry.

        Parameters
        ----------
        X : array of shape (n, d)
        Y : array of shape (m, d); None takes X
        length_scale : l of a shift-invariant kernel; no other family has one

        Returns
        -------
        Array of shape (n, m), float64.
        """
        raise NotImplementedError

    def of_products(self, t: np.ndarray) -> np.ndarray:
        """The kernel where x.y = t, elementwise, float64; of kernels whose `exact_from` is "products"."""
        raise NotImplementedError

    def of_squares(self, squares: np.ndarray, length_scale: float) -> np.ndarray:
        """The kernel where |x - y|^2 = squares, elementwise, float64; of kernels whose `exact_from` is "squares".

        squares : float64, overwritten; rounding may have made them negative
        """
        raise NotImplementedError

    def diagonal(self, X: Rows) -> np.ndarray:
        """k(x, x) of each row of an array or CSR matrix of shape (n, d): shape (n,), float64."""
        raise NotImplementedError

    def check_rows(self, X: Rows) -> None:
        """Raise InputError for an array or CSR matrix of rows on which the kernel is not defined."""

    def spec(self) -> dict[str, Any]:
        """The JSON of the kernel. Raises InputError for one that no spec can name, since it could not be loaded."""
        if self.registry.get(self.name) is not type(self):
            raise InputError(
                f"the kernel {type(self).__name__}, named {self.name!r}, is not one of "
                f"{', '.join(sorted(self.registry))}: what is saved with it could not be loaded; make it known by "
                "distrf.kernels.register_kernel, also where it is loaded, or fit and transform without saving"
            )
        return {"name": self.name, **asdict(self)}


def register_kernel(kernel: type[K]) -> type[K]:
    """Make a kernel known by its name, as a decorator of its class: to estimators, specs and saved models.

    A program that loads what was saved with the kernel must register it first.

    Parameters
    ----------
    kernel : frozen dataclass, a subclass of `Kernel`, `SemigroupKernel` or `DotProductKernel`

    Returns
    -------
    The class.

    Raises
    ------
    InputError : another kernel has the name; a parameter has no default, so that the name alone means no kernel
    """
    if bare := [p.name for p in kernel.parameters() if p.default is MISSING]:
        raise InputError(
            f"the parameters {bare} of the kernel {kernel.name!r} have no default, so its name alone means no kernel; "
            "give them one"
        )
    known = REGISTRY.get(kernel.name)
    # The same class again is a notebook's cell that ran twice.
    if known and (known.__module__, known.__qualname__) != (kernel.__module__, kernel.__qualname__):
        raise InputError(
            f"the name {kernel.name!r} is that of the kernel {known.__module__}.{known.__qualname__}; choose another"
        )
    REGISTRY[kernel.name] = kernel.registry[kernel.name] = kernel
    return kernel


def parameter_rule(name: str) -> Rule:
    """What the registered kernels allow for their parameter of that name: the rule of an estimator's keyword."""

    def rules() -> list[Rule]:
        return [p.rule for kernel in REGISTRY.values() for p in kernel.parameters() if p.name == name]

    return Rule(
        lambda: tuple(dict.fromkeys(words for rule in rules() for words in rule.said())),
        lambda value: any(rule.allows(value) for rule in rules()),
    )


def find_kernel(kernel: Any, family: type[K], parameters: dict[str, Any]) -> K:
    """A kernel of a family from its name, its spec or itself; `parameters` go with a name.

    Raises InputError for a name that the family does not know and for parameters that the kernel has not.
    """
    if isinstance(kernel, family):
        return kernel
    if isinstance(kernel, dict):
        parameters = {k: v for k, v in kernel.items() if k != "name"}
        kernel = kernel.get("name", "")
    known = REGISTRY if family is AnyKernel else family.registry
    words = "" if family is AnyKernel else family.family
    if not isinstance(kernel, str) or kernel not in known:
        raise InputError(
            f"unknown {words}kernel {kernel!r}; known: {', '.join(sorted(known))}, or a kernel object"
        )
    cls = known[kernel]
    takes = [p.name for p in cls.parameters()]
    if unknown := sorted(set(parameters) - set(takes)):
        raise InputError(
            f"kernel {kernel!r} does not take the parameters {unknown}; it takes {', '.join(takes) or 'none'}"
        )
    return cast(K, cls(**parameters))


def kernel_with(kernel: Any, given: Mapping[str, Any], family: type[K] = AnyKernel) -> K:  # type: ignore[assignment]
    """A kernel of a family, by name with those of the given values that are parameters of its own.

    Parameters
    ----------
    kernel : str, a name; or a kernel or a spec, which bring their own parameters
    given : values by name, such as all parameters of an estimator
    family : the class whose kernels are meant; all by default

    Raises
    ------
    InputError : a name that the family does not know, a value that breaks its rule
    """
    found = REGISTRY.get(kernel) if isinstance(kernel, str) else None
    own = {p.name for p in found.parameters()} if found else set()
    return find_kernel(kernel, family, {k: v for k, v in given.items() if k in own})
