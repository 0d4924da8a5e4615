"""What pack.sh cuts out of a library is the code of other GPUs, and nothing else."""

import struct
import zipfile
from pathlib import Path
from typing import Any

import pytest
from keep_sm import keep, main
from sides import again, ordered, unsteady

PTX, MACHINE_CODE = 1, 2


def container(*entries: tuple[int, int]) -> bytes:
    body = b"".join(
        struct.pack("<HHIQ", kind, 257, 64, 16) + bytes(12) + struct.pack("<I", gpu) + bytes(32) + bytes([gpu]) * 16
        for kind, gpu in entries
    )
    return struct.pack("<IHHQ", 0xBA55ED50, 1, 16, len(body)) + body


def test_the_code_for_one_gpu_stays_and_the_rest_is_zeroed_in_place() -> None:
    library = bytearray(b"elf" + container((MACHINE_CODE, 80), (MACHINE_CODE, 90), (PTX, 90)) + b"rest")
    size = len(library)
    assert keep(library, 90) == 16
    assert len(library) == size and library.startswith(b"elf") and library.endswith(b"rest")
    assert library.count(bytes([90]) * 16) == 1 and bytes([80]) * 16 not in library
    assert keep(library, 90) == 16  # all headers are still there


def test_a_wheel_without_code_for_the_gpu_is_refused(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "in.whl", "w") as wheel:
        wheel.writestr("lib.so", container((MACHINE_CODE, 80)))
    with pytest.raises(SystemExit, match="no code for sm_90"):
        main(90, str(tmp_path / "in.whl"), str(tmp_path / "out.whl"))


def test_files_and_kernels_can_be_left_out(tmp_path: Path) -> None:
    code = container((MACHINE_CODE, 90)) + container((MACHINE_CODE, 90)).replace(bytes([90]) * 16, b"kernel_of_half_t")
    with zipfile.ZipFile(tmp_path / "in.whl", "w") as wheel:
        for name in ("a.so", "b.so", "server"):
            wheel.writestr(name, code)
    main(90, str(tmp_path / "in.whl"), str(tmp_path / "out.whl"), "serv*", "b.*=half_t", "a.*=half_t!kernel_of")
    with zipfile.ZipFile(tmp_path / "out.whl") as wheel:
        assert wheel.namelist() == ["a.so", "b.so"]
        assert wheel.read("a.so") == code
        assert wheel.read("b.so") == code.replace(b"kernel_of_half_t", bytes(16))


# The order in which measure.sh runs frameworks side by side, and which runs it repeats.


def run(framework: str, **settings: Any) -> dict[str, Any]:
    point = {"recipe": "llama3.1-8b", "gpu": "H100", "precision": "fp8", "num_gpus": 4}
    return point | {"framework": framework, "set": settings}


def test_each_point_runs_forth_and_back_on_the_gpu_that_is_there() -> None:
    suite = [
        *(run(name, gbs=32, training={"steps": 14}) for name in "AB"),
        run("C", gbs=32, **{"training.steps": 11}),
        *(run(name, gbs=8) for name in "DE"),
    ]
    order = ordered(suite, "H200", 3)
    assert "".join(each["framework"] for each in order) == "ABCCBAABC" + "DEEDDE"
    assert {each["gpu"] for each in order} == {"H200"}


def metrics(low: float, high: float, behind: float | None = None) -> dict[str, Any]:
    slowest = None if behind is None else {"behind_percent": behind}
    return {"step_time_s": {"median": 1.0, "p5": low, "p95": high}, "ranks": {"slowest": slowest}}


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        (metrics(0.99, 1.01), False),
        (metrics(0.95, 1.02), True),
        (metrics(0.99, 1.01, behind=1.6), False),
        (metrics(0.99, 1.01, behind=3.1), True),
        ({"step_time_s": None, "ranks": None}, False),
        (None, False),
    ],
)
def test_steps_that_vary_and_a_slow_rank_are_no_measurement(document: dict[str, Any] | None, expected: bool) -> None:
    assert unsteady(document) is expected


def test_only_unsteady_runs_are_repeated() -> None:
    documents = {"1": metrics(0.9, 1.1), "2": metrics(1.0, 1.0), "3": None}
    assert again([run("A"), run("B"), run("C")], ["1", "2", "3"], documents.get) == [run("A")]
