"""Each framework's lines, as it prints them: the right value, whatever stands before, after or between."""

from pathlib import Path
from typing import Any

import pytest
from selection import pairs, some

from benchrun.capabilities.serving.dialects import Console
from benchrun.frameworks.logs import DIALECTS, parse_log
from benchrun.logs.records import Log
from benchrun.measure.summary import summarise

MEGATRON_2020 = (
    " iteration        7/     100 | elapsed time per iteration (ms): 1234.5 | learning rate: 1.000E-04 |"
    " lm loss: 7.5E+00 | loss scale: 65536.0 |"
)
MEGATRON_2026 = (
    "0: [default0]: [2026-01-27 10:00:01.123456] iteration       12/     500 | consumed samples:          960 |"
    " elapsed time per iteration (ms): 3237.3 | throughput per GPU (TFLOP/s/GPU): 336.4 | learning rate: 2.5E-05 |"
    " global batch size:    80 | lm loss: 1.031E+01 | loss scale: 1.0 | grad norm: 4.210 |"
    " number of skipped iterations:   0 | number of nan iterations:   0 |"
)
MEGATRON_OPEN = (
    " iteration        7/     100 | elapsed time per iteration (ms): 1234.5 | global batch size:    80 |"
    " lm loss: 7.500000E+00"
)
MEGATRON_SECONDS = (
    " iteration        5/    1000 | elapsed time per iteration (s): 126.64 | global batch size:  1024 |"
    " lm loss: 9.1E+00 |"
)
MEGATRON_TWO_VALUES = (
    "[20251202 09:12:08][rank-7/8][INFO ] [---trainer.py:2560] :  iteration      126/    5000 |"
    " consumed samples: 64512 | elapsed time per iteration (ms): 13372.8/13364.7 | hip mem usage: 0.81 |"
    " tokens per GPU (tokens/s/GPU): 9801.4/9807.3 | global batch size:   512 | lm loss: 3.4E+00 |"
)
MEGATRON_KEY_EQUALS_VALUE = (
    "[2025-11-10 09:43:36,161992][I][megatron/training_log:402]  iteration=  136004/  136100 |"
    " consumed_samples=   835608576 | elapsed_time_per_iteration_ms=3415.3 | global_batch_size= 6144 |"
    " lm loss=12.316531 |"
)
PRIMUS_2026 = (
    "[20260914 08:10:12][rank-15/16][INFO ] [---trainer.py:2488] :  iteration   31/     200 | consumed samples: 7936 |"
    " elapsed time per iteration (ms): 1630.2/1641.9 | compute per GPU (TFLOP/s/GPU): 498.7 (avg 495.1) |"
    " tokens/s/GPU inst/harmonic mean: 10051.5/9980.2 | global batch size:   256 | lm loss: 7.4E+00 |"
)
NEOX = (
    " samples/sec: 61.213 | iteration      120/  143000 | elapsed time per iteration (ms): 16728.5 |"
    " learning rate: 5.000E-05 | approx flops per GPU: 41.3TFLOPS | lm_loss: 6.25E+00 | loss scale: 65536.0 |"
)
BRIDGE = "[+  300.557] Step Time : 14.19s GPU utilization: 1263.4MODEL_TFLOP/s/GPU"
MEGATRON_HYPHEN = (
    " iteration       20/    1000 | consumed samples:  20480 | elapsed time per iteration (ms): 138210.4 |"
    " global batch size:  1024 | lm-loss: 9.5E+00 | loss scale: -1.0 | grad norm: 0.000 |"
)
BRIDGE_2025 = "Step Time : 12.61s GPU utilization: 531.9TFLOP/s/GPU"
NEMO_2 = (
    "ining-demo/0 [default0]:Training epoch 0, iteration 3/99 | lr: 1e-06 | global_batch_size: 128 | global_step: 3 |"
    " reduced_train_loss: 11.03 | train_step_timing in s: 12.64 | TFLOPS_per_GPU: 712.3 |"
    " tokens_per_sec_per_gpu: 1.073e+04 | consumed_samples: 512"
)
# NVIDIA-NeMo/Automodel pull request 3473, 2026-08-10
AUTOMODEL = (
    "2026-08-10 15:55:23 | INFO | root | step 10 | epoch 0 | loss 0.8534 | grad_norm 1.5040 | lr 1.00e-05"
    " | mem 29.67 GiB | tps 13746.24(1718.28/gpu) | num_label_tokens 29550"
)
AUTOMODEL_GPU = (
    "step  9 | epoch 0 | loss 1.1696 | lr 8.59e-06 | mem 48.55 GiB | tps 2075.14/gpu | num_label_tokens 38437"
)
NEMO_1 = (
    "Epoch 0: :  47%|####7     | 7/15 [06:19<07:13, v_num=gjbq, reduced_train_loss=11.50, global_step=5.000,"
    " consumed_samples=12288.0, train_step_timing in s=49.50, val_loss=6.250]"
)
MLLOG = (
    ':::MLLOG {"namespace": "", "time_ms": 1684040096650, "event_type": "POINT_IN_TIME", "key": "tracked_stats",'
    ' "value": {"train_step_timing": 12.160857439041138, "reduced_train_loss": 2.78}, "metadata": {"step": 4194304}}'
)
MLLOG_RATE = (
    ':::MLLOG {"key": "global_batch_size", "value": 8, "metadata": {"file": "train.py", "lineno": 9}}\n'
    ':::MLLOG {"namespace": "", "time_ms": 1728447061031, "event_type": "POINT_IN_TIME", "key": "tracked_stats",'
    ' "value": {"throughput": 2.5}, "metadata": {"file": "callbacks.py", "lineno": 287, "step": 1536}}'
)
DLLOGGER = (
    'DLLL {"timestamp": "1727486904.6", "type": "LOG", "step": 2, "data": {"reduced_train_loss": 10.3,'
    ' "train_backward_timing in s": 5.9e-05, "train_step_timing in s": 52.8040657043457, "epoch": 0}}'
)
TITAN = (
    "[rank0]:[titan] 2026-04-18 21:13:34,872 - root - INFO - \x1b[31mstep: 10  \x1b[32mloss: 11.63459  "
    "\x1b[38;2;180;60;0mgrad_norm: 10.4704  \x1b[33mmemory: 29.11GiB(92.83%)  \x1b[34mtps: 71,634"
    "  \x1b[36mtflops: 1,048.68  \x1b[35mmfu: 15.60%\x1b[39m"
)
TITAN_2024 = (
    "2024-10-03 15:02:06,441 - root - INFO - step: 127  loss:  3.7705"
    "  memory: 36.20GiB(81.50%)  wps: 1,703  mfu: 23.40%"
)
MAXTEXT = (
    "I0811 21:55:06.119312 138304841739136 metric_logger.py:226] completed step: 10, seconds: 13.360,"
    " TFLOP/s/device: 305.127, Tokens/s/device: 3679.158, total_weights: 12582912, loss: 10.565, lm_loss: 10.565"
)
MAXTEXT_2024 = "completed step: 10, seconds: 13.360, TFLOP/s/device: 305.127, loss: 10.565"
MAXTEXT_2023 = "completed step: 210, seconds: 2.061, TFLOP/s: 38.611, loss: 3.125"
PAXML = (
    "I0706 16:50:26.2 1401 local.py:41] Setting task status: step = 100, loss= 5.123456, steps/sec 0.2501234567,"
    " aux_loss=0.0, avg_xent=5.123456, num_predictions=256.0"
)
NANOTRON = (
    "12/21 01:39:51 [INFO|DP=0|TP=0|host]: iteration: 211364 / 1500000 | consumed_tokens: 480B |"
    " time_per_iteration_ms: 8.79K | tokens_per_sec: 182K | tokens_per_sec_per_gpu: 699 | global_batch_size: 1.6M |"
    " lm_loss: 2.04 | lr: 0.0003 | model_tflops_per_gpu: 15.4 | eta: 131 days, 1:45:39"
)
SWIFT = (
    "Train:  50%|#####     | 3/6 [00:51<00:51, 17.00s/it]      {'loss': '1.595', 'grad_norm': '41',"
    " 'learning_rate': '1e-05', 'global_step/max_steps': '3/6', 'elapsed_time': '1m 2s', 'memory(GiB)': '68.02'}"
)
PIPE = "v100x16-1: steps: 1 loss: 12.4023 iter time (s): 15.988 samples/sec: 0.250"
PIPE_EXPERTS = "steps: 40 loss: 6.1250 lm loss: 6.0810 moe loss: 0.0440 iter time (s): 0.912 samples/sec: 140.351"
TIMER = (
    "[2024-04-04 09:10:13,619] [INFO] [config.py:1000:print]   train_batch_size ............. 32\n"
    "[2024-04-04 09:10:13,619] [INFO] [timer.py:264:stop] epoch=0/micro_step=10/global_step=10,"
    " RunningAvgSamplesPerSec=15.1, CurrSamplesPerSec=16.0, MemAllocated=4.4GB, MaxMemAllocated=5.0GB"
)
VERL = (
    "(TaskRunner pid=2664304) step:2 - global_seqlen/mean:186078.625 - actor/pg_loss:-0.013 - actor/grad_norm:0.227"
    " - critic/rewards/mean:0.252 - response_length/mean:198.214 - timing_s/gen:44.684 - timing_s/old_log_prob:25.728"
    " - timing_s/ref:25.321 - timing_s/update_actor:75.544 - timing_s/step:172.797 - timing_per_token_ms/gen:0.044"
    " - perf/total_num_tokens:1488629.000 - perf/time_per_step:172.797 - perf/throughput:1076.864"
)
VERL_2024 = (
    "\x1b[36m(main_task pid=54569)\x1b[0m step:1 - timing/gen:20.434 - timing/ref:5.367 - timing/values:5.704"
    " - critic/kl:0.000 - timing/adv:0.058 - timing/update_critic:16.075 - critic/lr(1e-4):0.100"
    " - timing/update_actor:20.659 - actor/pg_loss:-0.016 - actor/grad_norm:1.917 - prompt_length/mean:105.523"
    " - prompt_length/max:199.000 - prompt_length/min:67.000"
)
NEMO_RL = (
    "========================= Step 4/29687 =========================\n"
    "  • Loss: 0.0502\n  • Avg Reward: 0.0879\n  • Mean Generation Length: 314.4863\n\n"
    "⏱️  Timing:\n  • Total step time: 10.82s"
)
VERL_SFT = (
    "step:2 - train/loss:0.7787683010101318 - train/lr(1e-3):0.0005405405405405405 - train/time(s):7.293778896331787"
)
VERL_SFT_2026 = (
    "step:7 - train/loss:0.71 - train/grad_norm:1.25 - train/lr:1e-05 - train/mfu:0.31 - train/time(s):6.125125 -"
    " train/global_tokens:131072 - train/total_tokens(B):0.000917504"
)
# NVIDIA/NeMo-Aligner issue 281, 2024-09-05, without most names of its postfix
ALIGNER = (
    "PPO Global Step:  20%|██        | 3/15 [05:36<16:05, 80.44s/it, rollout_time=36.6, train_time=6.19,"
    " train_consumed_samples=64, train_response_lengths=779, train_rewards=0.269]"
)
ALIGNER_DLLOGGER = (
    'DLLL {"timestamp": "1727486904.6", "type": "LOG", "step": 2, "data": {"timers/rollout_time": 98.53,'
    ' "timers/generate": 71.25, "timers/train_time": 21.41}}'
)
# alex-ht/nemo_cp_debug result_dir/run_4/sft-591883_0.err @ 336eeae
ALIGNER_SFT = (
    "Training steps:   0%|          | 3/1876 [04:00<30:12:51, 58.07s/it, train_grad_norm=nan, train_lr=1.5e-6,"
    " train_loss=2.57, train_consumed_samples=32, train_step_time=41.8, train_epoch=1]"
)
OPENRLHF = (
    "INFO 08-13 19:25:45 ppo_trainer.py:547] ✨ Global step 3: {'policy_loss': -0.015, 'actor_grad_norm': 0.25,"
    " 'reward': 0.5, 'timing/make_experience': 4.5, 'timing/ppo_train': 12.25, 'timing/broadcast': 1.5,"
    " 'timing/generation': 23.0, 'timing/step_total': 41.25}"
)
TRL = (
    'benchrun config: {"recipe": "tiny-grpo", "planned_steps": 30, "versions": {"trl": "1.16.0"}}\n'
    'benchrun step: {"step": 3, "step_time_s": 1.25, "generation_s": 0.9, "reward": 0.4, "policy_loss": 0.015}'
)

