"""Kept runs are read from archives as from folders, and kept into them."""

import io
import json
import lzma
import os
import subprocess
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import kept_runs
import pytest
from selection import representative
from test_measured import finished, spec_of

from benchrun import api, kept, paths
from benchrun.cli import main
from benchrun.errors import UserError
from benchrun.frameworks.logs import parse_log
from benchrun.judge.measured import load_measured
from benchrun.rundir.find import find_runs, open_run
from benchrun.rundir.folder import RunDir
from benchrun.show.table import step_lines
from benchrun.usecases.measurement import index_entry
from hatch_build import packed as of_a_wheel

FEW = [run.name for run in kept_runs.named("grok1-314b-*")[:2]]
PROFILED = "llama3.1-8b-3d2e1113-20261123T032821Z-6cac"
SECOND, THIRD = (run.name for run in kept_runs.named("llama3.1-8b-2c0cb897-*")[:2])
HERE = f"results/measured/{PROFILED}"


def index(folder: Path, names: list[str], archive: str = "a.tar.xz") -> None:
    entries = kept.entries(paths.MEASURED)
    known = {name: {**entries[name], "archive": archive} for name in names}
    (folder / kept.INDEX).write_text(kept.index_text(known))


def packed(folder: Path, names: list[str] = FEW, **changed: bytes) -> Path:
    """A folder with a few runs in one archive, some of whose documents are changed."""
    members = {}
    for name in names:
        for file, content in kept.files_of(kept_runs.folder(name)).items():
            members[f"{name}/{file}"] = changed.get(Path(file).stem, content)
    folder.mkdir()
    (folder / "a.tar.xz").write_bytes(kept.archived(members))
    index(folder, names)
    return folder


def test_an_archive_holds_the_same_runs_as_folders(tmp_path: Path) -> None:
    for name in FEW:
        for file, content in kept.files_of(kept_runs.folder(name)).items():
            place = tmp_path / "folders" / name / file
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(content)
    one, other = load_measured(packed(tmp_path / "packed")), load_measured(tmp_path / "folders")
    assert [run.name for run in one] == [run.name for run in other] == FEW
    for a, b in zip(one, other, strict=True):
        assert (a.spec, a.metrics, a.env, a.ceilings) == (b.spec, b.metrics, b.env, b.ceilings)
        assert (a.steps, a.losses, a.fingerprint) == (b.steps, b.losses, b.fingerprint)
        assert len(a.steps) > 5


def test_a_wheel_carries_every_run_in_small_files(tmp_path: Path) -> None:
    files = of_a_wheel(paths.MEASURED)
    assert sum(map(len, files.values())) < 300_000
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    assert [(run.name, run.spec, run.metrics, run.steps) for run in load_measured(tmp_path)] == [
        (run.name, run.spec, run.metrics, run.steps) for run in load_measured()
    ]


@pytest.mark.parametrize("name", representative(kept_runs.named(file="steps.jsonl")), ids=lambda run: run.name)
def test_the_steps_of_a_kept_run_are_those_of_its_log(name: Path) -> None:
    run = kept_runs.folder(name)
    log = parse_log(*sorted(run.glob("*.log.xz")))
    assert (run / "steps.jsonl").read_text().splitlines() == list(step_lines(log.distinct, "jsonl"))


def test_the_index_says_what_the_files_say() -> None:
    entries = kept.entries(paths.MEASURED)
    assert set(entries) == {run.run_id for run in find_runs(paths.MEASURED)}
    for name in FEW:
        stated = index_entry(RunDir(kept_runs.folder(name)))
        assert stated.items() <= entries[name].items()
        assert entries[name]["files"] == sorted(kept.files_of(kept_runs.folder(name)))


def test_archives_depend_on_their_files_alone() -> None:
    files = {"b/spec.json": b"{}", "a/stdout.log.xz": b"x", "a/spec.json": b"[]"}
    assert kept.archived(files) == kept.archived(dict(sorted(files.items())))
    with tarfile.open(fileobj=io.BytesIO(kept.archived(files))) as archive:
        members = archive.getmembers()
    assert [each.name for each in members] == ["a/spec.json", "b/spec.json", "a/stdout.log.xz"]
    assert {(each.mtime, each.uid, each.gid, each.uname) for each in members} == {(0, 0, 0, "")}


