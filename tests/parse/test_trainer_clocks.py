"""The Trainer's clocks: bars and dictionaries, whoever carried them, from wherever training started."""

from pathlib import Path
from typing import Any

import pytest

from benchrun.frameworks.logs import parse_log
from benchrun.logs.records import Log
from benchrun.measure.summary import summarise

PREFIXES = [
    *("", "[rank0]:", "[rank0]: ", "[default3]:", " 5: ", "node-2: ", "trainer-1  | ", "(Worker pid=71, ip=10.1.2.3) "),
    *("2026-05-01T10:00:00.123456789Z ", "2026-05-01T10:00:00.123+00:00 stderr F ", "[1,0]<stderr>:", "10:00:07 "),
    "i.finetune/0 ",
]  # fmt: skip


def parse(tmp_path: Path, text: str, **options: Any) -> Log:
    path = tmp_path / "x.log"
    path.write_text(text)
    return parse_log(path, **options)


def bar(step: int, seconds: int, total: int = 40, prefix: str = "") -> str:
    clock = f"{int(seconds) // 60:02d}:{int(seconds) % 60:02d}"
    return f"{prefix}{100 * step // total:3d}%|#   | {step}/{total} [{clock}<05:00, 7.0s/it]"


def row_of(step: int, prefix: str = "") -> str:
    return f"{prefix}{{'loss': {9 - step / 100:.4f}, 'grad_norm': 1.5, 'epoch': {step / 40:.2f}}}"


def run(first: int, last: int, prefix: str = "", every: int = 2, seconds: Any = 7, total: int = 40) -> str:
    """Bars of all steps and some dictionaries; the clock begins with the first of them."""
    lines = []
    for step in range(first, last + 1):
        lines.append(bar(step, seconds * (step - first + 1), total, prefix))
        if step % every == 0:
            lines.append(row_of(step, prefix))
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize("prefix", PREFIXES)
def test_a_bar_is_read_behind_what_a_launcher_writes_before_it(tmp_path: Path, prefix: str) -> None:
    rows = list(parse(tmp_path, run(1, 6, prefix)).steps)
    assert [(row.step, row.step_time_s) for row in rows] == [(2, 7.0), (4, 7.0), (6, 7.0)]


def test_a_bar_without_a_picture_is_a_bar(tmp_path: Path) -> None:
    rows = list(parse(tmp_path, run(1, 6).replace("|#   |", "")).steps)
    assert [(row.step, row.step_time_s) for row in rows] == [(2, 7.0), (4, 7.0), (6, 7.0)]


@pytest.mark.parametrize("work", ["Loading checkpoint shards: ", "Map (num_proc=8): ", "Tokenizing train dataset: "])
def test_a_bar_of_other_work_is_no_step(tmp_path: Path, work: str) -> None:
    others = "".join(bar(step, 100 * step, prefix=work) + "\n" for step in range(1, 41))
    assert [row.step_time_s for row in parse(tmp_path, others + run(1, 4)).steps] == [7.0, 7.0]


def test_a_resumed_run_has_not_made_all_its_steps_since_its_clock_began(tmp_path: Path) -> None:
    log = parse(tmp_path, run(21, 40))
    assert [(row.step, row.interval) for row in log.steps][:2] == [(22, 1), (24, 2)]
    assert summarise(log, warmup=0).step_time_s.mean == 7.0


def test_the_training_bar_has_the_longest_clock_and_says_how_many_steps_are_planned(tmp_path: Path) -> None:
    evaluation = [bar(batch, batch, total=60) for batch in range(61)]  # drawn more often than the training's
    lines = run(1, 40).splitlines()
    for text, complete in ((lines[:30] + evaluation + lines[30:], True), (lines[:30] + evaluation, False)):
        log = parse(tmp_path, "\n".join(text) + "\n")
        assert (log.planned_steps, log.complete(log.planned_steps)) == (40, complete)
        assert {row.step_time_s for row in log.steps} == {7.0}


def test_a_bar_of_fewer_steps_than_there_are_dictionaries_is_not_the_trainings(tmp_path: Path) -> None:
    log = parse(tmp_path, bar(1, 90, total=1) + "\n" + "".join(row_of(step) + "\n" for step in range(1, 6)))
    assert (len(log.steps), log.planned_steps) == (5, None)


def test_without_any_bar_the_epochs_say_how_many_steps_a_dictionary_stands_for(tmp_path: Path) -> None:
    head = "  Num Epochs = 1,000\n  Total optimization steps = 17,000\n"
    log = parse(tmp_path, head + "".join(f"{{'loss': {3 - n / 10}, 'epoch': {5 * n / 17:.2f}}}\n" for n in range(1, 8)))
    assert [row.step for row in log.steps] == [5, 10, 15, 20, 25, 30, 35]


def test_steps_after_the_last_dictionary_were_made_if_a_bar_shows_them(tmp_path: Path) -> None:
    log = parse(tmp_path, run(1, 39, every=10, total=39))
    assert log.complete(log.planned_steps)
    assert (log.steps.last_step, log.problems) == (39, ())


