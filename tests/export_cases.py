"""Formulas whose exported code is executed: a name, the expression, and the variables to differentiate by."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

import hesse
from hesse.frontends.expression import Expression
from hesse.ir import bound_size, broadcast, map_, size_names, topological, uniform
from hesse.ir import variable as make_variable
from hesse.ops.registry import ELEMENTWISE, operation

SIZES = {"m": 4, "n": 3, "k": 2}


@dataclass(frozen=True)
class Case:
    """An expression under a name that is an identifier."""

    name: str
    expression: Expression

    def arrays(self) -> dict[str, np.ndarray]:
        """Arguments for the expression: positive, and well-conditioned where they are square matrices."""
        random = np.random.default_rng(7)
        arrays = {}
        for variable in self.expression.variables:
            shape = [bound_size(size, SIZES) for size in variable.shape]
            if variable.kind == "integer":
                arrays[variable.name] = random.integers(0, 3, shape)
                continue
            array = random.uniform(0.2, 0.9, shape)
            if len(shape) == 2 and shape[0] == shape[1]:
                array = array @ array.T + np.eye(shape[0])
            arrays[variable.name] = array
        return arrays

    def sizes(self) -> dict[str, int]:
        """Sizes that no argument has, by name."""
        found = {
            s for node in topological([self.expression.node]) for size in node.shape for s in size_names(size)
        }
        given = {s for variable in self.expression.variables for s in variable.shape}
        return {size: SIZES[size] for size in sorted(found - given)}

    def value(self) -> np.ndarray:
        """What hesse itself computes."""
        return self.expression.evaluate(**self.arrays(), **self.sizes())


def _v(name: str, *shape: str | int) -> Expression:
    return Expression(make_variable(name, shape))


def _apply(name: str, *operands: Expression, params: tuple = ()) -> Expression:
    return Expression(operation(name, *(operand.node for operand in operands), params=params))


def _index(name: str, *shape: str | int) -> Expression:
    return Expression(make_variable(name, shape, kind="integer"))


def _norm(x: Expression) -> Expression:
    return np.sqrt(np.sum(x * x))


def classics() -> list[Case]:
    """About 25 formulas of textbooks with their derivatives."""
    x, y, w = _v("x", "n"), _v("y", "m"), _v("w", "n")
    A, B, X, S = _v("A", "m", "n"), _v("B", "m", "n"), _v("X", "n", "n"), _v("S", "n", "n")
    U, V, M, T = _v("U", "m", "k"), _v("V", "n", "k"), _v("M", "m", "n"), _v("T", "m", "n")
    W, Y, C, a = _v("W", "n", "k"), _v("Y", "m", "k"), _v("C", "n", "n", "n"), _v("a")
    cases: list[Case] = []

    def add(name: str, expression: Expression, *orders: Expression | tuple[Expression, ...]) -> None:
        cases.append(Case(name, expression))
        for by in orders:
            names = by if isinstance(by, tuple) else (by,)
            written = "_".join(str(variable.node.name) for variable in names)
            cases.append(Case(f"{name}_by_{written}", expression.diff(*names)))

    quadratic = hesse.einsum("i,ij,j->", x, S, x)
    add("quadratic", quadratic, x, (x, x), S, (S, x), (S, x, x))
    add("least_squares", np.sum((A @ x - y) ** 2), x, (x, x), A, (A, x))
    add("norm", _norm(A @ x - y), x, (x, x), (x, x, x))
    add("logistic", np.sum(np.log(np.exp(-y * (A @ x)) + 1.0)), x, (x, x), (x, x, x))
    trace_inverse = np.trace(S @ np.linalg.inv(X))
    add("trace_inverse", trace_inverse, X, (X, X))
    add("log_determinant", np.linalg.slogdet(hesse.einsum("ji,jk,kl->il", W, X, W))[1], X, (X, X))
    add("determinant", np.linalg.det(X), X, (X, X))
    add("inverse", np.linalg.inv(X), X)
    scores = A @ W
    cross = np.sum(hesse.logsumexp(scores, axis=-1)) - np.sum(Y * scores)
    add("cross_entropy", cross, W, (W, W))
    factorisation = np.sum((M * (T - U @ V.T)) ** 2)
    add("factorisation", factorisation, U, (U, U), (U, V), (U, V, V))
    add("cubic_form", hesse.einsum("ijk,i,j,k->", C, x, x, x), x, (x, x), (x, x, x), C)
    add("logsumexp", hesse.logsumexp(A @ x, axis=-1), x, (x, x), (x, x, x))
    add("softmax", hesse.softmax(A @ x, axis=-1), x, (x, x))
    add("log_softmax", hesse.log_softmax(A @ x, axis=-1), x, (x, x))
    add("kinks", np.sum(np.abs(x - w) + hesse.relu(w - x) + np.sign(x) * x), x, (x, w))
    add("largest", np.sum(np.maximum(x, w) * np.minimum(x, 0.5)), x, (x, x))
    add("powers", np.sum(x**2.5 + x**3 + 1.0 / x + a * x**7), x, (x, x), (x, x, x), (a, x))
    add("tensor_power", np.sum(x**a), x, a, (x, a))
    add("diagonal", np.diag(x) @ S, x, S)
    add("of_diagonal", np.sum(np.diagonal(X) ** 3), X, (X, X))
    add("trace", np.trace(X @ X @ X), X, (X, X))
    add("rayleigh", quadratic / (x @ x), x, (x, x))
    add("network", np.sum(np.tanh(A @ W)), W, (W, W))
    add("gaussian", np.exp(-0.5 * hesse.einsum("i,ij,j->", x - w, S, x - w)), x, (x, x))
    add("frobenius", np.sum((A - B) ** 2) + a * np.sum(A), A, (A, A))
    add("quotient", a / (x * (w + 1.0)) - x / (a * w), x, (x, w))
    add("shifted", np.sum((hesse.einsum("i->ii", w) + x) ** 2 * S) + np.sum((S + np.diag(w)) ** 2), x, w)
    add("entropy", -np.sum(x * np.log(x)), x, (x, x))
    add("outer", hesse.einsum("i,j->ij", x, y), x, y)
    add("broadcast", hesse.einsum("ij,k->ijk", A, x) + Expression(broadcast(x.node, ("m", "n", "n"), [1])), A)
    add("repeated", Expression(broadcast(x.node, ("m", "n", "n"), [1])), x)
    add("layer_norm", np.sum(hesse.layer_norm(A) * B), A)
    add("batch", hesse.einsum("bij,bjk->bik", C, C), C)
    add("transpose", hesse.einsum("ijk->kij", C) + C)
    add("partial_trace", hesse.einsum("iij->j", C) * x, C)
    add("condition", np.sum(np.where(x > w, x * w, x + w) * (x > 0.5) * ((x > 0.4) | (w > 0.4))), x)
    return cases


def rows() -> list[Case]:
    """Every row of the element-wise table, on vectors moved into its domain, and against a number."""
    cases = []
    for name, row in sorted(ELEMENTWISE.items()):
        operands = []
        for k, (low, high) in enumerate(row.sample):
            if name == "polygamma" and k == 0:
                operands.append(Expression(uniform(2.0, ("n",))))
            else:
                operands.append(low + (high - low) * _v("xyz"[k], "n"))
        cases.append(Case(f"row_{name}", Expression(map_(name, *(operand.node for operand in operands)))))
        if row.arity > 1 and name != "polygamma":
            number = uniform(sum(row.sample[-1]) / 2, ("n",))
            nodes = [*(operand.node for operand in operands[:-1]), number]
            cases.append(Case(f"row_{name}_of_number", Expression(map_(name, *nodes))))
    return cases


def records() -> list[Case]:
    """Operations on whole tensors."""
    x, A, X, b = _v("x", "n"), _v("A", "m", "n"), _v("X", "n", "n"), _v("b", "n")
    C, c, D = _v("C", 2, 3, 3), _v("c", 2, 3), _v("D", 3, 4)
    i, j = _index("i", "k"), _index("j", 2, "k")
    squared = hesse.einsum("bij,bkj->bik", C, C) + np.eye(3)
    return [
        Case("solve", np.linalg.solve(X, b)),
        Case("solve_matrix", np.linalg.solve(X, A.T)),
        Case("solve_by_X", np.linalg.solve(X, b).diff(X)),
        Case("solve_batch", _apply("solve", squared, c)),
        Case("triangular", _apply("triangular_solve", X, b)),
        Case("triangular_matrix", _apply("triangular_solve", X, A.T)),
        Case("triangular_batch", _apply("triangular_solve", squared, c)),
        Case("cholesky_by_C", _apply("cholesky", _v("C", 3, 3)).diff(_v("C", 3, 3))),
        Case("shifted_index", x[i * 2 - 3 + i // 2] * _v("w", "k")),
        Case("chosen_index", x[np.where(_v("w", "k") > 0.5, i, 2 - i)]),
        Case("part_of_index", x[_index("q", 4)[::2] - 1]),
        Case("number_of_index", _v("w", "k") * (i // 2)),
        Case("truncated_index", x[(3.0 * _v("w", "k")).astype(int)]),
        Case("searched_index", x[np.searchsorted([0.3, 0.5], _v("w", "k"))]),
        Case("inverse_batch", np.linalg.inv(squared)),
        Case("cholesky", np.linalg.cholesky(X)),
        Case("pseudo_inverse", np.linalg.pinv(A)),
        Case("pseudo_inverse_by_A", np.linalg.pinv(A).diff(A)),
        Case("eigenvalues", np.linalg.eigvalsh(X)),
        Case("eigenvalues_by_X", np.sum(np.linalg.eigvalsh(X) ** 2).diff(X)),
        Case("sign_determinant", np.linalg.slogdet(X)[0]),
        Case("expm", hesse.expm(X)),
        Case("expm_by_X", hesse.expm(X).diff(X)),
        Case("softmax_rows", hesse.softmax(A, axis=-1)),
        Case("logsumexp_rows", hesse.logsumexp(A, axis=-1)),
        Case("largest_entry", np.max(x)),
        Case("smallest_entry", np.min(x)),
        Case("largest_of_rows", np.max(D, axis=1)),
        Case("largest_of_rows_by_D", np.max(D, axis=1).diff(D)),
        Case("sorted", np.sort(c, axis=-1)),
        Case("gathered", _apply("gather", x, i) * _v("w", "k")),
        Case("gathered_rows", _apply("gather", A, j)),
        Case("scattered", _apply("scatter", _v("u", "k", "n"), i, params=(5,))),
        Case("cumulative_sum", np.cumsum(x)),
        Case("cumulative_product", np.cumprod(c)),
        Case("cumulative_product_by_c", np.cumprod(c).diff(c)),
        *_rearranged(),
        Case("product", np.prod(c, axis=0)),
        Case("product_by_c", np.prod(c, axis=0).diff(c)),
    ]


def _rearranged() -> list[Case]:
    """Vectors and matrices of symbolic sizes whose entries change places."""
    A, B, x, z = _v("A", "m", "n"), _v("B", "n", "k"), _v("x", "n"), _v("z", "m*n")
    stacked, kronecker, largest = _apply("vec", A), _apply("kron", A, B), _apply("max", A)
    weights = _v("W", "m*n", "k*n")
    return [
        Case("stacked", stacked * z),
        Case("stacked_by_A", np.sum(stacked * stacked * z).diff(A)),
        Case("stacked_by_A_A", np.sum(stacked**3).diff(A, A)),
        Case("kron", kronecker),
        Case("kron_of_vectors", _apply("kron", x, x)),
        Case("kron_by_A", np.sum(kronecker * weights).diff(A)),
        Case("kron_by_B", np.sum(kronecker * kronecker).diff(B)),
        Case("kron_jacobian", kronecker.diff(B)),
        Case("largest_of_all", largest),
        Case("largest_of_all_by_A", (largest * largest).diff(A)),
    ]


def affine() -> list[Case]:
    """Slices, shifts, joins and reshapes: axes that are no plain labels, of concrete sizes."""
    x, A, w = _v("x", 6), _v("A", 3, 4), _v("w", 3)
    rosenbrock = np.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2)
    convolved = np.convolve(x, w)
    cases = [
        Case("rosenbrock", rosenbrock),
        Case("rosenbrock_by_x", rosenbrock.diff(x)),
        Case("rosenbrock_by_x_x", rosenbrock.diff(x, x)),
        Case("rosenbrock_by_x_x_x", rosenbrock.diff(x, x, x)),
        Case("flipped", x[::-1] * x),
        Case("stepped", x[1::2] * w),
        Case("selected", A[1] * A[2, 3] + A[:, 2][0]),
        Case("selected_by_A", (A[1] * A[2, 3]).diff(A)),
        Case("joined", np.concatenate([w, x[:2], w * w])),
        Case("reshaped", A.reshape(4, 3)),
        Case("reshaped_by_A", (A.reshape(4, 3) ** 2).diff(A)),
        Case("kronecker", np.kron(A, np.diag(w))),
        Case("convolved", convolved),
        Case(
            "convolved_rows", hesse.einsum("ij,k->ijk", A, w).reshape(3, 12)[:, None, 1:5] * w[:, None, None]
        ),
        Case("partial_diagonal", np.diagonal(A)[:2] * w[:2]),
        Case("partial_band", hesse.einsum("ij,ik->ijk", A, A[:, :3]).diff(A)),
        Case("windows", np.convolve(x[:3], w).diff(x) + np.convolve(x, w).diff(w)[:5, :1]),
        Case("convolved_by_w", convolved.diff(w)),
        Case("shifted_diagonal", np.diag(x[:3], 1) + np.diag(w, -1)),
        Case("unit_axes", x[:, None] * w[None, :] + np.sum(A, axis=0, keepdims=True)[:, :3]),
    ]
    return cases


def constants() -> list[Case]:
    """Results without arguments, or with arrays written into the code."""
    x, y = _v("x", "n"), _v("y", 3)
    table = np.array([[1.0, 2.0, -3.5], [0.25, 1e-7, 6.0]])
    return [
        Case("identity", np.sum(x * x).diff(x, x)),
        Case("zero", np.sum(x).diff(x, x)),
        Case("ones", np.sum(x).diff(x)),
        Case("count", np.mean(x)),
        Case("count_by_x", np.mean(x).diff(x)),
        Case("table", table @ y),
        Case("infinite", np.where(y > 0.5, y, np.inf)),
        Case("argument", Expression(x.node)),
        Case("transposed", Expression(_v("A", "m", "n").T.node)),
    ]
