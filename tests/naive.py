"""The independent oracle: any expression evaluated by the definition of its nodes, with plain loops.

Nothing here is shared with the planner, the back ends or the derivative rules: an einsum is a loop over the
box of its labels, functions are those of NumPy and SciPy. It is slow and meant for small shapes.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
import scipy.linalg
import scipy.special

from hesse.ir import Add, Apply, Axis, Constant, Einsum, Map, Node, Variable, bind_sizes, topological

Array = np.ndarray


def evaluate(root: Node, values: Mapping[str, Any] = {}, sizes: Mapping[str, int] = {}) -> Array:
    """The value of an expression, given those of its variables (and of its symbolic sizes)."""
    return evaluate_all([root], values, sizes)[0]


def evaluate_all(
    roots: Iterable[Node], values: Mapping[str, Any], sizes: Mapping[str, int] = {}
) -> list[Array]:
    """The values of several expressions; common parts are computed once."""
    roots = bind_sizes(roots, sizes) if sizes else list(roots)
    known: dict[Node, Array] = {}
    with np.errstate(all="ignore"):  # infinities and NaN are values like any other here
        for node in topological(roots):
            result = np.asarray(_value(node, [known[operand] for operand in node.operands], values))
            assert result.shape == node.shape, f"{node} evaluates to the shape {result.shape}"
            known[node] = result
    return [known[root] for root in roots]


def _value(node: Node, operands: list[Array], values: Mapping[str, Any]) -> Any:
    match node:
        case Variable():
            return np.asarray(values[node.name])
        case Constant():
            return node.value
        case Einsum():
            return _einsum(node, operands)
        case Add():
            return sum(operands, np.zeros(node.shape))
        case Map():
            return ELEMENTWISE[node.name](*operands)
        case Apply():
            return OPERATIONS[node.name](node.params, *operands)
    raise AssertionError(f"{type(node).__name__} is not a node class")


def _einsum(node: Einsum, operands: list[Array]) -> Array:
    result = np.zeros(node.shape)
    for point in itertools.product(*(range(size) for size in node.ranges)):  # type: ignore[arg-type]
        term = node.scale
        for operand, axes in zip(operands, node.axes, strict=True):
            term = term * operand[_position(axes, point)]
        result[_position(node.output, point)] += term
    return result


def _position(axes: tuple[Axis, ...], point: tuple[int, ...]) -> tuple[int, ...]:
    """Where the axes point; positions must lie inside, negative ones do not count from the end here."""
    position = tuple(
        axis.offset + sum(stride * point[label] for label, stride in axis.terms) for axis in axes
    )
    assert all(entry >= 0 for entry in position), f"an axis points before the first entry: {position}"
    return position


def _truth(function: Callable[..., Any]) -> Callable[..., Array]:
    return lambda *operands: np.asarray(function(*operands), dtype=float)


ELEMENTWISE: dict[str, Callable[..., Any]] = {
    "abs": np.abs,
    "sign": np.sign,
    "exp": np.exp,
    "exp2": np.exp2,
    "expm1": np.expm1,
    "log": np.log,
    "log1p": np.log1p,
    "sqrt": np.sqrt,
    "cbrt": np.cbrt,
    "reciprocal": np.reciprocal,
    "power": np.power,
    "sin": np.sin,
    "cos": np.cos,
    "tan": np.tan,
    "arcsin": np.arcsin,
    "arccos": np.arccos,
    "arctan": np.arctan,
    "arctan2": np.arctan2,
    "floor_divide": np.floor_divide,
    "fmod": np.fmod,
    "ratio": np.divide,
    "remainder": np.remainder,
    "sinh": np.sinh,
    "cosh": np.cosh,
    "tanh": np.tanh,
    "arcsinh": np.arcsinh,
    "arccosh": np.arccosh,
    "arctanh": np.arctanh,
    "hypot": np.hypot,
    "erf": scipy.special.erf,
    "erfc": scipy.special.erfc,
    "erfinv": scipy.special.erfinv,
    "ndtri": scipy.special.ndtri,
    "log_ndtr": scipy.special.log_ndtr,
    "lgamma": scipy.special.gammaln,
    "digamma": scipy.special.digamma,
    "polygamma": lambda order, x: scipy.special.polygamma(order.astype(int), x),
    "sigmoid": scipy.special.expit,
    "softplus": lambda x: np.logaddexp(0.0, x),
    "relu": lambda x: np.maximum(x, 0.0),
    "softsign": lambda x: x / (1.0 + np.abs(x)),
    "xlogy": scipy.special.xlogy,
    "logaddexp": np.logaddexp,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "clamp": lambda x, low, high: np.minimum(np.maximum(x, low), high),
    "safe_sqrt": np.sqrt,
    "safe_reciprocal": lambda x: np.where(x == 0, 0.0, 1.0 / x),
    "isfinite": _truth(np.isfinite),
    "isinf": _truth(np.isinf),
    "isnan": _truth(np.isnan),
    "clip": lambda x, low, high: np.minimum(np.maximum(x, low), high),
    "chosen": lambda condition: (condition != 0).astype(float),
    "select": lambda condition, x: np.where(condition != 0, x, 0.0),
    "where": lambda condition, x, y: np.where(condition != 0, x, y),
    "greater": _truth(np.greater),
    "greater_equal": _truth(np.greater_equal),
    "less": _truth(np.less),
    "less_equal": _truth(np.less_equal),
    "equal": _truth(np.equal),
    "not_equal": _truth(np.not_equal),
    "logical_and": _truth(np.logical_and),
    "logical_or": _truth(np.logical_or),
    "logical_not": _truth(np.logical_not),
    "floor": np.floor,
    "ceil": np.ceil,
    "round": np.round,
    "trunc": np.trunc,
    "stop_gradient": np.array,
}


def _matrices(function: Callable[..., Any]) -> Callable[..., Array]:
    """A function of single matrices over a batch, one at a time."""

    def batched(params: tuple[Any, ...], *operands: Array) -> Array:
        batch = operands[0].shape[:-2]
        results = [np.asarray(function(*(o[place] for o in operands))) for place in np.ndindex(*batch)]
        if not results:
            single = np.asarray(function(*(np.eye(*o.shape[-2:]) for o in operands)))
            return np.zeros(batch + single.shape)
        return np.stack(results).reshape(batch + results[0].shape)

    return batched


def _expm_chain(params: tuple[Any, ...], a: Array) -> Array:
    """Integral of e^(s1 A)[a1,b1] … e^(sk A)[ak,bk] over s1 + … + sk = 1, read off one large exponential.

    A ⊗ I … on the diagonal and units above it make a block bidiagonal matrix whose exponential holds the
    integral in its corner (Van Loan, 1978).
    """
    (length,) = params
    size, batch = a.shape[-1], a.shape[:-2]
    results = [_single_chain(a[place], length) for place in np.ndindex(*batch)]
    return np.reshape(results, batch + (size,) * (2 * length))


def _single_chain(a: Array, length: int) -> Array:
    size = len(a)
    result = np.zeros((size,) * (2 * length))
    # Between two links k and k+1 the unit matrix entry E[b_k, a_(k+1)] is inserted.
    for inner in np.ndindex(*(size,) * (2 * (length - 1))):
        large = np.kron(np.eye(length), a)
        for link in range(length - 1):
            large[link * size + inner[2 * link], (link + 1) * size + inner[2 * link + 1]] = 1.0
        result[(slice(None), *inner, slice(None))] = scipy.linalg.expm(large)[:size, (length - 1) * size :]
    return result


def _scatter(params: tuple[Any, ...], u: Array, index: Array) -> Array:
    result = np.zeros((params[0], *u.shape[index.ndim :]))
    for place in np.ndindex(*index.shape):
        result[index[place]] += u[place]
    return result


def _flat_index(params: tuple[Any, ...], index: Array) -> Array:
    size, leading = params
    result = np.zeros(index.shape, dtype=int)
    for place in np.ndindex(*index.shape):
        row = np.ravel_multi_index(place[:leading], index.shape[:leading]) if leading else 0
        result[place] = row * size + index[place] % size
    return result


def _path_products(params: tuple[Any, ...], x: Array) -> Array:
    count = len(x) + 1
    result = np.zeros((count, count, *x.shape[1:]))
    for i in range(count):
        for j in range(i + 1):
            result[i, j] = np.prod(x[j:i], axis=0)
    return result


def _solve(params: tuple[Any, ...], a: Array, b: Array) -> Array:
    inverse = _matrices(np.linalg.inv)((), a)
    return np.einsum("...ij,...j->...i" if b.ndim < a.ndim else "...ij,...jk->...ik", inverse, b)


def _kron(params: tuple[Any, ...], a: Array, b: Array) -> Array:
    outer = np.multiply.outer(a, b)
    order = [axis for k in range(a.ndim) for axis in (k, a.ndim + k)]
    return outer.transpose(order).reshape([m * n for m, n in zip(a.shape, b.shape, strict=True)])


def _minors(params: tuple[Any, ...], a: Array) -> Array:
    """A determinant is linear in each row: by an entry it is that with a unit vector as the row."""
    (order,) = params

    def of(matrix: Array) -> Array:
        size = len(matrix)
        found = np.zeros((size,) * (2 * order))
        for places in np.ndindex(*found.shape):
            rows, columns = places[::2], places[1::2]
            replaced = np.array(matrix)
            replaced[list(rows)] = np.eye(size)[list(columns)]
            found[places] = np.linalg.det(replaced) if len({*rows}) == order else 0.0
        return found

    return _matrices(of)((), a)


def _vec(params: tuple[Any, ...], x: Array) -> Array:
    return np.concatenate([x[:, column] for column in range(x.shape[1])])


OPERATIONS: dict[str, Callable[..., Any]] = {
    "inverse": _matrices(np.linalg.inv),
    "determinant": _matrices(np.linalg.det),
    "adjugate": _matrices(lambda a: np.linalg.det(a) * np.linalg.inv(a)),
    "minors": _minors,
    "log_determinant": _matrices(lambda a: np.linalg.slogdet(a)[1]),
    "sign_determinant": _matrices(lambda a: np.linalg.slogdet(a)[0]),
    "solve": _solve,
    "triangular_solve": lambda params, a, b: _solve(params, np.tril(a), b),
    "cholesky": _matrices(np.linalg.cholesky),
    "pseudo_inverse": _matrices(np.linalg.pinv),
    "eigvalsh": _matrices(lambda a: np.linalg.eigh(a)[0]),
    "eigenvectors": _matrices(lambda a: np.linalg.eigh(a)[1]),
    "expm_chain": _expm_chain,
    "logsumexp": lambda params, x: scipy.special.logsumexp(x, axis=-1),
    "softmax": lambda params, x: scipy.special.softmax(x, axis=-1),
    "log_softmax": lambda params, x: scipy.special.log_softmax(x, axis=-1),
    "gather": lambda params, x, index: np.take(x, index, axis=0),
    "scatter": _scatter,
    "flat_index": _flat_index,
    "integer_add": lambda params, a, b: a + b,
    "integer_multiply": lambda params, a, b: a * b,
    "integer_quotient": lambda params, a, b: np.floor(a / b).astype(int),
    "integer_where": lambda params, condition, a, b: np.where(condition != 0, a, b),
    "integer_entries": lambda params, table, positions: table.ravel()[positions],
    "as_integer": lambda params, x: np.trunc(x).astype(int),
    "as_real": lambda params, index, like: index.astype(float),
    "searchsorted": lambda params, a, v: np.sum(
        (a <= v[..., None]) if params == ("right",) else (a < v[..., None]), axis=-1
    ),
    "cumulative_sum": lambda params, x: np.cumsum(x, axis=0),
    "cumulative_product": lambda params, x: np.cumprod(x, axis=0),
    "product": lambda params, x: math.prod(x, start=np.ones(x.shape[1:])),
    "path_products": _path_products,
    "argmax": lambda params, x: np.argmax(x, axis=-1),
    "argmin": lambda params, x: np.argmin(x, axis=-1),
    "argsort": lambda params, x: np.argsort(x, axis=-1, kind="stable"),
    "max": lambda params, x: np.sort(x, axis=None)[-1],
    "kron": _kron,
    "vec": _vec,
    "reshape": lambda params, x: np.reshape(x, (*params[1:], *x.shape[params[0] :])),
}
