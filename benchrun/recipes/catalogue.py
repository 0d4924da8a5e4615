"""Recipes and suites as checked models; pydantic's errors get file:line and a legal
alternative.
"""

import typing
from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from benchrun import paths
from benchrun.errors import UserError, closest
from benchrun.frameworks.registry import FRAMEWORKS
from benchrun.runspec.cluster import IN_WORDS, Cluster
from benchrun.vocabulary import Precision

from .files import find, recipe_document
from .schema import UNKNOWN_NAME, PointGroup, Recipe, Study, TrainingRecipe
from .yamlfile import Document, Loc, load

M = TypeVar("M", bound=BaseModel)
_MAPPING = "expected a mapping (key: value)"
ELSEWHERE = {
    "hidden_layers": "model.num_layers",
    "num_hidden_layers": "model.num_layers",
    "n_layer": "model.num_layers",
    "n_layers": "model.num_layers",
    "n_embd": "model.hidden_size",
    "d_model": "model.hidden_size",
    "intermediate_size": "model.ffn_hidden_size",
    "n_head": "model.num_attention_heads",
    "n_heads": "model.num_attention_heads",
    "num_key_value_heads": "model.num_query_groups",
    "num_kv_heads": "model.num_query_groups",
    "head_dim": "model.kv_channels",
    "hidden_act": "model.activation",
    "hidden_activation": "model.activation",
    "n_positions": "model.max_position_embeddings",
    "rope_theta": "model.rotary_base",
    "partial_rotary_factor": "model.rotary_percent",
    "tie_word_embeddings": "model.tied_embeddings",
    "sliding_window": "model.window.size",
    "num_local_experts": "model.moe.num_experts",
    "n_routed_experts": "model.moe.num_experts",
    "num_experts_per_tok": "model.moe.topk",
    "moe_intermediate_size": "model.moe.ffn_hidden_size",
    "shared_expert_intermediate_size": "model.moe.shared_ffn_hidden_size",
    "router_aux_loss_coef": "model.moe.aux_loss_coeff",
    "first_k_dense_replace": "model.moe.leading_dense_layers",
    "routed_scaling_factor": "model.moe.scaling_factor",
    "num_nextn_predict_layers": "model.mtp_layers",
    "qk_nope_head_dim": "model.mla.qk_head_dim",
    "qk_rope_head_dim": "model.mla.qk_pos_emb_head_dim",
    "hybrid_override_pattern": "model.mamba.pattern",
    "ssm_state_size": "model.mamba.state_dim",
    "micro_batch_size": "mbs",
    "per_device_train_batch_size": "mbs",
    "global_batch_size": "gbs",
    "max_seq_length": "seq_length",
    "max_steps": "training.steps",
    "train_iters": "training.steps",
    "tensor_model_parallel_size": "layout.tp",
    "pipeline_model_parallel_size": "layout.pp",
    "context_parallel_size": "layout.cp",
    "expert_model_parallel_size": "layout.ep",
    "tensor_parallel": "layout.tp",
    "pipeline_parallel": "layout.pp",
}
"""Name of a dimension in configurations of Hugging Face and others -> key of a model."""
_WORDS = {"tuple_type": "expected a list: [...]", "dict_type": _MAPPING, "model_type": _MAPPING}
"""Error type -> what was expected."""


@dataclass(frozen=True)
class RecipeFile:
    """A checked recipe and its document, with the line of every value."""

    name: str
    recipe: Recipe
    document: Document


@dataclass(frozen=True)
class Point:
    """One tuned point: a group of the recipe at one GPU, precision, number of GPUs and
    framework.
    """

    index: int
    """Position of the group in the file."""
    group: PointGroup
    gpu: str
    precision: Precision
    num_gpus: int
    framework: str
    scaled_from: int | None = None
    """The listed number of GPUs whose layout this point has; None for a listed point.
    """
    borrowed_from: str | None = None
    """The GPU whose point this is, if this one has none."""

    @property
    def derived(self) -> str | None:
        """Reason why the layout is not published; None if it is."""
        ran = self.group.ran
        if self.scaled_from is None and self.borrowed_from is None:
            if ran and self.framework not in ran:
                return f"as in {', '.join(ran)}: {self.group.source}"
            return self.group.derived
        basis = self.group.source or self.group.derived or "this recipe"
        if self.scaled_from is None:
            return f"layout and batch of {self.borrowed_from}, as in: {basis}"
        return f"layout and batch per GPU of {self.scaled_from} {self.borrowed_from or 'GPUs'}, as in: {basis}"


