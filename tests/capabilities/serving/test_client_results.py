"""Result files and consoles of benchmark clients give what a careful person reads out of them."""

import json
from pathlib import Path
from typing import Any

import pytest
from serving_results import LOGS, TRTLLM_REPORT

from benchrun.cli import main
from benchrun.frameworks.logs import parse_log, parse_logs
from benchrun.measure.model import Summary
from benchrun.measure.setting import Setting
from benchrun.measure.summary import summarise

RULE = "=" * 50
BLOCK = f"""INFO: other lines come before
Namespace(backend='vllm', dataset_name='random', num_prompts=640, max_concurrency=64, random_input_len=1024)
============ Serving Benchmark Result ============
Successful requests:                     640
{{failed}}Maximum request concurrency:             64
Benchmark duration (s):                  131.00
Total input tokens:                      655360
Total generated tokens:                  655360
Request throughput (req/s):              4.89
Output token throughput (tok/s):         5002.75
{{total}} throughput (tok/s):          10005.50
---------------Time to First Token----------------
Mean TTFT (ms):                          236.26
P99 TTFT (ms):                           685.45
-----Time per Output Token (excl. 1st token)------
Mean TPOT (ms):                          12.53
---------------Inter-token Latency----------------
Mean ITL (ms):                           12.53
{RULE}
"""
NEW = BLOCK.format(failed="Failed requests:                         0         \n", total="Total token")
OLD = BLOCK.format(failed="", total="Total Token")
SGLANG = f"""============ Serving Benchmark Result ============
Backend:                                 sglang-oai
Traffic request rate:                    32.0
Max reqeuest concurrency:                not set
Successful requests:                     1920
Benchmark duration (s):                  213.71
Total input tokens:                      1843657
Total generated tokens:                  157031
Total generated tokens (retokenized):    156230
Request throughput (req/s):              8.98
Input token throughput (tok/s):          8626.75
Output token throughput (tok/s):         734.77
Total token throughput (tok/s):          9361.52
----------------End-to-End Latency----------------
Mean E2E Latency (ms):                   157842.85
---------------Time to First Token----------------
Median TTFT (ms):                        140974.91
{RULE}
"""
TRTLLM = """===========================================================
= REQUEST DETAILS
===========================================================
Number of requests:             100
Average Input Length (tokens):  128.0000
Average Output Length (tokens): 128.0000
===========================================================
= WORLD + RUNTIME INFORMATION
===========================================================
TP Size:                2
PP Size:                1
EP Size:                None

===========================================================
= PERFORMANCE OVERVIEW
===========================================================
Request Throughput (req/sec):                     86.5373
Total Output Throughput (tokens/sec):             11076.7700
Total Token Throughput (tokens/sec):              22153.5399
Total Latency (ms):                               1155.5715
Average request latency (ms):                     1093.2284
Per User Output Throughput [w/ ctx] (tps/user):   117.1544
Per GPU Output Throughput (tps/gpu):              5538.3850
Average time-to-first-token [TTFT] (ms):   \t162.6706
Average time-per-output-token [TPOT] (ms): 7.3272

[TTFT] P99    : 232.4339
===========================================================
= DATASET DETAILS
===========================================================
"""
GENAI = """                          NVIDIA GenAI-Perf | LLM Metrics
┏━━━━━━━━━━━━━━━━━━━━━━━━━━━┳━━━━━━━━━━┳━━━━━━━━━━┳━━━━━━━━━━┓
┃                 Statistic ┃      avg ┃      p99 ┃      p50 ┃
┡━━━━━━━━━━━━━━━━━━━━━━━━━━━╇━━━━━━━━━━╇━━━━━━━━━━╇━━━━━━━━━━┩
│  Time To First Token (ms) │    16.26 │    17.09 │    16.20 │
│      Request Latency (ms) │ 1,322.04 │ 1,354.66 │ 1,320.00 │
│  Inter Token Latency (ms) │    14.26 │    17.09 │    14.20 │
│   Output Token Throughput │ 3,050.22 │      N/A │      N/A │
│                 (per sec) │          │          │          │
│        Request Throughput │     9.00 │      N/A │      N/A │
│                 (per sec) │          │          │          │
└───────────────────────────┴──────────┴──────────┴──────────┘
"""
AIPERF = {
    "time_to_first_token": {"unit": "ms", "avg": 16.26, "p99": 17.09, "p50": 16.2},
    "inter_token_latency": {"unit": "ms", "avg": 14.26},
    "request_latency": {"unit": "s", "avg": 1.32204},
    "output_token_throughput": {"unit": "tokens/sec", "avg": 3050.22},
    "request_throughput": {"unit": "requests/sec", "avg": 9.0},
    "request_count": {"unit": "requests", "avg": 100},
    "error_request_count": {"unit": "requests", "avg": 3},
}


