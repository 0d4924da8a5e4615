"""Frameworks side by side: points that several frameworks ran, from the kept runs."""

from benchrun.compare.measured import load_measured
from benchrun.report.frameworks import POINT, TITLES, Measured, side_by_side

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


def test_the_worker_is_the_fastest_at_every_point_that_was_measured() -> None:
    table = side_by_side(KEPT)
    speed = TITLES.index("speed")
    assert {row[POINT] for row in table.rows if row[speed] == 1} == {"megatron-core"}