@pytest.mark.parametrize(("summed_up", "complete"), [(True, True), (False, False)])
def test_a_summary_ends_a_run_whose_last_steps_have_no_dictionary(
    tmp_path: Path, summed_up: bool, complete: bool
) -> None:
    head = "  Num Epochs = 1\n  Total optimization steps = 45\n"
    rows = "".join(
        f"{{'loss': {3 - n / 10}, 'epoch': {10 * n / 45:.4f}, 'train_runtime': {7.1 * n}}}\n" for n in range(1, 5)
    )
    end = "{'train_runtime': 32.0, 'train_steps_per_second': 1.406, 'epoch': 1.0}\n"
    log = parse(tmp_path, head + rows + (end if summed_up else ""))
    assert log.complete(log.planned_steps) is complete


SUMMARY = "{'train_runtime': 280.0, 'train_samples_per_second': 9.1, 'train_steps_per_second': 0.143, 'epoch': 1.0}\n"


@pytest.mark.parametrize("resumed", [21, 26])
def test_bars_of_a_restart_have_a_clock_of_their_own(tmp_path: Path, resumed: int) -> None:
    bars = [bar(step, 7 * step) for step in range(1, 26)]
    bars += [bar(step, 7 * (step - resumed + 1)) for step in range(resumed, 41)]
    log = parse(tmp_path, "\n".join(bars) + "\n" + SUMMARY)
    assert not log.only_average  # a clock that shows the same time for each step is still a clock
    times = {row.step_time_s for row in log.distinct}
    assert times == {7.0}
    assert len(log.distinct) >= 39


@pytest.mark.parametrize("first", [[], [bar(0, 0)], [bar(1, 7)]])
def test_a_terminal_leaves_only_the_bar_below_a_dictionary(tmp_path: Path, first: list[Any]) -> None:
    lines = [line for step in range(1, 9) for line in (row_of(step), bar(step, 7 * step))]
    log = parse(tmp_path, "\n".join([*first, *lines, row_of(9)]) + "\n")
    assert [row.step for row in log.steps] == list(range(1, 10))
    assert [row.step_time_s for row in log.steps] == [*8 * [7.0], None]


def test_a_run_time_in_each_row_is_a_finer_clock_than_the_bar(tmp_path: Path) -> None:
    times = [27.302, 30.828, 34.382, 37.921]
    lines = [
        f"{bar(n, int(time))}\n{{'loss': {3 - n / 10}, 'epoch': {n / 40}, 'train_runtime': {time}}}\n"
        for n, time in enumerate(times, start=1)
    ]
    log = parse(tmp_path, "".join(lines))
    assert [row.step_time_s for row in log.steps] == pytest.approx([27.302, 3.526, 3.554, 3.539])
    assert not log.whole_seconds


def test_megatron_swift_calls_a_step_an_iteration(tmp_path: Path) -> None:
    rows = "".join(
        f"{{'loss': {3 - n / 10}, 'iteration': '{5 * n}/200', 'elapsed_time': '{n}m 0s', 'memory(GiB)': 61.2}}\n"
        for n in (1, 2, 3)
    )
    log = parse(tmp_path, rows)
    assert [(row.step, row.step_time_s) for row in log.steps] == [(5, 12.0), (10, 12.0), (15, 12.0)]
    assert log.planned_steps == 200


def rollout(step: int, reward: str = "0.5") -> str:
    """What trl's own GRPO prints, as transformers 5 writes numbers."""
    lengths = "'completions/mean_length': '257.3', 'completions/clipped_ratio': '0.2'"
    return f"{{'loss': '0', {lengths}, 'reward': '{reward}', 'step_time': '6.9', 'epoch': '{step / 40:.2f}'}}"


def test_the_rewards_of_reinforcement_learning_are_read(tmp_path: Path) -> None:
    lines = []
    for step in range(1, 41):
        lines += [bar(step, 7 * step), rollout(step, f"{step / 100}")]
    log = parse(tmp_path, "\n".join(lines) + "\n")
    assert (log.post_training, log.quantities["reward"][40], log.quantities["response_tokens"][1]) == (True, 0.4, 257.3)
    found = summarise(log)
    assert (found.step_time_s.median, found.quantities["response_tokens"].median) == (7, 257.3)
    # Of GRPO, whose loss is zero where each batch is used once, it is no sign of a fault.
    assert "constant_loss" not in [problem.kind for problem in found.problems]


def test_a_reward_alone_is_no_reinforcement_learning(tmp_path: Path) -> None:
    log = parse(tmp_path, "\n".join(row_of(step).replace("}", ", 'reward': 0.5}") for step in range(1, 41)))
    assert not log.post_training


