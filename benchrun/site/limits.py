"""Limits of accounts and QOS that even a job of one node breaks: Slurm takes such a job
and never starts it.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from benchrun.jobs.commands import output
from benchrun.runspec.cluster import Cluster

from .file_checks import Check, chosen_partition, fault
from .survey import Partition, Survey, accounting, clock, seconds

JOBS, WALL = "jobs", "wall"
_TRES = re.compile(r"([a-z][\w/:.-]*)=(\d+)(?=,|$)")
"""A resource with its number; an amount of memory has a unit, and is left out."""
ACCOUNTS = {"grptres": "", "grpjobs": JOBS, "grpsubmit": JOBS}
"""sacctmgr's column of a limit of all jobs together -> the name of what it counts;
empty if it names resources.
"""
USERS = {"maxtres": "", "maxjobs": JOBS, "maxsubmit": JOBS, "maxwall": WALL}
"""Column of a limit of one job or of a user, as the user inherits it -> the name of
what it counts.
"""
QOS = {"maxtres": "", "maxtrespu": "", "maxjobspu": JOBS, "maxsubmitpu": JOBS, "maxwall": WALL}


@dataclass(frozen=True)
class Level:
    """One place in which limits are set: an account, a user in it, or a QOS."""

    name: str
    """Name of the account or the QOS."""
    limits: Mapping[tuple[str, str], int] = field(default_factory=dict)
    """sacctmgr's column and the name of what it counts (``cpu``, ``gres/gpu``,
    ``jobs``, ``wall``) -> the most.
    """
    user: str = ""
    partition: str = ""
    parent: str = ""
    qos: str = ""
    """The QOS of its jobs that name none."""


def limit_checks(site: Cluster, slurm: Survey) -> Iterator[Check]:
    """A fault for each limit that a job of one node of the site breaks; none if Slurm
    enforces no limits.
    """
    partition = chosen_partition(site, slurm)
    if "limits" not in slurm.enforced or not isinstance(partition, Partition):
        return
    account = (
        site.account
        or output("sacctmgr", "-nP", "show", "user", slurm.user, "format=defaultaccount")
    ) or ""
    accounts = _accounts(slurm)
    of_qos = _qos()
    places = upwards(accounts, account.lower(), partition.name)
    named = (partition.own_qos, site.qos or next((place.qos for place in places if place.qos), ""))
    chosen = [level for name in named for level in of_qos if level.name == name]
    needs = needed(site, slurm, partition)
    for level, (column, name), most in broken(chosen, places, needs):
        key = "account" if level in places else "qos"
        need = f"{needs[name]} {name}"
        allowed = f"{most} {name}"
        if name == WALL:
            key = "time_limit"
            need = clock(needs[name])
            allowed = clock(most)
        yield fault(
            key, f"{column} of {level.name} allows {allowed}, and a job of one node has {need}"
        )


def needed(site: Cluster, slurm: Survey, partition: Partition) -> dict[str, int]:
    """Resources that a job of one node counts as, by Slurm's names; a whole node counts
    with all of its CPUs.
    """
    cpus = site.gpus_per_node * (site.cpus_per_task or 1)
    fitting = []
    for node in slurm.nodes_of(partition.name):
        if node.cpus >= cpus:
            fitting.append(node.cpus)
    needs = {"node": 1, JOBS: 1, WALL: site.time_limit_s, "cpu": cpus}
    if site.exclusive is True and fitting:
        needs["cpu"] = min(fitting)
    if site.gres and site.gres.split(":")[0].endswith("gpu"):
        kind = site.gres.partition(":")[2]
        needs |= {"gres/gpu": site.gpus_per_node, f"gres/gpu:{kind}": site.gpus_per_node}
    return needs


def broken(
    qos: Sequence[Level], places: Sequence[Level], needs: Mapping[str, int]
) -> Iterator[tuple[Level, tuple[str, str], int]]:
    """Each limit that the needs break, with its level. What a QOS limits, no account
    limits again.
    """
    limited = {key for level in qos for key in level.limits}
    for level in (*qos, *places):
        for key, most in level.limits.items():
            if most < needs.get(key[1], 0) and (level in qos or key not in limited):
                yield level, key, most


def upwards(accounts: Sequence[Level], account: str, partition: str) -> list[Level]:
    """The user's place in an account, then the account and its parents."""
    own = []
    for each in accounts:
        if each.user and each.name == account and each.partition in ("", partition):
            own.append(each)
    places = sorted(own, key=lambda level: level.partition == "")[:1]
    above = {each.name: each for each in accounts if not each.user}
    while account in above:
        level = above.pop(account)
        places.append(level)
        account = level.parent
    return places


def _accounts(slurm: Survey) -> list[Level]:
    """Every account of the cluster, and this user's places in them."""
    own = ("user", "partition", "parentname", "defaultqos")
    rows = accounting(("account", *own, *ACCOUNTS, *USERS), "assoc", f"cluster={slurm.name}")
    levels = []
    for row in rows or ():
        if row["user"] in ("", slurm.user):
            columns = ACCOUNTS | USERS if row["user"] else ACCOUNTS
            places = [row[column] for column in own]
            levels.append(Level(row["account"], _limits(row, columns), *places))
    return levels


def _qos() -> list[Level]:
    columns = ACCOUNTS | QOS
    found = []
    for row in accounting(("name", *columns), "qos") or ():
        found.append(Level(row["name"], _limits(row, columns)))
    return found


def _limits(row: Mapping[str, str], columns: Mapping[str, str]) -> dict[tuple[str, str], int]:
    limits = {}
    for column, name in columns.items():
        pairs = [(name, row[column])] if name else _TRES.findall(row[column])
        for counted, text in pairs:
            if counted == WALL:
                number = seconds(text)
            elif text.isdecimal():
                number = int(text)
            else:
                number = None
            if number is not None:
                limits[column, counted] = number
    return limits
