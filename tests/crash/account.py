"""Who was answered what, and whether a store that came back keeps to it.

`Ledger` notes every call: when it was sent, when it was answered, and what; moments are lengths of the disk's log. The
books are balanced against a store opened from an image of some moment: what was answered by then is there, what was
sent later is not, a call is there whole or not at all, and what is there is what the first so many calls left behind.
"""

from dataclasses import dataclass, field

from tenure.core.answer import Answers, Claimed
from tenure.core.clock import Now
from tenure.core.error import QueueNotFound
from tenure.core.job import Options
from tenure.core.record import JobRecord
from tenure.core.request import QUEUE, Batch, Claim, Configure, Filter, Pick, Settle
from tenure.core.state import CANCELLED, SETTLE_COMPLETE
from tenure.core.tenant import Context
from tenure.store.embedded.sqlite import SqliteStore

EVERYBODY = Context(tenants=("*",))
SHORT = "short"  # the queue that keeps no completed jobs
QUEUES = ("plain", "grouped", SHORT)
END = 1 << 60  # a moment after all others
PROBE = b"probe"
KEYED_CALLS = 10  # that are looked at in an image


@dataclass
class Call:
    number: int
    sent: int
    answered: int = END

    def was_sent(self, moment: int) -> bool:
        return self.sent <= moment

    def was_answered(self, moment: int) -> bool:
        return self.answered <= moment and self.answered != END


@dataclass
class Enqueued(Call):
    queue: str = ""
    items: int = 0
    custom_id: str = ""
    keyed: bool = False
    duplicate: bool = False
    ids: list[int] = field(default_factory=list)
    name: int = 0  # of a load, whose rows had theirs before the call that publishes them had its number

    def keys(self) -> list[str] | None:
        """Idempotency keys that nothing else has."""
        return [f"{self.name or self.number}.{item}" for item in range(self.items)] if self.keyed else None

    def payload(self, item: int) -> bytes:
        return b"%d.%d" % (self.name or self.number, item)


@dataclass
class Leased(Call):
    ids: list[int] = field(default_factory=list)
    token: bytes = b""


@dataclass
class Ended(Call):
    """A settlement or a cancellation; `done` are the jobs that it was answered for."""

    state: str = ""
    ids: list[int] = field(default_factory=list)
    done: list[int] = field(default_factory=list)


@dataclass
class Configured(Call):
    value: int = 0


class Ledger:
    def __init__(self) -> None:
        self.enqueued: list[Enqueued] = []
        self.leased: list[Leased] = []
        self.ended: list[Ended] = []
        self.configured: list[Configured] = []
        self.queue_of: dict[int, str] = {}
        self._calls = 0

    def number(self) -> int:
        self._calls += 1
        return self._calls

    # What is noted when an answer comes.

    def enqueue_answered(self, call: Enqueued, answers: Answers, moment: int) -> None:
        call.answered = moment
        call.duplicate = answers.item(0).duplicate
        call.ids = list(answers.ids)
        if not call.duplicate:
            for id in call.ids:
                self.queue_of[id] = call.queue

    def load_answered(self, call: Enqueued, ids: list[int], moment: int) -> None:
        call.answered = moment
        call.ids = ids
        for id in ids:
            self.queue_of[id] = call.queue

    def claim_answered(self, call: Leased, claimed: Claimed, moment: int) -> None:
        call.answered = moment
        call.ids = list(claimed.ids)
        call.token = claimed.token

    def end_answered(self, call: Ended, answers: Answers, moment: int) -> None:
        call.answered = moment
        for at, id in enumerate(call.ids):
            outcome = answers.item(at)
            if outcome.error is None and (call.state != "cancelled" or outcome.state == CANCELLED):
                call.done.append(id)

    # What can be asked.

    def answered_jobs(self, moment: int) -> int:
        return sum(call.items for call in self.enqueued if call.was_answered(moment) and not call.duplicate)

    def ids_given(self, moment: int) -> set[int]:
        return {id for call in self.enqueued if call.was_answered(moment) for id in call.ids}

    def tokens_given(self, moment: int) -> set[bytes]:
        return {call.token for call in self.leased if call.was_answered(moment) and call.ids}

    def touched(self, moment: int) -> set[int]:
        """Jobs that somebody may have ended by then."""
        return {id for call in self.ended if call.was_sent(moment) for id in call.ids}


