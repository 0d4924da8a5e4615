"""The base class of every model that crosses an edge: files, JSON, the command line."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Frozen(BaseModel):
    """A pydantic model that refuses unknown keys and never changes."""

    # Validators are built when a model is first used: a command builds those that it needs.
    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)
