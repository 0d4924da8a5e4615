"""nemo-rl: GRPO of NeMo-RL 0.6, Megatron's training and vLLM's generation under Ray.

A task on each node starts Ray there; the first node runs the driver once all GPUs are
known. The configuration is that of examples/configs/grpo_math_1B.yaml with every value
stated that changes the measurement. Source: NVIDIA-NeMo/RL v0.6.0 (examples/configs,
ray.sub).
"""

from collections.abc import Iterator
from typing import Any

from benchrun.frameworks.base import ImageFamily
from benchrun.runspec.post_training import PostTrainingSpec
from benchrun.vocabulary import by_path

from .base import PostTrainer, Values, block_lines, nested

BASE = "examples/configs/grpo_math_1B.yaml"
"""The release's own configuration, whose other values stay."""
TASK = "OpenMathInstruct-2"
"""The data set of the published numbers."""
NEVER = 0


class NemoRL(PostTrainer):
    """Synchronous and asynchronous GRPO on whole nodes."""

    name = "nemo-rl"
    tasks = frozenset({"grpo"})
    precisions = frozenset({"bf16", "fp8"})
    engines = frozenset({"vllm"})
    asynchronous = True
    needs = ("policy",)
    needs_slurm = True
    own_steps = "nodes"
    scripts = "/opt/nemo-rl"
    images = ImageFamily("NeMo-RL", r"nemo-rl")
    files = ("nemo_rl.yaml", "ray.sh")
    step_lines = ("Total step time: ",)
    rank_variables = ("SLURM_JOB_ID", "SLURM_NODEID", "SLURM_NNODES")

    def refusals(self, spec: PostTrainingSpec) -> Iterator[str]:
        """Apply the shared rules and those of NeMo-RL: whole nodes, and no virtual
        stages.
        """
        yield from super().refusals(spec)
        if spec.layout.vp > 1 or spec.layout.etp > 1:
            yield f"nemo-rl has no virtual stages here: vp ({spec.layout.vp}) and etp ({spec.layout.etp}) must be 1"
        if spec.num_nodes > 1 and spec.num_gpus % spec.cluster.gpus_per_node:
            yield f"Ray gives nemo-rl whole nodes: num_gpus ({spec.num_gpus}) must be a multiple of gpus_per_node"

    def configuration(self, spec: PostTrainingSpec) -> dict[str, Any]:
        """The lines of its YAML, and the base that they change."""
        return {"base": BASE, "lines": list(block_lines(nested(self.values(spec))))}

    def values(self, spec: PostTrainingSpec) -> Values:
        """Its configuration as dotted keys."""
        own = {**_algorithm(spec), **_policy(spec), **_generation(spec), **_rest(spec)}
        return {**own, **dict(by_path(spec.options))}


def _algorithm(spec: PostTrainingSpec) -> Values:
    age = spec.generation.max_age_steps
    return {
        "grpo.num_prompts_per_step": spec.prompts_per_step,
        "grpo.num_generations_per_prompt": spec.generations_per_prompt,
        "grpo.max_num_steps": spec.steps,
        "grpo.seed": spec.seed,
        "grpo.val_period": NEVER,
        "grpo.val_at_start": False,
        "grpo.val_at_end": False,
        "grpo.async_grpo.enabled": age > 0,
        "grpo.async_grpo.max_trajectory_age_steps": max(age, 1),
        "grpo.async_grpo.in_flight_weight_updates": age > 0,
        "loss_fn.reference_policy_kl_penalty": spec.kl_penalty,
        "loss_fn.use_importance_sampling_correction": True,
        "checkpointing.enabled": False,
    }


def _policy(spec: PostTrainingSpec) -> Values:
    layout = spec.layout
    return {
        "policy.model_name": spec.policy,
        "policy.tokenizer.name": spec.policy,
        "policy.train_global_batch_size": spec.gbs,
        "policy.train_micro_batch_size": spec.mbs,
        "policy.max_total_sequence_length": spec.max_sequence_length,
        "policy.precision": "bfloat16",
        "policy.make_sequence_length_divisible_by": layout.tp
        * (2 * layout.cp if layout.cp > 1 else 1),
        "policy.dtensor_cfg.enabled": False,
        "policy.megatron_cfg.enabled": True,
        "policy.megatron_cfg.tensor_model_parallel_size": layout.tp,
        "policy.megatron_cfg.pipeline_model_parallel_size": layout.pp,
        "policy.megatron_cfg.context_parallel_size": layout.cp,
        "policy.megatron_cfg.expert_model_parallel_size": layout.ep,
        "policy.megatron_cfg.sequence_parallel": layout.sequence_parallel,
        "policy.megatron_cfg.optimizer.lr": spec.lr,
        "policy.megatron_cfg.optimizer.min_lr": spec.lr / 10,
        "policy.megatron_cfg.fp8_cfg.enabled": spec.precision == "fp8",
    }


def _generation(spec: PostTrainingSpec) -> Values:
    made = spec.generation
    per_node = spec.cluster.gpus_per_node
    return {
        "policy.generation.backend": "vllm",
        "policy.generation.max_new_tokens": spec.max_response_length,
        "policy.generation.vllm_cfg.precision": "fp8" if spec.precision == "fp8" else "bfloat16",
        "policy.generation.vllm_cfg.tensor_parallel_size": made.tp,
        "policy.generation.vllm_cfg.pipeline_parallel_size": made.pp,
        "policy.generation.vllm_cfg.gpu_memory_utilization": made.memory_share,
        "policy.generation.vllm_cfg.max_model_len": spec.max_sequence_length,
        "policy.generation.vllm_cfg.async_engine": made.max_age_steps > 0 or made.tp > per_node,
        "policy.generation.colocated.enabled": made.num_gpus is None,
        "policy.generation.colocated.resources.num_nodes": made.num_gpus
        and -(-made.num_gpus // per_node),
        "policy.generation.colocated.resources.gpus_per_node": made.num_gpus
        and min(made.num_gpus, per_node),
    }


def _rest(spec: PostTrainingSpec) -> Values:
    return {
        "data.max_input_seq_length": spec.max_sequence_length,
        "data.train.dataset_name": spec.prompts or TASK,
        "logger.wandb_enabled": False,
        "logger.tensorboard_enabled": False,
        "logger.monitor_gpus": False,
        "cluster.gpus_per_node": spec.ranks_per_node,
        "cluster.num_nodes": spec.num_nodes,
    }
