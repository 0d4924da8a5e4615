"""Launching a run again whose end was no fault of its own, without the node that
failed.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from benchrun.errors import MachineError
from benchrun.frameworks.logs import parse_log
from benchrun.jobs.endings import AGAIN, Ending
from benchrun.jobs.exclude import without_nodes
from benchrun.jobs.launcher import observe
from benchrun.jobs.slurm_nodes import expanded, unusable_nodes
from benchrun.logs.kinds import blaming_node, short_name
from benchrun.rundir.folder import RunDir

from .jobs import end_of
from .submission import start_in_time


@dataclass(frozen=True)
class Retry:
    """Reason why a run may end well elsewhere."""

    reason: str
    """Reason, in words for a person."""
    nodes: tuple[str, ...]
    """Nodes to leave out; empty if any node will do, or none is known."""


def retry_cause(run: RunDir) -> Retry | None:
    """Why an ended ``run`` should be launched again; None if it would end the same: a
    wrong recipe, a crash.
    """
    observation = observe([run])[0]
    if not observation.over or run.spec.cluster.scheduler != "slurm":
        return None
    ending = end_of(observation).ending
    if ending is Ending.PREEMPTED:
        return Retry(f"{run.run_id} was preempted", ())
    problems = parse_log(*run.logs).problems if run.logs else ()
    own = blaming_node(problems)
    if AGAIN[ending] != "always" and (AGAIN[ending] != "maybe" or not own):
        return None
    nodes = _failed_nodes(run, {short_name(problem.host) for problem in own if problem.host})
    what = own[0].kind if own else ending.value
    where = ""
    if nodes:
        where = f" of {', '.join(nodes)}"
    return Retry(f"{run.run_id} ended by {what}{where}", nodes)


def _failed_nodes(run: RunDir, named: Collection[str]) -> tuple[str, ...]:
    """The nodes of the run's job that its log names or that Slurm cannot use now; none
    if Slurm does not answer.
    """
    state = run.last_event("state") or {}
    names = str(state.get("nodes") or "")
    try:
        failed = {*named, *unusable_nodes(names)}
        return tuple(node for node in expanded(names) if {node, short_name(node)} & failed)
    except MachineError:
        return ()


def attempts(run: RunDir, retries: int) -> Iterator[tuple[RunDir, str]]:
    """``run``, then up to ``retries`` launches of the same in its place, each with the
    reason for it.

    The caller waits for the end of each before it asks for the next. MachineError if
    one is refused.
    """
    yield run, ""
    for _ in range(retries):
        cause = retry_cause(run)
        if cause is None:
            return
        again = start_in_time(
            without_nodes(run.spec, ",".join(cause.nodes) or None), run.path.parent
        )
        run.append_event(
            "retried", run=again.run_id, reason=cause.reason, excluded=list(cause.nodes)
        )
        run = again
        yield run, cause.reason
