"""The start and end of one rank. Exit code 0: all steps; 2: wrong input; 1: failure."""

import argparse
import importlib
import os
import sys
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

from benchrun.errors import BenchrunError, UserError
from benchrun.runspec.spec import RunSpec, TrainingSpec


def run(loop: str, install: str, lora: str | None = None) -> NoReturn:
    """Train as one rank, by ``train`` of the module ``loop``, and end the process.

    ``lora``: a package that LoRA needs besides; ``install``: the hint if a package is
    missing.
    """
    path = arguments("Train as one rank.").spec
    end_after(lambda: _train(path, loop, install, lora))


def arguments(description: str | None, **others: type) -> argparse.Namespace:
    """The command line of a program of a job: ``--spec`` and the ``others``, all
    needed."""
    parser = argparse.ArgumentParser(description=description)
    for name, kind in {"spec": Path, **others}.items():
        parser.add_argument(f"--{name}", type=kind, required=True)
    return parser.parse_args()


def end_after(work: Callable[[], None]) -> NoReturn:
    """Do ``work`` and end the process with its exit code; an error goes to stderr."""
    code = 0
    try:
        work()
    except BenchrunError as error:
        print(f"error: {error}", file=sys.stderr, flush=True)  # noqa: T201
        code = error.exit_code
    except BaseException:  # a library's sys.exit(0) too: not all steps are done
        rank = os.environ.get("RANK", "0")
        trace = traceback.format_exc()
        print(f"rank {rank} failed:\n{trace}", file=sys.stderr, flush=True)  # noqa: T201
        code = 1
    sys.stdout.flush()
    # Not sys.exit, which would wait for ranks that wait for this one.
    os._exit(code)


def _train(path: Path, loop: str, install: str, lora: str | None) -> None:
    spec = TrainingSpec.read(path)
    prepare_process(spec)
    try:
        from . import hang, ranks, te

        hang.answer(spec)

        if spec.megatron:
            te.install()  # before megatron.core is imported
        if spec.task == "lora" and lora:
            importlib.import_module(lora)  # before the ranks wait for each other
        train = importlib.import_module(loop).train
    except ImportError as error:
        raise UserError(f"framework {spec.framework}: {error}", hint=install) from error
    ranks.refuse_without_gpu(spec)
    train(spec)
    ranks.leave(graphs=spec.training.cuda_graphs != "none")


def place(ranks_per_node: int) -> tuple[int, int, int]:
    """Rank, number of ranks and local rank by torchrun's variables, else by srun's;
    without either a single rank.

    A launcher that sets no local rank fills the nodes in order.
    """
    for names in (
        ("RANK", "WORLD_SIZE", "LOCAL_RANK"),
        # Not SLURM_NTASKS: a batch script has it too, without being a rank.
        ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID"),
    ):
        rank, size, local = map(os.environ.get, names)
        if rank and size:
            return int(rank), int(size), int(local or int(rank) % ranks_per_node)
    return 0, 1, 0


def prepare_process(spec: RunSpec) -> None:
    """Set the variables that torch and megatron.core read when they are imported.
    UserError for wrong ranks."""
    rank, size, local = place(spec.cluster.gpus_per_node)
    if size != spec.num_gpus:
        hint = "start it through its job.sh, or with as many ranks by srun or torchrun"
        raise UserError(f"{size} ranks were started, the run needs {spec.num_gpus}", hint=hint)
    if spec.num_nodes > 1 and "MASTER_ADDR" not in os.environ:
        # Otherwise the ranks of each node wait for rank 0 on their own node, until the
        # timeout.
        hint = "start it through its job.sh, or export the first node's name as MASTER_ADDR"
        raise UserError(
            f"the run has {spec.num_nodes} nodes, and MASTER_ADDR is not set", hint=hint
        )
    os.environ.update(RANK=str(rank), WORLD_SIZE=str(size), LOCAL_RANK=str(local))
    os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
    # A single rank takes any free port, so that two such runs on one machine do not
    # collide.
    os.environ.setdefault("MASTER_PORT", "0" if size == 1 else "29500")
    if spec.gpu == "CPU":
        prepare_cpu()


def prepare_cpu() -> None:
    """Keep the packages that are imported next off the GPUs, and on one core."""
    os.environ["CUDA_VISIBLE_DEVICES"] = ""  # megatron.core would use the GPUs of the machine
    for package in ("transformer_engine", "transformer_engine_torch", "apex", "amp_C"):
        sys.modules[package] = None  # type: ignore[assignment]  # their Adam and norms run on GPUs alone
    # megatron.core compiles small functions by torch.compile, which on a CPU needs a
    # C++ compiler.
    os.environ.setdefault("TORCHDYNAMO_DISABLE", "1")
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    # Missing packages, which the log's versions show; a default of megatron.core 0.16.
    warnings.filterwarnings("ignore", message=r".*(Apex|Transformer Engine).*not installed")
    warnings.filterwarnings("ignore", message="full scope is deprecated")
    warnings.filterwarnings(
        "ignore", message=r"The \.grad attribute of a Tensor that is not a leaf"
    )
    warnings.filterwarnings("ignore", category=FutureWarning, module=r"torch\.distributed")
