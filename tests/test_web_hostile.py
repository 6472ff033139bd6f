"""The server among requests that mean harm: limits hold, nobody else is disturbed, and it serves on."""

from __future__ import annotations

import asyncio
import json
import random
import socket
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from hesse.web.limits import Limits
from hesse.web.pool import Pool, WorkerLostError
from web_server import GOOD, Reply, Server, assert_serving, running

SLOW = {"formula": "norm2(softmax(A*x))/norm2(softmax(B*x))", "by": ["x"] * 6}
SECONDS = 1.5


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with running(f"seconds={SECONDS}, body_seconds=1.0") as found:
        yield found


def test_unknown_routes(server: Server) -> None:
    """What is not there is a 404, and a wrong method a 405."""
    for path in ("/api/nothing", "/nothing", "/../pyproject.toml", "/..%2f..%2fpool.py", "/katex"):
        assert server.request("GET", path).status in (404, 307), path
    assert server.request("GET", "/api/derive").status in (404, 405)
    assert server.request("DELETE", "/").status == 405


def test_security_headers(server: Server) -> None:
    """Page, interface and errors carry the same headers, and nobody else may read answers."""
    for reply in [
        server.request("GET", "/"),
        server.ask("derive", **GOOD),
        server.request("GET", "/nothing"),
    ]:
        policy = reply.headers["content-security-policy"]
        assert "default-src 'self'" in policy
        assert "unsafe" not in policy
        assert reply.headers["x-content-type-options"] == "nosniff"
        assert reply.headers["x-frame-options"] == "DENY"
        assert reply.headers["referrer-policy"] == "no-referrer"
        assert not any(name.startswith("access-control") for name in reply.headers)


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:80", "127.0.0.1.evil.example", "[::1]:80", ""]
)
def test_other_names_are_refused(server: Server, host: str) -> None:
    """A page whose name was bound to this address (DNS rebinding) gets nothing."""
    reply = server.request("GET", "/api/about", headers={"Host": host})
    assert reply.status in (400, 421)
    assert server.request("GET", "/api/about", headers={"Host": f"localhost:{server.port}"}).status == 200


def test_other_origins_are_refused(server: Server) -> None:
    """A page of another origin cannot make the server work, not even with a form."""
    body = json.dumps(GOOD).encode()
    for origin, status in [
        ("https://evil.example", 403),
        ("null", 403),
        (f"http://127.0.0.1:{server.port}", 200),
    ]:
        headers = {"Origin": origin, "Content-Type": "application/json"}
        assert server.request("POST", "/api/derive", body, headers).status == status


def test_bodies_are_limited(server: Server) -> None:
    """A body that is announced too long, or turns out to be, is not read."""
    assert server.request("POST", "/api/derive", b"x" * 40_000).status == 413
    start = b"POST /api/derive HTTP/1.1\r\nHost: 127.0.0.1\r\n"
    chunk = b"2000\r\n" + b"x" * 0x2000 + b"\r\n"
    assert raw(server, start + b"Transfer-Encoding: chunked\r\n\r\n" + 6 * chunk).startswith(b"HTTP/1.1 413")
    assert raw(server, start + b"Content-Length: 9999999999999999\r\n\r\n").startswith(b"HTTP/1.1 413")


def test_slow_bodies_are_dropped(server: Server) -> None:
    """Who announces a body and does not send it does not hold a place for long."""
    start = time.monotonic()
    reply = raw(server, b"POST /api/derive HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 10\r\n\r\n{")
    assert reply.startswith(b"HTTP/1.1 408")
    assert time.monotonic() - start < 10


