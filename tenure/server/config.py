"""The server's settings: a flag wins over the environment, that over the file, that over the default.

Each is known by one name: `tcp_port` is `--tcp-port`, `TENURE_TCP_PORT`, and `tcp_port` in the file's `[server]`.
"""

import os
import re
import ssl
import tomllib
from collections.abc import Mapping, Sequence
from ipaddress import ip_address
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from tenure.core import bound
from tenure.core.bound import nearest
from tenure.core.duration import milliseconds
from tenure.core.error import InvalidRequest
from tenure.core.tenant import ALL_ROLES, ANY_TENANT, ROLE_NAMES
from tenure.server import logs
from tenure.server.caller import ALL_QUEUES, Grant
from tenure.server.jwt import JwtSettings, check_settings
from tenure.wire import limit

PREFIX = "TENURE_"
TOKEN_NAME = re.compile(r"[A-Za-z0-9_.-]{1,128}")
LEVELS = ("debug", "info", "warning", "error")
SECRET = frozenset({"tokens", "jwt"})  # fields that are not shown
ORIGIN = re.compile(r"https?://[^/\s]+")
LAKE_EVERY_LEAST_MS = 100
LAKE_ROWS_LEAST = 100
LAKE_ROWS_MOST = 10_000_000
PORTS = ("tcp_port", "http_port", "grpc_port")
PORT_MAX = 65_535
LISTS = frozenset({"cors_origins"})  # in the environment divided by commas


class Token(msgspec.Struct, forbid_unknown_fields=True):
    """A token, by the SHA-256 of its text. Roles: producer, worker, operator, admin."""

    sha256: str
    roles: tuple[str, ...] = tuple(ROLE_NAMES)
    tenants: tuple[str, ...] = (ANY_TENANT,)
    queues: tuple[str, ...] = ALL_QUEUES
    rate: int = 0


class Settings(msgspec.Struct, forbid_unknown_fields=True):
    store: str = "sqlite:///tenure.db"
    host: str = "127.0.0.1"
    tcp: bool = True
    tcp_port: int = 6789
    unix: str = ""
    http: bool = True
    http_port: int = 6790
    cors_origins: tuple[str, ...] = ()
    grpc: bool = True
    grpc_port: int = 6791
    connections_max: int = limit.CONNECTIONS_MAX
    connections_per_address: int = 0
    lake: str = ""
    lake_every: str = "60s"
    lake_rows: int = 250_000
    lake_compact: bool = True
    lake_retention: str = ""
    lake_grace: str = "1h"
    stop_s: float = 10.0
    log_level: str = "info"
    log_format: str = "text"
    tls_cert: str = ""
    tls_key: str = ""
    tls_client_ca: str = ""
    tokens: dict[str, Token] = {}
    jwt: JwtSettings | None = None


class Chosen(NamedTuple):
    settings: Settings
    sources: dict[str, str]  # where each value came from

    def shown(self) -> dict[str, str]:
        """Every value for people, and of secrets only whether there are any."""
        found: dict[str, str] = {}
        for name in self.sources:
            value = getattr(self.settings, name)
            found[name] = ("given" if value else "none") if name in SECRET else str(value)
        return found


def choose(flags: Mapping[str, Any], environment: Mapping[str, str] = os.environ, file: str = "") -> Chosen:
    """`flags` are those that were given."""
    values: dict[str, Any] = {}
    sources = dict.fromkeys(Settings.__struct_fields__, "default")
    for source, found in (
        (file or "tenure.toml", read_file(file)),
        ("environment", from_environment(environment)),
        ("flag", dict(flags)),
    ):
        for name, value in found.items():
            if name not in sources:
                known = nearest(name, sources)
                raise InvalidRequest(name, value, f"there is no such setting ({source}); {known}")
            values[name] = value
            sources[name] = source
    try:
        settings = msgspec.convert(values, Settings, strict=False)
    except msgspec.ValidationError as error:
        raise InvalidRequest("settings", str(error), "see docs/operations.md for every setting") from error
    check(settings, sources)
    return Chosen(settings, sources)


def read_file(path: str) -> dict[str, Any]:
    """`tenure.toml` is read if it is there; a file that was named has to be."""
    chosen = Path(path or "tenure.toml")
    if not path and not chosen.exists():
        return {}
    try:
        with chosen.open("rb") as file:
            found = tomllib.load(file).get("server", {})
    except (OSError, tomllib.TOMLDecodeError) as error:
        raise InvalidRequest("config", str(chosen), f"it cannot be read: {error}") from error
    if not isinstance(found, dict):
        raise InvalidRequest("config", str(chosen), "[server] must be a table")
    return found


