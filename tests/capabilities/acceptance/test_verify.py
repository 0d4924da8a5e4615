"""Evidence packs: what is in one, and that a pack which was tampered with is refused for the right reason."""

import hashlib
import json
import os
import re
import shutil
import tarfile
from pathlib import Path
from typing import Any

import pytest
from calling import call
from forgeries import FORGED, Change, runs
from selection import some
from tampering import archive_of, edit, edit_json, fix_manifest, plan_file

from benchrun import api, paths
from benchrun.capabilities.acceptance import pack, unpack
from benchrun.capabilities.acceptance import packing as packs
from benchrun.capabilities.acceptance.verification import Verification
from benchrun.errors import UserError
from benchrun.judge.references import load_references
from benchrun.rundir.find import find_runs

LOSS = next(
    entry.value
    for entry in load_references()
    if (entry.key.recipe, entry.metric, entry.key.precision, entry.key.num_gpus)
    == ("tiny-llama", "final_loss", "fp32", 1)
)
"""So that the verdict rests on a reference."""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a plan whose runs have ended."""
    folder = tmp_path_factory.mktemp("site")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("BENCHRUN_RESULTS", str(folder))
        api.run_study(api.plan_acceptance(str(plan_file(folder, LOSS))).study, concurrency=1)
        api.write_pack(api.plan_acceptance(str(folder / "mine.yaml")), folder / "pack", packs=folder)
    return folder


@pytest.fixture
def root(site: Path, tmp_path: Path) -> Path:
    """A copy of the pack, which a test may change."""
    return Path(shutil.copytree(site / "pack", tmp_path / "pack"))


def kinds(verification: Verification) -> set[tuple[str, str]]:
    """Kind and file of each reason; of a run's file its last part."""
    assert verification.exit_code == 4 and verification.acceptance is None
    return {(reason.kind, Path(reason.file).name) for reason in verification.reasons}


def test_a_good_pack_gives_the_verdict_that_it_states_on_any_machine(root: Path, monkeypatch: Any) -> None:
    monkeypatch.setenv("BENCHRUN_RESULTS", "/nonexistent")
    verification = api.verify_pack(root)
    assert (verification.reasons, verification.warnings, verification.exit_code) == ((), (), 0)
    assert verification.acceptance is not None
    assert verification.acceptance.model_dump(mode="json") == json.loads((root / pack.ACCEPTANCE).read_text())
    assert len(verification.acceptance.points[0].runs) == 2
    assert json.loads((root / pack.REFERENCES).read_text())[0]["value"] == LOSS


def test_the_page_has_every_criterion_and_every_run(root: Path) -> None:
    text = (root / pack.PAGE).read_text()
    assert hashlib.sha256((root / pack.PLAN).read_bytes()).hexdigest() in text
    assert "<span class=good>passed</span>" in text
    for word in ("ACCEPTED", "at_least tokens_per_s_per_gpu", "max_spread_percent", *(run.name for run in runs(root))):
        assert word in text
    assert not re.search(r"""(src|href)=["']?http""", text)


