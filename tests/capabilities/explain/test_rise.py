"""Steps that rise for good are a fault with its step and, where samples show it, its rank; any other course is none."""

from dataclasses import replace

import numpy as np
import pytest
from known import first, hosts, kept, known

from benchrun.capabilities.explain import course
from benchrun.capabilities.explain.advice import fault
from benchrun.capabilities.explain.evidence import Evidence
from benchrun.capabilities.explain.explanation import slower_parts
from benchrun.capabilities.explain.faults import _with_rise
from benchrun.capabilities.explain.model import FAULT_SHARE
from benchrun.capabilities.explain.rise import Rise, risen
from benchrun.capabilities.explain.what_changed import growing, of_rise
from benchrun.measure.samples import SAMPLE
from benchrun.model.parts import Moe
from benchrun.rundir.rank_times import RankTime, RankTimes

STEPS, STEP_S = 40, 2.0
SEEDS = range(20)
NO_RECORDS = dict.fromkeys(("samples", "ceilings", "bound", "breakdown", "ranks", "hosts", "fingerprint"))


def series(seed: int, noise: float = 0.01, steps: int = STEPS) -> np.ndarray:
    """Steps without a change, whose scatter is a share of the step."""
    return STEP_S * (1 + np.random.default_rng(seed).normal(0.0, noise, steps))


def run_of(times: np.ndarray, **changed: object) -> Evidence:
    """A run that is known by its log alone, but for ``changed``."""
    alone = {"earlier": np.empty(0), "earlier_steps": np.empty(0), "course": None}
    return known(times=times, steps=len(times), **NO_RECORDS | alone | changed)


def samples(level: dict[str, np.ndarray], ends: np.ndarray) -> np.ndarray:
    """One sample a second of one GPU, whose columns have a level in each step."""
    at = np.arange(ends[0] - STEP_S, ends[-1] + 1) + 0.5
    taken = np.zeros(len(at), SAMPLE)
    taken["time"] = at
    step = np.minimum(np.searchsorted(ends, at - 0.5), len(ends) - 1)
    usual = {"utilisation_percent": 98.0, "power_w": 600.0, "sm_clock_mhz": 1500.0}
    for column, value in usual.items():
        taken[column] = level.get(column, np.full(len(ends), value))[step]
    return taken


def course_of(times: np.ndarray, changed: dict[int, dict[str, np.ndarray]]) -> course.Course:
    """Samples of four GPUs, of which some change."""
    ends = np.cumsum(times) + 1e9
    gpus = tuple(course.Gpu("node1", gpu, gpu, samples(changed.get(gpu, {}), ends)) for gpu in range(4))
    return course.Course(dict(zip(range(6, 6 + len(times)), ends.tolist(), strict=True)), gpus)


def from_step(place: int, usual: float, since: float) -> np.ndarray:
    """A level that changes at a step."""
    return np.where(np.arange(STEPS) < place, usual, since)


@pytest.mark.parametrize("rise", [0.06, 0.3, 1.5])
@pytest.mark.parametrize("place", [5, 20, 30])
def test_a_rise_for_good_is_a_fault_with_its_step(rise: float, place: int) -> None:
    times = series(place) * from_step(place, 1, 1 + rise)
    cause = first(run_of(times))
    lost = rise * STEP_S * (STEPS - place) / STEPS
    assert (cause.cause, cause.kind, cause.rank) == ("unknown", "fault", None)
    assert abs(cause.since_step - (6 + place)) <= 1
    assert cause.seconds == pytest.approx(lost, rel=0.2)


@pytest.mark.parametrize("seed", SEEDS)
def test_no_other_course_of_the_steps_rises(seed: int) -> None:
    numbers = np.arange(STEPS)
    even = series(seed)
    slower_end = even * np.where(numbers >= STEPS - 3, 1.5, 1)
    saving = even * np.where(numbers % 10 == 9, 2, 1)
    courses = {
        "even": even,
        "scattered": series(seed, 0.1),
        "settling": even * (1 + 0.5 * np.exp(-numbers / 6)),
        "falling": even * np.linspace(1.3, 1, STEPS),
        "drift": even * np.linspace(1, 1.3, STEPS),
        "ramp": even * np.clip(1 + (numbers - 10) / 50, 1, 1.4),
        "below the share": even * from_step(15, 1, 1 + FAULT_SHARE / 2),
        "checkpoints": saving,
        "a pause": even * np.where((numbers >= 10) & (numbers < 14), 2, 1),
        "an evaluation at the end": slower_end,
    }
    assert [name for name, times in courses.items() if risen(run_of(times))] == []


