"""Options that verbs share, and the printing of what they made."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar, get_args

import click
from pydantic import ValidationError
from pydantic.fields import FieldInfo

from benchrun.errors import UserError
from datagen.manifest import Frozen, Manifest
from datagen.output import Progress

Command = Callable[..., Any]
Model = TypeVar("Model", bound=Frozen)


class Count(click.ParamType):  # type: ignore[type-arg,unused-ignore]
    """A whole number, also written as 1e9; the models of the parameters have the limits."""

    name = "count"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        try:
            number = int(value) if str(value).isdecimal() else float(value)
            if number == int(number):
                return int(number)
        except (ValueError, OverflowError):
            pass
        return self.fail(f"{value!r} is not a whole number, such as 1000000 or 1e9", param, ctx)


def parameter_options(model: type[Frozen], *skipped: str) -> Callable[[Command], Command]:
    """An option for each field of ``model`` except ``skipped``, with its description, choices and default."""

    def decorate(command: Command) -> Command:
        for name, field in reversed(model.model_fields.items()):
            if name not in skipped:
                command = _option(name, field)(command)
        return command

    return decorate


def _option(name: str, field: FieldInfo) -> Callable[[Command], Command]:
    choices = [choice for choice in get_args(field.annotation) if isinstance(choice, str)]
    kind: Any = click.Choice(choices) if choices else Count()
    if field.annotation in (bool, float):
        kind = field.annotation
    settings: dict[str, Any] = {"required": True} if field.is_required() else {}
    if not field.is_required() and field.default is not None:
        settings = {"default": field.default, "show_default": field.default is not False}
    flag = f"--{name.replace('_', '-')}"
    return click.option(flag, type=kind, is_flag=kind is bool, help=field.description, **settings)


def _cores() -> int:
    """The number of cores that this process may use, at most eight: more would wait for the disk."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(cores, 8)


def _prefix(ctx: click.Context, param: click.Parameter, path: Path) -> Path:
    """``path``, if its last part is a name to which suffixes can be appended, in UTF-8 as a manifest must be."""
    try:
        str(path).encode()
    except UnicodeEncodeError as error:
        raise click.BadParameter(f"{str(path)!r} is not UTF-8; choose another name") from error
    if path.name in ("", ".."):
        raise click.BadParameter(f"{str(path)!r} has no name; give a folder and a name, such as data/llama")
    return path


PATH = click.Path(path_type=Path)
output_option = click.option("--output", type=PATH, callback=_prefix, required=True, metavar="PREFIX")
workers_option = click.option(
    "--workers",
    type=click.IntRange(1, 256),
    default=_cores,
    help="Number of processes; the bytes do not depend on it.  [default: the cores, at most 8]",
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print the manifest.")


def parse(model: type[Model], **values: Any) -> Model:
    """The parameters from the values of the options. UserError names the option of an invalid value."""
    try:
        return model(**values)
    except ValidationError as error:
        first = error.errors()[0]
        message = first["msg"].removeprefix("Value error, ")
        if first["loc"]:
            message = f"--{str(first['loc'][0]).replace('_', '-')}: {message} (it is {first['input']})"
        raise UserError(message) from error


def make_and_print(prefix: Path, make: Callable[[Progress], tuple[Manifest, bool]], *, as_json: bool) -> None:
    """Call ``make`` with a progress bar, then print the manifest, or a summary of two lines."""
    start = time.perf_counter()
    with _progress_bar(prefix.name) as progress:
        manifest, new = make(progress)
    seconds = time.perf_counter() - start
    if as_json:
        click.echo(json.dumps(manifest.model_dump(mode="json"), indent=1))
        return
    size = sum(file.bytes for file in manifest.files)
    state = f"made in {seconds:.1f} s, {_human(size / seconds)}/s" if new else "was there already"
    facts = ((name, f"{fact:,}" if isinstance(fact, int) else fact) for name, fact in manifest.facts.items())
    listed = ", ".join(f"{name} {fact}" for name, fact in facts)
    click.echo(f"{prefix}: {_human(size)} in {len(manifest.files)} files, {state}\n  {listed}")


@contextmanager
def _progress_bar(label: str) -> Iterator[Progress]:
    """A progress bar with rate and remaining time on a terminal; no output elsewhere."""
    if not sys.stderr.isatty():
        yield lambda done, total: None
        return
    with click.progressbar(length=1, label=label, file=sys.stderr, item_show_func=lambda rate: rate) as bar:
        start = time.monotonic()

        def progress(done: int, total: int) -> None:
            bar.length = total
            rate = f"{_human(done)} of {_human(total)}, {_human(done / max(time.monotonic() - start, 1e-9))}/s"
            bar.update(done - bar.pos, rate)

        yield progress


def _human(size: float) -> str:
    """Bytes in MB or GB."""
    return f"{size / 1e9:.2f} GB" if size >= 1e8 else f"{size / 1e6:.2f} MB"
