"""The application: the JSON interface, answered by worker processes, and the files of the page."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import asdict
from importlib.resources import files
from typing import Any, NamedTuple

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from fastapi.staticfiles import StaticFiles
from starlette.exceptions import HTTPException

import hesse
from hesse.answers import HIGHEST_ORDER, LARGEST_SIZE, TYPE_CHOICES, Answer, Cost, Reading
from hesse.answers.notations import ALL_NOTATIONS
from hesse.api.formula import SYMMETRIC_MODES
from hesse.web.guard import Application, Guard
from hesse.web.limits import LONGEST_FORMULA, Limits
from hesse.web.pool import BusyError, Pool, TooSlowError, WorkerLostError
from hesse.web.schema import (
    About,
    CostRequest,
    DeriveRequest,
    ErrorAnswer,
    GraphDrawing,
    Problem,
    ReadRequest,
    Rendered,
    RenderRequest,
    StepsAnswer,
    StructureAnswer,
)

ERRORS: dict[int | str, dict[str, Any]] = {422: {"model": ErrorAnswer}, 503: {"model": ErrorAnswer}}


def create_application(limits: Limits | None = None) -> Application:
    """The whole application; its worker processes live from start-up to shutdown."""
    limits = limits or Limits()
    pool = Pool(limits)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        await pool.start()
        yield
        await pool.stop()

    application = FastAPI(
        title="hesse", version=hesse.__version__, docs_url=None, redoc_url=None, lifespan=lifespan
    )
    _add_interface(application, pool, limits)
    _add_error_answers(application)
    application.mount("/", StaticFiles(directory=str(files("hesse.web") / "static"), html=True))
    return Guard(application, limits)


class Route(NamedTuple):
    """A request of the interface: what it takes and what it answers."""

    request: type[ReadRequest]
    answer: type
    summary: str


ROUTES: dict[str, Route] = {
    "read": Route(ReadRequest, Reading, "The formula as it was understood, with the types of its variables."),
    "derive": Route(DeriveRequest, Answer, "The derivative, its shape and layout, convexity."),
    "steps": Route(DeriveRequest, StepsAnswer, "The derivation, rule by rule."),
    "render": Route(RenderRequest, Rendered, "The derivative in a notation or as code."),
    "graph": Route(DeriveRequest, GraphDrawing, "A picture of the expression graph of the derivative."),
    "structure": Route(DeriveRequest, StructureAnswer, "Which entries are zero, and which repeat."),
    "cost": Route(CostRequest, Cost, "Operations and memory for given sizes."),
}
"""One for each task of the workers."""


def _add_interface(application: FastAPI, pool: Pool, limits: Limits) -> None:
    @application.get("/api/about")
    async def about() -> About:
        """What can be asked, and the limits."""
        return About(
            version=hesse.__version__,
            notations=ALL_NOTATIONS,
            types=TYPE_CHOICES,
            symmetric=SYMMETRIC_MODES,
            highest_order=HIGHEST_ORDER,
            longest_formula=LONGEST_FORMULA,
            largest_size=LARGEST_SIZE,
            seconds=limits.seconds,
        )

    for task, route in ROUTES.items():
        application.post(
            f"/api/{task}", name=task, summary=route.summary, response_model=route.answer, responses=ERRORS
        )(_endpoint(task, route, pool, limits))


def _endpoint(
    task: str, route: Route, pool: Pool, limits: Limits
) -> Callable[[ReadRequest], Awaitable[Response]]:
    async def endpoint(request: ReadRequest) -> Response:
        try:
            reply = await pool.ask(task, request.model_dump())
        except BusyError:
            return _failure(503, "BusyError", "too many requests wait; try again in a moment")
        except TooSlowError:
            message = f"this took longer than {limits.seconds:g} s and was stopped; "
            return _failure(422, "TimeLimitError", message + "try a lower order or a smaller formula")
        except WorkerLostError as loss:
            if loss.by_mistake:
                return _failure(500, "InternalError", "this is a mistake in hesse; please report the formula")
            return _failure(422, "LimitError", "the formula needs too much memory; make it smaller")
        return JSONResponse(reply["answer"]) if "answer" in reply else JSONResponse(reply, 422)

    endpoint.__annotations__["request"] = route.request  # what is checked before it is called
    return endpoint


def _add_error_answers(application: FastAPI) -> None:
    """All errors have the same form, and none repeats what was sent."""

    @application.exception_handler(RequestValidationError)
    async def invalid(_: Request, problem: RequestValidationError) -> Response:
        first = problem.errors()[0]
        place = ".".join(str(part)[:40] for part in first["loc"] if part != "body")
        return _failure(422, "RequestError", f"{place}: {first['msg']}" if place else first["msg"])

    @application.exception_handler(HTTPException)
    async def failed(_: Request, problem: HTTPException) -> Response:
        return _failure(problem.status_code, "RequestError", str(problem.detail))


def _failure(status: int, kind: str, message: str) -> Response:
    headers = {"Retry-After": "1"} if status == 503 else None
    printable = message.encode("utf-8", "replace").decode()
    return JSONResponse(asdict(ErrorAnswer(Problem(kind, printable))), status, headers)
