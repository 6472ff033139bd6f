"""Programs as listings: one line for each node, in an order in which they can be computed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from hesse.ir import Einsum, Node, topological
from hesse.printing.chains import whole_labels
from hesse.printing.describe import broadcasting, describe, is_indexed, is_large
from hesse.printing.forms import Call, Form, Leaf, Sum
from hesse.printing.notation import (
    LETTERS,
    axes_text,
    fresh_names,
    letter,
    number_text,
    range_notes,
    shape_text,
    unused_sizes,
)
from hesse.printing.pieces import Piece, in_order, render


def einsum_text(node: Node, taken: frozenset[str] = frozenset()) -> str:
    """A listing of the nodes below and including `node`, the result last.

    Products are written as `einsum("ij,j->i", A, x)` where all axes are plain labels, and as
    `einsum("x[i+1] y[i] -> [i]")` elsewhere. The shape is given where the operands do not determine it.
    Names that are `taken` are not given to nodes.
    """
    order = topological([node])
    temporaries, constants = fresh_names("t", order, taken), fresh_names("c", order, taken)
    pieces: dict[Leaf, Piece] = {}
    lines: list[str] = []
    for step in order:
        if step.operands or is_large(step) or is_indexed(step):
            name = next(constants if is_large(step) else temporaries)
            lines.append(f"{name} = {_right_side(step, pieces)}")
            pieces[Leaf(step)] = Piece(name)
        else:
            pieces[Leaf(step)] = render(describe(step), pieces)
    return "\n".join(lines or [pieces[Leaf(node)].text])


def _right_side(node: Node, pieces: Mapping[Leaf, Piece]) -> str:
    if isinstance(node, Einsum):
        factors = ([] if node.scale == 1 else [number_text(node.scale)]) + list(unused_sizes(node))
        return " * ".join([*factors, _product(node, pieces)])
    return render(in_order(_by_names(node), pieces), pieces).text


def _by_names(node: Node) -> Form:
    """The form of a sum or a function in which every operand that has a line of its own is a leaf."""
    form = describe(node)
    operands = tuple(
        Leaf(operand) if operand.operands else broadcasting(operand) for operand in node.operands
    )
    if isinstance(form, Sum):
        return Sum(operands)
    return replace(form, arguments=operands) if isinstance(form, Call) and operands else form


def _product(node: Einsum, pieces: Mapping[Leaf, Piece]) -> str:
    names = [pieces[Leaf(operand)].text for operand in node.operands]
    if node.axes == (node.output,) and node.operands[0].shape == node.shape == node.ranges:
        return names[0]
    spec = einsum_spec(node)
    arguments = [f'"{affine_spec(node, names)}"'] if spec is None else [f'"{spec}"', *names]
    return f"einsum({', '.join([*arguments, *_shape(node)])})"


def einsum_spec(node: Einsum) -> str | None:
    """The subscripts of a product with plain labels, `ij,j->i`, or None if an axis is not a plain label."""
    tables = [
        whole_labels(axes, operand.shape, node.ranges)
        for axes, operand in zip(node.axes, node.operands, strict=True)
    ]
    tables.append(whole_labels(node.output, node.shape, node.ranges))
    if len(node.ranges) > len(LETTERS):
        return None
    texts = []
    for table in tables:
        if table is None or None in table:
            return None
        texts.append("".join(letter(label) for label in table if label is not None))
    return f"{','.join(texts[:-1])}->{texts[-1]}"


def affine_spec(node: Einsum, names: list[str]) -> str:
    """The product in the notation for any axes, `x[i+1] y[i] -> [i]`."""
    factors = [name + (axes_text(axes) if axes else "") for name, axes in zip(names, node.axes, strict=True)]
    notes = [f", {letter(label)}<{size}" for label, size in range_notes(node)]
    return " ".join([*factors, "->", axes_text(node.output)]) + "".join(notes)


def _shape(node: Einsum) -> list[str]:
    """The shape of the result as an argument, if the operands do not determine it."""
    whole = {
        (axis, size)
        for axes, operand in zip(node.axes, node.operands, strict=True)
        for axis, size in zip(axes, operand.shape, strict=True)
        if axis.is_label and node.ranges[axis.label] == size
    }
    determined = whole.issuperset(zip(node.output, node.shape, strict=True))
    return [] if determined else [f"shape={shape_text(node.shape)}"]
