"""Captured CUDA graphs: a program whose launches take longer than its work is recorded once and replayed."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

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


def is_worth_capturing(program: Program, itemsize: int, machine: TorchMachine) -> bool:
    """Whether a program can be captured, and its launches take longer than copies and the replay."""
    items = program.instructions
    if any(isinstance(item, CallMap | CallApply) and item.name in SYNCHRONISING for item in items):
        return False
    copied = [k for k, item in enumerate(items) if isinstance(item, Load)] + list(program.results)
    entries = sum(torch.Size(program.shapes[k]).numel() for k in copied)
    launches = sum(not isinstance(item, Load | View) for item in items)
    saved = launches - len(copied) - machine.replay_launches
    return bool(saved * machine.launch_bytes > 2 * entries * itemsize)


class Graphed:
    """A function on a CUDA device, captured at its second call and replayed from then on.

    Calls that autograd looks into are not replayed. With `copies=False` the
    results are those of the graph, which the next call writes over.
    """

    def __init__(self, function: Callable[..., tuple[Tensor, ...]], copies: bool) -> None:
        self._function, self._copies = function, copies
        self._is_known = False
        self._graph: torch.cuda.CUDAGraph | None = None
        self._arguments: list[Tensor] = []
        self._computed: list[Tensor] = []
        self._places: list[int] = []
        """Where the results are: among the arguments, and then among what is computed."""
        self._lock = threading.Lock()
        self._stream: torch.cuda.Stream | None = None
        """Where it was replayed last: on another stream it waits until that has read the results."""

    def __call__(self, *arrays: Tensor) -> tuple[Tensor, ...]:
        if not self._is_known or _is_watched(arrays):
            self._is_known = True
            return self._function(*arrays)
        device = arrays[0].device
        if device.index != torch.cuda.current_device():
            with torch.cuda.device(device):
                return self(*arrays)
        with self._lock:
            if self._graph is None:
                with torch.inference_mode(False), torch.no_grad():
                    self._capture(arrays)
                assert self._graph is not None
            self._wait(device.index)
            torch._foreach_copy_(self._arguments, arrays)  # one launch for many
            self._graph.replay()
            return self._given_back(arrays)

    def _wait(self, device: int) -> None:
        last = self._stream
        # asking for the number is much faster than for the stream
        if last is None or torch._C._cuda_getCurrentRawStream(device) != last.cuda_stream:
            self._stream = torch.cuda.current_stream()
            if last is not None:
                self._stream.wait_stream(last)

    def _given_back(self, arrays: Sequence[Tensor]) -> tuple[Tensor, ...]:
        found = self._computed
        if self._copies and found:
            found = [torch.empty_like(result) for result in self._computed]
            torch._foreach_copy_(found, self._computed)
        # data that a structured result refers to is what was given
        there = [*arrays, *found]
        return tuple([there[k] for k in self._places])

    def _capture(self, arrays: Sequence[Tensor]) -> None:
        self._arguments = [array.detach().clone() for array in arrays]
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):  # libraries allocate what they need before it is recorded
            self._function(*self._arguments)
        torch.cuda.current_stream().wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            results = self._function(*self._arguments)
        given = {id(array): k for k, array in enumerate(self._arguments)}
        computed = {id(result): result for result in results if id(result) not in given}
        places = given | {key: len(given) + k for k, key in enumerate(computed)}
        self._computed = list(computed.values())
        self._places = [places[id(result)] for result in results]
        self._graph = graph


def _is_watched(arrays: Sequence[Tensor]) -> bool:
    """Whether something other than the values is asked for."""
    return is_differentiated(arrays) or bool(torch.cuda.is_current_stream_capturing())
