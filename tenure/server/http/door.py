"""The HTTP door: uvicorn's protocols on the server's own loop, `/v1` in front of everything else."""

import asyncio
import logging

from starlette.middleware.cors import CORSMiddleware
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.config import Config

from tenure.core.error import Error
from tenure.server import tcp
from tenure.server.auth import Gate
from tenure.server.entrance import Gateway, Visit
from tenure.server.handler import Handler
from tenure.server.http.api import Api
from tenure.server.http.guard import Guard
from tenure.server.http.metric import Metrics
from tenure.server.http.protocol import VISIT, Protocol, SocketProtocol, State
from tenure.server.http.refusal import say_error
from tenure.server.http.site import Site
from tenure.server.http.websocket import serve_socket
from tenure.wire import limit
from tenure.wire.format import JSON_FORMAT

BACKLOG = 1_024

log = logging.getLogger("tenure.server")


class HttpDoor:
    def __init__(
        self,
        handler: Handler,
        gate: Gate,
        cors_origins: tuple[str, ...] = (),
        connections_max: int = limit.CONNECTIONS_MAX,
    ) -> None:
        self.metrics = Metrics(handler)
        self.sockets = tcp.Door(handler, gate, "ws")
        self._guard = Guard(gate, cors_origins)
        self._api = Api(handler, self._guard, self.metrics)
        self._site = Site(handler, self._guard, self.metrics, lambda: self._api.is_closing).app()
        self._state = State(lambda: handler.clock().wall_ms)
        app: ASGIApp = self._serve
        if cors_origins:
            methods = ("GET", "POST", "PUT", "PATCH", "DELETE")
            app = CORSMiddleware(app, cors_origins, methods, allow_headers=("*",), expose_headers=("Retry-After",))
        self._config = Config(
            app,
            http=Protocol,
            ws=SocketProtocol,
            ws_max_size=limit.MESSAGE_BYTES_MAX,
            ws_per_message_deflate=False,
            lifespan="off",
            interface="asgi3",
            log_config=None,
            access_log=False,
            proxy_headers=False,
            server_header=False,
            limit_concurrency=connections_max + 1,  # requests; connections are counted at the entrance
            timeout_keep_alive=limit.HTTP_KEEP_ALIVE_S,
        )

    async def open(self, host: str, port: int, gateway: Gateway) -> asyncio.Server:
        self._config.load()
        self._api.open()
        return await asyncio.get_running_loop().create_server(gateway.protocol, host, port, backlog=BACKLOG)

    def protocol(self, visit: Visit) -> Protocol:
        return Protocol(self._config, self._state, {VISIT: visit})

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            if scope["path"].startswith("/v1/"):
                await self._api(scope, receive, send)
            else:
                await self._serve_site(scope, receive, send)
        elif scope["type"] == "websocket":
            await serve_socket(self.sockets, self._guard, scope, receive, send)

    async def _serve_site(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            self._guard.check(scope["method"], dict(scope["headers"]))
        except Error as error:
            made = say_error(error, JSON_FORMAT)
            await send({"type": "http.response.start", "status": made.status, "headers": made.headers})
            await send({"type": "http.response.body", "body": made.body})
            return
        await self._site(scope, receive, send)

    def drop_revoked(self) -> None:
        """Requests ask for their caller each time; WebSockets do not."""
        self.sockets.drop_revoked()

    async def close(self, patience_s: float) -> None:
        """Answer what waits, let the rest finish; whatever has not by then is cut off."""
        self._api.close()
        await self.sockets.close(patience_s)
        for connection in list(self._state.connections):
            connection.shutdown()
        tasks = set(self._state.tasks)
        if tasks:
            _, late = await asyncio.wait(tasks, timeout=patience_s)
            if late:
                log.warning("%d HTTP requests were cut off", len(late))
            for task in late:
                task.cancel()
        for connection in list(self._state.connections):
            connection.transport.close()
