"""How a formula is laid out, whatever it is written in: what is joined, what gets a name, in which order.

Work is linear in the number of nodes, and none is visited recursively.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass, field, replace

from hesse.ir import Node, topological
from hesse.printing.chains import chained, multiplied, transposed
from hesse.printing.describe import describe, is_large
from hesse.printing.forms import Call, Chain, Elementwise, Form, Indexed, Leaf, Scaled, Transposed, leaves
from hesse.printing.notation import fresh_names
from hesse.printing.pieces import Level, Piece, in_order, render

SHARED_LENGTH = 10
"""A subexpression that is used more than once gets a name if its text is longer than this."""
TEXT_LIMIT = 2000
"""Subexpressions get names before a piece of text grows longer than this …"""
LONG_LENGTH = 40
"""… if they are longer than this."""
JOIN_LIMIT = 12
"""Products are joined up to this many factors."""
DEPTH_LIMIT = 40
"""Subexpressions get names before this many nodes are nested in each other (TeX gives up at 255 groups)."""


@dataclass
class Arrangement:
    """How the formula of a node is laid out: the same for text and LaTeX.

    `forms` are those of the nodes that are printed, operands first, with the terms of sums in printing
    order; `definitions` are the names and texts of the named ones.
    """

    forms: dict[Node, Form] = field(default_factory=dict)
    definitions: dict[Node, tuple[str, Piece]] = field(default_factory=dict)
    pieces: dict[Node, Piece] = field(default_factory=dict)
    depths: dict[Node, int] = field(default_factory=dict)

    def enter(self, node: Node, form: Form) -> bool:
        """Print a node; the answer is whether its text is neither too long nor too deeply nested."""
        form = in_order(form, self.pieces)
        piece = render(form, self.pieces)
        depth = 1 + max((self.depths[leaf] for leaf in leaves(form)), default=-1)
        self.forms[node], self.pieces[node], self.depths[node] = form, piece, depth
        return len(piece.body) <= TEXT_LIMIT and depth <= DEPTH_LIMIT

    def name(self, node: Node, names: Iterator[str]) -> None:
        """Print a node by a name from now on."""
        name = next(names)
        self.definitions[node] = (name, self.pieces[node])
        self.pieces[node] = Piece(name)
        self.depths[node] = 0


def arrange(root: Node) -> Arrangement:
    """Choose the subexpressions that get names, and print all pieces."""
    order = topological([root])
    temporaries, constants = fresh_names("t", order), fresh_names("c", order)
    operands = Counter(operand for node in order for operand in node.operands)
    shared = {node for node, count in operands.items() if count > 1}
    forms, uses = _uses(root, shared)
    result = Arrangement()
    for node, form in forms.items():
        for operand in _unreadable(form, result.pieces):
            result.name(operand, temporaries)
        joined = _Joining(result, uses).join(form)
        if not result.enter(node, joined):
            _name_longest(form, len(result.pieces[node].body), result, temporaries)
            result.enter(node, form)
        if is_large(node):
            result.name(node, constants)
        elif uses[node] > 1 and len(result.pieces[node].body) > SHARED_LENGTH and node.operands:
            result.name(node, temporaries)
    return result


def _unreadable(form: Form, pieces: Mapping[Node, Piece]) -> list[Node]:
    """The operands of a product with indices that would be long expressions in parentheses."""
    body = form.body if isinstance(form, Scaled) else form
    if not isinstance(body, Indexed):
        return []
    found = {node: pieces[node] for node in leaves(body)}
    return [
        node for node, piece in found.items() if piece.level < Level.ATOM and len(piece.body) > SHARED_LENGTH
    ]


class _Joining:
    """Products joined with the products that are used only in them: `A*(B*x)` is written `A*B*x`.

    How a product is grouped is for the plan to say, not for the formula.
    """

    def __init__(self, result: Arrangement, uses: Mapping[Node, int]) -> None:
        self.result, self.uses = result, uses

    def join(self, form: Form) -> Form:
        """The form with its products joined."""
        match form:
            case Chain():
                whole = chained([self._inner(factor) for factor in form.factors])
                return whole if isinstance(whole, Chain) and len(whole.factors) <= JOIN_LIMIT else form
            case Elementwise():
                return self._elementwise(form)
            case Scaled() if form.body is not None:
                return replace(form, body=self.join(form.body))
            case Call():
                return replace(form, arguments=tuple(map(self.join, form.arguments)))
        return form

    def _own(self, leaf: Form) -> Form | None:
        """The form of a leaf that is written nowhere else."""
        if not isinstance(leaf, Leaf) or self.uses[leaf.node] > 1 or leaf.node in self.result.definitions:
            return None
        return self.result.forms[leaf.node]

    def _inner(self, factor: Form) -> Form:
        turned = isinstance(factor, Transposed)
        found = self._own(factor.body if isinstance(factor, Transposed) else factor)
        if not isinstance(found, Chain):
            return self.join(factor)
        return transposed(found) if turned else found

    def _elementwise(self, form: Elementwise) -> Form:
        groups: list[Form] = []
        for factor, power in form.factors:
            found = self._own(factor) if power == 1 else None
            inner = isinstance(found, Elementwise) and found.scalar == form.scalar
            groups.append(found if found is not None and inner else Elementwise(((factor, power),)))
        groups.append(Elementwise((), form.divisors))
        whole = multiplied(groups, form.scalar)
        return whole if len(whole.factors) <= JOIN_LIMIT else form


def _uses(root: Node, shared: Container[Node]) -> tuple[dict[Node, Form], dict[Node, int]]:
    """The forms of the nodes that are printed, operands first, and how often each would be written."""
    forms: dict[Node, Form] = {}
    order: dict[Node, Form] = {}
    stack = [(root, False)]
    while stack:
        node, done = stack.pop()
        if done:
            order[node] = forms[node]
        elif node not in order:
            forms[node] = describe(node, shared)
            stack.append((node, True))
            stack += [(leaf, False) for leaf in reversed(list(leaves(forms[node]))) if leaf not in order]
    uses = {root: 1}
    for form in order.values():
        for leaf in leaves(form):
            uses[leaf] = uses.get(leaf, 0) + 1
    return order, uses


def _name_longest(form: Form, length: int, result: Arrangement, names: Iterator[str]) -> None:
    """Name operands until the text is short and no operand is deeply nested."""
    for node in sorted(dict.fromkeys(leaves(form)), key=lambda node: -len(result.pieces[node].body)):
        size = len(result.pieces[node].body)
        too_deep = result.depths[node] >= DEPTH_LIMIT
        if node.operands and (too_deep or (length > TEXT_LIMIT and size > LONG_LENGTH)):
            result.name(node, names)
            length -= size - len(result.pieces[node].body)
