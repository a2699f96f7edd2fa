"""Commands by chance: valid ones made from the types of their fields, and what can be done to them."""

import types
from functools import cache
from random import Random
from typing import Any, Final, Union, get_args, get_origin, get_type_hints

import msgspec
from msgspec import Raw, UnsetType

from tenure.wire.command import COMMANDS, UNSUPPORTED
from tests.server.talk import JSON_FRAMES, LINES, Manner, Message, wrap

TEXTS: Final = (
    *("mail", "image", "", "*", "ma*", "a" * 300, "ü", "x y", "end", "e5", "s:1", "json", "msgpack", "pickle"),
    *("ready", "completed", "waiting", "fixed", "stage", "publish", "complete", "strict", "high", "fsync", "default"),
)
NUMBERS: Final = (0, 1, 2, 3, 5, 10, 100, 1_000, 60_000, -1, 2**31, 2**53, 2**63 - 1, -(2**63), 1_700_000_000_500)
SETTINGS: Final = (
    "paused",
    "concurrency",
    "rate",
    "weight",
    "jobs_max",
    "shared",
    "tasks",
    "version",
    "aging_ms",
    "no",
)
JUNK: Final[tuple[Any, ...]] = (
    *(None, True, False, 0, -1, 1.5, 1e308, 2**64 - 1, "", "text", "ü" * 50, [], {}, [[]], {"a": {}}, [None] * 50),
    *({"$bin": "AAAA"}, {"$bin": "!"}, {"$bin": 1}, {"kind": "fixed"}, {"tokens": 1}, ["mail", 2], [["mail", -1]]),
    *({"data": 1}, [{"data": 1}], [{"data": 1, "queue": "mail"}, 7], {"jobs": [{"data": {}}]}, "\x00\x1f\n\r"),
)
LARGE: Final = 10**30
NAMES: Final = tuple(COMMANDS)


@cache
def hints_of(kind: type[msgspec.Struct]) -> list[tuple[str, Any]]:
    """The fields of a struct, as they are named on the wire, and their types."""
    hints = get_type_hints(kind)
    names = zip(kind.__struct_fields__, kind.__struct_encode_fields__, strict=True)
    return [(shown, hints[own]) for own, shown in names]


