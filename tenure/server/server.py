"""The server: opens the store, then the doors; stops the other way round."""

import asyncio
import logging
import os
import socket
import ssl
import stat
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

from tenure.client.clock import read_clock
from tenure.client.driver import Driver
from tenure.core.clock import Now
from tenure.core.duration import milliseconds
from tenure.core.error import Unavailable
from tenure.server.auth import Gate
from tenure.server.caller import Grant
from tenure.server.config import Settings, certificate_of, check_ports, grants
from tenure.server.entrance import Entrance, Gateway
from tenure.server.grpc.door import GrpcDoor, credentials_of
from tenure.server.handler import Handler
from tenure.server.http.door import HttpDoor
from tenure.server.http.protocol import refusal as http_refusal
from tenure.server.jwt import JwtGate
from tenure.server.tcp import Door, refusal
from tenure.store.contract import Store
from tenure.store.embedded.unix import serve_unix

if TYPE_CHECKING:
    from tenure.lake.carrier import Carrier

BACKLOG = 1_024

log = logging.getLogger("tenure.server")


class Server:
    def __init__(self, settings: Settings, store: Store, clock: Callable[[], Now] = read_clock) -> None:
        check_ports(settings, {})
        self.settings = settings
        self._driver = Driver(store, clock)
        self.handler = Handler(store, self._driver.now, self._driver.arm)
        tokens = grants(settings)
        self.signed = None if settings.jwt is None else JwtGate(settings.jwt)
        open_grant = Grant("anybody") if not tokens and self.signed is None else None
        self.gate = Gate(clock, tokens, open_grant, self.signed)
        self.gate.on_revoked = self._drop_revoked
        self.certificate = certificate_of(settings)
        most = settings.connections_max
        self.entrance = Entrance(lambda: self.gate.is_open, most, settings.connections_per_address or -(-most // 2))
        self._gateways: list[Gateway] = []
        self.lake = make_carrier(settings, store, clock) if settings.lake else None
        if self.lake is not None:
            self.handler.figures.append(self.lake.figures)
        self._doors: list[Door | HttpDoor | GrpcDoor] = []
        self._listeners: list[asyncio.Server] = []
        self._unix = ""
        self.tcp_port = 0  # the one it listens on
        self.http_port = 0
        self.grpc_port = 0

    async def start(self) -> None:
        if self.signed is not None:
            await self.signed.start()
        await self._driver.open()
        try:
            if self.settings.tcp:
                await self._open_tcp()
            if self.settings.unix:
                await self._open_unix(self.settings.unix)
            if self.settings.http:
                await self._open_http()
            if self.settings.grpc:
                await self._open_grpc()
        except BaseException:
            await self.stop()
            raise
        if self.lake is not None:
            self.lake.start()

    async def _open_tcp(self) -> None:
        door = self._door("tcp")
        loop = asyncio.get_running_loop()
        try:
            gateway = self._gateway(Gateway(self.entrance, door.protocol, refusal, self._tls))
            listener = await loop.create_server(
                gateway.protocol, self.settings.host, self.settings.tcp_port, backlog=BACKLOG
            )
        except OSError as error:
            where = f"{self.settings.host}:{self.settings.tcp_port}"
            raise Unavailable(f"cannot listen on {where}: {error.strerror}; choose another --tcp-port") from error
        self._listeners.append(listener)
        self.tcp_port = listener.sockets[0].getsockname()[1]

    async def _open_unix(self, path: str) -> None:
        """Only this user may connect; a socket that nobody listens on any more is replaced."""
        door = self._door("unix")
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            if _is_abandoned(path):
                os.unlink(path)
            before = os.umask(0o177)
            try:
                listener.bind(path)
            finally:
                os.umask(before)
            listener.listen(BACKLOG)
            listener.setblocking(False)
        except OSError as error:
            listener.close()
            raise Unavailable(f"cannot listen on {path}: {error.strerror}; choose another --unix") from error
        self._unix = path
        gateway = self._gateway(Gateway(self.entrance, door.protocol, refusal))
        self._listeners.append(await serve_unix(gateway.protocol, listener))

    async def _open_http(self) -> None:
        settings = self.settings
        door = HttpDoor(self.handler, self.gate, tuple(settings.cors_origins), settings.connections_max)
        gateway = self._gateway(Gateway(self.entrance, door.protocol, http_refusal, self._tls))
        try:
            listener = await door.open(settings.host, settings.http_port, gateway)
        except OSError as error:
            where = f"{self.settings.host}:{self.settings.http_port}"
            raise Unavailable(f"cannot listen on {where}: {error.strerror}; choose another --http-port") from error
        self._doors.append(door)
        self.handler.doors.append(door.sockets)
        self._listeners.append(listener)
        self.http_port = listener.sockets[0].getsockname()[1]

    async def _open_grpc(self) -> None:
        door = GrpcDoor(self.handler, self.gate)
        self._doors.append(door)
        self.handler.doors.append(door)
        self.grpc_port = await door.open(
            self.settings.host, self.settings.grpc_port, credentials_of(lambda: self.certificate)
        )

    def _tls(self) -> ssl.SSLContext | None:
        return None if self.certificate is None else self.certificate.context

    def _gateway(self, gateway: Gateway) -> Gateway:
        self._gateways.append(gateway)
        return gateway

    def _door(self, name: str) -> Door:
        door = Door(self.handler, self.gate, name)
        self._doors.append(door)
        self.handler.doors.append(door)
        return door

    def replace_tokens(self, tokens: dict[str, Grant]) -> int:
        """How many of the old ones are accepted no more; their connections are closed."""
        return self.gate.replace(tokens)

    def _drop_revoked(self) -> None:
        for door in self._doors:
            door.drop_revoked()

    async def stop(self) -> None:
        """Refuse new connections and requests, let those in progress end, then write everything down."""
        for listener in self._listeners:
            listener.close()
        for gateway in self._gateways:
            await gateway.close()
        await asyncio.gather(*(door.close(self.settings.stop_s) for door in self._doors))
        if self._unix:
            with suppress(FileNotFoundError):
                os.unlink(self._unix)
        if self.signed is not None:
            await self.signed.stop()
        await self.handler.settled()
        if self.lake is not None:
            await self.lake.stop(self.settings.stop_s)
        await self._driver.close()


def make_carrier(settings: Settings, store: Store, clock: Callable[[], Now]) -> "Carrier":
    """Its code is loaded here: a server without a lake does without pyarrow."""
    from tenure.lake.error import check_installed

    check_installed()
    from tenure.lake.carrier import Carrier
    from tenure.lake.place import check_url
    from tenure.lake.tidy import Rules

    check_url(settings.lake)
    rules = Rules(
        rows=settings.lake_rows,
        every_ms=milliseconds("lake_every", settings.lake_every),
        retention_ms=milliseconds("lake_retention", settings.lake_retention) if settings.lake_retention else 0,
        grace_ms=milliseconds("lake_grace", settings.lake_grace),
        is_compacted=settings.lake_compact,
    )
    return Carrier(settings.lake, rules, store, clock)


def _is_abandoned(path: str) -> bool:
    try:
        if not stat.S_ISSOCK(os.stat(path).st_mode):
            return False
    except FileNotFoundError:
        return False
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        try:
            probe.connect(path)
        except ConnectionRefusedError:
            return True
        except OSError:
            return False
    return False
