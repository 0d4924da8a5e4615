"""Logs of post-training: stages and rates of a step, and steps that hold a validation or a checkpoint."""

import json
import re
from pathlib import Path

import pytest

from benchrun import api
from benchrun.errors import UserError
from benchrun.frameworks.logs import parse_log
from benchrun.measure.model import Summary
from benchrun.measure.setting import Setting
from benchrun.measure.summary import summarise
from benchrun.show.terminal import summary_view

# eric-haibin-lin/verl-data gsm8k/qwen2-7b-fsdp2.log @ 2ef0b0a, without most of its keys
VERL = """(WorkerDict pid=2673758) Total steps: 105, num_warmup_steps: 0
(TaskRunner pid=2664304) step:0 - val-core/openai/gsm8k/reward/mean@1:0.229 - val-aux/openai/gsm8k/reward/std@1:0.000
"""
KEYS = ("gen", "old_log_prob", "ref", "update_actor", "testing", "save_checkpoint", "step")
VERL_STEPS = {
    1: (42.918, 27.316, 25.057, 82.579, None, None, 179.003, 1503056, 1049.601),
    2: (44.684, 25.728, 25.321, 75.544, None, None, 172.797, 1488629, 1076.864),
    3: (42.974, 25.030, 24.679, 74.740, None, None, 168.591, 1468481, 1088.793),
    4: (42.162, 24.810, 24.342, 73.600, None, None, 166.073, 1437682, 1082.119),
    5: (45.378, 25.613, 24.976, 76.559, 45.697, None, 219.373, 1506857, 858.615),
    6: (42.981, 25.190, 24.771, 76.075, None, None, 170.170, 1484634, 1090.549),
    7: (42.839, 25.437, 25.368, 76.747, None, None, 171.527, 1477019, 1076.378),
    8: (41.857, 24.927, 24.530, 73.994, None, None, 166.497, 1463543, 1098.779),
    9: (42.551, 24.934, 24.713, 73.945, None, None, 167.295, 1455254, 1087.343),
    10: (42.424, 24.331, 23.982, 73.970, 45.101, None, 210.923, 1457885, 863.992),
}
# AI-Hypercomputer/gpu-recipes RL/a4/recipes/llama3.1-8b/nemoRL/README.md @ 2e1fd5e
NEMO_RL_2025 = """📊 Training Results:
  • Loss: 0.0502
  • Avg Reward: 0.0879
  • Mean Generation Length: 314.4863

⏱️  Timing:
  • Total step time: 10.82s
  • generation: 5.61s (51.9%)
  • prepare_for_generation: 1.95s (18.1%)
  • policy_training: 1.36s (12.6%)
  • policy_and_reference_logprobs: 0.80s (7.4%)
  • logprob_inference_prep: 0.55s (5.1%)

========================= Step 5/29687 =========================
▶ Preparing batch...
"""
BLOCK = """
========================= Step {step}/4 =========================
▶ Generating responses for batch of size 1024...
{before}📊 Training Results:
  • Loss: 0.0100
  • Generation KL Error: 0.0010
  • Avg Reward: 0.{step}000
  • Mean Generation Length: 201.2197

⏱️  Timing:
  • Total step time: {total}s
  • policy_training: 10.97s (30.7%)
{other}  • generation: 4.95s (13.9%)
  • policy_and_reference_logprobs: 3.14s (8.8%)
  • prepare_for_generation/total: 2.20s (6.2%)
  • prepare_for_generation/transfer_and_update_weights: 0.60s (1.7%)

🔍 Performance Metrics:
  • Mean Total Tokens per Sample: 204.01
  • Throughputs (per GPU):
    - E2E (Samples/sec/gpu): 3.59
    - E2E (Tokens/sec/gpu): 1073.59
    - Policy Training (Tokens/sec/gpu): 3492.73
    - Policy and Reference Logprobs (Tokens/sec/gpu): 12201.78
    - Training Worker Group (Tokens/sec/gpu): 2715.44
    - Generation Worker Group (Tokens/sec/gpu): 7745.97
  • Throughputs (per Group):
    - E2E (Samples/sec): 28.68
    - E2E (Tokens/sec): 8588.75
"""
VALIDATED = "▶ Starting validation at step 2...\n  ⏱️  Validation Timing:\n    • Total validation time: 5.00s\n"