class Garbler:
    """`ids` and `tokens` are those that were seen in answers: now and then a request is about something real."""

    def __init__(self, random: Random, manner: Manner) -> None:
        self._random = random
        self._manner = manner
        self.ids: list[int] = [1]
        self.tokens: list[Any] = ["AAAA" if manner.is_json else b"\x00"]

    # What is valid, or nearly.

    def command(self) -> Message:
        random = self._random
        if random.random() < 0.4:
            return self._useful()
        name = random.choice(NAMES)
        message: Message = {"cmd": name}
        for field, kind in hints_of(COMMANDS[name]):
            if field not in ("reqId", "tenant", "tenants", "opId", "durability") and random.random() < 0.4:
                message[field] = self._id_or(field, kind)
        return message

    def _useful(self) -> Message:
        random = self._random
        id = random.choice(self.ids)
        return random.choice(
            (
                {"cmd": "PUSH", "queue": "mail", "data": {"n": id}},
                {"cmd": "PUSH", "queue": "image", "data": random.choice(JUNK), "custom_id": str(id)},
                {"cmd": "PUSHB", "queue": "mail", "jobs": [{"data": 1}, {"data": random.choice(JUNK)}]},
                {"cmd": "PULL", "queue": "mail", "timeout": random.choice((0, 0, 5_000))},
                {"cmd": "PULLB", "queue": "*", "count": 3, "timeout": 0, "worker": random.choice(TEXTS)},
                {"cmd": "ACK", "id": id, "result": random.choice(JUNK)},
                {"cmd": "FAIL", "id": id, "error": "broken"},
                {"cmd": "CANCEL", "id": id},
                {"cmd": "GETJOB", "id": id},
                {"cmd": "SUBSCRIBE", "queue": "mail"},
                {"cmd": "HELLO", "version": 1},
                {"cmd": random.choice(list(UNSUPPORTED))},
            )
        )

    def _id_or(self, field: str, kind: Any) -> Any:
        if field == "id":
            return self._random.choice(self.ids)
        if field == "token":
            return self._random.choice(self.tokens)
        return self._value(kind, 0)

    def _value(self, kind: Any, depth: int) -> Any:
        random = self._random
        origin = get_origin(kind)
        if origin in (Union, types.UnionType):
            return self._value(random.choice([part for part in get_args(kind) if part is not UnsetType]), depth)
        if origin in (list, tuple):
            parts = get_args(kind)
            if origin is tuple and parts[-1] is not Ellipsis:
                return [self._value(part, depth + 1) for part in parts]
            return [self._value(parts[0], depth + 1) for _ in range(random.choice((0, 1, 2, 3)))]
        if origin is dict:
            return {random.choice(SETTINGS): self._value(get_args(kind)[1], depth + 1) for _ in range(2)}
        if kind is int:
            return random.choice(NUMBERS)
        if kind is str:
            return random.choice(TEXTS)
        if kind is bool:
            return random.random() < 0.5
        if kind is float:
            return random.choice((0.0, 1.0, 2.5, 1e9))
        if kind is bytes:
            return "AAAA" if self._manner.is_json else b"\x01\x02"
        if kind is Raw or kind is Any or kind is type(None):
            return random.choice(JUNK)
        if issubclass(kind, msgspec.Struct):
            fields = hints_of(kind)
            return {name: self._value(part, depth + 1) for name, part in fields if random.random() < 0.3}
        raise AssertionError(kind)

    # What is not.

    def bend(self, message: Message) -> bool:
        """A change of the message; its `cmd` may be among what is changed. Whether its id can still be read."""
        random = self._random
        name = random.choice(list(message))
        change = random.randrange(6)
        if change == 0:
            message[name] = random.choice(JUNK)
        elif change == 1:
            message[name + random.choice("sx_")] = message.pop(name)
        elif change == 2:
            message["".join(part.title() if at else part for at, part in enumerate(name.split("_")))] = message.pop(
                name
            )
        elif change == 3:
            message[random.choice(TEXTS)] = random.choice(JUNK)
        elif change == 4:
            message[name] = LARGE if self._manner.is_json else msgspec.msgpack.Ext(5, b"ext")
        else:
            depth = random.choice((3, 50, 990, 3_000))
            message[name] = self._deep(depth)
            return depth < 100
        return True

    def _deep(self, depth: int) -> Any:
        """The encoder has a bound of its own, so it is put together as bytes."""
        if self._manner.is_json:
            return Raw(b"[" * depth + b"]" * depth)
        return Raw(b"\x91" * depth + b"\x90")

    def encode(self, message: Message) -> bytes:
        if self._manner.is_json:
            return msgspec.json.encode(message)
        return msgspec.msgpack.encode(message)

    def break_bytes(self, body: bytes) -> bytes:
        random = self._random
        broken = bytearray(body)
        for _ in range(random.choice((1, 1, 2, 5))):
            at = random.randrange(len(broken) + 1)
            change = random.randrange(5)
            if change == 0 and broken:
                broken[at % len(broken)] = random.randrange(256)
            elif change == 1:
                del broken[at : at + random.choice((1, 4, 20))]
            elif change == 2:
                broken[at:at] = random.randbytes(random.choice((1, 3, 9)))
            elif change == 3:
                broken[at:at] = broken[at : at + random.choice((2, 10, 40))]
            else:
                broken[at:at] = random.choice(
                    (b"\xdd\xff\xff\xff\xff", b"\xdf\x7f\xff\xff\xff", b'"', b"\\u", b"\xc6\x7f")
                )
        return bytes(broken)

    def wrapped(self, body: bytes) -> bytes:
        """A line has no break inside, and what is JSON in a frame begins as such."""
        if self._manner == LINES:
            return wrap(body.replace(b"\n", b" "), LINES)
        if self._manner == JSON_FRAMES and not body.startswith(b"{"):
            body = b"{" + body
        return wrap(body, self._manner)


def learn(garbler: Garbler, answer: Message) -> None:
    found = answer.get("job")
    for job in (found, *(answer.get("jobs") or ())):
        if isinstance(job, dict) and "token" in job:
            garbler.tokens[:] = (*garbler.tokens[-5:], job["token"])
    if isinstance(answer.get("id"), int):
        garbler.ids[:] = (*garbler.ids[-20:], answer["id"])
