"""Formulas as one line of text.

The notation is that of matrix languages: `A*x` is a matrix product, `x.*y`, `x./y` and `x.^2` work element by
element, `A'` is the transpose, a vector is a column. What has no matrix notation is written with indices:
`H[i,j,k,l] = 2*delta[i,k]*sum[p](V[p,j]*V[p,l])`; a term is repeated along an index that it does not have.
Products with shifted or strided axes name the entry they are added to: `x[i] -> [i+1,i]` adds `x[i]`, for all
values of the labels, to entry `i+1,i` of a tensor of zeros. Labels run as far as the axes they index let
them, unless it says otherwise (`i<3`).
"""

from __future__ import annotations

from hesse.ir import Node
from hesse.printing.arrange import Arrangement, Definition, arrange


def text(node: Node, taken: frozenset[str] = frozenset()) -> str:
    """The formula of a node on one line: matrix notation where it has one, index notation where not.

    Shared and long parts are named: `A'*(diag(p) - p*p')*A where p = softmax(A*x)`; not by names that are
    `taken`, those of variables that the formula does not need.
    """
    return arrangement_text(arrange(node, taken=taken))


def index_text(node: Node, taken: frozenset[str] = frozenset()) -> str:
    """The formula of a node on one line, in index notation: `g[i] = 2*sum[p](A[i,p]*x[p])`."""
    return arrangement_text(arrange(node, strict=True, taken=taken))


def arrangement_text(layout: Arrangement) -> str:
    """A formula that has been laid out, on one line."""
    result = layout.texts[layout.root]
    if layout.left is not None:
        result = f"{_left_side(layout.left)} = {result}"
    definitions = [f"{_left_side(name)} = {layout.texts[part]}" for part, name in layout.definitions.items()]
    return f"{result} where {'; '.join(definitions)}" if definitions else result


def _left_side(definition: Definition) -> str:
    return definition.name + (f"[{','.join(definition.letters)}]" if definition.letters else "")
