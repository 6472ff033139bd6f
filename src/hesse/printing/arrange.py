"""How a formula is laid out, whatever it is written in: what is joined, what gets a name, in which order.

Work is linear in the number of nodes, and none is visited recursively.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from hesse.ir import Add, Einsum, Map, Node, remembered, topological
from hesse.printing.describe import describe, is_large
from hesse.printing.digits import is_reshape, taken_apart
from hesse.printing.forms import (
    Call,
    Chain,
    Entry,
    Form,
    Indexed,
    Leaf,
    Scaled,
    Transposed,
    labels_in,
    leaves,
    mapped,
    parts,
    sizes_in,
    unsized,
)
from hesse.printing.index_forms import Indexing, lettered, plain_labels, whole_nodes
from hesse.printing.join import Joining, signed
from hesse.printing.kronecker import matrix_of
from hesse.printing.names import Names
from hesse.printing.pieces import Draft, Level, Piece, in_order, render
from hesse.printing.presentation import present
from hesse.printing.products import is_matrix_power, matrix_powers

SHARED_LENGTH = 10
"""A subexpression that is used more than once gets a name if its text is longer than this …"""
OFTEN, OFTEN_LENGTH = 3, 7
"""… and if it is a sum and used this often, if it is this long …"""
VERY_OFTEN = 5
"""… and whatever it is, if it is used as often as this."""
ENTRY_LENGTH = 24
"""A longer product gets a name before it gets indices: `B[i,j] where B = …`."""
TEXT_LIMIT = 2000
"""Subexpressions get names before a piece of text grows longer than this …"""
LONG_LENGTH = 40
"""… if they are longer than this."""
DEPTH_LIMIT = 40
"""Subexpressions get names before this many nodes are nested in each other (TeX gives up at 255 groups)."""
DISTRIBUTED_NODES = 150
"""Larger expressions, and tensors, are not tried with products distributed over sums …"""
DISTRIBUTED_COST = 3
"""… which must make the text shorter by as many characters as this."""
ATTEMPTS = 4
"""How often a layout is made again without the names that were used only once."""


@dataclass(frozen=True)
class Definition:
    """A name for a part of a formula, with letters for its axes where it is written with indices."""

    name: str
    letters: tuple[str, ...] = ()


@dataclass
class Arrangement:
    """How the formula of a node is laid out: the same for text and LaTeX.

    `forms` are those of the parts that are printed, operands first, with the terms of sums in printing
    order; `definitions` are the names of the named ones, `pieces` the texts (for these, their names).
    """

    root: Leaf
    left: Definition | None
    forms: dict[Leaf, Form] = field(default_factory=dict)
    definitions: dict[Leaf, Definition] = field(default_factory=dict)
    pieces: dict[Leaf, Piece] = field(default_factory=dict)
    texts: dict[Leaf, str] = field(default_factory=dict)

    @property
    def length(self) -> int:
        """The length of the formula with its definitions."""
        return sum(len(self.texts[leaf]) + 5 for leaf in [self.root, *self.definitions])


@remembered  # text and LaTeX of a formula are often asked for together
def arrange(node: Node, strict: bool = False, taken: frozenset[str] = frozenset()) -> Arrangement:
    """The shortest layout of the formula of a node; `strict` asks for index notation throughout.

    Names that are `taken` mean something else to the reader.
    """
    merged = any(map(is_reshape, topological([node])))
    apart = taken_apart(node) if merged else None
    layout = _shortest(node if apart is None else apart, strict, taken)
    if not merged or apart is not None or node.rank != 2 or strict:
        return layout
    form = matrix_of(node, 1)
    if form is None or Leaf(node) in leaves(form):
        return layout
    return min(layout, arrange_form(form, node, taken), key=lambda other: other.length)


def _shortest(node: Node, strict: bool, taken: frozenset[str]) -> Arrangement:
    plain = present(node)
    layout = _arranged(plain, strict, taken)
    most = DISTRIBUTED_NODES if node.rank <= 2 else 0
    if len(topological([node])) > most or (other := present(node, distribute=True)) is plain:
        return layout
    distributed = _arranged(other, strict, taken)
    return distributed if distributed.length + DISTRIBUTED_COST <= layout.length else layout


def arrange_form(form: Form, root: Node, taken: frozenset[str] = frozenset()) -> Arrangement:
    """The layout of a form whose leaves are nodes of their own; `root` is the node that it stands for."""
    return _arranged(root, False, taken, form)


def _arranged(node: Node, strict: bool, taken: frozenset[str], form: Form | None = None) -> Arrangement:
    unnamed: set[Leaf] = set()
    sizes: set[str] = set()
    for _ in range(ATTEMPTS):
        arranger = _Arranger(node, strict, unnamed, taken | sizes, form)
        found = arranger.arrangement()
        once = arranger.used_once()
        clashing = arranger.sizes_like_indices()
        if not once and not clashing:
            break
        unnamed |= once
        sizes |= clashing
    return found


class _Arranger:
    def __init__(
        self, root: Node, strict: bool, unnamed: set[Leaf], taken: frozenset[str], form: Form | None
    ) -> None:
        roots = [root] if form is None else [leaf.node for leaf in leaves(form)]
        self.names = Names([root, *roots], taken)
        self.unnamed, self.given = unnamed, form
        order = topological(roots)
        whole = whole_nodes(roots)
        operands = Counter(operand for node in order for operand in node.operands)
        self.shared = {node for node, count in operands.items() if count > 1}
        products = [node for node in order if isinstance(node, Einsum) and (strict or node not in whole)]
        self.plain = all(plain_labels(node) is not None for node in products)
        self.whole = whole if self.plain else set(order)
        self.indexing = Indexing(self.whole, strict)
        large = root.rank > 2 and isinstance(root, Add | Map | Einsum)
        self.root = Leaf(root, indexed=form is None and self.plain and (strict or large or root not in whole))
        self.own: dict[Leaf, Form] = {}
        self.depths: dict[Leaf, int] = {}
        self.forced: set[Leaf] = set()

    def arrangement(self) -> Arrangement:
        """Choose the subexpressions that get names, and print all pieces."""
        root = self.root
        left = None
        if root.indexed and root.node.rank:
            left = Definition(self.names.left_side(root.node.rank), self.names.axes(root.node.rank))
        self.result = Arrangement(root, left)
        forms, self.uses = self._described(root)
        for leaf, form in forms.items():
            for operand in self._unreadable(form):
                self._name(operand)
            if not self._enter(leaf, self._joined(leaf, form)):
                self._name_longest(form, len(self.result.texts[leaf]))
                self._enter(leaf, self._joined(leaf, form))
            if leaf != root and self._deserves_name(leaf):
                self._name(leaf)
        return self.result

    def used_once(self) -> set[Leaf]:
        """The named parts that turned out to be written only once, and need no name."""
        uses = Counter(leaf for form in self._reachable() for leaf in leaves(form))
        free = self.result.definitions.keys() - self.forced
        return {leaf for leaf in free if uses[leaf] < 2 and not is_large(leaf.node)}

    def sizes_like_indices(self) -> set[str]:
        """The sizes that are printed and have the name of an index, if there are any, with all others."""
        letters = self.names.indices()
        if not letters:
            return set()
        sizes = set().union(*map(sizes_in, self._reachable()))
        return sizes if sizes & letters else set()

    def _reachable(self) -> list[Form]:
        seen: dict[Leaf, Form] = {}
        stack = [self.root]
        while stack:
            leaf = stack.pop()
            if leaf not in seen:
                seen[leaf] = self.result.forms[leaf]
                stack += leaves(seen[leaf])
        return list(seen.values())

    def _described(self, root: Leaf) -> tuple[dict[Leaf, Form], dict[Leaf, int]]:
        """The forms of the parts that are printed, operands first, and how often each would be written."""
        forms: dict[Leaf, Form] = {}
        order: dict[Leaf, Form] = {}
        stack = [(root, False)]
        while stack:
            leaf, done = stack.pop()
            if done:
                order[leaf] = forms[leaf]
            elif leaf not in order:
                forms[leaf] = self._form(leaf)
                stack.append((leaf, True))
                stack += [(part, False) for part in reversed(list(leaves(forms[leaf]))) if part not in order]
        uses = {root: 1}
        for form in order.values():
            for leaf in leaves(form):
                uses[leaf] = uses.get(leaf, 0) + 1
        return order, uses

    def _form(self, leaf: Leaf) -> Form:
        if leaf == self.root and self.given is not None:
            return self.given
        if leaf.indexed:
            return self.indexing.form(leaf.node)
        form = describe(leaf.node, self.shared)
        if isinstance(form, Call) and form.table in ("apply", "foreign"):
            form = mapped(form, self._argument)
            self.forced |= {argument for argument in leaves(form) if argument.indexed}
        return form

    def _argument(self, form: Form) -> Form:
        """An operand of a function of whole tensors."""
        return Leaf(form.node, form.node not in self.whole) if isinstance(form, Leaf) else form

    def _joined(self, leaf: Leaf, form: Form) -> Form:
        own = {part: self.own[part] for part in leaves(form) if part not in self.result.definitions}
        scalar = leaf.indexed or leaf.node.rank == 0
        return Joining(own, Draft(self.result.pieces).length).join(form, scalar)

    def _lettered(self, form: Form, letters: tuple[str, ...]) -> Form:
        labels = labels_in(form)
        bound = labels - set(range(len(letters)))
        summed = self.names.summed(len(bound), letters)
        return lettered(form, dict(enumerate(letters)), summed) if labels else form

    def _enter(self, leaf: Leaf, form: Form) -> bool:
        """Print a part; the answer is whether its text is neither too long nor too deeply nested."""
        letters = self.names.axes(leaf.node.rank) if leaf.indexed else ()
        ordered = in_order(self._lettered(unsized(signed(form)), letters), self.result.pieces)
        piece = render(ordered, self.result.pieces)
        self.own[leaf], self.result.forms[leaf], self.result.pieces[leaf] = form, ordered, piece
        self.result.texts[leaf] = piece.text
        self.depths[leaf] = 1 + max((self.depths[part] for part in leaves(form)), default=-1)
        return len(piece.body) <= TEXT_LIMIT and self.depths[leaf] <= DEPTH_LIMIT

    def _deserves_name(self, leaf: Leaf) -> bool:
        if leaf in self.forced or is_large(leaf.node):
            return True
        if leaf in self.unnamed or not leaf.node.operands or self._is_short_power(leaf):
            return False
        length, uses = len(self.result.pieces[leaf].body), self.uses[leaf]
        if uses > 1 and length > SHARED_LENGTH:
            return True
        often = OFTEN if isinstance(leaf.node, Add) else VERY_OFTEN
        return uses >= often and length >= OFTEN_LENGTH

    def _is_short_power(self, leaf: Leaf) -> bool:
        """Whether a part is `X^16` or its transpose, which is joined with other powers of `X`."""
        own = self.own[leaf]
        form = matrix_powers(own) if isinstance(own, Chain) else own
        power = form.body if isinstance(form, Transposed) else form
        return is_matrix_power(power) and isinstance(power.arguments[0], Leaf)

    def _name(self, leaf: Leaf) -> None:
        """Print a part by a name from now on."""
        name = self.names.constant() if is_large(leaf.node) else self.names.name(leaf.node)
        letters = self.names.axes(leaf.node.rank) if leaf.indexed else ()
        self.result.definitions[leaf] = Definition(name, letters)
        self.result.pieces[leaf] = Piece(name)
        self.depths[leaf] = 0

    def _unreadable(self, form: Form) -> list[Leaf]:
        """The operands of a product with indices that would be long expressions in parentheses."""
        found: list[Leaf] = []
        limit = SHARED_LENGTH
        body = form.body if isinstance(form, Scaled) else form
        if isinstance(body, Indexed):
            found = list(leaves(body))
        elif any(isinstance(part, Entry) for part in _inside(form)):
            limit = ENTRY_LENGTH
            entries = [part.body for part in _inside(form) if isinstance(part, Entry)]
            found = [leaf for leaf in entries if isinstance(leaf, Leaf) and not leaf.indexed]
        pieces: Mapping[Leaf, Piece] = self.result.pieces
        unnamed = [leaf for leaf in dict.fromkeys(found) if leaf not in self.result.definitions]
        long = [
            leaf for leaf in unnamed if pieces[leaf].level < Level.ATOM and len(pieces[leaf].body) > limit
        ]
        self.forced |= set(long)
        return long

    def _name_longest(self, form: Form, length: int) -> None:
        """Name operands until the text is short and no operand is deeply nested."""
        for leaf in sorted(dict.fromkeys(leaves(form)), key=lambda leaf: -len(self.result.pieces[leaf].body)):
            size = len(self.result.pieces[leaf].body)
            too_deep = self.depths[leaf] >= DEPTH_LIMIT
            named = leaf in self.result.definitions
            if (
                leaf.node.operands
                and not named
                and (too_deep or (length > TEXT_LIMIT and size > LONG_LENGTH))
            ):
                self._name(leaf)
                self.forced.add(leaf)
                length -= size - len(self.result.pieces[leaf].body)


def _inside(form: Form) -> list[Form]:
    return [form, *(inner for part in parts(form) for inner in _inside(part))]
