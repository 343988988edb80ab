"""The service as an application of ASGI: its paths."""

from __future__ import annotations

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware

from placewright.instances.errors import InvalidInputError
from placewright.live.serve.documents import describe
from placewright.live.serve.guard import Guard
from placewright.live.serve.lane import INVALID, OK, Answer, failed, refused
from placewright.live.serve.service import Service, as_response
from placewright.live.serve.settings import Settings

EMPTY = "<!doctype html><title>Placewright</title><p>No round has been solved yet.</p>"
PROMETHEUS = "text/plain; version=0.0.4; charset=utf-8"
PAGE_HEADERS = {
    # What the page may load is said in the page itself: nothing but its own script and style.
    "Content-Security-Policy": "default-src data: 'unsafe-inline'; frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
}


def make_app(settings: Settings) -> FastAPI:
    """Return the service as an application."""
    service = Service(settings)
    app = FastAPI(
        title="Placewright",
        version="v1alpha2",
        docs_url=None,  # these load scripts from elsewhere
        redoc_url=None,
        lifespan=service.running,
        middleware=[Middleware(Guard, settings=settings)],
    )

    @app.post("/v1alpha2/solve")
    async def solve(request: Request, lenient: bool = False, show: bool = True) -> Response:
        """Decide a round. With `show=false` it is not the one that the service shows."""
        return await service.answer(request, "solve", lenient=lenient, show=show)

    @app.post("/v1alpha2/verify")
    async def verify(request: Request, lenient: bool = False) -> Response:
        """Check a plan, rule by rule, and recompute its terms."""
        return await service.answer(request, "verify", lenient=lenient)

    @app.post("/v1alpha2/explain")
    async def explain(request: Request, lenient: bool = False) -> Response:
        """Say why a job waits, or all that do, and what would let them start."""
        return await service.answer(request, "explain", lenient=lenient)

    @app.post("/v1alpha2/admit")
    async def admit(request: Request, lenient: bool = False) -> Response:
        """Say what one arriving job can be promised, under the policy `deadline`."""
        return await service.answer(request, "admit", lenient=lenient)

    @app.post("/extender/filter", include_in_schema=False)
    async def filtered(request: Request) -> Response:
        return await service.extend(request, "filter")

    @app.post("/extender/prioritize", include_in_schema=False)
    async def prioritized(request: Request) -> Response:
        return await service.extend(request, "prioritize")

    @app.post("/extender/preempt", include_in_schema=False)
    async def preempted(request: Request) -> Response:
        return await service.extend(request, "preempt")

    @app.get("/metrics", include_in_schema=False)
    async def metrics() -> Response:
        return Response(service.metrics.text(), media_type=PROMETHEUS)

    @app.get("/healthz", include_in_schema=False)
    async def healthz() -> Response:
        return as_response(Answer(OK, b'{"status":"ok"}'))

    @app.get("/", include_in_schema=False)
    async def page() -> Response:
        text = EMPTY if service.last is None else service.last.page
        return Response(text, headers=PAGE_HEADERS, media_type="text/html")

    _say_errors(app)
    describe(app)
    return app


def _say_errors(app: FastAPI) -> None:
    """Let errors that come from elsewhere be documents like all others."""

    @app.exception_handler(RequestValidationError)
    async def invalid(_request: Request, error: RequestValidationError) -> Response:
        first = error.errors()[0]
        option = str(first["loc"][-1])
        problem = InvalidInputError("expected true or false", path=(option,), value=first["input"])
        return as_response(refused(problem, INVALID))

    @app.exception_handler(HTTPException)
    async def unknown(_request: Request, error: HTTPException) -> Response:
        return as_response(failed(str(error.detail), error.status_code))
