"""Which options of which verbs no call of a recording uses."""

import re
from collections.abc import Sequence
from pathlib import Path

from .recording import Argv, read, recorded_verbs, verb_of

OPTION = re.compile(r"^  (?:-\w, )?(--[\w-]+)(?:, (--[\w-]+))*", re.MULTILINE)
ALWAYS = {"--help", "--version"}


def unused_options(folder: Path, calls: Sequence[Argv]) -> dict[str, list[str]]:
    """Verb -> the options that its help names and no call has, by their first names."""
    unused = {}
    for verb in recorded_verbs(folder):
        answers = read(folder, verb)
        helps = [answer["stdout"] for argv, answer in answers.items() if argv[-1] == "--help"]
        used = {word.partition("=")[0] for argv in calls if verb_of(argv) == verb for word in argv}
        lines = [found.group() for found in OPTION.finditer("\n".join(helps))]
        named = [re.findall(r"--[\w-]+", line) for line in lines]
        left = [names[0] for names in named if not {*names} & used and not {*names} & ALWAYS]
        if left:
            unused[verb] = left
    return unused
