"""Every door leads to the same store, under the same rules: who may do what, and what is not there for whom.

The verbs of a store are asked through each door. What a token does not reach is answered exactly as what does not
exist: whole answers are compared, with only the name or number that was asked for taken out.
"""

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, Final

import pytest

from tenure.client.remote import RemoteStore
from tenure.core import request as r
from tenure.core import state
from tenure.core.answer import Answers, Claimed, Extended
from tenure.core.bound import make_claim, make_extras, make_failure, make_options
from tenure.core.clock import Now
from tenure.core.error import Error, Forbidden, Unauthenticated
from tenure.core.tenant import ROLE_NAMES, Context
from tenure.store.behaviour.rig import split
from tenure.store.contract import Store
from tests.conformance.door import token_of, tokens
from tests.server.doors import DOORS, all_open, entered
from tests.server.house import House, token

P, W, OP, A = ROLE_NAMES.values()
FIRST_ID: Final = 5_000  # of the jobs, so that no other number in an answer is taken for one
ABSENT: Final = 987_654_321
FORGED: Final = b"\x01" * 24
HELD: Final = (state.SETTLE_COMPLETE, state.SETTLE_FAIL, state.SETTLE_RELEASE, state.SETTLE_SNOOZE, state.SETTLE_CANCEL)
ACTIONS: Final = range(len(r.ACTION_NAMES))
TOKENS: Final = {
    "mine": token("mine", tenants=("acme",)),
    "some": token("some", tenants=("acme",), queues=("mail",)),
}

Ask = Callable[[Store, Context, Now], Awaitable[Any]]

through_every_door = pytest.mark.parametrize("door", DOORS)


# What is asked.


def job(**fields: Any) -> r.Batch:
    shared, own = split({"queue": "mail", **fields})
    return r.Batch(make_options(**shared), [b"private"], [make_extras(**own)] if own else None)


def claim(queue: str = "mail") -> r.Claim:
    return make_claim((queue,), 1, 0, "w")


def settle(verb: int, id: int, token: bytes | None) -> r.Settle:
    failures = [make_failure("E", "m")] if verb == state.SETTLE_FAIL else None
    return r.Settle(verb, [id], None if token is None else [token], failures=failures)


def change(action: int, id: int, now: Now) -> r.Change:
    return r.Change(action, [id], run_at=now.wall_ms + 1_000 if action == r.DELAY else 0)


def by_token(id: int, token: bytes | None) -> list[Ask]:
    """Everything that a worker says of a job that it holds."""
    texts = {r.PROGRESS: {"percent": 5}, r.LOG: {"text": "x"}, r.EMIT: {"data": b"x"}}
    appends = [r.Append(kind, id, token, **fields) for kind, fields in texts.items()]  # type: ignore[arg-type]
    return [
        *(lambda s, c, n, v=verb: s.settle(c, settle(v, id, token), n) for verb in HELD),
        *(lambda s, c, n, a=append: s.append(c, a, n) for append in appends),
        lambda s, c, n: s.extend(c, r.Extend([id], None if token is None else [token]), n),
    ]


def by_id(id: int) -> list[Ask]:
    return [
        lambda s, c, n: s.get(c, [id], [], n),
        lambda s, c, n: s.watch(c, id, 0, n),
        lambda s, c, n: s.explain(c, id, n),
        lambda s, c, n: s.stream(c, id, r.LOG, 0, 10, 0, n),
        lambda s, c, n: s.stream(c, id, r.EMIT, 0, 10, 0, n),
        *(lambda s, c, n, a=action: s.change(c, change(a, id, n), n) for action in ACTIONS),
    ]


def by_queue(queue: str) -> list[Ask]:
    wanted = r.Filter(queue=queue)
    return [
        lambda s, c, n: s.claim(c, claim(queue), n),
        lambda s, c, n: s.find(c, wanted, 10, "", n),
        lambda s, c, n: s.count(c, queue, n),
        lambda s, c, n: s.groups(c, queue, n),
        lambda s, c, n: s.configure(c, r.Configure(r.QUEUE, queue, {}), n),
        *(lambda s, c, n, a=action: s.change(c, r.Change(a, None, wanted), n) for action in (r.CANCEL, r.REMOVE)),
    ]


def settings(subject: int, name: str, **changes: object) -> Ask:
    return lambda s, c, n: s.configure(c, r.Configure(subject, name, changes), n)


