"""Transcripts in the documents: commands with the output that a reader sees, run again and compared.

A transcript is a ``console`` block. ``$ `` begins a command, ``> `` its further lines; what stands below it is its
output, stdout and stderr together. A line ``...`` stands for any number of lines, and `` ...`` at the end of a line for
its rest. Dates, hashes and the ids of new runs may differ. After the comment ``<!-- measured -->`` numbers (but for an
exit code), the widths of columns and bars may too.
"""

import os
import re
import subprocess
import sys
import threading
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from itertools import zip_longest
from pathlib import Path

from calling import DEADLINE_S

from benchrun import kept, paths

ROOT = Path(__file__).parent.parent.parent
HERE = "/shared/benchrun"
"""The checkout's folder in the documents."""
BLOCK = re.compile(r"(?P<measured><!-- measured -->\n+)?^```console\n(?P<text>.*?)^```$", re.M | re.S)
CALL = r"^\$ (?P<command>(?:.*\\\n)*.*(?:\n> .*)*)\n(?P<shown>(?:(?!\$ ).*\n)*)"
ELLIPSIS = "..."
RUN_ID = r"[a-z][\w.]*(?:-[a-z\d.]+)*-[0-9a-f]{8}-\d{8}T\d{6}Z-[0-9a-f]{4}"
DATE = r"\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d)?Z?)?"
HASH = r"\b[0-9a-f]{64}\b"
NUMBER = r"(?<![\w.])[+-]?\d[\d,]*(?:\.\d+)?(?:e[+-]\d+)?(?!\w)"
FILLING = r" {2,}|#+|-+(?= |$)"
"""Between the columns of a table, and bars."""
LIMIT_S = 300
"""Of one page."""


@dataclass(frozen=True)
class Call:
    """One command and the output that the document shows."""

    command: str
    shown: tuple[str, ...]
    measured: bool
    place: tuple[int, int]
    """Where the output stands in the text of the page."""


@dataclass
class Names:
    """Ids of runs: those in the document -> those of the runs that were made now."""

    made: dict[str, str] = field(default_factory=dict)

    def today(self, text: str) -> str:
        return re.sub(RUN_ID, lambda match: self.made.get(match[0], match[0]), text)

    def documented(self, text: str) -> str:
        back = {made: name for name, made in self.made.items()}
        return re.sub(RUN_ID, lambda match: back.get(match[0], match[0]), text)


def calls(page: str) -> list[Call]:
    """The commands of all transcripts of a page, in order."""
    found = []
    for block in BLOCK.finditer(page):
        start = block.start("text")
        for part in re.finditer(CALL, block["text"], re.M):
            place = (start + part.start("shown"), start + part.end("shown"))
            command = re.sub(r"^> ", "", part["command"], flags=re.M)
            measured = block["measured"] is not None and command != "echo $?"
            found.append(Call(command, tuple(part["shown"].splitlines()), measured, place))
    return found