def call(capsys: pytest.CaptureFixture[str], *words: object) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as ended:
        main([*map(str, words)])
    return int(ended.value.code or 0), *capsys.readouterr()


@pytest.mark.parametrize(
    "words",
    [
        ("parse", PROFILED),
        ("parse", f"{HERE}/stdout.log.xz"),
        ("report", HERE),
        ("report", PROFILED[:-10]),
        ("compare", f"measured:{SECOND}", "--baseline", f"results/measured/{THIRD}"),
        ("explain", HERE, "--trace", f"{HERE}/profile"),
        ("explain", f"{HERE}/stdout.log.xz"),
        ("diff", f"results/measured/{THIRD}/stdout.log.xz", SECOND),
        ("fingerprint", PROFILED),
        ("predict", "llama3.1-8b", "--gpu", "H200", "--precision", "fp8", "--num-gpus", "2", "--calibrate", SECOND),
    ],
    ids=" ".join,
)
def test_every_verb_reads_a_packed_run_and_leaves_nothing_behind(tmp_path: Path, words: tuple[str, ...]) -> None:
    command = [sys.executable, "-m", "benchrun", *words, "--json"]
    env = {**os.environ, "TMPDIR": str(tmp_path)}
    result = subprocess.run(command, cwd=paths.DATA, env=env, capture_output=True, text=True, check=False)
    assert result.returncode in (0, 1), result.stderr
    assert json.loads(result.stdout)
    assert str(tmp_path) not in result.stdout + result.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_log_has_the_name_by_which_it_was_called(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(paths.DATA)
    for name in (HERE, f"{HERE}/stdout.log.xz", PROFILED):
        assert json.loads(call(capsys, "parse", name, "--json")[1])["file"] == name


def test_a_run_is_unpacked_once() -> None:
    assert kept.place(paths.MEASURED / PROFILED) == open_run(PROFILED).path == kept_runs.folder(PROFILED)


LINE: dict[str, Any] = {"id": "a", "archive": "a.tar.xz", "files": ["spec.json"]}


@pytest.mark.parametrize(
    "line",
    [
        b"{",
        b"[]",
        b'"a"',
        b"\xff\xfe",
        b"[" * 100_000,
        json.dumps({"id": "a"}).encode(),
        json.dumps(LINE | {"id": "../a"}).encode(),
        json.dumps(LINE | {"id": 5}).encode(),
        json.dumps(LINE | {"archive": "/etc/passwd"}).encode(),
        json.dumps(LINE | {"files": ["../../x"]}).encode(),
        json.dumps(LINE | {"files": "spec.json"}).encode(),
        json.dumps(LINE).encode() + b"\n" + json.dumps(LINE).encode(),
    ],
    ids=range(12),
)
def test_a_foreign_index_is_one_clear_error(tmp_path: Path, capsys: pytest.CaptureFixture[str], line: bytes) -> None:
    (tmp_path / kept.INDEX).write_bytes(line + b"\n")
    for words in (("report", tmp_path), ("parse", tmp_path / "a")):
        code, out, err = call(capsys, *words)
        assert (code, out) == (2, "")
        assert err.startswith(f"error: {tmp_path}/index.jsonl:") and err.count("error:") == 1


def tar(member: tarfile.TarInfo) -> bytes:
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w:xz") as archive:
        archive.addfile(member)
    return content.getvalue()


def link() -> bytes:
    member = tarfile.TarInfo(f"{FEW[0]}/spec.json")
    member.type, member.linkname = tarfile.SYMTYPE, "/etc/passwd"
    return tar(member)


@pytest.mark.parametrize(
    "damage",
    [
        lambda content: b"",
        lambda content: b"no archive",
        lambda content: content[: len(content) // 2],
        lambda content: content[:500] + b"x" * 50 + content[550:],
        lambda content: lzma.compress(b"no archive"),
        lambda content: tar(tarfile.TarInfo("other/spec.json")),
        lambda content: link(),
        lambda content: None,
    ],
    ids=("empty", "text", "half", "changed", "text in xz", "another", "link", "missing"),
)
def test_a_damaged_archive_is_one_clear_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], damage: Callable[[bytes], bytes | None]
) -> None:
    folder = packed(tmp_path / "packed")
    content = damage((folder / "a.tar.xz").read_bytes())
    (folder / "a.tar.xz").unlink()
    if content is not None:
        (folder / "a.tar.xz").write_bytes(content)
    for words in (("report", folder / FEW[0]), ("compare", FEW[1], "--baseline", folder)):
        code, out, err = call(capsys, *words)
        assert (code, out) == (2, "")
        assert f"error: {folder}/a.tar.xz" in err and err.count("error:") == 1


