"""To a caller of some queues only, a dependency on a job of another queue is one on a job that does not exist.

The store is asked with a number in its place that no job has, and what it says of that is said of the job. The same
with a job that was removed: how it ended is still known to the store, but not in which queue.
"""

from collections.abc import Iterable

from tenure.core.answer import Answers, Outcome
from tenure.core.bound import ID_MAX
from tenure.core.clock import Now
from tenure.core.error import DependencyNotFound, Error
from tenure.core.job import Extras
from tenure.core.request import Batch
from tenure.core.tenant import Context
from tenure.server.caller import Caller
from tenure.store.contract import Store


class Hidden:
    """The numbers that were put in, and what stood there."""

    def __init__(self, ids: Iterable[int] = ()) -> None:
        self._stand_ins = {id: ID_MAX - at for at, id in enumerate(ids)}
        self._asked = {stand_in: id for id, stand_in in self._stand_ins.items()}

    def put_in(self, batches: Iterable[Batch]) -> None:
        for extras in extras_of(batches):
            if any(id in self._stand_ins for id in extras.depends_on):
                extras.depends_on = tuple(self._stand_ins.get(id, id) for id in extras.depends_on)

    def error(self, error: Error) -> Error:
        if isinstance(error, DependencyNotFound) and error.job in self._asked:
            return DependencyNotFound(self._asked[error.job])
        return error

    def answers(self, answers: Answers) -> Answers:
        for at, outcome in (answers.other or {}).items():
            if outcome.error is not None and answers.other is not None:
                answers.other[at] = Outcome(outcome.id, error=self.error(outcome.error))
        return answers


def extras_of(batches: Iterable[Batch]) -> Iterable[Extras]:
    return (extras for batch in batches for extras in batch.extras or () if extras is not None)


async def hide(store: Store, caller: Caller, context: Context, batches: list[Batch], now: Now) -> Hidden:
    wanted = list({id for extras in extras_of(batches) for id in extras.depends_on})
    if not wanted:
        return Hidden()
    jobs = await store.get(context, wanted, [], now)
    hidden = Hidden(id for id, job in zip(wanted, jobs, strict=True) if job is None or not caller.reaches(job.queue))
    hidden.put_in(batches)
    return hidden
