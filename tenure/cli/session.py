"""A command's conversation with a store: which one is meant, and a client that is opened when it is first needed."""

import functools
import inspect
import os
import socket
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import unquote, urlsplit

from tenure.cli.argument import AsJson, Tenant, Token, Url
from tenure.core.error import InvalidRequest, Unavailable
from tenure.core.tenant import ANY_TENANT, DEFAULT_TENANT

if TYPE_CHECKING:
    from tenure.client.sync import SyncClient
    from tenure.server.config import Settings

SERVERS = ("tenure", "tenure+tls", "tenure+unix")
PORT = 6789
# Of `tenure serve`, those that say where it is.
SETTINGS = {"TENURE_STORE", "TENURE_HOST", "TENURE_TCP", "TENURE_TCP_PORT", "TENURE_UNIX", "TENURE_TLS_CERT"}
ANYWHERE = ("0.0.0.0", "::", "")
CONNECT_S = 5.0


class Place(NamedTuple):
    """The URL of a store or server, and who named it."""

    url: str
    source: str

    @property
    def is_server(self) -> bool:
        return urlsplit(self.url).scheme in SERVERS


def choose_place(url: str | None) -> Place:
    """What was given, else the store that `tenure serve` would serve here, else the server that it would be."""
    if url:
        try:
            urlsplit(url)
        except ValueError as error:
            raise InvalidRequest("url", url, f"it cannot be read: {error}") from error
        return Place(url, "--url or TENURE_URL")
    if not (os.environ.keys() & SETTINGS or Path("tenure.toml").exists()):
        return Place(f"tenure://127.0.0.1:{PORT}", "default")
    from tenure.server.config import choose

    settings, sources = choose({})
    if sources["store"] != "default" and not settings.store.startswith("memory:"):
        return Place(settings.store, f"store, from {sources['store']}")
    return Place(address_of(settings), "settings of tenure serve")


def address_of(settings: "Settings") -> str:
    """Where a server with these settings listens."""
    if not settings.tcp and settings.unix:
        return f"tenure+unix://{Path(settings.unix).absolute()}"
    host = "127.0.0.1" if settings.host in ANYWHERE else settings.host
    scheme = "tenure+tls" if settings.tls_cert else "tenure"
    return f"{scheme}://[{host}]:{settings.tcp_port}" if ":" in host else f"{scheme}://{host}:{settings.tcp_port}"


def read_token(token: str | None) -> str:
    path = os.environ.get("TENURE_TOKEN_FILE")
    if token or not path:
        return token or ""
    try:
        return Path(path).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidRequest("TENURE_TOKEN_FILE", path, f"it cannot be read: {error}") from error


def check_place(place: Place, create: bool = False) -> None:
    """What a person would wait for in vain, or be given by surprise."""
    parts = urlsplit(place.url)
    if parts.scheme == "memory":
        raise InvalidRequest("url", place.url, "a store in memory ends with this command; name a file or a server")
    if place.is_server:
        _knock(place.url)
    elif parts.scheme == "sqlite":
        from tenure.store.url import read_sqlite

        path = read_sqlite(place.url).path
        if not create and not path.exists():
            raise Unavailable(f"{path} is not there; name another with --url (tenure enqueue and serve make a new one)")


def _knock(url: str) -> None:
    """Whether anybody listens. The client would try again for seconds, for a server that is being started."""
    parts = urlsplit(url)
    start = "start it with tenure serve, or name another store with --url"
    try:
        if parts.scheme == "tenure+unix":
            with socket.socket(socket.AF_UNIX) as plug:
                plug.settimeout(CONNECT_S)
                plug.connect(unquote(parts.path))
        elif parts.hostname:
            with socket.create_connection((parts.hostname, parts.port or PORT), timeout=CONNECT_S):
                pass
    except ValueError as error:
        raise InvalidRequest("url", url, f"it cannot be read: {error}") from error
    except OSError as error:
        where = parts.path if parts.scheme == "tenure+unix" else f"{parts.hostname}:{parts.port or PORT}"
        raise Unavailable(f"no server answers at {where} ({error.strerror or error}); {start}") from error


class Session:
    """What every command that talks to a store is given."""

    def __init__(self, url: str | None, token: str | None, tenant: str | None, as_json: bool) -> None:
        self.as_json = as_json
        self._tenant = tenant or ""  # empty: that of the token
        self.url = url
        self._token = token
        self._client: SyncClient | None = None

    def __enter__(self) -> "Session":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        client, self._client = self._client, None
        if client is not None:
            client.close()

    @property
    def tenant(self) -> str:
        """As given, else as the token says, which is known once the client is open."""
        return self._tenant or (DEFAULT_TENANT if self._client is None else self._client.tenant)

    @property
    def is_all(self) -> bool:
        """Whether all tenants are meant."""
        return self._tenant == ANY_TENANT

    @property
    def client(self) -> "SyncClient":
        return self.open()

    def open(self, create: bool = False) -> "SyncClient":
        """`create` makes a file that is not there."""
        if self._client is None:
            place = choose_place(self.url)
            check_place(place, create)
            from tenure.client.sync import connect_sync

            client = connect_sync(
                place.url,
                tenant="" if self.is_all else self._tenant,
                tenants=(ANY_TENANT,) if self.is_all else (),
                token=read_token(self._token) if place.is_server else "",
            )
            self._client = client.__enter__()
        return self._client

    def of_one_tenant(self, create: bool = False) -> "SyncClient":
        """For what belongs to one tenant: changes, and settings."""
        if self.is_all:
            raise InvalidRequest("tenant", self.tenant, "this belongs to one tenant; name it")
        return self.open(create)


COMMON: dict[str, tuple[Any, object]] = {
    "url": (Url, None),
    "token": (Token, None),
    "tenant": (Tenant, None),
    "as_json": (AsJson, False),
}


def connected(command: Callable[..., None]) -> Callable[..., None]:
    """A command whose first argument is its session, with the options that say which."""

    @functools.wraps(command)
    def run(**given: Any) -> None:
        common = {name: given.pop(name) for name in COMMON}
        with Session(**common) as session:
            command(session, **given)

    [_, *own] = inspect.signature(command).parameters.values()
    added = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind)
        for name, (kind, default) in COMMON.items()
    ]
    own = [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in own]
    run.__dict__["__signature__"] = inspect.Signature([*own, *added])
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in (*own, *added)}
    return run