# line, framework, step, step time in s, tokens/s/GPU, TFLOPS, loss, global batch, planned steps
LINES = {
    "megatron-2020": (MEGATRON_2020, "megatron-lm", 7, 1.2345, None, None, 7.5, None, 100),
    "megatron-open": (MEGATRON_OPEN, "megatron-lm", 7, 1.2345, None, None, 7.5, 80, 100),
    "megatron-2026": (MEGATRON_2026, "megatron-lm", 12, 3.2373, None, 336.4, 10.31, 80, 500),
    "megatron-seconds": (MEGATRON_SECONDS, "megatron-lm", 5, 126.64, None, None, 9.1, 1024, 1000),
    "megatron-two-values": (MEGATRON_TWO_VALUES, "megatron-lm", 126, 13.3728, 9801.4, None, 3.4, 512, 5000),
    "megatron-equals": (MEGATRON_KEY_EQUALS_VALUE, "megatron-lm", 136004, 3.4153, None, None, 12.316531, 6144, 136100),
    "primus-2026": (PRIMUS_2026, "megatron-lm", 31, 1.6302, 10051.5, 498.7, 7.4, 256, 200),
    "megatron-hyphen": (MEGATRON_HYPHEN, "megatron-lm", 20, 138.2104, None, None, 9.5, 1024, 1000),
    "neox": (NEOX, "megatron-lm", 120, 16.7285, None, 41.3, 6.25, None, 143000),
    "bridge-2025": (BRIDGE_2025, "megatron-bridge", 1, 12.61, None, 531.9, None, None, None),
    "bridge": (BRIDGE, "megatron-bridge", 1, 14.19, None, 1263.4, None, None, None),
    "nemo2": (NEMO_2, "nemo2", 3, 12.64, 10730.0, 712.3, 11.03, 128, 100),
    "automodel": (AUTOMODEL, "nemo-automodel", 10, None, 1718.28, None, 0.8534, None, None),
    "automodel-gpu": (AUTOMODEL_GPU, "nemo-automodel", 9, None, 2075.14, None, 1.1696, None, None),
    "nemo1": (NEMO_1, "nemo1", 7, 49.5, None, None, 11.5, None, 15),
    "mllog": (MLLOG, "nemo1", 4194304, 12.160857439041138, None, None, 2.78, None, None),
    "mllog-rate": (MLLOG_RATE, "nemo1", 1536, 3.2, None, None, None, None, None),
    "dllogger": (DLLOGGER, "nemo1", 2, 52.8040657043457, None, None, 10.3, None, None),
    "titan": (TITAN, "torchtitan", 10, None, 71634.0, 1048.68, 11.63459, None, None),
    "titan-2024": (TITAN_2024, "torchtitan", 127, None, 1703.0, None, 3.7705, None, None),
    "maxtext": (MAXTEXT, "maxtext", 10, 13.36, 3679.158, 305.127, 10.565, None, None),
    "maxtext-2024": (MAXTEXT_2024, "maxtext", 10, 13.36, None, 305.127, 10.565, None, None),
    "maxtext-2023": (MAXTEXT_2023, "maxtext", 210, 2.061, None, 38.611, 3.125, None, None),
    "paxml": (PAXML, "paxml", 100, 1 / 0.2501234567, None, None, 5.123456, None, None),
    "nanotron": (NANOTRON, "nanotron", 211364, 8.79, 699.0, 15.4, 2.04, None, 1500000),
    "ms-swift": (SWIFT, "hf", 3, 62 / 3, None, None, 1.595, None, 6),
    "deepspeed-pipe": (PIPE, "deepspeed", 1, 15.988, None, None, 12.4023, None, None),
    "deepspeed-experts": (PIPE_EXPERTS, "deepspeed", 40, 0.912, None, None, 6.125, None, None),
    "verl": (VERL, "verl", 2, 172.797, 1076.864, None, -0.013, None, None),
    "verl-2024": (VERL_2024, "verl", 1, 68.297, None, None, -0.016, None, None),
    "verl-sft": (VERL_SFT, "verl-sft", 2, 7.293778896331787, None, None, 0.7787683010101318, None, None),
    "verl-sft-2026": (VERL_SFT_2026, "verl-sft", 7, 6.125125, None, None, 0.71, None, None),
    "nemo-rl": (NEMO_RL, "nemo-rl", 4, 10.82, None, None, 0.0502, None, 29687),
    "nemo-aligner": (ALIGNER, "nemo-aligner", 4, 42.79, None, None, None, None, 15),
    "nemo-aligner-dllogger": (ALIGNER_DLLOGGER, "nemo-aligner", 3, 119.94, None, None, None, None, None),
    "nemo-aligner-sft": (ALIGNER_SFT, "nemo-aligner-sft", 4, 41.8, None, None, 2.57, 8, 1876),
    "openrlhf": (OPENRLHF, "openrlhf", 3, 41.25, None, None, -0.015, None, None),
    "trl": (TRL, "trl", 3, 1.25, None, None, 0.015, None, 30),
    "deepspeed-timer": (TIMER, "deepspeed", 10, 2.0, None, None, None, 32, None),
}
EACH = pytest.mark.parametrize("name", LINES)
SOME = pytest.mark.parametrize("name", some(LINES, 10))