# Each verb, and who may ask it.
VERBS: Final[list[tuple[Ask, int]]] = [
    (lambda s, c, n: s.enqueue(c, job(), n), P),
    (lambda s, c, n: s.load(c, r.Load(r.ABORT, "l"), n), P | A),
    (lambda s, c, n: s.claim(c, claim(), n), W),
    *((ask, W) for ask in by_token(ABSENT, FORGED)),
    (lambda s, c, n: s.get(c, [ABSENT], [], n), P | W | OP),
    (lambda s, c, n: s.stream(c, ABSENT, r.LOG, 0, 10, 0, n), P | W | OP),
    (lambda s, c, n: s.watch(c, ABSENT, 0, n), P | OP),
    (lambda s, c, n: s.find(c, r.Filter(), 10, "", n), P | OP),
    (lambda s, c, n: s.count(c, "", n), P | OP),
    (lambda s, c, n: s.groups(c, "mail", n), OP),
    (lambda s, c, n: s.explain(c, ABSENT, n), OP),
    (lambda s, c, n: s.events(c, "", 10, 0, n), OP),
    (lambda s, c, n: s.change(c, r.Change(r.CANCEL, [ABSENT]), n), P | OP),
    (lambda s, c, n: s.change(c, r.Change(r.REMOVE, [ABSENT]), n), OP),
    (settings(r.QUEUE, "mail"), W | OP),
    (settings(r.QUEUE, "mail", concurrency=5), OP),
    (settings(r.KEY, "k"), OP),
    (settings(r.WORKER, "w"), W | OP),
    (settings(r.TENANT, "acme"), A),
    (settings(r.STORE, ""), A),
]


# What is answered.


def shown(found: object) -> str:
    if isinstance(found, Answers):
        return str([shown(found.item(at).error or vars_of(found.item(at))) for at in range(len(found))])
    if isinstance(found, Extended):
        return f"{found.lease_until} {shown_errors(found.errors)}"
    if isinstance(found, Claimed):
        return str(found.ids)
    if isinstance(found, Error):
        return f"{found.code} {found.message} {sorted(found.fields.items())}"
    return repr(found)


def shown_errors(errors: dict[int, Error] | None) -> list[str]:
    return [f"{at} {shown(error)}" for at, error in sorted((errors or {}).items())]


def vars_of(outcome: Any) -> tuple[object, ...]:
    return (outcome.id, outcome.state, outcome.duplicate, outcome.replaced, outcome.run_at)


class Guest:
    """Somebody who came in by a door with a token."""

    def __init__(self, house: House, store: RemoteStore, tenant: str = "acme") -> None:
        self._house = house
        self._store = store
        self._tenant = tenant

    async def ask(self, ask: Ask, tenant: str = "") -> Any:
        return await ask(self._store, Context(tenant or self._tenant), self._house.clock())

    async def hear(self, ask: Ask, asked_for: object = None, tenant: str = "") -> str:
        """The answer as text, without what was asked for."""
        try:
            text = shown(await self.ask(ask, tenant))
        except Error as error:
            text = shown(error)
        return re.sub(rf"\b{re.escape(str(asked_for))}\b", "?", text) if asked_for else text


class World:
    """A store with a job in every state, and guests of the doors who are not to learn of them."""

    def __init__(self, house: House, context: Context, exits: AsyncExitStack) -> None:
        self.house = house
        self._context = context
        self._exits = exits
        self.jobs: dict[str, int] = {}

    async def guest(self, door: str, token: str) -> Guest:
        return Guest(self.house, await self._exits.enter_async_context(entered(self.house, door, token)))

    async def fill(self) -> None:
        store, context, now = self.house.store, self._context, self.house.clock()
        await store.enqueue(Context("others"), r.Batch(make_options(), [b"x"] * FIRST_ID), now)

        async def push(**fields: Any) -> int:
            return (await store.enqueue(context, job(**{"queue": "secret", **fields}), now)).ids[0]

        for name, verb in (("completed", state.SETTLE_COMPLETE), ("failed", state.SETTLE_FAIL)):
            id = self.jobs[name] = await push(max_attempts=1)
            leased = await store.claim(context, claim("secret"), now)
            await store.settle(context, settle(verb, id, leased.token), now)
        self.jobs["cancelled"] = await push()
        await store.change(context, r.Change(r.CANCEL, [self.jobs["cancelled"]]), now)
        self.jobs["running"] = await push()
        await store.claim(context, claim("secret"), now)
        self.jobs["scheduled"] = await push(delay_ms=60_000)
        self.jobs["blocked"] = await push(depends_on=[self.jobs["scheduled"]])
        self.jobs["ready"] = await push(custom_id="theirs", unique_key="theirs", idempotency_key="theirs")

    async def seen(self) -> object:
        return await self.house.store.get(self._context, list(self.jobs.values()), [], self.house.clock())


