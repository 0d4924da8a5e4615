"""Post-training by reinforcement learning: a step generates responses, scores them, and
trains the policy on them.
"""

from typing import Annotated, Any, Literal

from pydantic import Field, NonNegativeFloat, NonNegativeInt, PositiveFloat, model_validator

from benchrun.model import Frozen, ModelShape
from benchrun.model.layout import Layout, Size
from benchrun.vocabulary import rollout_settings

from .cluster import Line
from .spec import Inputs, RunSpec

Engine = Literal["vllm", "tensorrt-llm", "nemo", "transformers"]
Share = Annotated[float, Field(gt=0, lt=1)]
OF_THE_SITE = ("policy", "reward_model", "prompts")
"""Inputs that do not change what is measured: where weights and prompts lie."""


class Generation(Frozen):
    """Generation of the responses."""

    engine: Engine
    """vLLM, TensorRT-LLM, or the training framework's own generation (nemo,
    transformers).
    """
    num_gpus: Size | None = None
    """GPUs that only generate; null if policy and generation take turns on the same
    GPUs.
    """
    tp: Size = 1
    """Tensor parallel."""
    pp: Size = 1
    """Pipeline parallel."""
    micro_batch: Size | None = None
    """Prompts that a replica generates for at once; null if the engine decides."""
    memory_share: Share = 0.6
    """Part of a GPU's memory that the engine may take."""
    max_age_steps: NonNegativeInt = 0
    """0: on-policy, generation and training take turns. n: both run at once, and a
    response may have been made by weights n steps old.
    """


class Critic(Frozen):
    """The critic and the reward model of PPO, which share their GPUs."""

    num_gpus: Size
    """GPUs of their own."""
    tp: Size = 1
    """Tensor parallel."""
    pp: Size = 1
    """Pipeline parallel."""
    micro_batch: Size = 4
    """Responses that a data-parallel rank scores at once."""


class PostTrainingInputs(Inputs):
    """Inputs of a post-training that a user can set."""

    time_limit = "04:00:00"
    """The published steps take up to 7 minutes, and engines and weights of the largest
    models half an hour.
    """
    model: ModelShape
    """Dimensions of the policy."""
    policy: Line | None = None
    """The weights to start from, as the framework names them: a name at a model hub or
    a path that the ranks see; null for random weights.
    """
    reward_model: Line | None = None
    """Weights of the reward model, from which the critic starts too, named as those of
    the policy; null for random weights.
    """
    prompts: Line | None = None
    """The prompts: a data set's name, or a file that the ranks see; null for the
    framework's own task.
    """
    prompts_per_step: Size
    """Prompts of a step."""
    generations_per_prompt: Size = 1
    """Responses to each prompt; a group of GRPO."""
    gbs: Size
    """Responses of one update of the weights; a step makes as many updates as its
    responses need.
    """
    mbs: Size = 1
    """Responses that a data-parallel rank computes at once in the update."""
    max_sequence_length: Size
    """Most tokens of prompt and response together."""
    max_response_length: Size
    """Most tokens of a response."""
    steps: Size = 15
    """Steps to be made."""
    lr: PositiveFloat = 5e-7
    """Learning rate of the policy."""
    kl_penalty: NonNegativeFloat = 0.01
    """Weight of the distance from the first policy."""
    seed: NonNegativeInt = 1234
    """Seed of sampling."""
    layout: Layout = Layout()
    """How the policy is spread over its GPUs in the update."""
    generation: Generation
    """Generation of the responses."""
    critic: Critic | None = None
    """Critic and reward model; null if the algorithm has none."""
    options: dict[Line, Any] = Field(default_factory=dict)
    """Further values of the framework's configuration, as a tree or with dotted keys.
    """

    @property
    def rollouts(self) -> int:
        """Responses of a step."""
        return self.prompts_per_step * self.generations_per_prompt

    @model_validator(mode="after")
    def _batches(self) -> "PostTrainingInputs":
        if self.rollouts % self.gbs:
            made = f"{self.prompts_per_step} prompts x {self.generations_per_prompt} generations = {self.rollouts}"
            raise ValueError(f"a step's responses ({made}) must be a multiple of gbs ({self.gbs})")
        if self.max_response_length > self.max_sequence_length:
            longest = f"max_sequence_length ({self.max_sequence_length})"
            raise ValueError(
                f"max_response_length ({self.max_response_length}) must be at most {longest}"
            )
        return self


class PostTrainingSpec(PostTrainingInputs, RunSpec):
    """One post-training; its task is the algorithm."""

    inputs = PostTrainingInputs
    workload: Literal["post-training"] = "post-training"
    """Kind of work."""
    task: Literal["ppo", "grpo"]
    """The algorithm."""

    @property
    def planned_steps(self) -> int:
        """Steps of the algorithm; each may hold several updates."""
        return self.steps

    @property
    def policy_gpus(self) -> int:
        """GPUs that update the policy."""
        beside = (self.critic.num_gpus if self.critic else 0) + (self.generation.num_gpus or 0)
        return self.num_gpus - beside

    @property
    def generation_gpus(self) -> int:
        """GPUs that generate."""
        return self.generation.num_gpus or self.policy_gpus

    tp = property(lambda self: self.layout.tp)
    pp = property(lambda self: self.layout.pp)
    cp = property(lambda self: self.layout.cp)
    vp = property(lambda self: self.layout.vp)
    ep = property(lambda self: self.layout.ep)

    @property
    def dp(self) -> int:
        """Data-parallel ranks of the policy; 1 for a layout of too many ranks, which is
        refused.
        """
        return self.layout.dp(self.policy_gpus)

    @property
    def summary(self) -> tuple[str, ...]:
        """The head of the job script: the workload, and where its parts run."""
        made = self.generation
        layout = self.layout
        where = "on the policy's GPUs"
        if made.num_gpus:
            where = f"on {made.num_gpus} GPUs of its own"
        parts = [
            f"policy on {self.policy_gpus} GPUs: tp {layout.tp}, pp {layout.pp}, cp {layout.cp}, ep {layout.ep}",
            f"generation by {made.engine} {where}: tp {made.tp}, pp {made.pp}",
            *([f"critic on {self.critic.num_gpus} GPUs"] if self.critic else []),
        ]
        return super().summary[0], self.settings, "; ".join(parts)

    @property
    def settings(self) -> str:
        """The work of a step, without how it is spread: that may differ from a
        reference.
        """
        return rollout_settings(self.own())

    def form(self) -> dict[str, Any]:
        """Everything that changes the measurement."""
        own = {}
        for name, value in self.own().items():
            if name not in OF_THE_SITE:
                own[name] = value
        return {"workload": self.workload, **own}