def test_the_site_is_not_in_the_pack_unless_asked(site: Path, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setenv("BENCHRUN_RESULTS", str(site))
    plan = api.plan_acceptance(str(site / "mine.yaml"))
    api.write_pack(plan, tmp_path / "open", packs=tmp_path, redacted=False)
    assert api.verify_pack(tmp_path / "open").exit_code == 0

    def text_of(folder: Path) -> str:
        import lzma

        files = [path for path in folder.rglob("*") if path.is_file()]
        unpacked = (lzma.decompress(f.read_bytes()) if f.suffix == ".xz" else f.read_bytes() for f in files)
        return "\n".join(content.decode() for content in unpacked)

    private = ("secretpartition", str(site))
    assert [word in text_of(site / "pack") for word in private] == [False, False]
    assert [word in text_of(tmp_path / "open") for word in private] == [True, True]
    names = {path.name for path in runs(tmp_path / "open")[0].iterdir()}
    assert {"job.sh", "done.json", "events.jsonl", "spec.json", "env.json", "stdout.log.xz", "metrics.json"} <= names


def checked(folder: Path, redacted: bool, speeds: dict[int, float]) -> Any:
    """The acceptance of a plan with a check of nodes, whose pack is ``folder``/pack."""
    path = plan_file(folder, LOSS, speeds=speeds, repeats=1, criteria={}, nodes_check=1)
    plan = api.plan_acceptance(str(path))
    api.run_study(plan.check, concurrency=1)
    api.run_study(plan.study, concurrency=1)
    appraisal = api.appraise(plan, api.runs_of(plan))
    api.store_appraisal(appraisal)
    written = api.write_pack(plan, folder / "pack", packs=folder, redacted=redacted).acceptance
    assert written.verdict == appraisal.acceptance.verdict
    return written


def check_in(root: Path) -> Path:
    """The folder of the check of nodes in a pack."""
    (name,) = [run.name for run in runs(root) if run.name.startswith("nodes-")]
    assert json.loads((root / pack.MANIFEST).read_text())["runs"][name] == 0
    return root / pack.RUNS / name


@pytest.mark.parametrize("redacted", [True, False])
def test_a_slow_node_fails_the_plan_and_stands_in_its_pack(tmp_path: Path, monkeypatch: Any, redacted: bool) -> None:
    monkeypatch.setenv("BENCHRUN_RESULTS", str(tmp_path))
    acceptance = checked(tmp_path, redacted, {3: 0.5})
    criterion = acceptance.criteria[0]
    assert (criterion.criterion, criterion.measured, criterion.threshold) == ("nodes_check", 0, 1)
    assert (criterion.passed, acceptance.verdict, len(criterion.runs)) == (False, "not_accepted", 1)
    assert {each.passed for each in acceptance.criteria[1:]} == {True}
    root = tmp_path / "pack"
    assert len([*(check_in(root) / "nodes").iterdir()]) == 8
    text = "".join(file.read_text() for file in (check_in(root) / "nodes").iterdir())
    assert [word in text for word in ("GPU-", os.uname().nodename)] == [not redacted, not redacted]
    assert ", GPU 3: products" in (root / pack.PAGE).read_text()
    verification = api.verify_pack(root)
    assert (verification.reasons, verification.acceptance, verification.exit_code) == ((), acceptance, 1)
    shown = call("verify", str(root))
    assert "GPU 3: products" in shown.stdout


def test_a_forged_measurement_of_a_node_is_refused(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setenv("BENCHRUN_RESULTS", str(tmp_path))
    acceptance = checked(tmp_path, True, {3: 0.5})
    root = tmp_path / "pack"
    check = check_in(root)
    slow, other = (check / "nodes" / f"node1.{rank}.json" for rank in (3, 4))
    rates = json.loads(other.read_text())["rates"]
    edit_json(slow, lambda document: document.update(rates=rates))
    assert kinds(api.verify_pack(root)) == {("changed_file", slow.name)}
    fix_manifest(root)
    assert kinds(api.verify_pack(root)) == {("numbers", "fleet.json"), ("verdict", "acceptance.json")}
    slow.unlink()
    fix_manifest(root)
    assert {("numbers", "fleet.json"), ("verdict", "acceptance.json")} == kinds(api.verify_pack(root))
    slow.write_text("{}")
    fix_manifest(root)
    assert kinds(api.verify_pack(root)) == {("unreadable", slow.name)}
    assert acceptance.verdict == "not_accepted"


def test_a_plan_without_its_check_is_inconclusive(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setenv("BENCHRUN_RESULTS", str(tmp_path))
    acceptance = checked(tmp_path, True, {})
    assert (acceptance.verdict, acceptance.criteria[0].measured) == ("accepted", 1)
    root = tmp_path / "pack"
    check = check_in(root)

    def without_check(root: Path) -> None:
        shutil.rmtree(check)
        edit_json(root / pack.MANIFEST, lambda manifest: manifest["runs"].pop(check.name))

    shutil.copytree(root, tmp_path / "copy" / "pack")
    consistent(root, without_check)
    verification = api.verify_pack(root)
    assert (verification.exit_code, verification.reasons) == (4, ())
    assert verification.acceptance is not None
    assert verification.acceptance.criteria[0].passed is None
    root = tmp_path / "copy" / "pack"
    edit(root / pack.PLAN, lambda text: text.replace("nodes_check: 1\n", ""))
    fix_manifest(root)
    assert ("run", check.name) in kinds(api.verify_pack(root))


def test_an_archive_has_the_same_bytes_each_time(site: Path, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setenv("BENCHRUN_RESULTS", str(site))
    plan = api.plan_acceptance(str(site / "mine.yaml"))
    first = api.write_pack(plan, packs=tmp_path)
    again = api.write_pack(plan, tmp_path / first.path.name.replace("mine", "mine"[:4] + "-2"), packs=tmp_path)
    assert (first.digest, api.write_pack(plan, packs=tmp_path).path) == (again.digest, first.path)
    assert api.verify_pack(first.path).digest == first.digest
    assert len([path for path in tmp_path.iterdir() if not path.name.startswith("pytest")]) == 2
    with pytest.raises(UserError, match="nothing is overwritten"):
        api.write_pack(plan, again.path, packs=tmp_path)


def digit(text: str) -> str:
    """One digit of the time of a late step."""
    place = text.rindex("per iteration (ms): 1") + len("per iteration (ms): 1")
    return text[:place] + ("9" if text[place] != "9" else "8") + text[place + 1 :]


def test_a_digit_in_a_log(root: Path) -> None:
    edit(runs(root)[0] / "stdout.log.xz", digit)
    assert kinds(api.verify_pack(root)) == {("changed_file", "stdout.log.xz")}
    fix_manifest(root)
    found = kinds(api.verify_pack(root))
    assert {("numbers", "metrics.json"), ("numbers", "steps.jsonl")} <= found
    assert {kind for kind, _ in found} <= {"numbers", "verdict"}


@pytest.mark.parametrize("name", some(FORGED, 12))
def test_a_forger_who_fixes_the_hashes_is_caught_by_the_numbers(root: Path, name: str) -> None:
    change, reasons = FORGED[name]
    change(root)
    fix_manifest(root)
    assert kinds(api.verify_pack(root)) == reasons


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda root: (root / pack.REFERENCES).unlink(), ("missing_file", "references.json")),
        (lambda root: (root / "extra.txt").write_text("x"), ("added_file", "extra.txt")),
        (lambda root: (root / pack.PLAN).write_text("x: 1"), ("changed_file", "plan.yaml")),
        (lambda root: (root / pack.MANIFEST).unlink(), ("missing_file", "manifest.json")),
        (lambda root: (root / pack.MANIFEST).write_text("{}"), ("manifest", "manifest.json")),
        (
            lambda root: edit_json(root / pack.MANIFEST, lambda m: m["runs"].update({"../x": 1})),
            ("manifest", "manifest.json"),
        ),
        (lambda root: (root / "runs/link").symlink_to("/etc/passwd"), ("unsafe_path", "link")),
        (lambda root: (root / "folder").symlink_to("/etc"), ("unsafe_path", "folder")),
    ],
)
def test_files_that_are_not_those_of_the_manifest(root: Path, change: Change, reason: tuple[str, str]) -> None:
    change(root)
    assert kinds(api.verify_pack(root)) == {reason}


def another_digit(match: "re.Match[str]") -> str:
    return match[1] + ("8" if match[2] == "9" else "9")


@pytest.mark.parametrize("with_a_changed_digit", [False, True])
def test_a_run_that_stands_twice(root: Path, with_a_changed_digit: bool) -> None:
    first, second = runs(root)
    for file in first.iterdir():
        shutil.copy(file, second / file.name)
    if with_a_changed_digit:
        for name in ("stdout.log.xz", "steps.jsonl"):
            edit(second / name, lambda text: re.sub(r"(0\.1\d*|1\d\d\.\d\d)(\d)", another_digit, text, count=1))
    fix_manifest(root)
    found = api.verify_pack(root)
    assert ("run", "steps.jsonl") in kinds(found)
    assert any("was copied" in reason.detail for reason in found.reasons)


def test_a_run_of_other_work(root: Path) -> None:
    edit_json(runs(root)[0] / "spec.json", lambda spec: spec["training"].update(lr=0.5))
    fix_manifest(root)
    assert ("run", "spec.json") in kinds(api.verify_pack(root))


def test_a_run_of_no_point(root: Path) -> None:
    edit_json(root / pack.MANIFEST, lambda manifest: manifest["runs"].update({runs(root)[0].name: 7}))
    assert {kind for kind, _ in kinds(api.verify_pack(root))} == {"run"}


def consistent(root: Path, change: Change) -> None:
    """Change a pack and compute everything again that follows, as only benchrun itself can."""
    change(root)
    manifest = pack.Manifest.model_validate_json((root / pack.MANIFEST).read_text())
    clusters = root.parent / "clusters"
    clusters.mkdir()
    plan = packs.plan_in(root, manifest, packs.read_plan_in(root), clusters)
    result = packs.derived(root, manifest, plan)
    for name, text in result.files.items():
        (root / name).write_text(text)
    (root / pack.PAGE).write_text(packs.report_page(root, result.appraisal.acceptance))
    fix_manifest(root)


def test_another_plan_than_the_agreed_one_is_refused(site: Path, root: Path) -> None:
    agreed = str(site / "mine.yaml")
    assert api.verify_pack(root, agreed).exit_code == 0
    consistent(root, lambda root: edit(root / pack.PLAN, lambda text: text.replace("100", "1")))
    assert api.verify_pack(root).exit_code == 0
    found = api.verify_pack(root, agreed)
    assert kinds(found) == {("plan", "plan.yaml")}
    assert "tokens_per_s_per_gpu: the pack has 1.0, your plan 100.0" in found.reasons[0].detail


def test_the_digest_is_another_one_after_a_consistent_change(root: Path) -> None:
    before = api.verify_pack(root).digest
    consistent(root, lambda root: edit(root / pack.PLAN, lambda text: text.replace("100", "1")))
    assert api.verify_pack(root).digest != before


@pytest.mark.parametrize(("least", "code"), [(1e9, 1), (1, 0)])
def test_the_exit_code_is_that_of_the_verdict(root: Path, least: float, code: int) -> None:
    consistent(root, lambda root: edit(root / pack.PLAN, lambda text: text.replace("100.0", str(least))))
    assert api.verify_pack(root).exit_code == code


def test_a_run_less_is_inconclusive(root: Path) -> None:
    def without_one(root: Path) -> None:
        gone = runs(root)[0]
        shutil.rmtree(gone)
        edit_json(root / pack.MANIFEST, lambda manifest: manifest["runs"].pop(gone.name))

    consistent(root, without_one)
    verification = api.verify_pack(root)
    assert (verification.exit_code, verification.reasons) == (4, ())
    assert verification.acceptance is not None and verification.acceptance.verdict == "inconclusive"


@pytest.mark.parametrize("redacted", [True, False])
def test_failed_runs_are_evidence_too(tmp_path: Path, monkeypatch: Any, redacted: bool) -> None:
    monkeypatch.setenv("BENCHRUN_RESULTS", str(tmp_path))
    path = plan_file(tmp_path, LOSS, repeats=1, criteria={})
    (tmp_path / "program.sh").write_text("#!/bin/bash\nexit 7\n")
    plan = api.plan_acceptance(str(path))
    api.run_study(plan.study, concurrency=1, retries=1)
    acceptance = api.write_pack(plan, tmp_path / "pack", packs=tmp_path, redacted=redacted).acceptance
    assert (acceptance.exit_code, len(acceptance.points[0].other_runs)) == (1, 2)
    assert "failed" in (acceptance.criteria[1].reason or "")
    verification = api.verify_pack(tmp_path / "pack")
    assert (verification.reasons, verification.acceptance, verification.exit_code) == ((), acceptance, 1)


def test_a_recipe_of_the_users_own_travels_with_the_pack(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setenv("BENCHRUN_RESULTS", str(tmp_path))
    recipe = tmp_path / "mymodel.yaml"
    recipe.write_text((paths.RECIPES / "tiny-llama.yaml").read_text())
    path = plan_file(tmp_path, LOSS, repeats=1, criteria={})
    edit(path, lambda text: text.replace('"tiny-llama"', json.dumps(str(recipe))))
    plan = api.plan_acceptance(str(path))
    api.run_study(plan.study, concurrency=1)
    api.write_pack(plan, tmp_path / "pack", packs=tmp_path)
    recipe.unlink()
    verification = api.verify_pack(tmp_path / "pack")
    assert (verification.reasons, verification.exit_code) == ((), 0)
    assert [(warning.kind, warning.file) for warning in verification.warnings] == [("plan", "recipes/mymodel.yaml")]
    edit(tmp_path / "pack/recipes/mymodel.yaml", lambda text: text.replace('"num_layers": 4', '"num_layers": 3'))
    fix_manifest(tmp_path / "pack")
    assert ("run", "spec.json") in kinds(api.verify_pack(tmp_path / "pack"))


def test_another_version_is_a_warning_and_its_page_another(root: Path) -> None:
    edit_json(root / pack.MANIFEST, lambda manifest: manifest.update(benchrun="0.0.9", commit=None))
    found = api.verify_pack(root)
    assert [warning.kind for warning in found.warnings] == ["version"]
    assert found.exit_code == 0
    edit(root / pack.PAGE, lambda text: text.replace("<h2>Verdict", "<h2>Old words"))
    fix_manifest(root)
    assert [warning.kind for warning in api.verify_pack(root).warnings] == ["version", "report"]


def member(name: str, kind: bytes = tarfile.REGTYPE, target: str = "", size: int = 0) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname, info.size = kind, target, size
    return info


@pytest.mark.parametrize(
    "extra",
    [
        member("mine/../../escaped", size=3),
        member("/absolute", size=3),
        member("mine/link", tarfile.SYMTYPE, "/etc/passwd"),
        member("mine/hard", tarfile.LNKTYPE, "mine/plan.yaml"),
        member("mine/device", tarfile.CHRTYPE),
        member("mine/plan.yaml", size=3),
    ],
    ids=lambda info: info.name,
)
def test_an_archive_with_a_path_outside_or_a_link(root: Path, tmp_path: Path, extra: tarfile.TarInfo) -> None:
    if extra.name == "/absolute":
        extra.name = str(tmp_path / "escaped")
    (reason,) = api.verify_pack(archive_of(root, tmp_path / "mine.tar.gz", extra)).reasons
    assert (reason.kind, reason.file) == ("unsafe_path", extra.name)
    assert not (tmp_path / "escaped").exists()


def test_an_archive_that_is_cut_off_too_large_or_none(root: Path, tmp_path: Path, monkeypatch: Any) -> None:
    whole = archive_of(root, tmp_path / "mine.tar.gz")
    assert api.verify_pack(whole).exit_code == 0
    cut = tmp_path / "cut.tar.gz"
    cut.write_bytes(whole.read_bytes()[:-2000])
    none = tmp_path / "none.tar.gz"
    none.write_text("hello")
    two = archive_of(root, tmp_path / "two.tar.gz", member("other/file", size=3))
    for path in (cut, none, two):
        assert {reason.kind for reason in api.verify_pack(path).reasons} == {"unreadable"}
    monkeypatch.setattr(unpack, "MOST_LOG_BYTES", 100)
    assert {reason.kind for reason in api.verify_pack(root).reasons} == {"unreadable"}
    monkeypatch.setattr(unpack, "MOST_BYTES", 10_000)
    assert {reason.kind for reason in api.verify_pack(whole).reasons} == {"unreadable"}
    with pytest.raises(UserError):
        api.verify_pack(tmp_path / "absent.tar.gz")


def test_the_commands_answer_with_these_codes(site: Path, root: Path, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setenv("BENCHRUN_RESULTS", str(site))
    planned = call("plan", str(site / "mine.yaml"), "--dry-run", "--json")
    document = json.loads(planned.stdout)
    assert (planned.returncode, document["study"]["runs"], document["pack"]) == (0, 2, None)
    done = call("plan", str(site / "mine.yaml"), "--pack", str(tmp_path / "done.tar.gz"), "--json")
    document = json.loads(done.stdout)
    assert (done.returncode, document["verdict"]) == (0, "accepted")
    assert len(find_runs()) == 2  # none was launched again
    keys = ["point", "criterion", "threshold", "measured", "unit", "passed", "reason", "runs"]
    assert all(list(criterion) == keys for criterion in document["criteria"])
    verified = call("verify", str(tmp_path / "done.tar.gz"), "--json")
    assert (verified.returncode, json.loads(verified.stdout)["digest"]) == (0, document["pack"]["digest"])
    again = call("plan", str(site / "mine.yaml"), "--report", "--pack", str(tmp_path / "done.tar.gz"))
    assert again.returncode == 2
    edit(runs(root)[0] / "stdout.log.xz", digit)
    (root / "x\x1b[2J").write_text("a name that would clear the screen")
    refused = call("verify", str(root))
    assert "\x1b" not in refused.stdout
    assert (refused.returncode, "REFUSED" in refused.stdout, "changed file" in refused.stdout) == (4, True, True)
    assert call("plan", "no-such-plan").returncode == 2
