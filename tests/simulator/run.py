"""Many histories of the simulated Slurm: ``python tests/simulator/run.py 20000``; one again: ``--seed N``."""

import argparse
import sys
import time

from history import History, counted


def _say(*lines: str) -> None:
    sys.stdout.write("".join(f"{line}\n" for line in lines))


def main() -> int:
    """Run them, print what was found; 1 where anything was."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("count", type=int, nargs="?", default=1000, help="how many histories")
    parser.add_argument("--first", type=int, default=0, help="their first seed")
    parser.add_argument("--seed", type=int, help="replay this one and print its story")
    how = parser.parse_args()
    if how.seed is not None:
        course = History(how.seed).run()
        _say(*course.story, *(f"FOUND {finding}" for finding in course.findings))
        return bool(course.findings)
    began = time.monotonic()
    count, first = counted(range(how.first, how.first + how.count))
    for kind, number in count.most_common():
        _say(f"{number:6d} {kind}, first --seed {first[kind]}")
    seconds = time.monotonic() - began
    _say(f"{how.count} histories in {seconds:.0f} s, {sum(count.values())} findings")
    return bool(count)


if __name__ == "__main__":
    sys.exit(main())
