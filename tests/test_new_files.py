"""Files that a user asks for are whole, or not there, and never written over another."""

import errno
import os
from pathlib import Path
from typing import Any

import pytest

from benchrun.errors import UserError
from benchrun.files import write_new


def test_a_new_file_is_written_and_an_old_one_is_not(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    write_new(path, "1\n")
    assert path.read_bytes() == b"1\n"
    with pytest.raises(UserError, match="exists"):
        write_new(path, b"2\n")
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    with pytest.raises(UserError, match="exists"):
        write_new(tmp_path / "dangling", b"2\n")
    assert sorted(each.name for each in tmp_path.iterdir()) == ["dangling", "rows.csv"]
    assert path.read_bytes() == b"1\n"


def test_a_full_disk_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Path, "rename", full)
    with pytest.raises(UserError, match="No space"):
        write_new(tmp_path / "rows.csv", "1\n")
    assert not [*tmp_path.iterdir()]
