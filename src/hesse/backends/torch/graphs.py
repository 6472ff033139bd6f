"""Captured CUDA graphs: a program whose launches take longer than its work is recorded once and replayed."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Sequence

import torch
from torch import Tensor

from hesse.backends.torch.machine import TorchMachine
from hesse.backends.torch.tensors import is_differentiated
from hesse.plan.program import CallApply, CallMap, Load, Program, View

SYNCHRONISING = frozenset(
    {
        *("inverse", "solve", "cholesky", "determinant", "adjugate", "log_determinant", "sign_determinant"),
        *("minors", "pseudo_inverse", "eigvalsh", "eigenvectors", "expm_chain", "polygamma", "foreign"),
    }
)
"""Operations that look at values on the host, be it to raise an error: they cannot be captured."""

Function = Callable[..., tuple[Tensor, ...]]
Address = tuple[int, tuple[int, ...], bool]
"""Where the entries of a tensor are, its strides, and whether they are the negative of what is there."""
TOGETHER = 2**15
"""Entries of tensors that are copied together: the kernel for that gives twice as many to one processor."""
CAPTURING = threading.Lock()
"""All graphs are captured on the same streams."""


def is_worth_capturing(program: Program, itemsize: int, machine: TorchMachine) -> bool:
    """Whether a program can be captured, and its launches take longer than copies and the replay."""
    items = program.instructions
    if any(isinstance(item, CallMap | CallApply) and item.name in SYNCHRONISING for item in items):
        return False
    read = [k for k, item in enumerate(items) if isinstance(item, Load)]
    copied = [*read, *program.results]
    entries = sum(torch.Size(program.shapes[k]).numel() for k in copied)
    launches = sum(not isinstance(item, Load | View) for item in items)
    saved = launches - len(copied) - machine.replay_launches
    return bool(read) and bool(saved * machine.launch_bytes > 2 * entries * itemsize)


class Graphed:
    """A function on a CUDA device, captured at its second call and replayed from then on.

    `captured` makes the function that is captured, which computes the same. Calls that autograd looks into
    are not replayed. With `copies=False` the results are those of the graph, which the next call writes over.
    """

    def __init__(self, function: Function, captured: Callable[[], Function], copies: bool) -> None:
        self._function, self._captured, self._copies = function, captured, copies
        self._addresses: list[Address] | None = None
        """Where the arguments of the first call were, once there was one."""
        self._moving: set[int] = set()
        """Arguments that were met in several places."""
        self._recording: Recording | None = None
        self._is_given_up = False
        self._lock = threading.Lock()
        self._stream: torch.cuda.Stream | None = None
        """Where it was replayed last: on another stream it waits until that has read the results."""

    def __call__(self, *arrays: Tensor) -> tuple[Tensor, ...]:
        if self._is_given_up or _is_watched(arrays):
            return self._function(*arrays)
        if self._addresses is None:
            self._addresses = list(map(_address, arrays))
            return self._function(*arrays)
        device = arrays[0].device
        if device.index != torch.cuda.current_device():
            with torch.cuda.device(device):
                return self(*arrays)
        with self._lock:
            recording = self._recording
            if recording is None or not recording.is_fixed(arrays):
                try:
                    recording = self._recording = self._recorded(arrays)
                except torch.OutOfMemoryError:  # a graph keeps its memory, which the function gives back
                    self._is_given_up = True
                    self._recording = None
                    return self._function(*arrays)
            self._wait(device.index)
            recording.run(arrays)
            return recording.results(arrays, self._copies)

    def _wait(self, device: int) -> None:
        last = self._stream
        # asking for the number is much faster than for the stream
        if last is None or torch._C._cuda_getCurrentRawStream(device) != last.cuda_stream:
            self._stream = torch.cuda.current_stream()
            if last is not None:
                self._stream.wait_stream(last)

    def _recorded(self, arrays: Sequence[Tensor]) -> Recording:
        """The function captured, with arguments that are where they were read there."""
        assert self._addresses is not None
        found = list(map(_address, arrays))
        moved = {k for k, (old, new) in enumerate(zip(self._addresses, found, strict=True)) if old != new}
        moving = set(range(len(arrays))) if moved and self._moving else moved
        with torch.inference_mode(False), torch.no_grad(), CAPTURING:
            recording = Recording(self._captured(), arrays, moving)
        self._moving, self._addresses = moving, found
        return recording


class Recording:
    """A captured graph: some arguments are copied to where it reads them, others are where they always are.

    A graph keeps no argument alive: it is replayed only while one is in that place.
    """

    def __init__(self, function: Function, arrays: Sequence[Tensor], moving: Collection[int]) -> None:
        self._function = function  # the graph reads its constants
        self._moving = sorted(moving)
        self._fixed = [(k, _address(array)) for k, array in enumerate(arrays) if k not in moving]
        given = [array.detach().clone() if k in moving else array.detach() for k, array in enumerate(arrays)]
        self._copied = [given[k] for k in self._moving]
        self._graph, results = _captured(function, given)
        known = {id(array): k for k, array in enumerate(given)}
        computed = {id(result): result for result in results if id(result) not in known}
        places = known | {key: len(given) + k for k, key in enumerate(computed)}
        self._computed = list(computed.values())
        self._places = [places[id(result)] for result in results]
        """Where the results are: among the arguments, and then among what is computed."""

    def is_fixed(self, arrays: Sequence[Tensor]) -> bool:
        """Whether the arguments that are not copied are where they were."""
        return all([_address(arrays[k]) == address for k, address in self._fixed])

    def run(self, arrays: Sequence[Tensor]) -> None:
        """Compute the results from these arguments."""
        if self._copied:
            _copy(self._copied, [arrays[k] for k in self._moving])
        self._graph.replay()

    def results(self, arrays: Sequence[Tensor], copies: bool) -> tuple[Tensor, ...]:
        """The results of the last run, copied unless the next one may write over them."""
        found = self._computed
        if copies and found:
            found = [torch.empty_like(result) for result in self._computed]
            _copy(found, self._computed)
        # data that a structured result refers to is what was given
        there = [*arrays, *found]
        return tuple([there[k] for k in self._places])


def _captured(function: Function, given: Sequence[Tensor]) -> tuple[torch.cuda.CUDAGraph, Sequence[Tensor]]:
    """The graph of a call, and its results, which every replay computes anew."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):  # libraries allocate what they need before it is recorded
        function(*given)
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        results = function(*given)
    return graph, results


def _copy(targets: list[Tensor], values: list[Tensor]) -> None:
    """Copy tensors: small ones by one launch, which copies large ones slowly."""
    if len(targets) > 1 and max(target.numel() for target in targets) <= TOGETHER:
        torch._foreach_copy_(targets, values)
        return
    for target, value in zip(targets, values, strict=True):
        target.copy_(value)


def _address(array: Tensor) -> Address:
    return array.data_ptr(), array.stride(), array.is_neg()


def _is_watched(arrays: Sequence[Tensor]) -> bool:
    """Whether something other than the values is asked for."""
    return is_differentiated(arrays) or bool(torch.cuda.is_current_stream_capturing())