def raw(server: Server, data: bytes, wait: float = 10.0) -> bytes:
    """What comes back for some bytes."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=wait) as connection:
        received = b""
        try:
            connection.sendall(data)
            while part := connection.recv(65536):
                received += part
                if b"\r\n\r\n" in received and b"408" not in received[:20]:
                    break
        except (TimeoutError, ConnectionError):
            pass
        return received


def test_a_slow_formula_is_stopped_and_disturbs_nobody(server: Server) -> None:
    """It gets an error after the time limit; other questions are answered meanwhile."""
    replies: list[Reply] = []
    slow = threading.Thread(target=lambda: replies.append(server.ask("derive", **SLOW)))
    start = time.monotonic()
    slow.start()
    answered = 0
    while slow.is_alive():
        assert_serving(server)
        answered += 1
    assert SECONDS <= time.monotonic() - start < SECONDS + 10
    assert answered > 3
    assert replies[0].status == 422
    assert replies[0].data["error"]["kind"] == "TimeLimitError"
    assert "this took longer than 1.5 s and was stopped" in replies[0].message
    assert_serving(server)


def test_a_formula_that_needs_too_much_memory(server: Server) -> None:
    """It gets an error, and takes nothing with it."""
    reply = server.ask("derive", formula="matrix A(900,900); sum(exp(kron(A,A)))", by=["A"])
    assert reply.status == 422
    assert reply.data["error"]["kind"] in ("LimitError", "MemoryLimitError", "VerificationError")
    assert_serving(server)


def test_a_mistake_in_a_worker() -> None:
    """A worker that ends by an exception says so, and is replaced."""

    async def asked() -> dict[str, Any]:
        pool = Pool(Limits(workers=1))
        await pool.start()
        try:
            with pytest.raises(WorkerLostError, match="ended with status 1") as loss:
                await pool.ask("no such task", {})
            assert loss.value.by_mistake
            return await pool.ask("derive", GOOD)
        finally:
            await pool.stop()

    assert asyncio.run(asked())["answer"]["derivative"] == "A + A'"


def test_too_many_at_once() -> None:
    """Beyond the queue requests are sent away at once, to try again; the server recovers by itself."""
    with running("seconds=1.0, workers=1, waiting=2") as small:
        with ThreadPoolExecutor(8) as threads:
            replies = list(threads.map(lambda _: small.ask("derive", **SLOW), range(8)))
        counts = Counter(reply.status for reply in replies)
        assert set(counts) == {422, 503}
        assert counts[422] >= 3
        busy = next(reply for reply in replies if reply.status == 503)
        assert busy.headers["retry-after"] == "1"
        assert "too many requests wait" in busy.message
        assert_serving(small)


def test_workers_are_replaced_and_end_with_the_server() -> None:
    """A worker is replaced after its number of requests; none outlives the server."""
    with running("workers=1, requests_per_worker=3") as small:
        seen = set()
        for _ in range(10):
            assert_serving(small)
            seen |= children(small.process.pid)
        assert len(seen) >= 3
        last = children(small.process.pid)
        assert small.stop() in (0, 130, -2)
        time.sleep(0.2)
        assert not any(Path(f"/proc/{pid}").exists() for pid in last)


def children(pid: int) -> set[int]:
    listing = Path(f"/proc/{pid}/task/{pid}/children")
    if not listing.exists():
        pytest.skip("this system does not list the children of a process")
    return {int(child) for child in listing.read_text().split()}


def bad_request(generator: random.Random, server: Server) -> int:
    """Send something that deserves no answer; the status that came back, or 0 for none."""
    noise = generator.randbytes(generator.randrange(1, 300))
    text = "".join(
        generator.choices("xyAT()[]*.^'+-/,;=0123456789 \n\\\u00e9\u2211", k=generator.randrange(1, 200))
    )
    json_type = {"Content-Type": "application/json"}
    values = [None, True, -1, 1e308, [], {}, "x", [[[]]], {"a": {"b": 1}}, ["x"] * 1000, 10**30]
    task = generator.choice(["read", "derive", "render", "graph", "structure", "cost"])

    def body(data: bytes) -> int:
        return server.request("POST", f"/api/{task}", data, json_type).status

    match generator.randrange(10):
        case 0:
            return body(noise)
        case 1:
            return body(noise * 200)
        case 2:
            return body(json.dumps({"formula": f"){text}", "by": ["x"], "notation": "latex"}).encode())
        case 3:
            depth = generator.randrange(201, 2000)
            nested = "sin(" * depth + "x" + ")" * depth
            return body(json.dumps({"formula": nested, "notation": "latex"}).encode())
        case 4:
            return body(b"[" * generator.randrange(1, 15_000))
        case 5:
            question = {"formula": generator.choice(values[:5]), "by": generator.choice(values[:7])}
            return body(json.dumps({**question, "types": generator.choice(values)}).encode())
        case 6:
            path = "/" + "".join(generator.choices("abc/.%20&?=#~", k=20)).replace("#", "")
            return server.request(generator.choice(["POST", "PUT", "PATCH"]), f"/no{path}").status
        case 7:
            name = generator.choice(["Host", "Origin"])
            return server.request(
                "GET", "/", headers={name: f"http://e{generator.randrange(99)}.example"}
            ).status
        case 8:
            start = generator.choice(
                [b"", b"GET / HTTP/9.9\r\n", b"GET  / HTTP/1.1\r\nHost:\r\n\r\n", b"\x16\x03\x01"]
            )
            reply = raw(server, start + noise + b"\r\n\r\n", wait=0.2)
            return int(reply[9:12]) if reply.startswith(b"HTTP/1.1 ") else 0
        case _:
            header = {
                "Content-Length": generator.choice(["99999999", "-1", "abc", "0x10"]),
                "Host": "127.0.0.1",
            }
            lines = "".join(f"{key}: {value}\r\n" for key, value in header.items())
            reply = raw(server, f"POST /api/{task} HTTP/1.1\r\n{lines}\r\n".encode(), wait=0.2)
            return int(reply[9:12]) if reply.startswith(b"HTTP/1.1 ") else 0


def test_a_thousand_bad_requests(server: Server) -> None:
    """Every one gets a 4xx or no answer at all, and the server serves on, with the same process."""
    generators = [random.Random(seed) for seed in range(1000)]
    with ThreadPoolExecutor(6) as threads:
        slow = [threads.submit(server.ask, "derive", **SLOW) for _ in range(2)]
        statuses = list(threads.map(lambda generator: bad_request(generator, server), generators))
    counts = Counter(statuses)
    print(sorted(counts.items()))
    assert set(counts) <= {0, 400, 403, 404, 405, 408, 413, 421, 422}
    assert counts[422] > 200
    assert [future.result().status for future in slow] == [422, 422]
    assert server.process.poll() is None
    assert_serving(server)
