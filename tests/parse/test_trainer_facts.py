"""What a Trainer's log states, what only follows from it, and what it refutes."""

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from benchrun.errors import UserError
from benchrun.frameworks.logs import parse_log
from benchrun.logs.records import Log
from benchrun.measure.setting import Setting, setting_of_log
from benchrun.measure.summary import summarise
from benchrun.recipes.catalogue import training_file
from benchrun.usecases.settings import check_options

STEPS = "".join(
    f"{{'loss': {3 - step / 100:.3f}, 'grad_norm': 1.5, 'epoch': {step / 40:.3f}}}\n" for step in range(1, 41)
)
LOGS = Path(__file__).parent.parent / "logs"
REUSED = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def parse(tmp_path: Path, text: str) -> Log:
    path = tmp_path / "x.log"
    path.write_text(text + STEPS)
    return parse_log(path)


def head(examples: int, epochs: int, steps: int, mbs: int, accumulation: int, total: int) -> str:
    return (
        f"***** Running training *****\n  Num examples = {examples:,}\n  Num Epochs = {epochs:,}\n"
        f"  Instantaneous batch size per device = {mbs:,}\n"
        f"  Total train batch size (w. parallel, distributed & accumulation) = {total:,}\n"
        f"  Gradient Accumulation steps = {accumulation}\n  Total optimization steps = {steps:,}\n"
    )


def number_of_gpus(log: Log, given: int | None = None) -> int | None:
    return setting_of_log(log, Setting(num_gpus=given)).num_gpus


@REUSED
@given(
    st.sampled_from([1, 2, 4, 8]), st.sampled_from([1, 2, 4]), st.integers(1, 8), st.integers(1, 16), st.integers(1, 3)
)
def test_data_parallel_ranks_are_a_guess_at_the_gpus(
    tmp_path: Path, ranks: int, shared: int, mbs: int, accumulation: int, epochs: int
) -> None:
    total = ranks * mbs * accumulation
    log = parse(tmp_path, head(40 * total, epochs, 40 * epochs, mbs, accumulation, total))
    assert (number_of_gpus(log), number_of_gpus(log, ranks * shared)) == (ranks, ranks * shared)
    assert "num_gpus" in setting_of_log(log, Setting()).derived
    assert not setting_of_log(log, Setting(num_gpus=ranks * shared)).derived
    assert len([*check_options(log, {"num_gpus": ranks * shared})]) == (shared > 1)


@REUSED
@given(st.sampled_from([2, 4, 8]), st.sampled_from([1, 2, 8]), st.integers(1, 8), st.integers(1, 8), st.integers(1, 3))
def test_a_total_batch_that_the_examples_refute_is_no_statement(
    tmp_path: Path, shared: int, ranks: int, mbs: int, accumulation: int, epochs: int
) -> None:
    """Older transformers multiply by all ranks, also by those that share their samples."""
    batch = ranks * mbs * accumulation
    log = parse(tmp_path, head(40 * batch, epochs, 40 * epochs, mbs, accumulation, batch * shared))
    own = setting_of_log(log, Setting())
    assert (own.gbs, own.num_gpus) == (batch, ranks * shared)
    assert {"gbs", "num_gpus"} == {*own.derived}
    assert setting_of_log(log, Setting(gbs=3 * batch)).gbs == 3 * batch
    [said] = check_options(log, {"gbs": 3 * batch})
    assert str(batch * shared) in said.replace(",", "")


def test_the_display_of_autotp_before_its_mend(tmp_path: Path) -> None:
    """deepspeedai/DeepSpeed issue 7298: 8 GPUs, of which each 4 share their samples; 64 is right."""
    own = setting_of_log(parse(tmp_path, head(52_002, 3, 2436, 8, 4, 256)), Setting())
    assert (own.gbs, own.num_gpus) == (64, 8)
    own = setting_of_log(parse(tmp_path, head(52_002, 3, 2439, 8, 4, 64)), Setting())
    assert (own.gbs, own.num_gpus) == (64, 2)


