"""What is looked at before a request: who asks, and whether a page of somebody else's makes a browser ask."""

from urllib.parse import urlsplit

from tenure.core.error import Forbidden
from tenure.server.auth import Gate
from tenure.server.caller import Caller
from tenure.server.config import is_loopback

SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
HOSTS_KEPT = 1_000


class Guard:
    def __init__(self, gate: Gate, cors_origins: tuple[str, ...] = ()) -> None:
        self._gate = gate
        self._origins = frozenset(cors_origins)
        self._hosts: set[bytes] = set()  # that were found good

    def caller(self, headers: dict[bytes, bytes]) -> Caller:
        """By `Authorization: Bearer`; the same check as on every other door."""
        said = headers.get(b"authorization")
        return self._gate.bearer(None if said is None else said.decode("latin-1"))

    def check(self, method: str, headers: dict[bytes, bytes]) -> None:
        """A server without tokens trusts whoever runs on its machine, and not the pages in their browsers: neither
        those that were given its address under another name, nor those that post without being able to read."""
        origin = headers.get(b"origin")
        if origin is not None and method not in SAFE:
            self._check_origin(origin.decode("latin-1"), headers.get(b"host", b"").decode("latin-1"))
        if self._gate.is_open:
            host = headers.get(b"host", b"")
            if host not in self._hosts:
                self._check_host(host)

    def _check_origin(self, origin: str, host: str) -> None:
        if origin in self._origins or "*" in self._origins:
            return
        if not host or origin.partition("://")[2] != host:
            raise Forbidden(f"pages of {origin[:100]} may not call this server; add it to cors_origins if they should")

    def _check_host(self, host: bytes) -> None:
        try:
            name = urlsplit("//" + host.decode("latin-1")).hostname or "nobody"
        except ValueError:
            name = "?"
        if not is_loopback(name):
            raise Forbidden(f"without tokens this server answers to localhost only, not to {name[:100]}; add tokens")
        if len(self._hosts) < HOSTS_KEPT:
            self._hosts.add(host)
