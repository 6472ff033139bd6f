"""Write `torch-operations.md` from the table of ATen operations: `python docs/torch_operations.py`.

A test compares the page with what this script would write.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch._decomp import decomposition_table

import hesse.frontends.aten  # noqa: F401  fills the table
from hesse.frontends.aten.foreign import is_refused
from hesse.frontends.aten.memory import LAYOUT
from hesse.frontends.aten.table import HANDLERS
from hesse.frontends.aten.tracer import VALUES

PAGE = Path(__file__).parent / "torch-operations.md"
RULE = "rule"
DECOMPOSED = "decomposed"
FOREIGN = "PyTorch's rule"
KNOWN = "known tensors"
REFUSED = "refused"
MEANINGS = {
    RULE: "hesse builds an expression of its own; derivatives of any order are its formulas",
    DECOMPOSED: "PyTorch's own decomposition into other operations is traced",
    FOREIGN: "PyTorch computes it and its own rule for the derivative is traced, with a warning",
    KNOWN: "needs the entries of a tensor: works on tensors that the function makes or that are known",
    REFUSED: "draws random numbers, which would be the same in every call (dropout only in training mode), "
    "or changes how a tensor lies in memory: refused by name",
}
INTRODUCTION = """\
# Operations of PyTorch

<!-- Written by docs/torch_operations.py from the table of ATen operations. Do not edit. -->

Functions of torch tensors are traced operation by operation. This page lists every operation in the
table, and all others that PyTorch itself calls its core, with how each is treated. Operations that are
not listed are treated in the same way: decomposed if PyTorch can do that, else differentiated by
PyTorch's rule; those with complex results are refused by name unless they are listed.
"""


def page() -> str:
    """The page as it should be."""
    rows = sorted(_rows())
    counts = {kind: sum(found == kind for _, found in rows) for kind in MEANINGS}
    parts = [INTRODUCTION, "| Treatment | Operations | Meaning |\n| --- | --- | --- |"]
    parts += [f"| {kind} | {counts[kind]} | {meaning} |" for kind, meaning in MEANINGS.items()]
    parts += ["", "| Operation | Treatment |\n| --- | --- |"]
    parts += [f"| `{name}` | {found} |" for name, found in rows]
    return "\n".join(parts) + "\n"


def _rows() -> Iterator[tuple[str, str]]:
    """Each operation with its treatment."""
    ruled = {name.partition(".")[0] for name in HANDLERS}
    yield from ((name, REFUSED if name in LAYOUT else RULE) for name in ruled)
    for name in sorted(_core() - ruled):
        yield name, _treatment(name)


def _core() -> set[str]:
    names = (name for name in dir(torch.ops.aten) if not name.endswith("_"))
    return {name for name in names if any(torch.Tag.core in f.tags for f in _overloads(name))}


def _overloads(name: str) -> list[Any]:
    packet = getattr(torch.ops.aten, name)
    overloads = packet.overloads() if hasattr(packet, "overloads") else []
    return [getattr(packet, overload) for overload in overloads]


def _treatment(name: str) -> str:
    overloads = [f for f in _overloads(name) if torch.Tag.core in f.tags]
    if name in VALUES:
        return KNOWN
    if any(map(is_refused, overloads)):
        return REFUSED
    arguments = [argument for f in overloads for argument in f._schema.arguments]
    if not any("Tensor" in str(argument.type) for argument in arguments):
        return KNOWN
    if all(f._can_decompose() or f in decomposition_table for f in overloads):
        return DECOMPOSED
    return FOREIGN


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