def test_a_summary_gives_the_batch_that_no_line_states(tmp_path: Path) -> None:
    summary = (
        "{'train_runtime': 768.6, 'train_samples_per_second': 6.661, 'train_steps_per_second': 0.052, 'epoch': 1.0}\n"
    )
    path = tmp_path / "x.log"
    path.write_text("  Total optimization steps = 40\n" + STEPS + summary)
    log = parse_log(path)
    assert (setting_of_log(log, Setting()).gbs, setting_of_log(log, Setting(gbs=64)).gbs) == (128, 64)
    path.write_text("  Total optimization steps = 40\n" + STEPS + summary.replace("6.661", "6.5"))
    assert setting_of_log(parse_log(path), Setting()).gbs is None


def test_pairs_of_answers_are_no_pretraining(tmp_path: Path) -> None:
    path = tmp_path / "x.log"
    path.write_text(STEPS.replace("'epoch'", "'rewards/chosen': -0.06, 'rewards/rejected': -1.6, 'epoch'"))
    log = parse_log(path)
    assert (log.framework, log.post_training, len(log.steps)) == ("hf", False, 40)
    assert setting_of_log(log, Setting(seq_length=8192)).unknown_options


def test_fewer_steps_than_the_examples_give_refute_nothing(tmp_path: Path) -> None:
    log = parse(tmp_path, head(100_000, 1, 60, 1, 16, 128))
    assert (setting_of_log(log, Setting()).gbs, log.facts.derived["num_gpus"].refuted) == (128, False)


def test_examples_of_an_evaluation_are_not_those_of_the_training(tmp_path: Path) -> None:
    evaluation = "***** Running Evaluation *****\n  Num examples = 80\n  Batch size = 8\n"
    log = parse(tmp_path, evaluation + head(5120, 1, 40, 1, 16, 128) + evaluation)
    assert (log.facts.num_examples, setting_of_log(log, Setting()).gbs) == (5120, 128)


def test_a_limit_of_the_length_is_a_guess(tmp_path: Path) -> None:
    log = parse(tmp_path, "[INFO:swift] max_length: 16384\n")
    own = setting_of_log(log, Setting())
    assert (own.seq_length, own.fixed_length, {*own.derived}) == (16384, False, {"seq_length"})
    typed = setting_of_log(log, Setting(seq_length=4096))
    assert (typed.seq_length, typed.fixed_length) == (4096, True)
    assert len([*check_options(log, {"seq_length": 4096})]) == 1


def test_a_length_that_the_user_states_gives_a_rate_with_a_note() -> None:
    log = parse_log(next(LOGS.glob("23-*")))
    found = summarise(log, given=Setting(seq_length=16384, gbs=8, num_gpus=8))
    assert found.tokens_per_s_per_gpu.median == pytest.approx(16384 / 16.99)
    assert "assumed_length" in [problem.kind for problem in found.problems]
    alone = summarise(log, given=Setting(gbs=8, num_gpus=8))
    assert (alone.tokens_per_s_per_gpu.median, alone.problems) == (None, ())


def test_tokens_that_the_log_counts_outweigh_a_typed_length(tmp_path: Path) -> None:
    log = parse(tmp_path, "[INFO:swift] max_length: 16384\n")
    log.quantities["tokens"] = {1: 100.0}
    assert not setting_of_log(log, Setting(seq_length=4096)).fixed_length


@pytest.mark.parametrize(
    "line",
    [
        "  world_size: 16\n",
        "INFO hparams.parser - Process rank: 3, world size: 16, device: cuda:3, distributed training: True\n",
        "Num processes: 16\n",
        "[2025-07-01 09:00:00,123] [INFO] [launch.py:164:main] dist_world_size=16\n",
        "==((====))==  Unsloth - 2x faster free finetuning | Num GPUs used = 16\n",
    ],
)
def test_a_stated_number_of_ranks_wins_over_the_quotient_and_contradicts_another(tmp_path: Path, line: str) -> None:
    log = parse(tmp_path, line + head(5120, 1, 40, 1, 16, 128))
    assert number_of_gpus(log) == 16
    with pytest.raises(UserError):
        [*check_options(log, {"num_gpus": 8})]
    assert not [*check_options(log, {"num_gpus": 16})]


