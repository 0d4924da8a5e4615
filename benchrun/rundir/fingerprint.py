"""The fingerprint: where the time of each rank goes. Shares are those of the rank's
window.
"""

from typing import Literal

from pydantic import Field, model_validator
from typing_extensions import Self

from benchrun.model import Frozen

from .artifacts import Breakdown

SCHEMA_VERSION: Literal[1] = 1
ROUNDING = 1e-3
"""Share of the window by which shares may differ from their sum."""


class IdleByCause(Frozen):
    """Shares of the window; they add up to the idle share."""

    host: float
    """The host called CUDA only after the GPU had become idle."""
    launch_gap: float
    """The work was queued; its launch took time."""
    data: float
    """The thread that launches waited for a batch."""
    sync: float
    """The host had waited for the GPU, so that it had queued nothing."""


class Classes(Frozen):
    """Union of the kernels of each class, as shares of the window; classes may overlap."""

    matmul: float
    attention: float
    memory_bound: float
    """Every other kernel."""
    communication: float


class RankShares(Frozen):
    """One rank. compute + exposed_comm + copy + idle = 1."""

    rank: int
    device: int
    host: str | None
    gpu: str | None
    file: str
    window_s: float
    compute: float
    """Kernels other than communication."""
    exposed_comm: float
    """Communication that no kernel hides."""
    hidden_comm: float
    """Communication at the same time as compute; part of compute."""
    copies: float = Field(alias="copy")
    """Copies and fills at the same time as neither."""
    idle: float
    idle_by_cause: IdleByCause | None
    """Idle time by cause; None if the trace has no calls of the host."""
    classes: Classes

    @model_validator(mode="after")
    def _divides_the_window(self) -> Self:
        """ValueError if a share is none, or the shares do not add up."""
        parts = (self.compute, self.exposed_comm, self.copies, self.idle)
        causes = (*dict(self.idle_by_cause).values(),) if self.idle_by_cause else ()
        shares = (*parts, self.hidden_comm, *causes, *dict(self.classes).values())
        if not all(-ROUNDING <= share <= 1 + ROUNDING for share in shares):
            raise ValueError(f"rank {self.rank}: every share must be from 0 to 1")
        if abs(sum(parts) - 1) > ROUNDING:
            raise ValueError(
                f"rank {self.rank}: compute, exposed_comm, copy and idle must add up to 1"
            )
        if causes and abs(sum(causes) - self.idle) > ROUNDING:
            raise ValueError(f"rank {self.rank}: the causes must add up to idle")
        return self


class CollectiveTime(Frozen):
    """One kind of collective in one group of ranks."""

    name: str
    group: str | None
    """tp, dp, ...; None if the trace does not state it."""
    ranks: list[int]
    """Ranks of the group whose traces are here."""
    count: int
    """Per rank."""
    bytes: int | None
    """Bytes of all occurrences on one rank: the whole tensor, as nccl-tests counts.

    None if the trace has no sizes.
    """
    duration_s: float
    """Transfer and waiting, the mean over the ranks."""
    transfer_s: float | None
    """The shortest duration over the ranks, all occurrences together; None with one
    rank's trace.
    """
    waiting_s: float | None
    """Seconds that the ranks' kernels took beyond the transfer, the mean over the
    ranks.
    """
    busbw_gb_s: float | None
    """Bus bandwidth of the transfers."""


class StragglerTime(Frozen):
    """A rank that the others waited for."""

    rank: int
    host: str | None
    behind_s: float


class UnknownKernel(Frozen):
    """A kernel that no pattern of kernels.csv fits; it counts as memory_bound."""

    name: str
    share: float
    """Share of the ranks' windows."""


class KernelTime(Frozen):
    """The kernels of one name; a graph traced as a whole is none."""

    name: str
    kernel_class: str = Field(alias="class")
    """A field of `Classes`."""
    count: int
    """Over all ranks."""
    share: float
    """Share of the ranks' windows."""


class RangeTime(Frozen):
    """Marked ranges of one name (NVTX, annotations), on the first rank."""

    name: str
    count: int
    host_s: float
    device_s: float | None
    """Union of what any thread of their process launched while they were open; None if
    launches are unknown.
    """


class ProductRow(Frozen):
    """Matrix products of one shape, on the first rank."""

    operator: str
    dtype: str
    batch: int
    m: int
    n: int
    k: int
    count: int
    seconds: float
    tflops: float
    of_peak: float | None
    """Share of the GPU's dense peak."""


class Fingerprint(Frozen):
    """Fingerprint of a trace: where its time goes."""

    schema_version: Literal[1] = SCHEMA_VERSION
    window: str
    """device or steps."""
    window_s: float
    """The median over the ranks."""
    steps: int | None
    """Whole steps in the window; None if none are marked."""
    ranks: list[RankShares] = Field(min_length=1)
    collectives: list[CollectiveTime]
    stragglers: list[StragglerTime]
    unknown_share: float
    """Share of the ranks' windows in kernels that no class knows."""
    unknown_kernels: list[UnknownKernel]
    kernels: tuple[KernelTime, ...] = ()
    """The kernels of every class, the longest first; empty in fingerprints of older
    versions.
    """
    sentence: str = ""
    """The largest loss and the advice."""
    ranges: list[RangeTime]
    products: list[ProductRow]
    notes: list[str]
    """Notes on what the trace cannot show."""

    @property
    def breakdown(self) -> Breakdown | None:
        """Breakdown of one step, the mean over ranks; None if no steps are marked."""
        if not (self.steps and self.ranks and self.window_s):
            return None
        step = self.window_s / self.steps
        shares = []
        for rank in self.ranks:
            shares.append(
                (
                    rank.classes.matmul,
                    rank.classes.attention,
                    max(0.0, rank.compute - rank.classes.matmul - rank.classes.attention)
                    + rank.copies,
                    rank.exposed_comm,
                    rank.idle,
                    rank.hidden_comm,
                )
            )
        names = ("matmul_s", "attention_s", "other_s", "communication_s", "idle_s", "hidden_s")
        means = (step * sum(each) / len(shares) for each in zip(*shares, strict=True))
        return Breakdown(step_s=step, **dict(zip(names, means, strict=True)))
