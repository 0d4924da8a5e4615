"""Base of the frameworks of post-training: the rules of a layout, and configurations as
dotted keys.
"""

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from benchrun.frameworks.base import Framework
from benchrun.runspec.post_training import Engine, PostTrainingSpec

Values = Mapping[str, Any]
"""Dotted key of a configuration -> value."""


class PostTrainer(Framework):
    """A framework that generates responses and updates a policy with them."""

    workload = "post-training"
    engines: ClassVar[frozenset[Engine]]
    """Engines that generate the responses."""
    asynchronous: ClassVar[bool] = False
    """Whether generation can have GPUs of its own and run beside the update."""
    groups: ClassVar[bool] = True
    """Whether a prompt can have several responses."""
    needs: ClassVar[tuple[str, ...]] = ()
    """Inputs that must be stated: weights and prompts."""

    def refusals(self, spec: PostTrainingSpec) -> Iterator[str]:
        """Limits of the framework, and sizes that do not fit each other."""
        name = self.name
        made = spec.generation
        if made.engine not in self.engines:
            legal = " or ".join(sorted(self.engines))
            yield f"benchrun supports {name} with generation by {legal}: generation.engine must not be {made.engine}"
        if not self.asynchronous and (made.num_gpus or made.max_age_steps):
            yield f"{name} generates on the policy's GPUs: generation.num_gpus must be null and max_age_steps 0"
        if made.max_age_steps and not made.num_gpus:
            yield "generation beside the update needs GPUs of its own: state generation.num_gpus, or max_age_steps 0"
        if not self.groups and spec.generations_per_prompt > 1:
            yield f"{name} makes one response to a prompt: generations_per_prompt must be 1"
        if (spec.task == "ppo") != (spec.critic is not None):
            yield f"ppo has a critic and grpo has none: critic must {'be stated' if spec.task == 'ppo' else 'be null'}"
        for missing in (each for each in self.needs if getattr(spec, each) is None):
            yield f"{name} needs {missing}: a name or path that the ranks can read"
        yield from _layout(spec)


def _layout(spec: PostTrainingSpec) -> Iterator[str]:
    layout = spec.layout
    per_node = spec.cluster.gpus_per_node
    if spec.policy_gpus < 1:
        yield f"no GPU of {spec.num_gpus} is left for the policy: fewer for generation and critic"
        return
    replica = layout.gpus_per_replica
    if spec.policy_gpus % replica:
        yield f"the policy's GPUs ({spec.policy_gpus}) must be a multiple of tp * pp * cp ({replica})"
    elif spec.gbs % (spec.dp * spec.mbs):
        yield f"gbs ({spec.gbs}) must be a multiple of dp * mbs ({spec.dp} * {spec.mbs})"
    made = spec.generation
    critic = spec.critic
    if spec.generation_gpus % (made.tp * made.pp):
        ranks = made.tp * made.pp
        yield f"the GPUs that generate ({spec.generation_gpus}) must be a multiple of their tp * pp ({ranks})"
    if critic and critic.num_gpus % (critic.tp * critic.pp):
        yield f"critic.num_gpus ({critic.num_gpus}) must be a multiple of its tp * pp ({critic.tp * critic.pp})"
    for what, size in (
        ("critic.num_gpus", critic and critic.num_gpus),
        ("generation.num_gpus", made.num_gpus),
    ):
        if size and spec.num_nodes > 1 and size % per_node:
            yield f"{what} ({size}) must be a multiple of the GPUs of a node ({per_node})"


def nested(values: Values) -> dict[str, Any]:
    """``{"a.b": 1}`` as ``{"a": {"b": 1}}``."""
    tree: dict[str, Any] = {}
    for key, value in values.items():
        *parents, last = key.split(".")
        branch = tree
        for parent in parents:
            branch = branch.setdefault(parent, {})
        branch[last] = value
    return tree


def block_lines(tree: Mapping[str, Any], depth: int = 0) -> Iterator[tuple[str, bool, Any]]:
    """The lines of a YAML document: indented key, whether a value follows, the value."""
    for key, value in tree.items():
        branch = isinstance(value, Mapping) and bool(value)
        yield f"{'  ' * depth}{key}:", not branch, value
        if branch:
            yield from block_lines(value, depth + 1)
