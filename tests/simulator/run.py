"""Many histories of the simulated Slurm: ``python tests/simulator/run.py 20000``; one again: ``--seed N``."""

import argparse
import sys
import time
from collections import Counter

from history import History

EVERY = 1000
"""Histories between two reports."""


def main() -> int:
    """Run them, print what was found; 1 where anything was."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("count", type=int, nargs="?", default=EVERY, help="how many histories")
    parser.add_argument("--first", type=int, default=0, help="their first seed")
    parser.add_argument("--seed", type=int, help="replay this one and print its story")
    how = parser.parse_args()
    if how.seed is not None:
        course = History(how.seed).run()
        _say(*course.story, *(f"FOUND {finding}" for finding in course.findings))
        return bool(course.findings)
    began, count = time.monotonic(), Counter[str]()
    for done in range(1, how.count + 1):
        seed = how.first + done - 1
        for finding in History(seed).run().findings:
            kind = finding.partition(": ")[0]
            count[kind] += 1
            if count[kind] == 1:
                _say(f"--seed {seed}: {finding}")
        if done % EVERY == 0 or done == how.count:
            _say(f"{done} histories in {time.monotonic() - began:.0f} s, {sum(count.values())} findings")
    _say(*(f"{number:6d} {kind}" for kind, number in count.most_common()))
    return bool(count)


def _say(*lines: str) -> None:
    sys.stdout.write("".join(f"{line}\n" for line in lines))
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
