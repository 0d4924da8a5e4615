"""Warnings before a launch: memory, links, the time limit, folders, traces."""

import os
from math import ceil
from pathlib import Path

from benchrun.memory import warning
from benchrun.recipes.layout import slow_links
from benchrun.runspec.post_training import OF_THE_SITE
from benchrun.runspec.spec import RunSpec, TrainingSpec
from benchrun.vocabulary import HOUR_S

from .expectations import expected_step


def warnings(spec: RunSpec) -> list[str]:
    """Sentences about what may go wrong with ``spec``: memory, slow links, a trace that
    tells nothing, a time limit that the load or the steps exceed, a folder that the
    container does not have.
    """
    if isinstance(spec, TrainingSpec):
        texts = [warning(spec), slow_links(spec), _empty_trace(spec), _too_long(spec)]
    else:
        texts = [_loading(spec), _unmounted(spec)]
    return [text for text in (*texts, _ignored(spec)) if text]


def _ignored(spec: RunSpec) -> str | None:
    """Options of sbatch that this shell has as variables: a run is what its files say,
    so none counts.
    """
    names = [name for name in sorted(os.environ) if name.startswith("SBATCH_")]
    if not names or spec.cluster.scheduler != "slurm":
        return None
    name = names[0].removeprefix("SBATCH_").lower()
    key = "sbatch_options"
    if name in type(spec.cluster).model_fields:
        key = name
    return f"{', '.join(names)} of this shell {'is' if len(names) == 1 else 'are'} not used: --set cluster.{key}=..."


def _too_long(spec: TrainingSpec) -> str | None:
    """Warning that the steps alone take longer than the job may, by the lower end of
    the prediction; None if they do not.
    """
    expected = expected_step(spec)
    limit_s = spec.cluster.time_limit_s
    steps = spec.training.steps
    if expected is None or expected.low * steps < limit_s:
        return None
    longer = f"--set cluster.time_limit={ceil(1.5 * expected.high * steps / HOUR_S):02d}:00:00"
    limit = spec.cluster.time_limit
    takes = (
        f"{steps} steps of {expected.low:.3g} s or more take longer than {limit}, when the job ends"
    )
    return f"{takes}: {longer}, or fewer training.steps"


def _empty_trace(spec: TrainingSpec) -> str | None:
    """Warning that a trace on CPUs holds no event of a GPU."""
    if spec.gpu != "CPU" or spec.profiler == "none":
        return None
    return (
        "a trace on CPUs is for a viewer (ui.perfetto.dev): fingerprint and explain read events of GPUs; on CPUs "
        "--set training.breakdown=true separates the time of a step"
    )


def _loading(spec: RunSpec) -> str | None:
    """A server that may load for longer than its job may take; None for any other run."""
    checkpoint = getattr(spec, "checkpoint", None)
    timeout_s = getattr(spec, "ready_timeout_s", None)
    if checkpoint is None or timeout_s is None or spec.cluster.time_limit_s > timeout_s:
        return None
    limit = spec.cluster.time_limit
    longer = "--set cluster.time_limit=02:00:00"
    return f"the server may load its weights for {timeout_s} s, and the job ends after {limit}: {longer}"


def _unmounted(spec: RunSpec) -> str | None:
    """Weights or prompts in folders that no mount of the site brings into the
    container; None if there are none.
    """
    container = spec.cluster.container
    if container.runtime == "none":
        return None
    inside = [Path(text.split(":")[1]) for text in container.mounts]
    stated = (getattr(spec, name, None) for name in ("checkpoint", *OF_THE_SITE))
    folders = (Path(text) for text in stated if text and text.startswith("/"))
    lost = []
    for path in folders:
        if not any(map(path.is_relative_to, inside)):
            lost.append(str(path))
    if not lost:
        return None
    mounts = "cluster.container.mounts has no folder that holds"
    return f"{mounts} {', '.join(dict.fromkeys(lost))}: the container may not have it"
