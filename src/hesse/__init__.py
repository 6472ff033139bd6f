"""hesse: derivatives of tensor expressions, of any order, as compact as derived by hand."""

from typing import TYPE_CHECKING, Any

from hesse.api import (
    check,
    compile,
    custom_derivative,
    derivative,
    diagonal,
    einsum,
    fixed_point,
    grad,
    hessian,
    hvp,
    jacobian,
    jvp,
    laplacian,
    root,
    value_and_grad,
    variable,
    vjp,
)
from hesse.errors import (
    ArgumentError,
    ConvergenceError,
    DifferentiationError,
    HesseError,
    MemoryLimitError,
    MissingKernelError,
    MissingPackageError,
    NotationError,
    ShapeError,
    TracingError,
    VerificationError,
)
from hesse.frontends.expression import Expression
from hesse.frontends.operands import constant
from hesse.frontends.special import (
    celu,
    digamma,
    elu,
    erf,
    erfc,
    erfcinv,
    erfinv,
    expm,
    gelu,
    hard_tanh,
    layer_norm,
    leaky_relu,
    lgamma,
    log_ndtr,
    log_softmax,
    logdet,
    logsumexp,
    ndtr,
    ndtri,
    polygamma,
    relu,
    safe_norm,
    selu,
    sigmoid,
    silu,
    softmax,
    softplus,
    softsign,
    solve_triangular,
    stop_gradient,
    unfold,
    xlogy,
)
from hesse.plan import set_memory_limit
from hesse.structured import Structured

if TYPE_CHECKING:
    from hesse.api.formula import Formula, diff, parse

__version__ = "0.1.0"

__all__ = [
    "ArgumentError",
    "ConvergenceError",
    "DifferentiationError",
    "Expression",
    "Formula",
    "HesseError",
    "MemoryLimitError",
    "MissingKernelError",
    "MissingPackageError",
    "NotationError",
    "ShapeError",
    "Structured",
    "TracingError",
    "VerificationError",
    "celu",
    "check",
    "compile",
    "constant",
    "custom_derivative",
    "derivative",
    "diagonal",
    "diff",
    "digamma",
    "einsum",
    "elu",
    "erf",
    "erfc",
    "erfcinv",
    "erfinv",
    "expm",
    "fixed_point",
    "gelu",
    "grad",
    "hard_tanh",
    "hessian",
    "hvp",
    "jacobian",
    "jvp",
    "laplacian",
    "layer_norm",
    "leaky_relu",
    "lgamma",
    "log_ndtr",
    "log_softmax",
    "logdet",
    "logsumexp",
    "ndtr",
    "ndtri",
    "parse",
    "polygamma",
    "relu",
    "root",
    "safe_norm",
    "selu",
    "set_memory_limit",
    "sigmoid",
    "silu",
    "softmax",
    "softplus",
    "softsign",
    "solve_triangular",
    "stop_gradient",
    "unfold",
    "value_and_grad",
    "variable",
    "vjp",
    "xlogy",
]


def __getattr__(name: str) -> Any:
    """The language of formulas is loaded when it is used first."""
    if name not in ("Formula", "diff", "parse"):
        raise AttributeError(f"module 'hesse' has no attribute {name!r}")
    from hesse.api import formula  # noqa: PLC0415

    return getattr(formula, name)
