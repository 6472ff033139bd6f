"""A running server for tests, and requests to it."""

from __future__ import annotations

import http.client
import json
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

GOOD = {"formula": "x'*A*x", "by": ["x", "x"]}


class Reply(NamedTuple):
    """What came back."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def data(self) -> Any:
        return json.loads(self.body)

    @property
    def message(self) -> str:
        return str(self.data["error"]["message"])


class Server(NamedTuple):
    """A server in a process of its own."""

    process: subprocess.Popen[str]
    port: int

    def request(
        self, method: str, path: str, body: bytes | None = None, headers: dict[str, str] | None = None
    ) -> Reply:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            connection.request(method, path, body, headers or {})
            response = connection.getresponse()
            return Reply(
                response.status,
                {name.lower(): value for name, value in response.getheaders()},
                response.read(),
            )
        finally:
            connection.close()

    def ask(self, task: str, **question: Any) -> Reply:
        body = json.dumps(question).encode()
        return self.request("POST", f"/api/{task}", body, {"Content-Type": "application/json"})

    def stop(self) -> int:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
        return self.process.wait(timeout=20)


@contextmanager
def running(limits: str = "") -> Iterator[Server]:
    """A server on a free port; `limits` are arguments of `Limits`."""
    code = f"from hesse.web import Limits, serve; serve(0, limits=Limits({limits}))"
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    found = re.search(r"http://127\.0\.0\.1:(\d+)/", process.stdout.readline())
    assert found is not None, "the server did not start"
    server = Server(process, int(found[1]))
    try:
        yield server
    finally:
        server.stop()
        process.stdout.close()


def assert_serving(server: Server) -> None:
    """A good question still gets the right answer."""
    reply = server.ask("derive", **GOOD)
    assert reply.status == 200, reply.body
    assert reply.data["derivative"] == "A + A'"
