"""How many causes of failed jobs `benchrun parse` names, in a folder of logs whose truth is known.

    python tests/bench/causes_score.py FOLDER [--wrong]

FOLDER has truth.csv, with a row for each log:

- ``file``
- ``class``: the kind of cause; empty for a sound job
- ``acceptable_classes``: all kinds that are right, between semicolons
- ``cause_line``: the line that names the cause; empty where any does
- ``sound``: 1 for a sound job

The last line counts. The exit code is 1 where fewer than 97 % are right, a failed job has no cause, or a sound one has.
"""

import argparse
import csv
import sys
from difflib import SequenceMatcher
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from benchrun.frameworks.logs import parse_log  # noqa: E402
from benchrun.logs.lines import clean  # noqa: E402
from benchrun.measure.model import ProblemEntry  # noqa: E402
from benchrun.measure.summary import summarise  # noqa: E402

SAME_AS = {
    "timeout": {"time_limit"},
    "rendezvous": {"port_taken"},
    "node_fail": {"node_failure"},
    "launch_failed": {"image_missing", "mount_failed"},
    "config_error": {"rank_crash", "missing_file"},
    "data_error": {"rank_crash", "missing_file"},
    "permission": {"rank_crash", "missing_file", "launch_failed"},
    "dependency_error": {"rank_crash", "missing_module"},
    "rank_crash": {"port_taken"},
}
"""A class of truth.csv -> kinds that mean the same here, where the two divide them otherwise."""
ALIKE = 40
"""Characters that two lines have in common if they say the same."""
GOAL = 0.97


class Verdict(NamedTuple):
    """Findings for one log."""

    expected: dict[str, str]
    found: ProblemEntry | None
    kind_right: bool
    line_right: bool

    @property
    def right(self) -> bool:
        return self.kind_right and self.line_right


def judge(folder: Path, expected: dict[str, str]) -> Verdict:
    """Parse one log and compare its cause with the truth."""
    path = folder / expected["file"]
    found = summarise(parse_log(path)).fatal
    if expected["sound"] == "1":
        # A cut log of a sound job has not reached its planned end, and says so.
        sound = found is None or found.kind == "early_end"
        return Verdict(expected, found, sound, sound)
    if found is None:
        return Verdict(expected, None, False, False)
    kinds: set[str] = set()
    for name in expected["acceptable_classes"].split(";"):
        kinds |= {name} | SAME_AS.get(name, set())
    lines = clean(path.read_bytes()).replace("\r", "\n").split("\n")
    texts = [found.detail]
    if found.line is not None and found.line <= len(lines):
        texts.append(lines[found.line - 1])
    same = any(alike(text, expected["cause_line"]) for text in texts)
    return Verdict(expected, found, found.kind in kinds, same)


def alike(text: str, expected: str) -> bool:
    """Whether two lines say the same, whatever stands before it."""
    text, expected = " ".join(text.split()), " ".join(expected.split())
    matcher = SequenceMatcher(None, text, expected, autojunk=False)
    return matcher.find_longest_match().size >= min(ALIKE, len(text), len(expected)) * 0.9


def say(text: str) -> None:
    """Write a line to standard output."""
    sys.stdout.write(text + "\n")


def main() -> int:
    """Judge every log and print the counts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--wrong", action="store_true", help="list the wrong ones, with what was expected")
    options = parser.parse_args()
    with (options.folder / "truth.csv").open(encoding="utf-8", newline="") as file:
        verdicts = [judge(options.folder, row) for row in csv.DictReader(file)]
    failed = [each for each in verdicts if each.expected["sound"] != "1"]
    blamed = [each for each in verdicts if each.expected["sound"] == "1" and not each.right]
    silent = [each for each in failed if each.found is None]
    right = [each for each in failed if each.right]
    if options.wrong:
        for each in verdicts:
            if not each.right:
                row, found = each.expected, each.found
                say(f"{row['file']} expected {row['acceptable_classes']}: {row['cause_line'][:200]} [{row['note']}]")
                say(f"    got {found and (found.kind, found.line, found.detail[:200])}")
    say(
        f"{len(failed)} failed: kind right {sum(each.kind_right for each in failed)},"
        f" line right {sum(each.line_right for each in failed)}, both {len(right)}, silent {len(silent)};"
        f" {len(verdicts) - len(failed)} sound: blamed {len(blamed)}"
    )
    return 0 if len(right) >= GOAL * len(failed) and not silent and not blamed else 1


if __name__ == "__main__":
    sys.exit(main())
