"""Which processes of a run are alive, on which node: read out of /proc, where the machine sees those of every node."""

import os
from pathlib import Path


def of_run(run_id: str, cluster: Path) -> list[str]:
    """``NODE: COMMAND`` of every process of a run on the nodes of the cluster in that folder.

    It works in the run's directory or has the run's name in its environment or command line: Slurm gives each process
    of a job its name, and a container that forgets it keeps the directory. Processes that the test itself has started
    (``benchrun status RUN``) are left out. The node is ``host`` for a process that a daemon of the machine started
    (docker's). Zombies have ended.
    """
    parents = {int(folder.name): _parent(folder) for folder in Path("/proc").glob("[0-9]*")}
    nodes = {int(file.read_text().split()[0]): file.stem[5:] for file in cluster.glob("run/node-*.pid")}
    found = []
    for pid in parents:
        if not _marked(Path(f"/proc/{pid}"), run_id.encode()):
            continue
        place = _place(pid, parents, nodes)
        if place is not None:
            found.append(
                f"{place}: {_bytes(Path(f'/proc/{pid}/cmdline')).replace(bytes(1), b' ').decode('utf-8', 'replace')}"
            )
    return sorted(found)


def _marked(folder: Path, mark: bytes) -> bool:
    links = [_link(folder / name) for name in ("cwd", "root")]
    # A process that has ended and one of the kernel have no command line.
    command = _bytes(folder / "cmdline")
    return bool(command) and any(mark in text for text in (command, _bytes(folder / "environ"), *links))


def _place(pid: int, parents: dict[int, int], nodes: dict[int, str]) -> str | None:
    """The node whose first process is an ancestor; None where the test is one before any node is."""
    while pid in parents:
        if pid in nodes:
            return nodes[pid]
        if pid == os.getpid():
            return None
        pid = parents[pid]
    return "host"


def _parent(folder: Path) -> int:
    fields = _bytes(folder / "stat").rpartition(b")")[2].split()
    return int(fields[1]) if fields else 0


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:  # it ended while we looked
        return b""


def _link(path: Path) -> bytes:
    try:
        return os.fsencode(path.readlink())
    except OSError:
        return b""
