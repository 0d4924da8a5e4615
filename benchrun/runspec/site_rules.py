"""Options and variables that a job script sets itself, or that contradict it: a site
file or recipe cannot set them.

slurm_options.csv has the options of sbatch and srun: ``values`` are allowed all the
same (a regular expression, in which ``{key}`` is a value of the site file); a row with
``beside`` counts only if the site file sets that key. variables.csv has the variables,
as regular expressions.
"""

import re
import shlex
from collections.abc import Iterator, Mapping

from pydantic import ValidationInfo

from benchrun.paths import table

LAUNCHED: Mapping[str, bool] = {"launched": True}
"""Context of a validation that reads what was launched: the rules hold for what will
be.
"""
_OPTION = re.compile(
    r"--(?P<long>[^=\s]+)(?:[=\s]\s*(?P<value>.*))?|-[HOQkuvlX]*(?P<short>[^-\s])(?P<rest>.*)"
)
"""Short options without a value may stand before another in one word: ``-Ha1-3``."""
_COMMANDS = re.compile(r"[;&|()]+")
_NAME = re.compile(r"([A-Za-z_]\w*)(?:\+?=.*)?", re.DOTALL)
_DECLARES = ("export", "declare", "typeset", "readonly", "unset")
_OPENS = ("{", "!", "if", "then", "else", "elif", "do", "while", "until", "time")


def site_option(program: str, option: str, info: ValidationInfo) -> str:
    """``option``. ValueError if a site file cannot set it for ``program`` (sbatch,
    srun).
    """
    match = _OPTION.match(option)
    if match is None:
        raise ValueError(f"{option!r} is no option")
    for row in _rows(program, match):
        if _counts(row, match["value"] or match["rest"] or "", info):
            raise ValueError(
                f"a site file cannot set {program} --{row['option']}: {row['instead']}"
            )
    return option


def _rows(program: str, match: re.Match[str]) -> list[dict[str, str]]:
    """The rows of an option: those of its whole name, else those that it is an
    unambiguous beginning of (getopt).
    """
    rows = []
    for row in table(__file__, "slurm_options.csv"):
        if program in row["programs"].split():
            rows.append(row)
    if match["long"] is None:
        return [row for row in rows if row["letter"] == match["short"]]
    name = match["long"].replace("_", "-")
    return [row for row in rows if row["option"] == name] or [
        row for row in rows if row["option"].startswith(name)
    ]


def _counts(row: Mapping[str, str], value: str, info: ValidationInfo) -> bool:
    """Whether a row of either table holds for this value in this site file."""
    # A recipe knows no site's keys.
    beside = not row["beside"] or info.data.get(row["beside"], True)
    if not beside or (info.context or {}).get("launched"):
        return False
    allowed = row.get("values", "").format(**info.data)
    return not allowed or re.fullmatch(allowed, value.strip().strip("\"'")) is None


def own_variable(name: str, info: ValidationInfo) -> str:
    """``name``. ValueError if the job script sets this variable, or Slurm's commands
    would read it.
    """
    for row in table(__file__, "variables.csv"):
        if re.fullmatch(row["name"], name) and _counts(row, "", info):
            raise ValueError(f"{name} cannot be set here: {row['instead']}")
    return name


def setup_line(line: str, info: ValidationInfo) -> str:
    """``line`` of shell. ValueError if it sets or unsets a variable that is not a
    site's own.
    """
    if line.lstrip().startswith("#SBATCH"):
        raise ValueError(
            "sbatch reads options only at the top of a script: use cluster.sbatch_options"
        )
    for name in assigned(line):
        own_variable(name, info)
    return line


def assigned(line: str) -> Iterator[str]:
    """Names of the variables that a line of shell sets or unsets for what follows it,
    as far as one line shows.
    """
    lexer = shlex.shlex(line, posix=True, punctuation_chars=";&|()")
    lexer.whitespace_split = True
    try:
        words = [*lexer]
    except ValueError:  # a quote that another line closes
        return
    command = []
    for word in [*words, ";"]:
        if not _COMMANDS.fullmatch(word):
            command.append(word)
            continue
        yield from _set_by(command)
        command = []


def _set_by(words: list[str]) -> Iterator[str]:
    """Names that one command sets: assignments alone, or arguments of ``export`` and
    its like.
    """
    while words and words[0] in _OPENS:
        words = words[1:]
    declares = bool(words) and words[0] in _DECLARES
    named = list(map(_NAME.fullmatch, words[declares:]))
    if declares or all(match and "=" in match[0] for match in named):
        for match in named:
            if match:
                yield match[1]
