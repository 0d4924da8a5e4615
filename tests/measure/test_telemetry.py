"""What nvidia-smi sampled becomes clocks, power, energy and a word on throttling."""

from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest

from benchrun.frameworks.logs import parse_log
from benchrun.measure.samples import COLUMNS
from benchrun.measure.telemetry import THROTTLES, Sampled, sampled

START = datetime(2026, 3, 1, 12, 0, 0, tzinfo=timezone.utc).timestamp()
HEADER = f"time,gpu,{','.join(COLUMNS)},reasons"


def line(
    second: int,
    gpu: int = 0,
    clock: str = "1755",
    power: str = "600.00",
    temperature: str = "60",
    memory: str = "81920",
    reasons: str = "0x0000000000000004",
) -> str:
    time = datetime.fromtimestamp(START + second, timezone.utc)
    cells = (
        f"{time:%Y/%m/%d %H:%M:%S}.000",
        str(gpu),
        clock,
        "2619",
        power,
        "700.00",
        temperature,
        "99",
        memory,
        reasons,
    )
    return ", ".join(cells)


def summary(
    *lines: str, gpus: int = 1, seconds: float = 10.0, until: float | None = START + 20, tokens: Any = 60_000.0
) -> Sampled | None:
    return sampled({"a": "\n".join([HEADER, *lines])}, num_gpus=gpus, seconds=seconds, tokens=tokens, until=until)


def test_energy_is_the_integral_of_power_over_the_window_alone() -> None:
    ramp = [line(s, power=f"{100 * s:.2f}") for s in range(31)]
    found = summary(*ramp).over_all
    assert found.window == ("2026-03-01T12:00:10.000Z", "2026-03-01T12:00:20.000Z")
    assert found.energy_j == pytest.approx(100 * (20**2 - 10**2) / 2)
    assert found.tokens_per_joule == pytest.approx(60_000 / 15_000)
    assert (found.samples, found.power_w) == (11, pytest.approx(1500))


def test_a_window_between_two_samples_is_cut_where_it_ends() -> None:
    ramp = [line(s, power=f"{100 * s:.2f}") for s in range(31)]
    found = summary(*ramp, seconds=1.5, until=START + 20.25).over_all
    assert found.energy_j == pytest.approx(100 * (20.25**2 - 18.75**2) / 2)


def test_clocks_temperature_and_memory_are_those_of_the_window() -> None:
    lines = [line(s, clock=str(1000 + 10 * s), temperature=str(s), memory=str(1024 * s)) for s in range(31)]
    found = summary(*lines).over_all
    assert (found.sm_clock_mhz, found.sm_clock_min_mhz, found.temperature_c, found.memory_gib) == (1150, 1100, 20, 20)
    assert (found.power_limit_w, found.memory_clock_mhz, found.utilisation_percent) == (700, 2619, 99)


def test_a_power_cap_is_named_and_no_fault() -> None:
    found = summary(*(line(s) for s in range(31))).over_all
    assert found.reasons == {"power_cap": 1.0}
    assert (found.throttled, found.fault) == (0.0, None)


@pytest.mark.parametrize(("bits", "name"), list(zip((0x8, 0x20, 0x40, 0x80), THROTTLES, strict=True)))
def test_heat_and_supply_are_faults(bits: int, name: str) -> None:
    lines = [line(s, reasons=hex(bits | 0x4) if s < 14 else "0x0000000000000004") for s in range(31)]
    found = summary(*lines).over_all
    assert found.throttled == found.reasons[name] == pytest.approx(4 / 11)
    assert found.fault == f"throttled: {name} in 36 % of the samples"


def test_a_fault_in_few_samples_is_not_said_to_be_in_none() -> None:
    lines = [line(s, reasons="0x40" if s == 400 else "0x4") for s in range(501)]
    found = summary(*lines, seconds=500.0, until=START + 500).over_all
    assert found.fault == "throttled: hw_thermal in under 1 % of the samples"


def test_without_a_time_in_the_log_the_window_ends_with_the_load() -> None:
    idle, load = [line(s, power="80.00") for s in (*range(5), *range(18, 40))], [line(s) for s in range(5, 18)]
    found = summary(*load, *idle, until=None).over_all
    assert found.ends == "load"
    assert found.window[1] == "2026-03-01T12:00:17.000Z"
    assert found.energy_j == pytest.approx(6000)


