"""``benchrun verify``: an evidence pack is computed again from its logs, offline, and
compared with what it states.
"""

import json
import tempfile
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations, islice
from pathlib import Path, PurePosixPath
from typing import Any

from benchrun import __version__
from benchrun.errors import BenchrunError, UserError
from benchrun.frameworks.logs import parse_log
from benchrun.frameworks.registry import framework
from benchrun.jobs.launcher import commit
from benchrun.judge.copies import is_copy, times_of
from benchrun.rundir import artifacts
from benchrun.rundir.artifacts import FILES, STEPS, TELEMETRY, XZ, EndingRecord
from benchrun.rundir.folder import RunDir
from benchrun.runspec.identity import digest
from benchrun.runspec.spec import RunSpec
from benchrun.vocabulary import Exit

from . import pack, run_evidence, unpack
from .agreement import differences, json_differences
from .criteria import Acceptance
from .pack import Kind, Reason, Refused
from .packing import (
    DERIVED,
    Recomputed,
    derived,
    plan_in,
    portable,
    read_plan_in,
    report_page,
)
from .plan import AcceptancePlan, ResolvedPlan, read_plan
from .unpack import Content

SHOWN = 3
"""Differences of one file that are named."""


@dataclass(frozen=True)
class Verification:
    """Result of verifying a pack."""

    pack: str
    digest: str | None
    """sha256 of its manifest, which stands for every file; None if the manifest cannot
    be read.
    """
    reasons: tuple[Reason, ...]
    """Reason why it is refused; empty if it is not."""
    warnings: tuple[Reason, ...]
    acceptance: Acceptance | None
    """The verdict computed from its logs; None if it is refused."""

    @property
    def exit_code(self) -> Exit:
        """Exit code of the verdict; INCONCLUSIVE for a refused pack."""
        if self.acceptance:
            return self.acceptance.exit_code
        return Exit.INCONCLUSIVE

    def document(self) -> dict[str, Any]:
        """Document of ``verify --json``."""
        return {
            "schema_version": 1,
            "pack": self.pack,
            "digest": self.digest,
            "refused": bool(self.reasons),
            "reasons": [reason.model_dump() for reason in self.reasons],
            "warnings": [warning.model_dump() for warning in self.warnings],
            "acceptance": self.acceptance.document() if self.acceptance else None,
        }


def verify_pack(path: Path, own_plan: str | None = None) -> Verification:
    """Check the pack at ``path``. ``own_plan`` is a plan file that its plan must agree
    with. Writes nothing beside it.

    UserError if there is no such file.
    """
    if not path.exists():
        raise UserError(f"no such pack: {path}")
    expected = None
    if own_plan:
        expected = read_plan(own_plan)[1]
    content = None
    warnings = list[Reason]()
    with tempfile.TemporaryDirectory(prefix="benchrun-verify-") as folder:
        unpacked = Path(folder, "pack")
        clusters = Path(folder, "clusters")
        unpacked.mkdir()
        clusters.mkdir()
        try:
            content = unpack.checked_content(unpack.opened(path, unpacked))
            versions = [*_version(content)]
            warnings += [*versions, *_own_recipes(content)]
            plan, result = _recomputed(content, clusters, expected)
        except Refused as error:
            digest = None
            if content:
                digest = content.digest
            return Verification(str(path), digest, error.reasons, tuple(warnings), None)
        reasons = [
            *_other_runs(content, plan),
            *_disagreements(content, result, same_version=not versions),
        ]
        for reason, same_version in _other_statements(content, same_version=not versions):
            (reasons if same_version else warnings).append(reason)
        if not reasons and (page := _other_page(content, result.appraisal.acceptance)):
            (warnings if versions else reasons).append(page)
    acceptance = None
    if not reasons:
        acceptance = result.appraisal.acceptance
    return Verification(str(path), content.digest, tuple(reasons), tuple(warnings), acceptance)


