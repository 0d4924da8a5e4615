"""Which rank is slow, by the time that each computes outside collectives."""

import pytest

from benchrun.measure.ranks import RankSpread, rank_spread
from benchrun.rundir.rank_times import RankTime, RankTimes

STEP_S = 1.0
WINDOW = (1, 10)


def spread_of(*compute_s: float, stages: tuple[int, ...] = (), steps: int = 10) -> RankSpread:
    """Ranks that compute so long in every step of one second."""
    return rank_spread(
        RankTimes(
            steps=tuple(range(1, steps + 1)),
            ranks=tuple(
                RankTime(
                    rank=rank,
                    host=f"n{rank // 2}",
                    stage=stages[rank] if stages else 0,
                    compute_time_s=(seconds,) * steps,
                    collective_time_s=(STEP_S - seconds,) * steps,
                )
                for rank, seconds in enumerate(compute_s)
            ),
        ),
        WINDOW,
    )


@pytest.mark.parametrize(
    ("compute_s", "rank", "behind_s"),
    [
        ((0.5, 0.5, 0.7, 0.5), 2, 0.2),
        ((0.5, 0.8), 1, 0.3),
        # A whole node: most of the others are its equals only where they are more than the rest.
        ((0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.9, 0.8), 6, 0.4),
    ],
)
def test_the_slowest_rank_is_named_with_what_it_is_behind(
    compute_s: tuple[float, ...], rank: int, behind_s: float
) -> None:
    spread = spread_of(*compute_s)
    assert (spread.slowest.rank, spread.slowest.host) == (rank, f"n{rank // 2}")
    assert spread.slowest.behind_s == pytest.approx(behind_s)
    assert spread.slowest.behind_percent == pytest.approx(100 * behind_s / STEP_S)
    assert spread.slowest.steps_behind == 1
    assert [each.compute_time_s for each in spread.ranks] == pytest.approx(compute_s)


def test_only_ranks_of_one_pipeline_stage_are_compared() -> None:
    """The last stage has the logits: more work is not slowness."""
    spread = spread_of(0.3, 0.3, 0.6, 0.65, stages=(0, 0, 1, 1))
    assert spread.slowest.rank == 3
    assert spread.slowest.behind_s == pytest.approx(0.05)
    assert spread_of(0.3, 0.6, stages=(0, 1)).slowest is None


def test_equal_ranks_are_not_behind() -> None:
    assert spread_of(0.5, 0.5, 0.5).slowest.behind_s == 0
    assert spread_of(0.5, 0.5, 0.5).slowest.steps_behind == 0
    assert spread_of(0.5).slowest is None


def test_one_late_step_is_no_slow_rank() -> None:
    times = RankTimes(
        steps=(1, 2, 3),
        ranks=tuple(
            RankTime(rank=rank, host="n", compute_time_s=seconds, collective_time_s=(0.0,) * 3)
            for rank, seconds in enumerate([(0.5, 9.0, 0.5), (0.5, 0.5, 0.6)])
        ),
    )
    slowest = rank_spread(times, (1, 3)).slowest
    assert slowest.behind_s == 0
    assert slowest.steps_behind < 0.5


def test_only_the_steps_of_the_window_count() -> None:
    ranks = (
        RankTime(rank=0, host="n", compute_time_s=(5.0, 0.5, 0.5), collective_time_s=(0, 0, 0)),
        RankTime(rank=1, host="n", compute_time_s=(1.0, 0.6, 0.6), collective_time_s=(0, 0, 0)),
    )
    times = RankTimes(steps=(10, 20, 30), ranks=ranks)
    assert rank_spread(times, (15, 30)).slowest.rank == 1
    assert rank_spread(times, (15, 30)).steps == 2
    assert rank_spread(times, (31, 40)) is None
    assert rank_spread(None, (1, 2)) is None
