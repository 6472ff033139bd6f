"""A trace of a torch function, as the layers above see it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from hesse.frontends.aten.foreign import kind_of
from hesse.frontends.aten.tensor import TracedTensor, expression_of, fresh
from hesse.frontends.aten.tracer import Tracer
from hesse.frontends.expression import Expression
from hesse.frontends.indices import Index
from hesse.frontends.libraries import Session
from hesse.frontends.tracing import skip_frames
from hesse.ir import variable

skip_frames(torch)


class TorchSession(Session):
    """One trace of a torch function."""

    def __init__(self, captured: Sequence[tuple[Tensor, Expression]], known: Sequence[Tensor]) -> None:
        self.further = []
        self._tracer = Tracer(captured, self._met, known)

    def _met(self, tensor: Tensor) -> Expression:
        """A placeholder: the function is traced again with this tensor as an input."""
        self.further.append(tensor)
        name, shape = f"tensor {len(self.further)} met", tuple(tensor.shape)
        kind = kind_of(tensor.dtype)
        index = Index(variable(f"{name} as an index", shape, kind="integer")) if kind == "integer" else None
        return Expression(variable(name, shape), boolean=kind == "boolean", index=index)

    def given(self, expression: Expression, array: Any) -> TracedTensor:
        tensor = array if isinstance(array, Tensor) else torch.as_tensor(array)
        return fresh(expression, tensor.dtype, tensor.device, tensor.is_contiguous())

    def called(self, function: Callable[[], Any]) -> Any:
        with self._tracer.active():
            return function()

    def returned(self, leaf: Any) -> Any:
        if not isinstance(leaf, Tensor):
            return leaf
        return expression_of(leaf if isinstance(leaf, TracedTensor) else self._tracer.stand_in(leaf))


def session(captured: Sequence[tuple[Tensor, Expression]], known: Sequence[Tensor]) -> TorchSession:
    """A trace of a function that reads these tensors, and others whose entries are known."""
    return TorchSession(captured, known)


def traced_expression(value: Any) -> Expression | None:
    """What a traced tensor stands for."""
    return expression_of(value) if isinstance(value, TracedTensor) else None
