"""What memory holds: one limit for the process, and nothing of expressions that are gone."""

from __future__ import annotations

import threading
from collections.abc import Callable

import hesse
from hesse.plan import allowed_bytes


def in_another_thread(function: Callable[[], object]) -> None:
    thread = threading.Thread(target=function)
    thread.start()
    thread.join()


def test_a_memory_limit_holds_in_every_thread() -> None:
    seen: list[float] = []
    try:
        hesse.set_memory_limit(12345.0)
        in_another_thread(lambda: seen.append(allowed_bytes(lambda: 10**9)))
        in_another_thread(lambda: hesse.set_memory_limit(54321.0))
        seen.append(allowed_bytes(lambda: 10**9))
    finally:
        hesse.set_memory_limit(None)
    assert seen == [12345.0, 54321.0]
    assert allowed_bytes(lambda: 10**9) == 10**9 / 2


def test_a_memory_limit_set_before_refuses_in_a_thread() -> None:
    raised: list[str] = []

    def differentiate() -> None:
        try:
            hesse.hessian(lambda x: (x**2).sum() ** 2)([1.0] * 1000)
        except hesse.errors.MemoryLimitError as error:
            raised.append(str(error))

    try:
        hesse.set_memory_limit(1e5)
        in_another_thread(differentiate)
    finally:
        hesse.set_memory_limit(None)
    assert len(raised) == 1
    assert "more than the 100 kB allowed" in raised[0]
