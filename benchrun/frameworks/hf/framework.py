"""hf: the fine-tune of this repository (benchrun/worker/hf) with transformers, peft and
FSDP.

It builds a Llama of transformers and shards it with FSDP over all ranks. Mistral is the
same model there except for a sliding window, which is longer than the sequences of the
recipes.
"""

from collections.abc import Iterator

from benchrun.frameworks.base import LLAMA, PROFILERS, SHARDING, Framework, MemoryFacts
from benchrun.model.adapters import LLAMA_LINEARS
from benchrun.runspec.spec import DataFormat, TrainingSpec
from benchrun.vocabulary import Task


class HuggingFace(Framework):
    """FSDP is its only parallelism, and dense models with the layers of a Llama are its
    only ones.
    """

    name = "hf"
    precisions = frozenset({"fp32", "bf16"})
    needs_gpu = False
    degrees = ()
    experts = False
    model_values = LLAMA
    conversations = "chat"
    fixed = dict.fromkeys(SHARDING, "leaves it to FSDP")
    options = ("offload_activations",)
    own_worker = True
    profilers = PROFILERS
    memory = MemoryFacts(fully_sharded=True)
    program = "-m benchrun.worker.huggingface --spec spec.json"
    step_lines = ("'loss':",)

    def data_format(self, task: Task) -> DataFormat:
        """Conversations, whatever the task: it is made for fine-tunes."""
        return "chat"

    def refusals(self, spec: TrainingSpec) -> Iterator[str]:
        """Limits of FSDP, of recompute, and of the layers that adapters can be beside."""
        model, layout, recompute = spec.model, spec.layout, spec.training.recompute
        if layout.fsdp not in (1, spec.num_gpus):
            yield f"hf shards over all ranks: fsdp ({layout.fsdp}) must be {spec.num_gpus}, or 1, which means the same"
        if recompute.granularity == "selective":
            yield "hf recomputes whole layers: recompute.granularity must be none or full, not selective"
        if recompute.method == "uniform" and recompute.num_layers != 1:
            yield f"hf recomputes layer by layer: recompute.num_layers ({recompute.num_layers}) must be 1 with uniform"
        if unknown := [
            name for name in spec.training.lora.target_modules if name not in LLAMA_LINEARS
        ]:
            legal = f"lora.target_modules could be {', '.join(LLAMA_LINEARS)}"
            yield f"no layer of a Llama is called {', '.join(unknown)}; {legal}"
        if model.hidden_size % model.num_attention_heads:
            what = f"hidden_size ({model.hidden_size}) to be a multiple of num_attention_heads"
            yield f"transformers needs {what} ({model.num_attention_heads})"
