"""Migration of spec.json from older schemas."""

from typing import Any

from benchrun.errors import UserError

SCHEMA = 2
ADDED_IN_1 = {
    "transformer_impl": "transformer_engine",
    "fused_kernels": True,
    "moe_grouped_gemm": True,
    "moe_permute_fusion": True,
    "manual_gc_interval": 100,
}
"""Training options that were added under schema 1, with the behaviour of runs before.
"""
CHAT_READERS = ("hf",)
"""Frameworks that read conversations as text, for documents without ``data_format``."""


def migrated(document: Any) -> Any:
    """``document`` in the schema of today, without the identity, which is computed.
    UserError for a newer schema.
    """
    if not isinstance(document, dict):
        return document
    version = document.get("schema_version", SCHEMA)
    if isinstance(version, int) and version > SCHEMA:
        message = f"the schema of this RunSpec is {version}, and this version of benchrun reads up to {SCHEMA}"
        raise UserError(message, hint="use the version of benchrun that wrote it, or a newer one")
    if version == 1:
        document = _from_1(document)
    document = {"workload": "training", **document}
    if document["workload"] == "training":
        by_task = "packed"
        if document.get("task") == "pretrain":
            by_task = "tokens"
        data_format = "chat"
        if document.get("framework") not in CHAT_READERS:
            data_format = by_task
        document = {"data_format": data_format, **document}
    return {key: value for key, value in document.items() if key != "identity"}


def _from_1(document: dict[str, Any]) -> dict[str, Any]:
    """Schema 1 did not record which of the cluster's variables replaced the framework's
    or the recipe's.

    Their order shows it: a replaced variable kept its position, and the cluster's other
    variables came last.
    """
    env = _mapping(document.get("env"))
    cluster = _mapping(document.get("cluster"))
    training = _mapping(document.get("training"))
    of_site = _mapping(cluster.get("env"))
    names = list(env)
    while names and names[-1] in of_site:
        names.pop()
    replaced = {name: env[name] for name in names if name in of_site}
    return {
        **document,
        "schema_version": SCHEMA,
        "training": ADDED_IN_1 | training,
        "replaced_env": replaced,
    }


def _mapping(value: Any) -> dict[str, Any]:
    if isinstance(value, dict):
        return value
    return {}
