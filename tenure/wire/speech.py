"""How one side of a connection speaks: from what it says to values of the core, and back.

Nothing here knows who asks or executes anything: a `Call` says which verb, with which values, and how to say the
answer. Every value was checked when the call is made; a job of a batch that is wrong is answered alone.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec
from msgspec import UNSET, Raw, UnsetType

from tenure.core import bound, state
from tenure.core.answer import Answers, Outcome
from tenure.core.error import Error, InvalidRequest
from tenure.core.job import Extras, Options
from tenure.core.packed import Texts
from tenure.core.record import JobRecord
from tenure.core.request import Batch, Claim, Filter
from tenure.wire import value
from tenure.wire.column import cut_column
from tenure.wire.command import JobColumns
from tenure.wire.format import Format, kept, nothing, shown
from tenure.wire.option import CORE_NAMES, JustData, asked, in_wire_terms, split
from tenure.wire.piece import InOnePiece, packed_of
from tenure.wire.reader import Reader

OPTIONS_KEPT = 1_000
JUST_DATA = frozenset({JustData})
EXTRA_COLUMNS = [name for name in JobColumns.__struct_fields__ if name not in ("data", "kinds", "kind")]
OLD_STATES = {
    "ready": "waiting",
    "scheduled": "delayed",
    "retrying": "delayed",
    "running": "active",
    "blocked": "waiting-children",
    "cancelled": "failed",
}
FEW_FIRST, FEW_LAST, LIST_16 = 0x90, 0x9F, 0xDC  # how a list of up to 15, or of up to 65,535, begins in MessagePack
STATE_CODES = {name: code for code, name in enumerate(state.STATE_NAMES)}
OF_OLD_STATE = {
    "waiting": ("ready",),
    "delayed": ("scheduled", "retrying"),
    "active": ("running",),
    "waiting-children": ("blocked",),
}
ENDED_AS_FAILED = ("failed", "cancelled")  # both are said as failed in the older protocol
Fields = dict[str, Any]


class Call(NamedTuple):
    verb: str
    arguments: tuple[Any, ...]
    answer: Callable[[Any], Fields]


class Speech:
    """How one side of a connection speaks: the format, and whether it is a client of the older protocol."""

    def __init__(self, reader: Reader, is_old: bool = False) -> None:
        self.reader = reader
        self.form: Format = reader.form
        self.is_old = is_old
        self._null = reader.form.encode(None)
        self.now_ms = 0  # of the command that is being translated
        self._options: dict[tuple[object, ...], Options] = {}
        self._plain_options: dict[str, Options] = {}
        self.claims: dict[tuple[object, ...], Claim] = {}

    # Values that commands share.

    def state(self, name: str) -> str:
        return OLD_STATES.get(name, name) if self.is_old else name

    def options(self, fields: Fields) -> Options:
        """The same object for the same wishes, so that a store keeps it once."""
        try:
            key = tuple(sorted(fields.items()))
            found = self._options.get(key)
        except TypeError:  # a backoff, or something that is no value of a field
            return bound.make_options(**fields)
        if found is None:
            found = bound.make_options(**fields)
            if len(self._options) >= OPTIONS_KEPT:
                self._options.clear()
            self._options[key] = found
        return found

    def plain(self, queue: str) -> Options:
        """Of a job that asks for nothing but a queue."""
        found = self._plain_options.get(queue)
        if found is None:
            found = self.options({"queue": queue, "codec": self.form.name})
            if len(self._plain_options) >= OPTIONS_KEPT:
                self._plain_options.clear()
            self._plain_options[queue] = found
        return found

    def job(self, fields: Fields, queue: str | UnsetType) -> tuple[Options, Extras | None]:
        if not fields and queue is not UNSET:
            return self.plain(queue), None
        options, extras = split(fields, self.is_old)
        if queue is not UNSET:
            options["queue"] = queue
        if "codec" not in options:
            options["codec"] = self.form.name
        if "limit_keys" in options:
            options["limit_keys"] = tuple(options["limit_keys"])
        return self.options(options), bound.make_extras(**extras) if extras else None

    def is_given(self, data: Raw | UnsetType) -> bool:
        """Whether a value was said; to a client of the older protocol null says nothing."""
        return data is not UNSET and bool(data) and not (self.is_old and bytes(data) == self._null)

    def payload(self, data: Raw, codec: str | UnsetType) -> bytes:
        return kept(data, codec, self.form) if self.is_given(data) else nothing(codec, self.form)

    def batch(self, message: Any, jobs: list[Any]) -> tuple[Batch, dict[int, Error]]:
        """The jobs of a batch, and what is wrong with those that are left out of it."""
        if len(jobs) > bound.BATCH_ITEMS_MAX:  # before each is looked at
            raise InvalidRequest("payloads", len(jobs), f"a batch has at most {bound.BATCH_ITEMS_MAX} items")
        shared = asked(message)
        codec = message.codec
        if {type(job) for job in jobs} <= JUST_DATA:
            options, extras = self.job(shared, message.queue)
            if codec is UNSET:
                payloads = [bytes(job.data) for job in jobs]
            else:
                payloads = [self.payload(job.data, codec) for job in jobs]
            return Batch(options, payloads, None if extras is None else [extras] * len(jobs), None), {}
        return self._mixed(shared, message.queue, jobs)

    def column(self, message: Any, jobs: Raw) -> Batch | None:
        """A batch in MessagePack whose jobs ask for nothing of their own; None when it has to be read job by job."""
        view = memoryview(jobs)
        first = view[0]
        width = 3 if first == LIST_16 else 1
        count = int.from_bytes(view[1:3]) if first == LIST_16 else first & 15
        if not 0 < count <= bound.BATCH_ITEMS_MAX or (width == 1 and not FEW_FIRST <= first <= FEW_LAST):
            return None
        payloads = cut_column(bytes(view[width:]), count, message.codec is not UNSET)
        if payloads is None:
            return None
        options, extras = self.job(asked(message), message.queue)
        return Batch(options, payloads, None if extras is None else [extras] * count)

    def _mixed(self, shared: Fields, queue: str | UnsetType, jobs: list[Any]) -> tuple[Batch, dict[int, Error]]:
        payloads: list[bytes] = []
        all_extras: list[Extras | None] = []
        each: list[Options] = []
        wrong: dict[int, Error] = {}
        for at, job in enumerate(jobs):
            item = self.reader.item(job, not self.is_old) if type(job) is Raw else job
            if isinstance(item, Error):
                wrong[at] = item
                continue
            try:
                own = {**shared, **asked(item)}
                options, extras = self.job(own, queue if item.queue is UNSET else item.queue)
                codec = own.get("codec", UNSET)
                payloads.append(self.payload(item.data, codec))
            except Error as error:
                wrong[at] = error
                continue
            each.append(options)
            all_extras.append(extras)
        has_extras = any(extras is not None for extras in all_extras)
        first = each[0] if each else Options()
        return Batch(first, payloads, all_extras if has_extras else None, each), wrong

    def columns(self, message: Any, columns: JobColumns) -> Batch:
        """A batch whose jobs were said in columns. One that is wrong refuses them all."""
        data = packed_of(columns.data) if isinstance(columns.data, InOnePiece) else columns.data
        count = len(data)
        shared = asked(message)
        options, extras = self.job(shared, message.queue)
        if extras is not None:
            raise InvalidRequest("columns", "given", "what one job has besides the others stands among them")
        given: dict[str, Any] = {}
        for name in EXTRA_COLUMNS:
            column = getattr(columns, name)
            if column is not None:
                given[CORE_NAMES.get(name, name)] = column
        each = None
        if columns.kind is not None:
            kinds = [
                self.job({**shared, **asked(kind)}, message.queue if kind.queue is UNSET else kind.queue)[0]
                for kind in columns.kinds or ()
            ]
            if len(columns.kind) != count or not all(0 <= place < len(kinds) for place in columns.kind):
                raise InvalidRequest(
                    "kind", len(columns.kind), f"there must be one of the kinds for each of {count} jobs"
                )
            each = [kinds[place] for place in columns.kind]
        keys: Any = given.get("idempotency_key")
        if isinstance(keys, InOnePiece):
            keys = Texts(packed_of(keys))
        if given.keys() == {"idempotency_key"}:
            return Batch(options, data, None, each, keys=bound.check_keys(count, keys))
        if isinstance(keys, Texts):
            given["idempotency_key"] = list(keys)
        return Batch(options, data, bound.make_extras_of(count, given) if given else None, each)

    def filter(self, which: Any) -> Filter:
        names = [which.state] if isinstance(which.state, str) else which.state
        states = 0
        for name in names:
            for own in ENDED_AS_FAILED if self.is_old and name == "failed" else OF_OLD_STATE.get(name, (name,)):
                if own and own not in STATE_CODES:
                    raise InvalidRequest("state", name, "it must be one of " + ", ".join(STATE_CODES))
                states |= 1 << STATE_CODES[own] if own else 0
        metadata = tuple(sorted(which.metadata.items()))
        texts = (which.worker, which.error, which.fingerprint, which.reason)
        times = (which.from_, which.to, which.ended_before)
        for field, at in zip(("from", "to", "ended_before"), times, strict=True):
            bound.instant_ms(field, at)
        return Filter(
            which.queue, states, which.task, which.tag, metadata, *texts, *times, which.group, which.custom_id_prefix
        )

    def record(self, found: JobRecord) -> Fields:
        """A job for people: its payload as a value, and no field that says nothing."""
        fields = {
            name: value
            for name, value in msgspec.structs.asdict(found).items()
            if value or name in ("id", "attempt", "priority")
        }
        fields["state"] = self.state(found.state)
        fields.pop("payload", None)
        fields["data"] = self.shown_payload(found)
        if found.result is not None:
            fields["result"] = shown(found.result, found.codec, self.form)
        return fields

    def shown_payload(self, found: JobRecord) -> object:
        return (
            None
            if found.payload_blob is not None and not found.payload
            else shown(found.payload, found.codec, self.form)
        )

    # Answers.

    def outcome(self, outcome: Outcome) -> Fields:
        if outcome.error is not None:
            return error_fields(in_wire_terms(outcome.error, ""))
        fields: Fields = {"ok": True, "id": outcome.id, "state": self.state(state.STATE_NAMES[outcome.state])}
        if outcome.duplicate:
            fields["duplicate"] = True
        if outcome.replaced:
            fields["replaced"] = True
        if outcome.run_at:
            fields["run_at"] = outcome.run_at
        return fields

    def one(self, answers: Answers) -> Fields:
        if not answers.other:
            name = self.state(state.STATE_NAMES[answers.state])
            return {"ok": True, "id": answers.ids[0], "state": name, "duplicate": False}
        outcome = answers.item(0)
        if outcome.error is not None:
            raise outcome.error
        fields = self.outcome(outcome)
        fields.setdefault("duplicate", False)
        return fields

    def each(self, answers: Answers) -> Fields:
        """Item by item. In the older protocol, where clients do not look at each, those that were refused also stand
        in `errors`."""
        results = [self.outcome(answers.item(at)) for at in range(len(answers))]
        fields: Fields = {"ids": answers.ids, "results": results}
        if self.is_old:
            errors = [{**said, "index": at} for at, said in enumerate(results) if not said["ok"]]
            if errors:
                fields["errors"] = errors
        return fields

    def settled(self, answers: Answers) -> Fields:
        """Of a batch that was settled. In the older protocol it is an error if any item was refused: to settle the
        others again changes nothing."""
        fields = self.each(answers)
        if self.is_old:
            fields["count"] = len(answers) - len(fields.get("errors", ()))
            if "errors" in fields:
                first = fields["errors"][0]
                what = f"{len(fields['errors'])} of {len(answers)} items were refused"
                fields.update(ok=False, code=first["code"], error=f"{what}; the first: {first['error']}")
        return fields


def error_fields(error: Error) -> Fields:
    fields: Fields = {"ok": False, "error": error.message, "code": error.code}
    after = error.fields.get("retry_after_ms")
    if after is not None:
        fields["retryAfter"] = after
    if error.fields:
        fields["detail"] = error.fields
    return fields


def packed_answers(answers: Answers) -> Fields:
    return {"answers": value.pack_answers(answers)}


def merged(answers: Answers, wrong: dict[int, Error], count: int) -> Answers:
    """The answers of a batch with those of the jobs that were left out of it, in the order in which they came."""
    ids: list[int] = []
    other: dict[int, Outcome] = {}
    given = 0
    for at in range(count):
        if at in wrong:
            ids.append(0)
            other[at] = Outcome(0, error=wrong[at])
            continue
        ids.append(answers.ids[given])
        if answers.other is not None and given in answers.other:
            other[at] = answers.other[given]
        given += 1
    return Answers(ids, answers.state, other, answers.count)
