"""What `--help` shows: the options that most users need, examples, and where the others are; all of them on demand."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from typing import Any

import typer
from typer.core import TyperCommand

from ..errors import did_you_mean
from .signatures import section
from .spelling import Options, Spelling, offering
from .usage import UsageError, flag

#: The options that `--help` shows, of commands with more than fit on a page.
USUAL: dict[str, tuple[str, ...]] = {
    "ingest": (
        "target", "columns", "sparse", "shuffle", "block_rows", "dtype", "impute", "split", "append", "overwrite",
    ),
    "plan": (
        "target", "model", "map", "n_components", "alpha", "job", "workers", "memory_limit", "cluster", "json",
    ),
    "featurize": (
        "map", "kernel", "n_components", "length_scale", "projection", "scale", "save_map", "like", "cluster", "overwrite",
    ),
    "train": (
        "target", "model", "map", "kernel", "n_components", "length_scale", "alpha", "report", "cluster", "overwrite",
    ),
    "add": (
        "target", "weight", "new_classes", "again", "strict", "report", "cluster", "memory_limit", "quiet", "json",
    ),
    "predict": (
        "keys", "probabilities", "interval", "scores", "strict", "overwrite", "cluster", "memory_limit", "quiet", "json",
    ),
    "evaluate": ("target", "weight", "by", "strict", "report", "cluster", "memory_limit", "tls", "quiet", "json"),
    "importance": ("target", "score", "columns", "n_repeats", "n_rows", "plot", "cluster", "json"),
    "compare": (
        "target", "kernel", "length_scale", "n_components", "projections", "n_draws", "n_rows", "plot", "cluster", "json",
    ),
    "tune": (
        "out", "target", "model", "map", "n_components", "length_scale", "alpha", "n_rows", "model_out", "overwrite",
    ),
}  # fmt: skip
_GROUP = "Help"  # the title above the options of this file


class HelpfulCommand(TyperCommand):
    """A command whose `--help` is one page, and whose errors name the nearest option.

    spellings : {parameter: how it is spelled}, without those of the help
    examples : command lines
    """

    spellings: Options
    examples: list[str]

    def tell(self, name: str, command: Callable[..., None], spellings: Options) -> None:
        """Take what the help shows: of a command by its name, as it is written, and its options."""
        doc = inspect.getdoc(command) or ""
        self.spellings = spellings
        self.examples = [line.strip() for line in section(doc, "Examples").splitlines() if line.strip()]
        self.usual = USUAL.get(name, ())
        self.params += _help_options(self.nouns(), bool(self.usual))

    def nouns(self) -> dict[str, list[str]]:
        """{"map" or "model": their names}, where options belong to one of them."""
        owners: dict[str, set[str]] = {}
        for spelling in self.spellings.values():
            if spelling.owners:
                owners.setdefault(spelling.noun, set()).update(spelling.owners)
        return {noun: [v for v in self.spellings[noun].values if v in names] for noun, names in owners.items()}

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, args)
        except Exception as error:
            name_near_option(error, self.get_params(ctx))
            raise

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """The page of `--help`."""
        if self.usual:
            arguments = [name for name, spelling in self.spellings.items() if spelling.is_argument]
            _write(formatter, self._sections(ctx, [*arguments, *self.usual], _titled))
        else:
            _write(formatter, self.groups(ctx))
        if self.examples:
            with formatter.section("Examples"):
                formatter.write("".join(f"  {line}\n" for line in self.examples))
        if self.usual:
            with formatter.section("More options"):
                formatter.write_dl(self._more(ctx))

    def groups(self, ctx: Any) -> dict[str, list[tuple[str, str]]]:
        """{title: (names, text) of each argument or option below it}: all of them."""
        others: list[Any] = [p for p in self.get_params(ctx) if p.name not in self.spellings]
        found = self._sections(ctx, self.spellings, lambda spelling: (spelling.panel, spelling.help))
        return found | {_GROUP: [other.get_help_record(ctx) for other in others]}

    def format_owned(self, ctx: Any, formatter: Any, noun: str, owner: str) -> None:
        """The options of one map or model, with what is said of it alone, and those of all."""
        names = [
            name
            for name, spelling in self.spellings.items()
            if owner in spelling.owners
            or (spelling.panel == noun.capitalize() and not spelling.owners and name != noun)
        ]

        def titled(spelling: Spelling) -> tuple[str, str]:
            own = f"--{noun} {owner}", spelling.owners.get(owner, "")
            return own if spelling.owners else (f"Any {noun}", spelling.text)

        ordered = sorted(names, key=lambda name: not self.spellings[name].owners)
        _write(formatter, self._sections(ctx, ordered, titled))
        if any(name.startswith("base_") and owner in self.spellings[name].owners for name in names):
            formatter.write_paragraph()
            formatter.write_text(
                f"--base names the {noun} below it, which has options of its own: --help-{noun} NAME."
            )

    def _sections(
        self, ctx: Any, names: Iterable[str], shown: Callable[[Spelling], tuple[str, str]]
    ) -> dict[str, list[tuple[str, str]]]:
        """Arguments and options by titles; `shown` gives the title and the text of one."""
        parameters = {parameter.name: parameter for parameter in self.params}
        sections: dict[str, list[tuple[str, str]]] = {}
        for name in names:
            title, text = shown(self.spellings[name])
            parameter: Any = parameters[name]
            spelled, said = parameter.get_help_record(ctx)
            # What Typer adds, such as "[required]".
            sections.setdefault(title, []).append(
                (spelled, text + said.removeprefix(self.spellings[name].help))
            )
        return sections

    def _more(self, ctx: Any) -> list[tuple[str, str]]:
        rows = [
            (f"{flag(f'help_{noun}')} NAME", f"Options of one {noun}: {', '.join(names)}.")
            for noun, names in self.nouns().items()
        ]
        titles = [s.panel.split(":")[0] for s in self.spellings.values() if not s.is_argument]
        groups = ", ".join(dict.fromkeys(titles))
        return [*rows, ("--help-all", f"All {len(titles)} options, in groups: {groups}.")]


def _titled(spelling: Spelling) -> tuple[str, str]:
    return "Arguments" if spelling.is_argument else "Options", spelling.text


def _write(formatter: Any, sections: dict[str, list[tuple[str, str]]]) -> None:
    for title, rows in sections.items():
        with formatter.section(title):
            formatter.write_dl(rows)


def name_near_option(error: Exception, parameters: Iterable[Any]) -> None:
    """Let the error about an unknown option name the nearest one alone, as our own errors do."""
    unknown = getattr(error, "option_name", None)
    if unknown is None or not hasattr(error, "possibilities"):
        return
    known = [name for parameter in parameters for name in (*parameter.opts, *parameter.secondary_opts)]
    error.possibilities = None
    error.message += did_you_mean(unknown, known)  # type: ignore[attr-defined]


def _help_options(nouns: dict[str, list[str]], more: bool) -> list[Any]:
    """The options that show help, as Typer makes them: `--help-all` where `--help` leaves any out, and one for each noun."""

    def options(**given: Any) -> None: ...

    parameters: list[tuple[str, type, Any]] = []
    for noun, names in nouns.items():
        text = f"Show the options of one {noun} and stop: {', '.join(names)}."
        option = typer.Option(
            None, flag(f"help_{noun}"), metavar="NAME", help=text, is_eager=True, expose_value=False,
            rich_help_panel=_GROUP, callback=_showing(noun, names), autocompletion=offering(tuple(names)),
        )  # fmt: skip
        parameters.append((f"help_{noun}", str, option))
    if more:
        option = typer.Option(
            False, "--help-all", help="Show every option and stop.", is_eager=True, expose_value=False,
            rich_help_panel=_GROUP, callback=_showing(None, []),
        )  # fmt: skip
        parameters.append(("help_all", bool, option))
    options.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [
            inspect.Parameter(n, inspect.Parameter.KEYWORD_ONLY, annotation=a, default=d)
            for n, a, d in parameters
        ]
    )
    options.__annotations__ = {name: annotation for name, annotation, _ in parameters}
    single = typer.Typer(add_completion=False)
    single.command()(options)
    return list(typer.main.get_command(single).params)


def _showing(noun: str | None, names: list[str]) -> Callable[..., None]:
    """What shows the options of the map or model that is named, or all of them."""

    def show(ctx: typer.Context, value: Any) -> None:
        if not value or ctx.resilient_parsing:
            return
        command: Any = ctx.command
        formatter = ctx.make_formatter()
        command.format_usage(ctx, formatter)
        if noun is None:
            command.format_help_text(ctx, formatter)
            _write(formatter, command.groups(ctx))
        elif value in names:
            command.format_owned(ctx, formatter, noun, value)
        else:
            near = did_you_mean(value, names)
            raise UsageError(f"{flag(f'help_{noun}')} is one of {', '.join(names)}, got {value!r}{near}")
        typer.echo(formatter.getvalue().rstrip("\n"))
        raise typer.Exit()

    return show
