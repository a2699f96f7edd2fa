"""A store that bulk operations on Spark read or write: where it is, and where its token lies.

The token itself is read in the process that uses it, at the last moment. What Spark pickles and prints names a file or
a variable, and nothing more.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

import msgspec

from tenure.client.client import Client, connect
from tenure.core.error import InvalidRequest
from tenure.spark.token import TOKEN_VARIABLE, read_token


class Side(msgspec.Struct, frozen=True):
    """`token_variable` is asked before the one that all of Tenure knows."""

    url: str
    token_file: str = ""
    token_variable: str = TOKEN_VARIABLE

    def check(self, field: str) -> None:
        """A store in memory would be another one in every task."""
        parts = urlsplit(self.url)
        if parts.scheme == "memory":
            raise InvalidRequest(field, self.url, "every task would have a store of its own; name a file or a server")
        if parts.username or parts.password:
            raise InvalidRequest(field, "a URL with a password", "it would show in plans; put the token into a file")

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[Client]:
        async with connect(self.url, token=self.token() if self.url.startswith("tenure") else "") as client:
            yield client

    def token(self) -> str:
        return read_token(self.token_file, self.token_variable, is_needed=False)
