"""Options and talk that the verbs share."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click
from pydantic import ValidationError

from benchrun.errors import UserError
from datagen.maker import Progress, default_workers
from datagen.manifest import Manifest


class Count(click.ParamType):  # type: ignore[type-arg,unused-ignore]
    """A whole number, also as 1e9."""

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
    """A path that can be printed, and written into a manifest."""

    def __init__(self, *, named: bool = False) -> None:
        """``named``: its last part is a name, to which suffixes are put."""
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


output_option = click.option("--output", type=Place(named=True), required=True, metavar="PREFIX")
seed_option = click.option("--seed", type=click.IntRange(0, 2**63 - 1), default=1, show_default=True)
workers_option = click.option(
    "--workers",
    type=click.IntRange(1, 256),
    default=default_workers,
    help="Processes; the bytes do not depend on it.  [default: the cores, at most 8]",
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print the manifest.")


@contextmanager
def parameter_errors() -> Iterator[None]:
    """A value that the model of the parameters refuses is an error of its option."""
    try:
        yield
    except ValidationError as error:
        first = error.errors()[0]
        option = f"--{str(first['loc'][0]).replace('_', '-')}: " if first["loc"] else ""
        given = f" (it is {first['input']})" if first["loc"] else ""
        raise UserError(f"{option}{first['msg'].removeprefix('Value error, ')}{given}") from error


@contextmanager
def progress_bar(label: str) -> Iterator[Progress]:
    """On a terminal, how far it is, how fast, and how much longer; nothing in a log."""
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


def say_made(prefix: Path, manifest: Manifest, new: bool, seconds: float, *, as_json: bool) -> None:
    """What there is now: the manifest, or a line or two for a person."""
    if as_json:
        click.echo(json.dumps(manifest.model_dump(mode="json"), indent=1))
        return
    size = sum(file.bytes for file in manifest.files)
    what = ", ".join(
        f"{key} {value:,}" if isinstance(value, int) else f"{key} {value}" for key, value in manifest.facts.items()
    )
    how = f"made in {seconds:.1f} s, {_human(size / seconds)}/s" if new else "was there already"
    click.echo(f"{prefix}: {_human(size)} in {len(manifest.files)} files, {how}")
    click.echo(f"  {what}")


def _human(size: float) -> str:
    """Bytes as MB or GB."""
    return f"{size / 1e9:.2f} GB" if size >= 1e8 else f"{size / 1e6:.2f} MB"
