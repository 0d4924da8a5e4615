"""The layout of a run; it stands in model/, because the operator list needs it."""

from benchrun.model.layout import Layout

__all__ = ["Layout"]