def recipe_file(name: str) -> RecipeFile:
    """Load and check one recipe."""
    stem, document = recipe_document(name)
    document = _with_workload(document)
    data, recipe = _checked.get(stem, (None, None))
    if recipe is None or data != document:
        model = TrainingRecipe if _is_training(document) else Recipe
        recipe = checked(model, document)
        _checked[stem] = document, recipe
    return RecipeFile(stem, recipe, document)


_checked: dict[str, tuple[Document, Recipe]] = {}


def trainings() -> list[str]:
    """The shipped recipes of trainings."""
    documents = {name: recipe_document(name)[1] for name in paths.shipped(paths.RECIPES)}
    chosen = []
    for name, document in documents.items():
        if _is_training(document):
            chosen.append(name)
    return chosen


def _with_workload(document: Document) -> Document:
    """``document`` with the workload of its first framework, if it states none."""
    frameworks = document.get("frameworks")
    if "workload" in document or not isinstance(frameworks, dict):
        return document
    first = FRAMEWORKS.get(next(iter(frameworks), ""))
    if first is None or first.workload == "training":
        return document
    stated = copy(document)
    stated["workload"] = first.workload
    return stated


def _is_training(document: Document) -> bool:
    return bool(document.get("workload", "training") == "training")


def training_file(name: str) -> tuple[RecipeFile, TrainingRecipe]:
    """Load and check the recipe of a training. UserError for one of another workload."""
    file = recipe_file(name)
    if not isinstance(file.recipe, TrainingRecipe):
        raise UserError(f"{file.name} is no training but of workload '{file.recipe.workload}'")
    return file, file.recipe


def is_suite(name: str) -> bool:
    """Whether ``name`` is a shipped suite or study, or the file of one."""
    if name.endswith((".yaml", ".yml")) and Path(name).is_file():
        return "runs" in load(Path(name))
    return any((folder / f"{name}.yaml").is_file() for folder in (paths.STUDIES, paths.SUITES))


def study_file(name: str) -> tuple[str, Study, Document]:
    """The name of a study or suite, the study, and its document, which has the line of
    every value.
    """
    folder = paths.SUITES if (paths.SUITES / f"{name}.yaml").is_file() else paths.STUDIES
    path = find(name, folder, "study")
    document = load(path)
    return path.stem, checked(Study, document), document


def points(recipe: Recipe) -> list[Point]:
    """Every point of a recipe, in the order of the file."""
    found = []
    for index, group in enumerate(recipe.points):
        for gpu in group.gpu:
            for precision in group.precision:
                for framework in group.framework or recipe.frameworks:
                    for num_gpus in group.num_gpus:
                        found.append(Point(index, group, gpu, precision, num_gpus, framework))
    return found


def checked(model: type[M], document: Document) -> M:
    """``document`` as ``model``. UserError names every problem with its place."""
    try:
        return model.model_validate(document)
    except ValidationError as error:
        raise explained(error, model, document) from None


def explained(error: ValidationError, model: type[BaseModel], document: Document) -> UserError:
    """Every problem of ``error``, with its place in ``document``."""
    # A misspelt key is often a missing one as well: the cause comes first.
    every = error.errors(include_url=False)
    problems = sorted(
        filter(partial(_is_cause, every), every), key=lambda p: p["type"] != "extra_forbidden"
    )
    errors = []
    for problem in problems:
        message, hint = _explain(model, problem["loc"], dict(problem))
        errors.append(UserError(message, hint=hint, where=document.where(problem["loc"]) or None))
    first, *others = {str(error): error for error in errors}.values()
    first.others = tuple(others)
    return first


