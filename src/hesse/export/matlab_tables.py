"""The names of functions in MATLAB, and helper functions where it has none."""

from __future__ import annotations

from hesse.export.writer import NOTATION

ELEMENTWISE: dict[str, str] = {
    **NOTATION,
    **{
        name: f"{name}({{0}})"
        for name in (
            "abs",
            "ceil",
            "cos",
            "cosh",
            "erf",
            "erfc",
            "erfinv",
            "exp",
            "expm1",
            "floor",
            "log",
            "log1p",
        )
    },
    **{name: f"{name}({{0}})" for name in ("sign", "sin", "sinh", "sqrt", "tan", "tanh")},
    **{f"arc{name}": f"a{name}({{0}})" for name in ("cos", "cosh", "sin", "sinh", "tan", "tanh")},
    "arctan2": "atan2({0}, {1})",
    "floor_divide": "floor({0} ./ {1})",
    "fmod": "rem({0}, {1})",
    "remainder": "mod({0}, {1})",
    "cbrt": "nthroot({0}, 3)",
    "digamma": "psi({0})",
    "exp2": "pow2({0})",
    "hypot": "hypot({0}, {1})",
    "lgamma": "gammaln({0})",
    "logaddexp": "logaddexp({0}, {1})",
    "maximum": "maximum({0}, {1})",
    "minimum": "minimum({0}, {1})",
    "polygamma": "psi({0}, {1})",
    "round": "round_to_even({0})",
    "sigmoid": "sigmoid({0})",
    "softplus": "softplus({0})",
    "trunc": "fix({0})",
    "where": "choose({0}, {1}, {2})",
    "xlogy": "xlogy({0}, {1})",
}
"""Element-wise rows; a row that is missing is written by its definition, if it has one."""

OPERATIONS: dict[str, str] = {
    "inverse": "inv({0})",
    "determinant": "det({0})",
    "log_determinant": "log_abs_det({0})",
    "sign_determinant": "sign_det({0})",
    "solve": "",
    "triangular_solve": "(tril({0}) \\ ({1}))",
    "cholesky": "chol({0}, 'lower')",
    "pseudo_inverse": "pinv({0})",
    "eigvalsh": "eig({0})",
    "eigenvectors": "eigenvectors({0})",
    "expm_chain": "expm({0})",
    "logsumexp": "logsumexp({0}, {axis})",
    "softmax": "softmax({0}, {axis})",
    "log_softmax": "log_softmax({0}, {axis})",
    "argmax": "argmax({0})",
    "argmin": "argmax(-({0}))",
    "argsort": "argsort({0})",
    "gather": "",
    "kron": "kron({0}, {1})",
    "max": "largest_entry({0})",
    "reshape": "",
    "vec": "",
    "cumulative_sum": "cumsum({0}, 1)",
    "cumulative_product": "cumprod({0}, 1)",
    "product": "prod({0}, 1)",
}
"""Records; the empty ones have a notation of their own. `{axis}` is the number of the last axis."""

WORDS = {"diagonal matrix": "diag", "identity": "eye", "trace": "trace"}

HELPERS: dict[str, str] = {
    "choose": """function r = choose(condition, a, b)
% a where the condition holds, b elsewhere.
    shape = size(condition + zeros(size(a)) + zeros(size(b)));
    condition = condition & true(shape);
    a = a + zeros(shape);
    r = b + zeros(shape);
    r(condition) = a(condition);
end
""",
    "maximum": """function r = maximum(a, b)
% The larger number, or NaN if one of them is.
    r = max(a, b);
    r(isnan(a) | isnan(b)) = NaN;
end
""",
    "minimum": """function r = minimum(a, b)
% The smaller number, or NaN if one of them is.
    r = min(a, b);
    r(isnan(a) | isnan(b)) = NaN;
end
""",
    "logaddexp": """function r = logaddexp(a, b)
% log(exp(a) + exp(b)) without overflow.
    r = max(a, b) + log1p(exp(-abs(a - b)));
    r(isinf(max(a, b))) = Inf;
    r(max(a, b) == -Inf) = -Inf;
end
""",
    "round_to_even": """function r = round_to_even(x)
% The nearest whole number, the even one of two.
    r = round(x);
    half = abs(x - fix(x)) == 0.5;
    r(half) = 2 * round(x(half) / 2);
end
""",
    "sigmoid": """function r = sigmoid(x)
% 1 / (1 + exp(-x)) without overflow.
    small = exp(-abs(x));
    r = small ./ (1 + small);
    r(x >= 0) = 1 ./ (1 + small(x >= 0));
end
""",
    "softplus": """function r = softplus(x)
% log(1 + exp(x)) without overflow.
    r = max(x, 0) + log1p(exp(-abs(x)));
end
""",
    "xlogy": """function r = xlogy(x, y)
% x log(y), and 0 where x is 0.
    y(x == 0 & ~isnan(y)) = 1;
    r = x .* log(y);
end
""",
    "log_abs_det": """function r = log_abs_det(A)
% log(abs(det(A))) without overflow.
    [~, U] = lu(A);
    r = sum(log(abs(diag(U))));
end
""",
    "sign_det": """function r = sign_det(A)
% The sign of the determinant.
    [~, U, P] = lu(A);
    r = det(P) * prod(sign(diag(U)));
end
""",
    "eigenvectors": """function V = eigenvectors(A)
% The eigenvectors of a symmetric matrix, as columns.
    [V, ~] = eig(A);
end
""",
    "logsumexp": """function r = logsumexp(x, axis)
% log(sum(exp(x))) along an axis, without overflow.
    largest = max(x, [], axis);
    largest(~isfinite(largest)) = 0;
    r = log(sum(exp(x - largest), axis)) + largest;
end
""",
    "softmax": """function r = softmax(x, axis)
% exp(x) / sum(exp(x)) along an axis, without overflow.
    r = exp(x - max(x, [], axis));
    r = r ./ sum(r, axis);
end
""",
    "log_softmax": """function r = log_softmax(x, axis)
% x - log(sum(exp(x))) along an axis, without overflow.
    r = x - max(x, [], axis);
    r = r - log(sum(exp(r), axis));
end
""",
    "largest_entry": """function r = largest_entry(x)
% The largest entry, or NaN if there is one.
    r = max(x(:));
    if any(isnan(x(:)))
        r = NaN;
    end
end
""",
    "argmax": """function k = argmax(x)
% The position of the first maximum of a vector.
    [~, k] = max(x);
end
""",
    "argsort": """function k = argsort(x)
% The order that sorts a vector.
    [~, k] = sort(x);
end
""",
}