def summary(tmp_path: Path, text: str, warmup: int | None = None) -> Summary:
    path = tmp_path / "x.log"
    path.write_text(text)
    return summarise(parse_log(path), warmup=warmup)


def medians(found: Summary) -> dict[str, float]:
    return {name: spread.median for name, spread in found.quantities.items()}


def verl() -> str:
    lines = [VERL]
    for step, (*times, tokens, rate) in VERL_STEPS.items():
        named = [f"timing_s/{key}:{time:.3f}" for key, time in zip(KEYS, times, strict=True) if time is not None]
        fields = ["critic/rewards/mean:0.5", *named, f"perf/total_num_tokens:{tokens}.000", f"perf/throughput:{rate}"]
        lines.append(f"\x1b[36m(TaskRunner pid=2664304)\x1b[0m step:{step} - {' - '.join(fields)}\n")
    return "".join(lines)


def test_verl_leaves_out_steps_with_a_validation(tmp_path: Path) -> None:
    found = summary(tmp_path, verl(), warmup=1)
    assert (found.framework, found.num_steps, found.planned_steps, found.complete) == ("verl", 10, 105, False)
    assert (found.num_gpus, found.window.rows) == (8, 7)
    assert found.step_time_s.mean == pytest.approx(168.99, abs=0.005)
    assert found.tokens_per_s_per_gpu.mean == pytest.approx(1085.8, abs=0.1)
    (left_out,) = (problem for problem in found.problems if problem.kind == "other_work")
    assert "5, 10" in left_out.detail


def test_verl_names_the_stages(tmp_path: Path) -> None:
    found = medians(summary(tmp_path, verl(), warmup=1))
    assert found["generation_s"] == 42.839
    assert found["training_s"] == 74.740
    assert found["logprob_s"] == pytest.approx(49.709)
    assert found["generation_tokens_per_s_per_gpu"] == pytest.approx(1468481 / 42.974 / 8, rel=0.02)


def test_verl_of_2024_has_no_total_and_counts_from_0(tmp_path: Path) -> None:
    line = (
        "(main_task pid=1) step:{} - timing/gen:18.859 - timing/ref:5.501 - timing/values:5.664 - critic/kl:-0.000"
        " - timing/adv:0.058 - timing/update_critic:16.185 - timing/update_actor:20.611 - prompt_length/mean:101.816"
        " - prompt_length/max:199.000 - prompt_length/min:64.000\n"
    )
    text = "(main_task pid=1) step:0 - test_score/openai/gsm8k:0.521\nTotal steps: 3, num_warmup_steps: 0\n"
    found = summary(tmp_path, text + "".join(map(line.format, range(3))))
    assert (found.first_step, found.last_step, found.complete) == (0, 2, True)
    assert found.step_time_s.median == pytest.approx(66.878)


def test_the_first_nemo_rl_prints_no_rates(tmp_path: Path) -> None:
    found = summary(tmp_path, NEMO_RL_2025)
    assert (found.framework, found.num_steps, found.planned_steps, found.complete) == ("nemo-rl", 1, 29687, False)
    assert (found.step_time_s.median, found.tokens_per_s_per_gpu.median, found.final_loss) == (10.82, None, 0.0502)
    assert medians(found) == {
        **{"reward": 0.0879, "response_tokens": 314.4863, "generation_s": 5.61, "weight_sync_s": 1.95},
        **{"training_s": 1.36, "logprob_s": 0.8},
    }


def test_batch_sequence_and_model_give_no_rate(tmp_path: Path) -> None:
    path = tmp_path / "x.log"
    path.write_text(NEMO_RL_2025)
    given = api.completed_setting("llama3.1-8b", Setting(gbs=512, num_gpus=8, gpu="H100", precision="bf16"))
    found = summarise(parse_log(path), given=given)
    assert (found.tokens_per_s_per_gpu.median, found.tflops_per_gpu, found.mfu) == (None, None, ())
    assert "add --" not in str(summary_view(summarise(parse_log(path))))
    path.write_text(verl())
    found = summarise(parse_log(path), given=given)
    assert (found.tokens_per_s_per_gpu.mean is None, found.tflops_per_gpu, found.mfu) == (False, None, ())


