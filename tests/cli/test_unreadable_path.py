"""A path that the user named and that may not be read, or cannot exist: one error, exit code 2, no traceback."""

import os
from pathlib import Path

import pytest
from test_contract import call

import benchrun
from benchrun.errors import UserError, exit_code_of
from benchrun.vocabulary import Exit

TOO_LONG = "x" * 300
VERBS = ("parse", "compare", "report", "status", "explain", "fingerprint", "diff")


@pytest.mark.parametrize("verb", VERBS)
def test_a_name_that_is_too_long_for_a_file(verb: str) -> None:
    result = call(verb, *[TOO_LONG] * (2 if verb == "diff" else 1))
    assert result.returncode == Exit.USER
    assert result.stderr.startswith("error: ")
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize("read", [benchrun.load, benchrun.frame])
def test_python_raises_one_kind_of_error(read: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert callable(read)
    with pytest.raises(UserError, match="cannot be read"):
        read(TOO_LONG)
    (tmp_path / "a.log").write_text("one line\n")

    def refuse(self: Path, *args: object, **options: object) -> os.stat_result:
        raise PermissionError(13, "Permission denied", str(self))

    monkeypatch.setattr(Path, "stat", refuse)
    monkeypatch.setattr(Path, "is_file", refuse)
    monkeypatch.setattr(Path, "is_dir", refuse)
    with pytest.raises(UserError, match="Permission denied"):
        read(tmp_path / "a.log")


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
@pytest.mark.parametrize("verb", ["parse", "compare", "report", "status"])
def test_a_directory_without_permission(verb: str, tmp_path: Path) -> None:
    (tmp_path / "closed").mkdir(mode=0)
    assert call(verb, tmp_path / "closed" / "run").returncode == Exit.USER


def test_a_full_disk_is_the_machines_fault() -> None:
    assert exit_code_of(OSError(28, "No space left on device")) is Exit.MACHINE
    assert exit_code_of(PermissionError(13, "Permission denied")) is Exit.USER
