"""The names of functions in NumPy, PyTorch and JAX, and helper functions where a library has none.

A row of a table is a template; `{0}`, `{1}`, … stand for the operands. What needs another module than the
array library names it by its full name, and the import follows from that.
"""

from __future__ import annotations

from hesse.export.writer import NOTATION
from hesse.ops import registry

_COMMON = (
    "abs",
    "arccos",
    "arccosh",
    "arcsin",
    "arcsinh",
    "arctan",
    "arctan2",
    "arctanh",
    "cbrt",
    "ceil",
    "clip",
    "cos",
    "cosh",
    "exp",
    "exp2",
    "expm1",
    "floor",
    "floor_divide",
    "fmod",
    "hypot",
    "log",
    "log1p",
    "logaddexp",
    "maximum",
    "minimum",
    "remainder",
    "round",
    "sign",
    "sin",
    "sinh",
    "sqrt",
    "tan",
    "tanh",
    "trunc",
)


def _calls(prefix: str, names: dict[str, str]) -> dict[str, str]:
    places = {name: ", ".join(f"{{{k}}}" for k in range(registry.ELEMENTWISE[name].arity)) for name in names}
    return {name: f"{prefix}.{written}({places[name]})" for name, written in names.items()}


_INVERSES = ("cos", "cosh", "sin", "sinh", "tan", "tan2", "tanh")

ELEMENTWISE: dict[str, dict[str, str]] = {
    "numpy": {
        **NOTATION,
        **_calls("np", {name: name for name in _COMMON}),
        "digamma": "scipy.special.digamma({0})",
        "erf": "scipy.special.erf({0})",
        "erfc": "scipy.special.erfc({0})",
        "erfinv": "scipy.special.erfinv({0})",
        "lgamma": "scipy.special.gammaln({0})",
        "log_ndtr": "scipy.special.log_ndtr({0})",
        "ndtri": "scipy.special.ndtri({0})",
        "polygamma": "scipy.special.polygamma({0}, {1})",
        "sigmoid": "sigmoid({0})",
        "softplus": "np.logaddexp({0}, 0)",
        "softsign": "softsign({0})",
        "xlogy": "xlogy({0}, {1})",
    },
    "torch": {
        **NOTATION,
        **_calls("torch", {name: name for name in _COMMON}),
        **_calls("torch", {f"arc{name}": f"a{name}" for name in _INVERSES}),
        **_calls("torch", {name: name for name in ("digamma", "erf", "erfc", "lgamma", "relu", "sigmoid")}),
        "cbrt": "cbrt({0})",
        "erfinv": "torch.erfinv({0})",
        "log_ndtr": "torch.special.log_ndtr({0})",
        "ndtri": "torch.special.ndtri({0})",
        "polygamma": "torch.polygamma({0}, {1})",
        "softplus": "softplus({0})",
        "softsign": "torch.nn.functional.softsign({0})",
        "stop_gradient": "({0}).detach()",
        "xlogy": "torch.xlogy({0}, {1})",
    },
    "jax": {
        **NOTATION,
        **_calls("jnp", {name: name for name in _COMMON}),
        **_calls("jax.scipy.special", {name: name for name in ("digamma", "erf", "erfc", "erfinv")}),
        **_calls("jax.scipy.special", {name: name for name in ("log_ndtr", "ndtri")}),
        **_calls("jax.nn", {"relu": "relu", "sigmoid": "sigmoid", "softplus": "softplus"}),
        "lgamma": "jax.scipy.special.gammaln({0})",
        "polygamma": "jax.scipy.special.polygamma({0}, {1})",
        "softsign": "jax.nn.soft_sign({0})",
        "stop_gradient": "jax.lax.stop_gradient({0})",
        "xlogy": "jax.scipy.special.xlogy({0}, {1})",
    },
}
"""Element-wise rows; a row that is missing is written by its definition, if it has one."""

