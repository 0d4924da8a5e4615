"""Options and output that the verbs share."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click
from pydantic import ValidationError

from benchrun.errors import UserError
from datagen.maker import default_workers
from datagen.manifest import Manifest
from datagen.output import Progress


class Count(click.ParamType):  # type: ignore[type-arg,unused-ignore]
    """A whole number above 0, also written as 1e9."""

    name = "count"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if isinstance(value, int):
            return value
        try:
            number = int(value) if value.isdecimal() else float(value)
            whole = int(number)
        except (ValueError, OverflowError):
            self.fail(f"{value!r} is not a number, such as 1000000 or 1e9", param, ctx)
        if number != whole or whole <= 0:
            self.fail(f"{value} is not a whole number above 0", param, ctx)
        return whole


class Place(click.Path):
    """A path in UTF-8, which can be printed and written into a manifest."""

    def __init__(self, *, named: bool = False) -> None:
        """``named``: the last part must be a name, to which suffixes are appended."""
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


def count_option(name: str, help: str, **options: Any) -> Callable[..., Any]:
    """An option that takes a :class:`Count`; the help shows its default if it has one."""
    return click.option(name, type=Count(), help=help, show_default="default" in options, **options)


def choice_option(name: str, choices: list[str], default: str, help: str) -> Callable[..., Any]:
    """An option that takes one of ``choices``."""
    return click.option(name, type=click.Choice(choices), default=default, show_default=True, help=help)


def seed_option(name: str, help: str) -> Callable[..., Any]:
    """An option that takes a seed."""
    return click.option(name, type=click.IntRange(0, 2**63 - 1), default=1, show_default=True, help=help)


LENGTHS = ["fixed", "lognormal", "zipf"]
output_option = click.option("--output", type=Place(named=True), required=True, metavar="PREFIX")
workers_option = click.option(
    "--workers",
    type=click.IntRange(1, 256),
    default=default_workers,
    help="Number of processes; the bytes do not depend on it.  [default: the cores, at most 8]",
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print the manifest.")


@contextmanager
def parameter_errors() -> Iterator[None]:
    """Turn a ValidationError of parameters into a UserError that names the option."""
    try:
        yield
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
