"""A store that bulk operations on Spark read or write: where it is, and where its token lies.

The token itself is read in the process that uses it, at the last moment. What Spark pickles and prints names a file or
a variable, and nothing more.
"""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import urlsplit

import msgspec

from tenure.client.client import Client, connect
from tenure.core.error import InvalidRequest

TOKEN_VARIABLE = "TENURE_TOKEN"


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
        async with connect(self.url, token=self._token() if self.url.startswith("tenure") else "") as client:
            yield client

    def _token(self) -> str:
        path = self.token_file
        if not path:
            for name in (self.token_variable, TOKEN_VARIABLE):
                if given := os.environ.get(name, "").strip():
                    return given
            if not (path := os.environ.get("TENURE_TOKEN_FILE", "")):
                return ""
        try:
            return Path(path).read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is not text"
            raise InvalidRequest("token file", path, f"it must be readable where Spark's tasks run: {reason}") from None
