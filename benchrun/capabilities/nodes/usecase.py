"""Checking nodes: the job, what its ranks measured, the outliers; and leaving nodes out of a job."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from pydantic import ValidationError

from benchrun.capabilities.nodes.fleet import Fleet, fleet
from benchrun.errors import MachineError, UserError
from benchrun.jobs.slurm_nodes import all_nodes, expanded, idle_nodes
from benchrun.recipes.resolve import resolve_nodes
from benchrun.rundir.artifacts import EXCLUDE, FLEET, NODES
from benchrun.rundir.folder import RunDir, read_text
from benchrun.rundir.nodes import RankRates, Test
from benchrun.runspec.spec import NodesSpec, RunSpec

S = TypeVar("S", bound=RunSpec)
_NODES = re.compile(r"\w[\w.-]*(?:\[\d+(?:-\d+)?(?:,\d+(?:-\d+)?)*\][\w.-]*)*")
"""Names of nodes in Slurm's notation."""
_FILE = re.compile(r".*\.(?:txt|csv|json|ya?ml|lst|list)", re.IGNORECASE)
"""Names of files that do not exist, rather than of nodes."""


def nodes_check(
    cluster: str, num_nodes: int | None = None, exclude: str | None = None, overrides: tuple[str, ...] = ()
) -> NodesSpec:
    """A check of ``num_nodes`` nodes of ``cluster``, by default of all that are idle. MachineError for none."""
    spec = without_nodes(resolve_nodes(cluster, num_nodes or 1, overrides), exclude)
    if num_nodes is None and spec.cluster.scheduler == "slurm":
        site = spec.cluster
        idle = idle_nodes(site.partition, site.nodelist, site.exclude)
        if not idle:
            where = f"partition {site.partition}" if site.partition else "the cluster"
            raise MachineError(f"no node of {where} is idle", hint="--num-nodes N waits in the queue for N nodes")
        spec = without_nodes(resolve_nodes(cluster, len(idle), overrides), exclude)
    return spec


def fleet_of(run: RunDir) -> Fleet:
    """The nodes of a check beside each other. Nothing is written.

    UserError for another kind of run, and if the files of the ranks are damaged or contradict each other.
    """
    if not isinstance(run.spec, NodesSpec):
        raise UserError(f"{run.run_id} is no check of nodes", hint="benchrun nodes CLUSTER launches one")
    files = {file: _rates(file) for file in sorted((run.path / NODES).glob("*.json"))}
    _check_together(files)
    return fleet([*files.values()], _job_nodes(run))


def store_fleet(run: RunDir, checked: Fleet) -> None:
    """Write fleet.json and the list of nodes to exclude into the run, if that is allowed."""
    if run.writable:
        run.write_json(FLEET, checked.model_dump(mode="json"))
        run.write_text(EXCLUDE, "".join(f"{name}\n" for name in checked.exclude))


def without_nodes(spec: S, exclude: str | None) -> S:
    """``spec`` with the nodes that ``exclude`` names left out, besides those that the site leaves out.

    ``exclude`` is a file of names or a list, both in Slurm's notation. UserError if it is neither.
    """
    if exclude is None or not (names := _names(exclude)):
        return spec
    if spec.cluster.scheduler != "slurm":
        raise UserError(f"--exclude is for nodes of Slurm, and cluster {spec.cluster.name} is this machine")
    together = ",".join(dict.fromkeys([*([spec.cluster.exclude] if spec.cluster.exclude else []), *names]))
    return spec.model_copy(update={"cluster": spec.cluster.model_copy(update={"exclude": together})})


def _names(exclude: str) -> list[str]:
    """The names of nodes in a file or a list, as they are written. UserError for anything else."""
    file = Path(exclude)
    from_file = file.is_file()
    text = (read_text(file) or "").removeprefix("\ufeff") if from_file else exclude
    names = [name for name in re.split(r"[\s,]+(?![^\[]*\])", text) if name]  # not at commas within brackets
    if wrong := next((name for name in names if not _is_node(name)), None):
        where = str(file) if from_file else None
        hint = "names of nodes as in n1,n[4-7], or a file of them, as benchrun nodes writes it"
        raise UserError(f"--exclude: {wrong!r} is neither a file nor a node's name", hint=hint, where=where)
    if not names and not from_file:
        raise UserError("--exclude names no node", hint="an unset variable?")
    return names


def _is_node(name: str) -> bool:
    """Whether ``name`` has the form of a node's name, or of several with rising ranges."""
    ranges = [pair for part in re.findall(r"\[(.*?)\]", name) for pair in re.findall(r"(\d+)-(\d+)", part)]
    rising = all(int(first) <= int(last) for first, last in ranges)
    return bool(_NODES.fullmatch(name)) and not _FILE.fullmatch(name) and rising


def check_excluded(spec: RunSpec) -> None:
    """UserError for a node that ``spec`` leaves out and Slurm does not know, as sbatch would refuse it.

    Without an answer from Slurm nothing is checked.
    """
    names = spec.cluster.exclude
    if spec.cluster.scheduler != "slurm" or not names:
        return
    try:
        unknown = sorted({*expanded(names)} - all_nodes())
    except MachineError:
        return
    if unknown:
        raise UserError(f"--exclude: Slurm knows no node called {', '.join(unknown)}", hint="sinfo -N lists them")


def _rates(file: Path) -> RankRates:
    """Read what one rank measured. UserError for a damaged file."""
    try:
        return RankRates.model_validate_json(read_text(file) or "")
    except ValidationError as error:
        raise UserError(f"not what the job writes: {error.errors()[0]['msg']}", where=str(file)) from None


def _check_together(files: Mapping[Path, RankRates]) -> None:
    """UserError, with the file, if ranks contradict each other or measured other work than most of them."""
    sizes = Counter(each.ranks for each in files.values())
    works = Counter((rate.test, rate.work) for each in files.values() for rate in each.rates)
    usual: dict[Test, str] = {test: work for (test, work), _ in reversed(works.most_common())}
    seen: dict[int, Path] = {}
    hint = "move the file away, or check the nodes again"
    for file, each in files.items():
        wrong = None
        if each.ranks != (size := sizes.most_common(1)[0][0]):
            wrong = f"states {each.ranks} ranks, the others {size}"
        elif each.rank >= each.ranks:
            wrong = f"is of rank {each.rank}, but the job has {each.ranks}: the last one is {each.ranks - 1}"
        elif (first := seen.setdefault(each.rank, file)) != file:
            wrong = f"is of rank {each.rank}, as {first.name} is"
        elif other := next((rate for rate in each.rates if rate.work != usual[rate.test]), None):
            wrong = f"{other.test} measured {other.work!r}, the others {usual[other.test]!r}: not the same work"
        if wrong:
            raise UserError(wrong, where=str(file), hint=hint)


def _job_nodes(run: RunDir) -> Sequence[str]:
    """Names of the job's nodes; none if Slurm does not answer any more, or never had the job."""
    state = run.last_event("state")
    try:
        return expanded(str(state["nodes"])) if state and state.get("nodes") else []
    except MachineError:
        return []
