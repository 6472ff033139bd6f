"""The entry: a node becomes terms, the terms become a function in a language."""

from __future__ import annotations

import re
import textwrap

from hesse.cost import PLAIN_MACHINE
from hesse.errors import ArgumentError
from hesse.export.cpp import CppWriter
from hesse.export.cpp_function import cpp_file
from hesse.export.from_program import build
from hesse.export.julia import JuliaWriter, julia_file
from hesse.export.languages import LANGUAGES, TABLES
from hesse.export.matlab import MatlabWriter, matlab_file
from hesse.export.python import PythonWriter
from hesse.export.python_calls import DIALECTS
from hesse.export.python_function import python_file
from hesse.export.writer import LINE_LENGTH, Signature, signature
from hesse.ir import Node, Shape
from hesse.ir.attributes import ATTRIBUTES
from hesse.plan import flatten, lower
from hesse.printing import text
from hesse.rewrite import expanded, simplify


def export(node: Node, language: str, name: str = "f", description: str = "") -> str:
    """A complete function in a language that computes the node.

    Its arguments are the variables of the node, by name, and after them sizes that no variable has. The code
    checks the shapes of its arguments and needs nothing but the array library of the language.

    >>> from hesse.ir import pairwise, variable
    >>> A, x = variable("A", ("m", "n")), variable("x", ("n",))
    >>> print(export(pairwise("ij,j->i", A, x), "numpy", "predict").split("\\n")[-2].strip())
    return A @ x
    """
    if language not in LANGUAGES:
        raise ArgumentError(f"there is no language {language!r}; choose one of {', '.join(LANGUAGES)}")
    (simple,) = simplify([node])
    (flat,) = flatten(expanded([simple], TABLES[language].elementwise.__contains__), PLAIN_MACHINE)
    given = signature(flat, name)
    documentation = _documentation(simple, given, description)
    kinds = {variable.name: variable.kind for variable in given.variables}
    term = build(lower([flat], PLAIN_MACHINE), kinds)
    if language == "matlab":
        return matlab_file(MatlabWriter(term, given), documentation)
    if language == "julia":
        return julia_file(JuliaWriter(term, given), documentation)
    if language == "cpp":
        return cpp_file(CppWriter(term, given), documentation)
    return python_file(PythonWriter(DIALECTS[language], term, given), documentation)


def _documentation(node: Node, given: Signature, description: str) -> str:
    """The formula, the description, and the shapes of arguments and result."""
    names = [variable.name for variable in given.variables] + list(given.sizes)
    formula = text(node)
    sign = ":" if re.match(r"\w+\[[\w,]*\] = ", formula) else " ="  # index notation has a left side
    lines = _wrapped(f"{given.name}({', '.join(names)}){sign} {formula}")
    if description:
        lines += ["", *(line for part in description.splitlines() for line in _wrapped(part))]
    lines += ["", "Arguments:"]
    for variable in given.variables:
        facts = sorted(variable.attributes & ATTRIBUTES.keys()) + (
            ["indices"] if variable.kind == "integer" else []
        )
        lines.append(
            f"    {variable.name}: {_shape_text(variable.shape)}{''.join(f', {fact}' for fact in facts)}"
        )
    lines += [f"    {size}: a size" for size in given.sizes]
    if not names:
        lines.append("    none")
    lines += ["", f"Returns: {_shape_text(node.shape)}"]
    return "\n".join(lines)


def _shape_text(shape: Shape) -> str:
    kinds = ("scalar", "vector", "matrix", f"tensor of order {len(shape)}")
    sizes = ", ".join(map(str, shape))
    return kinds[min(len(shape), 3)] + (f" ({sizes})" if shape else "")


def _wrapped(line: str) -> list[str]:
    return textwrap.wrap(line, LINE_LENGTH - 8, break_long_words=False, break_on_hyphens=False) or [""]
