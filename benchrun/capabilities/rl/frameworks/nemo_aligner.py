"""nemo-aligner: PPO of NeMo-Aligner, in NeMo's containers of 2024: the policy on some
nodes, critic and reward model on the others, which it calls over HTTP.

Source: NVIDIA/NeMo-Aligner af2b3bd96a (0.7), docs/user-guide/rlhf.rst,
examples/nlp/gpt/conf.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from benchrun.frameworks.base import SLURM_VARIABLES
from benchrun.model import Activation
from benchrun.runspec.post_training import Critic, PostTrainingSpec
from benchrun.vocabulary import by_path

from .base import PostTrainer, Values

PORT = 5567
"""Port of the critic."""
NEVER = 0
"""Interval that means no validation and no checkpoint; any interval above 0 has both
after the last step.
"""
MODEL_TYPES: Mapping[Activation, str] = {
    "swiglu": "llama", "squared-relu": "gptnext", "gelu": "gptnext", "geglu": "gemma",
}  # fmt: skip
"""Activation of a model -> what TensorRT-LLM calls such models."""


class NemoAligner(PostTrainer):
    """PPO with a critic on nodes of its own."""

    name = "nemo-aligner"
    tasks = frozenset({"ppo"})
    precisions = frozenset({"bf16"})
    engines = frozenset({"tensorrt-llm", "nemo"})
    groups = False
    needs = ("policy", "reward_model", "prompts")
    needs_slurm = True
    own_steps = "ranks"
    stderr_steps = True
    scripts = "/opt/NeMo-Aligner"
    releases = ("24.05", "24.12")
    step_lines = ("timers/rollout_time", "PPO Global Step: ")
    rank_variables = SLURM_VARIABLES

    def refusals(self, spec: PostTrainingSpec) -> Iterator[str]:
        """Apply the shared rules and those of NeMo-Aligner: models of its time, plain
        layouts, and batches that the critic can serve.
        """
        yield from super().refusals(spec)
        if (activation := spec.model.activation) not in MODEL_TYPES:
            yield f"nemo-aligner has no models with {activation}: activation could be {', '.join(MODEL_TYPES)}"
        for degree in ("cp", "vp", "ep", "etp"):
            if (size := getattr(spec.layout, degree)) > 1:
                yield f"benchrun supports nemo-aligner without {degree}: {degree} ({size}) must be 1"
        critic = spec.critic
        batch = spec.generation.micro_batch
        if batch is None:
            yield "nemo-aligner needs generation.micro_batch: prompts that a replica generates for at once"
        elif (
            critic
            and critic.micro_batch * (ranks := critic.num_gpus // (critic.tp * critic.pp)) > batch
        ):
            yield f"critic.micro_batch ({critic.micro_batch}) * its dp ({ranks}) must be at most {batch}, generation's"
        if spec.generation.engine == "tensorrt-llm" and spec.cluster.mpi is None:
            yield "TensorRT-LLM starts over MPI: cluster.mpi must be set (pmix), or generation.engine be nemo"
        tp = spec.layout.tp
        pp = spec.layout.pp
        if (spec.generation.tp, spec.generation.pp) not in ((tp, pp), (tp, 1)):
            yield f"nemo-aligner generates with the policy's tp ({tp}), and with its pp ({pp}) or without (reshard)"
        if (spec.generation.tp, spec.generation.pp) != (
            tp,
            pp,
        ) and spec.generation.engine == "nemo":
            yield f"only TensorRT-LLM generates without pipeline stages: generation.pp must be {pp}"

    def configuration(self, spec: PostTrainingSpec) -> dict[str, Any]:
        """Hydra's overrides of both programs; the critic's address is known in the job."""
        critic = spec.critic
        assert critic is not None  # `refusals` names it
        nodes = -(-critic.num_gpus // spec.cluster.gpus_per_node)
        return {
            "policy_words": _words(
                {**self.policy(spec, spec.num_nodes - nodes), **dict(by_path(spec.options))}
            ),
            "critic_words": _words(self.critic(spec, critic, nodes)),
            "critic_nodes": nodes,
            "policy_nodes": spec.num_nodes - nodes,
            "critic_port": PORT,
        }

    def policy(self, spec: PostTrainingSpec, nodes: int) -> Values:
        """The overrides of train_gpt_ppo_actor.py."""
        made = spec.generation
        layout = spec.layout
        fast = spec.generation.engine == "tensorrt-llm"
        prompts = f"[{spec.prompts}]"
        return {
            **_common(spec, "policy", nodes, layout.tp, layout.pp),
            "pretrained_checkpoint.restore_from_path": spec.policy,
            "trainer.ppo.max_steps": spec.steps,
            "trainer.ppo.max_epochs": 1,
            "trainer.ppo.val_check_interval": NEVER,
            "trainer.ppo.save_interval": NEVER,
            "trainer.ppo.initial_policy_kl_penalty": spec.kl_penalty,
            "trainer.ppo.trt_llm.enable": fast,
            "trainer.ppo.trt_llm.reshard": fast and made.pp < layout.pp,
            "trainer.ppo.trt_llm.unload_engine_train": False,
            "trainer.ppo.trt_llm.model_type": MODEL_TYPES[spec.model.activation],
            "trainer.ppo.batch_iterator.use_flask": fast,
            "exp_manager.create_dllogger_logger": True,
            "exp_manager.dllogger_logger_kwargs.verbose": True,
            "exp_manager.dllogger_logger_kwargs.stdout": False,
            "exp_manager.dllogger_logger_kwargs.json_file": "/dev/stdout",
            "model.ppo.num_rollout_samples": spec.prompts_per_step,
            "model.ppo.rollout_micro_batch_size": made.micro_batch,
            "model.ppo.length_params.max_length": spec.max_response_length,
            "model.ppo.offload_adam_states": True,
            "model.optim.lr": spec.lr,
            "model.optim.sched.min_lr": spec.lr / 10,
            "model.data.data_impl": "jsonl",
            "model.data.data_prefix": f"{{train: {prompts}, validation: {prompts}, test: {prompts}}}",
            "remote_critic_rm.pad_to_length": spec.max_sequence_length,
            "remote_critic_rm.critic.port": PORT,
        }

    def critic(self, spec: PostTrainingSpec, critic: Critic, nodes: int) -> Values:
        """The overrides of serve_ppo_critic.py."""
        return {
            **_common(spec, "critic", nodes, critic.tp, critic.pp),
            "pretrained_checkpoint.restore_from_path": spec.reward_model,
            "trainer.ppo.port": PORT,
            "trainer.ppo.combine_rm_and_critic_server": True,
            "trainer.ppo.inference_micro_batch_size": critic.micro_batch,
            "model.offload_adam_states": True,
        }


def _common(spec: PostTrainingSpec, part: str, nodes: int, tp: int, pp: int) -> Values:
    return {
        "trainer.num_nodes": nodes,
        "trainer.devices": spec.ranks_per_node,
        "trainer.precision": "bf16",
        "exp_manager.explicit_log_dir": f"nemo-aligner-log/{part}",
        "exp_manager.create_wandb_logger": False,
        "exp_manager.create_tensorboard_logger": False,
        "exp_manager.resume_if_exists": False,
        "exp_manager.checkpoint_callback_params.save_nemo_on_train_end": False,
        "model.micro_batch_size": spec.mbs,
        "model.global_batch_size": spec.gbs,
        "model.tensor_model_parallel_size": tp,
        "model.pipeline_model_parallel_size": pp,
        "model.sequence_parallel": spec.layout.sequence_parallel and tp > 1,
        "model.encoder_seq_length": spec.max_sequence_length,
        "model.seed": spec.seed,
        "model.mcore_gpt": True,
        "model.megatron_amp_O2": True,
    }


def _words(values: Mapping[str, Any]) -> list[str]:
    """Hydra's words: ``++`` sets a key whether or not the program's own file has it."""
    plain = {True: "True", False: "False", None: "null"}
    texts = (
        (key, plain[value] if value is None or isinstance(value, bool) else value)
        for key, value in values.items()
    )
    return [f"++{key}={value}" for key, value in texts]
