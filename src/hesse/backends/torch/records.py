"""PyTorch kernels of the operation records: `kernel(name)` finds one, here or among the shared ones."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from hesse.backends import records
from hesse.backends.kernels import Kernel, find

Params = tuple[Any, ...]


def kernel(name: str) -> Kernel:
    """The kernel of the record with this name.

    Singular and indefinite matrices raise `torch.linalg.LinAlgError`, for which the host waits.
    """
    return find(name, KERNELS, "hesse.backends.torch.records.KERNELS")


def is_hidden(*tensors: Any) -> bool:
    """Whether values cannot be looked at: a function is traced, transformed or captured."""
    if torch.compiler.is_compiling() or any(map(torch._C._functorch.is_functorch_wrapped_tensor, tensors)):
        return True
    return any(tensor.is_cuda for tensor in tensors) and torch.cuda.is_current_stream_capturing()


def _repeat(step: Callable[[Any, Any], Any], counts: Any, state: Any) -> Any:
    """Only as often as needed, where the counts can be looked at."""
    if is_hidden(counts):
        for level in range(records.MOST_DOUBLINGS):
            state = step(state, counts > level)
        return records.nan_beyond_the_most(torch, counts, state)
    least, most = torch.stack(torch.aminmax(counts)).tolist()
    for level in range(most):
        state = step(state, None if level < least else counts > level)
    return state


XP = records.Namespace(
    torch,
    arange=lambda size, like: torch.arange(size, device=like.device),
    asarray=lambda x: x,
    cast=lambda x, like: x.to(like.dtype),
    checked=lambda index, size: index,
    copy=torch.clone,
    eye=lambda size, like: torch.eye(size, dtype=like.dtype, device=like.device),
    repeat=_repeat,
    solve_triangular=partial(torch.linalg.solve_triangular, upper=False),
    take=lambda x, positions: gather((), x.reshape(-1), positions),
    wide=lambda x: x.to(torch.int64),
    zeros=lambda shape, like: torch.zeros(shape, dtype=like.dtype, device=like.device),
)


def logsumexp(params: Params, x: Any) -> Any:
    return torch.logsumexp(x, -1)


def softmax(params: Params, x: Any) -> Any:
    return torch.softmax(x, -1)


def log_softmax(params: Params, x: Any) -> Any:
    return torch.log_softmax(x, -1)


def gather(params: Params, x: Any, index: Any) -> Any:
    # A single position would be read on the host, were it not put into an array of one.
    return x[index] if index.ndim else x[index[None]][0]


def scatter(params: Params, u: Any, index: Any) -> Any:
    (size,) = params
    positions = index.reshape(-1)
    positions = torch.where(positions < 0, positions + size, positions)
    rest = u.shape[index.ndim :]
    rows = u.reshape(len(positions), *rest)
    return XP.zeros((size, *rest), u).index_add(0, positions, rows)


KERNELS: dict[str, Kernel] = {
    **records.shared(XP),
    "gather": gather,
    "log_softmax": log_softmax,
    "logsumexp": logsumexp,
    "scatter": scatter,
    "softmax": softmax,
}
