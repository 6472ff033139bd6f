"""A few warm worker processes. One that takes too long is killed and replaced; nobody waits for it."""

from __future__ import annotations

import asyncio
import json
import math
import os
import sys
from typing import Any

from hesse.web.limits import Limits

START_SECONDS = 120.0
STOP_SECONDS = 5.0
RETRY_SECONDS = 2.0


class BusyError(Exception):
    """Too many requests wait already."""


class TooSlowError(Exception):
    """The time limit has passed."""


class WorkerLostError(Exception):
    """The worker ended while it was computing: killed for lack of memory, or by a mistake in hesse."""

    def __init__(self, status: int | None) -> None:
        super().__init__(f"a worker ended with status {status}")
        self.by_mistake = status == 1  # of an exception that nobody expected


class _Worker:
    """One process, which answers one request at a time."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.served = 0

    @classmethod
    async def start(cls, limits: Limits) -> _Worker:
        arguments = [math.ceil(limits.seconds), limits.memory_bytes, limits.answer_bytes]
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "hesse.web.worker",
            *map(str, arguments),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            limit=2 * limits.answer_bytes,
            env={**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"},
        )
        worker = cls(process)
        try:
            await asyncio.wait_for(worker._line(), START_SECONDS)
        except BaseException:  # cancelled as well: no process is left behind
            process.kill()
            raise
        return worker

    async def ask(self, task: str, arguments: dict[str, Any]) -> dict[str, Any]:
        assert self.process.stdin is not None
        self.served += 1
        self.process.stdin.write(json.dumps({"task": task, "arguments": arguments}).encode() + b"\n")
        try:
            await self.process.stdin.drain()
        except ConnectionError:
            raise WorkerLostError(self.process.returncode) from None
        reply: dict[str, Any] = json.loads(await self._line())
        return reply

    async def _line(self) -> bytes:
        assert self.process.stdout is not None
        line = await self.process.stdout.readline()
        if not line.endswith(b"\n"):
            raise WorkerLostError(await self.process.wait())
        return line

    async def stop(self) -> None:
        if self.process.returncode is None:
            self.process.kill()
        await asyncio.wait_for(self.process.wait(), STOP_SECONDS)


class Pool:
    """The workers of a server and the requests that wait for them."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._idle: asyncio.Queue[_Worker] = asyncio.Queue()
        self._workers: set[_Worker] = set()
        self._replacements: set[asyncio.Task[None]] = set()
        self._waiting = 0

    async def start(self) -> None:
        """Start all workers; they have imported and tried everything once when this returns."""
        await asyncio.gather(*(self._add() for _ in range(self._limits.workers)))

    async def stop(self) -> None:
        """Kill all workers."""
        for task in self._replacements:
            task.cancel()
        await asyncio.gather(*self._replacements, return_exceptions=True)
        await asyncio.gather(*(worker.stop() for worker in self._workers))

    async def ask(self, task: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """The answer of the next free worker."""
        if self._waiting >= self._limits.waiting:
            raise BusyError
        self._waiting += 1
        try:
            worker = await self._idle.get()
        finally:
            self._waiting -= 1
        kept = False
        try:
            reply = await asyncio.wait_for(worker.ask(task, arguments), self._limits.seconds)
            kept = worker.served < self._limits.requests_per_worker
        except TimeoutError:
            raise TooSlowError from None
        finally:  # also when the request was cancelled: its answer must not be read by the next one
            if kept:
                self._idle.put_nowait(worker)
            else:
                self._replace(worker)
        return reply

    def _replace(self, worker: _Worker) -> None:
        replacement = asyncio.create_task(self._replaced(worker))
        self._replacements.add(replacement)
        replacement.add_done_callback(self._replacements.discard)

    async def _replaced(self, worker: _Worker) -> None:
        await worker.stop()
        self._workers.discard(worker)
        while True:
            try:
                return await self._add()
            except (TimeoutError, OSError, WorkerLostError):  # the machine is short of something: try again
                await asyncio.sleep(RETRY_SECONDS)

    async def _add(self) -> None:
        worker = await _Worker.start(self._limits)
        self._workers.add(worker)
        self._idle.put_nowait(worker)
