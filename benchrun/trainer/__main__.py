"""Entry point of one rank. Exit code 0: all steps made; 2: the RunSpec asks for what cannot be had; 1: it failed."""

from __future__ import annotations

import argparse
import os
import sys
import traceback
from pathlib import Path

from benchrun.errors import BenchrunError
from benchrun.recipe.spec import RunSpec


def main() -> int:
    """Train one rank's part."""
    parser = argparse.ArgumentParser(prog="python -m benchrun.trainer", description=__doc__)
    parser.add_argument("--spec", type=Path, required=True, help="spec.json of the run")
    spec = RunSpec.read(parser.parse_args().spec)
    from benchrun.trainer import ranks

    ranks.prepare_process(spec)
    from benchrun.trainer.train import train

    train(spec)
    return 0


if __name__ == "__main__":
    try:
        code = main()
    except BenchrunError as error:
        print(f"error: {error}", file=sys.stderr, flush=True)  # noqa: T201
        code = error.exit_code
    except BaseException:
        print(f"rank {os.environ.get('RANK', '0')} failed:\n{traceback.format_exc()}", file=sys.stderr, flush=True)  # noqa: T201
        code = 1
    sys.stdout.flush()
    # Not sys.exit: a rank that failed must not wait at exit for ranks that wait for it.
    os._exit(code)
