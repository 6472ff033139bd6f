"""Garbage collections while much is made that stays: they would look through all of it, again and again."""

from __future__ import annotations

import gc
import threading
from types import TracebackType

ALLOCATIONS = 50_000
"""So many new objects are worth a collection while a derivative is built."""


class _Rarely:
    """While somebody builds, in whatever thread, collections are rare; then as they were."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._depth = 0
        self._usual = gc.get_threshold()

    def __enter__(self) -> None:
        with self._lock:
            if self._depth == 0:
                self._usual = gc.get_threshold()
                if 0 < self._usual[0] < ALLOCATIONS:  # 0: the user wants none
                    gc.set_threshold(ALLOCATIONS, *self._usual[1:])
            self._depth += 1

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._lock:
            self._depth -= 1
            if self._depth == 0 and gc.get_threshold()[0] == ALLOCATIONS:  # and nobody else changed it
                gc.set_threshold(*self._usual)


collecting_rarely = _Rarely()
