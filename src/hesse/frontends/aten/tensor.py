"""Tensors that stand in for others while a function is traced, and the memory that they share.

A `TracedTensor` has the shape, the dtype and the device of a tensor, but no entries. What it stands for is
in a `Cell`: an expression, or a real tensor where the entries are known. Tensors that share memory in PyTorch
(views) share a cell here and differ in the `steps` that lead from it to them, so that writing to one of them
changes all.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any, NamedTuple, NoReturn, TypeAlias

import numpy as np
import torch
from torch import Tensor
from torch._C import _DisableTorchDispatch
from torch.utils._python_dispatch import _disable_current_modes

from hesse.errors import ArgumentError
from hesse.frontends.aten.points import current
from hesse.frontends.aten.table import handler_of
from hesse.frontends.complexes import Complex
from hesse.frontends.dispatch import call, call_ufunc
from hesse.frontends.expression import Expression
from hesse.frontends.operands import as_node, constant
from hesse.frontends.special import stop_gradient
from hesse.frontends.tracing import note_need, untraceable
from hesse.ir import Constant

Content: TypeAlias = Expression | Complex | Tensor
"""What a tensor stands for: an expression or a pair of them, or a tensor whose entries are known."""

is_recording: ContextVar[bool] = ContextVar("is_recording", default=False)
"""Whether PyTorch records traced operations, to differentiate them by its own rules."""


TRACED = (Expression, Complex)
"""What stands for tensors whose entries are not known."""


class Step(NamedTuple):
    """A view of a tensor: an operation, its further arguments, and which of its results it is.

    `may_copy` says that PyTorch decides by the layout in memory whether the result is a view or a copy.
    """

    function: Any
    arguments: tuple[Any, ...]
    options: dict[str, Any]
    part: int | None
    may_copy: bool

    def of(self, value: Any, compute: Callable[..., Any]) -> Any:
        """The view of a value, computed by the operation or by its handler."""
        found = compute(value, *self.arguments, **self.options)
        return found if self.part is None else found[self.part]


class Cell:
    """What tensors with common memory stand for.

    `is_ordered` says that the entries are certain to lie in memory in the order of the axes, `is_inside` that
    the memory begins before them. `points` are the views that stand for variables until something is written,
    by their steps.
    """

    __slots__ = ("is_inside", "is_ordered", "points", "value", "version", "was_reshaped")

    def __init__(self, value: Content, is_ordered: bool) -> None:
        self.value = value
        self.points: list[tuple[tuple[Step, ...], Expression]] = []
        self.version = 0
        self.is_ordered = is_ordered
        self.is_inside = False
        self.was_reshaped = False

    def write(self, value: Content) -> None:
        """Put another value in."""
        self.value = value
        self.version += 1
        self.points.clear()

    def forbid_writing(self) -> None:
        """Refuse writing from now on: other tensors have the same memory in PyTorch, but not here."""
        self.is_ordered, self.was_reshaped = False, True

    def content(self, steps: tuple[Step, ...]) -> Content:
        """The view to which steps lead."""
        for known, point in reversed(self.points):
            if len(known) <= len(steps) and all(map(operator.is_, steps, known)):
                return viewed(steps[len(known) :], point)
        return viewed(steps, self.value)


class TracedTensor(torch.Tensor):
    """A tensor without entries that records what is computed with it."""

    cell: Cell
    steps: tuple[Step, ...]
    number: int
    """Which tensor of the trace it is."""
    _known: tuple[int, Content] | None

    @staticmethod
    def __new__(
        cls, cell: Cell, steps: tuple[Step, ...], shape: tuple[int, ...], dtype: torch.dtype, device: Any
    ) -> TracedTensor:
        self: TracedTensor = Tensor._make_wrapper_subclass(cls, shape, dtype=dtype, device=device)
        self.cell, self.steps, self.number, self._known = cell, steps, 0, None
        self.enter()
        return self

    def __init__(self, *arguments: Any) -> None:
        pass

    def enter(self) -> None:
        """Number the tensor; if derivatives by it are wanted, let it stand for a variable."""
        points = current.get()
        if points is None:
            return
        self.number = points.number()
        if self.number in points.wanted:
            point = Expression(points.point(as_node(expression_of(self))))
            self._known = None
            if self.steps:
                self.cell.points.append((self.steps, point))
            else:
                self.cell.write(point)

    @property
    def requires_grad(self) -> bool:
        """Whether it depends on anything; while PyTorch records, what PyTorch says."""
        if is_recording.get():
            return bool(Tensor.requires_grad.__get__(self))
        value = content(self)
        if not isinstance(value, Expression) or not self.dtype.is_floating_point:
            return False
        return not isinstance(value.node, Constant) and getattr(value.node, "name", "") != "stop_gradient"

    @requires_grad.setter
    def requires_grad(self, value: bool) -> None:
        pass

    def requires_grad_(self, requires_grad: bool = True) -> TracedTensor:
        """The tensor; PyTorch is told only while it records."""
        return super().requires_grad_(requires_grad) if is_recording.get() else self

    __torch_function__ = torch._C._disabled_torch_function_impl

    @classmethod
    def __torch_dispatch__(
        cls, function: Any, types: Any, arguments: tuple[Any, ...] = (), options: Any = None
    ) -> NoReturn:
        refusal = untraceable(
            f"a tensor of a traced function, used in {function} after the function was left,",
            "Return it instead of storing it.",
        )
        raise ArgumentError(str(refusal))  # operators of PyTorch would swallow a TypeError

    def __repr__(self, **_: Any) -> str:
        return f"TracedTensor(shape={tuple(self.shape)}, dtype={self.dtype})"

    __hash__ = object.__hash__

    # NumPy's functions work on what the tensor stands for.

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any:
        return self._wrapped(call_ufunc(ufunc, method, tuple(map(unwrapped, inputs)), options))

    def __array_function__(self, function: Any, types: Any, arguments: Any, options: Any) -> Any:
        return self._wrapped(
            call(function, unwrapped(tuple(arguments)), {key: unwrapped(v) for key, v in options.items()})
        )

    def _wrapped(self, value: Any) -> Any:
        if isinstance(value, tuple | list):
            return type(value)(map(self._wrapped, value))
        if not isinstance(value, Expression):
            return value
        return fresh(value, dtype_of(value, self.dtype), self.device)

    def _valueless(self, *_: Any, **__: Any) -> NoReturn:
        note_need([expression_of(self)])
        raise untraceable(
            "numpy(), tolist() or another conversion of a traced tensor",
            "Inside a traced function values are not known; use torch functions instead.",
        )

    numpy = tolist = __array__ = data_ptr = untyped_storage = _valueless

    def __format__(self, specification: str) -> str:
        return repr(self)

    def _called_entry_by_entry(self, *_: Any, **__: Any) -> NoReturn:
        raise untraceable(
            "apply_, map_ or map2_, which call Python for every entry,", "Write it with functions of torch."
        )

    apply_ = map_ = map2_ = _called_entry_by_entry

    def __deepcopy__(self, memo: Any) -> TracedTensor:
        return self

    def detach(self) -> Any:
        """A constant. What PyTorch itself detaches, to save it for a rule, does not come here and is none."""
        if not is_recording.get():
            return super().detach()
        return fresh(stop_gradient(expression_of(self)), self.dtype, self.device)


def fresh(value: Content, dtype: torch.dtype, device: torch.device, is_ordered: bool = False) -> TracedTensor:
    """A tensor with memory of its own."""
    return TracedTensor(Cell(value, is_ordered), (), tuple(value.shape), dtype, device)


def known(value: Tensor) -> TracedTensor:
    """A tensor whose entries are known."""
    return fresh(value, value.dtype, value.device, value.is_contiguous())


def dtype_of(value: Expression, floating: torch.dtype) -> torch.dtype:
    """The dtype of the tensor for an expression, where numbers are `floating`."""
    if value.boolean:
        return torch.bool
    if value.index is not None or value.is_index:
        return torch.int64
    return floating if floating.is_floating_point else torch.get_default_dtype()


def content(tensor: TracedTensor) -> Content:
    """What a tensor stands for."""
    cell = tensor.cell
    if not tensor.steps:
        return cell.value
    if tensor._known is None or tensor._known[0] != cell.version:
        tensor._known = cell.version, cell.content(tensor.steps)
    return tensor._known[1]


def viewed(steps: tuple[Step, ...], value: Content) -> Content:
    """The view of a value to which steps lead."""
    if not isinstance(value, TRACED):
        return real_view(steps, value)
    for step in steps:
        handler = handler_of(step.function)
        assert handler is not None, f"{step.function} is a view and needs a handler"
        value = step.of(value, handler)
    return value


def real_view(steps: tuple[Step, ...], value: Tensor) -> Tensor:
    """The same for a tensor whose entries are known."""
    with _disable_current_modes():
        for step in steps:
            value = step.of(value, step.function)
    return value


def expression_of(tensor: Tensor) -> Any:
    """The expression that a tensor stands for, known entries included; a pair if it is complex."""
    value = content(tensor) if isinstance(tensor, TracedTensor) else tensor
    return value if isinstance(value, TRACED) else as_constant(value)


def as_constant(value: Tensor) -> Any:
    """A tensor whose entries are known, as an expression; a pair if it is complex."""
    if value.dtype.is_complex:
        with _disable_current_modes():
            whole = value.detach().resolve_conj()
            parts = whole.real, whole.imag
        return Complex(*map(as_constant, parts))
    with _disable_current_modes():
        if value._is_zerotensor():
            value = torch.zeros_like(value)
        host = value.detach().resolve_neg().cpu()
        array = host.numpy() if host.dtype != torch.bfloat16 else host.double().numpy()
    found = constant(np.array(array))
    return found


def unwrapped(value: Any) -> Any:
    """Traced tensors in arguments as expressions."""
    if isinstance(value, Tensor):
        return expression_of(value)
    if isinstance(value, tuple | list):
        return type(value)(map(unwrapped, value))
    return value


def reshaped_in_place(tensor: TracedTensor, function: Any, step: Step) -> None:
    """Make a tensor another view of its memory, as `squeeze_` does: the view of `squeeze` is the step."""
    with _DisableTorchDispatch():
        function(tensor, *step.arguments, **step.options)
    tensor.steps = (*tensor.steps, step)
    tensor._known = None


def positions(tensor: TracedTensor, size: int, shape: tuple[int, ...]) -> np.ndarray:
    """For each entry of a view its place in the memory, which has a shape and a size."""
    with _disable_current_modes():
        found: np.ndarray = real_view(tensor.steps, torch.arange(size).reshape(shape)).numpy()
        return found


def written(base: Expression, places: np.ndarray, value: Expression) -> Expression:
    """An expression with other entries at some places."""
    if not places.size:
        return base
    shape: tuple[Any, ...] = base.shape
    box = _box(places, shape)
    if box is not None:
        return _placed(base, box, call(np.reshape, (value, tuple(len(r) for r in box))), 0)
    flat, count = places.ravel(), math.prod(shape)
    order, is_new = np.zeros(count, int), np.zeros(count, bool)
    order[flat], is_new[flat] = np.arange(flat.size), True
    new = operator.getitem(call(np.ravel, (value,)), order.reshape(shape))
    return call(np.where, (is_new.reshape(shape), new, base))  # type: ignore[no-any-return]


def _box(places: np.ndarray, shape: tuple[Any, ...]) -> list[range] | None:
    """The ranges of entries along each axis, if the places are such a box in the order of the axes."""
    corners = zip(np.unravel_index(places.min(), shape), np.unravel_index(places.max(), shape), strict=True)
    ranges = [range(int(first), int(last) + 1) for first, last in corners]
    if any(len(r) < 1 for r in ranges):
        return None
    grid = np.arange(int(np.prod(shape))).reshape(shape)[tuple(slice(r.start, r.stop) for r in ranges)]
    return ranges if np.array_equal(grid.ravel(), places.ravel()) else None


def _placed(base: Expression, box: list[range], value: Expression, axis: int) -> Expression:
    """The base with a box of entries replaced: what is before, inside and after it along each axis."""
    if axis == len(box):
        return value
    start, stop = box[axis].start, box[axis].stop
    lead = (slice(None),) * axis
    inner = _placed(base[(*lead, slice(start, stop))], box, value, axis + 1)
    parts = [base[(*lead, slice(0, start))], inner, base[(*lead, slice(stop, None))]]
    parts = [part for part in parts if part.shape[axis]]
    joined: Expression = parts[0] if len(parts) == 1 else call(np.concatenate, (parts, axis))
    return joined