PREFIXES = ["12: ", "  0: [default0]:", "host-1: ", "(task, pid=6678) ", "[+  300.557] "]


def parse(tmp_path: Path, text: bytes | str, **options: str) -> Log:
    path = tmp_path / "x.log"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return parse_log(path, **options)


@EACH
def test_a_line_as_it_is_printed(tmp_path: Path, name: str) -> None:
    text, framework, step, time_s, tokens, tflops, loss, batch, planned = LINES[name]
    log = parse(tmp_path, f"before\n{text}\nafter\n")
    (row,) = log.steps
    assert log.framework == framework
    assert (row.step, row.loss, row.global_batch_size, log.planned_steps) == (step, loss, batch, planned)
    assert row.step_time_s == (time_s if time_s is None else pytest.approx(time_s, rel=1e-9))
    assert (row.tokens_per_s_per_gpu, row.tflops_per_gpu) == (tokens, tflops)
    assert row.line == 2 + text.count("\n")


def test_every_dialect_has_a_line_here() -> None:
    clients = {name for name, dialect in DIALECTS.items() if issubclass(dialect, Console)}  # tests/inference
    # The worker: tests/worker; a log that states its expression: tests/frameworks.
    elsewhere = {"megatron-core", "command", *clients}
    assert {line[1] for line in LINES.values()} == set(DIALECTS) - elsewhere


