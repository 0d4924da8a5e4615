"""Effects of nodes and days on planted jobs: who is accused, since when, by how much; who is not."""

from collections.abc import Mapping

import numpy as np
import pytest

from benchrun.capabilities.audit.effects import fitted
from benchrun.capabilities.audit.losses import slowed
from benchrun.capabilities.audit.windows import Jobs

DAYS, A_DAY, KINDS = 20, 60, 8


def month(
    seed: int, nodes: int = 48, slow: tuple[tuple[int, int, int, float], ...] = (), day: float = 1.0
) -> tuple[Jobs, np.ndarray]:
    """Jobs of 1 to 8 nodes, and the logarithm of the factor that the slowest node of each adds.

    ``slow``: node, first and last slow job of the cluster, factor; ``day``: factor of day 5.
    """
    rng = np.random.default_rng(seed)
    size = rng.choice([1, 2, 4, 8], KINDS)
    count = DAYS * A_DAY
    kind = rng.integers(KINDS, size=count)
    date = np.arange(count) // A_DAY
    chosen, planted = [], np.zeros(count)
    for job in range(count):
        chosen.append(np.sort(rng.choice(nodes, size[kind[job]], replace=False)))
        for node, first, last, factor in slow:
            if node in chosen[-1] and first <= job < last:
                planted[job] = max(planted[job], np.log(factor))
    noise = rng.normal(0, 0.01, count) + np.where(date == 5, np.log(day), 0.0)
    levels = rng.normal(1, 1, KINDS)
    times = levels[kind] + planted + noise
    return Jobs(times, np.full(count, 1e-3), kind, np.eye(DAYS)[date], chosen), planted


@pytest.mark.parametrize("seed", range(3))
def test_a_healthy_fleet_accuses_nobody(seed: int) -> None:
    jobs, _ = month(seed)
    found = fitted(jobs, 48)
    assert found.spells == [] and not found.day.any()


def test_slow_nodes_are_named_with_their_begin_and_size() -> None:
    jobs, _ = month(4, slow=((3, 0, 1200, 1.03), (17, 600, 1200, 1.10)), day=1.05)
    found = fitted(jobs, 48)
    spells = {spell.node: spell for spell in found.spells}
    assert set(spells) == {3, 17}
    for node, factor in ((3, 1.03), (17, 1.10)):
        assert spells[node].effect == pytest.approx(np.log(factor), abs=4 * spells[node].error)
    own = [job for job, nodes in enumerate(jobs.nodes) if 17 in nodes]
    assert abs(spells[17].first - sum(job < 600 for job in own)) <= 2
    assert np.flatnonzero(found.day).tolist() == [5]
    assert found.day[5] == pytest.approx(np.log(1.05), abs=0.006)


