"""What a child writes down: what it is about to ask, and what it was answered, one line each.

A line is written by one call, so a kill can tear no more than the last one; a reader leaves out a last line without an
end. Lines say enough to ask the same again, in the same words, in another life.
"""

import os
from pathlib import Path

import msgspec

from tenure.core import bound
from tenure.core.answer import Answers, Claimed
from tenure.core.clock import Now
from tenure.core.error import Error
from tenure.core.job import Extras
from tenure.core.request import CANCEL, Batch, Change, Settle
from tenure.core.state import SETTLE_COMPLETE, SETTLE_FAIL, SETTLE_RELEASE, STATE_NAMES
from tenure.core.tenant import Context, OpId
from tenure.store.contract import Store

MAX_ATTEMPTS = 5
LEASE_MS = 60_000
OPTIONS = bound.make_options(queue="work", max_attempts=MAX_ATTEMPTS, keep_completed_count=1_000_000)
SETTLES = {
    "complete": SETTLE_COMPLETE,
    "fail": SETTLE_FAIL,
    "refuse": SETTLE_FAIL,  # for good
    "release": SETTLE_RELEASE,
}


class Life(msgspec.Struct, tag="life"):
    """The first line: the mode of the store in this life."""

    mode: str


class Ask(msgspec.Struct, tag="ask", omit_defaults=True):
    """A request that is about to be made. With a counter it has an operation id."""

    n: int
    verb: str
    session: str = ""
    counter: int = 0
    payloads: list[str] = []
    custom_ids: list[str] = []
    unique_keys: list[str] = []
    ids: list[int] = []
    tokens: list[str] = []
    followups: list[str] = []  # jobs that the first completion brings
    count: int = 0
    wait_ms: int = 0
    lease_ms: int = LEASE_MS
    on_disk: bool = False  # whatever the mode of the store

    @property
    def op(self) -> tuple[str, int]:
        return (self.session, self.counter)


class Item(msgspec.Struct, omit_defaults=True):
    id: int
    state: str = ""
    duplicate: bool = False
    error: str = ""


class Tell(msgspec.Struct, tag="tell", omit_defaults=True):
    """The answer to the ask with this number. A claim has a token, and payloads and attempts beside its items."""

    n: int
    at_ms: int
    items: list[Item] = []
    token: str = ""
    payloads: list[str] = []
    attempts: list[int] = []
    error: str = ""


class Seen(msgspec.Struct, tag="seen"):
    """An event that was read."""

    seq: int
    job: int
    kind: str


Line = Life | Ask | Tell | Seen

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Line).decode


class Pen:
    """Writes an account."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def write(self, line: Line) -> None:
        os.write(self._file, _encode(line) + b"\n")

    def close(self) -> None:
        os.close(self._file)


def read_lines(path: Path) -> list[Line]:
    *whole, _torn = path.read_bytes().split(b"\n")
    return [_decode(line) for line in whole]


async def perform(store: Store, ask: Ask, now: Now) -> Tell:
    """Ask the store; refusals are answers too."""
    op = OpId(ask.session, ask.counter) if ask.counter else None
    context = Context(op=op, durability="fsync" if ask.on_disk else "")
    try:
        if ask.verb == "claim":
            claim = bound.make_claim(("work",), ask.count, ask.wait_ms, "worker", None, lease_ms=ask.lease_ms)
            return _claimed(ask, await store.claim(context, claim, now), now)
        return _answered(ask, await _change(store, context, ask, now), now)
    except Error as error:
        return Tell(ask.n, now.wall_ms, error=error.code)


async def _change(store: Store, context: Context, ask: Ask, now: Now) -> Answers:
    if ask.verb == "enqueue":
        return await store.enqueue(context, _batch(ask), now)
    if ask.verb == "cancel":
        return await store.change(context, Change(CANCEL, ask.ids), now)
    return await store.settle(context, _settle(ask), now)


def _batch(ask: Ask) -> Batch:
    extras: list[Extras | None] | None = None
    if ask.custom_ids:
        extras = [bound.make_extras(custom_id=key) for key in ask.custom_ids]
    elif ask.unique_keys:
        extras = [bound.make_extras(unique_key=key) for key in ask.unique_keys]
    return Batch(OPTIONS, [payload.encode() for payload in ask.payloads], extras)


def _settle(ask: Ask) -> Settle:
    size = len(ask.ids)
    tokens = [bytes.fromhex(token) for token in ask.tokens]
    settle = Settle(SETTLES[ask.verb], ask.ids, tokens)
    if settle.verb == SETTLE_FAIL:
        settle.failures = [bound.make_failure("Broken", "it broke", "", ask.verb == "fail", False, 0)] * size
    if ask.followups:
        batch = Batch(OPTIONS, [payload.encode() for payload in ask.followups])
        settle.followups = [batch, *[None] * (size - 1)]
    return settle


def _answered(ask: Ask, answers: Answers, now: Now) -> Tell:
    items = []
    for at in range(len(answers)):
        outcome = answers.item(at)
        if outcome.error is not None:
            items.append(Item(outcome.id, error=outcome.error.code))
        else:
            items.append(Item(outcome.id, STATE_NAMES[outcome.state], outcome.duplicate))
    return Tell(ask.n, now.wall_ms, items)


def _claimed(ask: Ask, claimed: Claimed, now: Now) -> Tell:
    items = [Item(id, "running") for id in claimed.ids]
    payloads = [payload.decode() for payload in claimed.payloads]
    return Tell(ask.n, now.wall_ms, items, claimed.token.hex(), payloads, list(claimed.attempts))
