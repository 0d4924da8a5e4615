"""Advice names what the run can change."""

from benchrun.capabilities.explain.advice import advised, choice
from benchrun.capabilities.explain.model import Name
from benchrun.rundir.find import open_run
from benchrun.runspec.spec import TrainingSpec
from benchrun.runspec.training import Recompute

NEMO = "llama2-7b-lora-93f05e6c"
WORKER = "llama3-8b-lora-b43f8a74"


def advice(run: str, cause: Name, **training: object) -> str:
    spec = open_run(run).spec
    assert isinstance(spec, TrainingSpec)
    spec = spec.model_copy(update={"training": spec.training.model_copy(update=training)})
    return advised(choice(cause, 1.0, ""), spec).advice


def test_a_setting_in_force_is_no_advice() -> None:
    assert "cuda_graphs" in advice(WORKER, "host", cuda_graphs="none")
    assert "cuda_graphs" not in advice(WORKER, "host", cuda_graphs="layers")
    assert "overlap_grad_reduce" in advice(WORKER, "exposed_dp", overlap_grad_reduce=False)
    assert "overlap_grad_reduce" not in advice(WORKER, "exposed_dp", overlap_grad_reduce=True)


def test_what_the_framework_refuses_is_no_advice() -> None:
    assert "cuda_graphs" in advice(NEMO, "host")
    assert "cuda_graphs" not in advice(NEMO, "host", recompute=Recompute(granularity="full", num_layers=1))


def test_of_a_log_alone_all_is_advised() -> None:
    assert "cuda_graphs" in advised(choice("host", 1.0, ""), None).advice
