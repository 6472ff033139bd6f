"""The names of functions in Julia, and helper functions where it has none.

`{d}` stands for the dot that applies a function to every entry of an array. The error and gamma functions are
those of the package SpecialFunctions.
"""

from __future__ import annotations

from hesse.export.writer import NOTATION

_SAME = (
    *("abs", "cbrt", "ceil", "cos", "cosh", "exp", "exp2", "expm1", "floor", "log", "log1p", "round", "sign"),
    *("sin", "sinh", "sqrt", "tan", "tanh", "trunc", "sigmoid", "softplus"),
)

ELEMENTWISE: dict[str, str] = {
    **NOTATION,
    **{name: f"{name}{{d}}({{0}})" for name in _SAME},
    **{f"arc{name}": f"a{name}{{d}}({{0}})" for name in ("cos", "cosh", "sin", "sinh", "tan", "tanh")},
    **{name: f"SpecialFunctions.{name}{{d}}({{0}})" for name in ("digamma", "erf", "erfc", "erfinv")},
    "arctan2": "atan{d}({0}, {1})",
    "floor_divide": "fld{d}({0}, {1})",
    "fmod": "rem{d}({0}, {1})",
    "remainder": "mod{d}({0}, {1})",
    "hypot": "hypot{d}({0}, {1})",
    "lgamma": "first{d}(SpecialFunctions.logabsgamma{d}({0}))",
    "logaddexp": "logaddexp{d}({0}, {1})",
    "maximum": "max{d}({0}, {1})",
    "minimum": "min{d}({0}, {1})",
    "polygamma": "SpecialFunctions.polygamma{d}(Int{d}({0}), {1})",
    "where": "ifelse{d}({0}, {1}, {2})",
    "xlogy": "xlogy{d}({0}, {1})",
}
"""Element-wise rows; a row that is missing is written by its definition, if it has one."""

OPERATIONS: dict[str, str] = {
    "inverse": "inv({0})",
    "determinant": "det({0})",
    "log_determinant": "logabsdet({0})[1]",
    "sign_determinant": "logabsdet({0})[2]",
    "solve": "",
    "triangular_solve": "(LowerTriangular({0}) \\ ({1}))",
    "cholesky": "Matrix(cholesky(Symmetric({0})).L)",
    "pseudo_inverse": "pinv({0})",
    "eigvalsh": "eigvals(Symmetric({0}))",
    "eigenvectors": "eigvecs(Symmetric({0}))",
    "expm_chain": "exp({0})",
    "logsumexp": "logsumexp({0})",
    "softmax": "softmax({0})",
    "log_softmax": "log_softmax({0})",
    "argmax": "argmax({0})",
    "argmin": "argmin({0})",
    "argsort": "sortperm({0})",
    "gather": "",
    "kron": "kron({0}, {1})",
    "max": "maximum({0})",
    "reshape": "",
    "vec": "",
    "cumulative_sum": "cumsum({0}, dims=1)",
    "cumulative_product": "cumprod({0}, dims=1)",
    "product": "prod({0}, dims=1)",
}
"""Records; the empty ones have a notation of their own."""

WORDS = {
    "diagonal matrix": "diagm({0})",
    "identity": "Matrix(1.0I, {0}, {0})",
    "trace": "tr({0})",
}

HELPERS: dict[str, str] = {
    "logaddexp": """"log(exp(a) + exp(b)) without overflow."
logaddexp(a, b) = a == b ? a + log(2.0) : max(a, b) + log1p(exp(-abs(a - b)))
""",
    "sigmoid": """"1 / (1 + exp(-x)) without overflow."
sigmoid(x) = x >= 0 ? 1 / (1 + exp(-x)) : exp(x) / (1 + exp(x))
""",
    "softplus": """"log(1 + exp(x)) without overflow."
softplus(x) = max(x, zero(x)) + log1p(exp(-abs(x)))
""",
    "xlogy": """"x log(y), and 0 where x is 0."
xlogy(x, y) = iszero(x) && !isnan(y) ? zero(x) : x * log(y)
""",
    "logsumexp": """"log(sum(exp(x))) along the last axis, without overflow."
function logsumexp(x)
    largest = maximum(x, dims=ndims(x))
    largest = ifelse.(isfinite.(largest), largest, 0.0)
    result = dropdims(log.(sum(exp.(x .- largest), dims=ndims(x))) .+ largest, dims=ndims(x))
    return ndims(x) == 1 ? result[] : result
end
""",
    "softmax": """"exp(x) / sum(exp(x)) along the last axis, without overflow."
function softmax(x)
    exponentials = exp.(x .- maximum(x, dims=ndims(x)))
    return exponentials ./ sum(exponentials, dims=ndims(x))
end
""",
    "log_softmax": """"x - log(sum(exp(x))) along the last axis, without overflow."
function log_softmax(x)
    shifted = x .- maximum(x, dims=ndims(x))
    return shifted .- log.(sum(exp.(shifted), dims=ndims(x)))
end
""",
}
