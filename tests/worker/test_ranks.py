"""The rank of a process, and what it refuses before it would wait for the others."""

import os
from collections.abc import Callable, Iterator
from unittest import mock

import pytest

torch = pytest.importorskip("torch", reason="training needs pip install '.[train]'")

from benchrun.errors import UserError  # noqa: E402
from benchrun.recipes.resolve import resolve  # noqa: E402
from benchrun.recipes.select import Request  # noqa: E402
from benchrun.worker import entry, ranks  # noqa: E402

NAMES = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
SLURM = ("SLURM_PROCID", "SLURM_NTASKS", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID")
ON_H100 = resolve(Request("llama3.1-8b", "H100", "bf16", 8))


@pytest.fixture
def started() -> Iterator[Callable[..., None]]:
    """Sets a launcher's variables, without those of this process; restores the environment afterwards."""

    def with_(**env: str) -> None:
        for name in (*NAMES, *SLURM):
            os.environ.pop(name, None)
        os.environ.update(env)

    with mock.patch.dict(os.environ):
        yield with_


@pytest.mark.parametrize(
    ("env", "expected"),
    [
        ({"RANK": "5", "WORLD_SIZE": "8", "LOCAL_RANK": "1"}, (5, 8, 1)),
        # As mpirun's wrappers export it: the second of two must not take the first one's GPU.
        ({"RANK": "1", "WORLD_SIZE": "2"}, (1, 2, 1)),
        ({"SLURM_PROCID": "5", "SLURM_STEP_NUM_TASKS": "8", "SLURM_LOCALID": "1", "SLURM_NTASKS": "8"}, (5, 8, 1)),
        # A batch script of four tasks, that has not called srun.
        ({"SLURM_PROCID": "0", "SLURM_NTASKS": "4", "SLURM_LOCALID": "0"}, (0, 1, 0)),
        ({}, (0, 1, 0)),
    ],
)
def test_the_launchers_variables_state_the_rank(
    started: Callable[..., None], env: dict[str, str], expected: tuple[int, int, int]
) -> None:
    started(**env)
    assert entry.place(8) == expected


def test_ranks_of_several_nodes_need_an_address(started: Callable[..., None]) -> None:
    started(RANK="0", WORLD_SIZE="8", LOCAL_RANK="0")
    with pytest.raises(UserError, match="2 nodes, and MASTER_ADDR"):
        entry.prepare_process(ON_H100.model_copy(update={"num_nodes": 2}))


def test_ranks_without_a_local_rank_count_up_on_each_node(started: Callable[..., None]) -> None:
    started(RANK="6", WORLD_SIZE="8", MASTER_ADDR="node1")
    cluster = ON_H100.cluster.model_copy(update={"gpus_per_node": 4})
    entry.prepare_process(ON_H100.model_copy(update={"num_nodes": 2, "cluster": cluster}))
    assert os.environ["LOCAL_RANK"] == "2"


@pytest.mark.parametrize(
    ("local", "visible", "torchrun", "refused"),
    [(3, 4, True, False), (3, 2, True, True), (3, 2, False, True), (1, 1, True, True), (3, 1, False, False)],
)
def test_a_rank_without_a_gpu_of_its_own_is_refused(
    started: Callable[..., None],
    monkeypatch: pytest.MonkeyPatch,
    local: int,
    visible: int,
    torchrun: bool,
    refused: bool,
) -> None:
    started(RANK=str(local), WORLD_SIZE="8", LOCAL_RANK=str(local), **({"LOCAL_WORLD_SIZE": "8"} if torchrun else {}))
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: visible)
    if not refused:
        ranks.refuse_without_gpu(ON_H100)
        return
    with pytest.raises(UserError, match=f"local rank {local} has no GPU: this node has {visible}"):
        ranks.refuse_without_gpu(ON_H100)


@pytest.mark.parametrize("graphs", [False, True])
def test_communicators_that_graphs_hold_are_left_to_the_end_of_the_process(
    monkeypatch: pytest.MonkeyPatch, graphs: bool
) -> None:
    """NCCL would wait for the graphs without end: a run with tp 2 or cp 2 trained all its steps, and hung."""
    calls = []
    for name in ("barrier", "destroy_process_group"):
        monkeypatch.setattr(torch.distributed, name, lambda name=name: calls.append(name))
    ranks.leave(graphs=graphs)
    assert calls == ["barrier", *([] if graphs else ["destroy_process_group"])]
