"""Base of the frameworks that serve a model: what they can run, and which loads give a
number.
"""

from collections.abc import Iterator

from benchrun import hardware
from benchrun.frameworks.base import LLAMA, Framework
from benchrun.runspec.inference import InferenceSpec
from benchrun.vocabulary import GIB

BYTES = {"fp32": 4.0, "bf16": 2.0, "fp8": 1.0, "nvfp4": 0.5625}
"""Bytes of a weight; NVFP4 has a scale of one byte for 16 values."""
MOST_WEIGHTS = 0.95
"""Share of a GPU's memory above which weights leave no room for keys and values."""


class Server(Framework):
    """One server on one node, and its benchmark client beside it."""

    workload = "inference"
    serves = True
    tasks = frozenset({"serve"})
    precisions = frozenset({"bf16", "fp8"})
    options_of_server: tuple[str, ...] = (
        "prefix_cache",
        "kv_cache",
        "max_num_batched_tokens",
        "stream_interval",
    )
    """Inputs of a server that it applies, besides those that every one does."""
    random_weights = True
    """Whether it serves a Llama of random weights if no checkpoint is stated."""
    goodput = True
    """Whether its client counts requests within the limits."""
    step_lines = ("Benchmark duration (s):",)

    def writes_weights(self, spec: InferenceSpec) -> bool:
        """Whether the job writes random weights."""
        return self.random_weights and spec.checkpoint is None

    def refusals(self, spec: InferenceSpec) -> Iterator[str]:
        """Rules of the layout, of the load and of the weights."""
        yield from self._layout(spec)
        yield from self._load(spec)
        yield from self._options(spec)
        yield from self._weights(spec)

    def _layout(self, spec: InferenceSpec) -> Iterator[str]:
        ranks = spec.tp * spec.pp * spec.dp
        model = spec.model
        if ranks != spec.num_gpus:
            yield f"tp * pp * dp ({spec.tp} * {spec.pp} * {spec.dp} = {ranks}) must be num_gpus ({spec.num_gpus})"
        if self.serves and spec.num_nodes > 1:
            most = spec.cluster.gpus_per_node
            yield f"benchrun starts {self.name} on one node: num_gpus ({spec.num_gpus}) must be at most {most}"
        if spec.ep not in (1, spec.tp * spec.dp):
            yield f"ep ({spec.ep}) must be 1 or tp * dp ({spec.tp * spec.dp})"
        if spec.ep > 1 and model.moe is None:
            yield "the model has no experts: ep must be 1"
        elif model.moe and model.moe.num_experts % spec.ep:
            yield f"num_experts ({model.moe.num_experts}) must be a multiple of ep ({spec.ep})"
        if model.num_attention_heads % spec.tp:
            yield f"num_attention_heads ({model.num_attention_heads}) must be a multiple of tp ({spec.tp})"
        if model.num_layers < spec.pp:
            yield f"pp ({spec.pp}) must be at most num_layers ({model.num_layers})"

    def _load(self, spec: InferenceSpec) -> Iterator[str]:
        if self.serves and spec.concurrency is None and spec.request_rate is None:
            yield "without concurrency and request_rate all requests wait in a queue at once: state one of them"
        if spec.concurrency is not None and spec.num_prompts < 2 * spec.concurrency:
            least = 2 * spec.concurrency
            reason = "with fewer the server never works in a steady state"
            yield f"num_prompts ({spec.num_prompts}) must be at least twice concurrency, {least}: {reason}"
        if spec.shortest * spec.output_tokens < 1 or spec.shortest * spec.input_tokens < 1:
            yield f"shortest ({spec.shortest:g}) times the tokens must be at least 1"
        if spec.goodput and not self.goodput:
            yield f"the client of {self.name} counts no goodput: slo_ttft_ms, slo_tpot_ms and slo_e2el_ms must be null"

    def _options(self, spec: InferenceSpec) -> Iterator[str]:
        for name in (
            "prefix_cache",
            "kv_cache",
            "max_num_batched_tokens",
            "stream_interval",
            "memory_fraction",
        ):
            default = type(spec).model_fields[name].default
            if (
                name not in (*self.options_of_server, "memory_fraction")
                and getattr(spec, name) != default
            ):
                yield f"benchrun does not support {name} with {self.name}: it must be {str(default).lower()}"

    def _weights(self, spec: InferenceSpec) -> Iterator[str]:
        if spec.checkpoint is None:
            yield from self._without_checkpoint(spec)
        gpu = hardware.site_gpu(spec.cluster)
        if gpu is None:
            return
        replica = spec.tp * spec.pp * (spec.dp if spec.ep > 1 else 1)
        weights_gib = spec.model.params_total * BYTES[spec.precision] / replica / GIB
        if weights_gib > MOST_WEIGHTS * gpu.memory_gib:
            what = f"the weights in {spec.precision} need {weights_gib:.0f} GiB of each GPU"
            yield f"{what}, and {gpu.name} has {gpu.memory_gib:.0f} GiB, also for the cache: more tp, pp, or ep"

    def _without_checkpoint(self, spec: InferenceSpec) -> Iterator[str]:
        """Random weights are those of a Llama, in a precision that PyTorch computes in."""
        model = spec.model
        llama = (
            model.moe is None
            and model.mla is None
            and all(getattr(model, key) == LLAMA[key] for key in LLAMA)
        )
        if not self.random_weights or not llama or spec.precision not in ("fp32", "bf16"):
            why = ""
            if self.random_weights:
                why = "random weights are those of a Llama in fp32 or bf16; otherwise "
            yield f"{why}{self.name} needs a checkpoint: --set checkpoint=FOLDER, or its name on Hugging Face"
        longest = spec.input_tokens + spec.output_tokens
        most = model.max_position_embeddings
        if longest > most:
            yield f"input_tokens + output_tokens ({longest}) must be at most max_position_embeddings ({most})"
