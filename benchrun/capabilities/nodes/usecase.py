"""Checking nodes: the job, what its ranks measured, the outliers."""

import contextlib
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from pydantic import ValidationError

from benchrun.errors import MachineError, UserError
from benchrun.jobs.exclude import without_nodes
from benchrun.jobs.slurm_nodes import expanded, idle_nodes
from benchrun.recipes.resolve import resolve_nodes
from benchrun.rundir.artifacts import EXCLUDE, FLEET, NODES
from benchrun.rundir.folder import RunDir, read_text
from benchrun.rundir.nodes import RankRates
from benchrun.runspec.spec import NodesSpec

from .fleet import Fleet, fleet


def nodes_check(
    cluster: str,
    num_nodes: int | None = None,
    exclude: str | None = None,
    overrides: tuple[str, ...] = (),
) -> NodesSpec:
    """A check of ``num_nodes`` nodes of ``cluster``, by default of all that are idle.
    MachineError for none.
    """
    spec = without_nodes(resolve_nodes(cluster, num_nodes or 1, overrides), exclude)
    if num_nodes is None and spec.cluster.scheduler == "slurm":
        site = spec.cluster
        idle = idle_nodes(site.partition, site.nodelist, site.exclude)
        if not idle:
            where = "the cluster"
            if site.partition:
                where = f"partition {site.partition}"
            raise MachineError(
                f"no node of {where} is idle", hint="--num-nodes N waits in the queue for N nodes"
            )
        spec = without_nodes(resolve_nodes(cluster, len(idle), overrides), exclude)
    return spec


def fleet_of(run: RunDir, *, named: bool = True) -> Fleet:
    """The nodes of a check beside each other. Nothing is written. Unless ``named``, Slurm
    is not asked which nodes measured nothing, so that every machine answers the same.

    UserError for another kind of run, and if the files of the ranks are damaged or
    contradict each other.
    """
    if not isinstance(run.spec, NodesSpec):
        raise UserError(
            f"{run.run_id} is no check of nodes", hint="benchrun nodes CLUSTER launches one"
        )
    files = {file: _rates(file) for file in sorted((run.path / NODES).glob("*.json"))}
    _check_together(files)
    return fleet([*files.values()], _job_nodes(run) if named else ())


def store_fleet(run: RunDir, checked: Fleet) -> None:
    """Write fleet.json and the list of nodes to exclude into the run, if that is
    allowed.
    """
    if run.writable:
        run.write_json(FLEET, checked.document())
        run.write_text(EXCLUDE, "".join(f"{name}\n" for name in checked.exclude))


def _rates(file: Path) -> RankRates:
    """Read what one rank measured. UserError for a damaged file."""
    try:
        return RankRates.model_validate_json(read_text(file) or "")
    except ValidationError as error:
        raise UserError(
            f"not what the job writes: {error.errors()[0]['msg']}", where=file
        ) from None


def _check_together(files: Mapping[Path, RankRates]) -> None:
    """UserError, with the file, if ranks contradict each other or measured other work
    than most of them.
    """
    sizes = Counter(each.ranks for each in files.values())
    works = Counter((rate.test, rate.work) for each in files.values() for rate in each.rates)
    usual = {test: work for (test, work), _ in reversed(works.most_common())}
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
            raise UserError(wrong, where=file, hint=hint)


def _job_nodes(run: RunDir) -> Sequence[str]:
    """Names of the job's nodes; none if Slurm does not answer any more, or never had
    the job.
    """
    state = run.last_event("state") or {}
    with contextlib.suppress(MachineError):
        return expanded(str(state.get("nodes") or ""))
    return []