def _recomputed(
    content: Content, clusters: Path, expected: AcceptancePlan | None
) -> tuple[ResolvedPlan, Recomputed]:
    """The plan of a pack and what follows from its logs. Refused if the evidence is
    incomplete or damaged.
    """
    if reasons := list(_unexpected(content)):
        raise Refused(*reasons)
    try:
        file = read_plan_in(content.root)
        if reasons := [
            *_unused_recipes(content, file),
            *run_evidence.redaction(content),
            *_other_plan(file, expected),
        ]:
            raise Refused(*reasons)
        plan = plan_in(content.root, content.manifest, file, clusters)
        if expected:
            reasons += _other_recipes(
                plan, plan_in(content.root, content.manifest, expected, clusters)
            )
        for name, n in content.manifest.runs.items():
            if n not in plan.numbered:
                reasons.append(_no_point(name))
        if reasons:
            raise Refused(*reasons)
        return plan, derived(content.root, content.manifest, plan)
    except Refused:
        raise
    except BenchrunError as error:
        place = (error.where or pack.PLAN).removeprefix(f"{content.root}/")
        raise Refused(Reason("unreadable", place, error.message)) from error
    except (ValueError, KeyError, TypeError, RecursionError, OSError) as error:
        raise Refused(Reason("unreadable", pack.MANIFEST, f"damaged: {error}")) from error


def _unexpected(content: Content) -> Iterator[Reason]:
    """Files that no pack has, files that a run lacks, and endings that cannot be read."""
    listed = content.manifest.files
    runs = {}
    for run in content.manifest.runs:
        runs[run] = {*FILES, *_framework_files(content.root, run)}
    for name in listed:
        if not _has_place(name, runs):
            yield Reason("added_file", name, "no file of a pack")
    for run in content.manifest.runs:
        yield from run_evidence.missing_files(content, run)
        ending = f"{pack.RUNS}/{run}/{artifacts.ENDING}"
        if (
            ending in listed
            and RunDir(content.root / pack.RUNS / run).read(artifacts.ENDING, EndingRecord) is None
        ):
            # Without its ending a failed run would pass for one that ended well.
            yield Reason("unreadable", ending, "not what benchrun writes")
    if pack.PLAN not in listed:
        yield Reason("missing_file", pack.PLAN, "a pack needs it")


def _has_place(name: str, runs: Mapping[str, Collection[str]]) -> bool:
    """Whether the layout of a pack has a file of this path. ``runs``: the files that
    each run may have.
    """
    parts = PurePosixPath(name).parts
    if len(parts) == 1:
        return name in (pack.PLAN, pack.ACCEPTANCE, pack.REFERENCES, pack.PAGE)
    if parts[0] == pack.RECIPES:
        return len(parts) == 2 and name.endswith(".yaml")
    if parts[0] != pack.RUNS or parts[1] not in runs:
        return False
    if len(parts) == 4:
        folders = {TELEMETRY: f".csv{XZ}", artifacts.NODES: ".json"}
        return parts[2] in folders and parts[3].endswith(folders[parts[2]])
    return len(parts) == 3 and parts[2].removesuffix(XZ) in runs[parts[1]]


def _framework_files(root: Path, run: str) -> tuple[str, ...]:
    """Files that the framework of a run adds to it."""
    try:
        return tuple(framework(RunDir(root / pack.RUNS / run).spec.framework).files)
    except BenchrunError:
        return ()


def _version(content: Content) -> Iterator[Reason]:
    """A warning if another benchrun wrote the pack."""
    wrote = (content.manifest.benchrun, content.manifest.commit)
    reads = (__version__, commit())
    if wrote != reads:
        writer = " at ".join(filter(None, wrote))
        reader = " at ".join(filter(None, reads))
        detail = f"written by benchrun {writer}, verified by {reader}: their rules and references may differ"
        yield Reason("version", pack.MANIFEST, detail)


def _other_plan(of_pack: AcceptancePlan, agreed: AcceptancePlan | None) -> Iterator[Reason]:
    """Differences between the pack's plan and the one that was agreed, the site and the
    description apart.
    """
    if agreed is not None:
        for detail in differences(
            _essence(of_pack), _essence(agreed), names=("the pack has", "your plan")
        ):
            yield Reason("plan", pack.PLAN, detail)


def _other_recipes(of_pack: ResolvedPlan, agreed: ResolvedPlan) -> Iterator[Reason]:
    """Points that differ although both plans name them alike: two recipes may have one
    name.
    """
    pairs = zip(of_pack.study.points, agreed.study.points, strict=True)
    for number, pair in enumerate(pairs, 1):
        works = {each.spec and _work(each.spec) for each in pair}
        if len(works) > 1:
            yield Reason(
                "plan", pack.PLAN, f"the recipe of point {number} is not that of your plan"
            )


def _own_recipes(content: Content) -> Iterator[Reason]:
    """A warning for each recipe that the pack brings along: its name may be a shipped
    one's.
    """
    for name in content.manifest.files:
        if name.startswith(f"{pack.RECIPES}/"):
            yield Reason(
                "plan", name, "not a recipe of benchrun: read what it trains, or use --plan"
            )


