"""A site file against what Slurm reports: everything because of which a job would be
refused or wait for ever.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from benchrun import hardware
from benchrun.errors import closest
from benchrun.runspec.cluster import Cluster
from benchrun.vocabulary import Exit

from .nodes import filters, is_host_list, named_nodes
from .survey import Association, Node, Partition, Survey, clock

Status = Literal["ok", "fault", "warning", "not_checked"]


@dataclass(frozen=True)
class Check:
    """One thing that a job needs."""

    what: str
    """Key of the site file, or the thing itself."""
    status: Status
    found: str
    """Fact, or what is wrong."""
    hint: str = ""
    """Correction: what would be right."""
    exit_code: Exit = Exit.USER
    """Exit code of a fault: the site file is wrong, or the machine."""


def ok(what: str, detail: str) -> Check:
    return Check(what, "ok", detail)


def fault(what: str, detail: str, hint: str = "") -> Check:
    return Check(what, "fault", detail, hint)


def gpu_check(site: Cluster) -> Iterator[Check]:
    """A fault if no table has the file's GPU: it would have no peak and no memory, and
    no recipe has its name.
    """
    listed = [*hardware.names(), "CPU"]
    if site.hardware is None and site.gpu not in listed:
        hint = f"{closest(site.gpu.upper(), listed)}; or state its peaks: hardware:"
        yield fault("gpu", f"the hardware table has no GPU '{site.gpu}'", hint)


def queue_checks(site: Cluster, slurm: Survey) -> Iterator[Check]:
    """Partition, account, QOS, reservation, time limit, nodes; what depends on a fault
    is not checked again.
    """
    partition = chosen_partition(site, slurm)
    if isinstance(partition, Check):
        yield partition
        yield from _rights(site, slurm, None)
        yield Check("nodes", "not_checked", "they depend on the partition")
        return
    yield ok(
        "partition",
        f"{partition.name}, {partition.state}, {len(slurm.nodes_of(partition.name))} nodes",
    )
    yield _time_limit(site, partition)
    yield from _rights(site, slurm, partition)
    yield from _nodes(site, slurm, partition)
    if site.mpi and site.mpi not in slurm.mpi:
        yield fault("mpi", f"srun cannot use --mpi={site.mpi}", closest(site.mpi, slurm.mpi))


def chosen_partition(site: Cluster, slurm: Survey) -> Partition | Check:
    """The partition of the site's jobs, the first of several; a fault if there is none
    that is up.
    """
    names = [partition.name for partition in slurm.partitions]
    if site.partition is None:
        default = next((partition for partition in slurm.partitions if partition.default), None)
        return default or fault(
            "partition",
            "none is stated, and Slurm has no default one",
            f"one of {', '.join(names)}",
        )
    named = site.partition.split(",")
    if wrong := [name for name in named if name not in names]:
        return fault("partition", f"Slurm has no partition '{wrong[0]}'", closest(wrong[0], names))
    partition = next(each for each in slurm.partitions if each.name == named[0])
    if partition.state != "UP":
        up = [each.name for each in slurm.partitions if each.state == "UP"]
        return fault(
            "partition", f"partition {partition.name} is {partition.state}", f"up: {', '.join(up)}"
        )
    return partition


def _time_limit(site: Cluster, partition: Partition) -> Check:
    most = partition.max_time_s
    if most is not None and site.time_limit_s > most:
        detail = f"{site.time_limit} is more than partition {partition.name} allows: the job would wait for ever"
        return fault("time_limit", detail, f"at most {clock(most)}")
    return ok("time_limit", site.time_limit)


def _rights(site: Cluster, slurm: Survey, partition: Partition | None) -> Iterator[Check]:
    """Account, QOS and reservation."""
    if slurm.associations is None:
        yield Check("account", "not_checked", "Slurm's accounting does not answer")
        return
    here = slurm.rights(partition)
    account = _account(site, slurm, here, partition)
    yield account
    # With a wrong account any of the user's rights will do: the account alone is the
    # fault.
    mine = [
        right for right in here if site.account is None or right.account == site.account.lower()
    ] or here
    yield from _qos(
        site, slurm, slurm.associations if account.status == "fault" else mine, partition
    )
    if site.reservation is not None:
        yield from _reservations(site.reservation.split(","), slurm)


def _account(
    site: Cluster, slurm: Survey, here: Sequence[Association], partition: Partition | None
) -> Check:
    enforced = "associations" in slurm.enforced
    accounts = list(dict.fromkeys(right.account for right in here))
    legal = "sacctmgr show assoc lists yours"
    if accounts:
        legal = f"yours: {', '.join(accounts)}"
    if site.account is None:
        if enforced and not accounts:
            return fault(
                "account", f"user {slurm.user} has no account here, and Slurm requires one", legal
            )
        return ok("account", "Slurm's default")
    if site.account.lower() not in accounts:  # Slurm keeps names in lower case
        detail = f"user {slurm.user} has no account '{site.account}'"
        if enforced:
            return fault("account", detail, closest(site.account, accounts) if accounts else legal)
        return Check("account", "warning", f"{detail}; this Slurm does not check it", legal)
    if partition and partition.accounts is not None and site.account not in partition.accounts:
        only = f"it takes {', '.join(partition.accounts)}"
        return fault(
            "account", f"partition {partition.name} does not take account {site.account}", only
        )
    if partition and site.account in partition.denied_accounts:
        return fault("account", f"partition {partition.name} refuses account {site.account}", legal)
    return ok("account", site.account)


def _qos(
    site: Cluster, slurm: Survey, mine: Sequence[Association], partition: Partition | None
) -> Iterator[Check]:
    if site.qos is None:
        return
    allowed = list(dict.fromkeys(qos for right in mine for qos in right.qos))
    enforced = bool(slurm.enforced & {"qos", "limits", "associations"})
    if slurm.qos is not None and site.qos not in slurm.qos:
        status: Status = "fault" if enforced else "warning"
        yield Check("qos", status, f"Slurm has no QOS '{site.qos}'", closest(site.qos, slurm.qos))
    elif enforced and site.qos not in allowed:
        owner = f"account {site.account}" if site.account else f"user {slurm.user}"
        yield fault(
            "qos", f"{owner} may not use QOS {site.qos}", f"allowed: {', '.join(allowed) or 'none'}"
        )
    elif partition and partition.qos is not None and site.qos not in partition.qos:
        only = f"it takes {', '.join(partition.qos)}"
        yield fault("qos", f"partition {partition.name} does not take QOS {site.qos}", only)
    elif partition and site.qos in partition.denied_qos:
        yield fault("qos", f"partition {partition.name} refuses QOS {site.qos}")
    else:
        yield ok("qos", site.qos)


def _reservations(names: Sequence[str], slurm: Survey) -> Iterator[Check]:
    """Each of a comma list: Slurm refuses a wrong name, and takes the first that begins
    of the others.
    """
    checks = [_reservation(name, slurm) for name in names]
    begun = any(check.status == "ok" for check in checks)
    for check in checks:
        yield replace(check, status="fault") if check.status == "warning" and not begun else check


def _reservation(name: str, slurm: Survey) -> Check:
    """A warning if it has not begun."""
    names = [each.name for each in slurm.reservations]
    reservation = next((each for each in slurm.reservations if each.name == name), None)
    if reservation is None:
        hint = "Slurm has none now"
        if names:
            hint = closest(name, names)
        return fault("reservation", f"Slurm has no reservation '{name}'", hint)
    accounts = {right.account for right in slurm.associations or ()}
    if slurm.user not in reservation.users and not accounts & {*reservation.accounts}:
        owners = ", ".join((*reservation.users, *reservation.accounts))
        return fault(
            "reservation", f"{reservation.name} is not for user {slurm.user}", f"it is for {owners}"
        )
    if reservation.state != "ACTIVE":
        detail = f"{reservation.name} is {reservation.state}: the job would wait"
        return Check("reservation", "warning", detail, "wait until it begins")
    return ok("reservation", reservation.name)


def _nodes(site: Cluster, slurm: Survey, partition: Partition) -> Iterator[Check]:
    """Narrow the partition's nodes down, one key after the other; the key that leaves
    none is the fault.
    """
    names = {node.name for node in slurm.nodes}
    for key in ("nodelist", "exclude"):
        if (text := getattr(site, key)) and not is_host_list(text):
            yield fault(
                key, f"'{text}' is no list of nodes", "names and closed ranges, e.g. n[1-3],m7"
            )
            return
        if unknown := [name for name in named_nodes(text) if name not in names]:
            yield fault(key, f"Slurm has no node '{unknown[0]}'", closest(unknown[0], names))
            return
    left = slurm.nodes_of(partition.name)
    if not left:
        yield fault("partition", f"partition {partition.name} has no nodes")
        return
    for key, keeps, wrong, right in filters(site, partition.name):
        fitting = list(filter(keeps, left))
        if not fitting:
            yield fault(key, wrong(left), right(left))
            return
        left = fitting
    usable = [node for node in left if node.usable]
    if not usable:
        states = ", ".join(f"{node.name} {node.state}" for node in left[:5])
        yield Check(
            "nodes",
            "fault",
            f"none of the {len(left)} fitting nodes is up: {states}",
            exit_code=Exit.MACHINE,
        )
        return
    yield ok(
        "nodes",
        f"{len(usable)} fit"
        + ("" if len(usable) == len(left) else f", {len(left) - len(usable)} more are down"),
    )
    yield from _gpu_names(site, usable)


def _gpu_names(site: Cluster, nodes: Sequence[Node]) -> Iterator[Check]:
    """Slurm's type of the GPUs against the file's ``gpu``."""
    wanted = None
    if site.gres and ":" in site.gres:
        wanted = site.gres.rpartition(":")[2].lower()
    names = {}
    for node in nodes:
        for kind in node.gpus:
            if kind and wanted in (None, kind):
                names[kind] = hardware.name_of(kind.replace("_", " "))
    chips = {name and hardware.chip(name) for name in names.values()}
    if names and chips.isdisjoint({None, hardware.chip(site.gpu)}):
        kind, name = next(iter(names.items()))
        yield Check(
            "gpu",
            "warning",
            f"the file has {site.gpu}, Slurm calls the GPUs {kind}",
            f"gpu: {name}?",
        )
    if site.gpu == "CPU" and site.gres is not None:
        yield Check(
            "gpu",
            "warning",
            "the job asks for GPUs, and trains without one",
            "the name of the GPU, e.g. H100",
        )
    if site.gpu != "CPU" and site.gres is None and any(node.gpus for node in nodes):
        yield Check(
            "gres",
            "warning",
            "Slurm counts GPUs, and the job asks for none: it may see none",
            "gres: gpu",
        )