UNSLOTH = (
    "==((====))==  Unsloth 2025.6.4: Fast Llama patching. Transformers: 4.52.4.\n"
    "   \\\\   /|    NVIDIA L4. Num GPUs = 1. Max memory: 22.045 GB. Platform: Linux.\n"
    "==((====))==  Unsloth - 2x faster free finetuning | Num GPUs used = 1\n"
    "   \\\\   /|    Num examples = 320 | Num Epochs = 1 | Total steps = 40\n"
    "O^O/ \\_/ \\    Batch size per device = 2 | Gradient accumulation steps = 4\n"
    "\\        /    Data Parallel GPUs = 1 | Total batch size (2 x 4 x 1) = 8\n"
)


def test_the_banner_of_unsloth_states_batch_ranks_and_device(tmp_path: Path) -> None:
    facts = parse(tmp_path, UNSLOTH).facts
    assert (facts.gbs, facts.mbs, facts.accumulation_steps, facts.num_gpus) == (8, 2, 4, 1)
    assert (facts.num_examples, facts.planned_steps, facts.device) == (320, 40, "NVIDIA L4")


@pytest.mark.parametrize(
    ("line", "task"),
    [
        ("trainable params: 41,943,040 || all params: 8,072,204,288 || trainable%: 0.5196\n", "lora"),
        ("trainable params: 8,030,261,248 || all params: 8,030,261,248 || trainable%: 100.0000\n", None),
        (' "-____-"     Trainable parameters = 24,313,856/3,000,000,000 (0.81% trained)\n', "lora"),
        (' "-____-"     Trainable parameters = 66,060,288 of 4,073,997,824 (1.62% trained)\n', "lora"),
        (' "-____-"     Trainable parameters = 4,073,997,824 of 4,073,997,824 (100.00% trained)\n', None),
        ("[INFO:swift] model_parameter_info: A: 7635.8M Params (20.1M Trainable [0.2645%]), 0.0M Buffers.\n", "lora"),
        ("[INFO:swift] model_parameter_info: B: 25805.9M Params (25233.1M Trainable [97.78%]), 0.0M Buffers.\n", None),
        ("[INFO|2024-08-16] llamafactory.model.adapter:157 >> Fine-tuning method: LoRA\n", "lora"),
        ("[INFO|2024-08-16] llamafactory.model.adapter:157 >> Fine-tuning method: Full\n", None),
        ('  "adapter": "qlora",\n', "lora"),
        ("finetuning_type: lora\n", "lora"),
        ("tuner_type='lora',\n", "lora"),
        ("tuner_type='full',\n", None),
    ],
)
def test_adapters_are_a_task_of_their_own(tmp_path: Path, line: str, task: str | None) -> None:
    assert parse(tmp_path, line).facts.task == task


def test_frozen_layers_are_no_adapters_and_their_flops_are_unknown(tmp_path: Path) -> None:
    freeze = "[INFO|2024-08-16] llamafactory.model.adapter:157 >> Fine-tuning method: Freeze\n"
    share = "trainable params: 436,273,152 || all params: 8,030,261,248 || trainable%: 5.4329\n"
    log = parse(tmp_path, freeze + share)
    assert log.facts.task is None
    assert setting_of_log(log, Setting(seq_length=8192)).unknown_options


@pytest.mark.parametrize(
    ("trained", "known"),
    [
        ("8,030,261,248", True),
        ("1,003,782,656", True),  # of one rank, sharded over 8
        ("41,943,040", False),
        ("1,500,000,000", False),
    ],
)
def test_fewer_trained_parameters_than_the_model_has_take_the_flops_away(
    tmp_path: Path, trained: str, known: bool
) -> None:
    model = training_file("llama3.1-8b")[1].model
    log = parse(tmp_path, head(5120, 1, 40, 1, 16, 128) + f"  Number of trainable parameters = {trained}\n")
    own = setting_of_log(log, Setting(model=model, seq_length=8192))
    assert (own.flops_per_token() is not None, not own.unknown_options) == (known, known)


