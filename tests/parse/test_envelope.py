"""A log that a container engine or a cloud keeps as JSON reads like the program's own output."""

import json
import lzma
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from selection import some

from benchrun.frameworks.logs import parse_log
from benchrun.logs.envelope import Envelope
from benchrun.measure.summary import summarise

LOGS = sorted((Path(__file__).parent.parent / "logs").glob("*.log.xz"))
PIECE = 16384
"""Characters of a line that docker keeps in one object."""


def docker(line: str) -> str:
    pieces = [line[at : at + PIECE] for at in range(0, len(line), PIECE)] or [""]
    pieces[-1] += "\n"
    return "\n".join(json.dumps({"log": piece, "stream": "stderr"}) for piece in pieces)


def google(line: str) -> str:
    return json.dumps({"insertId": "x1", "textPayload": line, "severity": "INFO"})


def structured(line: str) -> str:
    return json.dumps({"jsonPayload": {"message": line}, "timestamp": "2026-01-05T10:00:01Z"})


def cloudwatch(line: str) -> str:
    return json.dumps({"timestamp": 1767603600000, "message": line + "\n"}, ensure_ascii=False)


def numbers(path: Path) -> dict[str, Any]:
    """Return what a log says, without the places of its lines."""
    summary = summarise(parse_log(path)).model_dump()
    del summary["file"]
    for problem in (*summary["problems"], summary["fatal"] or {}):
        problem.pop("line", None)
    return summary


@pytest.mark.parametrize("path", some(LOGS, 6), ids=[path.name[:2] for path in LOGS])
def test_an_envelope_changes_no_number(path: Path, tmp_path: Path) -> None:
    text = lzma.decompress(path.read_bytes()).decode("utf-8", errors="replace").replace("\r\n", "\n")
    lines = text[:400_000].split("\n")[:-1]
    plain = tmp_path / "plain.log"
    plain.write_text("\n".join(lines) + "\n", encoding="utf-8", newline="")
    wrap: Callable[[str], str]
    for wrap in (docker, google, structured, cloudwatch):
        wrapped = tmp_path / f"{wrap.__name__}.log"
        wrapped.write_text("\n".join(map(wrap, lines)) + "\n", encoding="utf-8")
        assert numbers(wrapped) == numbers(plain), wrap.__name__
    exported = tmp_path / "exported.json"
    entries = [{"severity": "INFO", "textPayload": line} for line in lines]
    exported.write_text(json.dumps(entries, indent=2), encoding="utf-8")
    assert numbers(exported) == numbers(plain)


def test_the_lines_keep_their_numbers() -> None:
    lines = ["{not JSON", '{"log": "one\\n", "stream": "stdout"}', "plain", '{"message": "two\\nthree"}']
    block = Envelope().unwrapped("\n".join([*lines, ""]).encode())
    assert block.decode().split("\n") == ["{not JSON", "one", "plain", "two\rthree", ""]


def test_a_record_of_a_step_is_no_envelope() -> None:
    record = b'{"loss": 1.5, "step": 10, "message": "saved"}\n'
    assert Envelope().unwrapped(record) == record


def cri(line: str, stream: str, piece: int) -> list[str]:
    """A line as containerd keeps it: in pieces, all but the last one marked P."""
    head = f"2026-01-05T10:00:01.123456789Z {stream}"
    pieces = [line[at : at + piece] for at in range(0, len(line), piece)] or [""]
    return [f"{head} P {each}" for each in pieces[:-1]] + [f"{head} F {pieces[-1]}"]


@pytest.mark.parametrize("path", LOGS[::3], ids=[path.name[:2] for path in LOGS[::3]])
def test_pieces_of_containerd_are_joined(path: Path, tmp_path: Path) -> None:
    text = lzma.decompress(path.read_bytes()).decode("utf-8", errors="replace").replace("\r\n", "\n")
    lines = text[:200_000].split("\n")[:-1]
    for name, piece in (("whole", 1 << 20), ("cut", 60)):
        kept = [each for line in lines for each in cri(line, "stdout", piece)]
        (tmp_path / f"{name}.log").write_text("\n".join(kept) + "\n", encoding="utf-8", newline="")
    assert numbers(tmp_path / "cut.log") == numbers(tmp_path / "whole.log")


def test_the_streams_of_containerd_are_joined_apart_and_over_blocks() -> None:
    one, two = cri("abcdef", "stdout", 3), cri("uvwxyz", "stderr", 3)
    envelope = Envelope()
    head = "2026-01-05T10:00:01.123456789Z"
    assert envelope.unwrapped(f"{one[0]}\n{two[0]}\n".encode()) == b"\n\n"
    rest = envelope.unwrapped(f"{one[1]}\n{two[1]}\nplain stdout P\n".encode()).decode()
    assert rest == f"{head} stdout F abcdef\n{head} stderr F uvwxyz\nplain stdout P\n"


@pytest.mark.parametrize("indent", [None, 1])
@pytest.mark.parametrize("newest_first", [True, False])
@pytest.mark.parametrize("key", ["timestamp", "time", "@timestamp"])
def test_an_array_of_entries_in_any_order(indent: int | None, newest_first: bool, key: str, tmp_path: Path) -> None:
    lines = lzma.decompress(LOGS[6].read_bytes()).decode().splitlines()
    entries = [{"textPayload": line, key: f"2026-05-01T10:{n // 60:02d}:{n % 60:02d}Z"} for n, line in enumerate(lines)]
    (tmp_path / "plain.log").write_text("\n".join(lines) + "\n", encoding="utf-8")
    (tmp_path / "array.json").write_text(json.dumps(entries[::-1] if newest_first else entries, indent=indent))
    assert len(parse_log(tmp_path / "array.json").steps) > 3
    assert numbers(tmp_path / "array.json") == numbers(tmp_path / "plain.log")
