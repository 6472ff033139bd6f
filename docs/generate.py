"""Write `operations.md` from the tables of operations: `python docs/generate.py`.

A test compares the page with what this script would write.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from hesse import ir
from hesse.calculus import differentiate
from hesse.errors import ShapeError
from hesse.frontends import Expression, dispatch, special
from hesse.ops import ELEMENTWISE, OPERATIONS, General, Linear
from hesse.ops.conventions import CONVENTIONS, KINKS, convention
from hesse.ops.elementwise import BUILDERS, function
from hesse.ops.registry import operation
from hesse.printing import text
from hesse.rewrite import simplify
from hesse.rewrite.root_rules import ROOT_RULES
from hesse.rewrite.rules import RULES
from hesse.rewrite.scatter_rules import SCATTER_RULES
from hesse.rewrite.shift_rules import NORMALISATION_RULES, SHIFT_RULES
from hesse.rewrite.softmax_rules import SOFTMAX_RULES

PAGE = Path(__file__).parent / "operations.md"
CONSTANT = "locally constant"
PARAMETERS: dict[str, tuple[Any, ...]] = {
    "expm_chain": (1,),
    "minors": (1,),
    "scatter": (9,),
    "flat_index": (9, 1),
    "searchsorted": ("left",),
    "reshape": (1, "m", "n"),
}
"""Parameters with which the records that have some are shown."""
SHAPES: list[tuple[ir.Shape, ...]] = [
    (("n",),),
    (("n", "n"),),
    (("n", "n"), ("n",)),
    ((9,),),
    ((9, 9),),
    ((9, 9), (9,)),
    (("m", "n"), ("p", "q")),
    (("n",), ("n",)),
    (("n",), ("n",), ("n",)),
]
"""Shapes of operands to show a record with: the first that the record accepts is taken."""
LINEAR_SHAPES: dict[str, ir.Shape] = {"vec": ("m", "n"), "reshape": ("m*n",)}
"""Operands of the linear records that do not take any vector."""
INTRODUCTION = """\
# Operations

<!-- Written by docs/generate.py from the tables of operations. Do not edit. -->

Everything on this page is read from the tables that hesse itself works with.
Derivatives of higher order follow from the ones shown, because these are
formulas of operations again.

The notation is that of the printer: `.*` and `./` work element by element, `A'` is
the transpose. What has no matrix notation is written with indices, `T[i,j,k] = …`, and
products with shifted axes say where their entries are added: `x[i] -> [i+1]`.
*Locally constant* means that no derivative passes through.
"""
INTEGERS = """\
## Integers

An integer argument, and the result of `argmax`, `argmin`, `argsort`, `searchsorted` or
`digitize`, can be computed with and then index: `x[i + 1] - x[i]`, `x[(i + 1) % n]`,
`x[np.where(mask, i, j)]`, `x[np.floor(t).astype(int)]`, `order[i]`. Sums, products, `//`, `%`,
`abs`, minimum, maximum and `clip` are computed in integers of 64 bits (or the widest that JAX is
set to), whatever the type of the other arrays. Negative positions count from the end, as in
NumPy. Positions, and what is computed from them, are *locally constant*: no derivative passes
through them, also where they are used as numbers. So the gradient of `sum(x * argmax(x))` is
`argmax(x)` everywhere.

- **One-hot**: `i[:, None] == np.arange(n)`, or `np.eye(n)[i]`.
- **Tables**: `table[i]` of an array of real numbers that the function makes or reads. Of other arrays
  write `hesse.constant(table)[i]`.
- **Windows** that start at a traced position: `x[i + np.arange(n)]`, or `np.take` along an axis.
  `x[i : i + n]` may be shorter at the end, so its size is not known, and it is refused.
- **Sums by index**: `np.bincount(i, weights, minlength=n)`, or `np.add.at(y, i, values)`.
- **Outside of an axis**: NumPy raises `IndexError` and names the index; PyTorch raises (on a GPU
  by an assertion); JAX reads nan and drops what would be written.
"""
MASKS = """\
## Masks

What a choice leaves out leaves no trace in derivatives of any order, be it infinite or nan: `np.where`,
`np.piecewise`, `x[mask] = …`, `np.maximum`, `np.clip`, `relu`, `nansum`, and their relatives in PyTorch
and JAX.
No second `where` around the argument is needed, as it is in these libraries:

