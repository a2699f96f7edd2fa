"""Jobs that a handler asked for: stored in the step that completes its own, or not at all."""

import msgspec

from tenure.core.request import Batch
from tenure.core.state import SETTLE_COMPLETE
from tenure.task.bound import batch_of
from tenure.task.context import Context
from tenure.wire.value import WireBatch, pack_batch, unpack_batch
from tenure.worker.ended import Ended

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(WireBatch).decode


def followups_of(context: Context | None, ended: Ended) -> Batch | None:
    if ended.verb != SETTLE_COMPLETE:
        return None
    if ended.followups:
        return unpack_batch(_decode(ended.followups))
    return batch_of(context.followups) if context is not None and context.followups else None


def packed_followups(context: Context) -> bytes:
    """For another process to send."""
    return _encode(pack_batch(batch_of(context.followups)))