@pytest.mark.parametrize(("name", "prefix"), pairs(LINES, PREFIXES))
def test_prefixes_of_launchers_change_nothing(tmp_path: Path, name: str, prefix: str) -> None:
    text = "\n".join(prefix + line for line in LINES[name][0].split("\n"))
    assert values(parse(tmp_path, text + "\n")) == values(parse(tmp_path, LINES[name][0] + "\n"))


@SOME
def test_a_cut_line_gives_its_value_or_nothing(tmp_path: Path, name: str) -> None:
    """Cut anywhere, as a killed job leaves it: by the end of the file, or by another rank's line."""
    text = LINES[name][0]
    whole = values(parse(tmp_path, text + "\n"))
    for end in range(len(text)):
        for tail in ("", "\n", "\n[rank3]: something else | 17 |\n"):
            found = values(parse(tmp_path, text[:end] + tail))
            assert right_or_nothing(found, whole), (text[:end], tail, found)


@SOME
def test_another_ranks_line_in_the_middle_changes_no_value(tmp_path: Path, name: str) -> None:
    before, newline, text = LINES[name][0].rpartition("\n")
    whole = values(parse(tmp_path, f"{before}{newline}{text}\n"))
    for at in range(0, len(text), 3):
        glued = before + newline + f"{text[:at]}[rank3]: W0101 some.py:17] a warning\n{text[at:]}\n"
        found = values(parse(tmp_path, glued))
        assert right_or_nothing(found, whole), (glued, found)


