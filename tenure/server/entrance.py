"""Who may connect: how many at once, how many from one address, and how many that have not authenticated.

Where tokens are configured, a connection is a stranger from when it is accepted until it has authenticated. Strangers
get a quarter of all places, so that those who only connect keep nobody out who is in, and nobody who comes back: an
address from which somebody authenticated before is let in beyond that quarter. Connections over TCP, WebSocket and HTTP
count together, from before the TLS handshake on. Those over a Unix socket have no address and are no strangers: its
file says who may connect.
"""

import asyncio
import logging
import ssl
from collections.abc import Callable
from ipaddress import IPv6Address, ip_address
from typing import Any, cast

from tenure.client.begun import begin
from tenure.core.error import Overloaded
from tenure.wire import limit

AGAIN_MS = 1_000
SILENT_S = 10.0  # between two lines of the log about connections that were refused

log = logging.getLogger("tenure.server")


class Visit:
    """One connection, from when it was accepted until it is lost."""

    __slots__ = ("_entrance", "_is_over", "address", "is_recognised", "is_stranger")

    def __init__(self, entrance: "Entrance", address: str, is_stranger: bool) -> None:
        self._entrance = entrance
        self.address = address
        self.is_stranger = is_stranger
        self.is_recognised = False
        self._is_over = False

    def recognise(self) -> None:
        """It has authenticated."""
        if not self.is_recognised and not self._is_over:
            self.is_recognised = True
            self._entrance.recognise(self)

    def leave(self) -> None:
        if not self._is_over:
            self._is_over = True
            self._entrance.leave(self)


