"""Each row of the tables of published numbers has a reference of a recipe, or a reason why no recipe has it.

``python tests/published/test_tables.py FOLDER`` counts the rows of the tables in FOLDER anew, into tables.csv.
"""

import csv
import re
import sys
from collections import Counter
from pathlib import Path

from benchrun import hardware, paths
from benchrun.judge.references import Reference, load_references

TABLES = ("dgxc_reference", "nemo_bridge_reference", "published_scaling", "single_node_a100_vtrain")
LAYOUTS = ("dgxc_configs", "tuned_configs")
"""Tables of layouts, which have no numbers."""
FIELDS = ("table", "model", "task", "gpu", "rows", "with_reference", "recipe", "reason")
LISTED = Path(__file__).with_name("tables.csv")
NEAR = 0.006
"""Relative difference of two roundings of one number."""
SUFFIX = {"sft": "-sft", "lora": "-lora"}
OTHER_NAMES = {
    "nemotron-h": "nemotron-h-56b",
    "nemotron4-340b-340b": "nemotron4-340b",
    "nemotron4-15b-15b": "nemotron4-15b",
    "nemotron-15b": "nemotron4-15b",
    "nemotron-340b": "nemotron4-340b",
    "nemotron3-30b": "nemotron-3-nano",
    "nemotron3-120b": "nemotron-3-super",
    "grok1": "grok1-314b",
    "llama3.1": "llama3.1-8b",
    "llama4-400b": "llama4-maverick",
    "nemo-megatron-175b": "gpt3-175b",
    "ft-llama3-70b": "llama3-70b-lora",
    "ft-llama3-8b": "llama3-8b-lora",
    "llama3.1-405b-proxy": "llama3.1-405b",
    "deepseek-v3-671b": "deepseek-v3",
    "deepseek-v4-flash-": "deepseek-v4-flash",
    "deepseekv4-flash": "deepseek-v4-flash",
    "gpt-175b": "gpt3-175b",
    "gpt3-20b": "gpt-20b",
    "paxml-gpt-175b": "gpt3-175b",
    "paxml-gpt-5b": "gpt3-5b",
    "nemo-megatron-gpt3-175b": "gpt3-175b",
    "paxml-gpt3-175b": "gpt3-175b",
    "paxml-gpt3-5b": "gpt3-5b",
    "kimi-k2-1t": "kimi-k2",
    "mistral-7b": "mistral-7b-hf",
    "llama4-400b-e128": "llama4-maverick",
    "llama4-maverick-400b": "llama4-maverick",
    "maxtext-llama2-70b": "llama2-70b",
    "maxtext-llama3-70b": "llama3-70b",
    "nemotronh-56b": "nemotron-h-56b",
    "nemotron-v3-nano-30b": "nemotron-3-nano",
    "nemotron-v3-super-120b": "nemotron-3-super",
    "nemotron-v3-ultra-550b": "nemotron-3-ultra",
    "nemotron-3-5-lightning": "nemotron-3.5-lightning",
    "qwen3-235b": "qwen3-235b-a22b",
    "qwen3-30b": "qwen3-30b-a3b",
    "hf-llama2-70b-lora": "llama2-70b-lora-hf",
    "hf-mistral-7b-lora": "mistral-7b-hf",
}
REASONS = {
    "deepseek": "compressed sparse attention, which the operator list cannot count",
    "zebra-llama": "linear attention, which the operator list cannot count",
    "mpt-": "attention with ALiBi, which no framework here launches; the prediction reads them",
    "mt-nlg-530b": "published in FP16, which nothing is launched in; the prediction reads them",
    "llama4": "layouts of fine-tuning without a number",
    "llama3.1-405b": "layouts of adapters without a number",
    "gpt": "nameless GPTs of papers, most in FP16, which nothing is launched in; the prediction reads them",
}
"""Beginning of a model's name -> why no recipe trains it."""
TWINS = {"llama2-70b": ("llama2-70b-lora-hf",), "llama3.1-8b": ("llama3-8b",)}
"""Recipes under whose names some rows of another are listed."""


def numbers(row: dict[str, str]) -> list[float]:
    """Every number of a row, and the speed that its step time means."""
    cells = [
        row.get(name) for name in ("step_time_s", "tokens_per_s", "tokens_per_s_per_gpu", "tflops_per_gpu", "mfu_pct")
    ]
    cells += re.findall(r"(?:samples_per_s|samples_per_second|sequences/s)=([\d.]+)", row.get("notes") or "")
    found = [float(cell) for cell in cells if cell]
    work = [row.get(name) for name in ("gbs", "seq_len", "num_gpus", "step_time_s")]
    if all(work):
        gbs, length, gpus, time = map(float, work)
        found.append(gbs * length / gpus / time)
    return found


