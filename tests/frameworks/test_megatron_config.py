"""The Megatron configuration: the rules that fill it, spec.json that holds it, the filters that write it out."""

import json
from pathlib import Path

import pytest
import yaml as pyyaml
from kinds import SPREAD, spec

from benchrun import paths
from benchrun.frameworks.megatron.config import megatron_config
from benchrun.frameworks.megatron.framework import Megatron as Trained
from benchrun.frameworks.registry import FRAMEWORKS, names
from benchrun.recipes.resolve import resolve
from benchrun.recipes.select import Request
from benchrun.render import filters
from benchrun.runspec.megatron import Megatron, Values
from benchrun.runspec.spec import RunSpec

RECOMPUTE = Values(recompute_granularity="full", recompute_method=None, recompute_num_layers=2)
SCHEDULE = Values(lr_decay_style="cosine", lr_decay_iters=50, start_weight_decay=1e-05, end_weight_decay=0.1)


def core(run: RunSpec) -> Megatron:
    assert run.megatron is not None
    return run.megatron


@pytest.mark.parametrize("framework", names(lambda framework: isinstance(framework, Trained)))
def test_spec_json_holds_it_and_the_identity_does_not(tmp_path: Path, framework: str) -> None:
    run = spec(tmp_path, "llama", framework, *SPREAD)
    assert run.megatron == megatron_config(run)
    assert RunSpec.model_validate_json(run.model_dump_json()) == run
    assert run.model_copy(update={"megatron": None}).identity() == run.identity()


@pytest.mark.parametrize("framework", ["maxtext", "hf"])
def test_other_frameworks_have_none(framework: str) -> None:
    recipe, gpus = {"maxtext": ("llama2-70b", 64), "hf": ("mistral-7b-hf", 8)}[framework]
    run = resolve(Request(recipe, "H100", "bf16", gpus, framework))
    assert run.megatron is None
    assert "megatron" not in FRAMEWORKS[framework].configuration(run)


def test_a_spec_written_without_it_is_read_and_it_is_computed_again(tmp_path: Path) -> None:
    run = spec(tmp_path, "llama", "nemo2", *SPREAD)
    document = json.loads(run.model_dump_json())
    del document["megatron"]
    old = RunSpec.model_validate(document)
    assert old.megatron is None
    assert old.identity() == run.identity()
    assert megatron_config(old) == run.megatron


@pytest.mark.parametrize(("framework", "rows"), [("megatron-core", 32128), ("megatron-lm", 32256), ("nemo1", 32256)])
def test_the_vocabulary_is_padded_by_tp_too_but_in_the_worker(tmp_path: Path, framework: str, rows: int) -> None:
    run = spec(tmp_path, "llama", framework, *SPREAD, "model.vocab_size=32001", "layout.tp=2")
    assert core(run).gpt["vocab_size"] == rows


@pytest.mark.parametrize(("steps", "warmup", "horizon"), [(50, 0, 50), (50, 50, 51), (10, 77, 78)])
def test_a_step_of_decay_follows_the_warmup(tmp_path: Path, steps: int, warmup: int, horizon: int) -> None:
    run = spec(tmp_path, "llama", "nemo2", *SPREAD, f"training.steps={steps}", f"training.lr_warmup_steps={warmup}")
    assert core(run).schedule["lr_decay_iters"] == horizon


@pytest.mark.parametrize(
    ("kind", "framework", "fused"),
    [("grok", "nemo1", True), ("grok", "nemo2", False), ("nemotron", "nemo2", False), ("gpt3", "megatron-lm", True)],
)
def test_an_activation_is_fused_where_the_core_has_a_kernel(
    tmp_path: Path, kind: str, framework: str, fused: bool
) -> None:
    run = spec(tmp_path, kind, framework, *SPREAD, *(("layout.ep=8", "layout.etp=4") if kind == "grok" else ()))
    assert core(run).fusion["bias_activation_fusion"] is fused


@pytest.mark.parametrize(("release", "fused"), [("24.05", False), ("24.09", True), ("24.12", True)])
def test_the_oldest_nemo_fuses_no_loss(tmp_path: Path, release: str, fused: bool) -> None:
    run = spec(tmp_path, "llama", "nemo1", *SPREAD, f"image=nvcr.io/nvidia/nemo:{release}")
    assert core(run).fusion["cross_entropy_loss_fusion"] is fused


@pytest.mark.parametrize(("vp", "overlap", "batch"), [(1, False, True), (5, True, False)])
def test_interleaved_stages_send_while_they_compute(tmp_path: Path, vp: int, overlap: bool, batch: bool) -> None:
    sent = core(spec(tmp_path, "llama", "nemo2", *SPREAD, f"layout.vp={vp}")).communication
    assert (sent["overlap_p2p_comm"], sent["batch_p2p_comm"]) == (overlap, batch)


def test_a_precision_aware_adam_alone_gets_the_types_of_its_states(tmp_path: Path) -> None:
    states = "training.optimizer={precision_aware: true, exp_avg: bf16, exp_avg_sq: fp16}"
    plain, aware_adam = (core(spec(tmp_path, "llama", "nemo2", *SPREAD, *more)).optimizer for more in ((), (states,)))
    assert "exp_avg_dtype" not in plain
    assert (aware_adam["exp_avg_dtype"], aware_adam["exp_avg_sq_dtype"]) == ("bfloat16", "float16")
    assert aware_adam["store_param_remainders"] is False  # FP8 weights


@pytest.mark.parametrize("fact", ["0.95", "1e-8", "1e-5", "1.0e-05", "0.02", "128 *", "1024 *", "gpus_per_node"])
def test_no_template_states_what_the_configuration_decides(fact: str) -> None:
    templates = [path for path in (paths.TEMPLATES / "frameworks").iterdir() if path.suffix == ".j2"]
    assert [path.name for path in templates if fact in path.read_text()] == []


def test_flags_leave_out_what_is_false_or_none() -> None:
    ddp = Values(use_distributed_optimizer=True, grad_reduce_in_fp32=False, overlap_grad_reduce=True)
    assert filters.flags(ddp) == "--use-distributed-optimizer --overlap-grad-reduce"
    assert filters.flags([RECOMPUTE, None]) == "--recompute-granularity full --recompute-num-layers 2"


def test_flags_quote_for_the_shell() -> None:
    hostile = SCHEDULE | {"lr_decay_style": "a b; $(c)"}
    assert filters.flags(hostile, "lr_decay_style") == "--lr-decay-style 'a b; $(c)'"


def test_keywords_are_python_and_keys_are_yaml() -> None:
    written = filters.kwargs([RECOMPUTE, SCHEDULE], "recompute_method", decay="start_weight_decay")
    assert eval(f"dict({written})") == {"recompute_method": None, "decay": 1e-05}
    document = pyyaml.safe_load(f"{{{filters.yaml([RECOMPUTE, SCHEDULE], '*', decay='start_weight_decay')}}}")
    assert document["decay"] == 1e-05
    assert document["recompute_method"] is None
    assert set(document) == {*RECOMPUTE, *SCHEDULE, "decay"} - {"start_weight_decay"}


def test_a_name_that_is_in_no_group_is_an_error() -> None:
    with pytest.raises(KeyError):
        filters.flags(SCHEDULE, "lr_decay_itres")
