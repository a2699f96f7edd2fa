"""The accountant: holds what a database says after its lives against what was asked and answered in them.

It checks a store that it opened itself. In the modes fsync and write everything that was answered must be there; in
relaxed all that was answered before a sync was asked for, once that sync was answered. Whatever the mode: nothing
twice, nothing from nowhere, no number given again, every request whole or not at all.
"""

from collections import Counter
from itertools import pairwise
from pathlib import Path

import apsw
import msgspec

from tenure.client.clock import read_clock
from tenure.core.record import Event, JobRecord
from tenure.core.request import Filter
from tenure.core.tenant import Context
from tenure.store.embedded.sqlite import SqliteStore
from tests.kill.line import LEASE_MS, MAX_ATTEMPTS, Ask, Item, Life, Line, Seen, Tell, perform, read_lines

REMEMBERED_MS = 90_000  # of 120 s
REPEATS_PER_SESSION = 40
RELAXED_BYTES_MAX = 8 * 1024 * 1024
ENDS = {"complete": "completed", "refuse": "failed", "cancel": "cancelled"}

Place = tuple[int, int]  # life and line


class Finding(msgspec.Struct, frozen=True):
    kind: str  # lost, doubled, or wrong
    text: str


class Deed(msgspec.Struct):
    """A request, its answer if there was one, and where they stand. It is covered when the answer must hold."""

    ask: Ask
    asked_at: Place
    tell: Tell | None = None
    told_at: Place = (0, 0)
    covered: bool = False


class Sight(msgspec.Struct):
    """An event that was read."""

    seen: Seen
    covered: bool


class Account:
    """All lives of one database, in order."""

    def __init__(self, lives: list[list[Line]]) -> None:
        self.deeds: list[Deed] = []
        self.sights: list[Sight] = []
        for number, lines in enumerate(lives):
            self._read(number, lines)

    def _read(self, life: int, lines: list[Line]) -> None:
        limit = len(lines) if is_strict(lines) else last_synced(lines)
        open_deeds: dict[int, Deed] = {}
        for at, line in enumerate(lines):
            if isinstance(line, Ask):
                open_deeds[line.n] = Deed(line, (life, at))
                self.deeds.append(open_deeds[line.n])
            elif isinstance(line, Tell):
                deed = open_deeds[line.n]
                deed.tell, deed.told_at = line, (life, at)
                deed.covered = at < limit or deed.ask.on_disk
            elif isinstance(line, Seen):
                self.sights.append(Sight(line, at < limit))

    def answered_jobs(self) -> int:
        """How many jobs were answered as stored, in whatever mode."""
        told = (deed.tell for deed in self.deeds if deed.ask.verb == "enqueue" and deed.tell is not None)
        return sum(1 for tell in told for item in tell.items if is_new(item))

    def covered_jobs(self) -> list[int]:
        """The jobs that were answered as stored, and must be."""
        told = (deed.tell for deed in self.deeds if deed.ask.verb == "enqueue" and deed.covered)
        return [item.id for tell in told if tell is not None for item in tell.items if is_new(item)]


def read_account(folder: Path) -> Account:
    return Account([read_lines(path) for path in sorted(folder.glob("account-*"))])


def is_strict(lines: list[Line]) -> bool:
    return not any(isinstance(line, Life) and line.mode == "relaxed" for line in lines)


def last_synced(lines: list[Line]) -> int:
    """Where the last request for a sync that was answered was made: what stands before it is on disk."""
    asked: dict[int, int] = {}
    last = 0
    for at, line in enumerate(lines):
        if isinstance(line, Ask) and line.on_disk:
            asked[line.n] = at
        elif isinstance(line, Tell) and line.n in asked and not line.error:
            last = max(last, asked[line.n])
    return last


def is_new(item: Item) -> bool:
    return not item.error and not item.duplicate


