"""What a traced function asks of autograd: derivatives by hesse's calculus, and functions with own rules."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Container, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor
from torch._C import _functorch as functorch
from torch._functorch.pyfunctorch import temporarily_clear_interpreter_stack
from torch.overrides import TorchFunctionMode
from torch.utils.checkpoint import CheckpointFunction

from hesse.calculus.modes import pull_back
from hesse.frontends.aten.foreign import called
from hesse.frontends.aten.points import Again, current
from hesse.frontends.aten.table import Typed
from hesse.frontends.aten.tensor import TracedTensor, expression_of, fresh, is_recording
from hesse.frontends.expression import Expression
from hesse.frontends.operands import as_node
from hesse.frontends.special import stop_gradient
from hesse.frontends.tracing import untraceable
from hesse.ir import Node, Variable, add, topological, uniform


class AutogradMode(TorchFunctionMode):
    """Answers `torch.autograd.grad` of traced tensors; everything else is left alone.

    Tensors of a `torch.func` transformation around the trace, which is suspended, are replaced by what stands
    for them: PyTorch would take them for leftovers and unwrap them.
    """

    def __init__(
        self, traced: Callable[[Tensor], TracedTensor], known: Container[int], is_transformed: bool
    ) -> None:
        super().__init__()
        self._traced, self._known = traced, known
        self._is_transformed = is_transformed

    def __torch_function__(
        self, function: Any, types: Any, arguments: tuple[Any, ...] = (), options: Any = None
    ) -> Any:
        options = options or {}
        if self._is_transformed:
            arguments = self._resumed(arguments)
            options = {name: self._resumed(value) for name, value in options.items()}
        if function is torch.autograd.grad:
            outputs, inputs = _several(arguments[0]), _several(arguments[1])
            if any(isinstance(value, TracedTensor) for value in outputs):  # else it is inside torch.func.grad
                return gradient(list(map(self._traced, outputs)), list(map(self._traced, inputs)), **options)
        if function is F.gaussian_nll_loss:
            return gaussian_nll_loss(*arguments, **options)
        if function in (F.ctc_loss, torch.ctc_loss):
            return ctc_loss(function, *arguments, **options)
        if function in (torch.Tensor.backward, torch.autograd.backward):
            raise untraceable("backward() inside a traced function", "Use torch.autograd.grad.")
        return function(*arguments, **options)

    def _resumed(self, value: Any) -> Any:
        """Arguments with what stands for tensors of the suspended transformation."""
        if isinstance(value, tuple | list) and not isinstance(value, torch.Size):
            return type(value)(map(self._resumed, value))
        if not isinstance(value, Tensor) or not functorch.is_functorch_wrapped_tensor(value):
            return value
        inner = functorch.peek_interpreter_stack()
        is_suspended = functorch.maybe_get_level(value) > (0 if inner is None else inner.level())
        return self._traced(value) if is_suspended or id(value) in self._known else value


def gaussian_nll_loss(
    x: Tensor, target: Tensor, var: Any, full: bool = False, eps: float = 1e-6, reduction: str = "mean"
) -> Tensor:
    """PyTorch's function, which looks for negative variances; of those that are traced nobody knows."""
    if not isinstance(var, TracedTensor):
        return F.gaussian_nll_loss(x, target, var, full, eps, reduction)
    if var.shape == x.shape[:-1]:
        var = var.unsqueeze(-1)
    var = var.clone()
    with torch.no_grad():
        var.clamp_(min=eps)
    losses = 0.5 * (var.log() + (x - target) ** 2 / var + (math.log(2 * math.pi) if full else 0.0))
    return losses if reduction == "none" else getattr(losses, reduction)()


LENGTHS = ("input_lengths", "target_lengths")
"""The third and the fourth argument of `ctc_loss`."""


def ctc_loss(function: Any, *arguments: Any, **options: Any) -> Tensor:
    """PyTorch's function with lengths as tensors: it writes lists into memory, which is not there."""
    made = [*arguments[:2], *map(torch.as_tensor, arguments[2:4]), *arguments[4:]]
    named = {name: torch.as_tensor(value) if name in LENGTHS else value for name, value in options.items()}
    result: Tensor = function(*made, **named)
    return result


def _several(value: Any) -> list[Any]:
    """One or several tensors."""
    return list(value) if isinstance(value, tuple | list) else [value]


