"""Files are one run where they agree in all that they state; whatever stands beside a log, its numbers are its own."""

import csv
import os
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest

from benchrun.errors import UserError
from benchrun.frameworks.logs import Reader, parse_log, parse_logs
from benchrun.logs.grouping import Part, grouped
from benchrun.logs.inputs import LogFile, chunks
from benchrun.logs.records import Log
from benchrun.measure.summary import summarise

LOGS = Path(__file__).parent.parent / "logs"
FILES = [LOGS / row["file"] for row in csv.DictReader((LOGS / "expected.csv").open())]


@pytest.fixture(scope="module")
def parts() -> list[Part]:
    found = []
    for file in FILES:
        reader = Reader()
        for chunk in chunks(file):
            reader.feed(chunk)
        reader.end()
        found.append(Part(LogFile(file, named=False), reader.log(str(file)), reader.stated()))
    return found


def test_no_two_of_the_real_logs_are_one_run(parts: list[Part]) -> None:
    pairs = list(combinations(parts, 2))
    assert len(pairs) == 351
    for pair in pairs:
        for order in (pair, pair[::-1]):
            assert grouped(order) == ([[part] for part in order], [])


def test_all_real_logs_together_are_as_many_runs(parts: list[Part]) -> None:
    for order in (parts, parts[::-1]):
        assert grouped(order) == ([[part] for part in order], [])


def test_three_logs_give_the_numbers_that_each_gives_alone() -> None:
    alone = {str(file): summarise(parse_log(file)) for file in FILES}
    for first in range(0, len(FILES) - 2, 4):
        found, left_out = parse_logs(*FILES[first : first + 3])
        assert left_out == []
        assert [summarise(log) for log in found] == [alone[str(file)] for file in FILES[first : first + 3]]
    found, _ = parse_logs(LOGS)
    assert {log.file: summarise(log) for log in found if not log.served} == alone


def line(
    step: int, time_s: float = 1.0, *, planned: int = 40, loss: float | None = None, batch: int = 64, date: str = ""
) -> str:
    loss = 3 - step / 100 if loss is None else loss
    return (
        f" {date}iteration {step:8d}/{planned:8d} | elapsed time per iteration (ms): {1000 * time_s:.1f} |"
        f" global batch size: {batch:5d} | lm loss: {loss:.6E} |\n"
    )


def text(
    first: int = 1,
    last: int = 40,
    time_s: float = 1.0,
    *,
    seed: int | None = None,
    began: int | None = None,
    **options: float,
) -> str:
    """Step lines; times vary by 0.2 % where a ``seed`` is given; dated from minute ``began`` of an hour on."""
    import random

    chance = random.Random(seed)
    rows = []
    for step in range(first, last + 1):
        date = "" if began is None else f"[2026-03-04 05:{began + step // 60:02d}:{step % 60:02d}] "
        varied = time_s * (1 if seed is None else chance.gauss(1, 0.002))
        rows.append(line(step, varied, date=date, **options))
    return "".join(rows)


def argument(name: str, value: int) -> str:
    return f"  {name} {'.' * (48 - len(name))} {value}\n"


def runs_of(folder: Path, **files: str) -> tuple[Any, ...]:
    """Write the files, and the names of those that are one run, sorted; from the folder, then each by its name."""
    for name, content in files.items():
        path = folder / name.replace("__", "/").replace("_", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    return parse_logs(folder)


def counts(found: tuple[list[Log], list[Any]]) -> list[int]:
    return sorted(len(log.distinct) for log in found[0])


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({}, {"time_s": 1.06}),  # slower
        ({}, {"planned": 50}),
        ({}, {"batch": 128}),
        ({}, {"loss": 2.5}),
        ({"seed": 1}, {"seed": 2}),  # repeats: as fast, but their steps vary by themselves
        ({"began": 1}, {"began": 7}),
        ({"last": 20}, {"first": 30}),  # nobody goes on at step 30 after step 20
        ({"first": 20, "began": 1}, {"last": 30, "began": 20}),  # what was made first began last
        ({"last": 40}, {"last": 60, "planned": 60}),
    ],
)
def test_logs_that_differ_are_two_runs(tmp_path: Path, one: dict[str, Any], other: dict[str, Any]) -> None:
    found = runs_of(tmp_path, a_log=text(**one), b_log=text(**other))
    alone = [len(parse_log(tmp_path / name).distinct) for name in ("a.log", "b.log")]
    assert counts(found) == sorted(alone)


@pytest.mark.parametrize(
    "option", ["multi_latent_attention", "experimental_attention_variant", "mtp_num_layers", "freeze_LM"]
)
def test_an_option_that_one_log_alone_uses_parts_logs_with_the_same_steps(tmp_path: Path, option: str) -> None:
    plain = argument("num_layers", 32)
    for number, value in enumerate(("None", "2")):
        used = plain + f"  {option} {'.' * (48 - len(option))} {value}\n"
        found = runs_of(tmp_path / value, a_log=plain + text(), b_log=used + text())
        assert counts(found) == [40] * (number + 1)


@pytest.mark.parametrize(
    ("name", "one", "other"),
    [("seq_length", 4096, 8192), ("num_layers", 32, 16), ("tensor_model_parallel_size", 1, 2), ("world_size", 8, 16)],
)
def test_a_fact_that_differs_parts_logs_with_the_same_steps(tmp_path: Path, name: str, one: int, other: int) -> None:
    same = runs_of(tmp_path / "same", a_log=argument(name, one) + text(), b_log=argument(name, one) + text())
    assert counts(same) == [40]
    apart = runs_of(tmp_path / "two", a_log=argument(name, one) + text(), b_log=argument(name, other) + text())
    assert counts(apart) == [40, 40]