class Audit:
    """One look at the jobs of a database, beside its account."""

    def __init__(self, account: Account, records: list[JobRecord]) -> None:
        self._account = account
        self._records = {record.id: record for record in records}
        self._by_payload = {record.payload.decode(): record for record in records}
        self.findings: list[Finding] = []
        self.forgotten_bytes = 0  # of jobs that relaxed was allowed to lose, in the last life that lost any

    def run(self) -> list[Finding]:
        self._check_numbers()
        self._check_origin()
        for deed in self._account.deeds:
            self._check_enqueue(deed)
            self._check_followups(deed)
            self._check_end(deed)
        self._check_claims()
        self._check_repeats()
        self._check_sights()
        self._check_loss()
        return self.findings

    def _say(self, kind: str, text: str) -> None:
        self.findings.append(Finding(kind, text))

    # Numbers, and where jobs come from.

    def _check_numbers(self) -> None:
        """Ids, tokens and event numbers over all lives: each was given once."""
        given: dict[int, str] = {}
        for id, payload in [*self._named(), *((id, job.payload.decode()) for id, job in self._records.items())]:
            if given.setdefault(id, payload) != payload:
                self._say("doubled", f"id {id} was given to {given[id]} and to {payload}")
        tokens: dict[str, object] = {}
        for deed in self._claims():
            assert deed.tell is not None
            owner: object = deed.ask.op if deed.ask.counter else deed.asked_at
            if deed.tell.token and tokens.setdefault(deed.tell.token, owner) != owner:
                self._say("doubled", f"token {deed.tell.token} was given to {tokens[deed.tell.token]} and {owner}")
        events: dict[int, Seen] = {}
        for sight in self._account.sights:
            if events.setdefault(sight.seen.seq, sight.seen) != sight.seen:
                self._say("doubled", f"event number {sight.seen.seq} was given twice")

    def _named(self) -> list[tuple[int, str]]:
        """Every id that was told together with its payload."""
        found = []
        for deed in self._account.deeds:
            if deed.tell is None:
                continue
            if deed.ask.verb == "enqueue":
                pairs = zip(deed.tell.items, deed.ask.payloads, strict=False)
                found += [(item.id, payload) for item, payload in pairs if is_new(item)]
            elif deed.ask.verb == "claim":
                pairs = zip(deed.tell.items, deed.tell.payloads, strict=True)
                found += [(item.id, payload) for item, payload in pairs]
        return found

    def _check_origin(self) -> None:
        deeds = self._account.deeds
        sent = {payload for deed in deeds for payload in (*deed.ask.payloads, *deed.ask.followups)}
        copies = Counter(job.payload.decode() for job in self._records.values())
        for payload, count in copies.items():
            if payload not in sent:
                self._say("wrong", f"nobody sent {payload}")
            if count > 1:
                self._say("doubled", f"{payload} is there {count} times")
        names = Counter(job.custom_id for job in self._records.values() if job.custom_id)
        for name, count in names.items():
            if count > 1:
                self._say("doubled", f"custom id {name} has {count} jobs")

    # Requests.

    def _check_enqueue(self, deed: Deed) -> None:
        ask = deed.ask
        if ask.verb != "enqueue":
            return
        if deed.tell is not None and deed.covered:
            for at, item in enumerate(deed.tell.items):
                self._check_item(ask, at, item)
        there = sum(payload in self._by_payload for payload in ask.payloads)
        if not ask.custom_ids and not ask.unique_keys and there not in (0, len(ask.payloads)):
            self._say("wrong", f"{there} of {len(ask.payloads)} jobs of one request are there, from {ask.payloads[0]}")

    def _check_item(self, ask: Ask, at: int, item: Item) -> None:
        if item.error:
            self._say("wrong", f"{ask.payloads[at]} was refused: {item.error}")
            return
        job = self._records.get(item.id)
        if job is None:
            self._say("lost", f"job {item.id} ({ask.payloads[at]}) was answered and is not there")
        elif ask.custom_ids and job.custom_id != ask.custom_ids[at]:
            self._say("wrong", f"job {item.id} has custom id {job.custom_id}, not {ask.custom_ids[at]}")

    def _check_followups(self, deed: Deed) -> None:
        ask = deed.ask
        if not ask.followups:
            return
        there = sum(payload in self._by_payload for payload in ask.followups)
        if there not in (0, len(ask.followups)):
            self._say("wrong", f"{there} of {len(ask.followups)} follow-ups of job {ask.ids[0]} are there")
        job = self._records.get(ask.ids[0])
        if there and (job is None or job.state != "completed"):
            self._say("wrong", f"job {ask.ids[0]} has follow-ups and is not completed")
        if deed.covered and not there and took(deed.tell, 0):
            self._say("lost", f"the follow-ups of job {ask.ids[0]} were answered and are not there")

    def _check_end(self, deed: Deed) -> None:
        state = ENDS.get(deed.ask.verb)
        if state is None or not deed.covered or deed.tell is None:
            return
        for item in deed.tell.items:
            job = self._records.get(item.id)
            if not item.error and (job is None or job.state != state):
                self._say("lost", f"job {item.id} was answered as {state} and is {job.state if job else 'not there'}")

    # Leases.

    def _claims(self) -> list[Deed]:
        return [deed for deed in self._account.deeds if deed.ask.verb == "claim" and deed.tell is not None]

    def _check_claims(self) -> None:
        ended = self._ended()
        leases: dict[int, set[str]] = {}
        for deed in self._claims():
            assert deed.tell is not None
            for item, attempt in zip(deed.tell.items, deed.tell.attempts, strict=True):
                if attempt > MAX_ATTEMPTS:
                    self._say("wrong", f"job {item.id} was leased for attempt {attempt} of {MAX_ATTEMPTS}")
                if deed.covered:
                    leases.setdefault(item.id, set()).add(deed.tell.token)
                for end in ended.get(item.id, []):
                    if end.told_at < deed.asked_at and (end.covered or end.told_at[0] == deed.asked_at[0]):
                        self._say("wrong", f"job {item.id} was answered to {end.ask.verb} and ran again")
        for id, tokens in leases.items():
            job = self._records.get(id)
            if job is None or job.delivery < len(tokens):
                self._say("lost", f"job {id} was leased {len(tokens)} times, of which it knows less")
        for job in self._records.values():
            if job.attempt > MAX_ATTEMPTS:
                self._say("wrong", f"job {job.id} is in attempt {job.attempt} of {MAX_ATTEMPTS}")

    def _ended(self) -> dict[int, list[Deed]]:
        found: dict[int, list[Deed]] = {}
        for deed in self._account.deeds:
            if deed.ask.verb in ENDS and deed.tell is not None:
                for item in deed.tell.items:
                    if not item.error:
                        found.setdefault(item.id, []).append(deed)
        return found

    # Operations and events.

    def _check_repeats(self) -> None:
        """An operation that was answered in one life is answered the same in the next."""
        first: dict[tuple[str, int], Deed] = {}
        for deed in self._account.deeds:
            if not deed.ask.counter or deed.tell is None or deed.ask.verb == "claim":
                continue
            known = first.setdefault(deed.ask.op, deed)
            if known.covered and not same(known.tell, deed.tell):
                self._say("wrong", f"operation {deed.ask.op} was answered {known.tell}, and again {deed.tell}")

    def _check_sights(self) -> None:
        for sight in self._account.sights:
            job = self._records.get(sight.seen.job)
            if sight.covered and job is None:
                self._say("lost", f"job {sight.seen.job} was seen in an event and is not there")
            elif sight.covered and job is not None and sight.seen.kind == "completed" and job.state != "completed":
                self._say("lost", f"job {sight.seen.job} was seen to complete and is {job.state}")

    def _check_loss(self) -> None:
        """What relaxed loses in one life is bounded."""
        lost: Counter[int] = Counter()
        for deed in self._account.deeds:
            if deed.ask.verb == "enqueue" and deed.tell is not None and not deed.covered:
                for item, payload in zip(deed.tell.items, deed.ask.payloads, strict=False):
                    if is_new(item) and item.id not in self._records:
                        lost[deed.told_at[0]] += len(payload)
        for life, size in lost.items():
            if size > RELAXED_BYTES_MAX:
                self._say("lost", f"life {life + 1} lost {size} bytes, more than relaxed may")
        self.forgotten_bytes = sum(lost.values())


