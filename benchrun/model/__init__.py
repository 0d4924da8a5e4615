"""A model's shape, and what one training step of it costs."""

from .layout import Frozen
from .parts import Moe
from .shape import VOCAB_MULTIPLE, Activation, ModelShape

__all__ = ["VOCAB_MULTIPLE", "Activation", "Frozen", "ModelShape", "Moe"]
