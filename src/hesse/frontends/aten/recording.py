"""Operations on tensors written down while they are computed, and read again as expressions.

Nothing is lost here that autograd does not keep: constants, fill values, writing to parts of tensors. Each
operation of ATen is a line of a tape. To differentiate a tensor, the lines that it depends on are computed
again, with traced tensors.

Tensors are told apart by where they are in memory, because autograd makes other objects of views. The memory
of what was computed with a graph keeps the recording, so a recording must not keep that memory: its lines say
where tensors are, and only those from outside are kept, as others that share their memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextvars import Token
from typing import Any, NamedTuple, Self
from weakref import WeakSet

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes

from hesse.errors import ArgumentError, DifferentiationError, TracingError
from hesse.frontends.aten.functions import install, recorder
from hesse.frontends.aten.inputs import Inputs, Walked
from hesse.frontends.aten.places import Memory, Outside, Place, Seen, memory_of, place_of, seen
from hesse.frontends.aten.table import handler_of, mapped, operation_name, tensors_in
from hesse.frontends.aten.tensor import TracedTensor, expression_of, fresh, known
from hesse.frontends.aten.tracer import CHANGED_SHAPES, VALUES, Tracer, view_of
from hesse.frontends.operands import as_node

DATA = frozenset(
    [
        "bernoulli",
        "bernoulli_",
        "cauchy_",
        "exponential_",
        "geometric_",
        "log_normal_",
        "multinomial",
        "native_dropout",
        "normal",
        "normal_",
        "poisson",
        "rand",
        "rand_like",
        "randint",
        "randint_like",
        "randn",
        "randn_like",
        "random_",
        "randperm",
        "repeat_interleave",
        "uniform_",
    ]
)
"""Operations whose results are data: numbers drawn, and places as often as counts say."""


class ComputedBeforeError(ArgumentError):
    """A tensor was computed, with a graph, before the recording began."""


class Line(NamedTuple):
    """An operation that was computed; in arguments, what was seen of tensors."""

    function: Any
    arguments: tuple[Any, ...]
    options: dict[str, Any]
    results: tuple[Seen, ...]
    drawn: tuple[Tensor, ...]
    """Copies of the results, if they are data: drawn at random, or integers."""
    has_graph: bool
    """Whether autograd kept a graph."""


class Recording(TorchDispatchMode):
    """A tape of all operations in a block of code."""

    def __init__(self) -> None:
        super().__init__()
        self._tape: list[Line] = []
        self._made: set[int] = set()
        """Memory that was made here, or that was written to."""
        self._places: set[Place] = set()
        """Those of all results."""
        self._outside: dict[tuple[Place, bool], Outside] = {}
        """Operands that are no results, and apart from them those that are differentiated by."""
        self._around: list[Token[Any]] = []
        """Recorders of the blocks around this one."""
        living.add(self)

    def __enter__(self) -> Self:
        install()
        self._around.append(recorder.set(self))
        super().__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)
        recorder.reset(self._around.pop())

    __hash__ = object.__hash__

    def __torch_dispatch__(
        self,
        function: Any,
        types: Any,
        arguments: tuple[Any, ...] = (),
        options: dict[str, Any] | None = None,
    ) -> Any:
        options, name = options or {}, operation_name(function)
        if name in CHANGED_SHAPES:
            return self._turned(function, arguments, options)
        if function._schema.is_mutable:
            for target in _written(function, arguments, options):
                self._keep_entries(target)
        found = function(*arguments, **options)
        results = tuple(tensors_in(found))
        if results and name not in ("lift", "lift_fresh"):
            operands = list(tensors_in((arguments, options)))
            is_data = name in DATA | VALUES or _counts(function, operands, results)
            drawn = tuple(t.detach().clone() for t in results) if is_data else ()
            self._write_down(
                Line(*_in_other_words(function, arguments, options), (), drawn, torch.is_grad_enabled()),
                operands,
                results,
            )
        return found

    def _turned(self, function: Any, arguments: tuple[Any, ...], options: dict[str, Any]) -> Any:
        """An operation that gives a tensor another shape: it is that of a view, of what was there before."""
        before = self._operand(arguments[0])
        found = function(*arguments, **options)
        line = Line(view_of(function), (before, *arguments[1:]), options, (), (), torch.is_grad_enabled())
        self._write_down(line, [arguments[0]], [found])
        return found

    def applied(self, function: Any, compute: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        """The results of a `torch.autograd.Function`, which is one line: its rule differentiates it."""
        with _disable_current_modes():
            found = compute(*arguments, **options)
            operands = list(tensors_in((arguments, options)))
            line = Line(function, arguments, options, (), (), torch.is_grad_enabled())
            self._write_down(line, operands, list(tensors_in(found)))
        return found

    def _write_down(self, line: Line, operands: Sequence[Tensor], results: Sequence[Tensor]) -> None:
        """Add a line to the tape."""
        arguments = mapped(self._operand, line.arguments)
        options = {name: mapped(self._operand, value) for name, value in line.options.items()}
        found = tuple(map(seen, results))
        self._tape.append(line._replace(arguments=arguments, options=options, results=found))
        self._places |= {one.place for one in found}
        self._made |= {one.place[0] for one in found} - {memory_of(t).number for t in operands}
        if line.has_graph and any(t.requires_grad for t in operands):
            for memory in map(memory_of, results):
                self._be_kept_by(memory)

    def _be_kept_by(self, memory: Memory) -> None:
        """Live as long as what is in a memory; what other recordings know of it is no longer so."""
        if memory.number in self._made:
            memory.makers[:] = [one for one in memory.makers if one is not self and one.is_active] + [self]

    @property
    def is_active(self) -> bool:
        """Whether operations are being recorded."""
        return bool(self._around)

    def _operand(self, tensor: Tensor) -> Seen:
        """What is written down of an operand; if it is no result, it is kept."""
        found = seen(tensor)
        key = found.place, found.is_leaf
        if key not in self._outside and (found.is_leaf or found.place not in self._places):
            self._outside[key] = Outside(tensor, is_copied=found.place[0] in self._made)
        return found

    def _keep_entries(self, target: Tensor) -> None:
        """Copy what is in memory from outside before something is written to it."""
        self._operand(target)
        number = memory_of(target).number
        if number not in self._made:
            for (place, _), outside in self._outside.items():
                if place[0] == number:
                    outside.keep()
            self._made.add(number)

    def knows(self, tensor: Tensor) -> bool:
        """Whether a tensor was computed here, or a part of it."""
        place = place_of(tensor)
        return place in self._places or (place[0] in self._made and (place, False) in self._outside)

    def walked(self, tensor: Tensor, cuts: Sequence[Tensor]) -> Walked:
        """The expression that a tensor was computed by; tensors that it is cut at are leaves, too."""
        lines, places = self._needed(tensor), {place_of(cut): cut for cut in cuts}
        try:
            return _Replay(self._outside, dict(places)).of(tensor, lines)
        except TracingError:  # perhaps because of integers that are variables, so that plans are shared
            return _Replay(self._outside, dict(places), has_known_integers=True).of(tensor, lines)

    def _needed(self, tensor: Tensor) -> list[Line]:
        """The lines that a tensor depends on."""
        memories, lines = {memory_of(tensor).number}, []
        for line in reversed(self._tape):
            if any(one.place[0] in memories for one in line.results):
                lines.append(line)
                memories |= {one.place[0] for one in tensors_in((line.arguments, line.options), Seen)}
        return lines[::-1]


living: WeakSet[Recording] = WeakSet()
"""Recordings that somebody still has."""


def recording_of(tensor: Tensor) -> Recording | None:
    """The recording in which a tensor was computed."""
    known = [*reversed(memory_of(tensor).makers), *living]
    return next((recording for recording in known if recording.knows(tensor)), None)


class _Replay:
    """Lines of a tape computed again with traced tensors."""

    def __init__(
        self,
        outside: Mapping[tuple[Place, bool], Outside],
        cuts: dict[Place, Tensor],
        has_known_integers: bool = False,
    ) -> None:
        self._inputs = Inputs()
        self._has_known_integers = has_known_integers
        self._outside = outside
        self._cuts = cuts
        self._traced: dict[Place, TracedTensor] = {}
        self._detached: dict[Place, TracedTensor] = {}
        """Tensors at the same places that have no graph."""
        self._leaves: set[Place] = set()

    def of(self, tensor: Tensor, lines: Sequence[Line]) -> Walked:
        """The expression of a tensor after all lines."""
        tracer = Tracer((), self._inputs.hidden)
        with tracer.active():
            for line in lines:
                with torch.set_grad_enabled(line.has_graph):
                    self._compute(line)
            root = expression_of(self._traced[place_of(tensor)])
        dtypes = frozenset(one.dtype for line in lines for one in line.results)
        return Walked(as_node(root), False, self._inputs, dtypes)

    def _compute(self, line: Line) -> None:
        name = operation_name(line.function) if hasattr(line.function, "_schema") else ""
        if name == "as_strided" and line.results[0].place in self._traced:
            return  # autograd makes views anew when something was written to them
        needs_integers = bool(name) and handler_of(line.function) is None
        found_in = self._with_entries if needs_integers else self._found
        arguments = mapped(found_in, line.arguments, Seen)
        options = {key: mapped(found_in, value, Seen) for key, value in line.options.items()}
        if name == "native_dropout":
            with _disable_current_modes():
                mask = line.drawn[1] / (1 - line.arguments[1])
            found = [torch.ops.aten.mul.Tensor(arguments[0], mask), line.drawn[1]]
        elif line.drawn and line.function._schema.is_mutable:
            found = [torch.ops.aten.copy_.default(arguments[0], line.drawn[0])]
        elif line.drawn:
            found = list(line.drawn)
        else:
            found = list(tensors_in(line.function(*arguments, **options)))
        for real, traced in zip(line.results, found, strict=False):  # others are details of a derivative
            self._enter(real, traced, name == "detach")

    def _enter(self, real: Seen, traced: Tensor, is_detached: bool) -> None:
        if not isinstance(traced, TracedTensor):
            traced = fresh(self._inputs.hidden(traced), real.dtype, real.device)
        if not traced.steps:  # of real tensors it is known how they lie in memory
            traced.cell.is_ordered |= real.is_ordered
            traced.cell.is_inside |= real.place[1] > 0
        if real.place in self._cuts and not is_detached:
            traced = self._made(self._inputs.leaf(self._cuts.pop(real.place)), real)
        (self._detached if is_detached else self._traced)[real.place] = traced

    def _with_entries(self, operand: Seen) -> TracedTensor:
        """The same; integers from outside, to which nothing was written, with their entries."""
        found = self._found(operand)
        outside = self._outside.get((operand.place, False))
        if operand.is_real or outside is None or found.cell.version:
            return found
        return known(_copied(outside.entries))

    def _found(self, operand: Seen) -> TracedTensor:
        """What stands for a tensor."""
        place = operand.place
        if not operand.has_graph and place in self._detached:
            return self._detached[place]
        if operand.is_leaf and place not in self._leaves:
            self._leaves.add(place)
            outside = self._outside[place, True]
            leaf = outside.tensor
            value = self._inputs.hidden(outside.entries) if leaf is None else self._inputs.leaf(leaf)
            self._traced[place] = self._made(value, operand)
        if place not in self._traced:
            if (place, False) not in self._outside:
                raise DifferentiationError(
                    f"a result of shape {tuple(operand.shape)} of an operation of PyTorch, which hesse does "
                    "not compute, cannot be differentiated. Compute it from the other results"
                )
            if operand.has_graph:
                raise ComputedBeforeError(
                    f"a tensor of shape {tuple(operand.shape)} was computed before the recording began; "
                    "compute it inside of hesse.torch.record()"
                )
            entries = self._outside[place, False].kept()
            is_known = self._has_known_integers and not operand.is_real
            value = _copied(entries) if is_known else self._inputs.hidden(entries)
            self._traced[place] = self._made(value, operand)
        return self._traced[place]

    def _made(self, value: Any, like: Seen) -> TracedTensor:
        made = fresh(value, like.dtype, like.device, like.is_ordered)
        made.cell.is_inside = like.place[1] > 0
        return made


def _copied(entries: Tensor) -> Tensor:
    """Entries that may be written to while lines are computed again."""
    with _disable_current_modes():
        return entries.clone()


Words = tuple[Any, tuple[Any, ...], dict[str, Any]]
"""An operation, its arguments and its options."""


def _in_other_words(function: Any, arguments: tuple[Any, ...], options: dict[str, Any]) -> Words:
    """An operation in terms of those of the table.

    Masks, whose entries are known now, are replaced by the places where they hold.
    """
    names = [argument.name for argument in function._schema.arguments]
    given = dict(zip(names, arguments, strict=False)) | options
    name, aten = operation_name(function), torch.ops.aten
    if name in ("masked_select", "masked_scatter"):
        shape = torch.broadcast_shapes(given["self"].shape, given["mask"].shape) or (1,)
        places = list(given["mask"].broadcast_to(shape).nonzero(as_tuple=True))
        changed = _selected if name == "masked_select" else _scattered
        return changed, (given["self"], shape, places, *arguments[2:]), options
    if "indices" in given and name != "embedding" and isinstance(given["indices"], tuple | list):
        return function, (arguments[0], list(_places(given["indices"])), *arguments[2:]), options
    if name in ("_cdist_forward", "_pdist_forward"):
        return getattr(aten, name.split("_")[1]).default, arguments, options
    if name.startswith("_scaled_dot_product"):
        mask = given.get("attn_mask", given.get("attn_bias"))
        settings = (given.get("dropout_p", 0.0), given.get("is_causal", False))
        arguments = (given["query"], given["key"], given["value"], mask, *settings)
        # PyTorch has checked the numbers of heads
        options = {"scale": given.get("scale"), "enable_gqa": True}
        return aten.scaled_dot_product_attention.default, arguments, options
    if name in ("rrelu_with_noise", "rrelu_with_noise_"):
        return *_leaky(name.endswith("_"), **given), {}
    if name in ("native_batch_norm", "_native_batch_norm_legit", "_native_batch_norm_legit_no_training"):
        kept = [given.get(k) for k in ("input", "weight", "bias", "running_mean", "running_var")]
        modes = (given.get("training", False), 0.0, given["eps"], False)
        return aten.batch_norm.default, (*kept, *modes), {}
    if name == "native_group_norm":
        kept = [given[k] for k in ("input", "group", "weight", "bias", "eps")]
        return aten.group_norm.default, tuple(kept), {}
    return function, arguments, options


def _leaky(
    in_place: bool,
    self: Tensor,
    noise: Tensor,
    lower: float = 0.125,
    upper: float = 1 / 3,
    training: bool = False,
    **_: Any,
) -> tuple[Any, tuple[Any, ...]]:
    """In training mode the slopes that were drawn have been written to `noise`."""
    aten = torch.ops.aten
    if training:
        return (aten.mul_ if in_place else aten.mul).Tensor, (self, noise.clone())
    return (aten.leaky_relu_ if in_place else aten.leaky_relu).default, (self, (lower + upper) / 2)


def _places(indices: Sequence[Any]) -> Iterator[Any]:
    for index in indices:
        is_mask = isinstance(index, Tensor) and index.dtype in (torch.bool, torch.uint8)
        yield from index.nonzero(as_tuple=True) if is_mask else [index]


def _scattered(tensor: Tensor, shape: torch.Size, places: list[Tensor], source: Tensor) -> Tensor:
    """A tensor that is repeated to a shape, with the first entries of another one at places."""
    aten = torch.ops.aten
    entries = aten.reshape.default(source, [-1])[: len(places[0])]
    return aten.index_put.default(aten.expand.default(tensor, shape), places, entries)


def _selected(tensor: Tensor, shape: torch.Size, places: list[Tensor]) -> Tensor:
    """Entries at places of a tensor that is repeated to a shape."""
    return torch.ops.aten.index.Tensor(torch.ops.aten.expand.default(tensor, shape), places)


def _counts(function: Any, operands: Sequence[Tensor], results: Sequence[Tensor]) -> bool:
    """Whether an operation makes integers of real numbers, which have no derivatives, or writes integers."""
    is_whole = not any(
        t.dtype.is_floating_point or t.dtype.is_complex or t.dtype == torch.bool for t in results
    )
    return is_whole and (function._schema.is_mutable or any(t.dtype.is_floating_point for t in operands))


def _written(function: Any, arguments: tuple[Any, ...], options: dict[str, Any]) -> Iterator[Tensor]:
    """The tensors that an operation writes to."""
    for k, argument in enumerate(function._schema.arguments):
        if argument.alias_info is not None and argument.alias_info.is_write:
            yield from tensors_in(arguments[k] if k < len(arguments) else options.get(argument.name))