def took(tell: Tell | None, at: int) -> bool:
    return tell is not None and at < len(tell.items) and not tell.items[at].error


def same(one: Tell | None, other: Tell | None) -> bool:
    return one is not None and other is not None and (one.items, one.error) == (other.items, other.error)


class CheckedStore(SqliteStore):
    def problems(self) -> list[str]:
        return list(self._engine.verify())


async def check(path: Path, account: Account) -> list[Finding]:
    """Open the database and look at everything; repeats operations, so the database has more jobs afterwards."""
    findings = [Finding("wrong", f"SQLite says: {text}") for text in integrity_of(path)]
    store = CheckedStore(path, "write")
    await store.open(read_clock())
    try:
        findings += [Finding("wrong", text) for text in store.problems()]
        records = await all_jobs(store)
        findings += Audit(account, records).run()
        findings += await check_events(store, account)
        findings += await repeat_operations(store, account, {record.id: record for record in records})
        findings += Audit(account, await all_jobs(store)).run()
        findings += [Finding("wrong", text) for text in store.problems()]
    finally:
        await store.close()
    return list(dict.fromkeys(findings))


def integrity_of(path: Path) -> list[str]:
    db = apsw.Connection(str(path))
    try:
        return [str(row[0]) for row in db.execute("PRAGMA integrity_check") if row[0] != "ok"]
    finally:
        db.close()


