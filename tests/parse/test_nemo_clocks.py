"""NeMo 1 and MLPerf's logs: which lines are steps, and the time of those that print none."""

from pathlib import Path

from benchrun.frameworks.logs import parse_log
from benchrun.logs.records import Log


def parse(tmp_path: Path, text: str) -> Log:
    path = tmp_path / "x.log"
    path.write_bytes(text.encode())
    return parse_log(path)


def test_bars_without_a_step_s_time_are_timed_by_their_clock(tmp_path: Path) -> None:
    def bar(step: int, clock_s: int, epoch: int = 0, more: str = "") -> str:
        return (
            f"Epoch {epoch}:   1%|          | {step}/300 [{clock_s // 60}:{clock_s % 60:02d}<87:01:48, 41.36s/it,"
            f" loss=3.1, v_num=, reduced_train_loss=3.{step}0, global_step={step - 1}.0{more}]"
        )

    bars = [bar(1, 90), bar(2, 131), bar(2, 160), bar(3, 201), bar(5, 285), bar(1, 50, epoch=1), bar(2, 92, epoch=1)]
    log = parse(tmp_path, "\r".join(bars) + "\n")
    # The second bar of step 2 stands behind an evaluation, and the first of an epoch has none before it.
    assert [(row.step, row.step_time_s) for row in log.steps] == [(2, 41.0), (3, 41.0), (5, 42.0), (302, 42.0)]
    assert (log.whole_seconds, log.planned_steps) == (True, 300)
    timed = parse(tmp_path, "\r".join([*bars, bar(6, 330, more=", train_step_timing in s=40.60")]) + "\n")
    assert ([row.step_time_s for row in timed.steps], timed.whole_seconds) == ([40.6], False)


def mllog(key: str, value: str, time_ms: int, metadata: str) -> str:
    return f':::MLLOG {{"time_ms": {time_ms}, "key": "{key}", "value": {value}, "metadata": {{{metadata}}}}}\n'


def test_a_mean_over_a_block_with_its_step_time_is_no_step_and_no_restart(tmp_path: Path) -> None:
    steps = [
        mllog("tracked_stats", f'{{"train_step_time": 0.{n}, "reduced_train_loss": 5.{n}}}', n, f'"step": {64 * n}.0')
        for n in range(1, 5)
    ]
    means = [
        mllog("tracked_stats", '{"throughput": 86.3, "train_step_time": 0.9}', 1, f'"step": {n}') for n in (0, 128)
    ]
    log = parse(tmp_path, "".join([*steps[:2], means[0], *steps[2:], means[1]]))
    assert [(row.step, row.step_time_s) for row in log.steps] == [(64, 0.1), (128, 0.2), (192, 0.3), (256, 0.4)]
    assert (log.segments, log.problems) == (1, ())


def test_losses_with_clocks_time_the_steps_between_them_without_the_evaluation(tmp_path: Path) -> None:
    def loss(step: int, time_ms: int) -> str:
        return mllog("tracked_stats", f'{{"train_loss": 1.{step}}}', time_ms, f'"samples_count": 1, "step": {step}')

    lines = [
        mllog("max_sequence_length", "8192", 0, '"lineno": 1'),
        mllog("block_start", "null", 1_000, '"step": 0'),
        *(loss(10, 9_000), loss(20, 16_000)),
        mllog("tracked_stats", '{"train_step_time": 0.75}', 20_000, '"samples_count": 192'),  # without a step
        mllog("eval_start", "null", 20_000, '"samples_count": 192'),
        mllog("block_start", "null", 60_000, '"step": 24'),
        loss(30, 66_000),
    ]
    log = parse(tmp_path, "".join(lines))
    found = [(row.step, row.step_time_s, row.interval, row.loss) for row in log.steps]
    assert found == [(10, 0.8, 10, 1.1), (20, 0.7, 10, 1.2), (30, 1.0, 6, 1.3)]
    assert log.facts.seq_length == 8192
    assert len(parse(tmp_path, "".join([*lines[:4], lines[5], lines[7]])).steps) == 2  # no start after the evaluation


def test_bars_that_a_carriage_return_redraws_are_steps_in_one_line(tmp_path: Path) -> None:
    bars = [
        f"Epoch 0: : {n:3d}%|#  | {n}/20 [00:{2 * n:02d}<00:10, reduced_train_loss=9, train_step_timing in s=2.{n}]"
        for n in range(1, 10)
    ]
    log = parse(tmp_path, "\r".join(bar for bar in bars for _ in range(3)) + "\n")
    assert [row.step for row in log.steps] == list(range(1, 10))
    assert log.steps[8].step_time_s == 2.9
    assert parse(tmp_path, "".join(bars) + "\n").steps[4].step_time_s == 2.5  # glued, without anything between


def test_bars_without_a_total_go_on_in_the_next_epoch(tmp_path: Path) -> None:
    bars = [
        f"Epoch {epoch}: : {n}it [00:{3 * n:02d},  3.10s/it, v_num=a1b2, reduced_train_loss=0.{epoch}{n},"
        f" train_step_timing in s=3.{epoch}{n}0]\n"
        for epoch in (0, 1, 2)
        for n in (1, 2, 3)
    ]
    log = parse(tmp_path, "".join(bars))
    assert [(row.step, row.step_time_s) for row in log.steps] == list(
        zip(range(1, 10), (3.01, 3.02, 3.03, 3.11, 3.12, 3.13, 3.21, 3.22, 3.23), strict=True)
    )
    assert log.segments == 1


def test_the_bars_of_all_epochs_may_be_one_line(tmp_path: Path) -> None:
    bars = [
        f"Epoch {epoch}: : {25 * n}%|#  | {n}/4 [00:{3 * n:02d}<00:09, v_num=, train_step_timing in s=3.{epoch}{n}0]"
        for epoch in (0, 1)
        for n in (1, 2, 3, 4)
    ]
    assert [row.step for row in parse(tmp_path, "\r".join(bars) + "\n").steps] == list(range(1, 9))