def rate(log: Log, **given: int) -> float | None:
    return summarise(log, given=Setting(**given)).tokens_per_s_per_gpu.median


def axolotl(path: Path, name: str, head: str = "") -> Log:
    lines = [
        f"{5 * step // 2:3d}%|#  | {step}/40 [{step // 3:02d}:{20 * step % 60:02d}<01:00, 20.00s/it]\n"
        f"{{'loss': {3 - step / 100:.3f}, 'grad_norm': 1.5, '{name}': '{5000 + step}', 'epoch': {step / 40:.3f}}}\n"
        for step in range(1, 41)
    ]
    path.write_text(head + "".join(lines))
    return parse_log(path)


def test_a_rate_of_axolotl_is_that_of_a_gpu(tmp_path: Path) -> None:
    assert rate(axolotl(tmp_path / "x.log", "tokens_per_second_per_gpu")) == pytest.approx(5023, rel=1e-3)


def test_axolotl_s_rate_of_trained_tokens_is_not_that_of_the_work(tmp_path: Path) -> None:
    """It is no rate alone, and contradicts none: of 8192 tokens/s/GPU, 5023 have a loss."""
    log = axolotl(tmp_path / "x.log", "tokens/train_per_sec_per_gpu")
    assert rate(log) is None
    found = summarise(log, given=Setting(seq_length=4096, gbs=320, num_gpus=8))
    assert (found.fatal, found.tokens_per_s_per_gpu.median) == (None, pytest.approx(8192))
    assert found.quantities["trained_tokens_per_s_per_gpu"].median == pytest.approx(5023, rel=1e-3)


def test_a_precision_that_llama_factory_does_not_state_is_refused(tmp_path: Path) -> None:
    log = parse(tmp_path, "[INFO] llamafactory.hparams.parser:423 >> compute dtype: torch.bfloat16\n")
    assert not [*check_options(log, {"precision": "bf16"})]
    with pytest.raises(UserError):
        [*check_options(log, {"precision": "fp8"})]


def test_tokens_of_the_loss_are_not_those_of_the_step(tmp_path: Path) -> None:
    """Axolotl prints all tokens so far, and a rate of those that count in the loss. Steps take 20 s."""
    path, lines = tmp_path / "x.log", []
    for step in range(1, 41):
        clock = f"{20 * step // 60:02d}:{20 * step % 60:02d}"
        lines.append(f"{100 * step // 40:3d}%|#  | {step}/40 [{clock}<01:00, 20.00s/it]")
        tokens = f"'tokens/total': {65536 * step}, 'tokens/train_per_sec_per_gpu': '150.0'"
        lines.append(f"{{'loss': '{3 - step / 100:.3f}', {tokens}, 'epoch': '{step / 40:.3f}'}}")
    path.write_text("\n".join(lines) + "\n")
    assert rate(parse_log(path), num_gpus=8) == pytest.approx(65536 / 20 / 8)


def test_llama_factory_s_throughput_is_the_mean_of_all_ranks_since_the_start(tmp_path: Path) -> None:
    """Steps of 20 s with 163,840 tokens; the first took 60 s."""
    path, lines = tmp_path / "trainer_log.jsonl", []
    for step in range(1, 41):
        clock_s = 40 + 20 * step
        clock = f"{clock_s // 3600}:{clock_s // 60 % 60:02d}:{clock_s % 60:02d}"
        lines.append(
            f'{{"current_steps": {step}, "total_steps": 40, "loss": {3 - step / 100}, "lr": 1e-5, "epoch": {step / 40},'
            f' "percentage": {2.5 * step}, "elapsed_time": "{clock}", "throughput": {163840 * step / clock_s:.2f}}}\n'
        )
    path.write_text("".join(lines))
    assert rate(parse_log(path), num_gpus=8) == pytest.approx(163840 / 20 / 8, rel=5e-3)