@pytest.mark.parametrize("recipe", ["qwen3-30b-a3b-grpo", "llama3.1-8b", "deepseek-r1-inference"])
def test_a_bare_log_has_no_verdict(tmp_path: Path, recipe: str) -> None:
    path = tmp_path / "x.log"
    path.write_text(verl())
    given = Setting(gbs=512, num_gpus=8, gpu="H100", precision="bf16")
    with pytest.raises(UserError, match="a bare log of post-training has no verdict"):
        api.judge_log(parse_log(path), recipe, given)


def blocks(*steps: int) -> str:
    parts = {
        3: {"total": "45.50", "other": "  • checkpointing: 9.80s (21.5%)\n", "before": ""},
        2: {"total": "40.70", "other": "", "before": VALIDATED},
    }
    usual = {"total": "35.70", "other": "", "before": ""}
    return "".join(BLOCK.format(step=step, **parts.get(step, usual)) for step in steps)


def test_nemo_rl_leaves_out_validation_and_checkpoint_and_reads_rates(tmp_path: Path) -> None:
    found = summary(tmp_path, blocks(1, 2, 3, 4), warmup=0)
    assert (found.num_steps, found.complete, found.num_gpus, found.window.rows) == (4, True, 8, 2)
    assert (found.step_time_s.mean, found.tokens_per_s_per_gpu.median) == (35.7, 1073.59)
    values = medians(found)
    assert (values["weight_sync_s"], values["generation_s"]) == (2.2, 4.95)
    assert (values["generation_tokens_per_s_per_gpu"], values["training_tokens_per_s_per_gpu"]) == (7745.97, 3492.73)
    assert (found.first_reward, found.final_reward) == (0.1, 0.4)


def test_where_every_step_holds_other_work_they_count(tmp_path: Path) -> None:
    found = summary(tmp_path, blocks(3))
    assert (found.step_time_s.median, found.window.rows) == (45.5, 1)


def test_an_asynchronous_step_counts_what_training_waited_for(tmp_path: Path) -> None:
    text = blocks(1).replace("• generation:", "• exposed_generation:")
    text = text.replace("• prepare_for_generation/total:", "• weight_sync:")
    values = medians(summary(tmp_path, text))
    assert (values["generation_s"], values["weight_sync_s"]) == (4.95, 2.2)


def test_nemo_rl_as_json(tmp_path: Path) -> None:
    metrics = {
        "performance/generation_tokens_per_sec_per_gpu": {"1": 800.5, "2": 810.5},
        "performance/tokens_per_sec_per_gpu": {"1": 100.5, "2": 101.5},
        "timing/train/generation": {"1": 5.5, "2": 5.25},
        "timing/train/policy_training": {"1": 2.5, "2": 2.25},
        "timing/train/total_step_time": {"1": 10.5, "2": 10.25},
        "train/loss": {"1": 0.5, "2": 0.25},
        "train/reward": {"1": 0.125, "2": 0.25},
        "validation/accuracy": {"0": 0.5},
    }
    found = summary(tmp_path, json.dumps(metrics, indent=2), warmup=1)
    assert (found.framework, found.num_steps, found.step_time_s.median) == ("nemo-rl", 2, 10.25)
    assert (found.tokens_per_s_per_gpu.median, found.final_loss, found.final_reward) == (101.5, 0.25, 0.25)
    values = medians(found)
    assert (values["generation_s"], values["training_s"]) == (5.25, 2.25)
    assert values["generation_tokens_per_s_per_gpu"] == 810.5


def aligner(train_time: str = "") -> str:
    """As tqdm draws three steps of 100 s, each bar with the next step's postfix before its number rises."""
    bars, clock = ["PPO Global Step:   0%|          | 0/3 [00:00<?, ?it/s]"], 0
    for step in range(3):
        clock += 100 + (7 if step == 1 else 0)  # a validation of 7 s
        checked = ", validation_time=7" if step == 1 else ""
        postfix = f"rollout_time={60 + step}, generate={40 + step}, logprobs=8{train_time}{checked}, train_rewards=0.5"
        postfix += ", train_rollout_size=64, train_response_lengths=500"
        for number in (step, step + 1):
            drawn = f"{clock // 60:02d}:{clock % 60:02d}<05:00, 100.5s/it, {postfix}"
            bars.append(f"PPO Global Step:  {30 * number:2d}%|###       | {number}/3 [{drawn}]")
            clock += 20 if number == 0 else 0  # a checkpoint, between the drawings
    return "\r".join(bars) + "\n"


