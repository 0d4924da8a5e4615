"""The samples that a framework has consumed so far, against the batch and the number of
steps.
"""

from typing import Any

import numpy as np

from benchrun.logs.dialect import Dialect

SAMPLES = "consumed samples"
"""Name of the samples of all steps so far, which are no column of a row."""
_SAME_BATCH = 0.02
"""Relative tolerance of a batch: one that ranks cannot share evenly is made a little
smaller than printed.
"""


class CountsSamples(Dialect):
    """Dialect whose steps print `SAMPLES` beside their batch."""

    def __init__(self) -> None:
        super().__init__()
        self._last_batch: Any = np.empty((3, 0))

    def complete(self, values: dict[str, Any]) -> None:
        """Take the samples out, and compare them with the batch."""
        samples, batch = values.pop(SAMPLES, None), values.get("global_batch_size")
        if samples is not None and batch is not None:
            self._check_batches(
                np.stack(np.broadcast_arrays(values["step"], samples, batch)).reshape(3, -1)
            )

    def _check_batches(self, rows: Any) -> None:
        """Compare how the samples rise with the batch, which may change between two
        rows.

        ``rows``: step, samples of all steps so far and batch, one array each.
        """
        rows = rows[:, (rows[1:] >= 0).all(axis=0)]
        rows = np.concatenate([self._last_batch, rows], axis=1)
        self._last_batch = rows[:, -1:]
        steps, samples, _ = np.diff(rows)
        after = steps > 0
        rise = samples[after] / steps[after]
        between = np.stack([rows[2, :-1], rows[2, 1:]])[:, after]
        low = (1 - _SAME_BATCH) * between.min(axis=0)
        high = (1 + _SAME_BATCH) * between.max(axis=0)
        # A number that stands still or counts the steps is none of samples.
        refuted = int((((rise < low) | (rise > high)) & (rise > 1)).sum())
        self.batches_refuted += refuted
        self.batches_kept += len(rise) - refuted
