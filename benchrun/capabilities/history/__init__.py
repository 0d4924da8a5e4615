"""The history of a point: its step time over the days, and what changed with it."""
