"""A store behind the HTTP API: every verb is the command of the public protocol, said by its endpoint."""

import math
import ssl
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

import httpx

from tenure.client.connection import Head, Lost, error_of
from tenure.client.remote import RemoteStore
from tenure.core.clock import Now
from tenure.core.error import InvalidRequest
from tenure.server.http.route import ENDPOINTS, Endpoint
from tenure.store.contract import Capabilities
from tenure.wire.format import Format

PLAIN = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # never used: without one, each client reads all certificates
MEDIA = {"json": "application/json", "msgpack": "application/msgpack"}


def endpoint_for(fields: dict[str, Any]) -> Endpoint:
    """The one whose path the fields fill, and which can say the rest."""
    fits = [
        endpoint
        for endpoint in ENDPOINTS
        if endpoint.command.__struct_config__.tag == fields["cmd"]
        and all(name in fields for name in endpoint.fields)
        and all(fields.get(name) == value for name, value in endpoint.fixed)
        and ("changes" not in fields or bool(fields["changes"]) == endpoint.has_body)
    ]
    fits.sort(key=lambda endpoint: len(endpoint.fields) + len(endpoint.fixed))
    while any(fields[name] == "" for name in fits[-1].fields):
        fits.pop()
        if not fits:
            raise InvalidRequest("path", "", "a name in it cannot be empty")
    return fits[-1]


def query_of(fields: dict[str, Any]) -> list[tuple[str, Any]]:
    found: list[tuple[str, Any]] = []
    for name, value in fields.items():
        if isinstance(value, dict):
            found += [(f"{name}[{key}]", text) for key, text in value.items()]
        elif isinstance(value, list | tuple):
            found += [(name, str(item)) for item in value]
        elif isinstance(value, bool):
            found.append((name, "true" if value else "false"))
        else:
            found.append((name, str(value)))
    return found


class Talk:
    """In place of a connection: each command is a request of its own."""

    is_open = True

    def __init__(self, port: int, token: str, form: Format) -> None:
        self._form = form
        headers = {"accept": MEDIA[form.name], **({"authorization": f"Bearer {token}"} if token else {})}
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=50)
        self._client = httpx.AsyncClient(
            base_url=f"http://127.0.0.1:{port}",
            headers=headers,
            timeout=None,
            limits=limits,
            trust_env=False,
            verify=PLAIN,
        )
        self._read_head = form.decoder(Head)

    async def ask(
        self, fields: dict[str, Any], late: Callable[[bytes], None] | None = None, until: float = math.inf
    ) -> bytes:
        endpoint = endpoint_for(fields)
        path = endpoint.path
        for name in endpoint.fields:
            path = path.replace(f"{{{name}}}", quote(str(fields[name]), safe=""))
        hidden = {"cmd", *endpoint.fields, *(name for name, _ in endpoint.fixed)}
        rest = {name: value for name, value in fields.items() if name not in hidden}
        if endpoint.has_body:
            body = self._form.encode(rest)
            media = {"content-type": MEDIA[self._form.name]}
            request = self._client.build_request(endpoint.method, path, content=body, headers=media)
        else:
            rest.pop("changes", None)
            request = self._client.build_request(endpoint.method, path, params=httpx.QueryParams(query_of(rest)))
        try:
            found = await self._client.send(request)
        except httpx.TransportError as error:
            raise Lost from error
        if found.status_code >= 400:
            raise error_of(self._read_head(found.content))
        return found.content

    async def aclose(self) -> None:
        await self._client.aclose()

    def close(self) -> None:
        pass


class HttpStore(RemoteStore):
    def __init__(self, port: Callable[[], int], token: str, form: Format, capabilities: Capabilities) -> None:
        super().__init__(("127.0.0.1", 0), token, form)
        self._port = port
        self._talk: Talk | None = None
        self._capabilities = capabilities

    async def open(self, now: Now) -> None:
        self._closed = False
        self._talk = Talk(self._port(), self._token, self._form)

    async def close(self) -> None:
        self._closed = True
        if self._talk is not None:
            await self._talk.aclose()

    async def _connected(self, until: float) -> Any:
        assert self._talk is not None
        return self._talk