def test_aligner_adds_rollout_and_training(tmp_path: Path) -> None:
    found = summary(tmp_path, aligner(", train_time=30"), warmup=0)
    assert (found.framework, found.num_steps, found.complete) == ("nemo-aligner", 3, True)
    assert (found.step_time_s.median, medians(found)["generation_s"]) == (91.0, 41.0)
    assert medians(found)["training_s"] == 30
    assert medians(found)["tokens"] == 64 * 500


def test_aligner_without_its_training_time_takes_the_clock(tmp_path: Path) -> None:
    found = summary(tmp_path, aligner(), warmup=0)
    assert found.whole_seconds
    assert (found.step_time_s.p5, found.step_time_s.p95) == (100, 100)
    assert medians(found)["training_s"] == 39


def doubled(match: re.Match[str]) -> str:
    clock = 2 * (60 * int(match[1]) + int(match[2]))
    return f"{clock // 60:02d}:{clock % 60:02d}<"


def test_aligners_clock_is_that_of_one_training(tmp_path: Path) -> None:
    slow = re.sub(r"(\d+):(\d\d)<", doubled, aligner())
    found = summary(tmp_path, aligner() + slow, warmup=0)
    assert (found.step_time_s.median, found.num_steps, found.fatal.kind) == (200, 3, "second_training")
    crashed = "\r".join(aligner().split("\r")[:4]) + "\n"
    restarted = summary(tmp_path, crashed + slow, warmup=0)
    assert (restarted.step_time_s.median, restarted.num_steps, restarted.fatal) == (200, 3, None)


# NVIDIA/NeMo-Aligner issue 281, 2024-09-05: two ranks, one's bar cut by the other's, both without their last names
ALIGNER_2024 = (
    "PPO Global Step:  20%|██        | 3/15 [05:36<16:05, 80.44s/it, rollout_time=36.6, batch_iterator_init=0.0306,"
    " critic_wait=1.3, finish_inference=0.00473, generate=27.6, init_logprobs=2.33, logprobs=0.631,"
    " prepare_for_inference=4.55, train_time=6.19, train_consumed_samples=64, train_response_lengths=779,"
    " train_prompt_lengths=84.2, train_generation_length=695, train_rewards=0.269, train_values_mean="
    "PPO Global Step:  20%|██        | 3/15 [05:36<16:05, 80.44s/it, rollout_time=36.6, batch_iterator_init=0.0306,"
    " critic_wait=1.3, finish_inference=0.00473, generate=27.6, init_logprobs=2.33, logprobs=0.631,"
    " prepare_for_inference=4.55, train_time=6.05, train_consumed_samples=64, train_response_lengths=779,"
    " train_prompt_lengths=84.2, train_generation_length=695, train_rewards=0.269]\n"
)


def test_aligners_samples_say_which_step_a_first_bar_has(tmp_path: Path) -> None:
    """64 samples are those of 4 steps, not of 3: the number has not risen yet."""
    found = summary(tmp_path, ALIGNER_2024, warmup=0)
    assert (found.first_step, found.last_step, found.planned_steps) == (4, 4, 15)
    assert found.step_time_s.median == pytest.approx(36.6 + 6.05)
    values = medians(found)
    assert (values["generation_s"], values["training_s"], values["critic_wait_s"]) == (27.6, 6.05, 1.3)
    assert (values["tokens"], values["response_tokens"]) == (16 * 779, 695)


def test_every_rank_of_aligner_draws_its_bar(tmp_path: Path) -> None:
    """As ranks do in the log of its fine-tuning: one after another, each with its own times and two drawings a step."""
    first, other = (
        text.rstrip("\n").split("\r") for text in (aligner(), aligner().replace("generate=4", "generate=3"))
    )
    bars = [first[0], other[0]]
    for step in range(1, len(first), 2):
        bars += [*first[step : step + 2], *other[step : step + 2]]
    alone, both = summary(tmp_path, aligner(), warmup=0), summary(tmp_path, "\r".join(bars) + "\n", warmup=0)
    assert (both.num_steps, both.segments, both.fatal) == (3, 1, None)
    assert (both.step_time_s, both.quantities) == (alone.step_time_s, alone.quantities)


