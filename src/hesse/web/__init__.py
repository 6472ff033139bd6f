"""The local web page: `hesse serve`."""

from __future__ import annotations

import contextlib
import importlib.util
import socket
import webbrowser

from hesse.errors import ArgumentError, MissingPackageError
from hesse.web.limits import Limits

__all__ = ["Limits", "serve"]

HOST = "127.0.0.1"


def serve(port: int = 8642, open_page: bool = False, limits: Limits | None = None) -> None:
    """Serve the page on this computer until interrupted; port 0 takes a free one."""
    missing = [name for name in ("fastapi", "uvicorn") if importlib.util.find_spec(name) is None]
    if missing:
        raise MissingPackageError(
            f"the web page needs {' and '.join(missing)}: pip install 'hesse[web]' installs what is missing"
        )
    import uvicorn  # noqa: PLC0415

    from hesse.web.application import create_application  # noqa: PLC0415

    listener = _listener(port)
    address = f"http://{HOST}:{listener.getsockname()[1]}/"

    class Announcing(uvicorn.Server):
        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets)
            print(f"hesse is at {address} (Ctrl+C ends it)", flush=True)
            if open_page:
                webbrowser.open(address)

    settings = uvicorn.Config(
        create_application(limits),
        http="h11",
        ws="none",
        lifespan="on",
        log_level="error",
        limit_concurrency=128,
        h11_max_incomplete_event_size=16_384,
        timeout_keep_alive=10,
        timeout_graceful_shutdown=2,
        server_header=False,
        proxy_headers=False,
    )
    with contextlib.suppress(KeyboardInterrupt):  # raised again after everything has been shut down
        Announcing(settings).run(sockets=[listener])


def _listener(port: int) -> socket.socket:
    # with the protocol named, asyncio sends small packets at once; else each answer waits 40 ms
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((HOST, port))
    except OSError as problem:
        listener.close()
        raise ArgumentError(
            f"port {port} cannot be used: {problem.strerror}; choose another one with --port"
        ) from None
    return listener
