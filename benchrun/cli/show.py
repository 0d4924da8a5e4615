"""benchrun show: one point, resolved."""

from __future__ import annotations

from typing import Any

import click

from benchrun.cli.options import json_option, point_options, print_json, request


@click.command("show")
@point_options
@json_option
def command(as_json: bool, **point: Any) -> None:
    """One point with nothing implicit: model, layout and its arithmetic, FLOPs, memory a GPU, reference numbers."""
    from benchrun.recipe.resolve import resolve

    document = _document(resolve(request(**point)))
    if as_json:
        print_json(document)
    else:
        click.echo(_text(document))


def _document(spec: Any) -> dict[str, Any]:
    from benchrun.compare import conditions, load_references, matching
    from benchrun.memory import estimate, warning
    from benchrun.model.flops import flops_per_token
    from benchrun.recipe.arithmetic import arithmetic
    from benchrun.recipe.layout import slow_links

    flops = flops_per_token(spec.model, spec.seq_length, task=spec.task)
    found = matching(conditions(spec), load_references())
    document: dict[str, Any] = spec.model_dump(mode="json")
    document["model"] |= {"params_total": spec.model.params_total, "params_active": spec.model.params_active}
    return document | {
        "flops_per_token": {"full": flops.full, "causal": flops.causal},
        "arithmetic": arithmetic(spec),
        "memory_gib": estimate(spec).parts(),
        "memory_warning": warning(spec),
        "layout_warning": slow_links(spec),
        "references": [entry.model_dump(mode="json") for entry in found],
    }


def _text(document: dict[str, Any]) -> str:
    """The same as indented lines: ``key: value``, YAML that a person can read."""
    import yaml

    text: str = yaml.safe_dump(document, sort_keys=False, width=110, default_flow_style=False)
    return text.rstrip()
