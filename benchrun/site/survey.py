"""Slurm's report of a cluster: partitions, nodes, the user's accounts and QOS,
reservations.
"""

import os
import pwd
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from benchrun.errors import MachineError
from benchrun.jobs.commands import answer, call, has_pyxis, output

_PAIR = re.compile(r"([A-Za-z][A-Za-z0-9/_:]*)=(.*?)(?=\s+[A-Za-z][A-Za-z0-9/_:]*=|\s*$)")
"""One ``Key=Value`` of scontrol's one-line form; a value may contain spaces."""
_GRES = re.compile(r"(?:^|,)(gpu|gres/gpu)(?::([A-Za-z][^:,(]*))?:(\d+)")
UNUSABLE = (
    "DOWN",
    "DRAIN",
    "FAIL",
    "MAINT",
    "UNKNOWN",
    "FUTURE",
    "POWERED_DOWN",
    "NOT_RESPONDING",
    "INVAL",
)
"""Words of a node's state in which it starts no job. POWERED_DOWN nodes of a cloud
start when a job needs them.
"""


@dataclass(frozen=True)
class Partition:
    """One partition; what is allowed is None if everything is."""

    name: str
    default: bool
    state: str
    max_time_s: int | None
    """Longest time of a job; None: unlimited."""
    accounts: tuple[str, ...] | None
    denied_accounts: tuple[str, ...]
    qos: tuple[str, ...] | None
    denied_qos: tuple[str, ...]
    own_qos: str = ""
    """The QOS whose limits hold for every job in it."""


@dataclass(frozen=True)
class Node:
    """One compute node."""

    name: str
    state: str
    partitions: tuple[str, ...]
    gpus: Mapping[str, int]
    """Number of GPUs by Slurm's type in lower case; an empty type if Slurm has none."""
    cpus: int
    sockets: int
    memory_mib: int
    features: tuple[str, ...]

    @property
    def usable(self) -> bool:
        """Whether it can start a job now or after others."""
        words = re.split(r"[+*~#!%$@^-]", self.state)
        return not any(word.startswith(UNUSABLE) for word in words if word != "POWERED_DOWN")


@dataclass(frozen=True)
class Association:
    """One right of the user: an account, in one partition or in all, with its QOS."""

    account: str
    partition: str
    qos: tuple[str, ...]


@dataclass(frozen=True)
class Reservation:
    """One reservation."""

    name: str
    state: str
    users: tuple[str, ...]
    accounts: tuple[str, ...]


@dataclass(frozen=True)
class Survey:
    """One cluster, as its Slurm describes it to one user."""

    user: str
    partitions: tuple[Partition, ...]
    nodes: tuple[Node, ...]
    associations: tuple[Association, ...] | None
    """Associations of the user; None if accounting does not answer."""
    qos: tuple[str, ...] | None
    reservations: tuple[Reservation, ...]
    enforced: frozenset[str]
    """Kinds of limits that accounting enforces: associations, limits, qos; empty if it
    only counts.
    """
    mpi: tuple[str, ...] = ()
    """srun's plugins for --mpi that this machine can load."""
    pyxis: bool = False
    """srun has --container-image."""
    name: str = ""
    """Name of the cluster in accounting."""

    def nodes_of(self, partition: str) -> list[Node]:
        """The nodes of a partition."""
        return [node for node in self.nodes if partition in node.partitions]

    def rights(self, partition: Partition | None) -> list[Association]:
        """The user's associations that hold for the partition; all of them without one."""
        found = []
        for each in self.associations or ():
            if partition is None or each.partition in ("", partition.name):
                found.append(each)
        return found


def survey() -> Survey:
    """Ask Slurm. MachineError if it is not installed or does not answer."""
    user = pwd.getpwuid(os.geteuid()).pw_name
    config = answer("scontrol", "show", "config")
    enforced = re.search(r"^AccountingStorageEnforce\s*=\s*(\S+)", config, re.MULTILINE)
    name = re.search(r"^ClusterName\s*=\s*(\S+)", config, re.MULTILINE)
    rights = accounting(("account", "partition", "qos"), "assoc", f"user={user}")
    qos = output("sacctmgr", "-nP", "show", "qos", "format=name")
    return Survey(
        user,
        tuple(map(_partition, rows(answer("scontrol", "-o", "-a", "show", "partition")))),
        tuple(map(_node, rows(answer("scontrol", "-o", "-a", "show", "node")))),
        None if rights is None else tuple(_associations(rights)),
        None if qos is None else tuple(qos.split()),
        tuple(map(_reservation, rows(output("scontrol", "-o", "show", "reservation") or ""))),
        frozenset()
        if enforced is None or enforced[1] == "none"
        else frozenset(enforced[1].lower().split(",")),
        mpi=tuple(_mpi()),
        pyxis=has_pyxis(),
        name=name[1] if name else "",
    )