def model_and_task(row: dict[str, str]) -> tuple[str, str]:
    """Model and task of a row, as its table names them."""
    name = row.get("model") or f"{row.get('workload', 'gpt')} {row.get('model_size', '')}"
    text = f"{row.get('task') or ''} {name}"
    task = next((each for each in SUFFIX if each in text), "sft" if "/finetune" in text else "pretrain")
    name = re.sub(r"\[.*?\]|\(.*?\)|/[\w/]+|-?(pretrain|finetune|lora|sft)\b", "", name)
    return "-".join(name.lower().replace("_", "-").split()), task


def recipe_of(model: str, task: str) -> str:
    """Name that a recipe of this model and task has, or would have."""
    full = model + SUFFIX.get(task, "")
    if full in OTHER_NAMES:
        return OTHER_NAMES[full]
    return OTHER_NAMES.get(model, model) + SUFFIX.get(task, "")


def has_reference(row: dict[str, str], gpu: str, entries: list[Reference]) -> bool:
    """Whether one of ``entries`` has a number of a row, on as many of its GPUs."""
    wanted = numbers(row)
    for entry in entries:
        if not entry.key.gpu.startswith(gpu) or str(entry.key.num_gpus or "") != row["num_gpus"]:
            continue
        stated = [entry.value, entry.tokens_per_s_per_gpu, *entry.printed.model_dump(exclude_none=True).values()]
        for number in stated:
            if any(abs(number / each - 1) < NEAR for each in wanted):
                return True
    return False


def groups(folder: Path) -> list[dict[str, object]]:
    """A row for each table, model, task and GPU."""
    by_recipe: dict[str, list[Reference]] = {}
    for entry in load_references():
        by_recipe.setdefault(entry.key.recipe, []).append(entry)
    rows = Counter[tuple[str, ...]]()
    found = Counter[tuple[str, ...]]()
    for table in (*TABLES, *LAYOUTS):
        with (folder / f"{table}.csv").open(encoding="utf-8", newline="") as lines:
            for row in csv.DictReader(lines):
                model, task = model_and_task(row)
                stated = row.get("gpu") or "A100"
                gpu = hardware.name_of(stated) or stated
                key = (table, model, task, gpu)
                rows[key] += 1
                name = recipe_of(model, task)
                same = [entry for each in (name, *TWINS.get(name, ())) for entry in by_recipe.get(each, [])]
                found[key] += has_reference(row, gpu, same)
    listed = []
    for key in rows:
        recipe = recipe_of(*key[1:3])
        why = ""
        if recipe not in by_recipe:
            recipe, why = "", next(why for name, why in REASONS.items() if key[1].startswith(name))
        counts = {"rows": rows[key], "with_reference": found[key] if key[0] in TABLES else ""}
        listed.append({**dict(zip(FIELDS, key, strict=False)), **counts, "recipe": recipe, "reason": why})
    return listed


def counted() -> list[dict[str, str]]:
    with LISTED.open(encoding="utf-8", newline="") as lines:
        return list(csv.DictReader(lines))


def test_every_row_of_every_table_is_counted() -> None:
    counts = dict.fromkeys((*TABLES, *LAYOUTS), 0)
    for group in counted():
        counts[group["table"]] += int(group["rows"])
    assert list(counts.values()) == [566, 544, 706, 960, 620, 348]


def test_each_row_has_a_reference_or_its_model_a_reason() -> None:
    recipes = set(paths.shipped(paths.RECIPES))
    for group in counted():
        if group["recipe"]:
            assert group["recipe"] in recipes, group
            assert group["with_reference"] == ("" if group["table"] in LAYOUTS else group["rows"]), group
        else:
            assert group["reason"] in REASONS.values(), group
            assert group["model"] + SUFFIX.get(group["task"], "") not in recipes, group


def test_the_numbers_of_a_group_are_on_its_gpu() -> None:
    listed = {(entry.key.recipe, entry.key.gpu) for entry in load_references()}
    chips = {(recipe, gpu.partition("-")[0]) for recipe, gpu in listed}
    for group in counted():
        if group["with_reference"] and group["recipe"]:
            names = (group["recipe"], *TWINS.get(group["recipe"], ()))
            assert any((name, group["gpu"]) in chips for name in names), group


if __name__ == "__main__":
    with LISTED.open("w", encoding="utf-8", newline="") as out:
        writer = csv.DictWriter(out, FIELDS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(groups(Path(sys.argv[1])))
