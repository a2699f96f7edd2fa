"""Tokens, keys and certificates are read anew: on SIGHUP, and when their files change, without a restart.

Each of the three is replaced whole or not at all: what cannot be read or used leaves the old one in place, and the log
says so. Files are looked at every two seconds, in a thread.
"""

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from tenure.core.error import Error, InvalidRequest
from tenure.server.config import Settings, certificate_of, grants

if TYPE_CHECKING:
    from tenure.server.server import Server

LOOK_S = 2.0
RELOADED = frozenset({"tokens"})  # of the settings; the others are read at the start

log = logging.getLogger("tenure.server")

Stamp = tuple[int, int, int] | None  # of a file: which one, how large, written when


class Part(NamedTuple):
    """What is replaced as one. `reload` answers what has changed, in words; nothing when nothing has."""

    name: str
    files: tuple[str, ...]
    reload: Callable[[], Awaitable[str]]


class Reloader:
    def __init__(self, server: "Server", first: Settings, read: Callable[[], Settings], config: str) -> None:
        """`first` are the settings as they were read from `config`, `read` reads them again."""
        self._server = server
        self._read = read
        self._first = first
        self._parts = [Part("tokens", (config,), self._reload_tokens)]
        if server.signed is not None:
            self._parts.append(Part("keys of signed tokens", named(server.signed.path), self._reload_keys))
        if first.tls_cert:
            files = named(first.tls_cert, first.tls_key, first.tls_client_ca)
            self._parts.append(Part("certificates", files, self._reload_certificate))
        self._stamps: dict[str, Stamp] = {}
        self._asked = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def ask(self) -> None:
        """To read everything again, whether it has changed or not."""
        self._asked.set()

    async def start(self) -> None:
        self._stamps = await asyncio.to_thread(self._look)
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(LOOK_S):
                    await self._asked.wait()
            is_asked = self._asked.is_set()
            self._asked.clear()
            try:
                await self._turn(is_asked)
            except Exception:
                log.exception("tokens, keys and certificates could not be looked at; the old ones are kept")

    async def _turn(self, is_asked: bool) -> None:
        stamps = await asyncio.to_thread(self._look)
        before, self._stamps = self._stamps, stamps
        for part in self._parts:
            if is_asked or any(stamps[path] != before.get(path) for path in part.files):
                await self._reload(part)

    def _look(self) -> dict[str, Stamp]:
        return {path: stamp_of(path) for part in self._parts for path in part.files}

    async def _reload(self, part: Part) -> None:
        try:
            said = await part.reload()
        except (Error, OSError) as error:
            log.error("the %s were not reloaded and the old ones are kept: %s", part.name, error)
        else:
            log.info("reloaded the %s: %s", part.name, said or "nothing has changed")

    async def _reload_tokens(self) -> str:
        settings = await asyncio.to_thread(self._read)
        old = self._server.settings
        if (old.tokens or old.jwt) and not (settings.tokens or settings.jwt):
            raise InvalidRequest("tokens", "none", "authentication is switched off by a restart only")
        names = [name for name in Settings.__struct_fields__ if name not in RELOADED]
        others = [name for name in names if getattr(settings, name) != getattr(self._first, name)]
        if others:
            log.warning("changed, and needs a restart: %s", ", ".join(others))
        if settings.tokens == old.tokens:
            return ""
        gone = self._server.replace_tokens(grants(settings))
        self._server.settings = msgspec.structs.replace(old, tokens=settings.tokens)
        return f"{len(settings.tokens)} are known, {gone} of the old ones are not accepted any more"

    async def _reload_keys(self) -> str:
        assert self._server.signed is not None
        return "there are others now" if await self._server.signed.load() else ""

    async def _reload_certificate(self) -> str:
        certificate = await asyncio.to_thread(certificate_of, self._server.settings)
        assert certificate is not None
        self._server.certificate = certificate
        return "new connections are given the one that is there now"


def named(*paths: str) -> tuple[str, ...]:
    return tuple(path for path in paths if path)


def stamp_of(path: str) -> Stamp:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns
