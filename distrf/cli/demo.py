"""The demonstration: what it says of itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .function_options import FunctionOptions
from .options import RunOptions
from .session import Session

if TYPE_CHECKING:
    from rich.console import Console


class DemoOptions(FunctionOptions):
    """The options of `distrf.datasets.demo.demo`."""

    function = "distrf.datasets.demo:demo"
    left_out = ("say",)


def demo(given: DemoOptions, *, run: RunOptions) -> None:
    """Train on scikit-learn's digits, expanded by small distortions. No network, no server.

    Examples
    --------
    distrf demo
    """
    from ..datasets.demo import check_places

    session = Session(run)
    check_places(given.values.get("out", "distrf-demo"))
    with session.connected():
        result = given.call(say=session.say)
    session.finish(result, lambda console: _report(console, result))


def _report(console: Console, result: dict[str, Any]) -> None:
    from dask.utils import format_bytes

    from .reports import print_facts

    kernel = f"{result['accuracy_kernel']:.4f}  ({result['test_rows']} untouched digits)"
    facts = {
        "rows": f"{result['rows']:,}",
        "training": f"{result['train_seconds']} s, {result['rows_per_second']:,} rows/s",
        "peak memory per worker": ", ".join(map(format_bytes, result["peak_bytes_per_worker"].values())),
        "test accuracy, linear": f"{result['accuracy_linear']:.4f}",
        "test accuracy, kernel": kernel,
    }
    written = [("written", f"{path}, {format_bytes(size)}") for path, size in result["files"].items()]
    print_facts(console, "distrf demo", [*facts.items(), *written])
