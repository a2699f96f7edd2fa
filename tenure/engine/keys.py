"""Maps from texts to numbers that never stall: many small dicts instead of one that rehashes millions at once."""

from typing import Final

from mypy_extensions import i64

SPLIT_AT: Final = 4096


class Keys:
    """Text to number. One dict while small, 4,096 shards once it has grown."""

    def __init__(self) -> None:
        self._one: dict[str, int] | None = {}
        self._many: dict[int, dict[str, int]] = {}
        self.size: i64 = 0

    def get(self, key: str) -> int:
        """The number, or 0."""
        one = self._one
        if one is not None:
            return one.get(key, 0)
        shard = self._many.get(hash(key) & 4095)
        return 0 if shard is None else shard.get(key, 0)

    def set(self, key: str, number: int) -> None:
        """The key must be new, or its number changes."""
        one = self._one
        if one is not None:
            if key not in one:
                self.size += 1
            one[key] = number
            if self.size > SPLIT_AT:
                self._split(one)
            return
        shard = self._many.get(hash(key) & 4095)
        if shard is None:
            shard = {}
            self._many[hash(key) & 4095] = shard
        if key not in shard:
            self.size += 1
        shard[key] = number

    def remove(self, key: str) -> None:
        one = self._one
        if one is not None:
            if one.pop(key, 0):
                self.size -= 1
            return
        shard = self._many.get(hash(key) & 4095)
        if shard is not None and shard.pop(key, 0):
            self.size -= 1
            if not shard:
                del self._many[hash(key) & 4095]
        if self.size == 0:
            self._one = {}

    def items(self) -> list[tuple[str, int]]:
        if self._one is not None:
            return list(self._one.items())
        return [pair for shard in self._many.values() for pair in shard.items()]

    def _split(self, one: dict[str, int]) -> None:
        self._one = None
        for key, number in one.items():
            shard = self._many.get(hash(key) & 4095)
            if shard is None:
                shard = {}
                self._many[hash(key) & 4095] = shard
            shard[key] = number
