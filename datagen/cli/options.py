"""Options and output that the verbs share."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import reduce
from pathlib import Path
from typing import Any, TypeVar, get_args

import click
from pydantic import ValidationError
from pydantic.fields import FieldInfo

from benchrun.errors import UserError
from datagen.manifest import Frozen, Manifest
from datagen.output import Progress
from datagen.workers import default_workers

Command = Callable[..., Any]
Model = TypeVar("Model", bound=Frozen)


class Count(click.ParamType):  # type: ignore[type-arg,unused-ignore]
    """A whole number, also written as 1e9."""

    name = "count"

    def __init__(self, least: int = 1) -> None:
        self._least = least

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if isinstance(value, int):
            return value
        try:
            number = int(value) if value.isdecimal() else float(value)
            whole = int(number)
        except (ValueError, OverflowError):
            self.fail(f"{value!r} is not a number, such as 1000000 or 1e9", param, ctx)
        if number != whole or whole < self._least:
            self.fail(f"{value} is not a whole number of at least {self._least}", param, ctx)
        return whole


class Place(click.Path):
    """A path in UTF-8, which can be printed and written into a manifest."""

    def __init__(self, *, named: bool = False) -> None:
        """With ``named``, the last part must be a name, to which suffixes are appended."""
        super().__init__(path_type=Path)
        self._named = named

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        path = Path(value)
        try:
            str(path).encode()
        except UnicodeEncodeError:
            self.fail(f"{str(path)!r} is not UTF-8; choose another name", param, ctx)
        if self._named and path.name in ("", ".."):
            self.fail(f"{str(value)!r} has no name; give a folder and a name, such as data/llama", param, ctx)
        return super().convert(value, param, ctx)


def parameter_options(model: type[Frozen], *skipped: str) -> Callable[[Command], Command]:
    """An option for each field of ``model`` except ``skipped``, with its description, choices and default."""
    options = [_option(name, field) for name, field in model.model_fields.items() if name not in skipped]
    return lambda command: reduce(lambda decorated, option: option(decorated), reversed(options), command)


def _option(name: str, field: FieldInfo) -> Callable[[Command], Command]:
    choices = [choice for choice in get_args(field.annotation) if isinstance(choice, str)]
    from_zero = any(getattr(limit, "ge", None) == 0 for limit in field.metadata)
    kind: Any = click.Choice(choices) if choices else Count(0 if from_zero else 1)
    if field.annotation in (bool, float):
        kind = field.annotation
    settings: dict[str, Any] = {"required": True} if field.is_required() else {}
    if not field.is_required() and field.default is not None:
        settings = {"default": field.default, "show_default": field.default is not False}
    flag = f"--{name.replace('_', '-')}"
    return click.option(flag, type=kind, is_flag=kind is bool, help=field.description, **settings)


output_option = click.option("--output", type=Place(named=True), required=True, metavar="PREFIX")
workers_option = click.option(
    "--workers",
    type=click.IntRange(1, 256),
    default=default_workers,
    help="Number of processes; the bytes do not depend on it.  [default: the cores, at most 8]",
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print the manifest.")


def parse(model: type[Model], **values: Any) -> Model:
    """The parameters from the values of the options. UserError names the option of an invalid value."""
    try:
        return model(**values)
    except ValidationError as error:
        first = error.errors()[0]
        option = f"--{str(first['loc'][0]).replace('_', '-')}: " if first["loc"] else ""
        value = f" (it is {first['input']})" if first["loc"] else ""
        raise UserError(f"{option}{first['msg'].removeprefix('Value error, ')}{value}") from error


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
    facts = (
        f"{key} {value:,}" if isinstance(value, int) else f"{key} {value}" for key, value in manifest.facts.items()
    )
    click.echo(f"{prefix}: {_human(size)} in {len(manifest.files)} files, {state}\n  {', '.join(facts)}")


@contextmanager
def _progress_bar(label: str) -> Iterator[Progress]:
    """A progress bar with rate and remaining time on a terminal; no output elsewhere."""
    if not sys.stderr.isatty():
        yield lambda done, total: None
        return
    with click.progressbar(length=1, label=label, file=sys.stderr, item_show_func=lambda rate: rate) as bar:
        start = time.monotonic()

        def progress(done: int, total: int) -> None:
            elapsed = time.monotonic() - start
            bar.length = total
            rate = f"{_human(done)} of {_human(total)}, {_human(done / max(elapsed, 1e-9))}/s"
            bar.update(done - bar.pos, rate)

        yield progress


def _human(size: float) -> str:
    """Bytes in MB or GB."""
    return f"{size / 1e9:.2f} GB" if size >= 1e8 else f"{size / 1e6:.2f} MB"
