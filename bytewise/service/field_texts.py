"""Reads the docstrings of a dataclass's fields: the string below each field. Python drops them when it compiles."""

import ast
import inspect
import itertools


def field_texts(cls: type) -> dict[str, str]:
    """Returns for each field of the dataclass its docstring, on one line. A field without a docstring is left out."""
    tree = ast.parse(inspect.cleandoc("\n" + inspect.getsource(cls))).body[0]
    assert isinstance(tree, ast.ClassDef)
    return {
        node.target.id: " ".join(str(ast.literal_eval(below.value)).split())
        for node, below in itertools.pairwise(tree.body)
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and isinstance(below, ast.Expr)
    }


def first_paragraph(cls: type) -> str:
    """Returns the first paragraph of a class's docstring, on one line."""
    return " ".join((inspect.getdoc(cls) or "").split("\n\n", 1)[0].split())
