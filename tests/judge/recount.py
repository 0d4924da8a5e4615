"""A published row, recounted: the tokens/s/GPU that each of its numbers means, with the room its rounding leaves."""

from decimal import Decimal
from itertools import combinations
from typing import Any

from benchrun import paths
from benchrun.judge.references import Reference
from benchrun.model.flops import PASSES, attention_scores, flops_per_token
from benchrun.model.shape import ModelShape
from benchrun.recipes.yamlfile import load
from tests.measure.shapes import MODELS, shape

DIVISION = 0.0005
"""What a printed quotient may be off besides its last digit: sources divide numbers that they rounded before."""
COUNT = 0.002
"""The same for FLOPs, which sources count to three digits."""
ROUNDED = 0.02
"""Half the widest step to which rows flagged ``rounded`` were rounded."""

OF_TODAY = (
    *("deepseek-v3", "gpt-oss-120b", "gpt-oss-20b", "kimi-k2", "llama4-maverick", "mixtral-8x3b", "nemotron-3-nano"),
    *("nemotron-3-super", "nemotron-h-56b", "nemotron3-22b", "nemotron3-8b", "qwen2.5-32b", "qwen2.5-72b"),
    *("nemotron-3-ultra", "nemotron-3.5-lightning", "qwen2.5-7b", "qwen3-235b-a22b", "qwen3-30b-a3b"),
)
SHAPES = {
    **MODELS,
    "llama3-8b": MODELS["llama3.1-8b"],
    "llama3-70b": MODELS["llama3.1-70b"],
    "gpt3-5b": shape(24, 4096, 16384, 32, 32, 51200, "gelu"),
    "gpt-20b": shape(44, 6144, 24576, 48, 48, 51200, "gelu"),
    "mixtral-8x22b": shape(56, 6144, 16384, 48, 8, 32000, experts=8),
    "mistral-7b": shape(32, 4096, 14336, 32, 8, 32000),
    # NVIDIA published its stand-in, which has the tokenizer of Llama 3.
    "grok1-314b": MODELS["grok1-proxy"],
    # Held to published parameters and FLOPs in tests/model/test_published_models.py.
    **{name: ModelShape.model_validate(dict(load(paths.MODELS / f"{name}.yaml"))) for name in OF_TODAY},
}


def model_of(entry: Reference) -> ModelShape:
    """The published model, with the layers that ran; None for the tiny ones, which publish a loss."""
    stem = entry.key.recipe.removesuffix("-hf").removesuffix("-sft").removesuffix("-lora")
    if stem not in SHAPES:
        return None
    layers = entry.key.num_layers or SHAPES[stem].num_layers
    return SHAPES[stem].model_copy(update={"num_layers": layers})


def half_digit(cell: Any) -> Any:
    """Half of the last printed digit, relative: 2.10 -> 0.0024."""
    number = Decimal(cell)
    return float(Decimal("0.5").scaleb(number.as_tuple().exponent) / number)


def flops(entry: Any) -> Any:
    """Least and most FLOPs a token that the entry's convention allows."""
    model, seq_length = model_of(entry), entry.key.seq_length
    scores = PASSES * attention_scores(model, seq_length)
    pretrain, lora = (flops_per_token(model, seq_length, task=task) for task in ("pretrain", "lora"))
    return {
        "full": (pretrain.full, pretrain.full),
        "causal": (pretrain.causal, pretrain.causal),
        "causal_two_thirds": (pretrain.causal * 2 / 3, pretrain.causal * 2 / 3),
        # Packed documents score only themselves, and nobody says how long they were.
        "packed": (pretrain.full - scores, pretrain.full),
        "lora_packed": (lora.full - scores, lora.full),
        "own": (1e9 * (entry.gflop_per_token or 0), 1e9 * (entry.gflop_per_token or 0)),
    }[entry.convention]


def rates(entry: Reference, cells: dict[str, str]) -> dict[str, Any]:
    """Metric -> lowest and highest tokens/s/GPU that its printed number means; without what it takes, none."""
    key, found = entry.key, {}
    printed = {metric: cells.get(metric) for metric in type(entry.printed).model_fields}
    printed[entry.metric] = cells["value"]
    for metric, cell in printed.items():
        if not cell or not (key.seq_length and key.num_gpus):
            continue
        value, room = float(cell), half_digit(cell)
        if metric == "step_time_s" and key.gbs:
            found[metric] = _around(key.gbs * key.seq_length / value / key.num_gpus, room + DIVISION)
        elif metric == "samples_per_s":
            found[metric] = _around(value * key.seq_length / key.num_gpus, room + DIVISION)
        elif metric == "tokens_per_s":
            found[metric] = _around(value / key.num_gpus, room + DIVISION)
        elif metric == "tokens_per_s_per_gpu":
            found[metric] = _around(value, room + (ROUNDED if "rounded" in entry.flags else DIVISION))
        elif metric in ("tflops_per_gpu", "mfu_percent") and entry.convention:
            speed = 1e12 * value * (entry.peak_tflops / 100 if metric == "mfu_percent" else 1)
            least, most = flops(entry)
            found[metric] = (speed / most * (1 - room - COUNT), speed / least * (1 + room + COUNT))
    return found


def _around(rate: Any, room: Any) -> Any:
    return rate * (1 - room), rate * (1 + room)


def fit(found: dict[str, Any]) -> bool:
    """Whether all these numbers can be of one run."""
    return all(a[0] <= b[1] and b[0] <= a[1] for a, b in combinations(found.values(), 2))