@pytest.mark.parametrize(
    ("arguments", "precision"),
    [
        ("TrainingArguments(\nbf16=True,\nbf16_full_eval=False,\nfp16=False,\n)\n", "bf16"),
        ("[rank0]: TrainingArguments(do_train=True, bf16=False, fp16=True, fp16_backend=auto)\n", "fp16"),
        ("TrainingArguments(\nbf16=False,\nfp16=False,\ntf32=True,\n)\n", None),
        ("world size: 8, device: cuda:0, distributed training: True, compute dtype: torch.float16\n", "fp16"),
        ("compute dtype: torch.bfloat16\n>> Creating FP8 configuration with backend: auto\n", "fp8"),
        ("world size: 8, device: cuda:0, distributed training: True, compute dtype: None\n", None),
        ("torchrun train.py --bf16=True, as `bf16=True,` means\n", None),
    ],
)
def test_the_precision_of_printed_arguments(tmp_path: Path, arguments: str, precision: str | None) -> None:
    assert parse(tmp_path, arguments + run(1, 6)).facts.precision == precision


def test_the_interval_of_whole_seconds_holds_both_their_median_and_the_truth(tmp_path: Path) -> None:
    found = summarise(parse(tmp_path, run(1, 99, every=1, seconds=12.4, total=99)))
    interval = found.step_time_interval_s
    assert interval.low <= found.step_time_s.median <= interval.high
    assert interval.low <= 12.4 <= interval.high


RESUMED = "  Num Epochs = 1\n  Total optimization steps = 100\n  Continuing training from global step {first}\n"


@pytest.mark.parametrize("rows", [True, False])
@pytest.mark.parametrize("first", [0, 50, 90])
def test_the_time_of_a_resumed_run_is_that_of_its_own_steps(tmp_path: Path, first: int, rows: bool) -> None:
    """The summary divides by all planned steps, and so gives the rate of a run of all of them."""
    lines = [f"{{'loss': {9 - step / 100}, 'epoch': {step / 100:.2f}}}" for step in range(first + 2, 101, 2)]
    seconds = 3.3 * (100 - first)
    summary = f"{{'train_runtime': {seconds:.4f}, 'train_steps_per_second': {100 / seconds:.3f}, 'epoch': 1.0}}"
    found = summarise(
        parse(tmp_path, RESUMED.format(first=first) + "\n".join([*(lines if rows else []), summary]) + "\n")
    )
    assert found.only_average
    assert found.step_time_s.mean == pytest.approx(3.3)
    assert (found.first_step, found.last_step) == (first + (2 if rows else 1), 100)


def test_a_run_that_goes_on_in_the_same_file_goes_on_counting(tmp_path: Path) -> None:
    before = [f"{{'loss': {9 - step / 100}, 'epoch': {step / 100:.2f}}}" for step in range(1, 61)]
    after = [f"{{'loss': {9 - step / 100}, 'epoch': {step / 100:.2f}}}" for step in range(51, 101)]
    summary = f"{{'train_runtime': {3.3 * 50:.4f}, 'epoch': 1.0}}"
    text = [RESUMED.format(first=0), *before, RESUMED.format(first=50), *after, summary]
    found = summarise(parse(tmp_path, "\n".join(text) + "\n"))
    assert (found.segments, found.num_steps, found.last_step) == (2, 100, 100)
    assert found.step_time_s.mean == pytest.approx(3.3)


def factory(step: int, clock: str, loss: str | None = '"loss": 1.5, "lr": 1e-06, ', total: int = 43) -> str:
    """LLaMA-Factory's trainer_log.jsonl."""
    share, loss = round(100 * step / total, 2), loss or ""
    return (
        f'{{"current_steps": {step}, "total_steps": {total}, {loss}"epoch": {step / total:.3f},'
        f' "percentage": {share}, "elapsed_time": "{clock}", "remaining_time": "1 day, 0:08:23"}}\n'
    )


def test_llama_factory_counts_days_and_says_where_it_ends(tmp_path: Path) -> None:
    clocks = {10: "7:00:00", 20: "14:00:00", 30: "21:00:00", 40: "1 day, 4:00:00"}
    rows = "".join(factory(step, clock) for step, clock in clocks.items())
    log = parse(tmp_path, rows + factory(43, "2 days, 6:06:00", None))
    assert [row.step_time_s for row in log.steps] == [2520.0] * 4
    assert (log.planned_steps, log.steps_made, log.complete(log.planned_steps)) == (43, 43, True)
    assert summarise(parse(tmp_path, rows)).complete is False


def test_a_step_that_two_processes_print_took_as_long_as_it_did(tmp_path: Path) -> None:
    rows = "".join(
        factory(step, f"0:{2 * step // 10:02}:{12 + late:02}", f'"loss": 1.{step}{late}, "lr": {step}, ')
        for step in range(10, 41, 10)
        for late in (0, 3)
    )
    assert {row.step_time_s for row in parse(tmp_path, rows).distinct} == {13.2, 12.0}


def test_a_step_that_another_process_prints_late_has_no_time(tmp_path: Path) -> None:
    rows = [(10, "2:00"), (20, "4:00"), (10, "4:10"), (30, "6:00"), (20, "6:10"), (40, "8:00")]
    text = "".join(
        factory(step, f"0:0{clock}", f'"loss": 1.{at}, "lr": {at}, ') for at, (step, clock) in enumerate(rows)
    )
    assert all(row.step_time_s is None or row.step_time_s > 5 for row in parse(tmp_path, text).steps)
