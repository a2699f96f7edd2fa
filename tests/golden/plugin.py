"""Digests of the bytes that each behaviour of the contract puts on the wire, for comparing two versions of the code.

`pytest -p tests.golden.plugin --digests FILE tests/conformance/test_server.py ...` adds a line per test to FILE: what
came in and what went out at the server, whole streams of each connection, hashed. Operation ids and secrets are the
same in every run; ports and dates of HTTP are left out.
"""

import re
from collections.abc import Callable, Iterator
from hashlib import sha256
from itertools import count
from pathlib import Path
from typing import Any, cast

import pytest
from google.protobuf.message_factory import GetMessageClass

from tenure.server import entrance
from tests.grpc import rig

VARYING = re.compile(rb"(127\.0\.0\.1:\d+|date: [^\r]*|user-agent: [^\r]*)")


class Streams:
    """What came and went, by connection."""

    def __init__(self) -> None:
        self.parts: list[tuple[bytearray, bytearray]] = []

    def begin(self) -> tuple[bytearray, bytearray]:
        self.parts.append((bytearray(), bytearray()))
        return self.parts[-1]

    def digest(self) -> str:
        """Whatever came first: where several wait at once, that differs from run to run."""
        each = sorted(sha256(b"\n".join(part)).digest() for part in map(_steady, self.parts))
        return sha256(b"".join(each)).hexdigest()[:12]


def _steady(part: tuple[bytearray, bytearray]) -> list[bytes]:
    return [VARYING.sub(b"", bytes(stream)) for stream in part]


class Overheard:
    """A transport that notes what is written to it."""

    def __init__(self, transport: Any, went: bytearray) -> None:
        self._transport = transport
        self._went = went

    def write(self, data: bytes) -> None:
        self._went += data
        self._transport.write(data)

    def writelines(self, parts: list[bytes]) -> None:
        self._went += b"".join(parts)
        self._transport.writelines(parts)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)


def overhear(streams: Streams, monkeypatch: pytest.MonkeyPatch) -> None:
    hand_over = entrance._Threshold._hand_over

    def handed(self: Any, transport: Any, visit: Any) -> None:
        came, went = streams.begin()
        make = self._gateway.make

        def made(visit: Any) -> Any:
            protocol = make(visit)
            receive: Callable[[bytes], None] = protocol.data_received

            def received(data: bytes) -> None:
                came.extend(data)
                receive(data)

            protocol.data_received = received
            return protocol

        self._gateway.make = made
        try:
            hand_over(self, cast("Any", Overheard(transport, went)), visit)
        finally:
            self._gateway.make = make

    monkeypatch.setattr(entrance._Threshold, "_hand_over", handed)


def overhear_grpc(streams: Streams, monkeypatch: pytest.MonkeyPatch) -> None:
    class Messages:
        def __init__(self, kind: Any) -> None:
            self._kind = kind

        def SerializeToString(self, message: Any) -> bytes:  # noqa: N802
            data: bytes = message.SerializeToString(deterministic=True)
            streams.begin()[0].extend(self._kind.DESCRIPTOR.name.encode() + data)
            return data

        def FromString(self, data: bytes) -> Any:  # noqa: N802
            found = self._kind.FromString(data)
            streams.begin()[1].extend(found.SerializeToString(deterministic=True))
            return found

    message_class = GetMessageClass
    monkeypatch.setattr(rig, "GetMessageClass", lambda kind: Messages(message_class(kind)))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--digests", default="", help="the file that is added to")


@pytest.fixture(autouse=True)
def _digest(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    path = request.config.getoption("--digests")
    if not path:
        yield
        return
    streams = Streams()
    numbers = count(1)
    monkeypatch.setattr("secrets.token_bytes", lambda size=32: bytes(range(size)))
    monkeypatch.setattr("secrets.token_hex", lambda size=8: f"{next(numbers):0{2 * size}x}")
    overhear(streams, monkeypatch)
    overhear_grpc(streams, monkeypatch)
    yield
    with Path(path).open("a") as file:
        file.write(f"{request.node.nodeid} {streams.digest()}\n")