OPERATIONS: dict[str, dict[str, str]] = {
    language: {
        "inverse": f"{module}.linalg.inv({{0}})",
        "determinant": f"{module}.linalg.det({{0}})",
        "log_determinant": f"{module}.linalg.slogdet({{0}})[1]",
        "sign_determinant": f"{module}.linalg.slogdet({{0}})[0]",
        "solve": f"{module}.linalg.solve({{0}}, {{1}})",
        "triangular_solve": f"{module}.linalg.solve({module}.tril({{0}}), {{1}})",
        "cholesky": f"{module}.linalg.cholesky({{0}})",
        "pseudo_inverse": f"{module}.linalg.pinv({{0}})",
        "eigvalsh": f"{module}.linalg.eigh({{0}})[0]",
        "eigenvectors": f"{module}.linalg.eigh({{0}})[1]",
        "argmax": f"{module}.argmax({{0}}, {axis}=-1)",
        "argmin": f"{module}.argmin({{0}}, {axis}=-1)",
        "argsort": f"{module}.argsort({{0}}, {axis}=-1, stable=True)",
        "cumulative_sum": f"{module}.cumsum({{0}}, {axis}=0)",
        "cumulative_product": f"{module}.cumprod({{0}}, {axis}=0)",
        "product": f"{module}.prod({{0}}, {axis}=0)",
        "gather": "{0}[{1}]",
        "integer_add": "({0} + {1})",
        "integer_multiply": "(({0}) * ({1}))",
        "integer_quotient": "(({0}) // ({1}))",
        "integer_where": f"{module}.where({{0}} != 0, {{1}}, {{2}})",
        "integer_entries": "({0}).reshape(-1)[{1}]",
        "searchsorted": f"{module}.searchsorted({{0}}, {{1}}, side='{{p0}}')",
        "kron": f"{module}.kron({{0}}, {{1}})",
        "max": f"{module}.max({{0}})",
        "reshape": "{0}.reshape({shape})",
        "vec": "{0}.reshape({shape})",
        "scatter": "scatter({0}, {1}, {p0})",
        "flat_index": "flat_index({0}, {p0}, {p1})",
        "path_products": "path_products({0})",
        "expm_chain": "expm_chain({0}, {p0})",
    }
    for language, module, axis in (("numpy", "np", "axis"), ("torch", "torch", "dim"), ("jax", "jnp", "axis"))
}
"""Records; `{p0}` stands for the first parameter."""

OPERATIONS["numpy"] |= {"as_integer": "({0}).astype(int)", "as_real": "({0}).astype(float)"}
OPERATIONS["jax"] |= {"as_integer": "({0}).astype(int)", "as_real": "({0}).astype(float)"}
OPERATIONS["torch"] |= {"as_integer": "({0}).to(torch.int64)", "as_real": "({0}).to(dtype)"}
OPERATIONS["numpy"] |= {name: f"{name}({{0}})" for name in ("logsumexp", "softmax", "log_softmax")}
OPERATIONS["torch"] |= {
    name: f"torch.{name}({{0}}, dim=-1)" for name in ("logsumexp", "softmax", "log_softmax")
}
OPERATIONS["jax"] |= {
    "logsumexp": "jax.scipy.special.logsumexp({0}, axis=-1)",
    "softmax": "jax.nn.softmax({0}, axis=-1)",
    "log_softmax": "jax.nn.log_softmax({0}, axis=-1)",
}

MATRIX_EXPONENTIAL = {
    "numpy": "scipy.linalg.expm({0})",
    "torch": "torch.linalg.matrix_exp({0})",
    "jax": "jax.scipy.linalg.expm({0})",
}

_SIGMOID = '''def sigmoid(x):
    """1 / (1 + exp(-x)) without overflow."""
    small = np.exp(-np.abs(x))
    return np.where(np.greater_equal(x, 0), 1, small) / (1 + small)
'''

_SOFTSIGN = '''def softsign(x):
    """x / (1 + |x|)."""
    return x / (1 + np.abs(x))
'''

_XLOGY = '''def xlogy(x, y):
    """x log(y), and 0 where x is 0."""
    empty = np.equal(x, 0) & ~np.isnan(y)
    return x * np.log(np.where(empty, 1, y))
'''

_LOGSUMEXP = '''def logsumexp(x):
    """log(sum(exp(x))) over the last axis, without overflow."""
    largest = np.max(x, axis=-1, keepdims=True)
    largest = np.where(np.isfinite(largest), largest, 0)
    return np.log(np.sum(np.exp(x - largest), axis=-1)) + largest[..., 0]
'''

_SOFTMAX = '''def softmax(x):
    """exp(x) / sum(exp(x)) over the last axis, without overflow."""
    exponentials = np.exp(x - np.max(x, axis=-1, keepdims=True))
    return exponentials / np.sum(exponentials, axis=-1, keepdims=True)
'''

_LOG_SOFTMAX = '''def log_softmax(x):
    """x - log(sum(exp(x))) over the last axis, without overflow."""
    shifted = x - np.max(x, axis=-1, keepdims=True)
    return shifted - np.log(np.sum(np.exp(shifted), axis=-1, keepdims=True))
'''

_TORCH_SOFTPLUS = '''def softplus(x):
    """log(1 + exp(x)) without overflow."""
    return torch.logaddexp(x, torch.zeros_like(x))
'''

