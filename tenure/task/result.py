"""Reading results: by the codec that wrote them, as the type that the handler promised."""

from typing import Any

from tenure.task.codec import Codecs, Decode


class Reader:
    """Of the results of one task, whatever codec each was written with."""

    def __init__(self, codecs: Codecs, wanted: Any = Any, item: Any = Any) -> None:
        self._codecs = codecs
        self._wanted = wanted
        self._results: dict[str, Decode] = {}
        self._items: dict[str, Decode] = {}
        self._item = item

    def result(self, data: bytes | None, codec: str) -> Any:
        return None if data is None else _reader(self._results, self._codecs, codec, self._wanted)(data)

    def item(self, data: bytes, codec: str) -> Any:
        """Something that a handler emitted."""
        return _reader(self._items, self._codecs, codec, self._item)(data)


def _reader(known: dict[str, Decode], codecs: Codecs, codec: str, wanted: Any) -> Decode:
    found = known.get(codec)
    if found is None:
        found = known[codec] = codecs.get(codec).decoder(wanted)
    return found
