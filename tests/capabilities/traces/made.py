"""Traces made for a test: Kineto documents of a few events, in us."""

import json
from pathlib import Path
from typing import Any

from benchrun import api
from benchrun.capabilities.traces.window import Choice
from benchrun.rundir.fingerprint import Fingerprint


def kernel(
    start: float,
    length: float,
    name: str = "gemm",
    *,
    link: int | None = None,
    stream: int = 7,
    device: int = 0,
    **args: int | str,
) -> dict[str, Any]:
    args = {"device": device, "stream": stream, "correlation": -1 if link is None else link, **args}
    return {
        "ph": "X",
        "cat": "kernel",
        "name": name,
        "pid": device,
        "tid": stream,
        "ts": start,
        "dur": length,
        "args": args,
    }


def copy(start: float, length: float, name: str = "Memcpy HtoD (Pinned -> Device)", **args: Any) -> dict[str, Any]:
    return {**kernel(start, length, name, **args), "cat": "gpu_memcpy"}


def call(start: float, length: float, link: int, name: str = "cudaLaunchKernel", thread: int = 1) -> dict[str, Any]:
    args = {"correlation": link}
    return {
        "ph": "X",
        "cat": "cuda_runtime",
        "name": name,
        "pid": 9,
        "tid": thread,
        "ts": start,
        "dur": length,
        "args": args,
    }


def host(
    start: float, length: float, name: str, category: str = "user_annotation", thread: int = 1, **args: int | str
) -> dict[str, Any]:
    return {"ph": "X", "cat": category, "name": name, "pid": 9, "tid": thread, "ts": start, "dur": length, "args": args}


def write(path: Path, events: list[dict[str, Any]], **properties: Any) -> Path:
    path.write_text(json.dumps({"schemaVersion": 1, **properties, "traceEvents": events}))
    return path


def fingerprint(
    tmp_path: Path, *ranks: list[dict[str, Any]], window: Choice = "device", **properties: Any
) -> Fingerprint:
    """The fingerprint of one file per rank."""
    files = []
    for rank, events in enumerate(ranks):
        stated = {"distributedInfo": {"rank": rank, "world_size": len(ranks)}, **properties}
        files.append(write(tmp_path / f"{rank}.json", events, **stated))
    return api.fingerprint_of(files, window)[0]


def message(
    name: str,
    elements: int,
    ranks: list[int],
    *,
    description: str = "DATA_PARALLEL_GROUP",
    output: int | None = None,
    dtype: str = "BFloat16",
) -> dict[str, int | str]:
    """The arguments of a collective's kernel."""
    return {
        "Collective name": name,
        "In msg nelems": elements,
        "Out msg nelems": output or elements,
        "Group size": len(ranks),
        "dtype": dtype,
        "Process Group Name": "5",
        "Process Group Description": description,
        "Process Group Ranks": json.dumps(ranks),
    }
