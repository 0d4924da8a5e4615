"""A data set is complete or absent: after kills, on full or read-only disks, with other processes, wrong parameters."""

import fcntl
import functools
import json
import os
import random
import resource
import shlex
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from subprocess import CompletedProcess
from types import SimpleNamespace
from typing import Any

import pytest
from calling import DEADLINE_S
from selection import some

from benchrun.errors import MachineError
from datagen.tokens import Parameters, make_tokens
from tests.datagen.command import ROOT, datagen, tokens


def state(folder: Path) -> dict[str, Any]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.suffix != ".lock"}


def test_a_data_set_is_made_once(tmp_path: Path) -> None:
    first = tokens(tmp_path / "a" / "x", "--json")
    assert first.returncode == 0, first.stderr
    assert json.loads(first.stdout) == json.loads((tmp_path / "a" / "x.json").read_text())
    before = state(tmp_path / "a")
    assert sorted(before) == ["x.bin", "x.idx", "x.json"]
    times = {path: path.stat().st_mtime_ns for path in (tmp_path / "a").iterdir()}
    again = tokens(tmp_path / "a" / "x")
    assert again.returncode == 0
    assert "was there already" in again.stdout
    assert state(tmp_path / "a") == before
    assert {path: path.stat().st_mtime_ns for path in times if path.suffix != ".lock"}.items() <= times.items()


def test_after_a_kill_at_any_point_it_resumes_with_the_same_bytes(tmp_path: Path) -> None:
    """120 MB in four parts and two shards; killed at random moments until a run completes."""
    arguments = {"tokens": "3e7", "vocab_size": 128256}
    (tmp_path / "whole").mkdir()
    start = time.monotonic()
    assert tokens(tmp_path / "whole" / "x", "--shards", 2, **arguments).returncode == 0
    longest = time.monotonic() - start
    (tmp_path / "cut").mkdir()
    chance, kills = random.Random(7), 0
    while True:
        process = tokens(tmp_path / "cut" / "x", "--shards", 2, wait=False, start_new_session=True, **arguments)
        moment = time.monotonic() + chance.uniform(0.1, 1.0 if kills else 0.4) * longest  # this run may be faster
        while process.poll() is None and time.monotonic() < moment and kills < 6:
            time.sleep(0.01)
        if process.poll() is None and kills < 6:
            os.killpg(process.pid, signal.SIGKILL)
            kills += 1
            process.communicate()
            names = {path.name for path in (tmp_path / "cut").iterdir()}
            assert "x.json" not in names or kills == 6 or not names & {"x_00000.bin.partial", "x_00001.bin.partial"}
            continue
        _, errors = process.communicate(timeout=DEADLINE_S)
        assert process.returncode == 0, errors
        break
    assert kills
    assert state(tmp_path / "cut") == state(tmp_path / "whole")


def test_workers_end_when_only_the_command_is_killed(tmp_path: Path) -> None:
    part = tmp_path / "x.bin.partial"
    process = tokens(tmp_path / "x", "--workers", 2, tokens="3e8", vocab_size=128256, wait=False)
    while process.poll() is None and not (part.exists() and part.stat().st_size):
        time.sleep(0.01)
    process.kill()
    assert process.wait() == -signal.SIGKILL
    with (tmp_path / "x.lock").open() as lock:
        until = time.monotonic() + DEADLINE_S
        while True:  # a living worker would still hold the lock of its parent
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                assert time.monotonic() < until
                time.sleep(0.05)


def test_a_keyboard_interrupt_prints_nothing(tmp_path: Path) -> None:
    """The terminal sends the signal to the command, to the busy worker and to the idle workers."""
    part = tmp_path / "x.bin.partial"
    # A shell starts background jobs with SIGINT ignored, which the process would inherit.
    restore = functools.partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
    arguments = {"tokens": "1e8", "vocab_size": 1000, "wait": False, "start_new_session": True, "preexec_fn": restore}
    process = tokens(tmp_path / "x", "--learnable", "--workers", 4, **arguments)
    while process.poll() is None and not (part.exists() and part.stat().st_size):
        time.sleep(0.01)
    os.killpg(process.pid, signal.SIGINT)
    _, errors = process.communicate(timeout=DEADLINE_S)
    assert (process.returncode, errors.strip()) == (130, "")


