"""From a URL to a store. One of the few places that name a concrete one."""

from urllib.parse import urlsplit

from tenure.core.error import InvalidRequest, Unsupported
from tenure.store.contract import Store
from tenure.store.embedded.memory import MemoryStore

PLANNED = ("sqlite", "postgresql", "redis", "fdb", "tenure", "tenure+unix")


def open_store(url: str) -> Store:
    """The store that the URL names, not yet opened."""
    scheme = urlsplit(url).scheme
    if scheme == "memory":
        return MemoryStore()
    if scheme in PLANNED:
        raise Unsupported(f"{scheme}:// yet (memory:// works)")
    raise InvalidRequest("url", url, "it must begin with memory://")
