"""What two processes of Tenure say to each other: one struct per operation, MessagePack arrays in frames.

After `Hello` and `Welcome` either side speaks when it likes. A `Call` is answered by a `Reply` or a `Refusal` with its
number, in any order; `Abort` ends one that waits. A server that stops says `Gone` and refuses what still comes; the
client sends nothing more, and closes when everything it sent is answered. A body that is an array cannot be mistaken
for a command of the public protocol, which is a map.
"""

from collections.abc import Callable
from typing import NamedTuple

import msgspec

from tenure.core.record import (
    DeadLetterGroup,
    EventPage,
    Explanation,
    JobPage,
    JobRecord,
    LoadReport,
    Scanned,
    StreamItem,
)
from tenure.wire import value
from tenure.wire.value import Wire, WireContext

PROTOCOL = 2


class Hello(Wire, tag="hello"):
    protocol: int


class Welcome(Wire, tag="welcome"):
    protocol: int
    epoch: int


class Call(Wire, tag="call"):
    id: int
    verb: str
    context: WireContext
    body: msgspec.Raw


class Abort(Wire, tag="abort"):
    id: int


class Ping(Wire, tag="ping"):
    pass


class Pong(Wire, tag="pong"):
    pass


class Gone(Wire, tag="gone"):
    pass


class Reply(Wire, tag="reply"):
    id: int
    body: msgspec.Raw


class Refusal(Wire, tag="refusal"):
    id: int
    error: value.WireError


NONSENSE = (msgspec.MsgspecError, ValueError)  # what reading raises; a text that is not UTF-8 is a ValueError

_encoder = msgspec.msgpack.Encoder(enc_hook=value.extend_encoder)
encode: Callable[[object], bytes] = _encoder.encode
read_request: Callable[[bytes], Hello | Call | Abort | Ping] = msgspec.msgpack.Decoder(
    Hello | Call | Abort | Ping
).decode
read_answer: Callable[[bytes], Welcome | Reply | Refusal | Pong | Gone] = msgspec.msgpack.Decoder(
    Welcome | Reply | Refusal | Pong | Gone
).decode


# Operations whose arguments are not a value of the core.


class Find(Wire):
    filter: value.WireFilter
    limit: int
    cursor: str


class OfQueue(Wire):
    queue: str


class OfJob(Wire):
    id: int


class Watch(Wire):
    id: int
    wait_ms: int


class Events(Wire):
    cursor: str
    limit: int
    wait_ms: int


class Stream(Wire):
    id: int
    kind: int
    offset: int
    limit: int
    wait_ms: int


Arguments = tuple[object, ...]


class Verb(NamedTuple):
    """How the arguments and the answer of a verb go over the wire."""

    pack: Callable[[Arguments], bytes]
    unpack: Callable[[msgspec.Raw], Arguments]
    pack_answer: Callable[[object], bytes]
    unpack_answer: Callable[[msgspec.Raw], object]


def _verb(
    request: object,
    pack: Callable[..., object],
    unpack: Callable[..., Arguments],
    answer: object,
    pack_answer: Callable[..., object] | None = None,
    unpack_answer: Callable[..., object] | None = None,
) -> Verb:
    requests = msgspec.msgpack.Decoder(request, ext_hook=value.extend_decoder)
    answers = msgspec.msgpack.Decoder(answer, ext_hook=value.extend_decoder)
    pack_it = pack_answer or _same
    unpack_it = unpack_answer or _same
    return Verb(
        lambda arguments: encode(pack(*arguments)),
        lambda body: unpack(requests.decode(body)),
        lambda found: encode(pack_it(found)),
        lambda body: unpack_it(answers.decode(body)),
    )


def _same(found: object) -> object:
    return found


def _core(request: type[Wire], pack: Callable[..., Wire], unpack: Callable[..., object], answer: object) -> Verb:
    """A verb whose one argument is a value of the core."""
    packs: dict[object, tuple[Callable[..., object], Callable[..., object]]] = {
        value.WireAnswers: (value.pack_answers, value.unpack_answers),
        value.WireClaimed: (value.pack_claimed, value.unpack_claimed),
        value.WireExtended: (value.pack_extended, value.unpack_extended),
    }
    pack_answer, unpack_answer = packs.get(answer, (_same, _same))
    return _verb(request, pack, lambda message: (unpack(message),), answer, pack_answer, unpack_answer)


def _plain(request: type[Wire], answer: object) -> Verb:
    """A verb whose arguments are the fields of its struct."""
    return _verb(request, request, msgspec.structs.astuple, answer)


VERBS: dict[str, Verb] = {
    "enqueue": _core(value.WireBatch, value.pack_batch, value.unpack_batch, value.WireAnswers),
    "claim": _core(value.WireClaim, value.pack_claim, value.unpack_claim, value.WireClaimed),
    "settle": _core(value.WireSettle, value.pack_settle, value.unpack_settle, value.WireAnswers),
    "extend": _core(value.WireExtend, value.pack_extend, value.unpack_extend, value.WireExtended),
    "change": _core(value.WireChange, value.pack_change, value.unpack_change, value.WireAnswers),
    "get": _verb(value.WireGet, value.pack_get, msgspec.structs.astuple, list[JobRecord | None]),
    "find": _verb(
        Find,
        lambda filter, limit, cursor: Find(value.pack_filter(filter), limit, cursor),
        lambda find: (value.unpack_filter(find.filter), find.limit, find.cursor),
        JobPage,
    ),
    "count": _plain(OfQueue, dict[str, dict[str, int]]),
    "groups": _plain(OfQueue, list[DeadLetterGroup]),
    "explain": _plain(OfJob, Explanation),
    "configure": _core(value.WireConfigure, value.pack_configure, value.unpack_configure, dict[str, object]),
    "watch": _plain(Watch, JobRecord),
    "events": _plain(Events, EventPage),
    "append": _core(value.WireAppend, value.pack_append, value.unpack_append, int),
    "stream": _plain(Stream, list[StreamItem]),
    "load": _core(value.WireLoad, value.pack_load, value.unpack_load, LoadReport),
    "scan": _core(value.WireScan, value.pack_scan, value.unpack_scan, Scanned),
}
