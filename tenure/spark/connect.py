"""The one place where the code on Spark opens a client: in a planner, and in every task by itself.

A token is read here, at the last moment, in the process that uses it. Nothing that Spark pickles, plans or prints has
ever seen it.
"""

import asyncio
import logging
import time
from collections.abc import Coroutine
from concurrent.futures import Future
from types import TracebackType
from typing import Any, Final, TypeVar

from tenure.client.client import Client, connect
from tenure.client.loop import LoopThread
from tenure.core.error import Unavailable
from tenure.core.tenant import ANY_TENANT, DEFAULT_TENANT
from tenure.spark.option import Place
from tenure.spark.token import read_token

T = TypeVar("T")

PATIENCE_S: Final = 30.0  # for a server that is being started again while a query runs
log: Final = logging.getLogger("tenure.spark")


def token_of(place: Place) -> str:
    return read_token(place.token_file, place.token_variable, ("tokenFile", "tokenVariable"))


class Session:
    """An open client in a loop of its own: calls that are waited for, and calls that are under way meanwhile."""

    def __init__(self, place: Place, patience_s: float = 0.0) -> None:
        self._place = place
        self._patience_s = patience_s

    def __enter__(self) -> "Session":
        token = token_of(self._place)
        self._loop = LoopThread("tenure-spark")
        try:
            self.client: Client = self._open(token)
        except BaseException:
            self._loop.stop()
            raise
        return self

    def _open(self, token: str) -> Client:
        """Again and again for as long as there is patience."""
        is_all = self._place.tenant == ANY_TENANT
        until = time.monotonic() + self._patience_s
        while True:
            client = connect(
                self._place.url,
                tenant=DEFAULT_TENANT if is_all else self._place.tenant,
                tenants=(ANY_TENANT,) if is_all else (),
                token=token,
            )
            try:
                return self._loop.run(client.__aenter__())
            except Unavailable as error:
                self._loop.run(client.close())
                if time.monotonic() >= until:
                    raise
                log.warning("%s; trying again", error)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._loop.run(self.client.close())
        finally:
            self._loop.stop()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self._loop.run(work)

    def begin(self, work: Coroutine[Any, Any, T]) -> "Future[T]":
        """Goes on while the caller does something else."""
        return asyncio.run_coroutine_threadsafe(work, self._loop.loop)
