"""How functions are written in NumPy, PyTorch and JAX: most by their names in the libraries.

A row of a table is a template; `{0}`, `{1}`, … stand for the operands, `{p0}` for the first parameter and
`{shape}` for the shape of the result. What needs another module than the array library names it by its full
name, and the import follows from that; a template that calls a helper function brings it along.
"""

from __future__ import annotations

from hesse.backends.names import EXPONENTIAL, MODULES, RECORDS, ROWS, SHORT, Named
from hesse.export.writer import NOTATION
from hesse.ops import registry

AXIS = {"numpy": "axis", "torch": "dim", "jax": "axis"}
"""The keyword for axes."""


def _template(named: Named, language: str, arity: int) -> str:
    text = named.text([f"{{{k}}}" for k in range(arity)], AXIS[language])
    module = f"{MODULES[language]}."
    return text.replace(module, f"{SHORT[language]}.", 1) if text.startswith(module) else text


def _elementwise(language: str) -> dict[str, str]:
    named = {
        name: _template(row, language, registry.ELEMENTWISE[name].arity)
        for name, row in ROWS[language].items()
    }
    return {**NOTATION, **named}


ELEMENTWISE: dict[str, dict[str, str]] = {
    "numpy": _elementwise("numpy") | {"sigmoid": "sigmoid({0})", "softplus": "np.logaddexp({0}, 0)"},
    "torch": _elementwise("torch") | {"cbrt": "cbrt({0})", "stop_gradient": "({0}).detach()"},
    "jax": _elementwise("jax"),
}
"""Element-wise rows; a row that is missing is written by its definition, if it has one."""


def _operations(language: str) -> dict[str, str]:
    module = SHORT[language]
    arities = {"kron": 2}
    return {
        **{
            name: f"{module}.{_template(row, language, arities.get(name, 1))}"
            for name, row in RECORDS.items()
        },
        "solve": f"{module}.linalg.solve({{0}}, {{1}})",
        "triangular_solve": f"{module}.linalg.solve({module}.tril({{0}}), {{1}})",
        "pseudo_inverse": f"{module}.linalg.pinv({{0}})",
        "eigenvectors": f"{module}.linalg.eigh({{0}})[1]",
        "gather": "{0}[{1}]",
        "integer_add": "({0} + {1})",
        "integer_multiply": "(({0}) * ({1}))",
        "integer_quotient": "(({0}) // ({1}))",
        "integer_where": f"{module}.where({{0}} != 0, {{1}}, {{2}})",
        "integer_entries": "({0}).reshape(-1)[{1}]",
        "as_integer": "({0}).astype(int)",
        "as_real": "({0}).astype(float)",
        "searchsorted": f"{module}.searchsorted({{0}}, {{1}}, side='{{p0}}')",
        "reshape": "{0}.reshape({shape})",
        "vec": "{0}.reshape({shape})",
        "scatter": "scatter({0}, {1}, {p0})",
        "flat_index": "flat_index({0}, {p0}, {p1})",
        "path_products": "path_products({0})",
        "expm_chain": "expm_chain({0}, {p0})",
    }


_ALONG_ROWS = ("logsumexp", "softmax", "log_softmax")

OPERATIONS: dict[str, dict[str, str]] = {
    "numpy": _operations("numpy") | {name: f"{name}({{0}})" for name in _ALONG_ROWS},
    "torch": _operations("torch")
    | {name: f"torch.{name}({{0}}, dim=-1)" for name in _ALONG_ROWS}
    | {"as_integer": "({0}).to(torch.int64)", "as_real": "({0}).to(dtype)"},
    "jax": _operations("jax")
    | {name: f"jax.nn.{name}({{0}}, axis=-1)" for name in _ALONG_ROWS}
    | {"gather": "jnp.take({0}, {1}, axis=0)"},  # x[index] outside of x would be another entry
}
"""Records."""

MATRIX_EXPONENTIAL = {language: named.text(["{0}"]) for language, named in EXPONENTIAL.items()}
