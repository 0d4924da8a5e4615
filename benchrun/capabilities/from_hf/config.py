"""A `config.json` of Hugging Face that is read key by key: what nobody reads is refused."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchrun.errors import UserError
from benchrun.recipes.yamlfile import Document, load

INERT = frozenset(Path(__file__).with_name("inert.txt").read_text(encoding="utf-8").split())
"""Keys that change no parameter and no FLOPs."""
WITHOUT_EFFECT: Mapping[str, tuple[object, ...]] = {
    "add_cross_attention": (False,),
    "cross_attention_hidden_size": (),
    "is_decoder": (False, True),
    "is_encoder_decoder": (False,),
    "pruned_heads": ({},),
    "tie_encoder_decoder": (False,),
    "use_mrope": (False,),
    "use_bidirectional_attention": (False,),
}
"""Key -> the values besides null that change nothing."""

ENCODERS = ("vision_config", "audio_config")
"""Keys of what a model has beside its language model, which stands in ``text_config``."""


class Config:
    """One configuration. ``defaults``: what the family's class in transformers has
    where the file is silent."""

    def __init__(self, document: Document, defaults: Mapping[str, Any]) -> None:
        self.document = document
        self.defaults = defaults
        self.notes: list[str] = []
        """What the recipe leaves out, a sentence each."""
        self._read: set[str] = set()

    def get(self, key: str, default: Any = None) -> Any:
        """The value of ``key``; that of the defaults where it is absent or null."""
        self._read.add(key)
        value = self.document.get(key)
        if value is None:
            return self.defaults.get(key, default)
        return value

    def size(self, key: str, default: int | None = None) -> int:
        """A whole number above 0. UserError for anything else."""
        value = self.get(key, default)
        if value is None:
            raise UserError(f"key '{key}' is missing", where=self.document.place)
        whole = (
            isinstance(value, int | float) and not isinstance(value, bool) and value == int(value)
        )
        if not whole or value < 1:
            raise self.refused(key, f"is {value!r}: expected a whole number above 0")
        return int(value)

    def some(self, key: str) -> int | None:
        """`size`, or None where the key is absent, null or 0."""
        if not self.get(key):
            return None
        return self.size(key)

    def flag(self, key: str) -> bool:
        """True or false; false where it is absent."""
        value = self.get(key, False)
        if not isinstance(value, bool):
            raise self.refused(key, f"is {value!r}: expected true or false")
        return value

    def only(self, key: str, *legal: object) -> None:
        """UserError unless ``key`` is absent, null, or has one of the ``legal`` values."""
        value = self.get(key)
        if value is not None and value not in legal:
            raise self.refused(key, f"is {_json(value)}, which a recipe cannot represent")

    def refused(self, key: str, why: str, hint: str | None = None) -> UserError:
        """The error of ``key``, with its place."""
        return UserError(f"'{key}' {why}", where=self.document.where((key,)), hint=hint)

    def finish(self) -> None:
        """UserError for the keys that nothing has read: they may change the model."""
        for key, legal in WITHOUT_EFFECT.items():
            self.only(key, *legal)
        errors = []
        for key in self.document:
            if key not in self._read and key not in INERT and self.document[key] is not None:
                kind = self.document["model_type"]
                why = f"is not known in a model of type {kind}: it may change parameters or FLOPs"
                errors.append(self.refused(key, why, "remove it if it does not"))
        if errors:
            first, *others = errors
            first.others = tuple(others)
            raise first


def _json(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return repr(value)


def config_file(path: Path) -> Document:
    """The configuration at ``path``, or in the model's folder ``path``. UserError with
    file:line if it is none."""
    if path.is_dir():
        path /= "config.json"
    document = load(path)
    for key in ENCODERS:
        if key in document and "text_config" not in document:
            what = f"'{key}': a recipe has a language model alone"
            hint = "its keys belong under text_config"
            raise UserError(what, where=document.where((key,)), hint=hint)
    return document