@pytest.mark.parametrize(
    "later",
    [
        {"first": 30},
        {"first": 31},
        {"first": 25, "loss": 9.0},
        {"first": 21, "began": 30},
    ],
)
def test_a_run_that_was_queued_again_is_one(tmp_path: Path, later: dict[str, Any]) -> None:
    began = 1 if "began" in later else None
    found = runs_of(tmp_path, a_log=text(last=30, began=began), b_log=text(**later))
    assert counts(found) == [40]


def test_three_attempts_are_one_run_whatever_their_names(tmp_path: Path) -> None:
    assert counts(runs_of(tmp_path, c_log=text(last=15), a_log=text(12, 30), b_log=text(28))) == [40]


def test_the_ranks_of_one_run_are_one_and_a_slower_run_beside_them_is_not(tmp_path: Path) -> None:
    ranks = {f"rank{number}_log": text(seed=1) for number in range(5)}
    assert counts(runs_of(tmp_path, **ranks, other_log=text(time_s=1.05, seed=1))) == [40, 40]


def nemo2(seed: int) -> str:
    """Twenty steps of NeMo 2, without a date, that vary by 0.05 %."""
    import random

    chance = random.Random(seed)
    head = "Training epoch 0, iteration {n}/19 | lr: 1e-06 | global_batch_size: 64 | global_step: {n}"
    rows = f"{head} | reduced_train_loss: 11.03 | train_step_timing in s: {{t:.4g}} | consumed_samples: {{s}}\n"
    return "".join(rows.format(n=n, s=64 * (n + 1), t=chance.gauss(7.632, 0.004)) for n in range(20))


def test_repeats_whose_steps_hardly_vary_are_two_runs_where_one_rank_prints(tmp_path: Path) -> None:
    assert counts(runs_of(tmp_path / "repeats", a_log=nemo2(1), b_log=nemo2(2))) == [20, 20]
    assert counts(runs_of(tmp_path / "copies", a_log=nemo2(1), b_log=nemo2(1))) == [20]


def test_a_log_without_steps_belongs_to_the_run_of_its_stem(tmp_path: Path) -> None:
    error = "[rank3]: torch.OutOfMemoryError: CUDA out of memory.\n"
    found = runs_of(tmp_path, a_out=text(), a_err="nothing\n", b_out=text(time_s=1.2), b_err=error)
    assert [[problem.kind for problem in log.problems] for log in found[0]] == [[], ["cuda_oom"]]
    assert found[1] == []


def test_a_log_without_steps_belongs_to_the_only_run_of_its_folder(tmp_path: Path) -> None:
    ranks = {f"{job}__rank0__stdout_log": argument("seq_length", 4096) for job in ("a", "b")}
    steps = {"a__rank1__stdout_log": text(), "b__rank1__stdout_log": text(time_s=1.2)}
    found, left_out = runs_of(tmp_path, **ranks, **steps)
    assert ([log.facts.seq_length for log in found], left_out) == ([4096, 4096], [])


def test_a_log_without_steps_belongs_to_the_run_that_it_does_not_contradict(tmp_path: Path) -> None:
    files = {"a_log": argument("seq_length", 4096) + text(), "b_log": argument("seq_length", 8192) + text()}
    found, left_out = runs_of(tmp_path, **files, node_log=argument("seq_length", 8192) + argument("num_layers", 7))
    assert ([log.facts.num_layers for log in found], left_out) == ([None, 7], [])


def test_a_log_without_steps_never_joins_two_runs(tmp_path: Path) -> None:
    found, left_out = runs_of(tmp_path, a_log=text(), b_log=text(time_s=1.2), node_log="no step\n")
    assert (len(found), left_out) == (2, [tmp_path / "node.log"])
    named, left_out = parse_logs(*(tmp_path / f"{name}.log" for name in ("a", "b", "node")))
    assert ([len(log.steps) for log in named], left_out) == ([40, 40, 0], [])


def test_texts_and_hidden_folders_of_a_checkout_are_no_part_of_a_run(tmp_path: Path) -> None:
    words = "CUDA out of memory\n"
    found, left_out = runs_of(
        tmp_path, train_log=text(), notes_txt=words, docs__help_txt=words, _git__x_log=text(time_s=1.2)
    )
    (log,) = found
    assert (len(log.steps), log.problems) == (40, ())
    assert left_out == [tmp_path / "docs" / "help.txt", tmp_path / "notes.txt"]


def test_files_without_any_step_are_one_log_without_a_step(tmp_path: Path) -> None:
    (log,), left_out = runs_of(tmp_path, a_log="hello\n", b_txt="requirements\n")
    assert (len(log.steps), left_out) == (0, [])


def test_run_directories_are_runs_whatever_their_logs_say(tmp_path: Path) -> None:
    files = {f"{name}__stdout_log": text() for name in ("one", "two")}
    markers = {f"{name}__spec_json": "{}" for name in ("one", "two")}
    runs_of(tmp_path, **files, **markers)
    found, _ = parse_logs(tmp_path / "one", tmp_path / "two")
    assert [log.file for log in found] == [str(tmp_path / "one"), str(tmp_path / "two")]
    (log,), _ = parse_logs(tmp_path / "one")
    assert log.file == str(tmp_path / "one")


def test_a_pipe_of_a_run_in_several_files_is_refused(tmp_path: Path) -> None:
    import threading

    (tmp_path / "a.log").write_text(text(last=20))
    os.mkfifo(tmp_path / "pipe")
    threading.Thread(target=lambda: (tmp_path / "pipe").write_text(text(20))).start()
    with pytest.raises(UserError, match="once"):
        parse_logs(tmp_path / "a.log", tmp_path / "pipe")
