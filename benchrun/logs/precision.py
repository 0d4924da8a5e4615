"""The precision of matrix products, from all switches of it that a log states, in
whatever order they stand.
"""

import re
from collections.abc import Mapping

SWITCHES = frozenset(
    {
        "fp4",
        "nvfp4",
        "mxfp4",
        "fp4_format",
        "fp4_recipe",
        "fp8",
        "fp8_format",
        "fp8_recipe",
        "fp8_e4m3",
        "fp8_hybrid",
        "bf16",
        "fp16",
        "precision",
        "params_dtype",
        "dtype",
        "quantization",
    }
)
"""Arguments that say how products are computed, of Megatron-LM, NeMo, Megatron-Bridge,
MLPerf and MaxText.
"""
_DETAILS = frozenset({"fp4_format", "fp4_recipe", "fp8_format", "fp8_recipe"})
"""Say how a precision is used, not whether."""
_FORMATS = frozenset({"fp8_e4m3", "fp8_hybrid"})
"""Details beside ``fp8``; Megatron-LM had them in its place until 2023."""
_OFF = frozenset({"", "none", "null", "false", "0", "no", "off"})
_INTEGERS = re.compile(r"int\d")
"""A quantization of weights and activations; a bare ``true`` names no number format."""
_FLOATS = (
    ("bf16", re.compile(r"bf16|bfloat16")),
    ("fp16", re.compile(r"fp16|(?<!b)float16|half|(?<!\d)16(?!\d)")),
    ("fp32", re.compile(r"fp32|float32|(?<!\d)32(?!\d)")),
)


def precision_of(stated: Mapping[str, str]) -> str | None:
    """The lowest precision that ``stated`` (switch -> value) turns on; None if none is
    stated.

    ``mxfp4``, ``fp4`` and integers are names without a known peak.
    """
    used = {}
    for name, value in stated.items():
        if is_used(value):
            used[name] = _text(value)
    details = _DETAILS | _FORMATS if "fp8" in stated else _DETAILS
    on = {name: text for name, text in used.items() if name not in details}
    if any("fp4" in name or "fp4" in text for name, text in on.items()):
        return _fp4(used)
    if any("fp8" in name or "fp8" in text for name, text in on.items()):
        return "fp8"
    quantization = on.get("quantization", "")
    if _INTEGERS.search(quantization):
        return quantization
    return _float(on, {*stated} - {*on})


def number_of(stated: Mapping[str, str]) -> str | None:
    """The number of the products: their precision, and of FP8 the format that needs
    units of its own, MXFP8.
    """
    precision = precision_of(stated)
    blocks = any("mxfp8" in _text(value) for name, value in stated.items() if is_used(value))
    if precision == "fp8" and blocks:
        return "mxfp8"
    return precision


def is_used(value: str) -> bool:
    """Whether a switch with this value is on; GPT-NeoX prints a mapping."""
    text = _text(value)
    disabled = text.startswith("{") and re.search(r"enabled['\"]?: *false", text) is not None
    return text not in _OFF and not disabled


def _text(value: str) -> str:
    return value.strip().strip("'\"").lower()


def _fp4(used: Mapping[str, str]) -> str:
    """The kind of FP4: Megatron's recipe is nvfp4 unless another is named."""
    texts = " ".join([*used, *used.values()])
    if "mxfp4" in texts:
        return "mxfp4"
    if used.get("fp4_recipe", "nvfp4") != "nvfp4":
        return "fp4"
    return "nvfp4"


def _float(on: Mapping[str, str], off: set[str]) -> str | None:
    """The floating-point type of 16 or 32 bits."""
    texts = [
        text if name not in ("bf16", "fp16") or "bfloat16" in text else name
        for name, text in on.items()
    ]
    for name, pattern in _FLOATS:
        if any(map(pattern.search, texts)):
            return name
    if off >= {"bf16", "fp16"}:
        return "fp32"
    return None
