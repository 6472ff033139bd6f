"""A trace of a torch function, as the layers above see it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import _disable_current_modes

from hesse.errors import HesseError
from hesse.frontends.aten.foreign import kind_of
from hesse.frontends.aten.points import Again, Points, current, points
from hesse.frontends.aten.tensor import TracedTensor, dtype_of, expression_of, fresh
from hesse.frontends.aten.tracer import Tracer
from hesse.frontends.complexes import Complex
from hesse.frontends.expression import Expression
from hesse.frontends.indices import Index
from hesse.frontends.libraries import Input, Nested, Session
from hesse.frontends.tracing import skip_frames, untraceable
from hesse.ir import variable

skip_frames(torch)


class TorchSession(Session):
    """One trace of a torch function."""

    def __init__(self, captured: Sequence[tuple[Tensor, Expression]], known: Sequence[Tensor]) -> None:
        self.further, self.is_final = [], False
        self._captured, self._constants = captured, known

    def _met(self, tensor: Tensor) -> Expression:
        """A placeholder: the function is traced again with this tensor as an input."""
        if tensor.dtype.is_complex:
            raise untraceable(
                "a complex tensor that the function reads from a place that hesse does not look into",
                "Use it as a global variable or a closure, or pass its real and imaginary parts.",
            )
        self.further.append(tensor)
        name, shape = f"tensor {len(self.further)} met", tuple(tensor.shape)
        kind = kind_of(tensor.dtype)
        index = Index(variable(f"{name} as an index", shape, kind="integer")) if kind == "integer" else None
        return Expression(variable(name, shape), boolean=kind == "boolean", index=index)

    def called(
        self, function: Callable[[Sequence[Any], Sequence[Any]], list[Any]], inputs: Sequence[Input]
    ) -> list[Any]:
        given = [_given(one) for one in inputs]
        read = [array if isinstance(array, Tensor) else stand_in for array, stand_in in self._captured]
        wanted: frozenset[int] = frozenset()
        while True:
            with points(wanted) as self._points:
                for tensor, one in zip(given, inputs, strict=True):
                    tensor.cell.write(one.expression)
                    tensor.enter()
                self._tracer = Tracer(self._captured, self._met, self._constants)
                try:
                    with self._tracer.active():
                        leaves = function(given, read)
                    return list(map(self._returned, leaves))
                except Again:
                    wanted = self._points.wanted
                    self.further.clear()
                except TypeError as error:
                    if self._tracer.refusal is None or isinstance(error, HesseError):
                        raise
                    raise self._tracer.refusal from error
                finally:
                    self.is_final = self._tracer.is_random

    def _returned(self, leaf: Any) -> Any:
        if not isinstance(leaf, Tensor):
            return leaf
        found = expression_of(leaf if isinstance(leaf, TracedTensor) else self._tracer.stand_in(leaf))
        return _expanded(found, self._points, 0)


def _given(one: Input) -> TracedTensor:
    """What the function is called with in place of an array."""
    tensor = one.array if isinstance(one.array, Tensor) else torch.as_tensor(one.array)
    given = fresh(one.expression, tensor.dtype, tensor.device, tensor.is_contiguous())
    given.cell.is_inside = tensor.storage_offset() > 0
    return given


class NestedSession(Nested):
    """A function called inside a trace that is under way, which traces it, too."""

    def __init__(self, under_way: Points, like: Sequence[Tensor]) -> None:
        self._points, self._start = under_way, len(under_way.meaning)
        self._like = next((t for t in like if t.dtype.is_floating_point), None)

    def given(self, expression: Expression, array: Any) -> Any:
        if not isinstance(array, Tensor):
            return self.result(expression)
        return fresh(expression, array.dtype, array.device, array.is_contiguous())

    def returned(self, leaf: Any) -> Any:
        if not isinstance(leaf, Tensor):
            return leaf
        traced = leaf if isinstance(leaf, TracedTensor) else torch.ops.aten.alias.default(leaf)
        return _expanded(expression_of(traced), self._points, self._start)

    def result(self, expression: Expression) -> Any:
        """An expression as a tensor of the function around it."""
        dtype = torch.get_default_dtype() if self._like is None else self._like.dtype
        device = torch.get_default_device() if self._like is None else self._like.device
        return fresh(expression, dtype_of(expression, dtype), device)


def _expanded(found: Any, under_way: Points, start: int) -> Any:
    """An expression without the points that were made after the first `start` ones."""
    if isinstance(found, Complex):
        return found  # which is refused as a result
    (node,) = under_way.expanded([found.node], start)
    return found if node is found.node else Expression(node, boolean=found.boolean)


def session(captured: Sequence[tuple[Tensor, Expression]], known: Sequence[Tensor]) -> TorchSession:
    """A trace of a function that reads these tensors, and others whose entries are known."""
    return TorchSession(captured, known)


def nested_session(leaves: Sequence[Any]) -> NestedSession | None:
    """That of a function called with these leaves inside a trace; None if no torch function is traced."""
    under_way = current.get()
    if under_way is None:
        return None
    return NestedSession(under_way, [leaf for leaf in leaves if isinstance(leaf, Tensor)])


def computing() -> AbstractContextManager[None]:
    """Around calls with tensors inside of a trace."""
    disabled: AbstractContextManager[None] = _disable_current_modes()
    return disabled


def traced_expression(value: Any) -> Expression | None:
    """What a traced tensor stands for."""
    return expression_of(value) if isinstance(value, TracedTensor) else None