STEP = (
    "Training steps:   0%|          | {}/1876 [00:40<18:00:00, 40.00s/it, train_loss={}, train_consumed_samples={},"
    " train_step_time={}, train_epoch=1]"
)


def test_the_slowest_rank_of_aligners_fine_tuning_counts(tmp_path: Path) -> None:
    bars = []
    for step in (1, 2, 3):
        for time_s in (38 + step, 40 + step, 37 + step):
            bars += [STEP.format(number, step, 8 * step, time_s) for number in (step - 1, step)]
    found = summary(tmp_path, "\r".join(bars) + "\n", warmup=0)
    assert (found.num_steps, found.global_batch_size, found.segments) == (3, 8, 1)
    assert (found.step_time_s.p5, found.step_time_s.median) == (pytest.approx(41.1), 42)


def test_a_rate_of_a_damaged_json_is_none(tmp_path: Path) -> None:
    metrics = {"performance/tokens_per_sec_per_gpu": {"1": 1e300}, "timing/train/total_step_time": {"1": 10.5}}
    found = summary(tmp_path, json.dumps(metrics, indent=2), warmup=0)
    assert (found.step_time_s.median, found.tokens_per_s_per_gpu.median) == (10.5, None)


def test_an_openrlhf_dictionary_may_hold_other_types(tmp_path: Path) -> None:
    text = "✨ Global step 1: {'policy_loss': tensor(-0.5), 'timing/step_total': np.float64(41.25), 'generated': 'x'}\n"
    found = summary(tmp_path, text)
    assert (found.step_time_s.median, found.final_loss) == (41.25, -0.5)


# jiosephlee/OpenRLHF-Tools scripts/logs/grpo-tdc-gptoss_4829054.out @ 303e13e: its last steps, without most keys
OPENRLHF_2025 = """(PPOTrainer pid=4035977) INFO 03-09 14:40:37 experience_maker.py:1212] 🚀 Starting experience making with 256 samples
(PPOTrainer pid=4035977) INFO 03-09 14:42:48 ppo_trainer.py:1179] ✨ Global step 82: {'time/forward_pass': 32.42857599258423, 'actor_lr': 9.999999747378752e-06, 'policy_loss': 0.11498511000536382, 'response_length': 6634.70703125, 'return': -1.3969838619232178e-09, 'reward': 0.60546875, 'vllm_rollout_wall_sec': 327.91, 'vllm_train_wall_sec': 131.59}
(PPOTrainer pid=4035977) INFO 03-09 14:51:41 ppo_trainer.py:1179] ✨ Global step 83: {'time/forward_pass': 32.54558873176575, 'actor_lr': 9.999999747378752e-06, 'policy_loss': 182.792213836452, 'response_length': 6235.390625, 'return': -1.280568540096283e-09, 'reward': 0.55859375, 'vllm_rollout_wall_sec': 401.73, 'vllm_train_wall_sec': 130.41}
(PPOTrainer pid=4035977) INFO 03-09 15:00:42 ppo_trainer.py:1179] ✨ Global step 84: {'time/forward_pass': 33.821380853652954, 'actor_lr': 9.999999747378752e-06, 'policy_loss': 0.19975168246310204, 'response_length': 7641.890625, 'return': -3.259629011154175e-09, 'reward': 0.5703125, 'vllm_rollout_wall_sec': 407.88, 'vllm_train_wall_sec': 132.93}
(PPOTrainer pid=4035977) INFO 03-09 15:07:44 ppo_trainer.py:1179] ✨ Global step 85: {'time/forward_pass': 33.623006105422974, 'actor_lr': 9.999999747378752e-06, 'policy_loss': 0.07258933619596064, 'response_length': 7718.1484375, 'return': -2.3283064365386963e-10, 'reward': 0.45703125, 'vllm_rollout_wall_sec': 287.91, 'vllm_train_wall_sec': 133.01}Copying Ray logs from: /tmp/ray_jojolee/4829054/ray/session_latest
"""  # noqa: E501


