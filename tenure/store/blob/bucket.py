"""Blobs in a bucket of an S3 server, through obstore. Keys, region and endpoint come by the usual AWS_ variables."""

import os
from collections.abc import AsyncGenerator
from datetime import timedelta

import obstore
from obstore.exceptions import BaseError, NotFoundError
from obstore.store import S3Store

from tenure.core.error import InvalidRequest, Unavailable
from tenure.store.blob.place import LIST_NAMES, Missing, Oversize

CONNECT_S = 5
REQUEST_S = 60
RETRIES = 2
RETRY_S = 20


class Bucket:
    def __init__(self, url: str) -> None:
        self._url = url
        try:
            self._store = S3Store.from_url(
                url,
                client_options={
                    # Options given here replace those of the environment, this one among them.
                    "allow_http": os.environ.get("AWS_ALLOW_HTTP", "").lower() in {"1", "true"},
                    "connect_timeout": timedelta(seconds=CONNECT_S),
                    "timeout": timedelta(seconds=REQUEST_S),
                },
                retry_config={"max_retries": RETRIES, "retry_timeout": timedelta(seconds=RETRY_S)},
            )
        except (BaseError, ValueError) as error:
            raise InvalidRequest("blobs", url, f"it cannot be used: {_line(error)}") from error

    @property
    def is_remote(self) -> bool:
        return True

    def __str__(self) -> str:
        return self._url

    async def put(self, name: str, data: bytes) -> None:
        try:
            await obstore.put_async(self._store, name, data)
        except (BaseError, OSError) as error:
            raise self._trouble(error) from error

    async def get(self, name: str, bytes_max: int) -> bytes:
        try:
            found = await obstore.get_async(self._store, name)
            if found.meta["size"] > bytes_max:
                raise Oversize
            return (await found.bytes_async()).to_bytes()
        except (NotFoundError, FileNotFoundError):
            raise Missing from None
        except (BaseError, OSError) as error:
            raise self._trouble(error) from error

    async def delete(self, names: list[str]) -> None:
        try:
            await obstore.delete_async(self._store, names)
        except (NotFoundError, FileNotFoundError):
            return
        except (BaseError, OSError) as error:
            raise self._trouble(error) from error

    async def names(self) -> AsyncGenerator[list[str], None]:
        try:
            async for found in obstore.list(self._store, chunk_size=LIST_NAMES):
                yield [entry["path"] for entry in found]
        except (BaseError, OSError) as error:
            raise self._trouble(error) from error

    def within(self, folder: str) -> "Bucket":
        return Bucket(f"{self._url.rstrip('/')}/{folder}")

    def _trouble(self, error: Exception) -> Unavailable:
        return Unavailable(
            f"the blob store {self._url} cannot be used: {_line(error)}; check it and the AWS_ variables"
        )


def _line(error: Exception) -> str:
    """The first line of what may be a page."""
    return str(error).strip().partition("\n")[0][:300]
