"""An independent fingerprint: one event after the other, a sweep over all edges, nothing from benchrun."""

import json
import lzma
import re
import sqlite3
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

COMMUNICATION = re.compile(r"nccl|userbuffers|deep_ep|nvshmem", re.I)


def kind_of(name: str) -> str:
    if name.startswith(("Memcpy", "Memset")):
        return "communication" if "PtoP" in name else "copy"
    return "communication" if COMMUNICATION.search(name) else "compute"


def device_events(path: Path) -> Iterator[tuple[int, str, int, int]]:
    """(GPU, kind, start, end) of every device event; times in ns, exact."""
    if ".sqlite" in path.name:
        yield from _nsight(path)
        return
    with lzma.open(path) as file:
        document = json.load(file, parse_float=Fraction)
    for event in document["traceEvents"]:
        if event.get("cat") in ("kernel", "gpu_memcpy", "gpu_memset"):
            start = round(event["ts"] * 1000)
            yield (event["args"]["device"], kind_of(event["name"]), start, start + round(event["dur"] * 1000))


def _nsight(path: Path) -> Iterator[tuple[int, str, int, int]]:
    with tempfile.NamedTemporaryFile() as file:
        file.write(lzma.decompress(path.read_bytes()))
        file.flush()
        connection = sqlite3.connect(file.name)
        kernels = (
            "select deviceId, value, start, end from CUPTI_ACTIVITY_KIND_KERNEL join StringIds on id = demangledName"
        )
        for device, name, start, end in connection.execute(kernels):
            yield device, kind_of(name), start, end
        for device, kind, start, end in connection.execute(
            "select deviceId, copyKind, start, end from CUPTI_ACTIVITY_KIND_MEMCPY"
        ):
            yield device, "communication" if kind == 10 else "copy", start, end
        for device, start, end in connection.execute("select deviceId, start, end from CUPTI_ACTIVITY_KIND_MEMSET"):
            yield device, "copy", start, end
        connection.close()


def shares(path: Path) -> dict[int, dict[str, float]]:
    """Shares of the time from the first device event to the last, by GPU."""
    by_gpu = defaultdict(list)
    for device, kind, start, end in device_events(path):
        by_gpu[device].append((start, 1, kind))
        by_gpu[device].append((end, -1, kind))
    return {device: _sweep(marks) for device, marks in by_gpu.items()}


def _sweep(marks: list[tuple[int, int, str]]) -> dict[str, float]:
    marks.sort(key=lambda mark: mark[0])
    running, spent, before = dict.fromkeys(("compute", "communication", "copy"), 0), defaultdict(int), marks[0][0]
    for now, change, kind in marks:
        if running["compute"]:
            spent["compute"] += now - before
            spent["hidden_comm"] += (now - before) * bool(running["communication"])
        elif running["communication"]:
            spent["exposed_comm"] += now - before
        else:
            spent["copy" if running["copy"] else "idle"] += now - before
        running[kind] += change
        before = now
    window = marks[-1][0] - marks[0][0]
    return {name: spent[name] / window for name in ("compute", "exposed_comm", "hidden_comm", "copy", "idle")}
