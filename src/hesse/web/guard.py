"""What stands in front of the application: limits on bodies, the origin of requests, and security headers."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from hesse.web.limits import Limits

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]

HEADERS = {
    "Content-Security-Policy": (
        "default-src 'self'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
        "object-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "Cache-Control": "no-cache",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
LOCAL_NAMES = ("127.0.0.1", "localhost")


class Refused(Exception):
    """A request that the application does not get to see."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class Guard:
    """An ASGI application around another one: it reads the body, within limits, before the other one runs."""

    def __init__(self, application: Application, limits: Limits) -> None:
        self._application = application
        self._limits = limits

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._application(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                extra = [(name.lower().encode(), value.encode()) for name, value in HEADERS.items()]
                message["headers"] = [*message.get("headers", []), *extra]
            await send(message)

        try:
            _check_names(scope)
            body = await self._body(scope, receive)
        except Refused as refusal:
            await _refuse(refusal, send_with_headers)
            return
        await self._application(scope, _replay(body, receive), send_with_headers)

    async def _body(self, scope: Scope, receive: Receive) -> bytes:
        limit = self._limits.body_bytes
        too_long = Refused(413, f"a request has at most {limit} bytes")
        announced = dict(scope["headers"]).get(b"content-length", b"0")
        if len(announced) > 12 or int(announced) > limit:
            raise too_long
        body = bytearray()
        try:
            async with asyncio.timeout(self._limits.body_seconds):
                while True:
                    message = await receive()
                    body += message.get("body", b"")
                    if len(body) > limit:
                        raise too_long
                    if not message.get("more_body", False):
                        return bytes(body)
        except TimeoutError:
            raise Refused(408, "the request did not arrive in time") from None


def _check_names(scope: Scope) -> None:
    """Only pages of this server may ask: another name for it, or another origin, is somebody else's page."""
    headers = dict(scope["headers"])
    hosts = [value for name, value in scope["headers"] if name == b"host"]
    if len(hosts) != 1 or hosts[0].decode("latin-1").rsplit(":", 1)[0] not in LOCAL_NAMES:
        raise Refused(421, f"this server answers only to {' and '.join(LOCAL_NAMES)}")
    origin = headers.get(b"origin")
    if origin is not None and origin != b"http://" + hosts[0]:
        raise Refused(403, "only the page of this server may send requests")


def _replay(body: bytes, receive: Receive) -> Receive:
    """The body, which has been read already, and after it whatever comes."""
    waiting = [{"type": "http.request", "body": body, "more_body": False}]

    async def replay() -> Message:
        return waiting.pop() if waiting else await receive()

    return replay


async def _refuse(refusal: Refused, send: Send) -> None:
    error = {"kind": "RequestError", "message": str(refusal), "position": None}
    body = json.dumps({"error": error}).encode()
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode()),
        (b"connection", b"close"),
    ]
    await send({"type": "http.response.start", "status": refusal.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
