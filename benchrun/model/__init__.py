"""A model's shape, and what one training step of it costs."""

from benchrun.model.layout import Frozen
from benchrun.model.parts import Moe
from benchrun.model.shape import VOCAB_MULTIPLE, Activation, ModelShape

__all__ = ["VOCAB_MULTIPLE", "Activation", "Frozen", "ModelShape", "Moe"]
