"""What became of the jobs of a copy since it was made, as the events of both stores tell.

The new store writes one event when a copied job comes in. Any later one means that the job changed there. A copy that
is repeated does not know where the events of the old store stood when the first run read it; but a job that differs
and did not change in the new store must have changed in the old one.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

from tenure.client.client import Client
from tenure.core.error import EventsLost
from tenure.core.event import ENQUEUED, EVENT_NAMES

CHANGED_MAX: Final = 100_000  # jobs that are remembered to have changed
_NOT_COMING_IN: Final = tuple(name for number, name in enumerate(EVENT_NAMES) if number != ENQUEUED)


class Changed(NamedTuple):
    """Ids of one store; not all of them when there were too many, or when their events are gone."""

    ids: frozenset[int] = frozenset()
    is_complete: bool = True


class Since(NamedTuple):
    old: Changed = Changed()  # after the copy read the old store
    new: Changed = Changed()  # after the copies came in
    is_repeated: bool = False  # the copy was made by an earlier run

    def explain(self, source: int, target: int, is_duplicate: bool) -> str:
        """Why the two jobs differ, or an empty text."""
        if is_duplicate:
            return "another job had its key"
        in_old, in_new = source in self.old.ids, target in self.new.ids
        if in_old:
            return "it changed in both stores" if in_new else "it changed in the old store after it was read"
        if in_new:
            return "it changed in the new store after it was copied"
        if not self.is_repeated:
            return ""
        where = "the old store" if self.new.is_complete else "one of the stores"
        return f"it changed in {where} after the first copy"


async def changed_jobs(client: Client, after: int, upto: int, last_job: int) -> Changed:
    """Jobs up to `last_job` that have an event in the range, whatever it was."""
    return await _jobs_of(client, after, upto, 1, last_job, ())


async def changed_copies(client: Client, after: int, first_job: int, last_job: int) -> Changed:
    """Copies that have any event after that number but that of their coming in. Their ids are in the range; between
    them there may be jobs that others enqueued."""
    upto = (await client.scan_bounds("events")).last
    return await _jobs_of(client, after, upto, first_job, last_job, _NOT_COMING_IN)


async def _jobs_of(
    client: Client, after: int, upto: int, first_job: int, last_job: int, types: Sequence[str]
) -> Changed:
    ids: set[int] = set()
    is_complete = True
    while after < upto and len(ids) < CHANGED_MAX:
        try:
            page = await client.scan_page("events", after=after, upto=upto, types=types, columns=("job",))
        except EventsLost as lost:
            after, is_complete = lost.oldest - 1, False
            continue
        if page.rows:
            jobs = memoryview(page.columns["job"]).cast("q")
            ids.update(job for job in jobs if first_job <= job <= last_job)
        after = page.next
    return Changed(frozenset(ids), is_complete and after >= upto)
