"""hesse: derivatives of tensor expressions, of any order, as compact as derived by hand."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hesse.api import (
        argmin,
        biharmonic,
        branching,
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
        logm,
        partial,
        root,
        scan,
        sqrtm,
        taylor,
        value_and_grad,
        variable,
        vjp,
    )
    from hesse.api.check import check
    from hesse.api.formula import Formula, diff, parse
    from hesse.errors import (
        ArgumentError,
        ConvergenceError,
        DifferentiationError,
        HesseError,
        MemoryLimitError,
        MissingKernelError,
        MissingPackageError,
        NotationError,
        NotComputedError,
        ShapeError,
        TracingError,
        VerificationError,
    )
    from hesse.frontends.expression import Expression
    from hesse.frontends.matrices import block_diag, cho_factor, cho_solve, toeplitz
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
    from hesse.frontends.writing import zeros
    from hesse.plan import set_memory_limit
    from hesse.structured import Structured

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
    "NotComputedError",
    "NotationError",
    "ShapeError",
    "Structured",
    "TracingError",
    "VerificationError",
    "argmin",
    "biharmonic",
    "block_diag",
    "branching",
    "celu",
    "check",
    "cho_factor",
    "cho_solve",
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
    "logm",
    "logsumexp",
    "ndtr",
    "ndtri",
    "parse",
    "partial",
    "polygamma",
    "relu",
    "root",
    "safe_norm",
    "scan",
    "selu",
    "set_memory_limit",
    "sigmoid",
    "silu",
    "softmax",
    "softplus",
    "softsign",
    "solve_triangular",
    "sqrtm",
    "stop_gradient",
    "taylor",
    "toeplitz",
    "unfold",
    "value_and_grad",
    "variable",
    "vjp",
    "xlogy",
    "zeros",
]


_HOMES = (
    "hesse.errors",
    "hesse.api",
    "hesse.frontends.expression",
    "hesse.frontends.matrices",
    "hesse.frontends.operands",
    "hesse.frontends.special",
    "hesse.frontends.writing",
    "hesse.plan",
    "hesse.structured",
    "hesse.api.formula",
)
"""Where public names are defined, as the imports above say."""


def __getattr__(name: str) -> Any:
    """What is public, loaded when it is used first; and parts of the package, such as `hesse.torch`."""
    if name in __all__:
        for home in _HOMES:
            module = importlib.import_module(home)
            if hasattr(module, name):
                found = globals()[name] = getattr(module, name)
                return found
    try:
        return importlib.import_module(f"hesse.{name}")
    except ModuleNotFoundError as error:
        package = str(error.name).partition(".")[0]
        if package != "hesse":
            missing = importlib.import_module("hesse.errors").MissingPackageError
            raise missing.of(f"hesse.{name}", package) from error
        if error.name != f"hesse.{name}":
            raise
    raise AttributeError(f"module 'hesse' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
