"""The start and end of one rank. Exit code 0: all steps; 2: wrong input; 1: failure."""

from __future__ import annotations

import argparse
import os
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

from pydantic import ValidationError

from benchrun.errors import BenchrunError, UserError
from benchrun.spec.runspec import TrainingSpec
from benchrun.trainer import ranks

Train = Callable[[TrainingSpec], None]


def run(load: Callable[[TrainingSpec], Train], install: str) -> NoReturn:
    """Train as one rank and end the process. ``load`` imports the packages; ``install`` is the hint where one lacks."""
    parser = argparse.ArgumentParser(description="Train as one rank.")
    parser.add_argument("--spec", type=Path, required=True, help="spec.json of the run")
    path, code = parser.parse_args().spec, 0
    try:
        _train(path, load, install)
    except BenchrunError as error:
        print(f"error: {error}", file=sys.stderr, flush=True)  # noqa: T201
        code = error.exit_code
    except BaseException:  # a library's sys.exit(0) too: not all steps are done
        print(f"rank {os.environ.get('RANK', '0')} failed:\n{traceback.format_exc()}", file=sys.stderr, flush=True)  # noqa: T201
        code = 1
    sys.stdout.flush()
    # Not sys.exit, which would wait for ranks that wait for this one.
    os._exit(code)


def _train(path: Path, load: Callable[[TrainingSpec], Train], install: str) -> None:
    spec = _read(path)
    ranks.prepare_process(spec)
    try:
        train = load(spec)
    except ImportError as error:
        raise UserError(f"framework {spec.framework}: {error}", hint=install) from error
    ranks.refuse_without_gpu(spec)
    train(spec)
    ranks.leave()


def _read(path: Path) -> TrainingSpec:
    try:
        return TrainingSpec.read(path)
    except OSError as error:
        raise UserError(f"cannot be read: {error.strerror}", where=str(path)) from None
    except ValidationError as error:
        first = error.errors()[0]
        what = ".".join(map(str, first["loc"])) or "the file"
        hint = "it was written by another version, or changed by hand; render it again"
        raise UserError(f"not a RunSpec: {what}: {first['msg']}", where=str(path), hint=hint) from None