@pytest.fixture
async def exits() -> AsyncIterator[AsyncExitStack]:
    async with AsyncExitStack() as stack:
        yield stack


async def world_of(tenant: str, folder: Path, exits: AsyncExitStack) -> World:
    made = World(await exits.enter_async_context(all_open(folder, TOKENS)), Context(tenant), exits)
    await made.fill()
    return made


@pytest.fixture
async def world(tmp_path: Path, exits: AsyncExitStack) -> World:
    """The jobs are of another tenant than the guests."""
    return await world_of("globex", tmp_path, exits)


@pytest.fixture
async def scoped(tmp_path: Path, exits: AsyncExitStack) -> World:
    """The jobs are of the guests' tenant, in a queue that the token `some` does not reach."""
    return await world_of("acme", tmp_path, exits)


# What is counted.


@through_every_door
async def test_requests_are_counted_by_door_command_and_outcome(door: str, world: World) -> None:
    """Those that were answered at once, those that waited, and those that were refused."""
    guest = await world.guest(door, "mine")
    world.house.server.handler.answered.clear()
    patient = make_claim(("mail",), 1, 60_000, "w")
    waiting = asyncio.create_task(guest.hear(lambda s, c, n: s.claim(c, patient, n), 0))
    while not world.house.store._engine.waiting_claims() and not waiting.done():
        await asyncio.sleep(0)
    await guest.hear(lambda s, c, n: s.enqueue(c, job(), n), 0)
    await waiting
    await guest.hear(lambda s, c, n: s.explain(c, ABSENT, n), 0)
    counted = {(name, outcome): count for (at, name, outcome), count in world.house.server.handler.answered.items()}
    names, refused = {
        "grpc": (("Enqueue", "Claim", "Explain"), "JobNotFound"),
        "http": (("PUSHB", "PULLB", "EXPLAIN"), "404"),
    }.get(door, (("PUSHB", "PULLB", "EXPLAIN"), "JobNotFound"))
    assert counted == {(names[0], "ok"): 1, (names[1], "ok"): 1, (names[2], refused): 1}


# One store.


@pytest.mark.parametrize("second", DOORS)
@pytest.mark.parametrize("first", DOORS)
async def test_job_that_came_in_by_one_door_goes_out_by_another(first: str, second: str, tmp_path: Path) -> None:
    async with all_open(tmp_path) as house, entered(house, first) as producer, entered(house, second) as worker:
        context, now = Context(), house.clock()
        options = {"task": "send", "priority": 3, "tags": ["t"], "metadata": {"k": "v"}, "codec": "binary"}
        [id] = (await producer.enqueue(context, job(**options), now)).ids
        leased = await worker.claim(context, claim(), now)
        assert (leased.ids, leased.payloads, leased.attempts) == ([id], [b"private"], [1])
        assert (leased.options[0].task, leased.options[0].priority, leased.options[0].codec) == ("send", 3, "binary")
        done = r.Settle(state.SETTLE_COMPLETE, [id], [leased.token], [b"\xff\x00"])
        assert (await worker.settle(context, done, now)).item(0).error is None
        ended = await producer.watch(context, id, 0, now)
        assert (ended.state, ended.result, ended.worker) == ("completed", b"\xff\x00", "w")
        assert [ended] == await worker.get(context, [id], [], now)


# Who may do what.


@through_every_door
async def test_roles_allow_what_they_say_and_no_more(door: str, tmp_path: Path) -> None:
    async with all_open(tmp_path, tokens()) as house:
        for roles in range(1, 16):
            async with entered(house, door, token_of(roles)) as store:
                for at, (ask, allowed) in enumerate(VERBS):
                    said = await Guest(house, store).hear(ask)
                    assert (" needs the role " in said) is not bool(roles & allowed), (at, roles, said)


@through_every_door
async def test_without_a_known_token_nothing_is_answered(door: str, tmp_path: Path) -> None:
    async with all_open(tmp_path, TOKENS) as house:
        for text in ("", "wrong"):
            for ask, _ in VERBS:
                with pytest.raises(Unauthenticated):
                    async with entered(house, door, text) as store:
                        await Guest(house, store).ask(ask)


# What is not there.


async def compare_ids(guest: Guest, world: World) -> None:
    """Every verb about a job out of reach, in every state, with every kind of token."""
    before = await world.seen()
    await guest.ask(lambda s, c, n: s.enqueue(c, job(), n))
    own = await guest.ask(lambda s, c, n: s.claim(c, claim(), n))
    for id in world.jobs.values():
        asked = zip(by_id(id), by_id(ABSENT), strict=True)
        pairs = [*asked, *(zip(by_token(id, None), by_token(ABSENT, None), strict=True))]
        for known in (FORGED, own.token):
            pairs += zip(by_token(id, known), by_token(ABSENT, known), strict=True)
        for at, (there, absent) in enumerate(pairs):
            assert await guest.hear(there, id) == await guest.hear(absent, ABSENT), at
    assert await world.seen() == before


