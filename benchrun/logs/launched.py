"""The line in which a job states what it launched: facts if the framework's own log has
none.
"""

from benchrun.runspec.launched import LAUNCHED, Launched
from benchrun.vocabulary import DEGREES

from .records import Facts

NEEDLE = LAUNCHED.encode()


def facts(stated: Launched) -> Facts:
    """The facts in ``stated``, except its model."""
    return Facts(
        seq_length=stated.seq_length,
        gbs=stated.gbs,
        mbs=stated.mbs,
        num_gpus=stated.num_gpus,
        **{name: getattr(stated.layout, name) for name in DEGREES},
        planned_steps=stated.steps,
        precision=stated.precision,
        task=stated.task,
        device="cpu" if stated.gpu == "CPU" else stated.gpu,
    )


def dimensions(stated: Launched) -> Facts:
    """The facts about its model."""
    model, experts = stated.model, stated.model.moe
    names = (
        "num_layers",
        "hidden_size",
        "ffn_hidden_size",
        "num_attention_heads",
        "num_query_groups",
        "kv_channels",
    )
    facts = Facts(
        **{name: getattr(model, name) for name in names},
        vocab_size=model.vocab_size,
        gated=model.gated,
    )
    if experts:
        facts.num_experts, facts.topk = experts.num_experts, experts.topk
        facts.moe_ffn_hidden_size = experts.ffn_hidden_size
    return facts
