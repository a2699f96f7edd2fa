"""The one command that comes by the ten thousand a second, one at a time: a push that asks for nothing but a queue.

It is read and answered without the fields that it does not have. Whatever else it says makes it a `PUSH` like any
other: reading it here fails, and it goes the way of all commands.
"""

from collections.abc import Callable

import msgspec
from msgspec import Raw, Struct

MISSES_MAX = 8  # pushes in a row that asked for more: then nobody tries any more on that connection
PUSH = b"\xa4PUSH"
HEAD_BYTES = 32  # of a message, in which those who say the command first have said it


class PlainPush(Struct, tag_field="cmd", tag="PUSH", forbid_unknown_fields=True, gc=False):
    queue: str
    data: Raw
    reqId: str | int  # noqa: N815 - as it is on the wire, where a shorter way to say so is a quicker one


class PushedPlain(Struct, gc=False):
    ok: bool
    id: int
    state: str
    duplicate: bool
    reqId: str | int  # noqa: N815


encode_quickly: Callable[[PushedPlain], bytes] = msgspec.msgpack.Encoder().encode
read_plain_push: Callable[[bytes], PlainPush] = msgspec.msgpack.Decoder(PlainPush).decode
