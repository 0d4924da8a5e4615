"""Evidence packs: what follows from the runs in one, and writing one."""

import contextlib
import json
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

import yaml

from benchrun import __version__, extensions
from benchrun.errors import UserError, writing
from benchrun.jobs.launcher import commit
from benchrun.recipes.catalogue import checked
from benchrun.recipes.files import is_own_file, recipe_document
from benchrun.recipes.yamlfile import Document, load
from benchrun.rundir import artifacts
from benchrun.rundir.folder import RunDir
from benchrun.runspec.identity import OF_THE_SITE
from benchrun.site.nodes import folded
from benchrun.usecases.keep import (
    kept_files,
    kept_name,
    scripts,
    scrubbed,
    site_words,
    verbatim_files,
)
from benchrun.usecases.measurement import measure_run, same_numbers, steps_text
from benchrun.usecases.reporting import report_on, run_data

from . import pack, unpack
from .criteria import Acceptance
from .judging import Appraisal, appraise, runs_of
from .plan import AcceptancePlan, ResolvedPlan, planned
from .view import leads

DERIVED = (
    artifacts.METRICS,
    artifacts.VERDICT,
    artifacts.STEPS,
    artifacts.TELEMETRY_SUMMARY,
    artifacts.FLEET,
)
"""Files of a run that are computed again from the others."""

DIGITS = 8
"""Hexadecimal digits of a pack's digest in its name."""


@dataclass(frozen=True)
class Recomputed:
    """Results computed from the evidence in a pack."""

    appraisal: Appraisal
    files: Mapping[str, str]
    """Path in the pack -> text."""


@dataclass(frozen=True)
class Pack:
    """A written pack."""

    path: Path
    digest: str
    """sha256 of its manifest."""
    acceptance: Acceptance


def plan_in(
    root: Path, manifest: pack.Manifest, file: AcceptancePlan, clusters: Path
) -> ResolvedPlan:
    """``file``, the plan of the pack at ``root`` or another, resolved for the clusters
    that the pack's runs state.

    These are written into the folder ``clusters``. UserError for a run that cannot be
    read, and for a plan that breaks a rule.
    """
    changes = {}
    for name, number in sorted(manifest.runs.items(), reverse=True):
        profile = clusters / f"{name}.yaml"
        profile.write_text(
            json.dumps(RunDir(root / pack.RUNS / name).spec.cluster.document()),
            encoding="utf-8",
        )
        changes[number] = changes[0] = {"cluster": str(profile)}
    return planned(manifest.plan, file, Document(pack.PLAN), changes)


def read_plan_in(root: Path) -> AcceptancePlan:
    """The plan of the pack at ``root``, with its recipes there. UserError for anything
    else.
    """
    file = checked(AcceptancePlan, load(root / pack.PLAN))
    runs = tuple(
        run.model_copy(update={"recipe": _recipe_in(root, run.recipe)}) for run in file.runs
    )
    return file.model_copy(update={"runs": runs})


def _recipe_in(root: Path, recipe: str) -> str:
    """The path of a recipe in the pack; a shipped one's name. UserError for a path
    outside the pack.
    """
    if not is_own_file(recipe):
        return recipe
    parts = PurePosixPath(recipe).parts
    if len(parts) != 2 or parts[0] != pack.RECIPES or parts[1] == "..":
        raise UserError(f"the recipe {recipe} is not in the pack", where=pack.PLAN)
    return str(root / recipe)


def derived(root: Path, manifest: pack.Manifest, plan: ResolvedPlan) -> Recomputed:
    """Compute everything in a pack except its report: measurements, verdicts, the
    references that they rest on.
    """
    runs: dict[int, list[RunDir]] = {}
    for name, number in manifest.runs.items():
        runs.setdefault(number, []).append(RunDir(root / pack.RUNS / name, read_only=True))
    appraisal = appraise(plan, runs)
    files = {pack.ACCEPTANCE: _json(appraisal.acceptance), pack.REFERENCES: _references(appraisal)}
    for run, result in appraisal.results.items():
        place = f"{pack.RUNS}/{run.run_id}"
        if measurement := appraisal.measurements.get(run):
            files[f"{place}/{artifacts.METRICS}"] = _json(measurement.metrics)
            files[f"{place}/{artifacts.STEPS}"] = steps_text(measurement.log)
            if measurement.samples:
                files[f"{place}/{artifacts.TELEMETRY_SUMMARY}"] = _json(measurement.samples)
        if result.verdict:
            files[f"{place}/{artifacts.VERDICT}"] = _json(result.verdict)
    for run, fleet in appraisal.fleets.items():
        files[f"{pack.RUNS}/{run.run_id}/{artifacts.FLEET}"] = _json(fleet)
    return Recomputed(appraisal, files)


def _json(model: Any) -> str:
    """The text of the file that holds ``model``."""
    return json.dumps(model.document(), indent=2) + "\n"


def _references(appraisal: Appraisal) -> str:
    """The reference numbers of all verdicts, each once."""
    used = {}
    for result in appraisal.results.values():
        if result.verdict:
            for check in result.verdict.checks:
                used[check.reference.id] = check.reference
    return json.dumps([used[name].document() for name in sorted(used)], indent=2) + "\n"


def report_page(root: Path, acceptance: Acceptance) -> str:
    """The report as one HTML file, the verdict with every criterion first; the runs of
    the pack are as they state.
    """
    data = []
    hosts: dict[str, None] = {}
    for point in acceptance.points:
        for name in (*point.runs, *point.other_runs):
            result = run_data(RunDir(root / pack.RUNS / name, read_only=True))
            data.append(result)
            for node in artifacts.objects(result.environment.get("nodes")):
                hosts[str(node.get("host"))] = None
    nodes = folded(list(hosts))
    with (root / pack.PLAN).open("rb") as stream:
        digest = pack.sha256(stream)
    page = extensions.capability("html.page", "page")
    title = f"Acceptance: {acceptance.plan}"
    text: str = page(report_on(data), title, leads=leads(acceptance, nodes, digest))
    return text


