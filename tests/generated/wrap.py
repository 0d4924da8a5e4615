"""What stands around the lines of a framework: labels, clocks, colours, JSON, line ends."""

import json
from collections.abc import Callable
from random import Random

from .forms.base import Line

NOISE = (
    "UserWarning: The given buffer is not writable, and PyTorch does not support it.",
    "NCCL version 2.21.5+cuda12.4",
    "node-2:31337:31421 [3] NCCL INFO Channel 00/0 : 3[3] -> 4[0] [send] via NET/IB/2/GDRDMA",
    "INFO:megatron.core.timers:(min, max) time across ranks (ms):",
    "    forward-backward ...............................: (1021.11, 1030.02)",
    "Token indices sequence length is longer than the specified maximum (5120 > 4096).",
)


def _stamp(index: int) -> str:
    minutes, second = divmod(index, 60)
    return f"2026-01-05T{10 + minutes // 60 % 12:02d}:{minutes % 60:02d}:{second:02d}"


def _docker(line: Line, index: int, width: int) -> str:
    record = {"log": line.text + "\n", "stream": "stdout", "time": _stamp(index) + ".123456789Z"}
    return json.dumps(record, ensure_ascii=index % 2 == 0)


def _cloud(line: Line, index: int, width: int) -> str:
    return json.dumps(
        {
            "insertId": f"a{index}",
            "resource": {"type": "k8s_container", "labels": {"pod_name": "train-0"}},
            "severity": "INFO",
            "textPayload": line.text,
            "timestamp": _stamp(index) + ".5Z",
        }
    )


WRAPPERS: dict[str, Callable[[Line, int, int], str]] = {
    "plain": lambda line, index, width: line.text,
    "crlf": lambda line, index, width: line.text,
    "noise": lambda line, index, width: line.text,
    "srun": lambda line, index, width: f"{line.rank:>{width}}: {line.text}",
    "srun-noise": lambda line, index, width: f"{line.rank:>{width}}: {line.text}",
    "torchrun": lambda line, index, width: f"[default{line.rank % 8}]:{line.text}",
    "srun-torchrun": lambda line, index, width: f"{line.rank // 8:>{width}}: [default{line.rank % 8}]:{line.text}",
    "ansi": lambda line, index, width: f"\x1b[32m{line.text}\x1b[0m",
    "stamp": lambda line, index, width: f"[{_stamp(index)}+08:00] {line.text}",
    "relative": lambda line, index, width: f"[+{index * 1.37:9.3f}] {line.text}",
    "docker": _docker,
    "cloud": _cloud,
    "cri": lambda line, index, width: f"{_stamp(index)}.123456789Z stdout F {line.text}",
    "pdsh": lambda line, index, width: f"worker-{line.rank // 8 + 1}: {line.text}",
    "nemo-run": lambda line, index, width: f"i.finetune/0 {line.text}",
    "ray": lambda line, index, width: f"(task, pid=6678) {line.text}",
}
"""How each writes one line; ``width`` is that of the largest rank."""


def glued(lines: list[Line]) -> list[Line]:
    """Lines with those that continue a line joined to it."""
    found: list[Line] = []
    for line in lines:
        if line.glued and found and found[-1].glued:
            last = found[-1]
            found[-1] = Line(last.text + line.text, last.rank, last.part, True)
        else:
            found.append(line)
    return found


def _noisy(lines: list[Line], random: Random) -> list[Line]:
    """Lines with chatter of other ranks between them."""
    found: list[Line] = []
    for line in lines:
        if random.random() < 0.15:
            found.append(Line(random.choice(NOISE), random.randrange(8)))
        found.append(line)
    return found


def wrapped(lines: list[Line], wrapper: str, ranks: int, seed: int) -> bytes:
    """The bytes of the file."""
    joined = glued(lines)
    if wrapper.endswith("noise"):
        joined = _noisy(joined, Random(seed))
    width = len(str(max(ranks - 1, 0)))
    write = WRAPPERS[wrapper]
    end = "\r\n" if wrapper == "crlf" else "\n"
    texts = [write(line, index, width) for index, line in enumerate(joined)]
    return (end.join(texts) + end).encode()
