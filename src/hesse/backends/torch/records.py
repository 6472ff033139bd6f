"""PyTorch kernels of the operation records: `kernel(name)` finds one, here or among the shared ones."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor

from hesse.backends import records
from hesse.backends.foreign import pick, results_on_host
from hesse.backends.kernels import Kernel, find
from hesse.backends.names import words
from hesse.errors import DifferentiationError
from hesse.ops.foreign import Rule

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


def without_gradient(tensor: Tensor) -> Tensor:
    """The tensor inside of those that `torch.func` follows derivatives with: it has the same values."""
    while torch._C._functorch.is_gradtrackingtensor(tensor):
        tensor = torch._C._functorch.get_unwrapped(tensor)
    return tensor


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
    **words("torch"),
    asarray=lambda x: x,
    checked=lambda index, size: index,
    copy=torch.clone,
    repeat=_repeat,
    solve_triangular=partial(torch.linalg.solve_triangular, upper=False),
    take=lambda x, positions: gather((), x.reshape(-1), positions),
)


def adjugate(params: Params, a: Any) -> Any:
    """By the inverse, if there is one and that can be seen."""
    if not is_hidden(a):
        inverted, problem = torch.linalg.inv_ex(a)
        if not problem.any():
            return torch.linalg.det(a)[..., None, None] * inverted
    return torch.swapaxes(minors((1,), a), -1, -2)


class Minors(torch.autograd.Function):
    """Those of a matrix; derivatives by its singular values and vectors would need these to be distinct."""

    generate_vmap_rule = True

    @staticmethod
    def forward(a: Tensor, order: int) -> Tensor:
        found: Tensor = records.minors(XP, (order,), a)
        return found

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, int], output: Tensor) -> None:
        a, ctx.order = inputs
        ctx.save_for_backward(a)
        ctx.save_for_forward(a)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        own, partial = _partial_of_minors(ctx)
        return torch.einsum(f"...{own},...{own}yz->...yz", gradient, partial), None

    @staticmethod
    def jvp(ctx: Any, tangent: Tensor, _: None) -> Tensor:
        own, partial = _partial_of_minors(ctx)
        return torch.einsum(f"...{own}yz,...yz->...{own}", partial, tangent)


def _partial_of_minors(ctx: Any) -> tuple[str, Tensor]:
    """The names of the axes of minors, and their partial: those of the next order."""
    (a,) = ctx.saved_tensors
    return "abcdefghijkl"[: 2 * ctx.order], minors((ctx.order + 1,), a)


def minors(params: Params, a: Tensor) -> Tensor:
    """Through `Minors` where derivatives are followed."""
    if torch.compiler.is_compiling() or not (a.requires_grad or is_hidden(a)):
        return records.minors(XP, params, a)
    return Minors.apply(a, *params)


def logsumexp(params: Params, x: Any) -> Any:
    return torch.logsumexp(x, -1)


def softmax(params: Params, x: Any) -> Any:
    return torch.softmax(x, -1)


def log_softmax(params: Params, x: Any) -> Any:
    return torch.log_softmax(x, -1)


def gather(params: Params, x: Any, index: Any) -> Any:
    index = index.long()  # tensors of eight bits would be masks
    # A single position would be read on the host, were it not put into an array of one.
    return x[index] if index.ndim else x[index[None]][0]


def scatter(params: Params, u: Any, index: Any) -> Any:
    """Zeros with u[k] added to entry index[k]."""
    (size,) = params
    positions = index.long().reshape(-1)
    positions = torch.where(positions < 0, positions + size, positions)
    rest = u.shape[index.ndim :]
    rows = u.reshape(len(positions), *rest)
    return XP.zeros((size, *rest), u).index_add(0, positions, rows)


def foreign(params: Params, *operands: Any) -> list[Any]:
    """A native function is called as it is; any other one on the host, which autograd cannot see into."""
    (rule,) = params
    if rule.is_native:
        # Results share no memory with operands, as those of all kernels.
        device = operands[0].device  # not a default one
        return [torch.as_tensor(result, device=device).clone() for result in rule.call(*operands)]
    if is_hidden(*operands):
        raise _not_differentiable(rule)
    return list(_OnHost.apply(rule, *operands))


def _not_differentiable(rule: Rule) -> DifferentiationError:
    return DifferentiationError(
        f"PyTorch cannot differentiate, transform or capture {rule.name}, a function of NumPy arrays; let "
        "hesse differentiate once more, or write the function in torch and mark it native=True"
    )


class _OnHost(torch.autograd.Function):
    """A call with NumPy arrays; only if autograd asks for its derivative it is refused."""

    @staticmethod
    def forward(context: Any, rule: Rule, *operands: Any) -> tuple[Any, ...]:
        context.rule = rule
        arrays = [_host_array(operand) for operand in operands]
        device = operands[0].device
        real = [operand.dtype for operand in operands if operand.dtype.is_floating_point]
        results = tuple(
            torch.from_numpy(result).to(device, real[0] if real and result.dtype.kind == "f" else None)
            for result in results_on_host(rule, arrays)
        )
        context.mark_non_differentiable(*(r for r in results if not r.dtype.is_floating_point))
        return results

    @staticmethod
    def backward(context: Any, *cotangents: Any) -> Any:
        raise _not_differentiable(context.rule)


def _host_array(tensor: Any) -> Any:
    tensor = tensor.detach().cpu()
    return (tensor.float() if tensor.dtype == torch.bfloat16 else tensor).numpy()  # NumPy has no such type


KERNELS: dict[str, Kernel] = {
    **records.shared(XP),
    "adjugate": adjugate,
    "foreign": foreign,
    "gather": gather,
    "log_softmax": log_softmax,
    "logsumexp": logsumexp,
    "minors": minors,
    "pick": pick,
    "scatter": scatter,
    "softmax": softmax,
}
