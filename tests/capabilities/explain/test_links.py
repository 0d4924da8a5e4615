"""Links are judged by what joins the ranks of a group, and by messages that are large enough."""

import pytest
from known import TENSOR, explained, kept, known

from benchrun.capabilities.explain.evidence import Evidence
from benchrun.capabilities.explain.links import link, restrictions
from benchrun.rundir.artifacts import CollectiveRate
from benchrun.rundir.network import network_of


def named(run: Evidence) -> list[str]:
    return [cause.cause for cause in explained(run).causes]


def test_ranks_of_several_nodes_are_joined_by_the_network() -> None:
    spec = kept().spec
    layout = spec.layout.model_copy(update={"tp": 8})
    cluster = spec.cluster.model_copy(update={"gpus_per_node": 8})
    run = known(spec=spec.model_copy(update={"num_gpus": 16, "num_nodes": 2, "layout": layout, "cluster": cluster}))
    assert link(run, "tp").usual == pytest.approx(0.6 * 450)
    halves = run.spec.model_copy(update={"cluster": cluster.model_copy(update={"gpus_per_node": 4})})
    assert link(known(spec=halves), "tp").usual == pytest.approx(0.6 * 50)
    assert link(run, "dp").usual == pytest.approx(0.6 * 50)


def test_a_usual_network_is_no_fault() -> None:
    run = kept()
    spec = run.spec.model_copy(update={"num_gpus": 16, "num_nodes": 2})
    for rate, slow in ((40.0, False), (4.0, True)):
        rates = (CollectiveRate(name="all_reduce", group="dp", ranks=16, size_mib=256, bus_gb_per_s=rate),)
        ceilings = run.ceilings.model_copy(update={"collectives": rates})
        profile = run.breakdown.model_copy(update={"communication_s": 1.0, "step_s": 5.2})
        made = known(step_s=5.2, spec=spec, ceilings=ceilings, breakdown=profile)
        assert ("comm_bandwidth" in named(made)) is slow


def test_where_links_are_slow_exposed_communication_is_theirs() -> None:
    run = kept(TENSOR)
    rates = tuple(each.model_copy(update={"bus_gb_per_s": 20.0}) for each in run.ceilings.collectives)
    profile = run.breakdown.model_copy(update={"communication_s": 0.35, "step_s": 2.55})
    made = known(
        TENSOR, step_s=2.55, ceilings=run.ceilings.model_copy(update={"collectives": rates}), breakdown=profile
    )
    causes = {cause.cause: cause.seconds for cause in explained(made).causes}
    assert causes["comm_bandwidth"] > 0.3
    assert causes.get("exposed_tp", 0.0) == pytest.approx(0.35 - causes["comm_bandwidth"], abs=0.02)


def test_small_messages_take_their_latency() -> None:
    run = kept(TENSOR)
    profile = run.breakdown.model_copy(update={"communication_s": 8.0, "step_s": 10.2})
    small = run.spec.model_copy(update={"seq_length": 256, "num_microbatches": 256})
    for spec, slow in ((run.spec, True), (small, False)):
        made = known(TENSOR, step_s=10.2, spec=spec, ceilings=None, bound=None, breakdown=profile)
        assert ("comm_bandwidth" in named(made)) is slow


def test_waiting_for_each_other_is_no_slow_link() -> None:
    """Neither where the ceilings show the link alone, nor where one rank waits much less."""
    run = kept(TENSOR)
    profile = run.breakdown.model_copy(update={"communication_s": 8.0, "step_s": 10.2})
    alone = run.ceilings.collectives[0].bus_gb_per_s
    assert alone > 0.6 * link(run, "tp").usual
    assert "comm_bandwidth" not in named(known(TENSOR, step_s=10.2, breakdown=profile))
    for of_ranks, slow in (((7.0, 9.0), True), ((0.05, 15.95), False)):
        of_two = profile.model_copy(update={"communication_of_ranks_s": of_ranks})
        made = known(TENSOR, step_s=10.2, ceilings=None, bound=None, breakdown=of_two)
        assert ("comm_bandwidth" in named(made)) is slow
    late = profile.model_copy(update={"idle_s": 7.9, "step_s": 18.1})  # of the host of one by turns
    made = known(TENSOR, step_s=18.1, ceilings=None, bound=None, breakdown=late)
    assert "comm_bandwidth" not in named(made)


def test_little_communication_has_no_bandwidth_to_speak_of() -> None:
    run = kept()
    profile = run.breakdown.model_copy(
        update={"communication_s": 0.5, "hidden_s": 0.25, "other_s": 4.7, "step_s": 8.73}
    )
    assert "comm_bandwidth" not in named(known(step_s=8.73, breakdown=profile, ceilings=None, bound=None))


@pytest.mark.parametrize(
    ("gpu", "links", "named"),
    [
        ("H200", ("SHM/direct",), True),
        ("H200", ("P2P/CUMEM", "SHM/direct"), False),
        ("H100-PCIe", ("SHM/direct",), False),
    ],
)
def test_nccls_own_lines_name_the_memory_of_the_host_beside_nvlink(
    gpu: str, links: tuple[str, ...], named: bool
) -> None:
    lines = [f"node1:71:93 [0] NCCL INFO Channel 0{n}/0 : 0[0] -> 1[1] via {name}" for n, name in enumerate(links)]
    bare = dict.fromkeys(("ceilings", "bound", "breakdown", "ranks", "hosts", "fingerprint"))
    spec = kept(TENSOR).spec.model_copy(update={"gpu": gpu})
    run = known(TENSOR, **bare, spec=spec, samples=None, network=network_of(["\n".join(lines).encode()]))
    found = [cause for cause in explained(run).causes if cause.cause == "comm_bandwidth"]
    assert bool(found) is named
    if named:
        assert found[0].seconds > 0.03 * run.step_s
        assert "via SHM/direct" in found[0].evidence


def test_variables_that_restrict_nccl_are_evidence() -> None:
    env = {"NCCL_P2P_DISABLE": "1", "NCCL_IB_DISABLE": "0", "NCCL_MAX_NCHANNELS": "1", "NCCL_DEBUG": "INFO"}
    assert restrictions(known(env=env)) == ["NCCL_P2P_DISABLE=1", "NCCL_MAX_NCHANNELS=1"]
