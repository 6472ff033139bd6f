"""The product of two terms, summed over labels that both have: as matrices and vectors where it can be."""

from __future__ import annotations

from hesse.export.terms import Contract, Dot, MatrixProduct, Permute, Term, Terms

Labels = tuple[int, ...]
Labelled = tuple[Term, Labels]
"""A term and the labels of its axes."""


def multiplied_pair(terms: Terms, one: Labelled, two: Labelled, output: Labels) -> Labelled:
    """The product of two terms with labelled axes, and the labels of its axes (those of `output`)."""
    (left, a), (right, b) = one, two
    summed = [label for label in a if label in b and label not in output]
    batch = [label for label in output if label in a and label in b]
    rows = [label for label in output if label not in b]
    columns = [label for label in output if label not in a]
    if rows and columns and output.index(columns[0]) < output.index(rows[0]):
        left, right, a, b, rows, columns = right, left, b, a, columns, rows
    if not batch and len(summed) == 1 and len(rows) <= 1 and len(columns) <= 1:
        return _matrix_product(terms, (left, a), (right, b), summed[0])
    labels = (*batch, *rows, *columns)
    sizes = dict(zip(a + b, left.shape + right.shape, strict=True))
    numbers = {label: k for k, label in enumerate(dict.fromkeys(a + b))}  # equal contractions look equal
    tables = [tuple(numbers[label] for label in part) for part in (a, b, labels)]
    return terms.make(Contract, [sizes[label] for label in labels], left, right, *tables), labels


def _matrix_product(terms: Terms, one: Labelled, two: Labelled, summed: int) -> Labelled:
    (left, a), (right, b) = one, two
    if len(a) == len(b) == 1:
        return _dot(terms, left, right), ()
    if len(a) == 1:  # a matrix is written before a vector
        left, a, right, b = right, b, left, a
    matrix = terms.permuted(left, (0, 1) if a[1] == summed else (1, 0))
    row = a[0] if a[1] == summed else a[1]
    if len(b) == 1:
        return terms.make(MatrixProduct, matrix.shape[:1], matrix, right), (row,)
    other = terms.permuted(right, (0, 1) if b[0] == summed else (1, 0))
    column = b[1] if b[0] == summed else b[0]
    return terms.make(MatrixProduct, (matrix.shape[0], other.shape[1]), matrix, other), (row, column)


def _dot(terms: Terms, left: Term, right: Term) -> Term:
    """x'(A'y) is written y'(A x)."""
    if isinstance(right, MatrixProduct) and isinstance(right.left, Permute):
        matrix = right.left.operand
        left, right = right.right, terms.make(MatrixProduct, matrix.shape[:1], matrix, left)
    return terms.make(Dot, (), left, right)
