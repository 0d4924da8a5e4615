"""Facts of a run in a pack beside its numbers: its scripts, its ending, whether it was
redacted.
"""

from collections.abc import Iterator
from itertools import islice

from benchrun.frameworks.logs import parse_log
from benchrun.jobs.endings import classified_again
from benchrun.render import render
from benchrun.rundir import artifacts
from benchrun.rundir.artifacts import STDERR, STDOUT, XZ, Ending, EndingRecord
from benchrun.rundir.folder import RunDir
from benchrun.usecases.jobs import recent_time
from benchrun.usecases.keep import public_spec

from . import pack
from .agreement import differences
from .pack import Reason
from .unpack import Content

NEEDED = (artifacts.SPEC, artifacts.ENDING, artifacts.JOB, artifacts.PROBE_SCRIPT)
"""Files without which a run is no evidence."""
SHOWN = 3
"""Differences of one ending that are named."""


def missing_files(content: Content, run: str) -> Iterator[Reason]:
    """Files that a run lacks. A job opens both logs at its start, so that one is never
    alone.
    """
    place = f"{pack.RUNS}/{run}"
    logs = [f"{name}{XZ}" for name in (STDOUT, STDERR)]
    ended = RunDir(content.root / place).read(artifacts.ENDING, EndingRecord)
    started = any(f"{place}/{log}" in content.manifest.files for log in logs) or (
        ended and _has_started(ended)
    )
    for name in (*NEEDED, *(logs if started else ())):
        if f"{place}/{name}" not in content.manifest.files:
            yield Reason("missing_file", f"{place}/{name}", "a run needs it")


def _has_started(ended: EndingRecord) -> bool:
    """Whether a job script ran: it wrote done.json, or made a step."""
    return ended.last_step is not None or any(
        fact.startswith(f"{artifacts.DONE}: ") for fact in ended.evidence
    )


def redaction(content: Content) -> Iterator[Reason]:
    """Runs that are not as the manifest's ``redacted`` has them: only a pack with the
    site has their events.
    """
    redacted = content.manifest.redacted
    for name in content.manifest.runs:
        events = f"{pack.RUNS}/{name}/{artifacts.EVENTS}"
        if redacted == (events in content.manifest.files):
            has = "has" if redacted else "has no"
            detail = f"redacted is {str(redacted).lower()}, and {name} {has} {artifacts.EVENTS}"
            yield Reason("manifest", pack.MANIFEST, detail)
        spec = RunDir(content.root / pack.RUNS / name).spec
        if redacted and public_spec(spec) != spec:
            detail = "redacted is true, and this specification names a site"
            yield Reason("manifest", f"{pack.RUNS}/{name}/{artifacts.SPEC}", detail)


def other_scripts(content: Content, name: str) -> Iterator[Reason]:
    """Differences between the scripts of a run and those that its specification gives."""
    place = f"{pack.RUNS}/{name}"
    rendered = render(RunDir(content.root / place).spec)
    listed = {path.name for path in (content.root / place).iterdir()}
    for file in sorted(name for name in listed if name.endswith(".sh") and name not in rendered):
        yield Reason("added_file", f"{place}/{file}", "its specification gives no such script")
    for file, text in rendered.items():
        if file == artifacts.SPEC:
            continue
        if file not in listed:
            yield Reason("missing_file", f"{place}/{file}", "its specification gives this script")
        elif (content.root / place / file).read_bytes() != text.encode():
            yield Reason("script", f"{place}/{file}", "not the script that its specification gives")


def written_by(content: Content, name: str) -> tuple[object, object]:
    """Version and commit of the benchrun that wrote a run's scripts: that of the pack
    if it is redacted.
    """
    if content.manifest.redacted:
        return content.manifest.benchrun, content.manifest.commit
    env = RunDir(content.root / pack.RUNS / name).read_json(artifacts.ENV) or {}
    return env.get("benchrun"), env.get("commit")


def other_ending(content: Content, name: str) -> Iterator[Reason]:
    """Differences between an ending and what its evidence and its log give."""
    run = RunDir(content.root / pack.RUNS / name, read_only=True)
    stated = run.read(artifacts.ENDING, EndingRecord)
    if stated is None or (stated.ending is Ending.LAUNCH_FAILED and not run.logs):
        return
    log = None
    if run.logs:
        log = parse_log(*run.logs)
    planned = run.spec.planned_steps
    end = classified_again(
        stated.evidence,
        symptoms=log.symptoms if log else {},
        steps_seen=log.steps_made if log else 0,
        steps_planned=planned or 0,
    )
    # Older runs have no step in their ending.
    if log and stated.last_step is not None:
        end = end.model_copy(update={"last_step": log.steps.last_step})
    if log and stated.step_time_s is not None and end.ending is Ending.COMPLETED:
        end = end.model_copy(update={"step_time_s": recent_time(log.steps, planned)})
    pair = (stated.document(), end.document())
    for detail in islice(differences(*pair), SHOWN):
        yield Reason("ending", f"{pack.RUNS}/{name}/{artifacts.ENDING}", detail)
