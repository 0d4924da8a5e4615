"""The start and end of one rank. Exit code 0: all steps; 2: wrong input; 1: failure."""

from __future__ import annotations

import argparse
import os
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn

from pydantic import ValidationError

from benchrun.errors import BenchrunError, UserError
from benchrun.spec.runspec import TrainingSpec


def run(module: str, about: str | None, train: Callable[[TrainingSpec], None]) -> NoReturn:
    """The command ``python -m module --spec spec.json``: train as one rank and end the process."""
    parser = argparse.ArgumentParser(prog=f"python -m {module}", description=about)
    parser.add_argument("--spec", type=Path, required=True, help="spec.json of the run")
    code = _attempt(parser.parse_args().spec, train)
    sys.stdout.flush()
    # Not sys.exit, which would wait for ranks that wait for this one.
    os._exit(code)


def _attempt(spec: Path, train: Callable[[TrainingSpec], None]) -> int:
    """The exit code; 1 also where a library calls sys.exit with any code, because not all steps are done."""
    try:
        train(_read(spec))
    except BenchrunError as error:
        print(f"error: {error}", file=sys.stderr, flush=True)  # noqa: T201
        return error.exit_code
    except BaseException:
        print(f"rank {os.environ.get('RANK', '0')} failed:\n{traceback.format_exc()}", file=sys.stderr, flush=True)  # noqa: T201
        return 1
    return 0


@contextmanager
def packages(spec: TrainingSpec, hint: str) -> Iterator[None]:
    """Turn an ImportError inside into a UserError that names the missing package."""
    try:
        yield
    except ImportError as error:
        raise UserError(f"framework {spec.framework}: {error}", hint=hint) from error


def _read(path: Path) -> TrainingSpec:
    try:
        return TrainingSpec.read(path)
    except OSError as error:
        raise UserError(f"cannot be read: {error.strerror}", where=str(path)) from None
    except ValidationError as error:
        first = error.errors()[0]
        what = ".".join(map(str, first["loc"])) or "the file"
        hint = "it was written by another version, or changed by hand; render it again"
        raise UserError(f"not a TrainingSpec: {what}: {first['msg']}", where=str(path), hint=hint) from None