class Shell:
    """One shell in a folder that looks like the checkout, as the reader of a page has it."""

    def __init__(self, folder: Path, **env: str) -> None:
        (folder / "bin").mkdir()
        program = folder / "bin" / "benchrun"
        program.write_text(f'#!/bin/sh\nexec {sys.executable} -m benchrun "$@"\n')
        program.chmod(0o755)
        self.folder = folder / "benchrun"
        (self.folder / "results").mkdir(parents=True)
        for name in ("recipes", "tests", "results/measured", "results/reference"):
            (self.folder / name).symlink_to(ROOT / name)
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("BENCHRUN_")}
        path = os.pathsep.join((str(program.parent), env.pop("PATH", os.environ["PATH"])))
        own = {"PATH": path, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1", "NO_COLOR": "1", "COLUMNS": "110"}
        self.process = subprocess.Popen(
            ["bash"],
            cwd=self.folder,
            env=inherited | own | env,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self.watch = threading.Timer(LIMIT_S, self.process.kill)
        self.watch.start()

    def run(self, command: str) -> list[str]:
        """Lines of output, with the folder's name as in the documents."""
        end = "-- end of the output --"
        self.process.stdin.write(f"{{ {command}\n}} </dev/null\n(code=$?; printf '\\n%s\\n' '{end}'; exit $code)\n")
        self.process.stdin.flush()
        lines: list[str] = []
        for line in self.process.stdout:
            if line.rstrip("\n") == end:
                return trimmed([line.replace(str(self.folder), HERE) for line in lines])
            lines.append(line.rstrip())
        raise AssertionError(f"{command}: the shell ended, or the page took {LIMIT_S} s\n" + "\n".join(lines))

    def close(self) -> None:
        self.watch.cancel()
        self.process.stdin.close()
        self.process.wait(timeout=DEADLINE_S)
        self.process.stdout.close()


def trimmed(lines: list[str]) -> list[str]:
    """Without empty lines at the end."""
    while lines and not lines[-1]:
        lines = lines[:-1]
    return lines


def pattern(call: Call, names: Names) -> tuple[str, list[str]]:
    """The outputs that the shown one stands for, as a regular expression, and the new ids that are its groups."""
    new: list[str] = []
    lines = [
        r"(?:.*\n)*?" if line == ELLIPSIS else _line(line, call.measured, names, new) + r"\n"
        for line in trimmed(list(call.shown))
    ]
    return "".join(lines), new


def _line(line: str, measured: bool, names: Names, new: list[str]) -> str:
    cut = line.endswith(f" {ELLIPSIS}")
    body, text, end = line.removesuffix(ELLIPSIS) if cut else line, "", 0
    for match in re.finditer("|".join((RUN_ID, HASH, DATE, *((NUMBER, FILLING) if measured else ()))), body):
        text += re.escape(body[end : match.start()]) + _varying(match[0], names, new)
        end = match.end()
    return text + re.escape(body[end:]) + (".*" if cut else "")


def _varying(text: str, names: Names, new: list[str]) -> str:
    if re.fullmatch(RUN_ID, text):
        if text in kept.entries(paths.MEASURED) or text in names.made:
            return re.escape(names.today(text))
        if text in new:
            return rf"(?P=run{new.index(text)})"
        new.append(text)
        return (
            rf"(?P<run{len(new) - 1}>{re.escape(text[: -len('YYYYmmddTHHMMSSZ-0000')])}\d{{8}}T\d{{6}}Z-[0-9a-f]{{4}})"
        )
    if exact := [kind for kind in (DATE, HASH) if re.fullmatch(kind, text)]:
        return exact[0]
    return r"[+-]?\d[\d,.e+-]*" if re.fullmatch(NUMBER, text) else "[ #-]*"


def agree(call: Call, output: list[str], names: Names) -> bool:
    """Whether the output is the shown one; if so, note which new run has which id in the document."""
    expression, new = pattern(call, names)
    match = re.fullmatch(expression, "".join(f"{line}\n" for line in output))
    if match:
        names.made.update(zip(new, match.groups(), strict=True))
    return match is not None


def renewed(call: Call, output: list[str]) -> list[str]:
    """The output in the form in which the document shows it: with as many lines before, after and between ``...``."""
    shown = trimmed(list(call.shown))
    if ELLIPSIS not in shown:
        return [_cut(line, old) for line, old in zip_longest(output, shown[: len(output)], fillvalue="")]
    first = shown.index(ELLIPSIS)
    last = len(shown) - shown[::-1].index(ELLIPSIS)
    lines = [_cut(line, old) for line, old in zip(output, shown[:first], strict=False)]
    for old in shown[first:last]:
        close = [ELLIPSIS] if old == ELLIPSIS else get_close_matches(old, output, 1, 0.3)
        lines += [_cut(line, old) for line in close]
    tail = output[len(output) - len(shown[last:]) :]
    return lines + [_cut(line, old) for line, old in zip(tail, shown[last:], strict=False)]


def _cut(line: str, old: str) -> str:
    """The line as short as the old one was."""
    if not old.endswith(f" {ELLIPSIS}") or len(line) <= len(old):
        return line
    return f"{line[: len(old) - len(ELLIPSIS)].rpartition(' ')[0]} {ELLIPSIS}"


def differences(text: str, shell: Shell) -> tuple[list[str], str]:
    """What a page shows and is not so, and the page as it would be right."""
    names, wrong, right, end = Names(), [], "", 0
    for call in calls(text):
        output = shell.run(names.today(call.command))
        shown = list(call.shown)
        if not agree(call, output, names):
            shown = [names.documented(line) for line in renewed(call, output)]
            wrong.append("\n".join((f"$ {call.command}", "the document has:", *call.shown, "now:", *output)))
            agree(replace(call, shown=tuple(shown)), output, names)
        right += text[end : call.place[0]] + "".join(f"{line}\n" for line in shown)
        end = call.place[1]
    return wrong, right + text[end:]


def check(page: Path, shell: Shell, *, update: bool) -> None:
    """Run the commands of ``page`` and compare what they print; with ``update`` write that into the page instead."""
    try:
        wrong, right = differences(page.read_text(), shell)
    finally:
        shell.close()
    if update:
        page.write_text(right)
    else:
        assert wrong == [], "\n\n".join(wrong)