def _unused_recipes(content: Content, file: AcceptancePlan) -> Iterator[Reason]:
    """Recipes in the pack that no run of its plan has."""
    used = {run.recipe for run in file.runs}
    for name in content.manifest.files:
        if name.startswith(f"{pack.RECIPES}/") and str(content.root / name) not in used:
            yield Reason("added_file", name, "no run of the plan uses it")


def _other_statements(content: Content, *, same_version: bool) -> Iterator[tuple[Reason, bool]]:
    """Scripts and endings that do not follow from specification and log, and whether
    this benchrun wrote them.
    """
    own = (__version__, commit())
    for run in content.manifest.runs:
        for reason in run_evidence.other_scripts(content, run):
            yield reason, run_evidence.written_by(content, run) == own
        for reason in run_evidence.other_ending(content, run):
            yield reason, same_version


def _essence(file: AcceptancePlan) -> dict[str, Any]:
    """Parts of a plan that decide: runs, repeats, criteria, the check of nodes."""
    document = json.loads(
        AcceptancePlan.model_validate(portable(file, redacted=True)).model_dump_json()
    )
    return {key: document[key] for key in ("runs", "repeats", "criteria", "nodes_check")}


def _no_point(run: str) -> Reason:
    return Reason("run", f"{pack.RUNS}/{run}", "the plan has no such point")


def _other_runs(content: Content, plan: ResolvedPlan) -> Iterator[Reason]:
    """Runs that are not of their point, and copies of a run."""
    for run, number in content.manifest.runs.items():
        spec = RunDir(content.root / pack.RUNS / run).spec
        wanted = plan.numbered[number].spec
        if wanted is not None and _work(spec) != _work(wanted):
            detail = f"its specification is not that of point {number} of the plan"
            yield Reason("run", f"{pack.RUNS}/{run}/{artifacts.SPEC}", detail)
    times = {}
    steps = {}
    for run in sorted(content.manifest.runs):
        steps[run] = content.manifest.files.get(f"{pack.RUNS}/{run}/{STEPS}")
        if logs := RunDir(content.root / pack.RUNS / run, read_only=True).logs:
            times[run] = times_of(parse_log(*logs))
    for one, other in combinations(filter(times.get, times), 2):
        if steps[one] == steps[other] or is_copy(times[one], times[other]):
            detail = f"the same steps as {one}: a run was copied"
            yield Reason("run", f"{pack.RUNS}/{other}/{STEPS}", detail)


def _work(spec: RunSpec) -> tuple[str, ...]:
    """Work of a run, and the machine it needs; the site's own build of the image does
    not count.
    """
    return (
        spec.recipe,
        spec.framework,
        spec.gpu,
        str(spec.num_gpus),
        digest(spec, without=("image",)),
    )


def _other_page(content: Content, acceptance: Acceptance) -> Reason | None:
    """A reason if the report is not the one that the runs give."""
    try:
        stated = (content.root / pack.PAGE).read_text(errors="replace", encoding="utf-8")
        same = stated == report_page(content.root, acceptance)
    except BenchrunError as error:
        place = (error.where or "").removeprefix(f"{content.root}/")
        return Reason("unreadable", place, error.message)
    if same:
        return None
    return Reason("report", pack.PAGE, "not the page that the runs give")


def _disagreements(content: Content, result: Recomputed, *, same_version: bool) -> Iterator[Reason]:
    """Claims of the pack that its logs do not give, the report apart."""
    stated = set()
    for name in content.manifest.files:
        if PurePosixPath(name).name in DERIVED or "/" not in name:
            stated.add(name)
    for name in sorted(stated - result.files.keys() - {pack.PLAN, pack.PAGE}):
        yield Reason("added_file", name, "nothing in the pack gives it")
    for name in sorted({*result.files, pack.PAGE} - stated):
        yield Reason("missing_file", name, "a pack states what its logs give")
    for name in sorted(stated & result.files.keys()):
        text = (content.root / name).read_text(errors="replace", encoding="utf-8")
        if text == result.files[name]:
            continue
        for detail in islice(json_differences(text, result.files[name], same_version), SHOWN):
            yield Reason(_kind(name), name, detail)


def _kind(name: str) -> Kind:
    kinds: dict[str, Kind] = {
        pack.REFERENCES: "reference",
        pack.ACCEPTANCE: "verdict",
        artifacts.VERDICT: "verdict",
    }
    return kinds.get(PurePosixPath(name).name, "numbers")
