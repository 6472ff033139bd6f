"""Work on several threads, for functions that release the lock of the interpreter."""

from __future__ import annotations

import functools
import itertools
import os
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from hesse.backends.processors import processors

T = TypeVar("T")

MANY = 2**14
"""Numbers for each task from which on it takes much longer than to call it, so that threads pay."""


def shares(count: int, least: int = 1) -> list[slice]:
    """As many items for each thread, but not fewer than some; at least one share, which may be empty."""
    threads = max(1, min(processors(), count // least))
    edges = [count * k // threads for k in range(threads + 1)]
    return [slice(a, b) for a, b in itertools.pairwise(edges)]


def on_threads(task: Callable[[slice], T], parts: Sequence[slice]) -> list[T]:
    """The results of a task for each share, the first of which this thread does itself."""
    first, *others = parts
    waiting = [_pool(len(others)).submit(task, part) for part in others]
    return [task(first), *(result.result() for result in waiting)]


def each(task: Callable[..., T], *columns: Sequence[Any], numbers: int) -> list[T]:
    """The results of a task for each row of some columns; on threads if they pass over many numbers."""
    tasks = [functools.partial(task, *row) for row in zip(*columns, strict=True)]
    return in_turns(tasks) if numbers >= MANY * len(tasks) else [task() for task in tasks]


def in_turns(tasks: Sequence[Callable[[], Any]]) -> list[Any]:
    """The results of tasks: each thread takes the next one when it has done its last.

    Threads take a while to wake, and tasks are not equally long.
    """
    found: list[Any] = [None] * len(tasks)
    numbers = iter(range(len(tasks)))  # one for all threads

    def work(_: slice) -> None:
        try:
            for k in numbers:
                found[k] = tasks[k]()
        except BaseException:
            deque(numbers, maxlen=0)  # nobody begins another one
            raise

    on_threads(work, shares(len(tasks)))
    return found


@functools.cache
def _pool(count: int) -> ThreadPoolExecutor:
    """Threads that stay: to start one takes as long as thousands of entries."""
    return ThreadPoolExecutor(count, thread_name_prefix="hesse")


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pool.cache_clear)  # threads do not live on in another process
