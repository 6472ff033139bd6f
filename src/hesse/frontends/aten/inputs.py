"""What the expression of a tensor depends on: leaves, and data."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.utils._python_dispatch import _disable_current_modes

from hesse.errors import ArgumentError
from hesse.frontends.aten.foreign import kind_of
from hesse.frontends.complexes import Complex
from hesse.frontends.expression import Expression
from hesse.frontends.indices import Index
from hesse.ir import Node, Variable, variable


class Inputs:
    """Variables for tensors, named in the order in which they are met."""

    def __init__(self) -> None:
        self.leaves: list[tuple[Tensor, Variable]] = []
        """What is differentiated by."""
        self.data: dict[str, Tensor] = {}
        """Everything else, by the names of variables."""
        self._names: dict[Any, Expression] = {}
        """What stands for data, by where they are in memory."""

    def leaf(self, tensor: Tensor) -> Expression:
        """A new variable to differentiate by."""
        if tensor.dtype.is_complex:
            raise ArgumentError(
                f"a leaf of dtype {tensor.dtype} is differentiated by; only real ones are. Make it of real "
                "leaves: torch.complex(a, b), or torch.view_as_complex(x)"
            )
        point = variable(f"leaf {len(self.leaves)}", tuple(tensor.shape))
        self.leaves.append((tensor, point))
        return Expression(point)

    def hidden(self, tensor: Tensor) -> Any:
        """The variable for data; a pair of them if they are complex."""
        if tensor.dtype.is_complex:
            with _disable_current_modes():
                whole = tensor.detach().resolve_conj()
                parts = whole.real, whole.imag
            return Complex(*map(self.hidden, parts))
        with _disable_current_modes():  # the tensor itself, also while another function is traced
            tensor = tensor.detach()
            if (
                not tensor.dim()
            ):  # numbers of Python that autograd kept: products of two are in single precision
                tensor = tensor.view(1)[0]
        key = tensor.data_ptr(), tensor.shape, tensor.stride(), tensor.dtype
        if key not in self._names:
            name, shape, kind = f"saved {len(self.data)}", tuple(tensor.shape), kind_of(tensor.dtype)
            self.data[name], index = tensor, None
            if kind == "integer":
                self.data[f"{name} as an index"] = tensor
                index = Index(variable(f"{name} as an index", shape, kind="integer"))
            self._names[key] = Expression(variable(name, shape), boolean=kind == "boolean", index=index)
        return self._names[key]


class Walked(NamedTuple):
    """A tensor as an expression of leaves and data."""

    root: Node
    is_shifted: bool
    """Whether the value of the expression differs from the tensor by a constant."""
    inputs: Inputs
    dtypes: frozenset[torch.dtype]
    """Those of what was computed on the way, which rounded it."""
