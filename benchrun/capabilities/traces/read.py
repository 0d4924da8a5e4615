"""Finding and reading traces: files, compressed or not, and directories with a file per
rank.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory

from benchrun import kept
from benchrun.errors import UserError
from benchrun.logs.inputs import chunks

from .events import RankTrace
from .json_stream import HINT, NoTrace
from .kineto import read_kineto
from .nsight import MAGIC, read_nsight

Export = Callable[[Path, Path], None]
REPORT = ".nsys-rep"
SUFFIXES = (".json", ".sqlite", REPORT)
TORCH, NSYS = "ProfilerActivity.CUDA", "nsys --trace=cuda,nvtx,osrt, while the GPU works"
"""Way in which a trace gets events of a GPU."""
PACKED = (".gz", ".xz", ".zst")
_RANK = re.compile(r"rank[-_.]?(\d+)", re.I)
_HOST = re.compile(r"^(?P<host>[\w.-]+)_\d+\.\d+(\.\d+)?\.pt\.trace\.json")
"""The name that torch.profiler's handler for TensorBoard gives: host, process, time."""


def read_traces(paths: Sequence[Path], export: Export) -> tuple[list[RankTrace], list[Path]]:
    """One trace for each GPU, in the order of ranks, and the files without device
    events.

    ``export`` writes the SQLite export of a report of Nsight Systems into a new file.

    UserError for a file that is damaged or no trace, and if no file holds a device
    event.
    """
    traces = []
    empty = []
    given = [*map(kept.place, paths)]
    for path in trace_files(given):
        try:
            inside = []
            for trace in _read(path, export):
                if len(trace.device_events):
                    inside.append(trace)
        except NoTrace:
            if path in given:
                raise
            inside = []  # a directory holds other files too
        if not inside:
            empty.append(path)
        for trace in inside:
            traces.append(_named(trace, path, alone=len(inside) == 1))
    if not traces:
        tools = set()
        for file in empty:
            tools.add(NSYS if ".sqlite" in file.name or file.suffix == REPORT else TORCH)
        hint = f"profile with {' or '.join(sorted(tools))}; on CPUs: benchrun explain"
        raise UserError("no event of a GPU", where=", ".join(map(str, empty)), hint=hint)
    return _ranked(traces), empty


def trace_files(paths: Sequence[Path]) -> list[Path]:
    """``paths`` with each directory replaced by the traces in it. UserError for a
    directory without traces.
    """
    files = []
    for path in map(kept.place, paths):
        if not path.is_dir():
            files.append(path)
            continue
        inside = sorted(
            (file for file in path.rglob("*") if file.is_file() and _is_trace(file)), key=_numbered
        )
        if not inside:
            raise UserError("no trace in this directory", where=str(path), hint=HINT)
        files += inside
    return list(dict.fromkeys(files))


def is_trace(path: Path) -> bool:
    """Whether a file begins as a trace does; False for one that cannot be read."""
    if path.suffix == REPORT:
        return True
    try:
        start = b"".join(islice(chunks(path), 3))
    except (UserError, OSError):
        return False
    return start.startswith(MAGIC) or (
        start.lstrip()[:1] in (b"{", b"[") and b'"traceEvents"' in start
    )


def _numbered(file: Path) -> list[str | int]:
    """A key by which rank 10 comes after rank 9: the texts and numbers of the path in
    turn.
    """
    found = []
    for part in re.split(r"(\d+)", str(file)):
        found.append(int(part) if part.isdecimal() else part)
    return found


def _is_trace(file: Path) -> bool:
    name = next((file.stem for suffix in PACKED if file.name.endswith(suffix)), file.name)
    exported = file.suffix == REPORT and file.with_suffix(".sqlite").exists()
    return name.endswith(SUFFIXES) and not file.name.startswith(".") and not exported


def _read(path: Path, export: Export) -> Iterator[RankTrace]:
    if path.suffix == REPORT:
        with TemporaryDirectory(prefix="benchrun-") as folder:
            target = Path(folder) / "report.sqlite"
            export(path, target)
            for trace in read_nsight(target):
                yield replace(trace, file=str(path))
        return
    start = b"".join(islice(chunks(path), 2))[: len(MAGIC)]
    yield from read_nsight(path) if start == MAGIC else read_kineto(path)


def _named(trace: RankTrace, path: Path, *, alone: bool) -> RankTrace:
    """The trace with the rank and host that the file's name states, if the file itself
    does not.
    """
    host = _HOST.match(path.name)
    return replace(
        trace,
        file=kept.shown(trace.file),
        rank=rank_in(path.name) if trace.rank is None and alone else trace.rank,
        host=trace.host or (host["host"] if host else None),
    )


def rank_in(name: str) -> int | None:
    """The rank that the name of a file states.

    Several numbers, as in dp_rank_0_tp_rank_1, are places in groups and not the rank.
    """
    ranks = _RANK.findall(name)
    if len(ranks) != 1:
        return None
    return int(ranks[0])


def _ranked(traces: list[RankTrace]) -> list[RankTrace]:
    """The traces in the order of their ranks, or numbered in the order of reading if
    one states no rank.

    UserError for two traces of one rank: they are of different steps or runs, and their
    collectives do not match.
    """
    by_rank: dict[int | None, RankTrace] = {}
    for trace in traces:
        if trace.rank in by_rank and trace.rank is not None:
            hint = f"give the files of one profile; {by_rank[trace.rank].file} is of this rank too"
            raise UserError(f"a second trace of rank {trace.rank}", where=trace.file, hint=hint)
        by_rank[trace.rank] = trace
    if None in by_rank:
        return [replace(trace, rank=number) for number, trace in enumerate(traces)]
    return sorted(traces, key=lambda trace: trace.rank or 0)
