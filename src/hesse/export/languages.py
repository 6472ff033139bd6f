"""The languages, and what each has a function for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from hesse.errors import MissingKernelError
from hesse.export import cpp_tables, julia_tables, matlab_tables, python_tables


class Tables(NamedTuple):
    """The functions of a language by the names of rows and records, and the module that lists them."""

    elementwise: Mapping[str, str]
    operations: Mapping[str, str]
    module: str


TABLES: dict[str, Tables] = {
    **{
        name: Tables(python_tables.ELEMENTWISE[name], python_tables.OPERATIONS[name], python_tables.__name__)
        for name in ("numpy", "torch", "jax")
    },
    **{
        name: Tables(tables.ELEMENTWISE, tables.OPERATIONS, tables.__name__)
        for name, tables in (("matlab", matlab_tables), ("julia", julia_tables), ("cpp", cpp_tables))
    },
}
LANGUAGES = tuple(TABLES)


def row(name: str, language: str) -> str:
    """How an element-wise function is written; a function that the language lacks is refused."""
    if name not in TABLES[language].elementwise:
        raise _missing("function", name, language)
    return TABLES[language].elementwise[name]


def record(name: str, language: str) -> str:
    """How an operation on whole arrays is written; one that the language lacks is refused."""
    if name not in TABLES[language].operations:
        raise _missing("operation", name, language)
    return TABLES[language].operations[name]


def _missing(kind: str, name: str, language: str) -> MissingKernelError:
    others = [
        other for other, tables in TABLES.items() if name in tables.elementwise or name in tables.operations
    ]
    if others:
        *first, last = others
        remedy = f"export to {', '.join(first)} or {last}" if first else f"export to {last}"
    elif kind == "function":
        remedy = f"enter it into ELEMENTWISE of {TABLES[language].module}, or give its row a definition"
    else:
        remedy = f"enter it into OPERATIONS of {TABLES[language].module}"
    return MissingKernelError(f"the {kind} {name} cannot be written in {language} code; {remedy}")