class Entrance:
    def __init__(self, is_open: Callable[[], bool], most: int, per_address: int) -> None:
        """`is_open` says whether everybody may do everything: then there are no strangers."""
        self._is_open = is_open
        self._most = most
        self._per_address = per_address
        self._strangers_most = max(most // 4, 1)
        self.count = 0
        self.strangers = 0  # among them: not authenticated, and from addresses that are not known
        self._addresses: dict[str, int] = {}
        self._known: dict[str, None] = {}  # addresses, the one that authenticated last at the end

    def enter(self, address: str) -> Visit:
        """`address` is empty for a Unix socket."""
        if self.count >= self._most:
            raise Overloaded(f"the server has {self._most:,} connections (connections_max); it", AGAIN_MS)
        is_stranger = False
        if address and not self._is_open():
            if self._addresses.get(address, 0) >= self._per_address:
                what = f"the address {address} has {self._per_address:,} connections (connections_per_address); it"
                raise Overloaded(what, AGAIN_MS)
            is_stranger = address not in self._known
            if is_stranger and self.strangers >= self._strangers_most:
                raise Overloaded("the room for connections that have not authenticated", AGAIN_MS)
        visit = Visit(self, address, is_stranger)
        self.count += 1
        self._addresses[address] = self._addresses.get(address, 0) + 1
        self.strangers += is_stranger
        return visit

    def recognise(self, visit: Visit) -> None:
        if visit.is_stranger:
            visit.is_stranger = False
            self.strangers -= 1
        if visit.address and not self._is_open():
            self._known.pop(visit.address, None)
            if len(self._known) >= limit.KNOWN_ADDRESSES_MAX:
                del self._known[next(iter(self._known))]
            self._known[visit.address] = None

    def leave(self, visit: Visit) -> None:
        self.count -= 1
        self.strangers -= visit.is_stranger
        left = self._addresses[visit.address] - 1
        if left:
            self._addresses[visit.address] = left
        else:
            del self._addresses[visit.address]


Make = Callable[[Visit], asyncio.Protocol]
Refuse = Callable[[Overloaded], bytes]
Tls = Callable[[], ssl.SSLContext | None]


class Gateway:
    """What a listener makes its connections with. `tls` is asked for each, so that certificates can be replaced."""

    def __init__(self, entrance: Entrance, make: Make, refuse: Refuse, tls: Tls = lambda: None) -> None:
        self.entrance = entrance
        self.make = make
        self.refuse = refuse
        self.tls = tls
        self.shaking: set[asyncio.Task[None]] = set()
        self._said_at = -SILENT_S
        self._refused = 0

    def protocol(self) -> asyncio.Protocol:
        return _Threshold(self)

    async def close(self) -> None:
        """Ends the handshakes that are in progress."""
        shaking = list(self.shaking)
        for task in shaking:
            task.cancel()
        await asyncio.gather(*shaking, return_exceptions=True)

    def note_refused(self, error: Overloaded) -> None:
        """One line of the log for many connections."""
        self._refused += 1
        now = asyncio.get_running_loop().time()
        if now - self._said_at >= SILENT_S:
            log.warning("%d connections were refused: %s", self._refused, error.message)
            self._said_at, self._refused = now, 0


class _Threshold(asyncio.Protocol):
    """The first protocol of a connection: lets it in or refuses it, does the handshake, and hands it over."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._visit: Visit | None = None
        self._early: list[bytes] = []  # came after the handshake and before it was handed over
        self._is_lost = False
        self._is_handed_over = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        plain = cast("asyncio.Transport", transport)
        gateway = self._gateway
        tls = gateway.tls()
        try:
            self._visit = gateway.entrance.enter(address_of(plain.get_extra_info("peername")))
        except Overloaded as error:
            gateway.note_refused(error)
            if tls is None:
                plain.write(gateway.refuse(error))
            plain.close()
            return
        if tls is None:
            self._hand_over(plain, self._visit)
            return
        visit = self._visit
        # Begun here, and not in a task: uvloop reads as soon as this returns, and what it reads belongs to TLS.
        task = begin(self._shake_hands(plain, visit, tls))
        assert task is not None
        gateway.shaking.add(task)
        task.add_done_callback(lambda _: self._shaken(task, plain, visit))

    async def _shake_hands(self, plain: asyncio.Transport, visit: Visit, tls: ssl.SSLContext) -> None:
        loop = asyncio.get_running_loop()
        try:
            secured = await loop.start_tls(
                plain,
                self,
                tls,
                server_side=True,
                ssl_handshake_timeout=limit.AUTH_S,
                ssl_shutdown_timeout=limit.AUTH_S,
            )
        except OSError as error:  # of TLS, of the connection, or its time was up
            log.debug("a TLS handshake failed: %s", error)
            return
        if secured is not None and not self._is_lost:
            self._is_handed_over = True
            self._hand_over(secured, visit)

    def _shaken(self, task: "asyncio.Task[None]", plain: asyncio.Transport, visit: Visit) -> None:
        """Also when the task was cancelled before it began."""
        self._gateway.shaking.discard(task)
        if not self._is_handed_over:
            visit.leave()
            plain.abort()

    def _hand_over(self, transport: asyncio.Transport, visit: Visit) -> None:
        protocol = self._gateway.make(visit)
        transport.set_protocol(protocol)
        protocol.connection_made(transport)
        for data in self._early:
            protocol.data_received(data)
        self._early.clear()

    def data_received(self, data: bytes) -> None:
        self._early.append(data)

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, _error: Exception | None) -> None:
        self._is_lost = True
        if self._visit is not None:
            self._visit.leave()


def address_of(peer: Any) -> str:
    """The part of a peer's address that counts as one: all of IPv4, the network of IPv6, nothing of a Unix socket."""
    if not isinstance(peer, tuple):
        return ""
    try:
        found = ip_address(str(peer[0]).partition("%")[0])
    except ValueError:
        return str(peer[0])
    if isinstance(found, IPv6Address):
        if found.ipv4_mapped is not None:
            return str(found.ipv4_mapped)
        return f"{IPv6Address(int(found) >> 64 << 64)}/64"
    return str(found)