def accounting(columns: Sequence[str], *what: str) -> list[dict[str, str]] | None:
    """What sacctmgr shows, by column; None if it does not answer."""
    text = output("sacctmgr", "-nP", "show", *what, f"format={','.join(columns)}")
    if text is None:
        return None
    found = []
    for line in text.splitlines():
        values = line.split("|")
        if len(values) == len(columns):
            found.append(dict(zip(columns, values, strict=True)))
    return found


def rows(text: str) -> list[dict[str, str]]:
    """The objects in the output of ``scontrol -o``, one a line."""
    chosen = []
    for line in text.splitlines():
        if "=" in line:
            chosen.append(dict(_PAIR.findall(line)))
    return chosen


def _partition(row: Mapping[str, str]) -> Partition:
    return Partition(
        row["PartitionName"],
        row.get("Default") == "YES",
        row.get("State", "UP"),
        seconds(row.get("MaxTime", "UNLIMITED")),
        _allowed(row.get("AllowAccounts", "ALL")),
        _words(row.get("DenyAccounts", "")),
        _allowed(row.get("AllowQos", "ALL")),
        _words(row.get("DenyQos", "")),
        "".join(_words(row.get("QoS", ""))),
    )


def _node(row: Mapping[str, str]) -> Node:
    gpus: dict[str, int] = {}
    for _, kind, count in _GRES.findall(row.get("Gres", "")):
        gpus[kind.lower()] = gpus.get(kind.lower(), 0) + int(count)
    return Node(
        row["NodeName"],
        row.get("State", "UNKNOWN"),
        _words(row.get("Partitions", "")),
        gpus,
        int(row.get("CPUTot", 0)),
        int(row.get("Sockets", 1)),
        int(row.get("RealMemory", 0)),
        _words(row.get("AvailableFeatures", "")),
    )


def _reservation(row: Mapping[str, str]) -> Reservation:
    users = _words(row.get("Users", ""))
    accounts = _words(row.get("Accounts", ""))
    return Reservation(row["ReservationName"], row.get("State", ""), users, accounts)


def _associations(rights: list[dict[str, str]]) -> Iterator[Association]:
    for row in rights:
        if row["account"]:
            yield Association(row["account"], row["partition"], _words(row["qos"]))


def _mpi() -> list[str]:
    """srun lists one plugin a line, on stderr in some releases, then versions of one
    after a colon.
    """
    try:
        result = call(["srun", "--mpi=list"], timeout_s=10)
        lines = (result.stderr + result.stdout).splitlines()
        words = []
        for line in lines:
            if ":" in line or len(line.split()) == 1:
                words.append(_words(line.rpartition(":")[2]))
        chosen = []
        for each in words:
            for name in each:
                if _loads(name):
                    chosen.append(name)
        return chosen
    except MachineError:
        return []


def _loads(plugin: str) -> bool:
    """Whether srun can use a listed plugin: pmix is listed if its library is missing,
    and then every job fails.
    """
    result = call(["srun", f"--mpi={plugin}", "--test-only", "--ntasks=1", "true"], timeout_s=10)
    return "Invalid MPI type" not in result.stderr


def _words(text: str) -> tuple[str, ...]:
    if text in ("(null)", "N/A"):
        return ()
    return tuple(filter(None, re.split(r"[,\s]+", text)))


def _allowed(text: str) -> tuple[str, ...] | None:
    if text.upper() == "ALL":
        return None
    return _words(text)


def seconds(text: str) -> int | None:
    """Slurm's time (``1-00:00:00``, ``30:00``, ``30`` minutes) in seconds; None for
    ``UNLIMITED``.
    """
    days, _, clock = text.rpartition("-")
    parts = clock.split(":")
    if not all(part.isdecimal() for part in (*parts, days or "0")):
        return None
    numbers = [*map(int, parts)]
    if len(numbers) < 3 and days:  # days-hours, days-hours:minutes
        numbers += [0] * (3 - len(numbers))
    elif len(numbers) == 1:
        numbers = [0, numbers[0], 0]
    hours, minutes, rest = [0] * (3 - len(numbers)) + numbers
    return 86400 * int(days or 0) + 3600 * hours + 60 * minutes + rest


def clock(limit_s: int) -> str:
    """A time limit as a site file has it: ``[days-]hours:minutes:seconds``."""
    days, rest = divmod(limit_s, 86400)
    text = f"{rest // 3600:02d}:{rest // 60 % 60:02d}:{rest % 60:02d}"
    if not days:
        return text
    return f"{days}-{text}"
