"""Rows of Slurm's accounting, as ``sacct -P`` prints them -> the allocations of each job."""

import itertools
import re
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from benchrun import hardware
from benchrun.errors import UserError, reading

COLUMNS = ("JobID", "JobName", "State", "ExitCode", "Start", "End", "NodeList", "AllocTRES")
COMMAND = f"sacct -P -o {','.join(COLUMNS)}"
_GPU = re.compile(r"gres/gpu(?::([^=,]+))?=(\d+)")
_PART = re.compile(r"(?:[^,\[]|\[[^\]]*\])+")
"""One item of a list of nodes; a comma inside brackets separates none."""
_BRACKETS = re.compile(r"\[([^\]]*)\]")
MOST_NODES = 100_000


class Allocation(NamedTuple):
    """One time that a job had nodes; a requeued job has several."""

    job_id: str
    name: str
    state: str
    """Slurm's word for its end, without who cancelled it."""
    start: float | None
    """Local time in s since 1970, as though it were in UTC."""
    end: float | None
    nodes: tuple[str, ...]
    num_gpus: int | None
    gpu: str | None

    @property
    def seconds(self) -> float | None:
        """Time that it had the nodes; None while it runs."""
        if self.start is None or self.end is None:
            return None
        return max(self.end - self.start, 0.0)


def allocations(path: Path) -> tuple[dict[str, list[Allocation]], list[tuple[str, str]]]:
    """The allocations of each job in a file, the oldest first; and each line that is none,
    with the reason.

    UserError, with the line, for a file that sacct did not print.
    """
    with reading(path):
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    names, first = list(COLUMNS), 0
    if lines and "JobID" in (header := lines[0].rstrip("|").split("|")):
        names, first = header, 1
        missing = sorted(set(COLUMNS) - set(header))
        if missing:
            raise UserError(
                f"has no column {missing[0]}", where=f"{path}:1", hint=f"print it with: {COMMAND}"
            )
    found: dict[str, list[Allocation]] = {}
    left_out = []
    for number, line in enumerate(lines[first:], first + 1):
        if not line.strip():
            continue
        row = _row(line, names, f"{path}:{number}")
        if "." in row["JobID"]:
            continue  # a step of a job
        one = _allocation(row, f"{path}:{number}")
        if one.start is None or not one.nodes:
            left_out.append((f"{path}:{number}", f"job {one.job_id} never started: {row['State']}"))
        else:
            found.setdefault(one.job_id, []).append(one)
    for each in found.values():
        each.sort(key=lambda one: one.start or 0.0)
    return found, left_out


def _row(line: str, names: list[str], where: str) -> dict[str, str]:
    """The cells of a line by column. A job's name alone may contain a ``|``."""
    cells = line.split("|")
    if len(cells) == len(names) + 1 and not cells[-1]:
        cells.pop()  # sacct -p ends each line with one
    more = len(cells) - len(names)
    if more < 0:
        hint = f"print it with: {COMMAND}"
        raise UserError(
            f"has {len(cells)} columns, {len(names)} are expected", where=where, hint=hint
        )
    at = names.index("JobName")
    cells[at : at + more + 1] = ["|".join(cells[at : at + more + 1])]
    return dict(zip(names, map(str.strip, cells), strict=True))


def _allocation(row: dict[str, str], where: str) -> Allocation:
    typed = {}
    total = None
    for name, count in _GPU.findall(row["AllocTRES"]):
        if name:
            typed[name] = int(count)
        else:
            total = int(count)
    gpu = None
    if len(typed) == 1:
        name = next(iter(typed))
        gpu = hardware.name_of(name.replace("_", " ")) or name
    return Allocation(
        job_id=row["JobID"],
        name=row["JobName"],
        state=(row["State"].split() or ["UNKNOWN"])[0].rstrip("+"),
        start=_time(row["Start"], where),
        end=_time(row["End"], where),
        nodes=tuple(expanded(row["NodeList"], where)),
        num_gpus=total or sum(typed.values()) or None,
        gpu=gpu,
    )


def _time(text: str, where: str) -> float | None:
    if text in ("", "Unknown", "None"):
        return None
    try:
        return datetime.fromisoformat(f"{text}+00:00").timestamp()
    except ValueError:
        raise UserError(
            f"'{text}' is no time", where=where, hint="sacct prints 2026-01-31T23:59:59"
        ) from None


def expanded(names: str, where: str) -> Iterator[str]:
    """The single names in Slurm's notation, ``n[001-003,007],m1``. UserError for another."""
    if names.startswith("None") or names in ("", "(null)"):
        return
    if _BRACKETS.sub("", names).count("["):
        raise UserError(f"'{names}' is no list of nodes", where=where, hint="e.g. n[001-003]")
    for part in _PART.findall(names):
        pieces = _BRACKETS.split(part)
        choices = []
        for index, piece in enumerate(pieces):
            choices.append([*_numbers(piece, where)] if index % 2 else [piece])
        for chosen in itertools.product(*choices):
            yield "".join(chosen)


def _numbers(text: str, where: str) -> Iterator[str]:
    """The numbers in brackets, as wide as they are printed."""
    for part in text.split(","):
        low, _, high = part.partition("-")
        if not (low.isdigit() and (high or low).isdigit()) or int(high or low) > MOST_NODES:
            raise UserError(f"'[{text}]' is no list of nodes", where=where, hint="e.g. n[001-003]")
        for number in range(int(low), int(high or low) + 1):
            yield f"{number:0{len(low)}d}"


def without_ids(name: str) -> str:
    """Words of a name on the work: without ids and years, with ``64gpu`` and ``seq4096``."""
    return re.sub(r"[-_.]?(\d{5,}|(?<![A-Za-z0-9])\d{3,4}(?![A-Za-z0-9]))", "", name)
