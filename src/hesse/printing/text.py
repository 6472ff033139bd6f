"""Formulas as one line of text.

The notation is that of matrix languages: `A*x` is a matrix product, `x.*y`, `x./y` and `x.^2` work element by
element, `A'` is the transpose, a vector is a column. What has no matrix notation is written with indices:
`2*(V[l,j] V[l,k] -> [i,j,i,k])` adds `2*V[l,j]*V[l,k]`, for all values of the labels, to entry `i,j,i,k` of a
tensor of zeros. Labels run as far as the axes they index let them, unless it says otherwise (`i<3`).
"""

from __future__ import annotations

from hesse.ir import Node
from hesse.printing.arrange import arrange


def text(node: Node) -> str:
    """The formula of a node on one line, shared and long parts named: `t1*t1' where t1 = softmax(A*x)`."""
    arrangement = arrange(node)
    definitions = [f"{name} = {piece.text}" for name, piece in arrangement.definitions.values()]
    result = arrangement.pieces[node].text
    return f"{result} where {'; '.join(definitions)}" if definitions else result
