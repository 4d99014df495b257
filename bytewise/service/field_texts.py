"""The documentation of a dataclass's fields: the string below each field, which Python drops when it compiles."""

import ast
import inspect
import itertools


def field_texts(cls: type) -> dict[str, str]:
    """Field → its documentation on one line. A field without any is left out."""
    tree = ast.parse(inspect.cleandoc("\n" + inspect.getsource(cls))).body[0]
    assert isinstance(tree, ast.ClassDef)
    return {
        node.target.id: " ".join(str(ast.literal_eval(below.value)).split())
        for node, below in itertools.pairwise(tree.body)
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and isinstance(below, ast.Expr)
    }


def first_paragraph(cls: type) -> str:
    """The first paragraph of a class's documentation, on one line."""
    return " ".join((inspect.getdoc(cls) or "").split("\n\n", 1)[0].split())
