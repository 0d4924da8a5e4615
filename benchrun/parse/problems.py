"""What a log says went wrong, in any framework: fixed words of the programs that print them."""

from __future__ import annotations

import re

from benchrun.parse.records import Problem

# (what the program prints, the problem it means). The first that fits a line counts.
_SIGNS: tuple[tuple[bytes, str], ...] = (
    (b"CUDA out of memory", "cuda_oom"),
    (b"CUDA error: out of memory", "cuda_oom"),
    (b"torch.OutOfMemoryError", "cuda_oom"),
    (b"oom-kill", "host_oom"),
    (b"oom_kill", "host_oom"),
    (b"OOM Killed", "host_oom"),
    (b"OOM killer", "host_oom"),
    (b"memory limit", "host_oom"),
    (b"Watchdog caught collective operation timeout", "nccl_timeout"),
    (b"NCCL error", "nccl_error"),
    (b"ncclSystemError", "nccl_error"),
    (b"ncclInternalError", "nccl_error"),
    (b"ncclRemoteError", "nccl_error"),
    (b"ncclUnhandledCudaError", "nccl_error"),
    (b"NVRM: Xid", "xid"),
    (b"uncorrectable ECC error", "ecc"),
    (b"failed to import docker image", "image_missing"),
    (b"couldn't start container", "image_missing"),
    (b"could not open image", "image_missing"),
    (b"Unable to handle docker://", "image_missing"),
    (b"initializing source docker://", "image_missing"),
    (b"Unable to find image", "image_missing"),
    (b"pull access denied", "image_missing"),
    (b"error: can't stat:", "image_missing"),
    (b"image not known", "image_missing"),
    (b"No such file or directory: ", "image_missing"),
    (b"can't bind", "mount_failed"),
    (b"mount source", "mount_failed"),
    (b"couldn't mount", "mount_failed"),
    (b"error mounting", "mount_failed"),
    (b"Unable to create step", "launch_failed"),
    (b"slurmstepd: error: execve()", "launch_failed"),
    (b"error: execve():", "launch_failed"),
    (b"srun: fatal:", "launch_failed"),
    (b"ModuleNotFoundError: ", "missing_module"),
    (b"Traceback (most recent call last)", "rank_crash"),
    (b"Exited with exit code", "rank_crash"),
    (b"Segmentation fault", "rank_crash"),
)
NEEDLES = tuple(words for words, _ in _SIGNS)
_TEXTS = tuple((words.decode(), kind) for words, kind in _SIGNS)
# enroot says only "[ERROR] No such file or directory: x.sqsh"; Python says the same words of any file.
_IMAGE_FILE = re.compile(r"\.sqsh|\.sif|\[ERROR\]")
_MEMORY = re.compile(r"(exceeded|over) (job |step |the )?memory limit|memory limit .*exceeded", re.IGNORECASE)
MOST = 50
"""No more than this many of one kind are kept: a thousand ranks die of one cause."""


def recognise(text: str, line: int) -> Problem | None:
    """The problem that ``text`` reports, if any."""
    for words, kind in _TEXTS:
        if words in text and _really(words, text):
            return Problem(kind, line, " ".join(text.split())[:240])
    return None


def _really(words: str, text: str) -> bool:
    if words == "No such file or directory: ":
        return bool(_IMAGE_FILE.search(text))
    return bool(_MEMORY.search(text)) if words == "memory limit" else True