async def all_jobs(store: SqliteStore) -> list[JobRecord]:
    found: list[JobRecord] = []
    cursor = ""
    while True:
        page = await store.find(Context(), Filter(), 1_000, cursor, read_clock())
        found += page.jobs
        cursor = page.cursor
        if not cursor:
            return found


async def check_events(store: SqliteStore, account: Account) -> list[Finding]:
    """The log has every event that was seen, and its numbers rise."""
    events = await all_events(store)
    findings = []
    if any(one.seq >= other.seq for one, other in pairwise(events)):
        findings.append(Finding("wrong", "the numbers of events do not rise"))
    known = {event.seq: (event.job, event.type) for event in events}
    for sight in account.sights:
        seen = sight.seen
        if known.get(seen.seq, None if sight.covered else (seen.job, seen.kind)) != (seen.job, seen.kind):
            findings.append(Finding("lost", f"event {seen.seq} was seen and is not in the log"))
    return findings


async def all_events(store: SqliteStore) -> list[Event]:
    found: list[Event] = []
    cursor = ""
    while True:
        page = await store.events(Context(), cursor, 10_000, 0, read_clock())
        found += page.events
        if not page.events and page.cursor == cursor:
            return found
        cursor = page.cursor


async def repeat_operations(store: SqliteStore, account: Account, records: dict[int, JobRecord]) -> list[Finding]:
    """Ask again what had an operation id: answered ones are answered the same, others are done once."""
    findings = []
    mentioned = last_mentions(account)
    for deed in recent_operations(account):
        now = read_clock()
        if deed.ask.verb != "claim":
            told = await perform(store, deed.ask, now)
            if deed.covered and not same(deed.tell, told):
                findings.append(Finding("wrong", f"{deed.ask.op} was answered {deed.tell}, now {told}"))
        elif deed.covered and deed.tell is not None and deed.ask.lease_ms == LEASE_MS:
            held = {item.id for item in deed.tell.items if mentioned[item.id] == deed.told_at}
            if held and all(records[id].state == "running" for id in held if id in records):
                told = await perform(store, deed.ask, now)
                if told.token != deed.tell.token or not held <= {item.id for item in told.items}:
                    findings.append(Finding("wrong", f"claim {deed.ask.op} held {sorted(held)}, now {told}"))
    return findings


def last_mentions(account: Account) -> dict[int, Place]:
    """Where each job was named last."""
    found: dict[int, Place] = {}
    for deed in account.deeds:
        for id in deed.ask.ids:
            found[id] = max(found.get(id, (0, 0)), deed.asked_at)
        for item in deed.tell.items if deed.tell is not None else ():
            found[item.id] = max(found.get(item.id, (0, 0)), deed.told_at)
    return found


def recent_operations(account: Account) -> list[Deed]:
    """The last ones of each session, as long as the store remembers them."""
    sessions: dict[str, list[Deed]] = {}
    oldest = read_clock().wall_ms - REMEMBERED_MS
    last_life = max((deed.asked_at[0] for deed in account.deeds), default=0)
    for deed in account.deeds:
        if deed.ask.counter and (deed.tell.at_ms > oldest if deed.tell else deed.asked_at[0] == last_life):
            sessions.setdefault(deed.ask.session, []).append(deed)
    return [deed for deeds in sessions.values() for deed in deeds[-REPEATS_PER_SESSION:]]
