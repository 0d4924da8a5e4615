"""Traces made for a test: Kineto documents of a few events, in us."""

from __future__ import annotations

import json

from benchrun import app


def kernel(start, length, name="gemm", *, link=None, stream=7, device=0, **args):
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


def copy(start, length, name="Memcpy HtoD (Pinned -> Device)", **args):
    return {**kernel(start, length, name, **args), "cat": "gpu_memcpy"}


def call(start, length, link, name="cudaLaunchKernel", thread=1):
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


def host(start, length, name, category="user_annotation", thread=1, **args):
    return {"ph": "X", "cat": category, "name": name, "pid": 9, "tid": thread, "ts": start, "dur": length, "args": args}


def write(path, events, **properties):
    path.write_text(json.dumps({"schemaVersion": 1, **properties, "traceEvents": events}))
    return path


def fingerprint(tmp_path, *ranks, window="device", **properties):
    """The fingerprint of one file per rank."""
    files = []
    for rank, events in enumerate(ranks):
        stated = {"distributedInfo": {"rank": rank, "world_size": len(ranks)}, **properties}
        files.append(write(tmp_path / f"{rank}.json", events, **stated))
    return app.fingerprint_of(files, window)[0]


def message(name, elements, ranks, *, description="DATA_PARALLEL_GROUP", output=None, dtype="BFloat16"):
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
