"""Errors that NumPy, SciPy and PyTorch raise when they meet traced values, in terms of the user's code."""

from __future__ import annotations

import dis
import re
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType, TracebackType
from typing import Any

import numpy as np

from hesse.errors import ArgumentError, TracingError
from hesse.frontends.tracing import NumbersNeeded, is_library, is_scipy, raised_at, untraceable

INSTEAD: dict[str, str] = {
    "cdist": "np.sqrt(np.sum((a[:, None] - b) ** 2, axis=-1))",
    "circulant": "hesse.toeplitz(c, np.roll(c[::-1], 1))",
    "block_diag": "hesse.block_diag(a, b)",
    "cho_factor": "hesse.cho_factor(a)",
    "cho_solve": "hesse.cho_solve((c, lower), b)",
    "cholesky": "np.linalg.cholesky(a)",
    "brentq": "hesse.root(f, x0, parameters)",
    "convolve": "np.convolve(a, v); for more axes, products with np.lib.stride_tricks.sliding_window_view",
    "correlate": "np.correlate(a, v); for more axes, products with np.lib.stride_tricks.sliding_window_view",
    "det": "np.linalg.det(a)",
    "eig": "np.linalg.eigh(a) if the matrix is symmetric, or a rule with hesse.custom_derivative",
    "eigvals": "np.linalg.eigvalsh(a) if the matrix is symmetric, or a rule with hesse.custom_derivative",
    "eigh": "np.linalg.eigh(a)",
    "eigvalsh": "np.linalg.eigvalsh(a)",
    "expm": "hesse.expm(a)",
    "fft": "np.fft.fft(x)",
    "fixed_point": "hesse.fixed_point(f, x0, parameters)",
    "fsolve": "hesse.root(f, x0, parameters)",
    "ifft": "np.fft.ifft(x)",
    "inv": "np.linalg.inv(a)",
    "log_softmax": "hesse.log_softmax(x, axis=axis)",
    "least_squares": "hesse.argmin(f, x0, parameters)",
    "lfilter": "the recurrence as a loop, or with hesse.scan",
    "logm": "hesse.logm(a)",
    "logsumexp": "hesse.logsumexp(x, axis=axis)",
    "lu": "np.linalg.solve(a, b), np.linalg.det(a) or np.linalg.qr(a)",
    "lu_factor": "np.linalg.solve(a, b), np.linalg.det(a) or np.linalg.qr(a)",
    "lstsq": "np.linalg.lstsq(a, b)",
    "minimize": "hesse.argmin(f, x0, parameters)",
    "minimize_scalar": "hesse.argmin(f, x0, parameters)",
    "multigammaln": "sums of hesse.lgamma",
    "newton": "hesse.root(f, x0, parameters)",
    "norm": "np.linalg.norm(x)",
    "odeint": "the steps of a method, such as Runge-Kutta, as a loop or with hesse.scan",
    "pinv": "np.linalg.pinv(a)",
    "polygamma": "hesse.polygamma(n, x)",
    "qr": "np.linalg.qr(a)",
    "quad": "a sum over nodes and weights of np.polynomial.legendre.leggauss(n), or np.trapezoid",
    "rfft": "np.fft.rfft(x)",
    "root": "hesse.root(f, x0, parameters)",
    "root_scalar": "hesse.root(f, x0, parameters)",
    "softmax": "hesse.softmax(x, axis=axis)",
    "sosfilt": "the recurrence as a loop, or with hesse.scan",
    "solve": "np.linalg.solve(a, b)",
    "__matmul__": "A.toarray() @ x, or with A = A.tocoo() outside: np.bincount(A.row, A.data * x[A.col], "
    "minlength=A.shape[0])",
    "dot": "A.toarray() @ x",
    "diags": "np.diag(x)",
    "solve_banded": "np.linalg.solve(a, b) with the whole matrix, a sum of np.diag(band, k)",
    "solve_ivp": "the steps of a method, such as Runge-Kutta, as a loop or with hesse.scan",
    "solve_sylvester": "np.linalg.solve(np.kron(a, np.eye(n)) + np.kron(np.eye(m), b.T), q.ravel())",
    "solve_triangular": "hesse.solve_triangular(a, b, lower=True)",
    "sqrtm": "hesse.sqrtm(a)",
    "svd": "np.linalg.svd(a)",
    "svdvals": "np.linalg.svdvals(a)",
    "toeplitz": "hesse.toeplitz(c, r)",
}
"""What to write instead of a function of SciPy."""
OF_COMPILED = r"not a proper array of floats|Expression|but got Python object|No matching signature"
"""What compiled code of SciPy says of traced values, and of arrays of them."""
OF_PYTHON = r"convert type 'Expression'|real number, not Complex|conversion from Expression"
"""What modules of Python say."""
OF_ARRAYS = r"must be (a )?numpy\.ndarray, not (Expression|Complex)"
"""What compiled functions say that take nothing but arrays."""
OF_OBJECTS = r"dtype\('O'\)|dtype object|[Oo]bject array|has no callable \w+ method|loop of ufunc"

