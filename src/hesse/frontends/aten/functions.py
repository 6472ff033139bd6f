"""Calls of autograd inside a traced function: derivatives by hesse's calculus, and functions with own rules."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from hesse.calculus.modes import pull_back
from hesse.frontends.aten.foreign import called
from hesse.frontends.aten.table import Typed
from hesse.frontends.aten.tensor import TracedTensor, expression_of, fresh, is_recording
from hesse.frontends.expression import Expression
from hesse.frontends.operands import as_node
from hesse.frontends.tracing import untraceable
from hesse.ir import Constant, Node, add, substitute, topological, uniform, variable


class AutogradMode(TorchFunctionMode):
    """Answers `torch.autograd.grad` of traced tensors; everything else is left alone."""

    def __torch_function__(
        self, function: Any, types: Any, arguments: tuple[Any, ...] = (), options: Any = None
    ) -> Any:
        options = options or {}
        if function is torch.autograd.grad and _has_traced(arguments[0]):  # not those of torch.func
            return gradient(*arguments, **options)
        if function in (torch.Tensor.backward, torch.autograd.backward):
            raise untraceable("backward() inside a traced function", "Use torch.autograd.grad.")
        return function(*arguments, **options)


def _has_traced(outputs: Any) -> bool:
    return any(isinstance(value, TracedTensor) for value in (outputs, *_several(outputs)))


def _several(value: Any) -> list[Any]:
    return list(value) if isinstance(value, tuple | list) else []


def gradient(
    outputs: Any,
    inputs: Any,
    grad_outputs: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    only_inputs: bool = True,
    allow_unused: bool | None = None,
    is_grads_batched: bool = False,
    materialize_grads: bool = False,
) -> tuple[Any, ...]:
    """`torch.autograd.grad` of traced tensors."""
    if is_grads_batched:
        raise untraceable("torch.autograd.grad with is_grads_batched", "Use torch.func.jacrev or a loop.")
    results = [outputs] if isinstance(outputs, Tensor) else list(outputs)
    variables = [inputs] if isinstance(inputs, Tensor) else list(inputs)
    weights = [grad_outputs] if isinstance(grad_outputs, Tensor) else list(grad_outputs or ())
    weights += [None] * (len(results) - len(weights))
    nodes = [as_node(expression_of(tensor)) for tensor in variables]
    if any(isinstance(node, Constant) for node in nodes):
        raise untraceable(
            "torch.autograd.grad by a tensor that is made inside the function",
            "Pass it as an argument, or use torch.func.grad.",
        )
    points = [
        variable(f"point {k} of autograd.grad", node.shape, ["argument"]) for k, node in enumerate(nodes)
    ]
    table = dict(zip(nodes, points, strict=True))
    back = dict(zip(points, nodes, strict=True))
    totals: list[list[Node]] = [[] for _ in points]
    used: set[Node] = set()
    for result, weight in zip(results, weights, strict=True):
        (root,) = substitute([as_node(expression_of(result))], table)
        used |= {node for node in topological([root]) if node in back}
        if weight is None:
            if root.rank:
                raise RuntimeError("grad can be implicitly created only for scalar outputs")
            cotangent = uniform(1.0, ())
        else:
            cotangent = as_node(expression_of(weight))
        for total, term in zip(totals, pull_back(root, cotangent, points), strict=True):
            total.append(term)
    found = substitute([add(terms, point.shape) for terms, point in zip(totals, points, strict=True)], back)
    answers: list[Any] = []
    for tensor, point, node in zip(variables, points, found, strict=True):
        if point not in used and not materialize_grads:
            if not allow_unused:
                raise RuntimeError("One of the differentiated tensors is unused; set allow_unused=True")
            answers.append(None)
        else:
            answers.append(fresh(Expression(node), tensor.dtype, tensor.device))
    return tuple(answers)


_lock = threading.Lock()
_original = torch.autograd.Function.apply


def _apply(cls: Any, *arguments: Any, **options: Any) -> Any:
    """`Function.apply`, not looked into if a tensor is traced: its own rule differentiates it."""
    if is_recording.get() or not any(isinstance(value, TracedTensor) for value in arguments):
        return _original.__func__(cls, *arguments, **options)  # type: ignore[attr-defined]
    tensors = [value for value in arguments if isinstance(value, Tensor)]
    found = called(cls.__name__, cls.apply, arguments, options)
    return _wrapped(found, tensors)


def _wrapped(found: Any, tensors: Sequence[Tensor]) -> Any:
    if isinstance(found, Typed):
        return fresh(found.value, found.dtype, tensors[0].device)
    if isinstance(found, tuple):
        return tuple(_wrapped(part, tensors) for part in found)
    dtype = next(t.dtype for t in tensors if t.dtype.is_floating_point)
    return fresh(found, torch.bool if found.boolean else dtype, tensors[0].device)


def install() -> None:
    """Let functions with rules of their own be traced; for tensors that are not traced nothing changes."""
    with _lock:
        if torch.autograd.Function.apply.__func__ is not _apply:  # type: ignore[attr-defined]
            torch.autograd.Function.apply = classmethod(_apply)  # type: ignore[assignment, method-assign]


@contextmanager
def autograd_explained(tracer: Any) -> Iterator[None]:
    """Around a traced function: what it asks of autograd is answered by hesse."""
    install()
    with AutogradMode():
        yield