def right_or_nothing(found: list[Any], whole: list[Any]) -> bool:
    """Nothing, or the row with the right time; a rate beside it may be missing."""
    return found == [] or (len(found) == 1 and all(map(_same, found[0], whole[0])))


def _same(found: float | int | None, whole: float | int | None) -> bool:
    return found is None or found == pytest.approx(whole, rel=1e-4)


def values(log: Log) -> list[Any]:
    """What a verdict could rest on."""
    return [(row.step, row.step_time_s, row.tokens_per_s_per_gpu) for row in log.steps]


@pytest.mark.parametrize(
    "text",
    [
        " validation loss at iteration 100 | lm loss value: 4.812E+00 | lm loss PPL: 1.2E+02 | elapsed time per |",
        "  saving checkpoint at iteration      20 to /checkpoints",
        "(after 10 iterations) memory (MB) | allocated: 100.0 | elapsed |",
        "Setting rerun_state_machine.current_iteration to 0...",
        "Sanity checking Validation: iteration 1/2",
        "Validation DataLoader 0:  50%|#####     | 1/2 [00:01<00:01,  1.0it/s]",
        "[titan] - root - INFO - validate step: 10  loss: 11.6  memory: 29.11GiB(92.83%)  tps: 71,634",
        "{'eval_loss': 1.67, 'eval_runtime': 13.2, 'eval_steps_per_second': 0.076, 'epoch': 1.0}",
        "Loading checkpoint shards: 100%|##########| 4/4 [00:04<00:00, 1.0s/it]",
        ':::MLLOG {"key": "tracked_stats", "value": {"validation_step_timing": 5.4}, "metadata": {"step": 4194304}}',
    ],
)
def test_what_looks_like_a_step_is_none(tmp_path: Path, text: str) -> None:
    assert len(parse(tmp_path, f"{text}\n").steps) == 0


