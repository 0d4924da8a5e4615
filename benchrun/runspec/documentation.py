"""The docstrings of a model's fields, read from its source: reference pages and written
site files show them.
"""

import ast
import inspect
import textwrap

from pydantic import BaseModel


def field_docs(model: type[BaseModel]) -> dict[str, str]:
    """Field name -> the docstring that follows the field in the source."""
    docs = {}
    for base in reversed(model.__mro__):
        if base is BaseModel or not issubclass(base, BaseModel):
            continue
        body = ast.parse(textwrap.dedent(inspect.getsource(base))).body[0]
        assert isinstance(body, ast.ClassDef)
        for node, after in zip(body.body, body.body[1:], strict=False):
            text = None
            if isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant):
                text = after.value.value
            if (
                isinstance(node, ast.AnnAssign)
                and isinstance(node.target, ast.Name)
                and isinstance(text, str)
            ):
                docs[node.target.id] = inspect.cleandoc(text)
    return docs