def test_openrlhf_without_times_has_those_of_its_clock(tmp_path: Path) -> None:
    """The fork's own sums of rollout and training agree: 532.1, 540.8 and 420.9 s."""
    path = tmp_path / "x.log"
    path.write_text(OPENRLHF_2025)
    log = parse_log(path)
    assert (log.framework, log.whole_seconds) == ("openrlhf", True)
    assert [(row.step, row.step_time_s) for row in log.steps] == [(82, None), (83, 533), (84, 541), (85, 422)]
    found = summarise(log, warmup=0)
    assert (found.step_time_s.mean, found.final_loss) == (pytest.approx(498.67, abs=0.01), 0.07258933619596064)
    assert medians(found)["response_tokens"] == 7641.890625


def test_the_clock_of_openrlhf_counts_missing_steps_and_no_turn_of_the_year(tmp_path: Path) -> None:
    lines = OPENRLHF_2025.splitlines(keepends=True)
    path = tmp_path / "x.log"
    path.write_text("".join([*lines[:2], *lines[3:]]))
    assert [(row.step_time_s, row.interval) for row in parse_log(path).steps] == [(None, 1), (537, 2), (422, 1)]
    path.write_text(OPENRLHF_2025.replace("03-09 15:07:44", "01-01 00:00:44"))
    assert [row.step_time_s for row in parse_log(path).steps] == [None, 533, 541, None]
    path.write_text(OPENRLHF_2025.replace("03-09 15:07:44", "13-09 15:07:44"))
    assert [row.step_time_s for row in parse_log(path).steps] == [None, 533, 541, None]


CONFIGURED = """(TaskRunner pid=1)  'reward_model': {'n_gpus_per_node': 8, 'nnodes': 0},
(TaskRunner pid=1)  'trainer': {'n_gpus_per_node': 4,
(TaskRunner pid=1)              'nnodes': 2,
(TaskRunner pid=1)              'total_training_steps': None}}
"""
NO_RATES = "(TaskRunner pid=1) step:{} - timing_s/gen:20.000 - timing_s/update_actor:30.000 - timing_s/step:60.000\n"


@pytest.mark.parametrize(
    "head", [CONFIGURED, "+ python3 -m verl.trainer.main_ppo trainer.n_gpus_per_node=8 trainer.nnodes=1\n"]
)
def test_verl_states_its_gpus_before_its_steps(tmp_path: Path, head: str) -> None:
    found = summary(tmp_path, head + "".join(map(NO_RATES.format, range(1, 5))))
    assert (found.num_gpus, found.step_time_s.median) == (8, 60)


def test_a_step_that_contradicts_itself_gives_no_number(tmp_path: Path) -> None:
    wrong = verl().replace("timing_s/step:166.497", "timing_s/step:60.000")  # less than its update
    (problem,) = (each for each in summary(tmp_path, wrong).problems if each.kind == "impossible_step")
    assert problem.detail.startswith("step 8: 60 s contradicts")
    wrong = verl().replace("perf/throughput:1087.343", "perf/throughput:2087.343")  # not its tokens / time / 8
    found = summary(tmp_path, wrong, warmup=1)
    assert [each.detail[:6] for each in found.problems if each.kind == "impossible_step"] == ["step 9"]
    assert (found.num_gpus, found.window.rows) == (8, 6)


@pytest.mark.parametrize(
    ("kind", "line"),
    [
        ("rank_crash", "ray.exceptions.RayActorError: The actor died unexpectedly before finishing this task."),
        ("rank_crash", "(raylet) Worker exit type: SYSTEM_ERROR Worker exit detail: Worker unexpectedly exits with a"),
        (
            "rank_crash",
            "(raylet) Raylet is terminated. Termination is unexpected. Possible reasons include: (1) SIGKILL",
        ),
        ("host_oom", "ray.exceptions.OutOfMemoryError: Task was killed due to the node running low on memory."),
        ("host_oom", "(raylet) 1 Workers (tasks / actors) killed due to memory pressure (OOM), 0 Workers crashed due"),
    ],
)
def test_a_death_of_ray_is_the_end_of_the_run(tmp_path: Path, kind: str, line: str) -> None:
    found = summary(tmp_path, f"{verl()}{line}\n")
    assert found.fatal is not None and found.fatal.kind == kind