@pytest.mark.parametrize("place", [10, 16, 30])
def test_slow_steps_at_the_beginning_are_a_fault_too(place: int) -> None:
    """As with another job on the GPU, which ends."""
    cause = first(run_of(series(place) * from_step(place, 2, 1)))
    assert (cause.cause, cause.kind, cause.since_step) == ("unknown", "fault", 6)
    assert f"to {5 + place}," in cause.evidence
    assert cause.seconds == pytest.approx(STEP_S * place / STEPS, rel=0.1)


def test_steps_of_other_work_are_not_compared() -> None:
    times = series(0) * from_step(15, 1, 1.5)
    assert risen(run_of(times))
    assert risen(run_of(times, same_work=False)) is None


def test_more_is_asked_of_experts() -> None:
    run = run_of(series(0) * from_step(15, 1, 1.1))
    moe = Moe(num_experts=8, topk=2, ffn_hidden_size=run.spec.model.ffn_hidden_size)
    routed = run.spec.model_copy(update={"model": run.spec.model.model_copy(update={"moe": moe})})
    assert risen(run)
    assert risen(replace(run, spec=routed)) is None
    assert risen(replace(run, spec=routed, times=series(0) * from_step(15, 1, 1.5)))


def test_the_steps_of_the_start_count_if_they_are_no_slower() -> None:
    times = series(0) * from_step(2, 1, 1.5)
    assert risen(run_of(times)) is None
    early = run_of(times, earlier=series(1, steps=3), earlier_steps=np.array([3.0, 4.0, 5.0]))
    assert risen(early).since_step == 8


PLACE = 15
CHANGES = {
    "its GPU works on, the others wait": ("slow_rank", 2, [0, 1, 3], {"power_w": 300.0}),
    "its GPU has nothing to do": ("host", 2, [2], {"utilisation_percent": 0.0}),
    "its GPU has gaps": ("host", 2, [2], {"utilisation_percent": 40.0}),
    "its clock fell": ("clocks", 2, [2], {"sm_clock_mhz": 900.0}),
    "every GPU has gaps": ("host", None, [0, 1, 2, 3], {"utilisation_percent": 40.0}),
    "every clock fell": ("clocks", None, [0, 1, 2, 3], {"sm_clock_mhz": 900.0}),
    "two GPUs have gaps": ("unknown", None, [0, 2], {"utilisation_percent": 40.0}),
    "two GPUs work on": ("unknown", None, [0, 1], {"power_w": 300.0}),
    "nothing": ("unknown", None, [], {}),
}


@pytest.mark.parametrize("name", CHANGES)
def test_what_the_gpus_changed_at_that_step_names_cause_and_rank(name: str) -> None:
    cause, rank, gpus, levels = CHANGES[name]
    usual = {"utilisation_percent": 98.0, "power_w": 600.0, "sm_clock_mhz": 1500.0}
    changed = {column: from_step(PLACE, usual[column], value) for column, value in levels.items()}
    times = series(0) * from_step(PLACE, 1, 1.8)
    found = first(run_of(times, course=course_of(times, dict.fromkeys(gpus, changed))))
    assert (found.cause, found.rank, found.since_step) == (cause, rank, 6 + PLACE)


@pytest.mark.parametrize(("others", "cause"), [(89.0, "host"), (60.0, "unknown")])
def test_one_gpu_has_gaps_where_the_others_have_fewer_than_before(others: float, cause: str) -> None:
    """All had gaps before; since then the others are busy, as they wait for one, or have gaps too."""
    times = series(0) * from_step(PLACE, 1, 1.8)
    changed = {}
    for gpu in range(4):
        used = from_step(PLACE, 80.0, 30.0 if gpu == 2 else others)
        changed[gpu] = {"utilisation_percent": used}
    assert first(run_of(times, course=course_of(times, changed))).cause == cause


@pytest.mark.parametrize(
    ("still", "rank"), [([2, 2, 2], 2), ([2, 2, None], 2), ([2, None, None], None), ([2, 2, 1], None)]
)
def test_a_pause_has_the_rank_whose_gpu_alone_stands_still(still: list[int | None], rank: int | None) -> None:
    places = [8, 19, 30]
    times = series(0)
    times[places] *= 3
    changed: dict[int, dict[str, np.ndarray]] = {}
    for place, gpu in zip(places, still, strict=True):
        if gpu is not None:
            level = changed.setdefault(gpu, {"utilisation_percent": np.full(STEPS, 98.0)})
            level["utilisation_percent"][place] = 0.0
    cause = first(run_of(times, course=course_of(times, changed)))
    assert (cause.cause, cause.rank) == ("jitter", rank)


