"""Functions of the back ends as text, for code that brings them along.

They are read, not imported: code for a library can be written where the library is missing. A function over
any library (`xp`) is spelled in one, and parameters of a record become arguments after the arrays.
"""

from __future__ import annotations

import ast
import functools
import itertools
from importlib import resources
from typing import NamedTuple

from hesse.backends.names import EXPONENTIAL, SHORT, WORDS

_ANY = {
    "expm_chain": ("plain.py", "expm_chain"),
    "flat_index": ("records.py", "flat_index"),
    "path_products": ("records.py", "path_products"),
}
HELPERS: dict[str, dict[str, tuple[str, str]]] = {
    "numpy": {
        **_ANY,
        **{name: ("records.py", name) for name in ("logsumexp", "softmax", "log_softmax")},
        "scatter": ("numpy/records.py", "add_at"),
        "sigmoid": ("plain.py", "sigmoid"),
    },
    "torch": {**_ANY, "cbrt": ("torch/elementwise.py", "cbrt"), "scatter": ("torch/records.py", "scatter")},
    "jax": {**_ANY, "scatter": ("jax/records.py", "scatter")},
}
"""For each library the helper functions by name: the file of the back ends, and the function there."""


@functools.cache
def helper(name: str, library: str) -> str:
    """The source of a helper function, and of those that it calls."""
    path, original = HELPERS[library][name]
    file = _file(path)
    used = {node.id for node in ast.walk(file.functions[original]) if isinstance(node, ast.Name)}
    called = sorted(used & file.functions.keys())
    speller = _Speller(file, library)
    parts = [(other, other) for other in called] + [(original, name)]
    return "\n\n\n".join(speller.function(file.functions[old], new) for old, new in parts)


class _File(NamedTuple):
    """The bytes of a file, where its lines start, and its functions."""

    source: bytes
    starts: list[int]
    functions: dict[str, ast.FunctionDef]


@functools.cache
def _file(path: str) -> _File:
    source = resources.files("hesse.backends").joinpath(path).read_bytes()
    starts = itertools.accumulate(map(len, source.splitlines(keepends=True)), initial=0)
    body = ast.parse(source).body
    return _File(
        source, list(starts), {node.name: node for node in body if isinstance(node, ast.FunctionDef)}
    )


class _Speller:
    """Writes functions over `xp` in the words of a library; the rest of the text stays as it is."""

    def __init__(self, file: _File, library: str) -> None:
        self.file, self.module = file, SHORT[library]
        self.words = WORDS[library] | {"checked": "{0}", "expm": EXPONENTIAL[library].text(["{0}"])}
        if library == "torch":
            self.words["asarray"] = "{0}"

    def function(self, node: ast.FunctionDef, name: str) -> str:
        """A function under a name: `(size,) = params` in its first line becomes an argument `size`."""
        arguments = [argument.arg for argument in node.args.args if argument.arg not in ("xp", "params")]
        lines = []
        for statement in node.body:
            match statement:
                case ast.Assign([ast.Tuple(targets)], ast.Name("params")):
                    arguments += [ast.unparse(target) for target in targets]
                case _:
                    lines.append(f"    {self._text(statement)}")
        return "\n".join([f"def {name}({', '.join(arguments)}):", *lines])

    def _text(self, node: ast.stmt | ast.expr) -> str:
        start, end = self._place(node)
        pieces, at = [], start
        for first, last, text in self._changes(node):
            pieces += [self.file.source[at:first].decode(), text]
            at = last
        return "".join([*pieces, self.file.source[at:end].decode()])

    def _place(self, node: ast.stmt | ast.expr) -> tuple[int, int]:
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        lines = self.file.starts
        return lines[node.lineno - 1] + node.col_offset, lines[node.end_lineno - 1] + node.end_col_offset

    def _changes(self, node: ast.AST) -> list[tuple[int, int, str]]:
        """What is spelled differently: from where to where, and how."""
        match node:
            case ast.Call(ast.Attribute(ast.Name("xp" | "XP"), name)) if name in self.words:
                operands = [self._text(operand) for operand in node.args]
                return [(*self._place(node), self.words[name].format(*operands))]
            case ast.Name("xp" | "XP"):
                return [(*self._place(node), self.module)]
        return sorted(change for child in ast.iter_child_nodes(node) for change in self._changes(child))
