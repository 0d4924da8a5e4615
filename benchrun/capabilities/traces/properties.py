"""Lists in the properties of a Kineto trace."""

from typing import Any

from benchrun.errors import UserError

from .damage import shown


def documents(value: Any) -> list[dict[str, Any]]:
    """The objects of a list; none if ``value`` is something else."""
    if not isinstance(value, list):
        return []
    return [each for each in value if isinstance(each, dict)]


def gpu_names(listed: Any, file: str) -> dict[int, str]:
    """The name of each GPU in ``deviceProperties``. UserError for a name that is no
    text.
    """
    names = {}
    for gpu in documents(listed):
        number = gpu.get("id")
        name = gpu.get("name")
        if name is not None and not isinstance(name, str):
            hint = 'expected a text, such as "NVIDIA H200"'
            raise UserError(
                f"deviceProperties: the name of a GPU is {shown(name)}", where=file, hint=hint
            )
        if isinstance(number, int) and name is not None:
            names[number] = name
    return names