OF_TORCH = r"\b(Traced)?Tensor\b"
OF_JAX = r"\b\w*Tracer\b|\bArrayImpl\b|as an abstract array|not a valid JAX"
"""How messages name arrays of the two libraries, or functions of JAX."""


@contextmanager
def explained() -> Iterator[None]:
    """Around user code: our error instead of that of a library.

    For `a[0] = x` NumPy asks x for a number, and turns the refusal into a bare ValueError ("setting an array
    element with a sequence"), since x has a length and entries. Nothing of x is asked after that.
    """
    try:
        yield
    except Exception as error:
        explanation = _explanation(error)
        if explanation is None:
            raise
        is_written = isinstance(error, ValueError) and isinstance(error.__cause__, TracingError)
        kind = NumbersNeeded if is_written else TracingError
        raise untraceable(*explanation, raised_at(error), kind) from error


def _explanation(error: Exception) -> tuple[str, str] | None:
    """What cannot be traced, and what to do; None if the error says it already."""
    if (name := _scipy_function(error)) is not None:
        return f"{name}, which computes with numbers,", _instead_of(name)
    if isinstance(error, TracingError):
        return None
    if isinstance(error, ValueError) and isinstance(error.__cause__, TracingError):
        return (
            "the assignment of a traced value to an entry of a NumPy array (a[i] = x, a.fill(x))",
            "Such an array holds numbers and would not record how x was computed. "
            "Write to np.zeros_like(x) or hesse.zeros(3) instead of np.zeros(3), "
            "or build the result with np.stack, np.concatenate or np.where.",
        )
    if re.search(r"must be (a )?Tensor.* not Expression", str(error)):
        return (
            "a function of PyTorch, called with NumPy arrays or numbers,",
            "Pass torch tensors: torch.as_tensor(x).",
        )
    if isinstance(error, TypeError) and re.search(OF_PYTHON, str(error)):
        return (
            f"a function of Python that computes with numbers ({error})",
            "Use the function of NumPy: np.mean(x) instead of statistics.mean(x), np.exp(z) instead of "
            "cmath.exp(z).",
        )
    if isinstance(error, TypeError) and re.search(OF_ARRAYS, str(error)):
        return (
            f"a compiled function that computes with numbers ({error})",
            "Write it with NumPy, or wrap it with hesse.custom_derivative.",
        )
    if isinstance(error, ValueError) and "__array__ method not producing an array" in str(error):
        return (
            "np.asarray of an object whose __array__ returns a traced value",
            "Pass to NumPy what the object holds instead of the object.",
        )
    if "NPY_ITER_REFS_OK" in str(error):
        return "np.nditer of a traced value", "Loop over x.flat, np.ndenumerate(x) or np.ndindex(x.shape)."
    if isinstance(error, TypeError) and re.search(OF_OBJECTS, str(error)):
        return (
            f"a function of an array of traced entries, np.array([x[0], 1.0]), as NumPy says ({error}),",
            "Build it with np.stack([x[0], 1.0]), np.block([[x[0], 1.0], [0.0, x[1]]]) or np.concatenate "
            "instead of np.array: then it is one traced value.",
        )
    return None


def mixed(error: Exception) -> ArgumentError | None:
    """What to say if an array of PyTorch met one of JAX; None if the error is about something else.

    An error that the user's code raised itself is left as it is, whatever it says.
    """
    if type(error) is not TypeError or _is_raised_by_user(error):
        return None
    text = str(error)
    if not (re.search(OF_TORCH, text) and re.search(OF_JAX, text)):
        return None
    return ArgumentError(
        f"arrays of PyTorch and of JAX are mixed (at {raised_at(error)}): {text.partition('. ')[0]}. "
        "Pass arrays of the library in which the function is written, and convert what it reads besides them "
        "outside of it: torch.from_dlpack(array), jax.numpy.from_dlpack(tensor), or np.asarray"
    )


