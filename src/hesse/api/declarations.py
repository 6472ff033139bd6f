"""Declarations that a printed formula needs to be read again: the names of sizes it uses as numbers."""

from __future__ import annotations

import re
from collections.abc import Sequence

from hesse.frontends.language import sizes_as_numbers
from hesse.ir import Variable
from hesse.ir.attributes import stated


def type_words(variable: Variable) -> str:
    """The type of a variable in the words of a declaration, without sizes.

    >>> from hesse import parse
    >>> type_words(parse("psd matrix A; x'*A*x").variables[0])
    'psd matrix'
    """
    kinds = ("scalar", "vector", "matrix")
    kind = kinds[variable.rank] if variable.rank < len(kinds) else f"tensor({variable.rank})"
    return " ".join([*stated(variable.attributes), kind])


def sizes_text(variable: Variable) -> str:
    """The sizes of a variable as they are declared; nothing for a product, which a declaration cannot say.

    >>> from hesse import parse
    >>> sizes_text(parse("A*x").variables[0])
    '(m,n)'
    """
    names = [str(size) for size in variable.shape]
    return f"({','.join(names)})" if names and not any("*" in name for name in names) else ""


def with_declarations(text: str, variables: Sequence[Variable], sizes: Sequence[str]) -> str:
    """The text, with declarations before it of the sizes that are used as numbers.

    >>> from hesse import parse
    >>> print(parse("vector x(n); sum(x.^2)/n").diff("x"))
    vector x(n); 2*x/n
    """
    declarations = []
    named = set(sizes).intersection(re.findall(r"\w+", text))
    unknown = sizes_as_numbers(text, [size for size in sizes if size in named]) if named else []
    while unknown:
        size = unknown[0]
        found = next((v for v in variables if size in v.shape and sizes_text(v)), None)
        declared = f"{type_words(found).split('(')[0]} {found.name}{sizes_text(found)}" if found else ""
        declarations.append(declared or f"vector size_{size}({size})")
        known = {size, *(found.shape if found else ())}
        unknown = [name for name in unknown if name not in known]
    return "; ".join([*declarations, text])
