"""The names of functions in C++ and Eigen, and helper functions where they have none."""

from __future__ import annotations

from hesse.export.writer import NOTATION

_STANDARD = (
    *("abs", "cbrt", "ceil", "cos", "cosh", "erf", "erfc", "exp", "exp2", "expm1", "floor", "lgamma", "log"),
    *("log1p", "sin", "sinh", "sqrt", "tan", "tanh", "trunc"),
)

ELEMENTWISE: dict[str, str] = {
    **NOTATION,
    **{name: f"std::{name}({{0}})" for name in _STANDARD},
    **{f"arc{name}": f"std::a{name}({{0}})" for name in ("cos", "cosh", "sin", "sinh", "tan", "tanh")},
    **{name: f"{name}({{0}})" for name in ("sigmoid", "sign", "softplus", "softsign")},
    **{name: f"{name}({{0}}, {{1}})" for name in ("logaddexp", "maximum", "minimum", "xlogy")},
    "arctan2": "std::atan2({0}, {1})",
    "floor_divide": "std::floor({0} / {1})",
    "fmod": "std::fmod({0}, {1})",
    "remainder": "({0} - {1} * std::floor({0} / {1}))",
    "hypot": "std::hypot({0}, {1})",
    "power": "std::pow({0}, {1})",
    "round": "std::nearbyint({0})",
    "where": "({0} ? {1} : {2})",
}
"""Functions of one entry; a row that is missing is written by its definition, if it has one."""

OPERATIONS: dict[str, str] = {
    "inverse": "{0}.inverse()",
    "determinant": "{0}.determinant()",
    "log_determinant": "log_abs_det({0})",
    "sign_determinant": "sign_det({0})",
    "solve": "{0}.partialPivLu().solve({1})",
    "triangular_solve": "{0}.triangularView<Eigen::Lower>().solve({1})",
    "cholesky": "MatrixXd({0}.llt().matrixL())",
    "pseudo_inverse": "{0}.completeOrthogonalDecomposition().pseudoInverse()",
    "eigvalsh": "Eigen::SelfAdjointEigenSolver<MatrixXd>({0}).eigenvalues()",
    "eigenvectors": "Eigen::SelfAdjointEigenSolver<MatrixXd>({0}).eigenvectors()",
    "expm_chain": "{0}.exp()",
    "logsumexp": "logsumexp({0})",
    "softmax": "softmax({0})",
    "log_softmax": "log_softmax({0})",
    "argmax": "argmax({0})",
    "argmin": "argmax(-{0})",
    "gather": "{0}({1})",
    "kron": "",
    "max": "",
    "reshape": "",
    "vec": "",
    "cumulative_sum": "cumulative_sum({0})",
    "cumulative_product": "cumulative_product({0})",
    "product": "{0}.prod()",
}
"""Records; the empty ones are written entry by entry."""

BY_ROWS = ("logsumexp", "softmax", "log_softmax")
"""Operations that have a helper for the rows of a matrix."""