_CBRT = '''def cbrt(x):
    """The real cube root."""
    return torch.sign(x) * torch.abs(x) ** (1 / 3)
'''

_SCATTER = {
    "numpy": '''def scatter(values, index, size):
    """Add values[k] to entry index[k] of zeros."""
    result = np.zeros((size, *values.shape[index.ndim :]))
    np.add.at(result, index, values)
    return result
''',
    "torch": '''def scatter(values, index, size):
    """Add values[k] to entry index[k] of zeros."""
    result = values.new_zeros((size, *values.shape[index.ndim :]))
    return result.index_put((index,), values, accumulate=True)
''',
    "jax": '''def scatter(values, index, size):
    """Add values[k] to entry index[k] of zeros."""
    return jnp.zeros((size, *values.shape[index.ndim :])).at[index].add(values)
''',
}

_FLAT_INDEX = '''def flat_index(index, size, leading):
    """Positions in the rows of a table, as positions in the flattened table."""
    rows = index.shape[:leading]
    starts = size * {m}.arange(math.prod(rows)).reshape(rows + (1,) * (index.ndim - leading))
    return {m}.where(index < 0, index + size, index) + starts
'''

_PATH_PRODUCTS = '''def path_products(x):
    """P[i, j] = x[j] ... x[i-1] for i >= j, and 0 for i < j."""
    rows = []
    for i in range(len(x) + 1):
        tails = {m}.flip({m}.cumprod({m}.flip(x[:i], {zero}), {axis}=0), {zero})
        rows.append({m}.concatenate([tails, {ones}((1, *x.shape[1:])), {m}.zeros_like(x[i:])]))
    return {m}.stack(rows)
'''

_EXPM_CHAIN = '''def expm_chain(a, length):
    """The integral of e^(s1 a)[a1,b1] e^(s2 a)[a2,b2] ... over s1 + s2 + ... = 1.

    It is the last block in the first row of the exponential of a block matrix: `a` on the diagonal,
    a matrix with a single 1 beside it.
    """
    n = a.shape[-1]
    rows = []
    for links in itertools.product(range(n), repeat=2 * (length - 1)):
        block = {m}.kron({eye}, a)
        for k in range(length - 1):
            row, column = n * k + links[2 * k], n * (k + 1) + links[2 * k + 1]
            {link}
        rows.append({expm}[:n, n * (length - 1) :])
    table = {m}.stack(rows).reshape((n,) * (2 * length))
    return {m}.moveaxis(table, -2, 0)
'''


def _filled(template: str, **texts: str) -> str:
    for place, text in texts.items():
        template = template.replace(f"{{{place}}}", text)
    return template


_STRUCTURAL = {
    language: {
        "scatter": _SCATTER[language],
        "flat_index": _filled(_FLAT_INDEX, m=module),
        "path_products": _filled(
            _PATH_PRODUCTS,
            ones="x.new_ones" if language == "torch" else f"{module}.ones",
            m=module,
            axis=axis,
            zero="(0,)" if language == "torch" else "0",
        ),
    }
    for language, module, axis in (("numpy", "np", "axis"), ("torch", "torch", "dim"), ("jax", "jnp", "axis"))
}

HELPERS: dict[str, dict[str, str]] = {
    "numpy": {
        "sigmoid": _SIGMOID,
        "softsign": _SOFTSIGN,
        "xlogy": _XLOGY,
        "logsumexp": _LOGSUMEXP,
        "softmax": _SOFTMAX,
        "log_softmax": _LOG_SOFTMAX,
        "expm_chain": _filled(
            _EXPM_CHAIN,
            m="np",
            eye="np.eye(length)",
            link="block[row, column] = 1",
            expm="scipy.linalg.expm(block)",
        ),
        **_STRUCTURAL["numpy"],
    },
    "torch": {
        "softplus": _TORCH_SOFTPLUS,
        "cbrt": _CBRT,
        "expm_chain": _filled(
            _EXPM_CHAIN,
            m="torch",
            eye="torch.eye(length, dtype=a.dtype, device=a.device)",
            link="block[row, column] = 1",
            expm="torch.linalg.matrix_exp(block)",
        ),
        **_STRUCTURAL["torch"],
    },
    "jax": {
        "expm_chain": _filled(
            _EXPM_CHAIN,
            m="jnp",
            eye="jnp.eye(length)",
            link="block = block.at[row, column].set(1)",
            expm="jax.scipy.linalg.expm(block)",
        ),
        **_STRUCTURAL["jax"],
    },
}
"""Helper functions, by name; a template that calls one brings it along."""
