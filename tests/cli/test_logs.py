"""parse and compare on bare logs, as a person calls them."""

import csv
import functools
import io
import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from calling import DEADLINE_S
from test_contract import call, document

from benchrun import api, paths
from benchrun.errors import UserError
from benchrun.frameworks.logs import parse_log
from benchrun.judge.conditions import WHOLE
from benchrun.measure.setting import Setting
from benchrun.recipes.catalogue import recipe_file

LOGS = Path(__file__).parent.parent / "logs"
STEPS = 50


def megatron(n: int, time_s: float) -> str:
    return (
        f" iteration {n:8d}/{STEPS:8d} | elapsed time per iteration (ms): {1000 * time_s:.1f} |"
        f" global batch size:   128 | lm loss: 2.0E+00 |"
    )


def torchtitan(n: int, time_s: float) -> str:
    return f"[titan] - root - INFO - step: {n:2d}  loss:  2.0  memory: 9GiB(9%)  tps: {_tokens(time_s):,.0f}  mfu: N/A"


def maxtext(n: Any, time_s: Any) -> Any:
    return f"completed step: {n - 1}, seconds: {time_s:.3f}, total_weights: 12, loss: 2.000"


def nemo2(n: Any, time_s: Any) -> Any:
    return (
        f"Training epoch 0, iteration {n - 1}/{STEPS - 1} | lr: 1e-06 | global_batch_size: 128 | global_step: {n - 1} |"
        f" reduced_train_loss: 2.0 | train_step_timing in s: {time_s:.4g} | consumed_samples: {128 * n}"
    )


def nemo1(n: Any, time_s: Any) -> Any:
    return f"Epoch 0: : 4%|# | {n}/{STEPS} [{n:02d}:00<07:13, train_loss=2.0, train_step_timing in s={time_s:.1f}0]"


def bridge(n: Any, time_s: Any) -> Any:
    return f"Step Time : {time_s:.2f}s GPU utilization: {6747 / time_s:.1f}MODEL_TFLOP/s/GPU"


def huggingface(n: Any, time_s: Any) -> Any:
    return (
        f"{{'loss': '2.0', 'global_step/max_steps': '{n}/{STEPS}',"
        f" 'elapsed_time': '{round(n * time_s)}s', 'learning_rate': '1e-5'}}"
    )


def nanotron(n: Any, time_s: Any) -> Any:
    times = f"time_per_iteration_ms: {time_s:.3g}K | tokens_per_sec: {8 * _tokens(time_s) / 1e3:.3g}K"
    return f"iteration: {n} / {STEPS} | {times} | lm_loss: 2.0 | x"


def paxml(n: Any, time_s: Any) -> Any:
    return f"Setting task status: step = {n}, loss= 2.0, steps/sec {1 / time_s:.12f}"


def deepspeed(n: Any, time_s: Any) -> Any:
    return f"steps: {n} loss: 2.0 iter time (s): {time_s:.3f} samples/sec: 9.9"


def _tokens(time_s: float) -> float:
    return 8192 * 128 / 8 / time_s


LINES = [megatron, torchtitan, maxtext, nemo2, nemo1, bridge, huggingface, nanotron, paxml, deepspeed]
CONDITIONS = ["--recipe", "llama3.1-8b", "--gpu", "H100", "--precision", "bf16", "--num-gpus", "8", "--gbs", "128"]


@pytest.mark.parametrize("line", LINES, ids=lambda line: line.__name__)
def test_a_log_of_any_framework_is_judged_under_the_stated_conditions(tmp_path: Path, line: Callable[..., Any]) -> None:
    """12.27 s was published for Llama 3.1 8B, BF16, on 8 H100 at GBS 128."""
    log = tmp_path / "x.log"
    for time_s, verdict, code in ((12.3, "pass", 0), (14.5, "slow", 1)):
        log.write_text("".join(line(n, time_s) + "\n" for n in range(1, STEPS + 1)))
        judged = document("compare", log, *CONDITIONS, "--json", code=code)
        assert judged["verdict"] == verdict
        assert judged["checks"][0]["value"] == pytest.approx(time_s, rel=0.01)
        assert judged["conditions"]["framework"] is not None