@dataclass
class Balance:
    """What was found: nothing, if all is well."""

    lost: list[str] = field(default_factory=list)
    doubled: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)

    def findings(self) -> list[str]:
        return self.lost + self.doubled + self.wrong


class Audit:
    """One store against the ledger at one moment; `survives` when answers had to outlive what happened."""

    def __init__(self, ledger: Ledger, moment: int, survives: bool) -> None:
        self._ledger = ledger
        self._moment = moment
        self._survives = survives
        self._touched = ledger.touched(moment)
        self._by_id: dict[int, JobRecord] = {}
        self._by_payload: dict[bytes, JobRecord] = {}
        self._probes: set[int] = set()  # jobs of an earlier audit
        self._reached = 0
        self.balance = Balance()

    async def run(self, store: SqliteStore, now: Now) -> Balance:
        await self._read(store, now)
        self._find_reached()
        self._check_strangers()
        for enqueued in self._ledger.enqueued:
            self._check_enqueued(enqueued)
        for ended in self._ledger.ended:
            self._check_ended(ended)
        for leased in self._ledger.leased:
            self._check_leased(leased)
        await self._check_custom_ids(store, now)
        await self._check_keys(store, now)
        await self._check_configured(store, now)
        await self._go_on(store, now)
        self.balance.wrong += store._engine.verify()
        return self.balance

    async def _read(self, store: SqliteStore, now: Now) -> None:
        self.balance.wrong += store._engine.verify()
        cursor = ""
        while True:
            page = await store.find(EVERYBODY, Filter(), 1_000, cursor, now)
            for job in page.jobs:
                if job.payload.startswith(PROBE):
                    self._probes.add(job.id)
                    continue
                if job.payload in self._by_payload:
                    self.balance.doubled.append(f"{job.payload!r} is job {job.id} and another one")
                self._by_id[job.id] = self._by_payload[job.payload] = job
            cursor = page.cursor
            if not cursor:
                return

    def _find_reached(self) -> None:
        """The last call that left a trace: all before it must have done so too."""
        for enqueued in self._ledger.enqueued:
            if any(enqueued.payload(item) in self._by_payload for item in range(enqueued.items)):
                self._reached = max(self._reached, enqueued.number)
        for ended in self._ledger.ended:
            if ended.state == "completed" and any(self._state(id) == "completed" for id in ended.done):
                self._reached = max(self._reached, ended.number)

    def _state(self, id: int) -> str:
        job = self._by_id.get(id)
        return "" if job is None else job.state

    def _must_be(self, call: Call) -> bool:
        if call.number < self._reached and call.answered != END:
            return True
        return self._survives and call.was_answered(self._moment)

    def _check_strangers(self) -> None:
        sent = {
            call.payload(item): call
            for call in self._ledger.enqueued
            if call.was_sent(self._moment)
            for item in range(call.items)
        }
        for job in self._by_id.values():
            call = sent.get(job.payload)
            if call is None:
                self.balance.wrong.append(f"job {job.id} with {job.payload!r} was never submitted")
            elif call.duplicate:
                self.balance.doubled.append(f"job {job.id} was answered as a duplicate and is there")
            elif call.ids and job.id not in call.ids:
                self.balance.wrong.append(f"job {job.id} was answered as one of {call.ids[:3]}")

    def _check_enqueued(self, call: Enqueued) -> None:
        if call.duplicate:
            return
        found = [item for item in range(call.items) if call.payload(item) in self._by_payload]
        missing = [item for item in range(call.items) if call.payload(item) not in self._by_payload]
        if call.ids:
            missing = [item for item in missing if not self._may_be_gone(call.ids[item], call.queue)]
        if not missing:
            return
        if self._must_be(call):
            ids = [call.ids[item] for item in missing]
            self.balance.lost.append(f"call {call.number} has lost jobs {ids[:10]} of {call.items} in {call.queue}")
        elif found:
            self.balance.wrong.append(f"call {call.number} is half there: {len(found)} of {call.items} jobs")

    def _may_be_gone(self, id: int, queue: str) -> bool:
        return queue == SHORT and id in self._touched

    def _check_ended(self, call: Ended) -> None:
        if not self._must_be(call):
            return
        for id in call.done:
            state = self._state(id)
            if call.state in ("completed", "cancelled"):
                right = state == call.state
            else:
                right = state != ""
            if not right and not (state == "" and self._ledger.queue_of.get(id) == SHORT):
                self.balance.lost.append(f"call {call.number} made job {id} {call.state}, it is {state or 'gone'}")

    def _check_leased(self, call: Leased) -> None:
        if not self._must_be(call):
            return
        for id in call.ids:
            if id not in self._touched and self._state(id) != "running":
                self.balance.lost.append(f"call {call.number} leased job {id}, it is {self._state(id) or 'gone'}")

    async def _check_custom_ids(self, store: SqliteStore, now: Now) -> None:
        calls = [call for call in self._ledger.enqueued if call.custom_id and not call.duplicate and call.ids]
        found = await store.get(EVERYBODY, [], [call.custom_id for call in calls], now)
        for call, job in zip(calls, found, strict=True):
            if self._must_be(call) and self._state(call.ids[0]) and (job is None or job.id != call.ids[0]):
                self.balance.wrong.append(f"job {call.ids[0]} is not found as {call.custom_id}")

    async def _check_keys(self, store: SqliteStore, now: Now) -> None:
        """An idempotency key holds though its job is gone: who comes with it again gets the same job."""
        calls = [call for call in self._ledger.enqueued if call.keyed and call.ids and self._must_be(call)]
        for call in calls[-KEYED_CALLS:]:
            batch = Batch(Options(call.queue), [PROBE] * call.items, keys=call.keys())
            again = await store.enqueue(EVERYBODY, batch, now)
            if again.ids != call.ids:
                self.balance.lost.append(f"keys of call {call.number} are of {again.ids[:10]}, not of {call.ids[:10]}")

    async def _check_configured(self, store: SqliteStore, now: Now) -> None:
        try:
            settings = await store.configure(EVERYBODY, Configure(QUEUE, "plain", {}), now)
        except QueueNotFound:
            settings = {}
        last = max((call.number for call in self._ledger.configured if self._must_be(call)), default=0)
        allowed = [c.value for c in self._ledger.configured if c.was_sent(self._moment) and c.number >= last]
        if last == 0:
            allowed.append(0)
        value = settings.get("jobs_max", 0) or 0
        if value not in allowed:
            self.balance.lost.append(f"a setting is {value}, it should be one of {allowed}")

    async def _go_on(self, store: SqliteStore, now: Now) -> None:
        """The store goes on working, and gives no number again."""
        answers = await store.enqueue(EVERYBODY, Batch(Options("probe"), [PROBE] * 3), now)
        again = self._ledger.ids_given(self._moment) | set(self._by_id) | self._probes
        if len(set(answers.ids)) != 3 or set(answers.ids) & again:
            self.balance.doubled.append(f"ids {answers.ids} were given again")
        claimed = await store.claim(EVERYBODY, Claim((Pick("probe"),), 3, lease_ms=1_000), now)
        if not claimed.ids or claimed.token in self._ledger.tokens_given(self._moment):
            self.balance.doubled.append("a lease was given again, or none")
        done = await store.settle(EVERYBODY, settle_all(SETTLE_COMPLETE, claimed), now)
        if done.errors():
            self.balance.wrong.append(f"what was claimed could not be completed: {done.errors()}")


def settle_all(verb: int, claimed: Claimed) -> Settle:
    return Settle(verb, list(claimed.ids), [claimed.token] * len(claimed.ids))
