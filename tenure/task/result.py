"""Reading results: by the codec that wrote them, as the type that the handler promised."""

from typing import Any

from tenure.core.error import InvalidRequest
from tenure.task.codec import Codecs, Decode, Undecodable

SHOWN_BYTES = 80


class Reader:
    """Of the results of one task, whatever codec each was written with."""

    def __init__(self, codecs: Codecs, wanted: Any = Any, item: Any = Any) -> None:
        self._codecs = codecs
        self._wanted = wanted
        self._results: dict[str, Decode] = {}
        self._items: dict[str, Decode] = {}
        self._item = item

    def result(self, data: bytes | None, codec: str) -> Any:
        return None if data is None else self._read("result", self._results, data, codec, self._wanted)

    def item(self, data: bytes, codec: str) -> Any:
        """Something that a handler emitted."""
        return self._read("item", self._items, data, codec, self._item)

    def _read(self, what: str, known: dict[str, Decode], data: bytes, codec: str, wanted: Any) -> Any:
        decode = known.get(codec)
        if decode is None:
            decode = known[codec] = self._codecs.get(codec).decoder(wanted)
        try:
            return decode(data)
        except Undecodable as error:
            rule = f"it is not the {wanted} that was promised: {error}; the worker may run another version of the task"
            raise InvalidRequest(what, data[:SHOWN_BYTES], rule) from error