def _is_raised_by_user(error: Exception) -> bool:
    frames = list(_steps(error))
    if not frames:
        return True
    last = frames[-1]
    code = last.tb_frame.f_code
    is_raised = dis.opname[code.co_code[last.tb_lasti]] in ("RAISE_VARARGS", "RERAISE")
    return is_raised and not is_library(code.co_filename)


def _steps(error: Exception) -> Iterator[TracebackType]:
    """The steps of a traceback, the innermost last."""
    step = error.__traceback__
    while step is not None:
        yield step
        step = step.tb_next


def _scipy_function(error: Exception) -> str | None:
    """The function of SciPy that the user called, if the error comes from inside of it."""
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    inside = list(map(is_scipy, frames))
    if True not in inside:
        return None
    below = frames[inside.index(True) :]
    if not all(is_library(frame.f_code.co_filename) or is_scipy(frame) for frame in below):
        return None  # it called the user's code, which failed
    is_ours = isinstance(error, TracingError) or isinstance(error.__cause__, TracingError)
    is_known = re.search(OF_COMPILED, str(error)) or (is_ours and any(map(_is_compiled, below)))
    is_traced = is_known or any(_is_traced(value) for frame in below for value in frame.f_locals.values())
    return _name_of(below[0]) if is_traced else None


def _is_compiled(frame: FrameType) -> bool:
    """Whether a frame is of compiled code, whose variables cannot be read."""
    return is_scipy(frame) and not is_library(frame.f_code.co_filename)


def _name_of(frame: FrameType) -> str:
    """The name by which a user knows a function of SciPy that is being called."""
    values, module = frame.f_locals, frame.f_globals["__name__"]
    owner, name = values.get("self"), frame.f_code.co_name
    if name == "__ua_function__":  # by which `scipy.fft` calls what is to transform
        return f"scipy.fft.{getattr(values.get('method'), '__name__', '')}"
    if wrapped := _wrapped(frame):
        name, module = wrapped.__qualname__, wrapped.__module__
    public = module.split("._")[0]
    if owner is None and _is_compiled(frame):  # whose names are whole
        name = name.removeprefix(f"{module}.").removesuffix(".__init__").removeprefix("__pyx_fused_cpdef")
        return f"{public}.{name}".removesuffix(".")
    if owner is None:  # with the class of a method that has no object yet
        qualified = name if "." in name else getattr(frame.f_code, "co_qualname", name)
        return f"{public}.{name if '<' in qualified else qualified}"
    name = name.split(".")[-1]
    if isinstance(own := getattr(owner, "__name__", None), str):  # a function that is an object
        return f"{public}.{own}"
    family = getattr(getattr(owner, "dist", owner), "name", None)  # of a distribution, or of a frozen one
    owned = f"{public}.{family or type(owner).__name__.removesuffix('_gen')}"
    return owned if name in ("__init__", "__call__") else f"{owned}.{name}"


def _wrapped(frame: FrameType) -> Any:
    """The function of SciPy that a wrapper around it is to call; None if the frame is of no wrapper."""
    if not frame.f_code.co_name.strip("_").endswith(("wrapper", "wrapped", "inner", "inner_f")):
        return None
    found = [frame.f_locals.get(name) for name in frame.f_code.co_freevars]
    known = [value for value in found if getattr(value, "__module__", "").startswith("scipy.")]
    return next((value for value in known if hasattr(value, "__name__")), None)


def _is_traced(value: Any) -> bool:
    if isinstance(value, np.ndarray):
        return bool(value.dtype == object)
    if isinstance(value, tuple | list):
        return any(map(_is_traced, value))
    if type(value) is dict:  # one of another class may not have been made yet
        return _is_traced(tuple(value.values()))
    return not isinstance(value, dict) and hasattr(value, "node") and not isinstance(value.node, type)


def _instead_of(name: str) -> str:
    _, module, *path = name.split(".")
    if module == "stats":
        own: Any = sys.modules.get("hesse.stats")
        for part in path:
            own = getattr(own, part, None)
        use = f"Use hesse.stats.{'.'.join(path)}, or write" if own else "Write"
        return f"{use} its formula."
    instead = INSTEAD.get(path[-1]) if path else None
    if instead is None:
        return "Write it with NumPy, or wrap it with hesse.custom_derivative."
    return f"Write {instead}."
