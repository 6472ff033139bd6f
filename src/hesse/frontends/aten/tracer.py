"""Calling a torch function with traced tensors: every ATen operation in it arrives here.

Below autograd operations arrive whole, with arguments as their schemas have them: `linear`, `einsum`,
`softmax`, attention. What the table does not know is decomposed as PyTorch itself does it, and what cannot be
decomposed becomes a foreign function with PyTorch's own rule. Operations whose operands are all known are
computed at once.
"""

from __future__ import annotations

import functools
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
from hesse.frontends.aten.complexes import Apart, as_complex, complex_handler_of, constant_part, is_complex
from hesse.frontends.aten.foreign import applied, is_refused
from hesse.frontends.aten.functions import autograd_explained
from hesse.frontends.aten.memory import LAYOUT, strided
from hesse.frontends.aten.table import HANDLERS, Typed, handler_of, mapped, operation_name, tensors_in
from hesse.frontends.aten.tensor import (
    TRACED,
    Content,
    Step,
    TracedTensor,
    as_constant,
    content,
    dtype_of,
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

MAY_COPY = frozenset({"contiguous", "flatten", "ravel", "reshape", "reshape_as"})
"""Operations that give a view where the layout in memory allows it, else a copy."""
INDEXING = frozenset({"_unsafe_index", "_unsafe_index_put", "index", "index_put", "index_put_"})
"""Operations with indices and masks of axes."""
CHANGED_SHAPES = frozenset({"squeeze_", "unsqueeze_", "t_", "transpose_", "swapaxes_", "swapdims_"})
"""Operations that change the shape of a tensor in place."""
VALUES = frozenset(
    {
        "_local_scalar_dense",
        "equal",
        "is_nonzero",
        "item",
        "nonzero",
        "nonzero_numpy",
        "unique_consecutive",
        "unique_dim",
        "_unique2",
    }
)
"""Operations that need the entries of a tensor."""
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
        if operation_name(function) in INDEXING:
            arguments = (arguments[0], list(map(self._mask, arguments[1])), *arguments[2:])
        tensors = list(tensors_in((*arguments, *options.values())))
        _check_devices(function, tensors)
        is_known = all(not isinstance(tensor.cell.value, TRACED) for tensor in tensors)
        if is_refused(function):
            self.is_random = True
            _check_random(function, arguments, options)
            self.is_random = False
        if function._schema.is_mutable:
            return self._written(function, arguments, options, is_known)
        if operation_name(function) == "as_strided" and not _is_alone(arguments[0]):
            return strided(arguments[0], *_strides(*arguments[1:], **options))
        if is_known:
            return self._computed(function, arguments, options, tensors)
        if operation_name(function) in VALUES or _is_masked(function, arguments):
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

    def _mask(self, index: TracedTensor | None) -> TracedTensor | None:
        """An index; a mask of bytes as one of truth values, which it means in PyTorch."""
        if index is None or index.dtype != torch.uint8:
            return index
        mask: TracedTensor = self._dispatched(torch.ops.aten.ne.Scalar, (index, 0), {})
        return mask

    def _computed(
        self, function: Any, arguments: tuple[Any, ...], options: dict[str, Any], tensors: list[TracedTensor]
    ) -> Any:
        """The result of an operation whose operands are known."""
        given = mapped(content, arguments)
        with _disable_current_modes():
            result = function(*given, **{name: mapped(content, value) for name, value in options.items()})
        if _is_view(function) and tensors and not _is_copy(given[0], result):
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
                return _apart(result.value, tensors)
            if result is not NotImplemented:
                if _is_view(function) and not isinstance(result, Typed):
                    return self._views(function, arguments, options, result)
                made = _wrapped(result, tensors)
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
        return _wrapped(applied(function, arguments, options), tensors)

    def _views(self, function: Any, arguments: tuple[Any, ...], options: dict[str, Any], result: Any) -> Any:
        """Results that share the memory of the first argument."""
        base: TracedTensor = arguments[0]
        arguments = (base, *mapped(_shape_only, arguments[1:]))
        may_copy = operation_name(function) in MAY_COPY
        if may_copy and not _is_shared(base, function, arguments, options):
            if not isinstance(result, TRACED):
                return known(result)
            made: TracedTensor = _wrapped(result, [base])
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
                step = Step(view_of(function), arguments[1:], options, None, False)
                reshaped_in_place(tensor, function, step)
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
                return _functional(name)(*arguments, **options)
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


def _is_masked(function: Any, arguments: tuple[Any, ...]) -> bool:
    """Whether entries are chosen by a mask that is not known: the size of the result is not known, either."""
    if operation_name(function) != "index":
        return False
    masks = [index for index in arguments[1] if index is not None and index.dtype == torch.bool]
    return any(isinstance(content(mask), Expression) for mask in masks)


def _functional(name: str) -> Any:
    """The operation that does the same without changing anything."""
    return getattr(torch.ops.aten, name if name.startswith("__") else name.removesuffix("_"))


def view_of(function: Any) -> Any:
    """The operation that gives the view which another one makes of a tensor in place."""
    packet = _functional(operation_name(function))
    names = (function._overloadname, packet.overloads()[0])
    return next(getattr(packet, name) for name in names if name in packet.overloads())


def _is_view(function: Any) -> bool:
    """Whether results share memory with the first argument."""
    schema = function._schema
    return (
        bool(schema.arguments)
        and schema.arguments[0].alias_info is not None
        and any(found.alias_info is not None for found in schema.returns)
    )


def _shape_only(tensor: TracedTensor) -> Tensor:
    """A tensor whose shape a view has: `x.view_as(tensor)`."""
    with _disable_current_modes():
        return torch.empty(tuple(tensor.shape), device="meta")


def _is_copy(operand: Any, result: Any) -> bool:
    """Whether an operation that may give a view gave a copy, such as a conversion to another dtype."""
    return isinstance(result, Tensor) and (
        result.untyped_storage()._cdata != operand.untyped_storage()._cdata
    )


def _is_shared(
    base: TracedTensor, function: Any, arguments: tuple[Any, ...], options: dict[str, Any]
) -> bool:
    """Whether a result that may be a copy shares memory with its argument, by the layout in memory."""
    with _disable_current_modes():
        value = base.cell.value
        memory = torch.empty(tuple(value.shape), device="meta")
        for step in base.steps:
            memory = step.of(memory, step.function)
        result = function(memory, *arguments[1:], **options)
        return bool(result.untyped_storage()._cdata == memory.untyped_storage()._cdata)


def _check_devices(function: Any, tensors: Sequence[TracedTensor]) -> None:
    """Refuse tensors on several devices, but for single numbers on the CPU."""
    devices = {str(t.device) for t in tensors if t.dim() or t.device.type != "cpu"}
    if len(devices) > 1 and operation_name(function) not in ("copy_", "_to_copy", "to"):
        raise untraceable(
            f"{function} of tensors on {' and on '.join(sorted(devices))}", "Move them to one device."
        )


def _check_random(function: Any, arguments: tuple[Any, ...], options: dict[str, Any]) -> None:
    """Refuse random numbers, which would be the same in every call."""
    schema = function._schema.arguments
    given = {a.name: a.default_value for a in schema if a.has_default_value()}
    given |= dict(zip([a.name for a in schema], arguments, strict=False)) | options
    share = next((given[name] for name in ("dropout_p", "dropout", "p") if name in given), None)
    is_training = next((given[name] for name in ("train", "training") if name in given), True)
    if share == 0 or not is_training:
        return
    name = operation_name(function)
    if share is not None or not {"train", "training"}.isdisjoint(given):
        raise untraceable(
            f"{name} in training mode, which draws random numbers,",
            "Call module.eval() first, or draw the mask outside and pass it as an argument.",
        )
    raise untraceable(
        f"{name}, which draws random numbers,", "Draw them outside and pass them as an argument."
    )


def _wrapped(result: Any, operands: Sequence[TracedTensor]) -> Any:
    """Results as traced tensors, of the dtype that PyTorch promotes the operands to."""
    if isinstance(result, Typed):  # which is a tuple, too
        return _wrapped_as(result.value, result.dtype, operands)
    if isinstance(result, tuple | list):
        return type(result)(_wrapped(part, operands) for part in result)
    if isinstance(result, Complex):
        return _wrapped_as(result, _floating(operands).to_complex(), operands)
    if not isinstance(result, Expression):
        return result
    return _wrapped_as(result, dtype_of(result, _floating(operands)), operands)


def _apart(value: Any, operands: Sequence[TracedTensor]) -> TracedTensor:
    """A result that shares memory with the operand in PyTorch, but not here."""
    made: TracedTensor = _wrapped(value, operands)
    for tensor in (operands[0], made):
        tensor.cell.forbid_writing()
    return made


def _wrapped_as(value: Any, dtype: torch.dtype, operands: Sequence[TracedTensor]) -> TracedTensor:
    is_number = dtype.is_floating_point or dtype.is_complex
    if not torch.is_grad_enabled() and is_number and not is_recording.get():
        value = constant_part(value)
    device = next((t.device for t in operands if t.device.type != "cpu"), operands[0].device)
    return fresh(value, dtype, device, value.ndim < 2)  # which always lies in one piece


def _floating(operands: Sequence[TracedTensor]) -> torch.dtype:
    """What the dtypes of operands are promoted to; those without axes count only if there are no others."""
    found = [t for t in operands if t.dtype.is_floating_point or t.dtype.is_complex]
    dtypes = [t.dtype.to_real() for t in [t for t in found if t.dim()] or found]
    return functools.reduce(torch.promote_types, dtypes, dtypes[0] if dtypes else torch.get_default_dtype())