def test_a_log_whose_rows_are_all_dropped_as_warm_up_gives_no_number(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    path.write_text("".join(megatron(n, 12.2) + "\n" for n in range(1, STEPS + 1)))
    assert document("parse", path, "--warmup", STEPS - 1, "--json")["step_time_s"]["median"] == 12.2
    assert document("parse", path, "--warmup", STEPS, "--json", code=4)["step_time_s"] is None


def test_the_logs_of_a_directory_are_one_run_and_options_are_read_in_any_case(tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "job.out").write_text("".join(megatron(n, 12.3) + "\n" for n in range(1, STEPS + 1)))
    loud = [word.upper() if word in ("bf16",) else word.lower() if word == "H100" else word for word in CONDITIONS]
    assert document("compare", tmp_path / "logs", *loud, "--json")["verdict"] == "pass"
    result = call("compare", tmp_path / "logs" / "job.out", *CONDITIONS, "--precision", "fp7")
    assert (result.returncode, "'fp7' is not one of" in result.stderr) == (2, True)


def test_what_neither_the_log_nor_an_option_says_is_asked_for(tmp_path: Path) -> None:
    log = tmp_path / "x.log"
    log.write_text("".join(torchtitan(n, 12.9) + "\n" for n in range(1, 51)))
    result = call("compare", log, "--recipe", "llama3.1-8b", "--gpu", "H100")
    assert result.returncode == 2
    assert "add --gbs and --num-gpus and --precision" in result.stderr
    assert "no GPU 'H1000'" in call("compare", log, "--recipe", "llama3.1-8b", "--gpu", "H1000").stderr


def test_a_log_of_another_model_is_refused() -> None:
    log = LOGS / "07-megatron-core-2026-15it-seq8192.log.xz"
    result = call("compare", log, *CONDITIONS)
    assert result.returncode == 2
    assert "hidden_size 2048, the recipe's has 4096" in result.stderr


def test_a_log_that_ends_early_or_diverges_is_invalid(tmp_path: Path) -> None:
    log = tmp_path / "x.log"
    log.write_text("".join(megatron(n, 12.9) + "\n" for n in range(1, 41)))
    assert document("compare", log, *CONDITIONS, "--json", code=4)["verdict"] == "invalid_run"
    log.write_text("".join(megatron(n, 12.9).replace("2.0E+00", "nan") + "\n" for n in range(1, 51)))
    judged = document("compare", log, *CONDITIONS, "--json", code=4)
    assert (judged["verdict"], "nan_loss" in judged["reason"]) == ("invalid_run", True)


def test_fewer_layers_are_another_model(tmp_path: Path) -> None:
    log = tmp_path / "x.log"
    log.write_text("".join(megatron(n, 12.9) + "\n" for n in range(1, 51)))
    judged = document("compare", log, *CONDITIONS, "--num-layers", "8", "--json", code=4)
    assert judged["verdict"] == "not_comparable"
    assert [difference["key"] for difference in judged["differs"]] == ["num_layers"]


def worker(model: str, **differs: dict[str, int] | int) -> str:
    """The configuration and the steps of this repository's worker, for ``model`` with other dimensions."""
    shape = recipe_file(model).recipe.model.model_dump()
    moe = {**shape["moe"], **differs.pop("moe")} if "moe" in differs else shape["moe"]
    conditions = {"planned_steps": STEPS, "num_gpus": 8, "precision": "bf16", "device": "NVIDIA H100 80GB HBM3"}
    config = {"model": {**shape, **differs, "moe": moe}, **conditions, "versions": {"megatron-core": "0.19.2"}}
    rows = [megatron(n, 12.3) for n in range(1, STEPS + 1)]
    return "\n".join([f"benchrun config: {json.dumps(config)}", *rows, ""])


@pytest.mark.parametrize(
    ("recipe", "differs", "said"),
    [
        ("llama3.1-8b", {}, []),
        ("llama3.1-8b", {"vocab_size": 128512}, []),  # padded
        ("llama3.1-8b", {"vocab_size": 32000}, ["vocab_size 32000 of 128256"]),
        ("llama3.1-8b", {"ffn_hidden_size": 7168}, ["ffn_hidden_size 7168 of 14336"]),
        ("llama3.1-8b", {"num_query_groups": 32}, ["num_query_groups 32 of 8"]),
        ("mixtral-8x7b", {"moe": {"num_experts": 4}}, ["moe.num_experts 4 of 8"]),
    ],
)
def test_a_log_of_a_model_with_another_dimension_is_a_proxy(
    tmp_path: Path, recipe: str, differs: dict[str, Any], said: list[Any]
) -> None:
    file = tmp_path / "x.log"
    file.write_text(worker(recipe, **differs))
    log = parse_log(file)
    verdict, _ = api.judge_log(log, recipe, Setting(gbs=128))
    assert verdict.conditions.model_dump(mode="json")["dimensions"] == (", ".join(said) or WHOLE)
    if recipe == "llama3.1-8b":
        assert verdict.verdict == ("not_comparable" if said else "pass")


def test_a_log_of_experts_is_no_dense_model(tmp_path: Path) -> None:
    file = tmp_path / "x.log"
    file.write_text(worker("mixtral-8x7b"))
    with pytest.raises(UserError, match="has 8 experts"):
        api.judge_log(parse_log(file), "llama3.1-8b", Setting(gbs=128))


def test_the_table_says_everything_with_its_convention_and_divisor(tmp_path: Path) -> None:
    log = tmp_path / "x.log"
    log.write_text("".join(megatron(n, 12.91) + "\n" for n in range(1, 51)))
    text = call("parse", log, *CONDITIONS[:-2]).stdout
    for said in (
        "megatron-lm",
        "50 rows, 1 to 50 of 50 planned: complete",
        "steps 6 to 50 of 50, 45 rows (5 warm-up rows dropped)",
        "12.91 s median, 95 % interval",
        "mean of the last 10 rows 12.91 s, of steps 35 to 44 12.91 s",
        "steady: ",
        "10,153",
        "588 full, 522.6 causal",
        "59.5 % full, 52.8 % causal, of 989 (H100 bf16 dense)",
        "8 x H100, bf16, 32 layers of width 4096, sequence 8192, global batch 128",
    ):
        assert said in text


@pytest.mark.parametrize("form", ["csv", "jsonl"])
def test_the_rows_as_csv_and_as_json_lines(tmp_path: Path, form: str) -> None:
    log = LOGS / "14-nemo2-resiliency-crash-restart.log.xz"
    printed = call("parse", log, "--steps", form).stdout
    target = tmp_path / f"rows.{form}"
    table = call("parse", log, "--steps", target).stdout
    assert target.read_text() == printed
    assert "26" not in table.splitlines()[0]
    if form == "csv":
        rows = list(csv.DictReader(io.StringIO(printed)))
    else:
        rows = [json.loads(line) for line in printed.splitlines()]
    assert len(rows) == 26
    assert [int(row["segment"]) for row in rows] == [0] * 16 + [1] * 10
    assert float(rows[16]["step_time_s"]) == 10.26


def test_steps_that_cannot_be_written_are_one_error(tmp_path: Path) -> None:
    log = LOGS / "14-nemo2-resiliency-crash-restart.log.xz"
    assert "expected csv, jsonl or a file" in call("parse", log, "--steps", "rows.txt").stderr
    assert "cannot be written" in call("parse", log, "--steps", tmp_path / "no" / "rows.csv").stderr
    assert "both print to stdout" in call("parse", log, "--steps", "csv", "--json").stderr


@pytest.mark.parametrize("name", ["22-maxtext-demo-tpu-v5p-10it", "18-torchtitan-ansi-1gpu-2500it"])
def test_the_plot_is_a_picture(tmp_path: Path, name: str) -> None:
    pytest.importorskip("matplotlib")
    picture = tmp_path / "steps.png"
    assert call("parse", LOGS / f"{name}.log.xz", "--plot", picture).returncode == 0
    assert picture.read_bytes().startswith(b"\x89PNG")
    result = call("parse", LOGS / f"{name}.log.xz", "--plot", tmp_path / "steps.nonsense")
    assert (result.returncode, "cannot be written" in result.stderr) == (2, True)


def test_following_a_log_ends_with_its_last_step(tmp_path: Path) -> None:
    log = tmp_path / "x.log"
    log.write_text(megatron(1, 1.0) + "\n")
    command = [sys.executable, "-m", "benchrun", "parse", str(log), "--follow", "--json"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stderr.readline().startswith("step 1  1 s")
    with log.open("a") as file:
        file.writelines(megatron(n, 1.0) + "\n" for n in range(2, STEPS + 1))
    out, err = process.communicate(timeout=DEADLINE_S)
    assert (process.returncode, json.loads(out)["complete"]) == (0, True)
    assert err.count("step ") == STEPS - 1


def test_following_a_log_that_is_not_there_says_that_it_waits(tmp_path: Path) -> None:
    log = tmp_path / "x.log"
    command = [sys.executable, "-m", "benchrun", "parse", str(log), "--follow"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stderr.readline() == f"{log} does not exist yet; waiting for it\n"
    log.write_text("".join(megatron(n, 1.0) + "\n" for n in range(1, STEPS + 1)))
    assert "complete" in process.communicate(timeout=DEADLINE_S)[0]


def test_following_can_be_stopped_and_gives_what_there_is(tmp_path: Path) -> None:
    log = tmp_path / "x.log"
    log.write_text("".join(megatron(n, 1.0) + "\n" for n in range(1, 21)))
    command = [sys.executable, "-m", "benchrun", "parse", str(log), "--follow", "--json"]
    # A shell starts background jobs with SIGINT ignored, and so would this be.
    heard = functools.partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, preexec_fn=heard)
    for _ in range(20):
        process.stderr.readline()
    time.sleep(0.2)
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=DEADLINE_S)
    assert (json.loads(out)["num_steps"], json.loads(out)["complete"]) == (20, False)


def test_several_logs_and_stdin_are_one_run(tmp_path: Path) -> None:
    first, second = tmp_path / "0.log", tmp_path / "1.log"
    first.write_text("".join(megatron(n, 1.0) + "\n" for n in range(1, 31)))
    second.write_text("".join(megatron(n, 1.0) + "\n" for n in range(25, 51)))
    assert document("parse", first, second, "--json")["num_steps"] == 50
    assert document("parse", tmp_path, "--json")["num_steps"] == 50
    command = [sys.executable, "-m", "benchrun", "parse", "-", "--json"]
    piped = subprocess.run(command, input=first.read_bytes(), capture_output=True, check=False)
    assert (piped.returncode, json.loads(piped.stdout)["num_steps"]) == (4, 30)


def test_steps_of_unequal_length_are_no_stalls_and_a_missing_mfu_has_its_reason() -> None:
    log = LOGS / "23-hf-trainer-msswift-30it.log.xz"
    options = ["--recipe", "llama3-8b-sft", "--gpu", "H100", "--precision", "bf16", "--gbs", "32"]
    printed = call("compare", log, *options).stdout
    assert "steady: steps vary by 2.5 %" in printed
    assert "none: the tokens per step are unknown" in printed


def test_an_option_that_the_log_contradicts_is_an_error() -> None:
    log = LOGS / "11-nemo1-mlperf-gpt3-512gpu.log.xz"
    options = ["--recipe", "gpt3-175b", "--gpu", "H100", "--precision", "fp8", "--num-gpus", "512", "--gbs", "128"]
    result = call("compare", log, *options)
    assert (result.returncode, result.stdout) == (2, "")
    assert "--gbs 128" in result.stderr and "2048" in result.stderr


def test_a_recipe_named_by_its_file_has_the_same_references() -> None:
    log = LOGS / "11-nemo1-mlperf-gpt3-512gpu.log.xz"
    options = ["--gpu", "H100", "--precision", "fp8", "--json"]
    path = paths.RECIPES / "gpt3-175b.yaml"
    by_path, by_name = (document("compare", log, "--recipe", name, *options, code=1) for name in (path, "gpt3-175b"))
    assert by_path == by_name


@pytest.mark.parametrize(
    "last", ["CANCELLED AT 2026-01-01T00:00:00 ***", "CANCELLED AT 2026-01-01 DUE TO TIME LIMIT ***"]
)
def test_following_ends_with_the_job(tmp_path: Path, last: str) -> None:
    log = tmp_path / "slurm-5.out"
    log.write_text("\n".join([megatron(1, 1.0), f"slurmstepd: error: *** JOB 5 ON n1 {last}", ""]))
    command = [sys.executable, "-m", "benchrun", "parse", "--follow", str(log), "--json"]
    result = subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE_S)
    assert result.returncode == 4
    assert {problem["kind"] for problem in json.loads(result.stdout)["problems"]} & {"cancelled", "time_limit"}