def summaries(path: Path, **given: Any) -> list[Summary]:
    return [summarise(log, given=Setting(**given)) for log in parse_logs(path)[0]]


def read(tmp_path: Path, content: str | dict[str, Any], name: str = "client.txt", **given: Any) -> Summary:
    file = tmp_path / name
    file.write_text(content if isinstance(content, str) else json.dumps(content, indent=2))
    (summary,) = summaries(file, **given)
    return summary


def kinds(summary: Summary) -> set[str]:
    return {problem.kind for problem in summary.problems}


@pytest.mark.parametrize(
    ("file", "number", "framework", "complete", "values"),
    [
        (
            *("sglang-deepseek-offline.jsonl", 0, "sglang", None),
            {"output_tokens_per_s": 12412.39, "duration_s": 412.491, "median_ttft_ms": 10014.10},
        ),
        ("sglang-llama-rates.jsonl", 0, "sglang", None, {"output_tokens_per_s": 537.4, "mean_input_tokens": 508.7}),
        ("sglang-llama-rates.jsonl", 4, "sglang", None, {"output_tokens_per_s": 4288.0}),
        (
            *("concurrency_64_req_rate_inf_gpus_16_ctx_8_gen_8.json", 0, "vllm", True),
            {"output_tokens_per_s": 5002.6, "total_tokens_per_s": 10005.2, "mean_tpot_ms": 12.53, "completed": 640},
        ),
        (
            *("trtllm-llama-405b.txt", 0, "trtllm", True),
            {"output_tokens_per_s": 3914.45, "requests_per_s": 30.5816, "duration_s": 980.98, "completed": 30000},
        ),
        (
            *("vllm-cpu-tiny.txt", 0, "vllm", True),
            {"output_tokens_per_s": 271.05, "mean_ttft_ms": 49.02, "p99_itl_ms": 33.67, "median_e2el_ms": 201.49},
        ),
        (
            *("vllm-cpu-tiny.json", 0, "vllm", True),
            {"output_tokens_per_s": 271.05, "p90_tpot_ms": 18.1965, "goodput_requests_per_s": 16.94, "failed": 0},
        ),
        ("vllm-cpu-all-failed.txt", 0, "vllm", False, {"completed": 0, "failed": 24, "num_prompts": 24}),
    ],
)
def test_a_real_file(file: str, number: int, framework: str, complete: bool | None, values: dict[str, float]) -> None:
    summary = summaries(LOGS / file)[number]
    assert (summary.framework, summary.complete) == (framework, complete)
    assert {name: summary.results[name] for name in values} == pytest.approx(values, rel=5e-4)


def test_a_benchmark_in_which_every_request_failed_has_counts_alone() -> None:
    (summary,) = summaries(LOGS / "vllm-cpu-all-failed.txt", num_gpus=1)
    assert summary.fatal is not None and summary.fatal.kind == "failed_requests"
    assert set(summary.results) == {"num_prompts", "completed", "failed", "duration_s"}


def test_the_number_of_gpus_gives_rates_per_gpu() -> None:
    (named,) = summaries(LOGS / "concurrency_64_req_rate_inf_gpus_16_ctx_8_gen_8.json")
    assert named.num_gpus == 16
    assert named.metrics["total_tokens_per_s_per_gpu"] == pytest.approx(625.33, rel=1e-4)
    (given,) = summaries(LOGS / "sglang-deepseek-offline.jsonl", num_gpus=8)
    assert given.metrics["output_tokens_per_s_per_gpu"] == pytest.approx(12412.39 / 8, rel=1e-5)
    (without,) = summaries(LOGS / "sglang-deepseek-offline.jsonl")
    assert "output_tokens_per_s_per_gpu" not in without.metrics


