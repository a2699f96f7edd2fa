"""What is beside the API: whether the server is well, what it counts, and the description of the API."""

from collections.abc import Awaitable, Callable
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from tenure.core.error import Error, Internal, Unavailable
from tenure.core.tenant import ANY_TENANT, OPERATOR
from tenure.server.handler import Asked, Handler
from tenure.server.health import Health
from tenure.server.http import metric, page
from tenure.server.http.guard import Guard
from tenure.server.http.metric import Metrics
from tenure.server.http.openapi import describe
from tenure.server.http.refusal import Answer, Refusal, answer, refuse, say_error
from tenure.server.tcp import VERSION
from tenure.wire import limit
from tenure.wire.format import JSON_FORMAT
from tenure.wire.speech import Call

Endpoint = Callable[[Request], Awaitable[Response]]


class Site:
    def __init__(self, handler: Handler, guard: Guard, metrics: Metrics, is_closing: Callable[[], bool]) -> None:
        self._handler = handler
        self._guard = guard
        self._metrics = metrics
        self._is_closing = is_closing
        self._health = Health(handler)
        self._description = b""

    def app(self) -> Starlette:
        routes = [
            Route("/v1", self._about),
            Route("/livez", self._livez),
            Route("/healthz", self._healthz),
            Route("/readyz", self._readyz),
            Route("/metrics", self._show_metrics),
            Route("/openapi.json", self._openapi),
            Route("/docs", self._docs),
        ]
        handlers: dict[Any, Any] = {HTTPException: _say_http, Error: _say, Exception: _say_internal}
        return Starlette(routes=routes, exception_handlers=handlers)

    async def _about(self, request: Request) -> Response:
        self._guard.caller(dict(request.scope["headers"]))
        fields = {
            "version": VERSION,
            "server": "tenure",
            "formats": ["json", "msgpack"],
            "limits": {"message": limit.MESSAGE_BYTES_MAX},
            "capabilities": self._handler.store.capabilities,
        }
        return _response(answer(200, fields, JSON_FORMAT))

    async def _livez(self, _: Request) -> Response:
        return _well()

    async def _healthz(self, _: Request) -> Response:
        await self._health.claims.get()
        return _well()

    async def _readyz(self, _: Request) -> Response:
        if self._is_closing():
            raise Unavailable("the server is stopping")
        await self._health.writes.get()
        return _well()

    async def _show_metrics(self, request: Request) -> Response:
        """Of the tenants and queues that the caller reaches."""
        caller = self._guard.caller(dict(request.scope["headers"]))
        caller.need(OPERATOR, "metrics")
        call = Call("count", ("",), lambda _: {})
        counts = await self._handler.execute(caller, Asked(tenants=[ANY_TENANT]), call)
        shown = self._metrics.show(counts, caller.reaches_all_tenants and caller.is_free)
        return Response(shown, media_type=metric.CONTENT_TYPE)

    async def _openapi(self, _: Request) -> Response:
        if not self._description:
            self._description = JSON_FORMAT.encode(describe())
        return Response(self._description, media_type="application/json")

    async def _docs(self, _: Request) -> Response:
        return Response(page.HTML, media_type="text/html", headers=page.HEADERS)


def _well() -> Response:
    return _response(answer(200, {"status": "ok"}, JSON_FORMAT))


def _response(made: Answer) -> Response:
    headers = {name.decode(): value.decode() for name, value in made.headers}
    return Response(made.body, made.status, headers)


async def _say(_: Request, error: Error) -> Response:
    return _response(say_error(error, JSON_FORMAT))


async def _say_internal(_: Request, error: Exception) -> Response:
    return _response(say_error(Internal(f"{type(error).__name__}; see the server's log"), JSON_FORMAT))


async def _say_http(request: Request, error: HTTPException) -> Response:
    code = "MethodNotAllowed" if error.status_code == 405 else "NotFound" if error.status_code == 404 else "Refused"
    more = tuple((name.lower().encode(), value.encode()) for name, value in (error.headers or {}).items())
    message = f"{request.method} {request.url.path[:200]}: {error.detail}; /openapi.json lists what there is"
    return _response(refuse(Refusal(error.status_code, code, message, more), JSON_FORMAT))