```pycon
>>> import numpy as np
>>> import hesse
>>> def entropy(p):
...     return -np.sum(np.where(p > 0, p * np.log(p), 0.0))

>>> with np.errstate(all="ignore"):  # log(0), of which NumPy warns
...     hesse.grad(entropy)(np.array([0.5, 0.0, 0.5])).round(4) + 0.0
array([-0.3069,  0.    , -0.3069])

```

A product with a comparison, `(p > 0) * np.log(p)`, is a product of numbers: 0 times infinity is nan.
"""
EINSUMS = """\
## Einsums

These need no row, no record and no derivative rule, because they are einsums with
affine axes, or sums of such:

- products: `einsum`, `matmul`, `dot`, `inner`, `outer`, `tensordot`, `kron`, `trace`,
  squares and small integer powers;
- sums and means over any axes, and everything made of them: variances, norms;
- transposes, broadcasts, new and dropped axes, `diag`, `diagonal`, `repeat`, `tile`;
- slices with any steps, single entries, `flip`, `roll`, `pad`, `split`;
- `concatenate`, `stack`, `block`;
- `reshape`, `ravel`, sliding windows.
"""


def page() -> str:
    """The text of the page."""
    parts = [
        INTRODUCTION,
        _rows(),
        _formulas(),
        _general(),
        _linear(),
        INTEGERS,
        _kinks(),
        MASKS,
        EINSUMS,
        _names(),
        _laws(),
    ]
    return "\n".join(parts)


def _table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _code(content: str) -> str:
    """Inline code that a table may hold."""
    return "`" + content.replace("|", "\\|") + "`"


def _summary(documented: Any) -> str:
    return (inspect.getdoc(documented) or "").splitlines()[0].replace("|", "\\|").replace("*", "\\*")


def _lines(entries: Sequence[str]) -> str:
    """One line for each entry; a single one if all are equal."""
    return "<br>".join(entries if len(set(entries)) > 1 else entries[:1])


def _derivative(value: ir.Node, operand: ir.Node) -> str:
    (value,) = simplify([value])
    return _code(text(*differentiate(value, [operand], "reverse")))


def _rows() -> str:
    rows = []
    for name, row in sorted(ELEMENTWISE.items()):
        letters = "xyz"[: row.arity]
        operands = [ir.variable(letter, ()) for letter in letters]
        value = function(name)(*operands)
        partials = [
            CONSTANT if formula is None else _derivative(value, operand)
            for formula, operand in zip(row.partials, operands, strict=True)
        ]
        rows.append([_code(name), str(row.arity), _code(row.latex.format(*letters)), _lines(partials)])
    return (
        "## Element-wise functions\n\n"
        "The rows of the element-wise table. Derivatives are shown for scalars, by one operand after the\n"
        "other.\n\n" + _table(["Name", "Operands", "LaTeX", "Derivative"], rows)
    )


def _formulas() -> str:
    rows = []
    x = ir.variable("x", ())
    for name in sorted(set(BUILDERS) - set(ELEMENTWISE)):
        value = BUILDERS[name](x)
        rows.append([_code(name), _summary(BUILDERS[name]), _code(text(value)), _derivative(value, x)])
    return (
        "## Element-wise formulas\n\n"
        "Functions without a row, because they are formulas of rows. Further parameters have their default\n"
        "values here.\n\n" + _table(["Name", "Meaning", "Formula", "Derivative"], rows)
    )


def _general() -> str:
    rows = []
    for name, record in sorted(OPERATIONS.items()):
        if isinstance(record, General):
            operands, value = _example(record)
            letters = [operand.name for operand in operands]
            laws = [CONSTANT if rule is None else _summary(rule) for rule in record.partials]
            partials = [
                CONSTANT if rule is None else _derivative(value, operand)
                for rule, operand in zip(record.partials, operands, strict=True)
            ]
            printed = [_code(name), str(len(operands)), _code(record.latex.format(*letters))]
            rows.append([*printed, _lines(laws), _lines(partials)])
    return (
        "## Operations on whole tensors\n\n"
        "Records with partials. Linear algebra, normalisations and positions act on the last axes, and any\n"
        "axes before these are a batch; products act along the first axis. The derivative has the axes of\n"
        "the result first and those of the operand after them.\n\n"
        + _table(["Name", "Operands", "LaTeX", "Law", "Derivative"], rows)
    )


def _example(record: General) -> tuple[list[ir.Variable], ir.Node]:
    """Operands that the record takes, and its node; with symbolic sizes where its derivative has them."""
    for shapes in SHAPES:
        if len(shapes) != len(record.partials):
            continue
        matrices = iter("AB")
        letters = iter("xyz")
        operands = [ir.variable(next(matrices if len(shape) == 2 else letters), shape) for shape in shapes]
        try:
            value = operation(record.name, *operands, params=PARAMETERS.get(record.name, ()))
            if all(record.partials):
                differentiate(value, operands, "reverse")
        except ShapeError:
            continue
        return operands, value
    raise AssertionError(f"no example fits the record {record.name}")


def _linear() -> str:
    rows = []
    for name, record in sorted(OPERATIONS.items()):
        if isinstance(record, Linear):
            params = PARAMETERS.get(name, ())
            count = record.latex.count("{}")
            shape = LINEAR_SHAPES.get(name, (5 if params else 9,))
            index = [ir.variable("k", (5,), kind="integer")] * (count - 1)
            value = operation(name, ir.variable("x", shape), *index, params=params)
            cotangent = ir.variable("u", value.shape)
            transposed = text(record.transpose(value, cotangent))  # type: ignore[arg-type]
            letters = ["x", "k"][:count]
            rows.append([_code(name), str(count), _code(record.latex.format(*letters)), _code(transposed)])
    return (
        "## Linear operations that are no einsums\n\n"
        "Records with a transpose. They act on the first axes and carry all others along. `u` is a\n"
        "cotangent of the result, `k` an index array.\n\n"
        + _table(["Name", "Operands", "LaTeX", "Transpose, applied to `u`"], rows)
    )


def _kinks() -> str:
    rows = []
    for name, points in sorted(KINKS.items()):
        written = " and ".join(", ".join(f"{entry:g}" for entry in point) for point in points)
        rows.append([_code(name), written, *(_at_kink(library, name) for library in CONVENTIONS)])
    return (
        "## Kinks\n\n"
        "Derivatives, by one entry after the other, at points where a function has none. The first column\n"
        "is that of traced NumPy code and of the functions of hesse; the others are what front ends for JAX\n"
        "and PyTorch build (`hesse.ops.conventions`), compared with these libraries by the tests. `clip`\n"
        "has the bounds -1 and 1, `leaky_relu` the slope 0.01.\n\n"
        + _table(["Function", "At", "NumPy in hesse", "JAX", "PyTorch"], rows)
        + "\nThe norm of a zero vector has no derivative, and `np.linalg.norm` says so with nan, as in JAX:\n"
        "a number would hide that the function is not smooth there. Where all pairs of points are summed,\n"
        "each with itself, `hesse.safe_norm` is what is wanted: at 0 all its derivatives are 0.\n"
    )


def _at_kink(library: str, name: str) -> str:
    operands = [ir.variable(f"x{k}", (len(point),)) for k, point in enumerate(KINKS[name])]
    value = convention(library, name)(*operands)
    gradients = differentiate(ir.total(value, range(value.rank)), operands, "reverse")
    values = {operand.name: np.array(point) for operand, point in zip(operands, KINKS[name], strict=True)}
    with np.errstate(all="ignore"):
        found = [Expression(gradient).evaluate(**values) for gradient in gradients]
    return ", ".join(f"{entry:g}" for part in found for entry in part)


def _names() -> str:
    known = {dispatch.function_name(key) for key in dispatch.FUNCTIONS}
    numpy_names = sorted(name for name in known if name.startswith("np."))
    scipy_names = sorted(f"scipy.special.{name}" for name in dispatch.NAMED)
    own = sorted(
        f"hesse.{name}"
        for name, value in vars(special).items()
        if inspect.isfunction(value) and not name.startswith("_") and hasattr(value, "__wrapped__")
    )
    return (
        "## Names to call them by\n\n"
        "In traced code and on expressions, besides the operators, methods and indexing of arrays.\n\n"
        f"NumPy: {_listed(numpy_names)}.\n\n"
        f"SciPy: {_listed(scipy_names)}.\n\n"
        f"hesse, for expressions and for arrays: {_listed(own)}.\n"
    )


def _listed(names: Iterable[str]) -> str:
    return ", ".join(map(_code, names))


def _laws() -> str:
    laws = (*RULES, *SOFTMAX_RULES, *NORMALISATION_RULES, *SHIFT_RULES, *SCATTER_RULES, *ROOT_RULES)
    rows = [[_code(rule.__name__), _summary(rule)] for rule in laws]
    return (
        "## Laws\n\n"
        "What the simplification rewrites, from left to right, before and after every differentiation.\n\n"
        + _table(["Rule", "Law"], rows)
    )


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
