"""A task with its arguments and options: what is enqueued, kept for later, or handed to somebody else to enqueue."""

from typing import TYPE_CHECKING, Any, Generic, TypeVar

from tenure.core.job import Extras, Options
from tenure.core.request import Batch

if TYPE_CHECKING:
    from tenure.task.result import Reader

R_co = TypeVar("R_co", covariant=True)


class Bound(Generic[R_co]):
    """The arguments are checked and written down when it is made."""

    __slots__ = ("durability", "extras", "options", "payload", "reader", "tenant")

    def __init__(
        self,
        reader: "Reader",
        payload: bytes,
        options: Options,
        extras: Extras | None = None,
        tenant: str = "",
        durability: str = "",
    ) -> None:
        self.reader = reader
        self.payload = payload
        self.options = options
        self.extras = extras
        self.tenant = tenant
        self.durability = durability


def batch_of(calls: list[Bound[Any]]) -> Batch:
    """Calls of one tenant as one request."""
    first = calls[0].options
    each = None if all(call.options is first for call in calls) else [call.options for call in calls]
    extras = [call.extras for call in calls] if any(call.extras is not None for call in calls) else None
    return Batch(first, [call.payload for call in calls], extras, each)
