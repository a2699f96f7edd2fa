"""What a place for blobs is: names to bytes, whole or not at all. It knows nothing of jobs."""

from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Protocol
from urllib.parse import urlsplit

from tenure.core.error import InvalidRequest

LIST_NAMES = 1_000


class Missing(Exception):
    """There is nothing under the name."""


class Oversize(Exception):
    """There is more under the name than was ever put there."""


class Place(Protocol):
    """Trouble with the disk or the network is `Unavailable`."""

    @property
    def is_remote(self) -> bool:
        """Whether trouble may be on the way, and pass by itself."""

    async def put(self, name: str, data: bytes) -> None:
        """Keep the data. When this returns it survives the loss of power; until then there is nothing, or all of it."""

    async def get(self, name: str, bytes_max: int) -> bytes:
        """All of it; `Missing`, or `Oversize` when it is more than `bytes_max`."""

    async def delete(self, names: list[str]) -> None:
        """Names that are not there do no harm."""

    def names(self) -> AsyncGenerator[list[str], None]:
        """All names, some at a time; those that come or go meanwhile may be among them."""

    def within(self, folder: str) -> "Place":
        """A place inside this one: of its names none is a name of a blob here."""


def open_place(text: str) -> Place:
    """A folder's path, or s3://bucket/prefix."""
    parts = urlsplit(text)
    if parts.scheme == "s3":
        if not parts.netloc or parts.query or parts.fragment or "@" in parts.netloc:
            raise InvalidRequest("blobs", text, "it must be s3://bucket/prefix; keys come by the AWS_ variables")
        from tenure.store.blob.bucket import Bucket

        return Bucket(text)
    if not text or "://" in text:
        raise InvalidRequest("blobs", text, "it must be a folder, or s3://bucket/prefix")
    from tenure.store.blob.folder import Folder

    return Folder(Path(text))
