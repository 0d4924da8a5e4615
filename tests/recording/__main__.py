"""Record what every verb answers; list what differs from another recording.

DIR is new: the command line of this checkout is recorded there. With --against it answers the calls
of OTHER on the inputs of OTHER, and the differences are listed; where DIR is a recording already,
the two are only compared. Exit code 1 where anything differs. With --more the calls of this
checkout that the recording DIR lacks are answered on its inputs and added.
"""

import argparse
import json
import shutil
import sys
import time
from collections import Counter
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from .calls import all_calls
from .differences import Difference, between, pattern
from .inputs import copy_inputs
from .options import unused_options
from .recording import ABOUT, INPUTS, Argv, commit, record, recorded_calls, verb_of, write

WIDTH = 160
"""Characters of a value that are printed."""


def main(argv: list[str] | None = None) -> int:
    """Record, compare, or both; the exit code."""
    given = _arguments(argv)
    if given.more or not (given.folder / ABOUT).exists():
        _record(given)
    if given.against is None:
        return 0
    return _compare(given)


def _arguments(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser("python -m tests.recording", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("folder", type=Path, metavar="DIR", help="a new folder, or a recording")
    parser.add_argument("--against", type=Path, metavar="OTHER", help="an older recording")
    parser.add_argument("--more", action="store_true", help="add the calls that DIR lacks")
    parser.add_argument("--only", metavar="VERB", help="calls of this verb alone")
    parser.add_argument("--every", type=int, default=1, metavar="N", help="one of N calls")
    parser.add_argument("--logs", type=Path, action="append", default=[], metavar="FOLDER")
    parser.add_argument("--processes", type=int, default=1, metavar="N", help="at a time")
    parser.add_argument("--most", type=int, default=200, metavar="N", help="differences to print")
    return parser.parse_args(argv)


def _record(given: argparse.Namespace) -> None:
    """Record the tree into the folder."""
    start, at = time.perf_counter(), commit()
    inputs, calls = _asked(given)
    chosen = (argv for argv in calls if given.only in (None, verb_of(argv)))
    answers = record([*islice(chosen, 0, None, given.every)], inputs, given.processes)
    old = _about(given.folder) if given.more else {"commits": [], "verbs": {}}
    verbs = write(given.folder, answers, old["verbs"])
    about = {
        "commits": [*old["commits"], at],
        "calls": sum(verb["calls"] for verb in verbs.values()),
        "cpu_s": round(sum(verb["cpu_s"] for verb in verbs.values()), 1),
        "verbs": verbs,
        "unused_options": unused_options(given.folder, recorded_calls(given.folder)),
    }
    if commit() != at:
        sys.exit("the checkout changed while it was recorded: begin again in a new folder")
    (given.folder / ABOUT).write_text(json.dumps(about, indent=1) + "\n")
    seconds = time.perf_counter() - start
    _say(f"{given.folder} has {about['calls']} calls of {about['cpu_s']:.0f} s of CPU")
    _say(f"recorded in {seconds:.0f} s")


def _asked(given: argparse.Namespace) -> tuple[Path, list[Argv]]:
    """The inputs and the calls."""
    inputs = given.folder / INPUTS
    if given.more:
        known = {*recorded_calls(given.folder)}
        return inputs, [argv for argv in all_calls(inputs) if argv not in known]
    if given.against is None:
        copy_inputs(inputs, given.logs)
        return inputs, all_calls(inputs)
    shutil.copytree(given.against / INPUTS, inputs)
    return inputs, recorded_calls(given.against)


def _compare(given: argparse.Namespace) -> int:
    """Print the differences; 1 where there is one."""
    asked: set[Argv] | None = None
    if given.only or given.every > 1:
        asked = {*recorded_calls(given.folder)}
    found = [*between(given.against, given.folder, given.only)]
    if asked is not None:
        found = [each for each in found if each.argv in asked]
    for each in found[: given.most]:
        _say(" ".join(each.argv))
        _say(f"    {each.place}: {_short(each.before)} -> {_short(each.after)}")
    for line in _summary(found):
        _say(line)
    old, new = (" ".join(_about(folder)["commits"]) for folder in (given.against, given.folder))
    _say(f"{len(found)} differences between {old} and {new}")
    return 1 if found else 0


def _about(folder: Path) -> dict[str, Any]:
    document: dict[str, Any] = json.loads((folder / ABOUT).read_text())
    return document


def _summary(found: list[Difference]) -> Iterator[str]:
    """How many differences each place of each verb has, the most first."""
    places = Counter((verb_of(each.argv), pattern(each.place)) for each in found)
    for (verb, place), count in places.most_common():
        yield f"{count:7d}  {verb} {place}"


def _short(text: str) -> str:
    return text if len(text) <= WIDTH else f"{text[:WIDTH]}..."


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")


if __name__ == "__main__":
    sys.exit(main())
