"""The base class of every model that crosses an edge: files, JSON, the command line."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Frozen(BaseModel):
    """A pydantic model that refuses unknown keys and never changes."""

    model_config = ConfigDict(extra="forbid", frozen=True)
