"""One file per family of log formats; `ALL` lists every form by its name."""

from . import bridge, finetune, maxtext, megatron, nemo, others, titan, trainer
from .base import Form

_FAMILIES = (megatron, bridge, nemo, titan, maxtext, trainer, finetune, others)


def _all() -> dict[str, Form]:
    found: dict[str, Form] = {}
    for family in _FAMILIES:
        found |= {form.name: form for form in family.FORMS}
    return found


ALL = _all()
"""Every form by its name."""
