"""Record that a rank writes of itself when the job's watchdog asks: the stacks of its threads and
PyTorch's record of its collectives. Who asks: templates/hang.py.
"""

import contextlib
import faulthandler
import os
import pickle
import signal
import sys
import threading
import time
import weakref
from collections import Counter, deque
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any, TextIO

from benchrun.rundir.artifacts import HANGS
from benchrun.runspec.spec import RunSpec

RECORD = "TORCH_NCCL_DEBUG_INFO_TEMP_FILE"
"""Variable with the start of the name of a record's file."""
KEPT = 2000
"""Calls that a recorder keeps."""
device: Callable[[], str | None] | None = None
"""What the GPU of this rank does, of which the clock of its steps has marks."""
transfers: deque[tuple[dict[str, Any], "weakref.ref[Any]"]] = deque(maxlen=KEPT)
"""The last sends and receives, as a recorder has them, and what their callers wait for."""


def answer(spec: RunSpec) -> None:
    """Answer from now on, where somebody asks: where a deadline is set.

    A thread answers. If it cannot run because another one keeps Python's lock, a
    signal has the stacks written.
    """
    if not spec.cluster.step_deadline_s:
        return
    rank, folder = os.environ["RANK"], Path(HANGS).absolute()
    folder.mkdir(exist_ok=True)
    os.environ.setdefault(
        "TORCH_NCCL_TRACE_BUFFER_SIZE", str(KEPT)
    )  # older releases record nothing
    if spec.gpu == "CPU":
        _keep_transfers()
    record = Path(f"{os.environ.setdefault(RECORD, f'{HANGS}/dump_')}{rank}").absolute()
    stacks = (folder / f"stack_{rank}.txt").open("w", encoding="utf-8")
    faulthandler.register(signal.SIGRTMAX, file=stacks, all_threads=True)
    pipe = folder / f"stack_{rank}.pipe"
    try:
        pipe.unlink(missing_ok=True)
        os.mkfifo(pipe)
    except OSError:
        return  # this file system has no pipes: py-spy may know the stack
    threading.Thread(target=_listen, args=(pipe, stacks, record), daemon=True).start()


def _keep_transfers() -> None:
    """Record sends and receives, which PyTorch's recorder of gloo leaves out."""
    group = sys.modules["torch.distributed"].ProcessGroup
    calls: Counter[str] = Counter()

    def kept(function: Callable[..., Any], kind: str) -> Callable[..., Any]:
        @wraps(function)
        def call(group: Any, tensors: Any, peer: int, *more: Any) -> Any:
            calls[group.group_name] += 1
            arrow = "->" if kind == "send" else "<-"
            entry = {
                "process_group": (group.group_name, group.group_desc),
                "profiling_name": f"gloo:{kind} {group.rank()}{arrow}{peer}",
                "input_sizes": [list(each.shape) for each in tensors],
                "input_dtypes": [str(each.dtype) for each in tensors],
                "time_created_ns": time.time_ns(),
                "p2p_seq_id": calls[group.group_name],
                **{"pg_id": 0, "collective_seq_id": 0, "is_p2p": True, "state": "scheduled"},
            }
            work = function(group, tensors, peer, *more)
            transfers.append((entry, weakref.ref(work)))
            return work

        return call

    for name in ("send", "recv"):
        setattr(group, name, kept(getattr(group, name), name))


def _listen(pipe: Path, stacks: TextIO, record: Path) -> None:
    while True:
        with pipe.open(encoding="utf-8") as asked:  # waits for who asks
            for until_s in asked:
                if time.monotonic() < float(until_s):  # else the others have moved on since
                    faulthandler.dump_traceback(stacks, all_threads=True)
                    _record(record)
                    _device(pipe.with_name(f"device_{os.environ['RANK']}.txt"))


def _device(path: Path) -> None:
    """Write what the GPU does; asked last, because its driver may give no answer."""
    with contextlib.suppress(RuntimeError):  # the GPU failed
        if device is not None and (state := device()):
            path.write_text(state, encoding="utf-8")


def _record(path: Path) -> None:
    """Write the record of gloo's collectives; NCCL writes its own."""
    # An import here could wait for one of the main thread's.
    distributed: Any = sys.modules.get("torch.distributed")
    dump = getattr(sys.modules.get("torch._C._distributed_c10d"), "_dump_fr_trace", None)
    started = getattr(distributed, "is_initialized", None)
    if dump is None or started is None or not started() or distributed.get_backend() != "gloo":
        return
    document = pickle.loads(dump())
    document["pg_config"] = _groups(distributed)
    _add_transfers(document["entries"])
    temporary = path.with_suffix(".tmp")
    temporary.write_bytes(pickle.dumps(document, protocol=2))
    temporary.replace(path)


def _add_transfers(entries: list[dict[str, Any]]) -> None:
    first = entries[0]["record_id"] if entries else 0
    for entry, waited in tuple(transfers):
        work = waited()
        entries.append({**entry, "retired": work is None or work.is_completed()})
    entries.sort(key=lambda entry: int(entry["time_created_ns"]))
    for place, entry in enumerate(entries):
        entry["record_id"] = first + place


def _groups(distributed: Any) -> dict[str, dict[str, str]]:
    """Name -> description and ranks of each group, which gloo does not record."""
    world = distributed.distributed_c10d._world
    groups = {}
    for group, name in world.pg_names.items():
        ranks = str(distributed.get_process_group_ranks(group))
        groups[name] = {"name": name, "desc": group.group_desc, "ranks": ranks}
    return groups
