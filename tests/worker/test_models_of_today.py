"""The worker trains what the models of today have, in small: the loss falls, and no layout changes it."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from selection import some
from test_parity import TOLERANCE, Curve, curve, spec_for

pytestmark = pytest.mark.train
pytest.importorskip("torch", reason="training needs pip install '.[train]'")
pytest.importorskip("megatron.core", reason="training needs pip install '.[train]'")

LATENT = "{q_lora_rank: 32, kv_lora_rank: 16, qk_head_dim: 16, qk_pos_emb_head_dim: 8, v_head_dim: 16}"
YARN = "{kind: yarn, factor: 4, original_positions: 4096}"
DEEPSEEK_EXPERTS = (
    "{num_experts: 8, topk: 2, ffn_hidden_size: 32, shared_ffn_hidden_size: 64, leading_dense_layers: 1, "
    "sigmoid: true, expert_bias: true, num_groups: 4, topk_groups: 2, scaling_factor: 2.5, balance: seq_aux_loss}"
)
LLAMA_4_EXPERTS = (
    "{num_experts: 4, topk: 1, ffn_hidden_size: 64, shared_ffn_hidden_size: 64, every: 2, sigmoid: true, "
    "probs_on_input: true}"
)
MLA = (f"model.mla={LATENT}", "model.num_query_groups=4")
FAMILIES: dict[str, tuple[str, tuple[str, ...]]] = {
    "qwen3": ("tiny-llama", ("model.qk_norm=weighted", "model.qkv_bias=true", "model.kv_channels=32")),
    "mla": ("tiny-llama", (*MLA, f"model.rope_scaling={YARN}")),
    "deepseek": ("tiny-mixtral", (*MLA, f"model.moe={DEEPSEEK_EXPERTS}", "model.mtp_layers=1")),
    "llama4": ("tiny-mixtral", ("model.no_rope_every=4", "model.qk_norm=l2", f"model.moe={LLAMA_4_EXPERTS}")),
    "window": ("tiny-llama", ("model.window={size: 16, full_every: 2}",)),
    "yarn": ("tiny-llama", (f"model.rope_scaling={YARN}",)),
    "sinks": ("tiny-llama", ("model.attention_sinks=true",)),
    "gpt-oss": (
        "tiny-mixtral",
        (
            *("model.attention_sinks=true", "model.window={size: 16, full_every: 2}", f"model.rope_scaling={YARN}"),
            *("model.activation=clamped-swiglu", "model.bias=true"),
        ),
    ),
    "llama3.2": (
        "tiny-llama",
        ("model.tied_embeddings=true", "model.rope_scaling={kind: llama3, factor: 32, original_positions: 8192}"),
    ),
}


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Curve]:
    """The one-process run of a family, made once."""
    made: dict[str, Curve] = {}

    def run(family: str) -> Curve:
        if family not in made:
            recipe, overrides = FAMILIES[family]
            made[family] = curve(tmp_path_factory.mktemp(family), spec_for(recipe, 1, *overrides))
        return made[family]

    return run


LEARNS = ("deepseek", "gpt-oss")


@pytest.mark.parametrize("family", [*LEARNS, *some(sorted(FAMILIES.keys() - LEARNS), 0)])
def test_it_learns(alone: Callable[[str], Curve], family: str) -> None:
    losses, _ = alone(family)
    assert losses[-1] < losses[0] - 0.2


LAYOUTS: list[tuple[str, dict[str, Any]]] = [
    ("deepseek", {"pp": 2, "stages": "Ett|ttmL"}),
]
MORE_LAYOUTS: list[tuple[str, dict[str, Any]]] = [
    ("gpt-oss", {"ep": 2}),
    ("qwen3", {"tp": 2, "sequence_parallel": True}),
    ("mla", {"cp": 2}),
    ("deepseek", {"ep": 2}),
    ("llama4", {"ep": 2}),
    ("window", {"cp": 2}),
    ("yarn", {"cp": 2}),
    ("sinks", {"tp": 2, "sequence_parallel": True}),
    ("sinks", {"cp": 2}),
]


@pytest.mark.parametrize(("family", "layout"), [*LAYOUTS, *some(MORE_LAYOUTS, 0)])
def test_a_layout_changes_nothing(
    tmp_path: Path, alone: Callable[[str], Curve], family: str, layout: dict[str, Any]
) -> None:
    recipe, overrides = FAMILIES[family]
    losses, norms = curve(tmp_path, spec_for(recipe, 2, *overrides, **layout))
    assert losses == pytest.approx(alone(family)[0], rel=TOLERANCE[recipe])
    assert norms == pytest.approx(alone(family)[1], abs=2e-3)


@pytest.mark.thorough
def test_a_sink_takes_attention_away(alone: Callable[[str], Curve], tmp_path: Path) -> None:
    """A sink of zero is one more key with the score 0: already the first loss differs."""
    whole, _ = curve(tmp_path, spec_for("tiny-llama", 1))
    assert alone("sinks")[0][0] != pytest.approx(whole[0], rel=1e-5)


def test_a_window_changes_the_loss(alone: Callable[[str], Curve], tmp_path: Path) -> None:
    whole, _ = curve(tmp_path, spec_for("tiny-llama", 1))
    assert alone("window")[0] != pytest.approx(whole, rel=1e-4)


def test_attention_with_sinks_is_softmax_with_one_more_term() -> None:
    """Against the definition: exp(score) / (exp(sink) + sum of exp(scores)) of the keys before."""
    torch = pytest.importorskip("torch")
    from types import SimpleNamespace

    from benchrun.worker.layers import Attention

    config = SimpleNamespace(
        context_parallel_size=1, window_size=None, window_attn_skip_freq=None, softmax_type="learnable",
        num_attention_heads=4, tensor_model_parallel_size=1, params_dtype=torch.float64,
    )  # fmt: skip
    attention = Attention(config, 1, None, "self")
    torch.manual_seed(1)
    query, key, value = (torch.randn(6, 2, heads, 8, dtype=torch.float64) for heads in (4, 2, 2))
    with torch.no_grad():
        attention.softmax_offset.copy_(torch.tensor([-1.0, 0.0, 1.0, 3.0]))
    scores = torch.einsum("qbhw,kbhw->bhqk", query, key.repeat_interleave(2, 2)) / 8**0.5
    weights = scores.exp().tril()
    weights = weights / (weights.sum(-1, keepdim=True) + attention.softmax_offset.exp().view(1, -1, 1, 1))
    expected = torch.einsum("bhqk,kbhw->qbhw", weights, value.repeat_interleave(2, 2)).reshape(6, 2, -1)
    out = attention(query, key, value)
    torch.testing.assert_close(out, expected)
    out.sum().backward()
    assert attention.softmax_offset.grad.abs().min() > 0
