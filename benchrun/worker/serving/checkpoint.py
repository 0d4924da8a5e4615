"""Writes a Llama with random weights and a tokenizer of one word per token: what a
server loads, without a network.

Of a DeepSeek-V3 it writes the configuration alone: the server makes the weights.

``python -m benchrun.worker.serving.checkpoint --spec spec.json --output FOLDER``. There
is no end of a sequence, so that an answer always has as many tokens as were asked for.
"""

import sys
from pathlib import Path

from benchrun.runspec.inference import InferenceSpec
from benchrun.worker import entry

from .deepseek import deepseek_config

UNKNOWN = "t" + 11 * "0"
"""Word that is longer than any other word with a blank: vLLM refuses a prompt with more
characters than its tokens may have, each as many as the longest, and it does not count
blanks among those.
"""


def word(token: int) -> str:
    """The text of a token."""
    if not token:
        return UNKNOWN
    return f"t{token}"


def write_tokenizer(folder: Path, vocab_size: int) -> None:
    """A tokenizer that splits at blanks: a prompt of n words has n tokens."""
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    tokenizer = Tokenizer(
        models.WordLevel({word(token): token for token in range(vocab_size)}, unk_token=UNKNOWN)
    )
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, unk_token=UNKNOWN).save_pretrained(folder)


def write_weights(folder: Path, spec: InferenceSpec) -> None:
    """The model in the precision of the run, on the device of the run: weights of a
    large one take long on a CPU."""
    import torch
    from transformers import LlamaForCausalLM

    from benchrun.worker.device import weight_type
    from benchrun.worker.hf.model import llama_config

    config = llama_config(spec.model)
    config.use_cache, config.bos_token_id, config.eos_token_id = True, None, None
    torch.manual_seed(spec.seed)
    before = torch.get_default_dtype()
    torch.set_default_dtype(weight_type(spec.precision))
    try:
        with torch.device("cpu" if spec.gpu == "CPU" else "cuda"):
            model = LlamaForCausalLM(config)
    finally:
        torch.set_default_dtype(before)
    model.generation_config.eos_token_id = None
    model.save_pretrained(folder)


def main() -> None:
    """Write weights and tokenizer."""
    arguments = entry.arguments(__doc__, output=Path)
    spec = InferenceSpec.read(arguments.spec)
    if spec.model.mla is None:
        write_weights(arguments.output, spec)
        wrote = "wrote"
    else:
        deepseek_config(spec).save_pretrained(arguments.output)
        wrote = "described"
    write_tokenizer(arguments.output, spec.model.vocab_size)
    sys.stdout.write(f"benchrun: {wrote} {spec.model.params_total / 1e6:,.1f} M random weights\n")


if __name__ == "__main__":
    main()
