"""What each framework's release accepts: ``accepted.txt``, read out of the releases' sources."""

from functools import cache
from pathlib import Path

FILE = Path(__file__).with_suffix(".txt")


@cache
def _sections() -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for line in FILE.read_text().splitlines():
        if line.startswith("["):
            found[line.strip("[]")] = []
        elif line and not line.startswith("#"):
            list(found.values())[-1].append(line)
    return found


def facts(release: str) -> list[str]:
    """The lines of ``FRAMEWORK_RELEASE``: an option, or a class with its keywords."""
    return _sections()[release]