def test_gpus_of_the_machine_that_the_run_did_not_use_are_left_out() -> None:
    lines = [line(s, gpu, power="70.00" if gpu == 1 else "600.00") for s in range(31) for gpu in range(3)]
    found = summary(*lines, gpus=2)
    assert [each.gpu for each in found.gpus] == [0, 2]
    assert found.over_all.energy_j == pytest.approx(2 * 6000)


def test_no_energy_where_a_gpu_was_not_sampled_throughout() -> None:
    lines = [*(line(s, 0) for s in range(31)), *(line(s, 1) for s in range(16))]
    found = summary(*lines, gpus=2).over_all
    assert (found.gpus, found.energy_j, found.tokens_per_joule) == (1, None, None)
    assert found.power_w == pytest.approx(600)
    assert summary(*(line(s) for s in range(31)), gpus=2).over_all.energy_j is None


def test_a_neighbour_s_gpu_that_worked_before_the_window_is_left_out() -> None:
    neighbour = [line(s, gpu=0, power="690.00" if s < 9 else "70.00") for s in range(31)]
    ours = [line(s, gpu=1) for s in range(31)]
    found = summary(*neighbour, *ours)
    assert [each.gpu for each in found.gpus] == [1]
    assert found.over_all.energy_j == pytest.approx(6000)


def test_gpus_that_cannot_be_told_from_a_neighbour_s_give_nothing() -> None:
    """Where another run works on the same node, the one that draws a watt more is not the run's for that."""
    both = [line(s, gpu, power=f"{690 + gpu}.00") for s in range(31) for gpu in range(2)]
    assert summary(*both) is None
    assert summary(*both, gpus=2).over_all.gpus == 2


def test_no_energy_where_samples_are_missing_in_the_middle() -> None:
    found = summary(*(line(s) for s in range(41) if not 12 < s < 24), seconds=20.0, until=START + 30).over_all
    assert (found.gpus, found.energy_j, found.tokens_per_joule) == (0, None, None)
    assert found.power_w == pytest.approx(600)
    short = summary(*(line(s) for s in range(31) if not 12 < s < 16)).over_all
    assert short.energy_j == pytest.approx(6000)


def test_what_a_node_left_on_its_disk_when_it_lost_power_is_left_out() -> None:
    nothing = "\0" * 200_000  # a page that was never written
    found = summary(*(line(s) for s in range(31)), nothing, f'"{line(31)}').over_all
    assert found.energy_j == pytest.approx(6000)


def test_half_a_line_and_what_a_gpu_does_not_tell_are_left_out() -> None:
    whole = [line(s, temperature="[N/A]", reasons="[N/A]") for s in range(31)]
    found = summary(*whole, line(15)[:40], "No devices were found").over_all
    assert (found.samples, found.temperature_c, found.reasons) == (11, None, {})
    assert found.energy_j == pytest.approx(6000)


@pytest.mark.parametrize("text", ["", HEADER, "Failed to initialize NVML: Unknown Error"])
def test_nothing_sampled_gives_nothing(text: str) -> None:
    assert sampled({"a": text}, num_gpus=1, seconds=10, tokens=1, until=START) is None
    assert sampled({"a": text}, num_gpus=1, seconds=10, tokens=1) is None
    assert sampled({}, num_gpus=1, seconds=10, tokens=1) is None


def test_samples_of_another_time_give_nothing() -> None:
    assert summary(line(500), until=START + 20) is None


def test_the_worker_s_last_line_says_when_the_last_step_ended(tmp_path: Path) -> None:
    log = tmp_path / "stdout.log"
    config = 'benchrun config: {"versions": {"megatron-core": "0.16.1"}}\n'
    step = " iteration 4/ 4 | elapsed time per iteration (ms): 10.0 | lm loss: 1.0 |\n"
    done = 'benchrun done: {"steps": 4, "ended": "2026-01-01T00:00:01.500Z"}\n'
    log.write_text(config + step + "bar 1\rbar 2\r\n" + done + "and more\n" * 20)
    assert parse_log(log).facts.ended_at == datetime(2026, 1, 1, 0, 0, 1, 500_000, timezone.utc).timestamp()
    log.write_text(config + step)
    assert parse_log(log).facts.ended_at is None
