"""Fingerprints of real traces, by an independent script and by HolisticTraceAnalysis."""

import json
import lzma
from pathlib import Path
from typing import Any

import pytest
from oracle import shares
from selection import some

from benchrun import api

TRACES = Path(__file__).parent / "traces"
FILES = sorted(TRACES.rglob("*.xz"))
NAMES = ("compute", "exposed_comm", "hidden_comm", "copy", "idle")


def ranks(*files: Path, window: str = "device") -> list[dict[str, Any]]:
    return api.fingerprint_of(files, window)[0].model_dump(mode="json", by_alias=True)["ranks"]


@pytest.mark.parametrize("file", some(FILES, 4), ids=lambda file: file.name)
def test_the_shares_are_those_of_the_sweep(file: Path) -> None:
    expected = shares(file)
    measured = {rank["device"]: rank for rank in ranks(file)}
    assert set(measured) == set(expected)
    for device, own in expected.items():
        # A time of 4e12 us is a float with a resolution of 1 ns.
        assert {name: measured[device][name] for name in NAMES} == pytest.approx(own, abs=1e-7)


MARKED = [TRACES / "hta_a100_8rank_control.json.xz", TRACES / "nsys_2025_h200_slow_loader.sqlite.xz"]
WINDOWS = [*((file, "device") for file in [*FILES, TRACES / "h200_llama_tp2_pp2_bf16"])]
WINDOWS += [(file, "steps") for file in MARKED]


@pytest.mark.parametrize(("file", "window"), some(WINDOWS, 4), ids=lambda value: getattr(value, "name", value))
def test_the_parts_add_up_and_the_causes_of_idle_time_to_it(file: Path, window: str) -> None:
    for rank in ranks(file, window=window):
        assert rank["compute"] + rank["exposed_comm"] + rank["copy"] + rank["idle"] == pytest.approx(1, abs=1e-9)
        assert sum(rank["idle_by_cause"].values()) == pytest.approx(rank["idle"], abs=1e-9)
        assert rank["hidden_comm"] <= rank["compute"] + 1e-9
        assert rank["classes"]["communication"] == pytest.approx(rank["exposed_comm"] + rank["hidden_comm"], abs=1e-9)


def test_hta_finds_the_same_on_its_own_trace() -> None:
    for name, expected in json.loads((TRACES / "expected.json").read_text()).items():
        (rank,) = ranks(TRACES / name)
        communication = rank["exposed_comm"] + rank["hidden_comm"]
        percent = {
            "idle": rank["idle"],
            "compute": rank["compute"],
            "non_compute": rank["exposed_comm"] + rank["copy"],
            "overlap_of_communication": rank["hidden_comm"] / communication,
        }
        assert {name: round(100 * share, 2) for name, share in percent.items()} == expected


def test_a_slow_loader_is_the_largest_cause_of_idle_time_in_whole_steps() -> None:
    (rank,) = ranks(TRACES / "nsys_2025_h200_slow_loader.sqlite.xz", window="steps")
    causes = rank["idle_by_cause"]
    # Eight samples sleep 4 ms each in every step of 56 ms.
    assert causes["data"] == pytest.approx(8 * 0.004 / 0.0567, abs=0.03)
    assert causes["data"] > 10 * causes["host"]


def test_groups_of_a_pipeline_with_tensor_parallelism_are_those_of_the_layout() -> None:
    result = api.fingerprint_of([TRACES / "h200_llama_tp2_pp2_bf16"])[0]
    groups = {(each.name, each.group, tuple(each.ranks)) for each in result.collectives}
    assert {("all_gather", "tp", (0, 1)), ("all_gather", "tp", (2, 3))} <= groups
    assert {("reduce_scatter", "tp", (0, 1)), ("reduce_scatter", "tp", (2, 3))} <= groups
    assert {("send_recv", "pp", (0, 2)), ("send_recv", "pp", (1, 3))} <= groups
    assert result.stragglers == []  # a stage that waits for the other one is no slow rank


def test_groups_that_the_traces_do_not_state_are_those_that_end_together(tmp_path: Path) -> None:
    for file in (TRACES / "h200_llama_tp2_pp2_bf16").iterdir():
        document = json.loads(lzma.decompress(file.read_bytes()))
        del document["distributedInfo"]
        (tmp_path / file.name.removesuffix(".xz")).write_text(json.dumps(document))
    stated = api.fingerprint_of([TRACES / "h200_llama_tp2_pp2_bf16"])[0].collectives
    found = api.fingerprint_of([tmp_path])[0].collectives
    for name in ("all_gather", "reduce_scatter"):
        expected = {tuple(each.ranks): each.transfer_s for each in stated if each.name == name}
        assert {tuple(each.ranks): each.transfer_s for each in found if each.name == name} == expected
    assert {each.transfer_s for each in found if each.name == "send_recv"} == {None}


@pytest.mark.parametrize("file", some(FILES, 4), ids=lambda file: file.name)
def test_nearly_every_kernel_has_a_class(file: Path) -> None:
    result = api.fingerprint_of([file])[0]
    assert result.unknown_share < 0.001