def on_one_gpu(times: np.ndarray, used: float = 99.0) -> Evidence:
    """A run of one rank, whose GPU has a kernel in ``used`` percent of the time."""
    level = {"utilisation_percent": np.full(len(times), used)}
    samples_of = course_of(times, dict.fromkeys(range(4), level))
    own = RankTime(
        rank=0, host="node1", compute_time_s=(9.0, *times.tolist()), collective_time_s=(0.0,) * (len(times) + 1)
    )
    ranks = RankTimes(steps=tuple(range(5, 6 + len(times))), ranks=(own,))
    return run_of(times, ranks=ranks, course=replace(samples_of, gpus=samples_of.gpus[:1]))


@pytest.mark.parametrize("seed", SEEDS)
def test_a_gpu_that_slows_down_for_a_while_is_named_with_its_steps(seed: int) -> None:
    """Another job on the GPU, anywhere in the run: at least six steps twice as slow, or eight by an eighth."""
    random = np.random.default_rng(seed)
    length, share = [(6, 2.0), (8, 0.13), (12, 0.2), (15, 1.0)][seed % 4]
    begin = int(random.choice([0, 10, 20, STEPS - length]))
    numbers = np.arange(STEPS)
    slow = (numbers >= begin) & (numbers < begin + length)
    found = first(on_one_gpu(series(seed) * np.where(slow, 1 + share, 1)))
    assert (found.cause, found.kind, found.rank) == ("slow_rank", "fault", 0)
    assert abs(found.since_step - (6 + begin)) <= 2
    if begin + length < STEPS:
        assert abs(int(found.evidence.split(" to ")[1].split(",")[0]) - (5 + begin + length)) <= 2


def test_a_gpu_that_waits_is_not_the_slow_one() -> None:
    times = series(0) * from_step(PLACE, 1, 1.5)
    assert first(on_one_gpu(times, used=60.0)).cause == "unknown"


def test_products_of_a_slower_gpu_are_no_cause_of_their_own() -> None:
    rose = of_rise(on_one_gpu(series(0) * from_step(PLACE, 1, 1.5)), Rise(6 + PLACE, None, 2.0, 3.0, 0.6))
    assert rose.cause == "slow_rank"
    assert _with_rise([fault("matmul", 0.9 * rose.seconds, "slower than alone")], rose, rose.seconds) == [rose]


def test_a_part_that_is_longer_than_in_another_run_costs_no_more_than_the_run_is_longer() -> None:
    exposed = kept().breakdown.model_copy(update={"communication_s": 0.6})
    other = known(step_s=4.28, breakdown=exposed, ranks=None, hosts=None)
    more = exposed.model_copy(update={"communication_s": 1.2})
    longer = known(step_s=4.4, breakdown=more, ranks=None, hosts=None)
    found = [cause for cause in slower_parts(longer, other) if cause.cause == "exposed_dp"]
    assert [cause.seconds for cause in found] == [pytest.approx(longer.step_s - other.step_s)]
    assert list(slower_parts(other, replace(other))) == []


@pytest.mark.parametrize(("field", "name"), [("data_s", "data"), ("garbage_s", "host"), ("between_s", "host")])
def test_what_a_host_did_longer_since_that_step_is_the_cause(field: str, name: str) -> None:
    times = series(0) * from_step(PLACE, 1, 1.5)
    waited = (0.01,) * (5 + PLACE) + (0.9,) * (STEPS - PLACE)
    usual = hosts(steps=5 + STEPS)
    ranks = [rank.model_copy(update={field: waited} if rank.rank == 1 else {}) for rank in usual.ranks]
    found = first(run_of(times, hosts=usual.model_copy(update={"ranks": tuple(ranks)})))
    assert (found.cause, found.rank) == (name, 1)
    assert abs(found.since_step - (6 + PLACE)) <= 1


@pytest.mark.parametrize("seed", SEEDS)
def test_a_step_that_grows_all_the_time_is_a_fault(seed: int) -> None:
    grown = growing(run_of(series(seed) * np.linspace(1, 1.25, STEPS)))
    assert grown is not None and grown.since_step == 6
    for share in (1.0, 1.1):
        assert growing(run_of(series(seed) * np.linspace(1, share, STEPS))) is None


def test_a_pause_of_the_only_rank_has_its_number() -> None:
    times = series(0) * np.where(np.arange(STEPS) % 7 == 3, 3.0, 1.0)
    run = run_of(times)
    alone = run.spec.model_copy(update={"num_gpus": 1})
    assert first(replace(run, spec=alone)).rank == 0
