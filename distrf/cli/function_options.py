"""The arguments and options of commands that call a public function: those of its signature, with its texts."""

from __future__ import annotations

import importlib
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, ClassVar

from .signatures import Parameter, Typed, as_number, outline, parameters_of, read
from .spelling import Options
from .usage import UsageError, checked, flag

if TYPE_CHECKING:
    from ..pipeline.inputs import Input


class FunctionOptions(Typed):
    """What the command line says to a public function: places of data without a name, and options.

    places : {parameter: path} of those that are positional
    values : {parameter: value} of the options that were typed

    Raises UsageError for a value that breaks a rule of the function.
    """

    #: "module:name" of the function, and its parameters that stand here; None for all but those left out.
    function: ClassVar[str]
    only: ClassVar[tuple[str, ...] | None] = None
    left_out: ClassVar[tuple[str, ...]] = ()
    #: The title above its options in the help.
    panel: ClassVar[str] = "Options"

    def __init__(self, **given: Any):
        super().__init__(**given)
        module, name = self.function.split(":")
        self._called = getattr(importlib.import_module(module), name)
        rules = getattr(self._called, "parameter_rules", {})
        found = self.parameters()
        self.places = {name: place for name, place in self.typed.items() if found[name].positional}
        self.values = {
            name: _value(found[name], given, rules.get(name))
            for name, given in self.typed.items()
            if name not in self.places
        }

    def call(self, *places: Any, **more: Any) -> Any:
        """Call the function with the options that were typed."""
        return self._called(*places, **self.values, **more)

    @classmethod
    def parameters(cls) -> dict[str, Parameter]:
        """{option: parameter}."""
        found = parameters_of(outline(cls.function))
        return {name: found[name] for name in cls.only or found if name not in cls.left_out}

    @classmethod
    def options(cls) -> Options:
        return {name: parameter.spelled(cls.panel) for name, parameter in cls.parameters().items()}


class CsvOptions(FunctionOptions):
    """How CSV is read, of every command that reads rows at a place."""

    function = "distrf.store.csv_format:csv_format"
    panel = "CSV"

    def reading(self) -> AbstractContextManager[None]:
        """Around a command whose CSV is read so."""
        from ..store.csv_format import reading

        return reading(checked(self.call))


class ReadOptions(FunctionOptions):
    """How rows of a store or of Parquet are read."""

    function = "distrf.execution.open_rows:open_rows"
    only: ClassVar[tuple[str, ...]] = ("target", "columns", "impute", "strict")
    panel = "Rows"

    def open(self, X: str, *, plan: bool = False, split: SplitOptions | None = None) -> Input:
        """The rows at a path; for a plan, an imputation rule is not computed."""
        from ..pipeline.inputs import open_input

        return open_input(X, **self.values, plan=plan, **({} if split is None else split.values))


class TrainingReadOptions(ReadOptions):
    """How rows to train on are read: with weights."""

    only = ("target", "weight", *ReadOptions.only[1:])


class SplitOptions(FunctionOptions):
    """How rows are held out."""

    function = "distrf.pipeline.training:train"
    only = ("split", "by")
    panel = "Held-out rows"

    def __init__(self, **given: Any):
        super().__init__(**given)
        from ..splits import check_split

        checked(lambda: check_split(self.kind, self.values.get("by")))

    @property
    def kind(self) -> str:
        """The split, "random" unless another one was typed."""
        return str(self.values.get("split", "random"))

    @property
    def asked(self) -> dict[str, Any]:
        """The split as a job notes it; empty for that at random."""
        return {} if self.kind == "random" else {"split": dict(self.values)}

    def column(self, data: Input) -> dict[str, Any]:
        """The column by which rows are split, its name, and whether it holds dates."""
        if "by" not in self.values:
            return {}
        name = self.values["by"]
        values, dates = data.by_column(name, self.kind)
        return {"by": values, "name": name, "dates": dates}


class TableOptions(FunctionOptions):
    """What the columns of a table are, where that is not to be guessed."""

    function = "distrf.pipeline.tables:coded_table"
    only = ("exclude", "categorical", "numeric", "date", "id", "drop_missing_target")
    panel = "Columns of a table"

    def open(
        self,
        X: str,
        rows: TrainingReadOptions,
        numbers: bool,
        *,
        plan: bool = False,
        split: SplitOptions | None = None,
    ) -> Input:
        """The rows of a training: a table, unless its columns are to be numbers.

        numbers : whether a scaling, or a map that takes no encoded columns, is asked for
        """
        from ..pipeline.tables import is_table_path, table_input

        if not is_table_path(X) or numbers or "impute" in rows.values:
            if self.values:
                raise UsageError(
                    f"{', '.join(map(flag, self.values))}: for Parquet and CSV whose columns are encoded, without --scale, "
                    "--impute and maps of nonnegative rows"
                )
            return rows.open(X, plan=plan, split=split)
        reading = {name: value for name, value in rows.values.items() if name != "strict"}
        return table_input(X, **reading, **self.values, **({} if split is None else split.values))


def _value(parameter: Parameter, given: Any, rule: Any) -> Any:
    """The value that a text stands for, by the rule of the parameter or as it is annotated."""
    if isinstance(given, list):  # of names
        checked(lambda: rule is None or rule.check(parameter.name, given))
        return given
    if rule is None or not isinstance(given, str):
        return as_number(given) if "float" in parameter.annotation else given
    value = read(given, rule)
    checked(lambda: rule.check(parameter.name, value))
    return value