def test_after_a_kill_between_the_renames_it_resumes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The state after such a kill, made by hand: journal complete, one file renamed, no manifest."""
    assert tokens(tmp_path / "x").returncode == 0
    whole = state(tmp_path)
    manifest = json.loads(whole["x.json"])
    head = json.dumps({"kind": "tokens", "version": manifest["version"], **manifest["parameters"]}, sort_keys=True)
    (tmp_path / "x.journal").write_text(f"{head}\n0:0 {manifest['files'][0]['crc32'][0]}\n")
    (tmp_path / "x.idx").rename(tmp_path / "x.idx.partial")
    (tmp_path / "x.json").rename(tmp_path / "x.json.partial")
    # The disk has little room beyond the existing files.
    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=2_000_000))
    make_tokens(tmp_path / "x", Parameters(tokens=3 * 10**6, vocab_size=1000), 1, lambda done, total: None)
    assert state(tmp_path) == whole


def test_a_part_that_the_disk_lost_is_made_again(tmp_path: Path) -> None:
    assert tokens(tmp_path / "x").returncode == 0
    whole = state(tmp_path)
    manifest = json.loads(whole["x.json"])
    head = json.dumps({"kind": "tokens", "version": manifest["version"], **manifest["parameters"]}, sort_keys=True)
    (tmp_path / "x.journal").write_text(f"{head}\n0:0 {manifest['files'][0]['crc32'][0]}\n0:1 12")
    (tmp_path / "x.json").rename(tmp_path / "x.json.partial")
    (tmp_path / "x.bin").rename(tmp_path / "x.bin.partial")
    with (tmp_path / "x.bin.partial").open("r+b") as file:
        file.seek(100_000)
        file.write(bytes(4096))
    assert tokens(tmp_path / "x").returncode == 0
    assert state(tmp_path) == whole


def test_existing_files_are_never_overwritten(tmp_path: Path) -> None:
    (tmp_path / "x.bin").write_bytes(b"precious")
    result = tokens(tmp_path / "x")
    assert result.returncode == 2
    assert result.stderr.startswith(f"error: {tmp_path}/x.bin: ")
    assert state(tmp_path) == {"x.bin": b"precious"}


@pytest.mark.parametrize("name", ["x.bin", "x.idx", "x.json"])
def test_a_broken_link_is_not_replaced(tmp_path: Path, name: str) -> None:
    (tmp_path / name).symlink_to(tmp_path / "not mounted")
    result = tokens(tmp_path / "x")
    assert result.returncode == 2
    assert result.stderr.startswith(f"error: {tmp_path}/{name}: ")
    assert [path.name for path in tmp_path.iterdir() if path.suffix != ".lock"] == [name]
    assert (tmp_path / name).is_symlink()


@pytest.mark.parametrize("written", [True, False])
def test_files_put_beside_an_unfinished_data_set_are_never_overwritten(tmp_path: Path, written: bool) -> None:
    """Copied there after the kill, which was before or after the data were written."""
    assert tokens(tmp_path / "x").returncode == 0
    manifest = json.loads((tmp_path / "x.json").read_text())
    head = json.dumps({"kind": "tokens", "version": manifest["version"], **manifest["parameters"]}, sort_keys=True)
    (tmp_path / "x.journal").write_text(f"{head}\n")
    (tmp_path / "x.json").rename(tmp_path / ("x.json.partial" if written else "gone"))
    (tmp_path / "x.idx").unlink()
    (tmp_path / "x.bin").rename(tmp_path / ("x.bin.partial" if written else "gone"))
    (tmp_path / "x.bin").write_bytes(b"precious")
    before = state(tmp_path)
    result = tokens(tmp_path / "x")
    assert result.returncode == 2
    assert result.stderr.startswith(f"error: {tmp_path}/x.bin: ")
    assert state(tmp_path) == before


def test_partial_files_without_a_journal_are_not_used(tmp_path: Path) -> None:
    (tmp_path / "x.bin.partial").write_bytes(bytes(8_000_000))  # of a larger data set
    assert tokens(tmp_path / "x").returncode == 0
    assert (tmp_path / "x.bin").stat().st_size == 6_000_000
    assert datagen("inspect", tmp_path / "x").returncode == 0


def test_another_data_set_is_refused_and_the_difference_named(tmp_path: Path) -> None:
    assert tokens(tmp_path / "x").returncode == 0
    before = state(tmp_path)
    result = tokens(tmp_path / "x", "--seed", 2, "--learnable")
    assert result.returncode == 2
    assert "another data set: learnable False instead of True, seed 1 instead of 2\n" in result.stderr
    result = datagen("sft", "--output", tmp_path / "x")
    assert result.returncode == 2
    assert "another data set: kind tokens instead of sft\n" in result.stderr
    assert state(tmp_path) == before


def test_damage_is_detected(tmp_path: Path) -> None:
    assert tokens(tmp_path / "x").returncode == 0
    assert datagen("inspect", tmp_path / "x").returncode == 0
    with (tmp_path / "x.bin").open("r+b") as file:
        file.seek(1_000_000)
        file.write(b"\x01\x02\x03")
    report = datagen("inspect", tmp_path / "x", "--json")
    assert report.returncode == 4
    assert json.loads(report.stdout)["intact"] is False
    with (tmp_path / "x.bin").open("r+b") as file:
        file.truncate(1_000_000)
    result = tokens(tmp_path / "x")
    assert result.returncode == 2
    assert "x.bin has 1000000 bytes" in result.stderr


@pytest.mark.parametrize("journal", [b'{"kind": "tokens"}\n', b"\xff\xfe\n"])
def test_an_unfinished_data_set_with_other_parameters_is_refused(tmp_path: Path, journal: bytes) -> None:
    (tmp_path / "x.journal").write_bytes(journal)
    result = tokens(tmp_path / "x")
    assert result.returncode == 2
    assert "x.journal: " in result.stderr
    assert f"{tmp_path}/x*" not in result.stderr  # which includes x2


def test_the_second_of_two_processes_waits_and_reuses_the_data(tmp_path: Path) -> None:
    both = [tokens(tmp_path / "x", tokens="2e7", wait=False) for _ in range(2)]
    outputs = [process.communicate(timeout=DEADLINE_S) for process in both]
    assert [process.returncode for process in both] == [0, 0], outputs
    assert sorted("was there already" in out for out, _ in outputs) == [False, True]


def test_it_waits_for_the_lock(tmp_path: Path) -> None:
    with (tmp_path / "x.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        process = tokens(tmp_path / "x", wait=False)
        assert "waiting" in process.stderr.readline()
        assert process.poll() is None
        assert state(tmp_path) == {}
    assert process.communicate(timeout=DEADLINE_S)[0]
    assert process.returncode == 0


def test_a_disk_without_room_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    result = tokens(tmp_path / "x", tokens="1e15")
    assert result.returncode == 3
    assert "2019531.25 GB do not fit" in result.stderr
    assert state(tmp_path) == {}


def test_the_required_room_includes_a_large_index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parameters = Parameters(tokens=10**6, vocab_size=100, documents="fixed", mean_length=2)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=5_000_000))
    with pytest.raises(MachineError, match=r"do not fit"):
        make_tokens(tmp_path / "x", parameters, 1, lambda done, total: None)
    assert state(tmp_path) == {}
    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=13_100_000))
    make_tokens(tmp_path / "x", parameters, 1, lambda done, total: None)
    assert (tmp_path / "x.idx").stat().st_size == pytest.approx(parameters.index_bytes, rel=1e-4)


def test_partial_files_of_other_data_sets_do_not_reduce_the_required_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "x2.bin.partial").write_bytes(bytes(6_000_000))
    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=5_000_000))
    with pytest.raises(MachineError, match="do not fit"):
        make_tokens(tmp_path / "x", Parameters(tokens=3 * 10**6, vocab_size=100), 1, lambda done, total: None)


def test_a_full_disk_is_one_clear_error_and_leaves_no_complete_file(tmp_path: Path) -> None:
    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (2_000_000, 2_000_000))

    result = tokens(tmp_path / "x", "--workers", 2, preexec_fn=limit)
    assert result.returncode == 3
    assert "cannot write: File too large" in result.stderr
    assert "Traceback" not in result.stderr
    assert {path.name for path in tmp_path.iterdir()} <= {"x.bin.partial", "x.journal", "x.lock"}
    assert tokens(tmp_path / "x").returncode == 0  # with room, it resumes
    assert datagen("inspect", tmp_path / "x").returncode == 0


@pytest.mark.parametrize("folder", ["/proc/nowhere", "/dev/null"])
def test_a_folder_without_write_access_is_one_clear_error(folder: str) -> None:
    result = tokens(Path(folder) / "x")
    assert result.returncode == 2
    assert result.stderr.startswith("error: ") and "cannot write: " in result.stderr
    assert "Traceback" not in result.stderr


def read_only(folder: Path, *arguments: int | Path | str) -> CompletedProcess:
    """Run ``datagen`` in a mount namespace in which ``folder`` is on a read-only file system."""
    mount = f"mount --bind {folder} {folder} && mount -o remount,ro,bind {folder} && "
    unshare = ["unshare", "--mount", *([] if os.geteuid() == 0 else ["--user", "--map-root-user"]), "sh", "-c"]
    if subprocess.run([*unshare, f"{mount} true"], capture_output=True, check=False).returncode:
        pytest.skip("no mount namespaces here")
    command = f"{mount} {sys.executable} -m datagen {shlex.join(map(str, arguments))}"
    return subprocess.run([*unshare, command], capture_output=True, text=True, check=False, cwd=ROOT)


def test_a_read_only_file_system_is_one_clear_error(tmp_path: Path) -> None:
    result = read_only(tmp_path, "tokens", "--output", tmp_path / "x", "--tokens", "1e6", "--vocab-size", 500)
    assert result.returncode == 2
    assert "cannot write: Read-only file system" in result.stderr
    assert state(tmp_path) == {}


@pytest.mark.parametrize(
    "command", ["tokens --tokens 1e4 --vocab-size 500", "sft --samples 9", "tokenizer --vocab-size 300"]
)
def test_a_complete_data_set_on_a_read_only_file_system_is_reused(tmp_path: Path, command: str) -> None:
    verb, *options = command.split()
    assert datagen(verb, "--output", tmp_path / "x", *options).returncode == 0
    result = read_only(tmp_path, verb, "--output", tmp_path / "x", *options)
    assert result.returncode == 0, result.stderr
    assert "was there already" in result.stdout
    other = read_only(tmp_path, verb, "--output", tmp_path / "x", *options, "--seed", 7)
    assert other.returncode == 2 and "another data set" in other.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--tokens", "0"], "--tokens: Input should be greater than 0 (it is 0)"),
        (["--tokens", "1.5"], "'1.5' is not a whole number"),
        (["--tokens", "many"], "'many' is not a whole number, such as 1000000 or 1e9"),
        (["--tokens", "nan"], "'nan' is not a whole number"),
        (["--tokens", "9007199254740993"], "--tokens: Input should be less than or equal to"),
        (["--tokens", "1e99"], "--tokens: Input should be less than or equal to"),
        (["--tokens", "10", "--samples", "3"], "give --tokens, or --samples and --seq-length"),
        (["--samples", "3"], "give --tokens, or --samples and --seq-length"),
        ([], "give --tokens, or --samples and --seq-length"),
        (["--tokens", "10", "--shards", "11"], "11 shards of 10 tokens"),
        (["--tokens", "10", "--exponent", "-1"], "--exponent: Input should be greater than or equal to 0 (it is -1.0)"),
        (["--tokens", "10", "--exponent", "nan"], "--exponent: "),
        (["--tokens", "10", "--documents", "normal"], "'normal' is not one of"),
    ],
)
def test_a_bad_parameter_is_one_clear_error(tmp_path: Path, arguments: list[Any], message: str) -> None:
    result = datagen("tokens", "--output", tmp_path / "x", "--vocab-size", "1000", *arguments)
    assert result.returncode == 2
    assert message in result.stderr
    assert "Traceback" not in result.stderr
    assert state(tmp_path) == {}


@pytest.mark.parametrize("verb", ["tokens --tokens 10 --vocab-size 10", "sft --samples 1"])
@pytest.mark.parametrize("output", [*some(["", ".", "..", "/"], 1), b"a\xff"])
def test_an_output_without_a_name_or_not_in_utf_8_is_one_clear_error(
    tmp_path: Path, verb: str, output: bytes | str
) -> None:
    command = [sys.executable, "-m", "datagen", *verb.split(), "--output", output]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    result = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path, env=environment)
    assert result.returncode == 2
    assert "Invalid value for '--output'" in result.stderr
    assert ("has no name; give a folder and a name" if type(output) is str else "is not UTF-8") in result.stderr
    assert state(tmp_path) == {}


def test_a_vocabulary_of_two_is_too_small(tmp_path: Path) -> None:
    result = tokens(tmp_path / "x", vocab_size=2)
    assert result.returncode == 2
    assert "--vocab-size: Input should be greater than or equal to 3 (it is 2)" in result.stderr


def test_the_number_of_tokens_includes_the_last_label(tmp_path: Path) -> None:
    sizes = ["--samples", 10, "--seq-length", 128, "--vocab-size", 500]
    samples = datagen("tokens", "--output", tmp_path / "x", *sizes, "--json")
    assert json.loads(samples.stdout)["parameters"]["tokens"] == 1281
    shards = datagen("tokens", "--output", tmp_path / "y", *sizes, "--shards", 3, "--json")
    assert json.loads(shards.stdout)["parameters"]["tokens"] == 3 * (4 * 128 + 1)


def test_help_imports_nothing_heavy() -> None:
    code = "import sys\nfrom datagen.cli import main\ntry: main(['--help'])\nexcept SystemExit: pass\n"
    code += "print(sorted({'numpy', 'pydantic', 'multiprocessing', 'transformers'} & set(sys.modules)))"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert result.stdout.splitlines()[-1] == "[]"