def write_pack(
    plan: ResolvedPlan, target: Path | None = None, *, packs: Path, redacted: bool = True
) -> Pack:
    """Write the evidence of every ended run of ``plan`` as an archive (``.tar.gz``) or
    a directory.

    Without ``target`` an archive in the folder ``packs``, named by its content: one
    that is there already stays. UserError if ``target`` exists, if no run has ended,
    and if the redacted logs would give other numbers.
    """
    runs = runs_of(plan)
    if not any(runs.values()):
        raise UserError("no run has ended: there is nothing to pack")
    if target is not None and target.exists():
        raise UserError(f"{target} exists", hint="nothing is overwritten: name a new one")
    folder = packs if target is None else target.absolute().parent
    with writing(target or packs), contextlib.ExitStack() as undo:
        folder.mkdir(parents=True, exist_ok=True)
        work = Path(tempfile.mkdtemp(prefix=".pack-", dir=folder))
        undo.callback(shutil.rmtree, work, ignore_errors=True)
        root = work / "pack"
        clusters = work / "clusters"
        clusters.mkdir()
        manifest = _write_evidence(plan, runs, root, redacted)
        result = derived(root, manifest, plan_in(root, manifest, read_plan_in(root), clusters))
        for name, text in result.files.items():
            (root / name).write_text(text, encoding="utf-8")
        (root / pack.PAGE).write_text(
            report_page(root, result.appraisal.acceptance), encoding="utf-8"
        )
        manifest = manifest.model_copy(update={"files": pack.hashes(root)})
        (root / pack.MANIFEST).write_text(_json(manifest), encoding="utf-8")
        digest = unpack.checked_content(root).digest
        path = target or packs / f"{manifest.plan}-{digest[:DIGITS]}{pack.ARCHIVE}"
        if not path.exists():
            _place(root, path, work)
    return Pack(path, digest, result.appraisal.acceptance)


def _place(root: Path, path: Path, work: Path) -> None:
    """Move a whole pack to its place: a half-written one never stands there."""
    if path.name.endswith(pack.ARCHIVES):
        whole = work / path.name
        pack.archive(root, whole)
        whole.rename(path)
    else:
        root.rename(path)


def _write_evidence(
    plan: ResolvedPlan, runs: Mapping[int, list[RunDir]], root: Path, redacted: bool
) -> pack.Manifest:
    """Write the plan, its own recipes and the files of ``runs``; the manifest without
    hashes.
    """
    points = {}
    words = (
        site_words(next(each.spec for each in plan.study.points if each.spec)) if redacted else []
    )
    for number, each in runs.items():
        for run in each:
            place = root / pack.RUNS / kept_name(run)
            points[place.name] = number
            files = (
                {**kept_files(run), **_fingerprint(run), **scripts(run)}
                if redacted
                else verbatim_files(run)
            )
            for file, content in files.items():
                if file in DERIVED:
                    continue
                (place / file).parent.mkdir(parents=True, exist_ok=True)
                (place / file).write_bytes(content)
            _same_numbers(run, RunDir(place, read_only=True))
    for recipe in {run.recipe for run in plan.file.runs if is_own_file(run.recipe)}:
        stem, document = recipe_document(recipe)
        (root / pack.RECIPES).mkdir(exist_ok=True)
        text = json.dumps(document, indent=2) + "\n"
        (root / pack.RECIPES / f"{stem}.yaml").write_text(
            scrubbed(text, (), words) if redacted else text, encoding="utf-8"
        )
    text = yaml.safe_dump(
        portable(plan.file, redacted=redacted), sort_keys=False, allow_unicode=True
    )
    (root / pack.PLAN).write_text(scrubbed(text, (), words) if redacted else text, encoding="utf-8")
    name = scrubbed(plan.name, (), words)
    return pack.Manifest(
        benchrun=__version__, commit=commit(), redacted=redacted, plan=name, runs=points, files={}
    )


def _same_numbers(run: RunDir, copy: RunDir) -> None:
    """UserError if the packed files of ``run`` give other numbers than its own."""
    if not same_numbers(measure_run(run), measure_run(copy)):
        hint = "--with-site packs the files as they are"
        raise UserError(
            f"{run.run_id}: without the site's names and paths its log gives other numbers",
            hint=hint,
        )


def portable(file: AcceptancePlan, *, redacted: bool) -> dict[str, Any]:
    """A plan as it stands in a pack: its own recipes by their name there; redacted
    without what names the site.
    """
    document: dict[str, Any] = json.loads(file.model_dump_json(exclude_unset=True))
    for run in document["runs"]:
        if is_own_file(run["recipe"]):
            run["recipe"] = f"{pack.RECIPES}/{Path(run['recipe']).stem}.yaml"
        if redacted and "set" in run:
            run["set"] = {key: value for key, value in run["set"].items() if not _of_the_site(key)}
    if redacted:
        document.pop("cluster", None)
    return document


def _of_the_site(key: str) -> bool:
    """Whether ``--set`` of ``key`` describes the machine, not the workload."""
    return key == "image" or key.startswith("cluster.") or bool(OF_THE_SITE.search(key))


def _fingerprint(run: RunDir) -> dict[str, bytes]:
    """The redacted fingerprint of a profiled run, by file name; empty for any other
    run.
    """
    if run.read_json(artifacts.FINGERPRINT) is None:
        return {}
    files: dict[str, bytes] = extensions.capability("traces.kept", "kept_fingerprint")(run)
    return files
