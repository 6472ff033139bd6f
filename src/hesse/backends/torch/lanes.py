"""Lanes: instructions that do not wait for each other run side by side on streams of a GPU.

A small program leaves most of a GPU idle, and each of its kernels waits for the one before. A captured graph
keeps what really depends on what, so its kernels are written to several streams: the longest chain of
instructions goes first, each to the lane where it can begin soonest.
"""

from __future__ import annotations

import heapq
import math
import threading
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

import torch

from hesse.backends.torch.machine import TorchMachine
from hesse.plan.program import Contract, Program, Ref, View, sources

Reads = Mapping[Ref, Sequence[Ref]]
"""For each instruction that has lines those whose values it reads."""


class Step(NamedTuple):
    """An instruction on its lane."""

    ref: Ref
    lane: int
    waits: tuple[Ref, ...]
    """What it waits for on other lanes."""
    is_marked: bool = False
    """Whether another lane waits for it."""
    frees: tuple[Ref, ...] = ()
    """What nobody reads any more: memory goes from value to value only on the lane that it was taken for."""


def is_worth_lanes(program: Program, itemsize: int, machine: TorchMachine) -> bool:
    """Whether values may stay in memory until the end: lanes do not know when others are done."""
    entries = sum(math.prod(shape) for shape in program.shapes)
    return machine.lanes > 1 and entries * itemsize <= machine.lane_bytes


def kernels(program: Program, ref: Ref, itemsize: int, machine: TorchMachine) -> float:
    """How long an instruction runs, in small kernels of a graph."""
    item = program.instructions[ref]
    if isinstance(item, View):
        return 0.0
    moved = sum(math.prod(program.shapes[k]) for k in (ref, *sources(item))) * itemsize
    launches = machine.product_kernels if isinstance(item, Contract) and item.is_sum else 1.0
    return launches + moved / machine.kernel_bytes


def steps(reads: Reads, costs: Mapping[Ref, float], results: Collection[Ref], lanes: int) -> list[Step]:
    """All instructions in an order in which they can be issued, each on a lane."""
    places = _placed(reads, costs, lanes)
    number: dict[Ref, int] = {}
    counts = [0] * lanes
    for ref, lane in places.items():
        counts[lane] += 1
        number[ref] = counts[lane]
    known = [[0] * lanes for _ in range(lanes)]
    """For each lane how many instructions of each lane are over when its next one begins."""
    then: dict[Ref, list[int]] = {}
    found, marked = [], set[Ref]()
    for ref, lane in places.items():
        waits = []
        for source in sorted(reads[ref], key=number.__getitem__, reverse=True):
            other = places[source]
            if other != lane and known[lane][other] < number[source]:
                waits.append(source)
                known[lane] = list(map(max, known[lane], then[source]))
        known[lane][lane] = number[ref]
        then[ref] = list(known[lane])
        marked.update(waits)
        found.append(Step(ref, lane, tuple(waits)))
    freed = _freed(reads, places, results)
    return [step._replace(is_marked=step.ref in marked, frees=freed.get(step.ref, ())) for step in found]


def _freed(reads: Reads, places: Mapping[Ref, int], results: Collection[Ref]) -> dict[Ref, tuple[Ref, ...]]:
    """For each instruction what it is the last one to read, of values that only their own lane reads."""
    last = {source: ref for ref in places for source in reads[ref]}
    shared = {source for ref in places for source in reads[ref] if places[source] != places[ref]}
    freed: dict[Ref, list[Ref]] = {}
    for source, ref in last.items():
        if source not in shared and source not in results:
            freed.setdefault(ref, []).append(source)
    return {ref: tuple(found) for ref, found in freed.items()}


def _placed(reads: Reads, costs: Mapping[Ref, float], lanes: int) -> dict[Ref, int]:
    """The lane of each instruction, in the order in which they are issued."""
    readers: dict[Ref, list[Ref]] = {ref: [] for ref in reads}
    for ref, read in reads.items():
        for source in set(read):
            readers[source].append(ref)
    urgency: dict[Ref, float] = {}
    for ref in reversed(list(reads)):
        urgency[ref] = costs[ref] + max((urgency[reader] for reader in readers[ref]), default=0.0)
    missing = {ref: len(set(read)) for ref, read in reads.items()}
    ready = [(-urgency[ref], ref) for ref in reads if not missing[ref]]
    heapq.heapify(ready)
    free, end = [0.0] * lanes, dict[Ref, float]()
    places: dict[Ref, int] = {}

    def start(ref: Ref, lane: int) -> float:
        return max([free[lane], *(end[source] + (places[source] != lane) for source in reads[ref])])

    def issue(ref: Ref, lane: int) -> None:
        at_once = [ref]
        while at_once:
            ref = at_once.pop()
            end[ref] = free[lane] = start(ref, lane) + costs[ref]
            places[ref] = lane
            for reader in readers[ref]:
                missing[reader] -= 1
                if not missing[reader] and not costs[reader]:  # a view: where its value is
                    at_once.append(reader)
                elif not missing[reader]:
                    heapq.heappush(ready, (-urgency[reader], reader))

    while ready:
        _, ref = heapq.heappop(ready)
        issue(ref, min(range(lanes), key=lambda lane: start(ref, lane)))
    return places


def issued(
    found: Iterable[Step], lines: Mapping[Ref, Sequence[str]], names: Sequence[str], lanes: int
) -> list[str]:
    """The lines of a function that runs all steps, each on its lane."""
    text: list[str] = []
    current = 0
    for step in found:
        if step.lane != current:
            text.append(f"lanes.go({step.lane})")
            current = step.lane
        text += [f"lanes.wait({ref})" for ref in step.waits]
        text += lines[step.ref]
        if step.is_marked:
            text.append(f"lanes.mark({step.ref})")
        if step.frees:
            text.append(f"del {', '.join(names[ref] for ref in step.frees)}")
    if not text:
        return []
    body = [f"    {line}" for line in text]
    return [f"lanes = Lanes({lanes})", "try:", *body, "finally:", "    lanes.join()"]


class Lanes:
    """The streams of one run: the current one and some beside it, which begin where it is now."""

    def __init__(self, count: int) -> None:
        main = torch.cuda.current_stream()
        self._streams = [main, *side_streams(main.device_index, count - 1)]
        self._lane = 0
        self._events: dict[Ref, torch.cuda.Event] = {}
        begin = main.record_event()
        for stream in self._streams[1:]:
            stream.wait_event(begin)

    def go(self, lane: int) -> None:
        """What follows runs on this lane."""
        self._lane = lane
        torch.cuda.set_stream(self._streams[lane])

    def mark(self, ref: Ref) -> None:
        """Other lanes will wait for a value that this one has just computed."""
        self._events[ref] = self._streams[self._lane].record_event()

    def wait(self, ref: Ref) -> None:
        """This lane goes on when a value is there."""
        self._streams[self._lane].wait_event(self._events[ref])

    def join(self) -> None:
        """All lanes end in the first one."""
        self.go(0)
        for stream in self._streams[1:]:
            self._streams[0].wait_event(stream.record_event())


_SIDE_STREAMS: dict[int, list[torch.cuda.Stream]] = {}
"""For each device those that all programs share: libraries keep memory for each stream they have seen."""
_LOCK = threading.Lock()


def side_streams(device: int, count: int) -> list[torch.cuda.Stream]:
    """Some streams of a device, always the same ones; who uses them must be alone."""
    with _LOCK:
        streams = _SIDE_STREAMS.setdefault(device, [])
        while len(streams) < count:
            streams.append(torch.cuda.Stream(device))
        return streams[:count]