def gradient(
    outputs: Sequence[TracedTensor],
    inputs: Sequence[TracedTensor],
    grad_outputs: Any = None,
    allow_unused: bool | None = None,
    is_grads_batched: bool = False,
    materialize_grads: bool = False,
    **_: Any,
) -> tuple[Any, ...]:
    """`torch.autograd.grad` of traced tensors; the result can be differentiated in any case."""
    if is_grads_batched:
        raise untraceable("torch.autograd.grad with is_grads_batched", "Use torch.func.jacrev or a loop.")
    weights = [None] * len(outputs) if grad_outputs is None else _several(grad_outputs)
    places = _places(inputs)
    answers: list[Any] = []
    for tensor, place in zip(inputs, places, strict=True):
        terms = [_pulled_back(*pair, tensor, place) for pair in zip(outputs, weights, strict=True)]
        used = [term for term in terms if term is not None]
        if used or materialize_grads:
            total = add(used, tuple(tensor.shape))
            answers.append(fresh(Expression(total), tensor.dtype, tensor.device))
        elif not allow_unused:
            raise RuntimeError(
                "One of the differentiated Tensors appears to not have been used in the graph. "
                "Set allow_unused=True if this is the desired behavior."
            )
        else:
            answers.append(None)
    return tuple(answers)


def _places(inputs: Sequence[TracedTensor]) -> list[int]:
    """How many points are as old as each of the tensors, which must be points."""
    points = current.get()
    assert points is not None, "torch.autograd.grad is answered inside traces only"
    places = [points.place(as_node(expression_of(tensor))) for tensor in inputs]
    missing = {tensor.number for tensor, place in zip(inputs, places, strict=True) if place is None}
    if missing & points.wanted:
        raise untraceable(
            "torch.autograd.grad by a tensor that was changed in place",
            "Differentiate by a copy: y = x.clone().",
        )
    if missing:
        points.wanted |= missing
        raise Again
    return [place for place in places if place is not None]


def _pulled_back(output: TracedTensor, weight: Any, tensor: TracedTensor, place: int) -> Node | None:
    """The derivative of a weighted sum of outputs by a point; None if it does not depend on that."""
    points = current.get()
    assert points is not None
    (root,) = points.expanded([as_node(expression_of(output))], place)
    point = as_node(expression_of(tensor))
    assert isinstance(point, Variable)
    if not any(node is point for node in topological([root])):
        return None
    if weight is None and root.rank:
        raise RuntimeError("grad can be implicitly created only for scalar outputs")
    cotangent = uniform(1.0, ()) if weight is None else as_node(expression_of(weight))
    return pull_back(root, cotangent, [point])[0]


_lock = threading.Lock()
_base: Any = torch.autograd.function._SingleLevelFunction


class Recorder(Protocol):
    """What writes down the operations in a block of code."""

    def applied(self, function: Any, compute: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        """The results of a function with a rule of its own, written down as one operation."""


recorder: ContextVar[Recorder | None] = ContextVar("recorder", default=None)


def _apply(cls: Any, *arguments: Any, **options: Any) -> Any:
    """`Function.apply`, not looked into if a tensor is traced: its own rule differentiates it."""
    is_traced, tape = any(isinstance(value, TracedTensor) for value in arguments), recorder.get()
    if is_recording.get() or not (is_traced or tape):
        return super(_base, cls).apply(*arguments, **options)
    if cls is CheckpointFunction:
        run, _, *operands = arguments
        return run(*operands)
    if tape is not None and not is_traced:
        return tape.applied(cls.apply, super(_base, cls).apply, *arguments, **options)
    tensors = [value for value in arguments if isinstance(value, Tensor)]
    found = called(cls.__name__, cls.apply, arguments, options)
    return _wrapped(found, tensors)


def _wrapped(found: Any, tensors: Sequence[Tensor]) -> Any:
    if isinstance(found, Typed):
        return fresh(found.value, found.dtype, tensors[0].device)
    if isinstance(found, tuple):
        return tuple(_wrapped(part, tensors) for part in found)
    dtype = next(t.dtype for t in tensors if t.dtype.is_floating_point)
    found = found if torch.is_grad_enabled() else stop_gradient(found)
    return fresh(found, torch.bool if found.boolean else dtype, tensors[0].device)


def install() -> None:
    """Let functions with rules of their own be traced; for tensors that are not traced nothing changes.

    `Function.apply` ends here however it was bound: `gelu = Gelu.apply` may be older than this.
    """
    with _lock:
        if "apply" not in vars(_base):
            _base.apply = classmethod(_apply)


@contextmanager
def autograd_explained(traced: Callable[[Tensor], TracedTensor], known: Container[int]) -> Iterator[None]:
    """Around a traced function: what it asks of autograd is answered by hesse.

    What stands for a tensor is its `traced` one; those with `known` identities have one already.
    """
    install()
    is_transformed = functorch.peek_interpreter_stack() is not None
    with temporarily_clear_interpreter_stack(), AutogradMode(traced, known, is_transformed):
        yield