@pytest.mark.parametrize("block", [NEW, OLD], ids=["new", "old"])
def test_vllm_prints_failed_requests_or_their_number_follows_from_its_arguments(tmp_path: Path, block: str) -> None:
    summary = read(tmp_path, block)
    assert (summary.framework, summary.complete) == ("vllm", True)
    assert summary.results["failed"] == 0
    assert summary.results["total_tokens_per_s"] == 10005.5
    assert summary.settings["concurrency"] == 64
    lost = read(tmp_path, block.replace("requests:                     640", "requests:                     600"))
    assert lost.fatal is not None and lost.complete is False


def test_failed_requests_leave_no_rate_and_no_latency(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "client.txt"
    file.write_text(
        NEW.replace("Failed requests:                         0", "Failed requests:                         40")
    )
    (summary,) = summaries(file, num_gpus=8)
    assert summary.fatal is not None and summary.fatal.kind == "failed_requests"
    assert summary.complete is False
    assert set(summary.results) <= {"num_prompts", "completed", "failed", "duration_s"}
    assert "output_tokens_per_s_per_gpu" not in summary.metrics
    with pytest.raises(SystemExit) as ended:
        main(["parse", str(file)])
    assert ended.value.code == 4
    assert "failed_requests" in capsys.readouterr().out


def test_a_cut_block_is_never_complete(tmp_path: Path) -> None:
    whole = NEW.rstrip("\n")
    for end in range(NEW.index("Successful") + 40, len(whole), 7):
        file = tmp_path / "cut.txt"
        file.write_text(whole[:end])
        for summary in summaries(file):
            assert summary.complete is not True, whole[:end][-60:]


def test_rates_that_contradict_their_own_counts_are_fatal(tmp_path: Path) -> None:
    summary = read(tmp_path, NEW.replace("5002.75", "9002.75"))
    assert summary.fatal is not None and summary.fatal.kind == "contradictory_result"


def test_sglangs_block_is_told_from_vllms(tmp_path: Path) -> None:
    summary = read(tmp_path, SGLANG)
    assert (summary.framework, summary.complete) == ("sglang", None)
    assert summary.settings == {"backend": "sglang-oai", "request_rate": 32}
    assert summary.results["mean_e2el_ms"] == 157842.85


@pytest.mark.parametrize(
    "before",
    [
        "0: ",
        "[1,0]<stdout>:",
        "2026-02-14T10:00:00.123456789Z ",
        "2026-02-14T10:00:00.1Z stdout F ",
        "(Bench pid=7) ",
        "> ",
        " 0: [default0]:",
        "[2026-01-05T10:00:00+08:00] ",
        "[2026-01-05 10:00:00,123] ",
        "[10:00:00] ",
        "[+    1.370] ",
        "[+ 12.3 s] ",
    ],
)
@pytest.mark.parametrize(
    ("content", "name"), [(NEW, "vllm"), (SGLANG, "sglang"), (TRTLLM, "trtllm"), (GENAI, "genai-perf")]
)
def test_a_launchers_words_before_each_line_change_nothing(
    content: str, name: str, before: str, tmp_path: Path
) -> None:
    alone = read(tmp_path, content)
    labelled = read(tmp_path, "".join(f"{before}{line}\n" for line in content.splitlines()))
    assert (labelled.framework, labelled.complete) == (name, alone.complete)
    assert (labelled.results, labelled.settings) == (alone.results, alone.settings)


def test_an_older_vllm_states_its_load_before_the_block(tmp_path: Path) -> None:
    """Each client's own; what stands before the second one says nothing about a first one that was cut off."""
    block = OLD.replace("Maximum request concurrency:             64\n", "").replace("max_concurrency=64, ", "")
    load = "Traffic request rate: {}\nBurstiness factor: 1.0 (Poisson process)\nMaximum request concurrency: {}\n"
    file = tmp_path / "two.txt"
    file.write_text(load.format("inf", 64) + block + load.format("4.5 RPS.", None) + block)
    first, second = summaries(file)
    assert (first.settings["request_rate"], first.settings["concurrency"]) == ("inf", 64)
    assert second.settings["request_rate"] == 4.5
    assert "concurrency" not in second.settings
    file.write_text(load.format("inf", 64) + block.partition("Mean ITL")[0] + load.format("inf", 32) + block)
    first, second = summaries(file)
    assert (first.settings.get("concurrency"), second.settings["concurrency"]) == (None, 32)


@pytest.mark.parametrize("content", [TRTLLM, TRTLLM_REPORT], ids=["console", "json"])
def test_trtllm_bench(tmp_path: Path, content: Any) -> None:
    summary = read(tmp_path, content, "report.json" if isinstance(content, dict) else "bench.txt")
    assert (summary.framework, summary.complete, summary.num_gpus) == ("trtllm", True, 2)
    assert summary.results["mean_output_tokens"] == 128
    assert summary.results["p99_ttft_ms"] == 232.4339
    assert summary.results["duration_s"] == pytest.approx(1.1555715)
    assert summary.metrics["output_tokens_per_s_per_gpu"] == pytest.approx(5538.385)
    assert "queueing_ttft" in kinds(summary)


@pytest.mark.parametrize(
    ("content", "name"),
    [(GENAI, "box.txt"), (AIPERF, "export.json")],
    ids=["box", "json"],
)
def test_genai_perfs_inter_token_latency_is_the_time_per_output_token(tmp_path: Path, content: Any, name: str) -> None:
    summary = read(tmp_path, content, name)
    values = {"mean_ttft_ms": 16.26, "mean_tpot_ms": 14.26, "mean_e2el_ms": 1322.04, "output_tokens_per_s": 3050.22}
    if name == "export.json":
        assert summary.fatal is not None and summary.fatal.detail.startswith("3 of 103")
    else:
        assert {key: summary.results[key] for key in values} == pytest.approx(values)
        assert "mean_itl_ms" not in summary.results


@pytest.mark.parametrize(
    ("changes", "kind"),
    [
        ({"mean_itl_ms": 127.0, "mean_tpot_ms": 12.8}, "chunked_stream"),
        ({"max_concurrency": None, "request_rate": "inf"}, "queueing_ttft"),
        ({"max_concurrency": 640}, "no_steady_state"),
        ({"random_input_len": 2048}, "other_lengths"),
        ({"num_prompts": None}, "unknown_failures"),
    ],
)
def test_what_a_number_does_not_mean_is_named(tmp_path: Path, changes: dict[str, Any], kind: str) -> None:
    record = json.loads((LOGS / "concurrency_64_req_rate_inf_gpus_16_ctx_8_gen_8.json").read_text())
    assert kind not in kinds(read(tmp_path, record, "result.json"))
    summary = read(tmp_path, record | changes, "result.json")
    assert kind in kinds(summary)
    assert summary.fatal is None


def test_several_results_are_runs_of_their_own(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["parse", str(LOGS / "sglang-llama-rates.jsonl"), "--json"])
    assert ended.value.code == 0
    rates = [each["settings"]["request_rate"] for each in json.loads(capsys.readouterr().out)]
    assert rates[:5] == [1, 2, 4, 8, 16]


def test_a_data_set_has_no_lengths_of_random_prompts(tmp_path: Path) -> None:
    """SGLang's client writes down the lengths that random prompts would have; vLLM's prints them."""
    lines = (LOGS / "sglang-llama-rates.jsonl").read_text().splitlines()
    found = read(tmp_path, json.loads(lines[5]), "result.json")
    assert found.settings["dataset"] == "sharegpt"
    console = read(tmp_path, NEW.replace("'random'", "'sharegpt'"))
    assert console.settings["dataset"] == "sharegpt"
    for each in found, console:
        assert not {"input_tokens", "output_tokens", "range_ratio", "shortest"} & each.settings.keys()
        assert "other_lengths" not in kinds(each)
    assert read(tmp_path, NEW).settings["input_tokens"] == 1024


def test_files_given_together_stay_apart() -> None:
    names = ("sglang-deepseek-offline.jsonl", "vllm-cpu-tiny.json")
    logs, left_out = parse_logs(*(LOGS / name for name in names))
    assert [log.framework for log in logs] == ["sglang", "vllm"]
    assert left_out == []


def test_json_that_is_no_result_is_no_run(tmp_path: Path) -> None:
    for text in ('{"a": 1}', '{"cut": ', "[1, 2]", '{"completed": 1}\n{"b": 2}\n'):
        file = tmp_path / "other.json"
        file.write_text(text)
        assert not parse_log(file).results
