"""Options of frameworks: what changes the work of a step and is not understood takes the FLOPs away."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchrun.frameworks.options import BELOW, is_off, names, options
from benchrun.logs.precision import SWITCHES as NAMED_SWITCHES
from benchrun.logs.precision import precision_of
from benchrun.measure.model import Summary
from benchrun.measure.setting import Setting
from benchrun.usecases.measurement import read_logs, summarise_log

DENSE = {
    **{"num_layers": "32", "hidden_size": "4096", "ffn_hidden_size": "14336", "num_attention_heads": "32"},
    **{"num_query_groups": "8", "group_query_attention": "True", "kv_channels": "128", "swiglu": "True"},
    **{"seq_length": "8192", "global_batch_size": "128", "world_size": "8", "padded_vocab_size": "128256"},
    **{"bf16": "True", "train_iters": "20"},
}
LATENT = {
    **{"multi_latent_attention": "True", "q_lora_rank": "1536", "kv_lora_rank": "512"},
    **{"qk_head_dim": "128", "qk_pos_emb_head_dim": "64", "v_head_dim": "128"},
}
STEP = (
    " iteration {:8d}/      20 | consumed samples: 128 | elapsed time per iteration (ms): 12200.0 | "
    "global batch size:   128 | lm loss: 9.{}E+00 | loss scale: 1.0 |"
)
NEMO = {
    **{"num_layers": "32", "hidden_size": "4096", "ffn_hidden_size": "14336", "num_attention_heads": "32"},
    **{"num_query_groups": "8", "activation": "fast-swiglu", "encoder_seq_length": "8192", "precision": "bf16"},
    **{"global_batch_size": "128", "micro_batch_size": "1", "override_vocab_size": "128256"},
}
MAXTEXT = {
    **{"base_emb_dim": "4096", "emb_dim": "4096", "num_decoder_layers": "32", "mlp_dim": "14336"},
    **{"num_query_heads": "32", "num_kv_heads": "8", "head_dim": "128", "vocab_size": "128256"},
    **{"max_target_length": "8192", "global_batch_size_to_train_on": "128", "dtype": "bfloat16", "steps": "20"},
    **{"mlp_activations": "['silu', 'linear']", "num_experts": "1", "attention_type": "global"},
}
Writer = Callable[[dict[str, str]], list[str]]


def megatron(stated: dict[str, str]) -> list[str]:
    dump = [f"  {name} {'.' * (48 - len(name))} {value}" for name, value in sorted((DENSE | stated).items())]
    return [*dump, *(STEP.format(step, 100 + step) for step in range(1, 21))]


def nemo1(stated: dict[str, str]) -> list[str]:
    lines = [f"      {name}: {value}" for name, value in (NEMO | stated).items()]
    bar = "Epoch 0: : 50%|##| {}/20 [00:{:02d}<00:10, v_num=0, reduced_train_loss=9.{}, train_step_timing in s=12.20]"
    ranks = "GLOBAL_RANK: 0, MEMBER: 1/8"
    return [*lines, ranks, *(bar.format(step, step, 100 + step) for step in range(1, 21))]


def maxtext(stated: dict[str, str]) -> list[str]:
    lines = [f"Config param {name}: {value}" for name, value in sorted((MAXTEXT | stated).items())]
    step = "completed step: {}, seconds: 12.200, TFLOP/s/device: 552.900, Tokens/s/device: 10743.000, loss: 9.{}"
    return [*lines, "Num_devices: 8, shape (1, 8)", *(step.format(each, 100 + each) for each in range(20))]


WRITERS: dict[str, tuple[str, Writer]] = {
    "megatron": ("megatron", megatron),
    "nemo1": ("megatron", nemo1),
    "maxtext": ("maxtext", maxtext),
}
NOT_PRINTED_BY_NEMO = {"attn"}


def summary(folder: Path, lines: Sequence[str], gpu: str = "H100") -> Summary:
    """What parse says of a log."""
    file = folder / "x.log"
    file.write_text("\n".join(lines) + "\n")
    return summarise_log(read_logs([file])[0][0], Setting(gpu=gpu))


def set_away(family: str, name: str) -> str:
    """A value of an argument that is none of its usual ones."""
    usual = options(family)[name].usual
    return next(value for value in ("True", "2", "3") if not is_off(value, usual))


@pytest.mark.parametrize("form", WRITERS)
def test_the_base_of_these_tests_is_counted(tmp_path: Path, form: str) -> None:
    measured = summary(tmp_path, WRITERS[form][1]({}))
    assert measured.unknown_options == []
    assert measured.tflops_per_gpu is not None
    assert measured.tflops_per_gpu.causal == pytest.approx(553, rel=0.01)
    assert measured.mfu


@pytest.mark.parametrize("form", WRITERS)
def test_every_option_that_changes_the_work_takes_the_flops_away(tmp_path: Path, form: str) -> None:
    family, write = WRITERS[form]
    for name in names(family, "work"):
        value = set_away(family, name)
        measured = summary(tmp_path, write({name: value}))
        assert measured.unknown_options == [f"{name} {value}"]
        assert measured.tflops_per_gpu is None, name
        assert measured.mfu == (), name
        assert [problem.kind for problem in measured.problems] == ["unknown_option"], name
        assert measured.step_time_s is not None, name


@pytest.mark.parametrize("block", [["      - 512", "      - 0"], ["        size: 512"]])
@pytest.mark.parametrize("name", ["window_size", "moe_layer_freq", "linear_attention_freq"])
def test_a_value_on_the_next_lines_is_unknown(tmp_path: Path, name: str, block: list[str]) -> None:
    experts = {"num_moe_experts": "8", "moe_router_topk": "2"}
    lines = [f"      {name}:", *block, *nemo1(experts)]
    measured = summary(tmp_path, lines)
    assert measured.unknown_options == [f"{name} {BELOW}"]
    assert measured.tflops_per_gpu is None
    assert summary(tmp_path, nemo1(experts)).tflops_per_gpu is not None


def test_a_value_that_another_line_has_is_read(tmp_path: Path) -> None:
    lines = ["      window_size: [512, 0]", "      window_size:", "      - 512", "      - 0", *nemo1({})]
    assert summary(tmp_path, lines).tflops_per_gpu == summary(tmp_path, [lines[0], *nemo1({})]).tflops_per_gpu


@settings(max_examples=40, deadline=None)
@given(
    form=st.sampled_from(["megatron", "maxtext"]),
    seed=st.integers(0, 10_000),
    value=st.sampled_from(["True", "17", "0.3", "some_word", "[1, 2]", "None"]),
)
def test_inert_options_leave_the_numbers_alone(
    tmp_path_factory: pytest.TempPathFactory, form: str, seed: int, value: str
) -> None:
    family, write = WRITERS[form]
    free = [name for name in names(family, "inert") if name not in NAMED_SWITCHES]  # those state a precision
    inert = Random(seed).sample(free, 60)
    folder = tmp_path_factory.mktemp("inert")
    assert summary(folder, write(dict.fromkeys(inert, value))) == summary(folder, write({}))


@pytest.mark.parametrize("value", ["True", "4", "ring", "[1, 0]"])
def test_a_name_that_no_source_has_is_unknown(tmp_path: Path, value: str) -> None:
    measured = summary(tmp_path, megatron({"quantum_heads": value, "comm_low_freq": "800", "new_feature": "None"}))
    assert measured.unknown_options == [f"quantum_heads {value}"]
    assert measured.tflops_per_gpu is None


def test_off_values_of_every_option_leave_the_flops(tmp_path: Path) -> None:
    off = dict.fromkeys(names("megatron", "work"), "None")
    assert summary(tmp_path, megatron(off)).tflops_per_gpu is not None


@pytest.mark.parametrize(
    ("stated", "field", "value"),
    [
        ({"mtp_num_layers": "1"}, "mtp_layers", 1),
        ({"mtp_num_layers": "2"}, "mtp_layers", 2),
        ({"window_size": "(127, 0)"}, "window", {"size": 128}),
        ({"window_size": "(127, 0)", "window_attn_skip_freq": "4"}, "window", {"size": 128, "full_every": 4}),
        (LATENT, "mla", {name: int(size) for name, size in LATENT.items() if name != "multi_latent_attention"}),
    ],
)
def test_a_part_that_is_stated_in_full_is_counted(
    tmp_path: Path, stated: dict[str, str], field: str, value: object
) -> None:
    measured, dense = (summary(tmp_path, megatron(each)) for each in (stated, {}))
    assert measured.model is not None
    assert measured.model[field] == value
    assert measured.tflops_per_gpu != dense.tflops_per_gpu


@pytest.mark.parametrize("missing", sorted(LATENT.keys() - {"multi_latent_attention"}))
def test_latent_attention_without_one_size_is_unknown(tmp_path: Path, missing: str) -> None:
    measured = summary(tmp_path, megatron({name: size for name, size in LATENT.items() if name != missing}))
    assert measured.unknown_options == ["multi_latent_attention True"]
    assert measured.tflops_per_gpu is None


@pytest.mark.parametrize(
    ("stated", "moe"),
    [
        ({}, {}),
        ({"moe_shared_expert_intermediate_size": "2048"}, {"shared_ffn_hidden_size": 2048}),
        ({"moe_layer_freq": f"[0, 0{', 1' * 30}]"}, {"leading_dense_layers": 2}),
        ({"moe_layer_freq": "2"}, {"every": 2}),
    ],
)
def test_experts_are_counted(tmp_path: Path, stated: dict[str, str], moe: dict[str, int]) -> None:
    experts = {"num_experts": "8", "moe_router_topk": "2", "moe_ffn_hidden_size": "1408"}
    measured = summary(tmp_path, megatron(experts | stated))
    assert measured.model is not None
    assert measured.model["moe"] == {"num_experts": 8, "topk": 2, "ffn_hidden_size": 1408} | moe


@pytest.mark.parametrize("layers", ["3", f"[1, 0{', 1' * 30}]", "[0, 1, 1]"])
def test_layers_of_experts_that_are_not_described_are_unknown(tmp_path: Path, layers: str) -> None:
    experts = {"num_experts": "8", "moe_router_topk": "2", "moe_ffn_hidden_size": "1408"}
    assert summary(tmp_path, megatron(experts | {"moe_layer_freq": layers})).tflops_per_gpu is None


EXPERTS = {"num_experts": "8", "num_experts_per_tok": "2", "moe_mlp_dim": "7168"}


class TestMaxText:
    def test_mixtral_has_experts_as_wide_as_the_mlp(self, tmp_path: Path) -> None:
        measured = summary(tmp_path, maxtext({**EXPERTS, "decoder_block": "mixtral"}))
        assert measured.model is not None
        assert measured.model["moe"] == {"num_experts": 8, "topk": 2, "ffn_hidden_size": 14336}

    def test_deepseek_has_its_own_width_and_latent_attention(self, tmp_path: Path) -> None:
        latent = {"q_lora_rank": "0", "kv_lora_rank": "512", "qk_nope_head_dim": "128", "qk_rope_head_dim": "64"}
        block = {"decoder_block": "deepseek", "attention_type": "mla", "v_head_dim": "128", "shared_experts": "2"}
        measured = summary(tmp_path, maxtext({**EXPERTS, **latent, **block, "first_num_dense_layers": "1"}))
        assert measured.model is not None
        assert measured.model["mla"]["kv_lora_rank"] == 512
        moe = {"num_experts": 8, "topk": 2, "ffn_hidden_size": 7168, "leading_dense_layers": 1}
        assert measured.model["moe"] == moe | {"shared_ffn_hidden_size": 14336}

    @pytest.mark.parametrize("block", ["gemma3", "llama4", "gpt_oss", "qwen3_next", "deepseek4"])
    def test_other_blocks_are_unknown(self, tmp_path: Path, block: str) -> None:
        assert summary(tmp_path, maxtext({"decoder_block": block})).unknown_options == [f"decoder_block {block}"]


SWITCHES = [
    ({"bf16": "True", "fp8": "None", "fp16": "False"}, "bf16"),
    ({"bf16": "True", "fp8": "hybrid", "fp8_recipe": "mxfp8"}, "fp8"),
    ({"fp8": "e4m3", "bf16": "True", "fp4": "None"}, "fp8"),
    ({"fp4": "e2m1", "fp4_recipe": "nvfp4", "bf16": "True", "fp8": "None"}, "nvfp4"),
    ({"fp4": "true", "fp8": "true", "precision": "bf16-mixed"}, "nvfp4"),
    ({"fp4": "mxfp4", "bf16": "True"}, "mxfp4"),
    ({"fp4": "e2m1", "fp4_recipe": "custom"}, "fp4"),
    ({"fp8": "false", "fp8_hybrid": "true", "precision": "bf16"}, "bf16"),
    ({"fp8_hybrid": "True", "fp8_e4m3": "False", "bf16": "True"}, "fp8"),
    ({"dtype": "bfloat16", "quantization": ""}, "bf16"),
    ({"dtype": "bfloat16", "quantization": "te_nvfp4"}, "nvfp4"),
    ({"dtype": "bfloat16", "quantization": "nanoo_fp8"}, "fp8"),
    ({"dtype": "bfloat16", "quantization": "int8"}, "int8"),
    ({"bf16": "True", "quantization": "True"}, "bf16"),
    ({"bf16": "False", "fp16": "False", "params_dtype": "torch.float32"}, "fp32"),
    ({"fp16": "{'enabled': True, 'type': 'bfloat16'}"}, "bf16"),
    ({"fp16": "{'enabled': True, 'loss_scale': 0}"}, "fp16"),
    ({"precision": "16-mixed"}, "fp16"),
    ({"fp8_recipe": "delayed"}, None),
]


@pytest.mark.parametrize(("stated", "precision"), SWITCHES)
@given(data=st.data())
def test_the_order_of_switches_does_not_matter(data: st.DataObject, stated: dict[str, str], precision: str) -> None:
    shuffled = dict(data.draw(st.permutations([*stated.items()])))
    assert precision_of(shuffled) == precision


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize(("switch", "precision"), [("fp8", "fp8"), ("fp4", "nvfp4")])
def test_a_dump_in_any_order_has_its_precision(tmp_path: Path, reverse: bool, switch: str, precision: str) -> None:
    lines = megatron({switch: "e2m1"})
    dump, steps = lines[:-20], lines[-20:]
    measured = summary(tmp_path, [*sorted(dump, reverse=reverse), *steps], "B200")
    assert measured.precision == precision
    assert measured.mfu[0].peak_tflops == {"fp8": 4500, "nvfp4": 9000}[precision]


def test_a_precision_without_a_peak_has_no_mfu_and_a_limit(tmp_path: Path) -> None:
    measured = summary(tmp_path, megatron({"fp4": "mxfp4"}), "B200")
    assert (measured.precision, measured.mfu) == ("mxfp4", ())
    assert measured.tflops_per_gpu is not None
    fast = summary(tmp_path, [line.replace("12200.0", "122.0") for line in megatron({"fp4": "mxfp4"})])
    assert "impossible_rate" in [problem.kind for problem in fast.problems]


def neox(stated: dict[str, str]) -> list[str]:
    base = {
        **{"hidden_size": "4096", "num_layers": "32", "num_attention_heads": "32", "num_kv_heads": "8"},
        **{"intermediate_size": "14336", "activation": "swiglu", "padded_vocab_size": "128256"},
        **{"seq_length": "8192", "train_batch_size": "128", "global_num_gpus": "8", "pack_impl": "packed"},
        "fp16": "{'enabled': True, 'type': 'bfloat16', 'loss_scale': 0}",
    }
    dump = [f"  {name} {'.' * (32 - len(name))} {value}" for name, value in (base | stated).items()]
    return [*(f"{line:.<64}updated" for line in dump), *megatron({})[-20:]]


@pytest.mark.parametrize(
    ("stated", "known"),
    [
        ({"attention_config": str(["flash"] * 32)}, True),
        ({"attention_config": "[[['global'], 32]]"}, True),
        ({"attention_config": str(["flash"] * 31 + ["sparse_fixed"])}, False),
        ({"train_impl": "dpo"}, False),
    ],
)
def test_gpt_neox_states_its_model(tmp_path: Path, stated: dict[str, str], known: bool) -> None:
    measured = summary(tmp_path, neox(stated))
    assert measured.precision == "bf16"
    assert (measured.tflops_per_gpu is not None) == known
    if not known:
        assert [option.split()[0] for option in measured.unknown_options] == [*stated]


@pytest.mark.parametrize(("rank", "task"), [(16, "lora"), (0, None)])
def test_mlperf_states_adapters(tmp_path: Path, rank: int, task: str | None) -> None:
    def line(key: str, value: object, **metadata: object) -> str:
        event = {"namespace": "", "time_ms": 1, "key": key, "value": value, "metadata": metadata}
        return f":::MLLOG {json.dumps(event)}"

    steps = [line("tracked_stats", {"train_step_timing": 1.5}, step=8 * step) for step in range(1, 9)]
    (tmp_path / "x.log").write_text("\n".join([line("global_batch_size", 8), line("lora_rank", rank), *steps]) + "\n")
    assert read_logs([tmp_path / "x.log"])[0][0].facts.task == task