def test_a_rate_above_the_peak_is_no_number() -> None:
    log = LOGS / "07-megatron-core-2026-15it-seq8192.log.xz"
    result = call("parse", str(log), "--gpu=A100", "--precision=bf16", "--num-gpus=1", "--json")
    assert (result.returncode, json.loads(result.stdout)["step_time_s"]) == (4, None)
    assert call("parse", str(log), "--gpu=H100", "--precision=bf16", "--num-gpus=1").returncode == 0


def test_following_goes_on_where_a_requeued_job_does(tmp_path: Path) -> None:
    lines = [megatron(1, 1.0), "slurmstepd: error: *** JOB 5 ON n1 CANCELLED AT 2026-01-01T00:00:00 ***"]
    (tmp_path / "ended.log").write_text("\n".join(lines))
    (tmp_path / "going.log").write_text("\n".join([*lines, *(megatron(n, 1.0) for n in (1, 2))]))
    assert [api.job_ended(parse_log(tmp_path / f"{name}.log")) for name in ("ended", "going")] == [True, False]


def test_a_peak_that_is_stated_is_not_asked_for_again(tmp_path: Path) -> None:
    line = (
        " [2026-01-01 00:00:00.000000] iteration {i:8d}/      50 | consumed samples: 1 | "
        "elapsed time per iteration (ms): 9800.0 | global batch size:  1024 | lm loss: 2.0E+00 | "
        "number of skipped iterations:   0 | number of nan iterations:   0 |\n"
    )
    log = tmp_path / "new.log"
    log.write_text("".join(line.format(i=i) for i in range(1, 51)))
    for options in (["--gpu", "NEW", "--peak-tflops", "900"], ["--peak-tflops", "900"]):
        hint = next(row for row in call("parse", log, *options).stdout.splitlines() if "for MFU" in row)
        assert hint.split()[2:] == ["add", "--precision", "--recipe"]