def test_a_rate_over_a_block_of_steps_is_no_step_where_steps_are_timed(tmp_path: Path) -> None:
    log = parse(tmp_path, f"{MLLOG_RATE.splitlines()[0]}\n{MLLOG}\n{MLLOG_RATE.splitlines()[1]}\n")
    assert [(row.step, row.step_time_s) for row in log.steps] == [(4194304, 12.160857439041138)]


def test_bytes_that_are_no_text_spoil_a_number_and_no_name(tmp_path: Path) -> None:
    text = _iteration(3, 1500.0).encode()
    (row,) = parse(
        tmp_path, text.replace(b"| lm loss", b"|\xff lm\xfe loss").replace(b"| global", b"|\xf0 global")
    ).steps
    assert (row.step_time_s, row.loss, row.global_batch_size) == (1.5, 1.0, 64)
    assert not len(parse(tmp_path, text.replace(b"1500", b"15\xff00")).steps)


def test_arguments_that_say_whether_they_are_defaults(tmp_path: Path) -> None:
    said = {"seq_length": 2048, "train_batch_size": 1024, "global_num_gpus": 32, "pipe_parallel_size": 2}
    lines = [f"  {name} {'.' * (32 - len(name))} {value!s:.<28}updated\n" for name, value in said.items()]
    summary = summarise(parse(tmp_path, "".join(lines) + NEOX + "\n"), warmup=0)
    assert (summary.seq_length, summary.global_batch_size, summary.num_gpus, summary.layout["pp"]) == (
        2048,
        1024,
        32,
        2,
    )
    assert summary.tokens_per_s_per_gpu.median == pytest.approx(1024 * 2048 / 32 / 16.7285)


def test_both_lines_of_a_bridge_step_are_one_row(tmp_path: Path) -> None:
    lines = [
        f"Step Time : {n}.00s GPU utilization: {100 * n}.0MODEL_TFLOP/s/GPU\n{_iteration(n, n * 1000)}" for n in (1, 2)
    ]
    (first, second) = parse(tmp_path, "".join(lines)).steps
    assert (second.step, second.step_time_s, second.tflops_per_gpu) == (2, 2.0, 200.0)
    assert first.loss == 1.0


