"""The device of a rank, its name, and the type of its weights."""

import torch


def current(*, gpu: bool) -> torch.device:
    """The GPU that this rank chose, or the CPU."""
    if gpu:
        return torch.device("cuda", torch.cuda.current_device())
    return torch.device("cpu")


def name(*, gpu: bool) -> str:
    """The name of the GPU as CUDA gives it; ``cpu`` without one."""
    if gpu:
        return str(torch.cuda.get_device_name())
    return "cpu"


def weight_type(precision: str) -> torch.dtype:
    """The type of weights that are not quantised."""
    if precision == "fp32":
        return torch.float32
    return torch.bfloat16
