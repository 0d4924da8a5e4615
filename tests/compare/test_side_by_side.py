"""Frameworks side by side: points that several frameworks ran, from the kept runs."""

from benchrun.comparison.measured import load_measured
from benchrun.report.frameworks import POINT, TITLES, Measured, losses, side_by_side

KEPT = [Measured(run.spec, run.metrics) for run in load_measured()]


def test_every_point_has_several_frameworks_and_the_fastest_comes_first() -> None:
    table = side_by_side(KEPT)
    speed, time = TITLES.index("speed"), TITLES.index("step_time_s")
    points: dict[tuple[object, ...], list[tuple[float, float]]] = {}
    for row in table.rows:
        points.setdefault(tuple(row[:POINT]), []).append((row[speed], row[time]))
    assert points
    for rows in points.values():
        assert len(rows) > 1
        assert rows == sorted(rows, key=lambda row: row[1])
        assert rows[0][0] == 1
        assert all(abs(share * seconds - rows[0][1]) < 1e-9 for share, seconds in rows)


def test_a_point_of_one_framework_has_no_row() -> None:
    assert not side_by_side([run for run in KEPT if run.spec.framework == "megatron-core"]).rows


def test_the_worker_is_the_fastest_at_every_point_that_it_ran() -> None:
    table = side_by_side(KEPT)
    speed = TITLES.index("speed")
    ran = {tuple(row[:POINT]) for row in table.rows if row[POINT] == "megatron-core"}
    assert ran
    assert {row[POINT] for row in table.rows if row[speed] == 1 and tuple(row[:POINT]) in ran} == {"megatron-core"}


def test_the_frameworks_have_the_same_losses_on_the_same_tokens() -> None:
    table = losses([(run.spec, run.losses) for run in load_measured()])
    framework, difference = table.titles.index("framework"), table.titles.index("difference")
    largest = {row[framework]: float(row[difference]) for row in table.rows}
    assert set(largest) == {"megatron-core", "megatron-lm", "megatron-bridge", "nemo2"}
    assert largest.pop("nemo2") < 0.0055, "it prints two decimals"
    assert max(largest.values()) < 0.001


def test_losses_of_other_tokens_are_not_compared() -> None:
    mock = [(run.spec, run.losses) for run in load_measured() if not run.spec.reads_files]
    assert mock
    assert not losses(mock).rows
