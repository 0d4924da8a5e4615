"""Results that clients print otherwise, or that cannot be: no server, cut units, answers that took no time."""

from pathlib import Path
from typing import Any

import pytest
from test_client_results import GENAI, read

OFFLINE = """====== Offline Throughput Benchmark Result =======
Backend:                                 engine
Successful requests:                     40
Benchmark duration (s):                  8.00
Total input tokens:                      8000
Total generated tokens:                  4000
Last generation throughput (tok/s):      90.00
Request throughput (req/s):              5.00
Output token throughput (tok/s):         500.00
==================================================
"""


def test_a_benchmark_without_a_server_has_a_head_of_its_own(tmp_path: Path) -> None:
    summary = read(tmp_path, OFFLINE)
    assert (summary.framework, summary.settings["backend"]) == ("sglang", "engine")
    wanted = {"output_tokens_per_s": 500, "requests_per_s": 5, "duration_s": 8}
    assert wanted.items() <= summary.results.items()


@pytest.mark.parametrize(
    "changes",
    [
        {"mean_ttft_ms": 0.0},
        {"median_ttft_ms": 0.0, "median_tpot_ms": 0.0},
        {"mean_tpot_ms": 0.0},
        {"total_output_tokens": 3},
    ],
)
def test_answers_that_took_no_time_or_have_no_tokens_are_refused(tmp_path: Path, changes: dict[str, Any]) -> None:
    result = {"backend": "sglang", "completed": 64, "duration": 60.0, "total_input_tokens": 640}
    result |= {"total_output_tokens": 6400, "output_throughput": 6400 / 60, "request_throughput": 64 / 60}
    result |= {"mean_e2e_latency_ms": 900.0, "mean_ttft_ms": 30.0, "median_ttft_ms": 30.0, "mean_tpot_ms": 9.0}
    assert read(tmp_path, result, "sound.json").fatal is None
    if "total_output_tokens" in changes:
        changes = {**changes, "output_throughput": changes["total_output_tokens"] / 60}
    broken = read(tmp_path, result | changes, "broken.json")
    assert broken.fatal is not None and broken.fatal.kind == "contradictory_result"
    assert "output_tokens_per_s" not in broken.results


def test_a_box_with_cut_units_and_rates_below_it(tmp_path: Path) -> None:
    box = GENAI.replace("Request Latency (ms)", "Request Latency (m…").replace(
        "Time To First Token (ms)", "Time To First Token (…"
    )
    cut = read(tmp_path, box)
    assert cut.results["mean_e2el_ms"] == 1322.04
    assert "mean_ttft_ms" not in cut.results
    rows = [row for row in GENAI.splitlines() if "hroughput" not in row and "per sec" not in row]
    below = "Output token throughput (per sec): 75.00\nRequest throughput (per sec): 0.25\n"
    old = read(tmp_path, "\n".join([*rows, below]))
    assert (old.results["output_tokens_per_s"], old.results["requests_per_s"]) == (75, 0.25)


@pytest.mark.parametrize(
    ("tpot", "tokens", "refused"), [(9.0, 100, False), (590.0, 100, False), (900.0, 100, True), (9.0, 10**13, True)]
)
def test_no_answer_takes_longer_than_all_of_them(tmp_path: Path, tpot: float, tokens: int, refused: bool) -> None:
    result = {"backend": "vllm", "completed": 64, "duration": 60.0, "total_input_tokens": 640, "mean_ttft_ms": 30.0}
    result |= {"total_output_tokens": 64 * tokens, "output_throughput": 64 * tokens / 60, "mean_tpot_ms": tpot}
    result |= {"request_throughput": 64 / 60}
    fatal = read(tmp_path, result, "x.json").fatal
    assert (fatal is not None and fatal.kind == "contradictory_result") is refused


@pytest.mark.parametrize("name", ["mean_ttft_ms", "median_tpot_ms", "p99_itl_ms"])
def test_a_latency_that_is_no_number_is_named(tmp_path: Path, name: str) -> None:
    result = {"backend": "vllm", "completed": 64, "duration": 60.0, "total_input_tokens": 640, name: float("nan")}
    result |= {"total_output_tokens": 6400, "output_throughput": 6400 / 60, "request_throughput": 64 / 60}
    found = read(tmp_path, result, "x.json")
    assert found.fatal is None
    assert [problem.detail for problem in found.problems if problem.kind == "no_number"] == [f"left out: {name} is nan"]
