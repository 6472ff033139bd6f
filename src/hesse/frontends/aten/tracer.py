"""Calling a torch function with traced tensors: every ATen operation in it arrives here.

Below autograd operations arrive whole, with arguments as their schemas have them: `linear`, `einsum`,
`softmax`, attention. What the table does not know is decomposed as PyTorch itself does it, and what cannot be
decomposed becomes a foreign function with PyTorch's own rule. Operations whose operands are all known are
computed at once.
"""

from __future__ import annotations

import itertools
import math
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch._C import _AutoDispatchBelowAutograd
from torch._decomp import decomposition_table
from torch._ops import HigherOrderOperator
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes

from hesse.errors import HesseError
from hesse.frontends.aten.complexes import Apart, as_complex, complex_handler_of, is_complex
from hesse.frontends.aten.foreign import applied, is_refused
from hesse.frontends.aten.functions import autograd_explained
from hesse.frontends.aten.memory import LAYOUT, strided
from hesse.frontends.aten.operations import (
    CHANGED_SHAPES,
    MAY_COPY,
    VALUES,
    check_devices,
    check_random,
    functional,
    is_copy,
    is_masked,
    is_shared,
    is_view,
)
from hesse.frontends.aten.results import apart, wrapped
from hesse.frontends.aten.table import HANDLERS, Typed, handler_of, mapped, operation_name, tensors_in
from hesse.frontends.aten.tensor import (
    TRACED,
    Content,
    Step,
    TracedTensor,
    as_constant,
    content,
    expression_of,
    fresh,
    is_recording,
    known,
    positions,
    reshaped_in_place,
    written,
)
from hesse.frontends.complexes import Complex
from hesse.frontends.dispatch import call
from hesse.frontends.expression import Expression
from hesse.frontends.special import stop_gradient
from hesse.frontends.tracing import note_need, untraceable

MACHINERY = ("hesse.", "torch._", "torch.utils.")
"""Where names of modules begin that lie between an operation and the code that calls it."""


def _answer(name: str, tensors: list[TracedTensor]) -> Any:
    """What a tensor of one entry says, where the function may decide by values; real numbers are none."""
    if len(tensors) != 1 or name not in ("_local_scalar_dense", "is_nonzero", "item"):
        return None
    (tensor,) = tensors
    if name != "is_nonzero" and tensor.dtype.is_floating_point:
        return None
    is_truth = name == "is_nonzero" or tensor.dtype == torch.bool
    found = expression_of(tensor).answer("truth" if is_truth else "integer")
    return True if found is None and _is_validated() else found


def _is_validated() -> bool:
    """Whether a distribution of PyTorch asks if an argument is valid, which nobody knows in a trace."""
    names = (frame.f_globals.get("__name__", "") for frame, _ in traceback.walk_stack(None))
    callers = (name for name in names if not name.startswith(MACHINERY))
    inside = itertools.groupby(callers)
    first, second = (next(inside, ("", None))[0] for _ in range(2))
    return (first, second) == ("torch.distributions.constraints", "torch.distributions.distribution")


class Undecomposed(Exception):
    """A primitive operation of a decomposition that is neither in the table nor has a rule in PyTorch."""