def test_a_reference_from_a_damaged_archive_is_one_clear_error(tmp_path: Path) -> None:
    folder = packed(tmp_path / "packed")
    (folder / "a.tar.xz").write_bytes(b"no archive")
    with pytest.raises(UserError, match=r"a\.tar\.xz: not an archive"):
        load_measured(folder)


def test_a_damaged_document_of_an_archive_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"metrics\.json: not what benchrun writes"):
        load_measured(packed(tmp_path / "measured", metrics=b"{}"))


class TestKeep:
    """Runs that are kept in a folder with an index."""

    @pytest.fixture
    def run(self, tmp_path: Path) -> RunDir:
        run = finished(tmp_path / "runs", spec_of())
        api.store_judgement(api.judge_runs([run]))
        return run

    def test_the_run_is_added_and_the_others_stay(self, tmp_path: Path, run: RunDir) -> None:
        folder = packed(tmp_path / "packed")
        before = (folder / "a.tar.xz").read_bytes()
        kept_run = api.keep(run, folder)
        assert sorted(path.name for path in folder.iterdir()) == ["a.tar.xz", "index.jsonl", "llama3.1-8b.tar.xz"]
        assert (folder / "a.tar.xz").read_bytes() == before
        assert [run.name for run in load_measured(folder)] == [*FEW, run.run_id]
        assert kept.entries(folder)[run.run_id]["verdict"] == run.read_json("verdict.json")["verdict"]  # type: ignore[index]
        assert api.measure_run(kept_run).metrics == api.measure_run(run).metrics  # type: ignore[union-attr]
        assert api.open_run(str(folder / run.run_id)).path == kept_run.path

    def test_a_second_run_goes_into_the_same_archive(self, tmp_path: Path, run: RunDir) -> None:
        (tmp_path / kept.INDEX).touch()
        second = finished(tmp_path / "runs", spec_of(), 11.0)
        api.store_judgement(api.judge_runs([second]))
        for each in (run, second):
            api.keep(each, tmp_path)
        assert {line["archive"] for line in kept.entries(tmp_path).values()} == {"llama3.1-8b.tar.xz"}
        assert {each.name for each in load_measured(tmp_path)} == {run.run_id, second.run_id}

    def test_nothing_is_overwritten(self, tmp_path: Path, run: RunDir) -> None:
        (tmp_path / kept.INDEX).touch()
        api.keep(run, tmp_path)
        before = {path.name: path.read_bytes() for path in tmp_path.iterdir() if path.is_file()}
        with pytest.raises(UserError, match="exists"):
            api.keep(run, tmp_path)
        assert {path.name: path.read_bytes() for path in tmp_path.iterdir() if path.is_file()} == before

    def test_a_damaged_archive_is_left_as_it_is(self, tmp_path: Path, run: RunDir) -> None:
        folder = packed(tmp_path / "packed")
        index(folder, FEW, "llama3.1-8b.tar.xz")
        (folder / "llama3.1-8b.tar.xz").write_bytes(b"damaged")
        with pytest.raises(UserError, match="not an archive"):
            api.keep(run, folder)
        assert (folder / "llama3.1-8b.tar.xz").read_bytes() == b"damaged"
        assert sorted(kept.entries(folder)) == FEW

    def test_a_run_that_a_killed_process_left_out_of_the_index_is_added(self, tmp_path: Path, run: RunDir) -> None:
        (tmp_path / kept.INDEX).touch()
        api.keep(run, tmp_path)
        (tmp_path / kept.INDEX).write_text("")
        api.keep(run, tmp_path)
        assert [each.name for each in load_measured(tmp_path)] == [run.run_id]
