"""The commands that come by the ten thousand a second, one at a time: a push that asks for nothing but a queue, and a
pull that does not wait.

They are read and answered without the fields that they do not have. Whatever else one says makes it a command like any
other: reading it here fails, and it goes the way of all commands.
"""

from collections.abc import Callable

import msgspec
from msgspec import Raw, Struct

from tenure.wire.command import PULL_WAIT_MS
from tenure.wire.work import LeasedJob

MISSES_MAX = 8  # in a row that asked for more: then nobody tries any more on that connection
PUSH, PULL = b"\xa3cmd\xa4PUSH", b"\xa3cmd\xa4PULL"
HEAD = slice(1, 1 + len(PUSH))  # of a message, behind the number of its fields; most say the command first


class PlainPush(Struct, tag_field="cmd", tag="PUSH", forbid_unknown_fields=True, gc=False):
    queue: str
    data: Raw
    reqId: str | int  # noqa: N815 - as it is on the wire, where a shorter way to say so is a quicker one


class PlainPull(Struct, tag_field="cmd", tag="PULL", forbid_unknown_fields=True, gc=False):
    queue: str
    reqId: str | int  # noqa: N815
    timeout: int = PULL_WAIT_MS


class PushedPlain(Struct, gc=False):
    ok: bool
    id: int
    state: str
    duplicate: bool
    reqId: str | int  # noqa: N815


class PulledPlain(Struct, gc=False):
    ok: bool
    job: LeasedJob | None
    reqId: str | int  # noqa: N815


encode_quickly: Callable[[PushedPlain | PulledPlain], bytes] = msgspec.msgpack.Encoder().encode
read_plainly: Callable[[bytes], PlainPush | PlainPull] = msgspec.msgpack.Decoder(PlainPush | PlainPull).decode
