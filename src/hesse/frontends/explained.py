"""Errors that NumPy, SciPy and PyTorch raise when they meet traced values, in terms of the user's code."""

from __future__ import annotations

import re
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from hesse.errors import TracingError
from hesse.frontends.tracing import SCIPY, is_library, raised_at, untraceable

INSTEAD: dict[str, str] = {
    "cdist": "np.sqrt(np.sum((a[:, None] - b) ** 2, axis=-1))",
    "circulant": "hesse.toeplitz(c, np.roll(c[::-1], 1))",
    "block_diag": "hesse.block_diag(a, b)",
    "cho_factor": "hesse.cho_factor(a)",
    "cho_solve": "hesse.cho_solve((c, lower), b)",
    "cholesky": "np.linalg.cholesky(a)",
    "convolve": "np.convolve(a, v)",
    "correlate": "np.correlate(a, v)",
    "det": "np.linalg.det(a)",
    "eigh": "np.linalg.eigh(a)",
    "eigvalsh": "np.linalg.eigvalsh(a)",
    "expm": "hesse.expm(a)",
    "fft": "np.fft.fft(x)",
    "ifft": "np.fft.ifft(x)",
    "inv": "np.linalg.inv(a)",
    "log_softmax": "hesse.log_softmax(x, axis=axis)",
    "logm": "hesse.logm(a)",
    "logsumexp": "hesse.logsumexp(x, axis=axis)",
    "lstsq": "np.linalg.lstsq(a, b)",
    "multigammaln": "sums of hesse.lgamma",
    "norm": "np.linalg.norm(x)",
    "pinv": "np.linalg.pinv(a)",
    "polygamma": "hesse.polygamma(n, x)",
    "qr": "np.linalg.qr(a)",
    "rfft": "np.fft.rfft(x)",
    "softmax": "hesse.softmax(x, axis=axis)",
    "solve": "np.linalg.solve(a, b)",
    "solve_triangular": "hesse.solve_triangular(a, b, lower=True)",
    "sqrtm": "hesse.sqrtm(a)",
    "svd": "np.linalg.svd(a)",
    "svdvals": "np.linalg.svdvals(a)",
    "toeplitz": "hesse.toeplitz(c, r)",
}
"""What to write instead of a function of SciPy."""
OF_OBJECTS = r"dtype\('O'\)|dtype object|[Oo]bject array|has no callable \w+ method|loop of ufunc"


@contextmanager
def explained() -> Iterator[None]:
    """Around user code: our error instead of that of a library.

    For `a[0] = x` NumPy asks x for a number, and turns the refusal into a bare ValueError ("setting an array
    element with a sequence"), since x has a length and entries. Nothing of x is asked after that.
    """
    try:
        yield
    except (TypeError, ValueError, AttributeError, RuntimeError, TracingError) as error:
        explanation = _explanation(error)
        if explanation is None:
            raise
        raise untraceable(*explanation, raised_at(error)) from error


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
    if "NPY_ITER_REFS_OK" in str(error):
        return "np.nditer of a traced value", "Loop over x.flat, np.ndenumerate(x) or np.ndindex(x.shape)."
    if isinstance(error, TypeError) and re.search(OF_OBJECTS, str(error)):
        return (
            f"a function of an array of traced entries, np.array([x[0], 1.0]), as NumPy says ({error}),",
            "Build it with np.stack([x[0], 1.0]), np.block([[x[0], 1.0], [0.0, x[1]]]) or np.concatenate "
            "instead of np.array: then it is one traced value.",
        )
    return None


def _scipy_function(error: Exception) -> str | None:
    """The function of SciPy that the user called, if the error comes from inside of it."""
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    inside = [frame.f_code.co_filename.startswith(SCIPY) for frame in frames]
    if True not in inside:
        return None
    called = frames[inside.index(True)]
    if not all(is_library(frame.f_code.co_filename) for frame in frames[inside.index(True) :]):
        return None  # it called the user's code, which failed
    if not any(_is_traced(value) for value in called.f_locals.values()):
        return None
    module = called.f_globals["__name__"].split("._")[0]
    owner = called.f_locals.get("self")
    family = getattr(owner, "name", None) or type(owner).__name__.removesuffix("_gen")
    wrapped = called.f_locals.get("f")  # functions that SciPy applies to batches
    name = getattr(wrapped, "__name__", "") if called.f_code.co_name == "wrapper" else called.f_code.co_name
    return ".".join([module, *([family] if module == "scipy.stats" and owner is not None else []), name])


def _is_traced(value: Any) -> bool:
    if isinstance(value, np.ndarray):
        return bool(value.dtype == object)
    if isinstance(value, tuple | list):
        return any(map(_is_traced, value))
    return _is_traced(tuple(value.values())) if isinstance(value, dict) else hasattr(value, "node")


def _instead_of(name: str) -> str:
    if name.startswith("scipy.stats."):
        return f"Use {name.replace('scipy', 'hesse')} if there is one, or write its formula."
    instead = INSTEAD.get(name.rsplit(".", maxsplit=1)[-1])
    if instead is None:
        return "Write it with NumPy, or wrap it with hesse.custom_derivative."
    return f"Write {instead}."
