"""Every rule of the layout refuses what breaks it, with the numbers and a legal value."""

from __future__ import annotations

import pytest

from benchrun.errors import UserError
from benchrun.recipe.resolve import resolve
from benchrun.recipe.select import Request

LLAMA = ("llama3.1-8b", "H100", "bf16", 64)
MIXTRAL = ("mixtral-8x7b", "H100", "bf16", 64)


@pytest.mark.parametrize(
    ("point", "overrides", "says"),
    [
        (LLAMA, ["layout.tp=3"], ["num_attention_heads (32) must be a multiple of tp (3)", "2 or 4"]),
        (LLAMA, ["layout.tp=16"], ["num_query_groups (8) must be a multiple of tp (16)", "could be 8"]),
        (LLAMA, ["layout.pp=5"], ["num_layers (32) must be a multiple of pp * vp (5 * 1 = 5)", "30 or 35"]),
        (LLAMA, ["layout.pp=48"], ["number of GPUs (64) must be a multiple of tp * pp * cp (1 * 48 * 2 = 96)"]),
        (LLAMA, ["gbs=1000"], ["gbs (1000) must be a multiple of mbs * dp (1 * 32 = 32)", "992 or 1024"]),
        (LLAMA, ["seq_length=8190"], ["seq_length (8190) must be a multiple of 4", "8188 or 8192"]),
        (LLAMA, ["seq_length=16384"], ["at most max_position_embeddings (8192)"]),
        (LLAMA, ["layout.vp=2"], ["needs a pipeline"]),
        (LLAMA, ["layout.sequence_parallel=true"], ["tp is 1"]),
        (LLAMA, ["layout.ep=2"], ["this model is dense"]),
        (LLAMA, ["training.distributed_optimizer=false"], ["overlap_param_gather needs distributed_optimizer"]),
        (LLAMA, ["training.recompute.granularity=full"], ["needs recompute.method"]),
        (LLAMA, ["training.recompute.num_layers=2"], ["belong to granularity full"]),
        (LLAMA, ["cluster.gpus_per_node=6"], ["must fill nodes of 6", "60 or 66"]),
        (MIXTRAL, ["layout.ep=3"], ["num_experts (8) must be a multiple of ep (3)", "2 or 4"]),
        (MIXTRAL, ["layout.tp=2"], ["need sequence_parallel"]),
        (MIXTRAL, ["layout.tp=2", "layout.sequence_parallel=true", "layout.ep=1"], ["etp must be 2"]),
        (MIXTRAL, ["model.moe.topk=9"], ["topk (9) must be at most num_experts (8)"]),
        (MIXTRAL, ["gbs=288"], ["micro-batches a step (18) must be a multiple of pp (4)", "256 or 320"]),
        (("mixtral-8x7b", "H100", "bf16", 64), ["layout.pp=16", "layout.vp=1"], ["ep * etp * pp", "ep could be 4"]),
    ],
)
def test_a_layout_that_cannot_work_is_refused(point, overrides, says):
    with pytest.raises(UserError) as error:
        resolve(Request(*point, overrides=tuple(overrides)))
    for text in says:
        assert text in str(error.value)
    assert error.value.where.split(":")[-1].isdigit()


class TestFp8:
    """FP8 only where it really is FP8."""

    def refused(self, recipe, gpu, *overrides):
        with pytest.raises(UserError) as error:
            resolve(Request(recipe, gpu, "fp8", 8, overrides=overrides))
        return str(error.value)

    def test_a_cpu_has_none(self, tmp_path):
        from benchrun import paths

        path = tmp_path / "mine.yaml"
        text = (paths.RECIPES / "tiny-llama.yaml").read_text()
        path.write_text(text.replace("precision: [fp32, bf16]", "precision: [fp8]").replace("[1, 2]", "[1, 2, 8]"))
        assert "CPU has none; use bf16" in self.refused(str(path), "CPU")

    def test_mxfp8_needs_blackwell(self):
        assert "needs Blackwell" in self.refused("llama3.1-8b", "H100", "training.fp8.recipe=mxfp8")

    def test_sizes_must_suit_the_units(self):
        assert "multiple of 16 in fp8" in self.refused("llama3.1-8b", "H100", "model.ffn_hidden_size=14340")
