"""The application: the JSON interface, answered by worker processes, and the files of the page."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import asdict
from importlib.resources import files
from typing import Any

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


def _add_interface(application: FastAPI, pool: Pool, limits: Limits) -> None:
    async def ask(task: str, request: ReadRequest) -> Response:
        try:
            reply = await pool.ask(task, request.model_dump())
        except BusyError:
            return _failure(503, "BusyError", "too many requests wait; try again in a moment")
        except TooSlowError:
            message = f"this took longer than {limits.seconds:g} s and was stopped; "
            return _failure(422, "TimeLimitError", message + "try a lower order or a smaller formula")
        except WorkerLostError:
            return _failure(422, "LimitError", "the formula needs too much memory; make it smaller")
        return JSONResponse(reply["answer"]) if "answer" in reply else JSONResponse(reply, 422)

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

    @application.post("/api/read", response_model=Reading, responses=ERRORS)
    async def read(request: ReadRequest) -> Response:
        """The formula as it was understood, with the types of its variables."""
        return await ask("read", request)

    @application.post("/api/derive", response_model=Answer, responses=ERRORS)
    async def derive(request: DeriveRequest) -> Response:
        """Types of the variables, the derivative, its layout, convexity."""
        return await ask("derive", request)

    @application.post("/api/steps", response_model=StepsAnswer, responses=ERRORS)
    async def steps(request: DeriveRequest) -> Response:
        """The derivation, rule by rule."""
        return await ask("steps", request)

    @application.post("/api/render", response_model=Rendered, responses=ERRORS)
    async def render(request: RenderRequest) -> Response:
        """The derivative in a notation or as code."""
        return await ask("render", request)

    @application.post("/api/graph", response_model=GraphDrawing, responses=ERRORS)
    async def graph(request: DeriveRequest) -> Response:
        """A picture of the expression graph of the derivative."""
        return await ask("graph", request)

    @application.post("/api/structure", response_model=StructureAnswer, responses=ERRORS)
    async def structure(request: DeriveRequest) -> Response:
        """Which entries of the derivative are zero, and which repeat."""
        return await ask("structure", request)

    @application.post("/api/cost", response_model=Cost, responses=ERRORS)
    async def cost(request: CostRequest) -> Response:
        """Operations and memory for given sizes."""
        return await ask("cost", request)


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
