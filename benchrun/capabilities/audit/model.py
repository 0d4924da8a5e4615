"""What an audit found: the document of ``audit --json``."""

from typing import Literal

from benchrun.model import Frozen

Verdict = Literal[
    "slow", "perhaps slow", "undecided", "too few jobs to tell", "as others", "not compared"
]
"""Verdicts on a node, the worst first."""


class Range(Frozen):
    """A value and its interval of 90 %."""

    median: float
    low: float
    high: float


class Expected(Range):
    """The step time, in s, that this hardware should have delivered."""

    source: str
    """Other jobs of this cluster, a prediction, or a published number."""


class Lost(Frozen):
    """GPU-hours that one job lost."""

    fault: float = 0.0
    """To an accused node."""
    failure: float = 0.0
    """To crashes: work that was not kept or made again, checkpoints, coming back."""
    choice: float = 0.0
    """To its layout or software, beside the fastest of the same work here."""
    day: float = 0.0
    """To a slow day of the whole cluster."""


class Job(Frozen):
    """One job."""

    job_id: str | None
    """Number in the scheduler."""
    log: str | None
    """Its logs; null if it has none."""
    framework: str | None
    """Framework that wrote the log."""
    model: str | None
    """Name of the model, or of the workload where the log does not tell the model."""
    gpu: str | None
    """Model of GPU."""
    precision: str | None
    """Number format of the products."""
    num_gpus: int | None
    """Number of GPUs."""
    nodes: tuple[str, ...]
    """Names of its nodes."""
    start: str | None
    """Local time of its start."""
    end: str | None
    """Local time of its end."""
    state: str | None
    """Slurm's word for its end, or what the log shows; null if neither tells."""
    gpu_hours: float | None
    """GPUs times the hours that it had them."""
    step_time_s: float | None
    """Median step time, in s."""
    expected_s: Expected | None
    """Step time that it should have had."""
    lost_gpu_hours: Lost
    """GPU-hours that it lost, by reason."""
    cause: Literal["slow_node", "slow_day", "failure", "choice"] | None
    """What cost most of them."""
    slower_by: float | None = None
    """Relative slowness of which no cause was found; null where it is noise."""
    evidence: str
    """What shows it, and what the job was compared with."""


class Node(Frozen):
    """One node."""

    node: str
    """Its name."""
    jobs: int
    """Its jobs that were compared; of an accused node, those since it is slow."""
    slower_by: Range | None
    """Relative slowness of a job that it alone slows; null if nothing shows it. Of a node that
    is not accused it is the mean over its jobs, other slow nodes of these included.
    """
    since: str | None
    """Start of the first slow job of an accused node."""
    until: str | None = None
    """Start of the first job after the slow ones, if the node recovered."""
    accused: bool
    """Whether it is slower than chance explains."""
    verdict: Verdict
    """Verdict in words: one of several of which one is slow is undecided; too few jobs tell of
    one whose jobs are all slow without a cause.
    """


class TotalLost(Frozen):
    """GPU-hours that all jobs lost."""

    fault: Range
    """To accused nodes."""
    day: Range
    """To slow days of the whole cluster."""
    failure: float
    """To crashes: the median of ``failure_range``."""
    failure_range: Range
    """The same with what is not known, e.g. which checkpoint was the last."""
    choice: float
    """To layouts and software."""


class Total(Frozen):
    """All jobs together."""

    jobs: int
    """Number of jobs."""
    compared: int
    """Jobs of which another of the same kind ran here."""
    gpu_hours: float
    """GPU-hours that they had."""
    lost_gpu_hours: TotalLost
    """GPU-hours that they lost, by reason."""
    lost_money: TotalLost | None = None
    """The same times the price of a GPU-hour."""


class NotRead(Frozen):
    """A file, or a line of the accounting, that gave no job."""

    log: str
    """Its name."""
    why: str
    """The reason."""


class Audit(Frozen):
    """What jobs that ran lost, and to what."""

    schema_version: Literal[1] = 1
    jobs: tuple[Job, ...]
    """Jobs by their start."""
    nodes: tuple[Node, ...]
    """Nodes, the accused ones first, then by their slowness."""
    slow_days: dict[str, Range]
    """Date of each slow day -> relative slowness of its jobs."""
    undecided: tuple[tuple[str, ...], ...]
    """Nodes of which one is slow, or perhaps slow, and their jobs do not tell which."""
    total: Total
    """All jobs together."""
    not_read: tuple[NotRead, ...]
    """What gave no job, and why."""

    @property
    def accused(self) -> list[Node]:
        """The nodes that are accused."""
        return [node for node in self.nodes if node.accused]