def _iteration(step: int, milliseconds: float, planned: Any = 100, loss: float = 1.0) -> str:
    return (
        f" iteration {step:8d}/{planned:8d} | elapsed time per iteration (ms): {milliseconds:.1f} |"
        f" global batch size:    64 | lm loss: {loss:.6E} |\n"
    )


def test_a_row_that_averages_counts_as_often_as_its_steps(tmp_path: Path) -> None:
    lines = [_iteration(step, ms) for step, ms in ((10, 1000), (20, 1000), (30, 1000), (31, 5000))]
    log = parse(tmp_path, "".join(lines))
    assert [row.interval for row in log.steps] == [10, 10, 10, 1]
    assert summarise(log, warmup=0).step_time_s.mean == pytest.approx(35 / 31)


def test_a_restart_is_a_segment_and_its_rows_win(tmp_path: Path) -> None:
    lines = [_iteration(n, 1000 + n) for n in range(1, 11)] + [_iteration(n, 2000 + n, loss=2.0) for n in range(6, 13)]
    log = parse(tmp_path, "".join(lines))
    assert (log.segments, len(log.steps), len(log.distinct)) == (2, 17, 12)
    assert [row.segment for row in log.distinct] == [0] * 5 + [1] * 7
    assert log.distinct[5].step_time_s == pytest.approx(2.006)


def test_ranks_that_all_print_a_step_make_one_row(tmp_path: Path) -> None:
    lines = [f"[rank{rank}]:{_iteration(n, 1000 + n)}" for n in range(1, 21) for rank in range(4)]
    shuffled = [lines[i] for i in sorted(range(80), key=lambda i: i // 4 * 4 + i * 7 % 5)]
    log = parse(tmp_path, "".join(shuffled))
    assert (log.segments, len(log.steps)) == (1, 20)


def test_dropped_lines_are_missed(tmp_path: Path) -> None:
    lines = [_iteration(n, 1000) for n in range(1, 21) if n != 12]
    kinds = {problem.kind: problem.detail for problem in parse(tmp_path, "".join(lines)).problems}
    assert kinds["missing_steps"] == "no row between step 11 and 13"


@SOME
def test_a_forced_framework_reads_its_own_lines_and_no_others(tmp_path: Path, name: str) -> None:
    text, framework = LINES[name][:2]
    assert len(parse(tmp_path, text + "\n", framework=framework).steps) == 1
    others = {dialect for dialect in DIALECTS if len(parse(tmp_path, text + "\n", framework=dialect).steps)}
    assert others == {framework}


@pytest.mark.parametrize("word", ["nan", "NaN", "-nan", "nan.0", "inf", "-inf", "inf.0", "     nan"])
@pytest.mark.parametrize(
    "line",
    [
        "step: {0}  loss: {1}  grad_norm:  1.5000  memory: 60.00GiB(75.00%)  tps: 10,000  tflops: 300.00  mfu: 30.00%",
        "completed step: {0}, seconds: 5.667, TFLOP/s/device: 134.924, Tokens/s/device: 8672.758, loss: {1}",
        " iteration {0}/ 9 | elapsed time per iteration (ms): 1234.5 | global batch size: 8 | lm loss: {1} |",
        "Epoch 0: :  5%|#| {0}/9 [00:0{0}<00:20, reduced_train_loss={1}, train_step_timing in s=0.600]",
        "{{'loss': {1}, 'grad_norm': 1.5, 'learning_rate': 1e-05, 'epoch': 0.0{0}}}",
        '{{"textPayload": "completed step: {0}, seconds: 5.667, Tokens/s/device: 8672.758, loss: {1}"}}',
    ],
)
def test_a_loss_that_is_no_number_is_fatal_in_any_dress(tmp_path: Path, line: str, word: str) -> None:
    path = tmp_path / "x.log"
    path.write_text("".join(line.format(step, word) + "\n" for step in range(1, 10)), encoding="utf-8")
    summary = summarise(parse_log(path))
    assert summary.fatal is not None and summary.fatal.kind == "nan_loss"