def from_environment(environment: Mapping[str, str]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name in Settings.__struct_fields__:
        text = environment.get(PREFIX + name.upper())
        if text is not None and name not in SECRET:
            found[name] = [part.strip() for part in text.split(",") if part.strip()] if name in LISTS else text
    return found


def check(settings: Settings, sources: Mapping[str, str] | None = None) -> None:
    """`sources` says where each came from."""
    check_ports(settings, sources or {})
    check_lake(settings)
    check_connections(settings)
    if not settings.tokens and settings.jwt is None and not is_loopback(settings.host):
        rule = "a public address needs authentication: add [server.tokens] or [server.jwt], or listen on 127.0.0.1"
        raise InvalidRequest("host", settings.host, rule)
    if settings.jwt is not None:
        check_settings(settings.jwt)
    if bool(settings.tls_cert) != bool(settings.tls_key):
        raise InvalidRequest("tls_key", settings.tls_key, "a certificate and its key go together")
    if settings.tls_client_ca and not settings.tls_cert:
        raise InvalidRequest("tls_cert", "", "certificates of clients need one of the server")
    if settings.log_level.lower() not in LEVELS:
        raise InvalidRequest("log_level", settings.log_level, "it must be one of " + ", ".join(LEVELS))
    if settings.log_format not in logs.FORMATS:
        raise InvalidRequest("log_format", settings.log_format, "it must be one of " + ", ".join(logs.FORMATS))
    hashes = [token.sha256.lower() for token in settings.tokens.values()]
    for name, token in settings.tokens.items():
        if not TOKEN_NAME.fullmatch(name):
            raise InvalidRequest("tokens", name, "a name has letters, digits, dots, dashes and underscores")
        if hashes.count(token.sha256.lower()) > 1:
            raise InvalidRequest(f"tokens.{name}", token.sha256[:8], "another one has the same SHA-256")
        check_scope(f"tokens.{name}.", token.tenants, token.queues)
        wrong = [role for role in token.roles if role not in ROLE_NAMES]
        if wrong:
            raise InvalidRequest(f"tokens.{name}.roles", wrong[0], "it must be one of " + ", ".join(ROLE_NAMES))
        if len(token.sha256) != 64 or not token.tenants or not token.queues:
            raise InvalidRequest(f"tokens.{name}", token.sha256[:8], "it needs a SHA-256 in hex, tenants, queues")
    for origin in settings.cors_origins:
        if origin != "*" and not ORIGIN.fullmatch(origin):
            raise InvalidRequest("cors_origins", origin, "each is a scheme and a host, as in https://example.com")
    if not (settings.tcp or settings.unix or settings.http or settings.grpc):
        raise InvalidRequest("tcp", settings.tcp, "at least one door must be open")


def check_ports(settings: Settings, sources: Mapping[str, str]) -> None:
    for name in PORTS:
        port = getattr(settings, name)
        if not 0 <= port <= PORT_MAX:
            source = f" (from {sources[name]})" if name in sources else ""
            raise InvalidRequest(name, port, f"a port is from 0 to {PORT_MAX}, and 0 is any that is free{source}")


def check_connections(settings: Settings) -> None:
    if settings.connections_max < 1:
        raise InvalidRequest("connections_max", settings.connections_max, "it must be 1 or more")
    if settings.connections_per_address < 0:
        rule = "it must be 1 or more, or 0 for half of connections_max"
        raise InvalidRequest("connections_per_address", settings.connections_per_address, rule)


def check_scope(field: str, tenants: Sequence[str], queues: Sequence[str]) -> None:
    """What a token may be made for: tenants by name or all of them, queues by name or by how they begin."""
    if tuple(tenants) != (ANY_TENANT,):
        for tenant in tenants:
            try:
                bound.tenant_name("tenant", tenant)
            except InvalidRequest:
                raise InvalidRequest(f"{field}tenants", tenant, "either names, or * alone for all") from None
    for queue in queues:
        bound.queue_or_prefix(f"{field}queues", queue)


def check_lake(settings: Settings) -> None:
    """Durations are read when they are used; here they are only to be readable."""
    for name, least_ms in (("lake_every", LAKE_EVERY_LEAST_MS), ("lake_grace", 0)):
        if milliseconds(name, getattr(settings, name)) < least_ms:
            raise InvalidRequest(name, getattr(settings, name), f"it must be {least_ms} ms or more")
    if settings.lake_retention:
        milliseconds("lake_retention", settings.lake_retention)
    if not LAKE_ROWS_LEAST <= settings.lake_rows <= LAKE_ROWS_MOST:
        rule = f"it must be from {LAKE_ROWS_LEAST:,} to {LAKE_ROWS_MOST:,}"
        raise InvalidRequest("lake_rows", settings.lake_rows, rule)


def is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def grants(settings: Settings) -> dict[str, Grant]:
    found: dict[str, Grant] = {}
    for name, token in settings.tokens.items():
        roles = sum(ROLE_NAMES[role] for role in set(token.roles)) & ALL_ROLES
        found[token.sha256.lower()] = Grant(name, roles, tuple(token.tenants), tuple(token.queues), token.rate)
    return found


class Certificate(NamedTuple):
    """What the server shows of itself, as the doors need it: as a context, and as the bytes of the same files."""

    context: ssl.SSLContext
    chain: bytes
    key: bytes
    client_ca: bytes | None


def certificate_of(settings: Settings) -> Certificate | None:
    """Read from its files. With `tls_client_ca`, only clients whose certificate it has signed may connect."""
    if not settings.tls_cert:
        return None
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(settings.tls_cert, settings.tls_key)
        if settings.tls_client_ca:
            context.load_verify_locations(settings.tls_client_ca)
            context.verify_mode = ssl.CERT_REQUIRED
        chain, key = Path(settings.tls_cert).read_bytes(), Path(settings.tls_key).read_bytes()
        client_ca = Path(settings.tls_client_ca).read_bytes() if settings.tls_client_ca else None
    except OSError as error:
        raise InvalidRequest("tls_cert", settings.tls_cert, f"it cannot be used: {error}") from error
    return Certificate(context, chain, key, client_ca)
