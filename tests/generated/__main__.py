"""`python -m tests.generated --logs 50000 --seed 1`: check many generated logs, print what occurred."""

import argparse
import os
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from .bulk import Tally, check, dumped, loaded, run_apart, smallest
from .forms import ALL
from .served import FORMS as SERVERS
from .served import served_log
from .truth import PRECISIONS
from .wrap import WRAPPERS
from .write import log

LEAST = 200
"""How often each dialect, wrapper, precision and server has to occur in a full run."""
FULL = 50_000
"""Logs of a full run."""


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.generated", description=__doc__)
    parser.add_argument("--logs", type=int, default=1000, help="how many logs")
    parser.add_argument("--seed", type=int, default=1, help="which logs")
    parser.add_argument("--processes", type=int, default=os.cpu_count(), help="at a time")
    parser.add_argument("--form", choices=sorted(ALL), help="one dialect alone")
    parser.add_argument("--output", type=Path, default=Path("build/generated"), help="failing logs")
    parser.add_argument("--replay", type=Path, help="a truth (.json) that failed")
    return parser.parse_args()


def _replay(path: Path) -> int:
    truth = loaded(path.read_text())
    with tempfile.TemporaryDirectory() as name:
        found = check(truth, Path(name))
    for finding in found:
        _say(f"{finding.kind}: truth {finding.truth}, benchrun says {finding.said}")
    return 1 if found else 0


def _coverage(tally: Tally) -> list[str]:
    """Print how often each name occurred; the names that occurred too rarely."""
    wanted = {"dialect": ALL, "wrapper": WRAPPERS, "precision": PRECISIONS, "server": SERVERS}
    too_rare = []
    for kind, names in wanted.items():
        counter = tally.occurred.get(kind, Counter())
        rare = [name for name in names if counter[name] < LEAST]
        words = ", ".join(f"{name} {counter[name]}" for name in sorted(names))
        _say(f"{kind}: {words}" + (f"; fewer than {LEAST}: {', '.join(rare)}" if rare else ""))
        too_rare += rare
    return too_rare


def _write(tally: Tally, folder: Path) -> None:
    """The smallest failing log of each kind, with its truth and how to replay it."""
    folder.mkdir(parents=True, exist_ok=True)
    for kind, failed in tally.servers.items():
        served, finding = failed[0]
        place = folder / f"{served.form}-{served.seed}.log"
        place.write_bytes(served_log(served))
        _say(f"{len(failed):5d} x {kind}: truth {finding.truth}, benchrun says {finding.said[:160]}; {place}")
    ranked = sorted(tally.failures.items(), key=lambda item: -len(item[1]))
    for number, ((family, kind), cases) in enumerate(ranked):
        with tempfile.TemporaryDirectory() as name:
            truth = smallest(cases[0][0], kind, Path(name))
        place = folder / f"{number:02d}.json"
        place.write_text(dumped(truth))
        place.with_suffix(".log").write_bytes(log(truth))
        finding = cases[0][1]
        said = finding.said.replace("\n", " ")[:160]
        _say(f"{len(cases):5d} x {family}: {kind}: truth {finding.truth}, benchrun says {said}")
        _say(f"        python -m tests.generated --replay {place}")


def main() -> int:
    given = _arguments()
    if given.replay:
        return _replay(given.replay)
    start = time.perf_counter()
    tally = run_apart(given.logs, given.seed, given.form, given.processes)
    seconds = time.perf_counter() - start
    _say(f"{tally.logs} logs in {seconds:.0f} s, {1000 * seconds / tally.logs:.1f} ms a log")
    too_rare = _coverage(tally)
    _write(tally, given.output)
    short = given.form is None and given.logs >= FULL and too_rare
    return 1 if tally.failures or tally.servers or short else 0


if __name__ == "__main__":
    sys.exit(main())