def large_jobs(seed: int, nodes: int, slow: Mapping[int, float], begin: int = 9) -> Jobs:
    """60 jobs of one kind on ``nodes`` of 24 nodes, six a day; ``slow``: node -> factor from
    job ``begin`` on.
    """
    rng = np.random.default_rng(seed)
    chosen, times = [], rng.normal(0, 0.003, 60)
    for job in range(60):
        chosen.append(np.sort(rng.choice(24, nodes, replace=False)))
        factors = [factor for node, factor in slow.items() if node in chosen[-1] and job >= begin]
        times[job] += np.log(max(factors, default=1.0))
    return Jobs(times, np.full(60, 4e-4), np.zeros(60, np.int64), np.eye(10)[np.arange(60) // 6], chosen)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    ("nodes", "slow"), [(14, {7: 1.08}), (14, {7: 1.03}), (8, {7: 1.08, 11: 1.08}), (8, {7: 1.1, 11: 1.06, 15: 1.04})]
)
def test_nodes_that_make_half_of_all_jobs_slow_are_accused(seed: int, nodes: int, slow: dict[int, float]) -> None:
    found = fitted(large_jobs(seed, nodes, slow), 24)
    assert {spell.node for spell in found.spells} == set(slow)
    for spell in found.spells:
        assert spell.effect == pytest.approx(np.log(slow[spell.node]), abs=0.005)


def test_no_node_of_a_healthy_fleet_of_large_jobs_is_accused_or_suspected() -> None:
    for seed in range(3):
        found = fitted(large_jobs(seed, 14, {}), 24)
        assert (found.spells, found.rivals, found.suspects) == ([], [], [])


def test_three_slow_jobs_accuse_their_node_and_two_make_it_perhaps_slow() -> None:
    for slow_jobs, accused, suspected in ((2, [], [(7,)]), (3, [7], [])):
        jobs = large_jobs(3, 4, {})
        own = [job for job, nodes in enumerate(jobs.nodes) if 7 in nodes]
        jobs.log_time[own[-slow_jobs:]] += np.log(1.08)
        found = fitted(jobs, 24)
        assert [spell.node for spell in found.spells] == accused
        assert [suspect.nodes for suspect in found.suspects] == suspected


def test_a_node_that_recovered_has_an_end() -> None:
    jobs, _ = month(5, slow=((9, 300, 700, 1.06),))
    (spell,) = fitted(jobs, 48).spells
    own = [job for job, nodes in enumerate(jobs.nodes) if 9 in nodes]
    assert spell.node == 9
    assert abs(spell.last - sum(job < 700 for job in own)) <= 2 < len(own) - spell.last


def test_jobs_that_always_share_two_nodes_accuse_neither() -> None:
    jobs, _ = month(6, slow=((3, 0, 1200, 1.10),))
    twins = []
    for nodes in jobs.nodes:
        pair = {3, 47} if {3, 47} & set(nodes.tolist()) else set()
        twins.append(np.array(sorted({*nodes.tolist(), *pair})))
    planted = np.array([0.1 * (3 in nodes) for nodes in twins])
    level = jobs.log_time - month(6)[0].log_time
    found = fitted(jobs._replace(nodes=twins, log_time=jobs.log_time - level + planted), 48)
    assert found.spells == [] and [set(pair) for pair in found.rivals] == [{3, 47}]


def test_two_slow_jobs_accuse_nobody() -> None:
    jobs, _ = month(7)
    own = [job for job, nodes in enumerate(jobs.nodes) if 11 in nodes]
    times = jobs.log_time.copy()
    times[own[-2:]] += 0.3
    assert fitted(jobs._replace(log_time=times), 48).spells == []


def test_a_node_that_ran_beside_a_new_slow_one_is_not_accused() -> None:
    jobs, _ = month(7)
    own = [job for job, nodes in enumerate(jobs.nodes) if 11 in nodes]
    times, nodes = jobs.log_time.copy(), [*jobs.nodes]
    for job in own[-2:]:
        times[job] += 0.1
        nodes[job] = np.unique([*nodes[job], 48])
    times[own[-3]] += 0.015
    assert fitted(jobs._replace(log_time=times, nodes=nodes), 49).spells == []


def test_losses_are_those_that_were_planted() -> None:
    jobs, planted = month(8, slow=((3, 200, 1200, 1.04), (17, 600, 1200, 1.10), (30, 0, 1200, 1.03)))
    hours = np.array([8.0 * len(nodes) for nodes in jobs.nodes])
    lost = slowed(jobs, fitted(jobs, 48), hours)
    truth = float(np.sum(hours * -np.expm1(-planted)))
    assert lost.total_fault.median == pytest.approx(truth, rel=0.1)
    assert lost.total_fault.low <= truth <= lost.total_fault.high
    assert lost.fault.sum() == pytest.approx(lost.total_fault.median)


def test_a_slow_node_costs_a_large_job_less_beside_its_slowest_healthy_one() -> None:
    planted, fitted_sum, counted = 0.0, 0.0, 0.0
    for seed in range(4):
        jobs, added = month(seed, slow=((3, 0, 1200, 1.04),))
        own = np.random.default_rng(seed).normal(0, 0.006, 48)
        healthy = np.array([own[nodes].max() for nodes in jobs.nodes])
        slow = np.array([max(0.04 * (node == 3) + own[node] for node in nodes) for nodes in map(list, jobs.nodes)])
        jobs = jobs._replace(log_time=jobs.log_time - added + slow)
        hours = np.array([8.0 * len(nodes) for nodes in jobs.nodes])
        found = fitted(jobs, 48)
        planted += float(hours @ -np.expm1(healthy - slow))
        fitted_sum += float(hours @ -np.expm1(-found.slow_by))
        counted += slowed(jobs, found, hours).total_fault.median
    assert abs(counted / planted - 1) < 0.9 * abs(fitted_sum / planted - 1)


def test_noise_is_no_loss() -> None:
    jobs, _ = month(9)
    assert slowed(jobs, fitted(jobs, 48), np.ones(len(jobs.kind))).total_fault.high == 0.0
