"""A result that contradicts itself, or is damaged, gives no number, and never a traceback."""

import json
from pathlib import Path
from typing import Any

import pytest
from serving_results import LOGS, TRTLLM_REPORT

from benchrun.frameworks.logs import parse_logs
from benchrun.logs.serving import plain
from benchrun.measure.model import Summary
from benchrun.measure.summary import summarise

VLLM = json.loads((LOGS / "concurrency_64_req_rate_inf_gpus_16_ctx_8_gen_8.json").read_text())
AIPERF = {
    "time_to_first_token": {"unit": "ms", "avg": 16.26},
    "inter_token_latency": {"unit": "ms", "avg": 14.26},
    "request_latency": {"unit": "s", "avg": 1.32204},
    "output_token_throughput": {"unit": "tokens/sec", "avg": 3050.22},
    "request_count": {"unit": "requests", "avg": 100},
    "total_output_tokens": {"unit": "tokens", "avg": 33891},
    "benchmark_duration": {"unit": "sec", "avg": 11.111},
}
COUNTS = {"num_prompts", "completed", "failed", "duration_s"}


def read(tmp_path: Path, text: str, name: str = "result.json") -> list[Summary]:
    file = tmp_path / name
    file.write_text(text)
    return [summarise(log) for log in parse_logs(file)[0]]


def one(tmp_path: Path, document: Any) -> Summary:
    (summary,) = read(tmp_path, json.dumps(document))
    return summary


@pytest.mark.parametrize(
    "changes",
    [
        {"duration": 0},
        {"duration": 0, "output_throughput": 0, "request_throughput": 0, "total_token_throughput": 0},
        *({"duration": value} for value in (-5, float("nan"), "131", 10**400)),
        *({"output_throughput": value} for value in (float("nan"), float("inf"), -3)),
        {"total_token_throughput": 99999.0},
        {"total_output_tokens": 0},
        {"completed": 700, "request_throughput": 700 / VLLM["duration"]},
        {"mean_e2el_ms": 13.0},
        {"p99_ttft_ms": 1.0},
        {"errors": ["", "timed out"]},
    ],
    ids=str,
)
def test_a_result_that_contradicts_itself_has_no_number(changes: dict[str, Any], tmp_path: Path) -> None:
    assert one(tmp_path, VLLM).fatal is None
    summary = one(tmp_path, {**VLLM, **changes})
    assert summary.fatal is not None
    assert summary.results.keys() <= COUNTS


def test_the_number_of_gpus_must_agree_with_the_rates(tmp_path: Path) -> None:
    assert one(tmp_path, TRTLLM_REPORT).num_gpus == 2
    for changes in (
        {"world_info": {"tp_size": 8}},
        {"performance": {**TRTLLM_REPORT["performance"], "total_latency_ms": 1.1}},
    ):
        assert one(tmp_path, {**TRTLLM_REPORT, **changes}).fatal.kind == "contradictory_result"


@pytest.mark.parametrize("part", ["request_info", "world_info", "streaming_metrics"])
@pytest.mark.parametrize("value", [True, 5, "text", [1], {"ttft_percentiles": [1]}], ids=str)
def test_a_part_of_a_wrong_kind_is_none(part: str, value: Any, tmp_path: Path) -> None:
    assert one(tmp_path, {**TRTLLM_REPORT, part: value}).results["output_tokens_per_s"] == pytest.approx(11076.77)
    configured = {"perf_analyzer": value, "loadgen": value}
    assert one(tmp_path, {**AIPERF, "input_config": configured}).settings == {}


def test_a_report_without_its_rate_has_none(tmp_path: Path) -> None:
    performance = {**TRTLLM_REPORT["performance"], "system_output_throughput_tok_s": None}
    assert "output_tokens_per_s" not in one(tmp_path, {**TRTLLM_REPORT, "performance": performance}).results


@pytest.mark.parametrize(
    ("unit", "value"), [("us", 16260), ("microseconds", 16260), ("seconds", 0.01626), ("ns", 16260000), ("ms", 16.26)]
)
def test_aiperf_states_the_unit_of_a_time(unit: str, value: float, tmp_path: Path) -> None:
    summary = one(tmp_path, {**AIPERF, "time_to_first_token": {"unit": unit, "avg": value}})
    assert summary.results["mean_ttft_ms"] == pytest.approx(16.26)