def _is_cause(problems: Sequence[Any], problem: Any) -> bool:
    """False for a list that counts as empty only because its items are wrong."""
    loc = problem["loc"]
    return problem["type"] != "too_short" or not any(
        p["loc"] != loc and p["loc"][: len(loc)] == loc for p in problems
    )


def _explain(model: type[BaseModel], loc: Loc, problem: dict[str, Any]) -> tuple[str, str | None]:
    key = ".".join(map(str, loc)).removesuffix(".[key]") or "the file"
    kind = problem["type"]
    value = problem.get("input")
    if "secrets" in loc:
        value = "(not shown)"  # somebody may have written a secret's value in place of its name
    if kind == "extra_forbidden":
        return f"unknown key '{key}'", _legal_key(model, loc)
    if kind == "missing":
        return f"key '{key}' is missing", None
    if kind == UNKNOWN_NAME:
        return f"'{key}' is {value!r}", closest(str(value), problem["ctx"]["legal"])
    if kind == "literal_error":
        return f"'{key}' is {value!r}", f"legal: {problem['ctx']['expected']}"
    text = problem["msg"][:1].lower() + problem["msg"][1:]
    if value is None:
        return f"'{key}' has no value", None
    if kind in _WORDS:
        text = _WORDS[kind]
    elif kind == "string_pattern_mismatch" and (
        expected := IN_WORDS.get(problem["ctx"]["pattern"])
    ):
        text = f"expected {expected}"
    text = text.removeprefix("value error, ")
    # The input of a contradiction is a whole mapping: too long for a message.
    several = isinstance(value, list) and kind.split("_")[0] in ("int", "float", "bool", "string")
    one_key = several and not any(isinstance(part, int) for part in loc)
    hint = _in_place_of_a_list(model, key, value) if one_key else None
    if kind != "value_error":
        return f"'{key}' is {value!r}: {text}", hint
    # An error of the whole file is about several keys, which its text names.
    return f"'{key}': {text}" if loc else text, hint


def _legal_key(model: type[BaseModel], loc: Loc) -> str | None:
    """The key that may be meant by an unknown one; None if any key is legal there."""
    legal = fields(model, loc[:-1])
    if not legal:
        return None
    word = str(loc[-1])
    return belongs(model, word) or closest(word, legal)


def _in_place_of_a_list(model: type[BaseModel], key: str, values: list[Any]) -> str:
    """Hint for a ``key`` that takes one value: several runs have several, a site has
    one.
    """
    if issubclass(model, Cluster) or key.startswith("cluster."):
        texts = all(isinstance(value, str) for value in values)
        if not texts:
            return "a site has one value"
        return f"one text: '{key}: {','.join(values)}'"
    return (
        f"a study file compares several values: 'matrix: {{{key}: {values}}}'; benchrun study FILE"
    )


def fields(model: type[BaseModel], loc: Loc) -> list[str]:
    """The keys that are legal at ``loc`` below ``model``; empty if any key is."""
    current: type[BaseModel] | None = model
    for part in loc:
        if current and part in current.model_fields:
            current = _model_in(current.model_fields[str(part)].annotation)
    if not current:
        return []
    return list(current.model_fields)


def belongs(model: type[BaseModel], key: str) -> str | None:
    """A hint that names the group of ``model`` that has this key: ``layout.tp`` for tp;
    None if none has.
    """
    meant = ELSEWHERE.get(key, "")
    if meant.partition(".")[0] in model.model_fields:
        return f"did you mean '{meant}'?"
    places = [f"{name}.{key}" for name in model.model_fields if key in fields(model, (name,))]
    if not places:
        return None
    return f"did you mean '{places[0]}'?"


def _model_in(annotation: Any) -> type[BaseModel] | None:
    """The model inside ``X``, ``X | None``, ``tuple[X, ...]``, ``dict[str, X]``."""
    if typing.get_origin(annotation) is None:
        if isinstance(annotation, type) and issubclass(annotation, BaseModel):
            return annotation
        return None
    return next(filter(None, map(_model_in, typing.get_args(annotation))), None)