HELPERS: dict[str, str] = {
    "square": """inline double square(double x) { return x * x; }
""",
    "sigmoid": """// 1 / (1 + exp(-x)) without overflow.
inline double sigmoid(double x)
{
    const double small = std::exp(-std::abs(x));
    return (x >= 0 ? 1.0 : small) / (1.0 + small);
}
""",
    "sign": """inline double sign(double x) { return x > 0 ? 1.0 : x < 0 ? -1.0 : x; }
""",
    "softplus": """// log(1 + exp(x)) without overflow.
inline double softplus(double x) { return (x > 0 ? x : 0.0) + std::log1p(std::exp(-std::abs(x))); }
""",
    "softsign": """inline double softsign(double x) { return x / (1.0 + std::abs(x)); }
""",
    "maximum": """// The larger number, or nan if one of them is.
inline double maximum(double a, double b) { return a > b || a != a ? a : b; }
""",
    "minimum": """// The smaller number, or nan if one of them is.
inline double minimum(double a, double b) { return a < b || a != a ? a : b; }
""",
    "logaddexp": """// log(exp(a) + exp(b)) without overflow.
inline double logaddexp(double a, double b)
{
    return a == b ? a + std::log(2.0) : (a > b ? a : b) + std::log1p(std::exp(-std::abs(a - b)));
}
""",
    "xlogy": """// x log(y), and 0 where x is 0.
inline double xlogy(double x, double y) { return x == 0 && y == y ? 0.0 : x * std::log(y); }
""",
    "log_abs_det": """// log(abs(det(A))) without overflow.
inline double log_abs_det(const MatrixXd& A)
{
    return A.partialPivLu().matrixLU().diagonal().array().abs().log().sum();
}
""",
    "sign_det": """// The sign of the determinant.
inline double sign_det(const MatrixXd& A)
{
    const Eigen::PartialPivLU<MatrixXd> lu(A);
    return lu.permutationP().determinant() * lu.matrixLU().diagonal().array().sign().prod();
}
""",
    "logsumexp": """// log(sum(exp(x))) without overflow.
inline double logsumexp(const VectorXd& x)
{
    const double largest = std::isfinite(x.maxCoeff()) ? x.maxCoeff() : 0.0;
    return std::log((x.array() - largest).exp().sum()) + largest;
}
""",
    "softmax": """// exp(x) / sum(exp(x)) without overflow.
inline VectorXd softmax(const VectorXd& x)
{
    const VectorXd exponentials = (x.array() - x.maxCoeff()).exp();
    return exponentials / exponentials.sum();
}
""",
    "log_softmax": """// x - log(sum(exp(x))) without overflow.
inline VectorXd log_softmax(const VectorXd& x)
{
    const VectorXd shifted = x.array() - x.maxCoeff();
    return shifted.array() - std::log(shifted.array().exp().sum());
}
""",
    "logsumexp_rows": """inline VectorXd logsumexp_rows(const MatrixXd& X)
{
    VectorXd result(X.rows());
    for (Index row = 0; row < X.rows(); ++row)
        result(row) = logsumexp(X.row(row).transpose());
    return result;
}
""",
    "argmax": """// The position of the first maximum.
inline Index argmax(const VectorXd& x)
{
    Index position;
    x.maxCoeff(&position);
    return position;
}
""",
    "cumulative_sum": """inline VectorXd cumulative_sum(VectorXd x)
{
    for (Index k = 1; k < x.size(); ++k)
        x(k) += x(k - 1);
    return x;
}
""",
    "cumulative_product": """inline VectorXd cumulative_product(VectorXd x)
{
    for (Index k = 1; k < x.size(); ++k)
        x(k) *= x(k - 1);
    return x;
}
""",
}
HELPERS |= {
    f"{name}_rows": f"""inline MatrixXd {name}_rows(MatrixXd X)
{{
    for (Index row = 0; row < X.rows(); ++row)
        X.row(row) = {name}(X.row(row).transpose()).transpose();
    return X;
}}
"""
    for name in ("softmax", "log_softmax")
}

CPP_WORDS = {
    *("alignas", "alignof", "and", "asm", "auto", "bool", "break", "case", "catch", "char"),
    *("class", "const", "constexpr", "continue", "default", "delete", "do", "double", "else"),
    *("enum", "explicit", "export", "extern", "false", "float", "for", "friend", "goto", "if"),
    *("inline", "int", "long", "mutable", "namespace", "new", "not", "operator", "or", "private"),
    *("protected", "public", "register", "return", "short", "signed", "sizeof", "static"),
    *("struct", "switch", "template", "this", "throw", "true", "try", "typedef", "typename"),
    *("union", "unsigned", "using", "virtual", "void", "volatile", "while", "xor", "std"),
    *("Eigen", "Index", "VectorXd", "MatrixXd", "Tensor"),
}