def test_a_latency_in_an_unknown_unit_is_none(tmp_path: Path) -> None:
    changed = {"time_to_first_token": {"unit": "jiffies", "avg": 3}, "benchmark_duration": {"unit": "ms", "avg": 11111}}
    summary = one(tmp_path, {**AIPERF, **changed})
    assert "mean_ttft_ms" not in summary.results
    assert summary.results["duration_s"] == pytest.approx(11.111)


def test_aiperf_names_failures_and_a_cancelled_benchmark(tmp_path: Path) -> None:
    failed = one(tmp_path, {**AIPERF, "error_summary": [{"error_details": {"code": 500}, "count": 3}]})
    assert (failed.fatal.kind, failed.complete) == ("failed_requests", False)
    cancelled = one(tmp_path, {**AIPERF, "was_cancelled": True})
    assert (cancelled.fatal.kind, cancelled.complete) == ("early_end", False)


def test_half_a_line_is_named(tmp_path: Path) -> None:
    whole = json.dumps(VLLM)
    (summary,) = read(tmp_path, f"{whole}\n{whole[:400]}")
    assert [problem.kind for problem in summary.problems] == ["truncated_file"]


@pytest.mark.parametrize("between", ["", "\n"])
@pytest.mark.parametrize("indent", [None, 1])
def test_several_documents_may_follow_one_another(between: str, indent: int | None, tmp_path: Path) -> None:
    texts = [json.dumps({**VLLM, "max_concurrency": number}, indent=indent) for number in (64, 32)]
    found = read(tmp_path, between.join(texts))
    assert [summary.settings["concurrency"] for summary in found] == [64, 32]


def test_a_comma_groups_thousands_alone() -> None:
    assert (plain("1,322.04"), plain("1322,04")) == (1322.04, None)


SGLANG = """============ Serving Benchmark Result ============
Backend:                                 sglang
Max request concurrency:                 64
Successful requests:                     640
Benchmark duration (s):                  {}
Output token throughput (tok/s):         {}
==================================================
"""


@pytest.mark.parametrize("values", [("XX.XX", "..."), ("131.00", "N/A"), ("", "")])
def test_placeholders_are_no_result(values: tuple[str, str], tmp_path: Path) -> None:
    (summary,) = read(tmp_path, SGLANG.format(*values), "client.txt")
    assert summary.fatal is not None
    assert summary.results.keys() <= COUNTS


@pytest.mark.parametrize(
    "changes",
    [
        {"mean_ttft_ms": 0.236, "mean_tpot_ms": 0.01253, "mean_e2el_ms": 13.05},
        {"mean_ttft_ms": 0.236, "mean_tpot_ms": 0.01253, "mean_e2el_ms": None},
        {"mean_e2el_ms": 13050.0 * 1.4},
    ],
    ids=str,
)
def test_rate_times_latency_must_be_the_requests_in_flight(changes: dict[str, Any], tmp_path: Path) -> None:
    alone = {key: value for key, value in VLLM.items() if not key.startswith(("median_", "p", "std_"))}
    whole = {**alone, "num_prompts": VLLM["num_prompts"]}
    assert one(tmp_path, whole).fatal is None
    assert one(tmp_path, {**whole, **changes}).fatal.kind == "contradictory_result"
    slow = {**whole, **changes, "mean_e2el_ms": 13.05, "request_rate": 5.0}
    assert one(tmp_path, slow).fatal is None or "mean_ttft_ms" not in changes


WHOLE = json.dumps(VLLM)


@pytest.mark.parametrize(
    ("text", "results", "kind"),
    [
        ("\ufeff" + WHOLE, 1, None),
        (f"[{WHOLE}, {WHOLE}, {WHOLE[:500]}", 2, "truncated_file"),
        (f"[{WHOLE[:500]}", 0, "truncated_file"),
        (WHOLE[:500], 0, "truncated_file"),
        (f"INFO result: {WHOLE}", 0, "no_document"),
        (f"a line of a log\n{WHOLE}", 0, "no_document"),
    ],
    ids=["byte order mark", "cut array", "one cut", "cut", "prefix", "line before"],
)
def test_what_is_wrong_with_a_file_is_said(text: str, results: int, kind: str | None, tmp_path: Path) -> None:
    found = read(tmp_path, text)
    assert sum(bool(summary.results) for summary in found) == results
    assert {problem.kind for summary in found for problem in summary.problems} == ({kind} if kind else set())
