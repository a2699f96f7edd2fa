"""What a store answers. Columns for what comes by the thousand; exceptions to the rule in a sparse table."""

from mypy_extensions import mypyc_attr

from tenure.core.blob import Blob
from tenure.core.error import Error
from tenure.core.job import Extras, Options
from tenure.core.state import READY


@mypyc_attr(acyclic=True)
class Outcome:
    """What became of one item when it is not what became of the others."""

    def __init__(
        self,
        id: int = 0,
        state: int = READY,
        duplicate: bool = False,
        replaced: bool = False,
        run_at: int = 0,
        error: Error | None = None,
    ) -> None:
        self.id = id
        self.state = state
        self.duplicate = duplicate
        self.replaced = replaced
        self.run_at = run_at
        self.error = error


class Answers:
    """One answer per item, in input order: `state` for all, but for those in `other`. A refused item has id 0.

    `count` is how many jobs were changed; for a change by filter it is all there is, and `ticket` says what to wait
    for.
    """

    def __init__(
        self, ids: list[int], state: int, other: dict[int, Outcome] | None = None, count: int = 0, ticket: int = 0
    ) -> None:
        self.ids = ids
        self.state = state
        self.other = other
        self.count = count
        self.ticket = ticket

    def __len__(self) -> int:
        return len(self.ids)

    def item(self, at: int) -> Outcome:
        if self.other is not None:
            found = self.other.get(at)
            if found is not None:
                return found
        return Outcome(self.ids[at], self.state)

    def errors(self) -> dict[int, Error]:
        found: dict[int, Error] = {}
        if self.other is not None:
            for at, outcome in self.other.items():
                if outcome.error is not None:
                    found[at] = outcome.error
        return found


class Claimed:
    """The jobs of one claim, in columns; one token for all of them. `ticket` is not 0 when the claim waits.

    `lease_ms` is how much of each lease is left at the moment of the answer, for whoever has another clock than the
    store; `lease_until` is the same in the store's wall time.
    """

    def __init__(self, token: bytes = b"", ticket: int = 0) -> None:
        self.token = token
        self.ticket = ticket
        self.ids: list[int] = []
        self.payloads: list[bytes] = []
        self.options: list[Options] = []
        self.tenants: list[str] = []
        self.attempts: list[int] = []
        self.lease_until: list[int] = []
        self.lease_ms: list[int] = []
        self.extras: list[Extras | None] = []
        self.blobs: dict[int, Blob] | None = None  # by place: payloads that have to be read from the blob store

    def add_blob(self, at: int, blob: Blob) -> None:
        if self.blobs is None:
            self.blobs = {}
        self.blobs[at] = blob

    def __len__(self) -> int:
        return len(self.ids)


class Extended:
    """Per job the new deadline (wall time) and how far off it is, 0 where the lease is over; `errors` says why."""

    def __init__(self, lease_until: list[int], lease_ms: list[int], errors: dict[int, Error] | None = None) -> None:
        self.lease_until = lease_until
        self.lease_ms = lease_ms
        self.errors = errors