@through_every_door
async def test_job_of_another_tenant_is_answered_as_one_that_does_not_exist(door: str, world: World) -> None:
    await compare_ids(await world.guest(door, "mine"), world)


@through_every_door
async def test_dependency_on_a_job_of_another_tenant_is_one_on_a_job_that_does_not_exist(
    door: str, world: World
) -> None:
    await compare_dependencies(await world.guest(door, "mine"), world)


@through_every_door
async def test_dependency_on_a_job_of_a_queue_out_of_reach_is_one_on_a_job_that_does_not_exist(
    door: str, scoped: World
) -> None:
    await compare_dependencies(await scoped.guest(door, "some"), scoped)


async def compare_dependencies(guest: Guest, world: World) -> None:
    """In a job, in a batch that is atomic, and in what follows a job that is completed."""

    def after(id: int) -> Ask:
        return lambda s, c, n: s.enqueue(c, job(depends_on=[id]), n)

    def together(id: int) -> Ask:
        batch = job(depends_on=[id])
        batch.atomic = True
        return lambda s, c, n: s.enqueue(c, batch, n)

    def followed(id: int) -> Ask:
        async def ask(s: Store, c: Context, n: Now) -> object:
            mine = (await s.enqueue(c, job(), n)).ids
            leased = await s.claim(c, claim(), n)
            assert leased.ids == mine
            done = r.Settle(state.SETTLE_COMPLETE, mine, [leased.token], followups=[job(depends_on=[id])])
            found = await s.settle(c, done, n)
            [refused] = found.errors().values()
            return type(refused).__name__, refused.message

        return ask

    for id in world.jobs.values():
        for ask in (after, together, followed):
            said = await guest.hear(ask(id), id)
            assert said == await guest.hear(ask(ABSENT), ABSENT)
            assert "DependencyNotFound" in said


@through_every_door
async def test_job_of_a_queue_out_of_reach_is_answered_as_one_that_does_not_exist(door: str, scoped: World) -> None:
    await compare_ids(await scoped.guest(door, "some"), scoped)


@through_every_door
async def test_queue_of_another_tenant_is_answered_as_one_that_does_not_exist(door: str, world: World) -> None:
    before, guest = await world.seen(), await world.guest(door, "mine")
    for there, absent in zip(by_queue("secret"), by_queue("nowhere"), strict=True):
        assert await guest.hear(there, "secret") == await guest.hear(absent, "nowhere")
    assert await world.seen() == before


@through_every_door
async def test_queue_out_of_reach_is_refused_alike_whether_it_exists_or_not(door: str, scoped: World) -> None:
    before, guest = await scoped.seen(), await scoped.guest(door, "some")
    for there, absent in zip(by_queue("secret"), by_queue("nowhere"), strict=True):
        said = await guest.hear(there, "secret")
        assert said == await guest.hear(absent, "nowhere")
        assert said.startswith("Forbidden") or said == "{}"
    assert await scoped.seen() == before


@through_every_door
async def test_tenant_out_of_reach_is_refused_alike_whether_it_exists_or_not(door: str, world: World) -> None:
    before, guest = await world.seen(), await world.guest(door, "mine")
    for ask, _ in VERBS:
        said = await guest.hear(ask, "globex", tenant="globex")
        assert said == await guest.hear(ask, "nobody", tenant="nobody")
        assert said.startswith("Forbidden")
    assert await world.seen() == before


@through_every_door
async def test_what_is_listed_and_which_keys_are_taken_is_ones_own(door: str, world: World) -> None:
    guest = await world.guest(door, "mine")
    assert (await guest.ask(lambda s, c, n: s.find(c, r.Filter(), 100, "", n))).jobs == ()
    assert await guest.ask(lambda s, c, n: s.count(c, "", n)) == {}
    assert (await guest.ask(lambda s, c, n: s.events(c, "", 100, 0, n))).events == ()
    assert await guest.ask(lambda s, c, n: s.get(c, [], ["theirs"], n)) == [None]
    for key in ("custom_id", "unique_key", "idempotency_key"):
        fields = {"queue": "secret", key: "theirs"}
        answers = await guest.ask(lambda s, c, n, f=fields: s.enqueue(c, job(**f), n))  # type: ignore[misc]
        assert not answers.item(0).duplicate
    with pytest.raises(Forbidden):
        await guest.ask(settings(r.STORE, ""))
