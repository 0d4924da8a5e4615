"""Changes of a pack that a forger may make, and what ``verify`` says although all hashes were corrected."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tampering import edit, edit_json

from benchrun import paths
from benchrun.capabilities.acceptance import pack


def runs(root: Path) -> list[Path]:
    return sorted((root / pack.RUNS).iterdir())


def without_logs(root: Path) -> None:
    """Remove both logs of a run."""
    for log in runs(root)[0].glob("*.log.xz"):
        log.unlink()


def with_unused_recipe(root: Path) -> None:
    """Add a recipe that no run of the plan names."""
    (root / pack.RECIPES).mkdir()
    shutil.copy(paths.RECIPES / "tiny-llama.yaml", root / pack.RECIPES / "x.yaml")


Change = Callable[[Path], Any]
"""Changes a pack."""
FORGED: dict[str, tuple[Change, set[tuple[str, str]]]] = {
    "a number": (
        lambda root: edit_json(runs(root)[0] / "metrics.json", lambda m: m["step_time_s"].update(median=0.01)),
        {("numbers", "metrics.json")},
    ),
    "a key less": (
        lambda root: edit_json(runs(root)[0] / "metrics.json", lambda m: m.pop("problems")),
        {("numbers", "metrics.json")},
    ),
    "a swapped reference": (
        lambda root: edit_json(root / pack.REFERENCES, lambda r: r[0].update(value=r[0]["value"] / 2)),
        {("reference", "references.json")},
    ),
    "a reference in a verdict": (
        lambda root: edit_json(runs(root)[1] / "verdict.json", lambda v: v["checks"][0]["reference"].update(value=9.0)),
        {("verdict", "verdict.json")},
    ),
    "the verdict": (
        lambda root: edit_json(root / pack.ACCEPTANCE, lambda a: a["criteria"][0].update(passed=False)),
        {("verdict", "acceptance.json")},
    ),
    "a threshold": (
        lambda root: edit(root / pack.PLAN, lambda text: text.replace("100", "1")),
        {("verdict", "acceptance.json")},
    ),
    "the page": (
        lambda root: edit(root / pack.PAGE, lambda text: text.replace("ACCEPTED", "ACCEPTED WITH HONOURS")),
        {("report", "index.html")},
    ),
    "a page less": (lambda root: (root / pack.PAGE).unlink(), {("missing_file", "index.html")}),
    "a missing ending": (lambda root: (runs(root)[0] / "ending.json").unlink(), {("missing_file", "ending.json")}),
    "an empty ending": (lambda root: (runs(root)[0] / "ending.json").write_text(""), {("unreadable", "ending.json")}),
    "an added file": (lambda root: (root / "runs/notes.txt").write_text("x"), {("added_file", "notes.txt")}),
    "an added file of a run": (lambda root: (runs(root)[0] / "x.py").write_text("x"), {("added_file", "x.py")}),
    "a number beyond any": (
        lambda root: edit(root / pack.ACCEPTANCE, lambda t: t.replace('"point": 1', f'"point": 1{400 * "0"}', 1)),
        {("verdict", "acceptance.json")},
    ),
    "no JSON": (lambda root: (root / pack.ACCEPTANCE).write_text("accepted"), {("verdict", "acceptance.json")}),
    "no specification": (
        lambda root: (runs(root)[0] / "spec.json").write_text("{}"),
        {("unreadable", "spec.json")},
    ),
    "no plan": (lambda root: (root / pack.PLAN).write_text("- x"), {("unreadable", "plan.yaml:1")}),
    "a recipe outside": (
        lambda root: edit(root / pack.PLAN, lambda text: text.replace("tiny-llama", "../../tiny-llama.yaml")),
        {("unreadable", "plan.yaml")},
    ),
    "a recipe beside the pack": (
        lambda root: (
            shutil.copy(paths.RECIPES / "tiny-llama.yaml", root.parent),
            edit(root / pack.PLAN, lambda text: text.replace("tiny-llama", "../tiny-llama.yaml")),
        ),
        {("unreadable", "plan.yaml")},
    ),
    "a job script less": (lambda root: (runs(root)[0] / "job.sh").unlink(), {("missing_file", "job.sh")}),
    "a probe less": (lambda root: (runs(root)[1] / "probe.sh").unlink(), {("missing_file", "probe.sh")}),
    "an empty job script": (lambda root: (runs(root)[0] / "job.sh").write_text(""), {("script", "job.sh")}),
    "a line in a job script": (
        lambda root: edit(runs(root)[0] / "job.sh", lambda text: text + "rm -rf /\n"),
        {("script", "job.sh")},
    ),
    "a line in a probe": (
        lambda root: edit(runs(root)[0] / "probe.sh", lambda text: text + "rm -rf /\n"),
        {("script", "probe.sh")},
    ),
    "a script of another runtime": (
        lambda root: (runs(root)[0] / "contained.sh").write_text("rm -rf /"),
        {("added_file", "contained.sh")},
    ),
    "no errors": (lambda root: (runs(root)[0] / "stderr.log.xz").unlink(), {("missing_file", "stderr.log.xz")}),
    "no logs": (
        without_logs,
        {("missing_file", "stdout.log.xz"), ("missing_file", "stderr.log.xz")},
    ),
    "other evidence": (
        lambda root: edit_json(runs(root)[0] / "ending.json", lambda e: e.update(evidence=["all went well"])),
        {("ending", "ending.json")},
    ),
    "more evidence": (
        lambda root: edit_json(runs(root)[0] / "ending.json", lambda e: e["evidence"].append("oom: none")),
        {("ending", "ending.json")},
    ),
    "another time of a step": (
        lambda root: edit_json(runs(root)[0] / "ending.json", lambda e: e.update(step_time_s=0.001)),
        {("ending", "ending.json")},
    ),
    "another last step": (
        lambda root: edit_json(runs(root)[0] / "ending.json", lambda e: e.update(last_step=7)),
        {("ending", "ending.json")},
    ),
    "redacted, and not said so": (
        lambda root: edit_json(root / pack.MANIFEST, lambda m: m.update(redacted=False)),
        {("manifest", "manifest.json")},
    ),
    "a line of the site": (
        lambda root: edit_json(runs(root)[0] / "spec.json", lambda s: s["cluster"].update(setup=["rm -rf /"])),
        {("manifest", "spec.json")},
    ),
    "a recipe that no run uses": (
        with_unused_recipe,
        {("added_file", "x.yaml")},
    ),
    "telemetry of nothing": (
        lambda root: (runs(root)[0] / "telemetry.json").write_text("{}"),
        {("added_file", "telemetry.json")},
    ),
    "a log of nothing": (
        lambda root: (runs(root)[0] / "stdout.log.xz").write_bytes(b"no xz"),
        {("unreadable", "stdout.log.xz")},
    ),
}