class Tracer(TorchDispatchMode):
    """What is in force while a torch function is traced.

    `stand_ins` are tensors that the function reads besides its arguments, by identity, with the expressions
    that stand for them; the entries of further ones are `constants`. What stands for other tensors from
    outside is `made` when they are met; None: they are constants.
    """

    supports_higher_order_operators = True
    """They come here, to be refused by name."""

    def __init__(
        self,
        stand_ins: Sequence[tuple[Tensor, Expression]],
        made: Callable[[Tensor], Expression] | None,
        constants: Sequence[Tensor] = (),
    ) -> None:
        super().__init__()
        self._made = made
        self.refusal: HesseError | None = None
        """The last error; operators of PyTorch make others of those that are TypeErrors."""
        self.is_random = False
        """Whether the function draws random numbers."""
        self._entered: dict[int, tuple[Tensor, TracedTensor]] = {}
        for tensor, expression in stand_ins:
            self._enter(tensor, expression)
        for tensor in constants:
            copied = known(tensor.detach().clone())
            copied.cell.is_inside = tensor.storage_offset() > 0
            self._entered[id(tensor)] = tensor, copied

    def _enter(self, tensor: Tensor, expression: Expression) -> TracedTensor:
        traced = fresh(expression, tensor.dtype, tensor.device, tensor.is_contiguous())
        traced.cell.is_inside = tensor.storage_offset() > 0
        self._entered[id(tensor)] = tensor, traced
        return traced

    def stand_in(self, tensor: Tensor) -> TracedTensor:
        """The traced tensor for one from outside."""
        found = self._entered.get(id(tensor))
        if found is not None:
            return found[1]
        if self._made is None:  # the rule of a foreign function, traced later: what it holds is a constant
            return known(tensor.detach())
        return self._enter(tensor, self._made(tensor))

    @contextmanager
    def active(self) -> Iterator[None]:
        """Around the function."""
        with ExitStack() as stack:
            stack.enter_context(torch.enable_grad())
            stack.enter_context(autograd_explained(self._traced, self._entered))
            stack.enter_context(_AutoDispatchBelowAutograd())
            stack.enter_context(self)
            yield

    def __torch_dispatch__(
        self,
        function: Any,
        types: Any,
        arguments: tuple[Any, ...] = (),
        options: dict[str, Any] | None = None,
    ) -> Any:
        try:
            if isinstance(function, HigherOrderOperator):
                raise untraceable(
                    f"torch's operator {function.name()} of functions",
                    "Use torch.where for a choice and Python's own loops; "
                    "or let the function decide by values: @hesse.branching.",
                )
            return self._dispatched(function, arguments, options or {})
        except HesseError as refusal:
            self.refusal = refusal
            raise

    def _dispatched(self, function: Any, arguments: tuple[Any, ...], options: dict[str, Any]) -> Any:
        if operation_name(function) in ("lift_fresh", "lift"):
            return known(arguments[0])
        if function is torch.ops.aten._efficientzerotensor.default:
            function = torch.ops.aten.zeros.default  # it has no memory, and PyTorch would read that here
        if operation_name(function) == "detach" and is_recording.get():
            saved = self._traced(arguments[0])  # autograd detaches whatever it saves
            return TracedTensor(saved.cell, saved.steps, tuple(saved.shape), saved.dtype, saved.device)
        arguments = mapped(self._traced, arguments)
        options = {name: mapped(self._traced, value) for name, value in options.items()}
        tensors = list(tensors_in((*arguments, *options.values())))
        check_devices(function, tensors)
        is_known = all(not isinstance(tensor.cell.value, TRACED) for tensor in tensors)
        if is_refused(function):
            self.is_random = True
            check_random(function, arguments, options)
            self.is_random = False
        if function._schema.is_mutable:
            return self._written(function, arguments, options, is_known)
        if operation_name(function) == "as_strided" and not _is_alone(arguments[0]):
            return strided(arguments[0], *_strides(*arguments[1:], **options))
        if is_known:
            return self._computed(function, arguments, options, tensors)
        if operation_name(function) in VALUES or is_masked(function, arguments):
            found = _answer(operation_name(function), tensors)
            if found is not None:
                return found
            note_need(map(expression_of, tensors))
            raise untraceable(
                f"{function}, which needs the entries of a traced tensor (if, while, item(), x[x > 0]),",
                "Use torch.where for a choice; mask by multiplication or torch.where; "
                "or let the function decide by values (conditions and integers): @hesse.branching.",
            )
        return self._applied(function, arguments, options, tensors)

    def _traced(self, tensor: Tensor) -> TracedTensor:
        return tensor if isinstance(tensor, TracedTensor) else self.stand_in(tensor)

    def _computed(
        self, function: Any, arguments: tuple[Any, ...], options: dict[str, Any], tensors: list[TracedTensor]
    ) -> Any:
        """The result of an operation whose operands are known."""
        given = mapped(content, arguments)
        with _disable_current_modes():
            result = function(*given, **{name: mapped(content, value) for name, value in options.items()})
        if is_view(function) and tensors and not is_copy(given[0], result):
            return self._views(function, arguments, options, result)
        return mapped(known, result)

    def _applied(
        self, function: Any, arguments: tuple[Any, ...], options: dict[str, Any], tensors: list[TracedTensor]
    ) -> Any:
        """The result of an operation on traced tensors."""
        has_pairs = any(t.dtype.is_complex for t in tensors)
        handler = complex_handler_of(function) if has_pairs else handler_of(function)
        if handler is not None:
            given = mapped(expression_of, arguments)
            result = handler(
                *given, **{name: mapped(expression_of, value) for name, value in options.items()}
            )
            if isinstance(result, Apart):
                return apart(result.value, tensors)
            if result is not NotImplemented:
                if is_view(function) and not isinstance(result, Typed):
                    return self._views(function, arguments, options, result)
                made = wrapped(result, tensors)
                if operation_name(function) == "clone":
                    is_copied = tensors[0].cell.is_ordered and not tensors[0].steps
                    made.cell.is_ordered |= (
                        is_copied or options.get("memory_format") is torch.contiguous_format
                    )
                return made
        if function._can_decompose():
            with self:
                return function.decompose(*arguments, **options)
        if function in decomposition_table:
            try:
                with self:
                    return decomposition_table[function](*arguments, **options)
            except Undecomposed:
                pass  # what it was decomposed into has no rule anywhere, but the whole may have one
        if function.namespace == "prims":
            raise Undecomposed(function)
        if has_pairs:
            raise untraceable(f"{function} of complex tensors", "Use z.real, z.imag, z.abs() or z.angle().")
        return wrapped(applied(function, arguments, options), tensors)

    def _views(self, function: Any, arguments: tuple[Any, ...], options: dict[str, Any], result: Any) -> Any:
        """Results that share the memory of the first argument."""
        base: TracedTensor = arguments[0]
        may_copy = operation_name(function) in MAY_COPY
        if may_copy and not is_shared(base, function, arguments, options):
            if not isinstance(result, TRACED):
                return known(result)
            made: TracedTensor = wrapped(result, [base])
            made.cell.is_ordered = True
            return made
        base.cell.was_reshaped |= may_copy

        def view(value: Content, part: int | None) -> TracedTensor:
            step = Step(function, arguments[1:], options, part, may_copy)
            dtype = base.dtype if isinstance(value, TRACED) else value.dtype
            return TracedTensor(base.cell, (*base.steps, step), tuple(value.shape), dtype, base.device)

        if isinstance(result, tuple | list):
            return type(result)(view(value, part) for part, value in enumerate(result))
        return view(result, None)

    def _written(
        self, function: Any, arguments: tuple[Any, ...], options: dict[str, Any], is_known: bool
    ) -> Any:
        """An operation that changes a tensor in place, or writes to the argument `out`."""
        if function.namespace == "prims":
            raise Undecomposed(function)
        name = operation_name(function)
        if name in LAYOUT:
            HANDLERS[name]()
        if name in CHANGED_SHAPES or name == "detach_":
            tensor: TracedTensor = arguments[0]
            if name != "detach_":
                packet = functional(name)
                names = (function._overloadname, packet.overloads()[0])
                overload = next(getattr(packet, n) for n in names if n in packet.overloads())
                reshaped_in_place(tensor, function, Step(overload, arguments[1:], options, None, False))
            elif isinstance(tensor.cell.value, Expression):
                self._write(tensor, stop_gradient(expression_of(tensor)))
            return tensor
        target: TracedTensor | None = options.get("out") if "out" in options else arguments[0]
        if not isinstance(target, TracedTensor):
            raise untraceable(f"{function} with these arguments", "Assign its result instead of using out=.")
        if is_known:
            given = mapped(content, arguments)
            with _disable_current_modes():
                function(*given, **{key: mapped(content, value) for key, value in options.items()})
            target.cell.write(target.cell.value)
            return target
        if name == "copy_":
            value = arguments[1]
        elif name == "zero_":
            value = 0.0
        else:
            rest = {key: value for key, value in options.items() if key != "out"}
            value = self._without_writing(function, arguments, rest)
        new = expression_of(value) if isinstance(value, Tensor) else value
        if not isinstance(new, TRACED):
            new = as_constant(torch.tensor(new))
        new = call(np.broadcast_to, (new, tuple(target.shape)))
        if not torch.is_grad_enabled() and target.dtype.is_floating_point:
            new = _without_graph(new, target)
        self._write(target, new)
        return target

    def _without_writing(self, function: Any, arguments: tuple[Any, ...], options: dict[str, Any]) -> Any:
        """What an operation would write."""
        name = operation_name(function)
        is_operator = name.startswith("__i")  # x &= y: __iand__
        name = f"__{name.removeprefix('__i')}" if is_operator else name.removesuffix("_")
        has_another = name != operation_name(function) or function._schema.arguments[-1].is_out
        if has_another and hasattr(torch.ops.aten, name):
            with self:
                return functional(name)(*arguments, **options)
        if name not in HANDLERS:
            raise untraceable(
                f"{function}, which changes a tensor in place,", "Use torch.where, torch.cat or torch.stack."
            )
        return HANDLERS[name](*mapped(expression_of, arguments), **options)

    def _write(self, target: TracedTensor, value: Any) -> None:
        """Put a value into the memory of a tensor."""
        cell = target.cell
        if not cell.is_ordered and cell.was_reshaped:
            raise untraceable(
                "writing to a tensor that was reshaped, where the layout in memory decides what changes,",
                "Write x = x.clone() first, or build the result with torch.where, torch.cat or torch.stack.",
            )
        is_pair = isinstance(value, Complex) or target.dtype.is_complex or is_complex(cell.value)
        if is_pair and (target.steps or not target.dtype.is_complex):
            raise untraceable(
                "writing to a part of a complex tensor",
                "Build it with torch.complex, torch.where or torch.cat.",
            )
        if not target.steps:
            cell.write(as_complex(value) if is_pair else value)
            return
        base = cell.value if isinstance(cell.value, Expression) else as_constant(cell.value)
        shape: tuple[Any, ...] = base.shape
        places = positions(target, math.prod(shape), shape)
        if len(np.unique(places)) < places.size:
            raise untraceable(
                "writing to a view that shows entries more than once,",
                "Write to the tensor itself, or to a clone.",
            )
        cell.write(written(base, places, value))


def _is_alone(tensor: TracedTensor) -> bool:
    """Whether memory with known entries is not the tracer's own: PyTorch computes views of it."""
    value = tensor.cell.value
    return isinstance(value, Tensor) and (value.storage_offset() > 0 or not value.is_contiguous())


def _strides(
    size: Sequence[int], stride: Sequence[int], storage_offset: int | None = None
) -> tuple[Sequence[int], Sequence[int], int | None]:
    """The arguments of `as_strided`."""
    return size, stride, storage_offset


def _without_graph(new: Expression, target: TracedTensor) -> Expression:
    """What is written without a graph: other entries, but with the derivatives that the tensor has."""
    if not isinstance(target.cell.value, Expression):
        return stop_gradient(new)  # type: ignore[no-any-return]
    old = expression_of(target)
    kept = call(np.subtract, (old, stop_gradient(old)))
    return call(np.add, (stop_gradient(new), kept))  # type: ignore[no-any-return]
