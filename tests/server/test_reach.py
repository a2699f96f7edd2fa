"""Every verb of the store and every command, asked with a token of one tenant and one queue about what it does not
reach: nothing of it is told, and nothing is done to it. A verb that the server has no rule for is refused.
"""

from collections.abc import AsyncIterator, Callable
from typing import Any, Final, NamedTuple

import msgspec
import pytest

from tenure.core import request, state
from tenure.core.answer import Answers, Claimed, Extended
from tenure.core.bound import make_claim, make_extras, make_options, make_scan
from tenure.core.clock import Now
from tenure.core.error import Error, Forbidden
from tenure.core.record import JobRecord
from tenure.core.request import Append, Batch, Change, Configure, Extend, Filter, Load, Settle
from tenure.core.tenant import ALL_ROLES, Context
from tenure.server.caller import Caller, Grant
from tenure.server.handler import READS, ROLES, Asked, Handler
from tenure.store.contract import VERBS
from tenure.store.embedded.memory import MemoryStore
from tenure.wire.command import COMMANDS
from tenure.wire.speech import Call
from tests.server.house import Clock, serving, token
from tests.server.talk import LINES
from tests.server.test_scope import REQUESTS, TALK_ONLY

OWN: Final = "mail"
SECRET: Final = "secret"
PRIVATE: Final = "private"  # in every text of what is out of reach
FIRST_ID: Final = 10_000  # so that no other number in an answer is taken for an id
CUSTOM: Final = f"{PRIVATE}-key"


class Scene(NamedTuple):
    """A store in which everything but an empty queue is out of the caller's reach."""

    store: MemoryStore
    handler: Handler
    caller: Caller
    clock: Clock
    ids: list[int]  # running, ready, failed, completed in its tenant; ready in another tenant
    leased: Claimed

    async def ask(self, verb: str, *arguments: object) -> Any:
        return await self.handler.execute(self.caller, Asked(), Call(verb, arguments, lambda found: found))

    async def seen(self) -> list[JobRecord | None]:
        """What is out of reach, as it is."""
        found = [await self.store.get(Context(tenant), self.ids, [], self.clock()) for tenant in ("acme", "globex")]
        return [job for jobs in found for job in jobs]


def secret_batch(count: int = 1, **extras: object) -> Batch:
    payloads = [PRIVATE.encode()] * count
    options = make_options(queue=SECRET, task=PRIVATE, max_attempts=1)
    return Batch(options, payloads, [make_extras(tags=(PRIVATE,), **extras) for _ in payloads])


@pytest.fixture
async def scene() -> AsyncIterator[Scene]:
    store, clock = MemoryStore(), Clock()
    await store.open(clock())
    await store.enqueue(Context("others"), Batch(make_options(), [b"x"] * FIRST_ID), clock())
    acme = Context("acme")
    ids = list((await store.enqueue(acme, secret_batch(3), clock())).ids)
    leased = await store.claim(acme, make_claim((SECRET,), 3, 0, "w"), clock())
    token = [leased.token]
    await store.append(acme, Append(request.LOG, ids[0], leased.token, text=PRIVATE), clock())
    failure = request.Failure(PRIVATE, PRIVATE)
    await store.settle(acme, Settle(state.SETTLE_FAIL, [ids[1]], token, failures=[failure]), clock())
    await store.settle(acme, Settle(state.SETTLE_COMPLETE, [ids[2]], token, [PRIVATE.encode()]), clock())
    ids += (await store.enqueue(acme, secret_batch(custom_id=CUSTOM), clock())).ids
    ids += (await store.enqueue(Context("globex"), secret_batch(custom_id=CUSTOM), clock())).ids
    await store.configure(acme, Configure(request.QUEUE, SECRET, {"concurrency": 7}), clock())
    handler = Handler(store, clock, lambda: None)
    grant = Grant("one queue", ALL_ROLES, ("acme",), (OWN,))
    yield Scene(store, handler, Caller(grant, clock), clock, ids, leased)
    await store.close()


OTHER_TOKEN: Final = b"\0" * 32


def own_batch(on_conflict: str = "return", **extras: object) -> Batch:
    return Batch(make_options(queue=OWN, on_conflict=on_conflict), [b"mine"], [make_extras(**extras)])


def tokens(ids: list[int]) -> list[bytes]:
    return [OTHER_TOKEN] * len(ids)


# What each verb is asked about everything that is out of reach.
ASKED: Final[dict[str, Callable[[list[int]], list[tuple[object, ...]]]]] = {
    "enqueue": lambda ids: [
        (secret_batch(),),
        (own_batch(custom_id=CUSTOM),),
        (own_batch("replace", custom_id=CUSTOM),),
        *((own_batch(depends_on=(id,)),) for id in ids),
    ],
    "claim": lambda ids: [(make_claim((name,), 10, 0, "w"),) for name in (SECRET, "*", "s*", OWN)],
    "settle": lambda ids: [
        *((Settle(verb, ids, tokens(ids)),) for verb in (state.SETTLE_COMPLETE, state.SETTLE_FAIL)),
        (Settle(state.SETTLE_RELEASE, ids),),
        (Settle(state.SETTLE_COMPLETE, [1], [OTHER_TOKEN], followups=[secret_batch()]),),
    ],
    "extend": lambda ids: [(Extend(ids, tokens(ids)),), (Extend(ids),)],
    "change": lambda ids: [
        *((Change(action, ids),) for action in range(len(request.ACTION_NAMES))),
        *(
            (Change(action, None, Filter(name)),)
            for action in (request.CANCEL, request.REMOVE)
            for name in (SECRET, "")
        ),
    ],
    "get": lambda ids: [(ids, [CUSTOM])],
    "find": lambda ids: [(Filter(SECRET), 10, ""), (Filter(), 10, ""), (Filter(OWN), 10, "")],
    "count": lambda ids: [(SECRET,), ("",)],
    "groups": lambda ids: [(SECRET,), ("",), (OWN,)],
    "explain": lambda ids: [(id,) for id in ids],
    "configure": lambda ids: [
        (Configure(request.QUEUE, SECRET, {}),),
        (Configure(request.QUEUE, SECRET, {"paused": True}),),
        (Configure(request.QUEUE, "*", {}),),
        (Configure(request.KEY, "k", {"concurrency": 1}),),
        (Configure(request.TENANT, "globex", {"weight": 2}),),
        (Configure(request.STORE, "", {"jobs_max": 1}),),
        (Configure(request.WORKER, "*", {}),),
        (Configure(request.TASK, "send", {}),),
    ],
    "watch": lambda ids: [(id, 0) for id in ids],
    "events": lambda ids: [("", 1_000, 0)],
    "append": lambda ids: [(Append(request.LOG, id, OTHER_TOKEN, text="x"),) for id in ids],
    "stream": lambda ids: [(id, request.LOG, 0, 10, 0) for id in ids],
    "load": lambda ids: [
        (Load(request.STAGE, "l", 0, "w", 0, secret_batch()),),
        (Load(request.STAGE, "l", 0, "w", 0, own_batch(custom_id=CUSTOM)),),
        (Load(request.PUBLISH, "l", parts={0: "w"}),),
        (Load(request.ABORT, "l"),),
        (Load(request.READ, "l"),),
    ],
    "scan": lambda ids: [
        (make_scan(table, 0, 10**6, 100, queue),) for table in ("jobs", "events") for queue in (SECRET, "", OWN)
    ],
    "obliterate": lambda ids: [(SECRET, True)],
}


def text_of(found: object) -> str:
    """All that an answer says, of classes with slots too."""
    if isinstance(found, Answers | Claimed | Extended):
        return repr([text_of(getattr(found, name)) for name in dir(found) if not name.startswith("_")])
    if isinstance(found, Error):
        return f"{found} {vars(found)}"
    if isinstance(found, dict):
        return repr({text_of(key): text_of(value) for key, value in found.items()})
    if isinstance(found, list | tuple):
        return repr([text_of(item) for item in found])
    if isinstance(found, msgspec.Struct):
        return text_of(msgspec.structs.asdict(found))
    return repr(vars(found)) if hasattr(found, "__dict__") and not callable(found) else repr(found)


# Their answers have the ids that were asked for, or how far the ids of the store go, which may be known.
NAMED: Final = ("enqueue", "settle", "extend", "change", "explain", "watch", "append", "stream", "scan")


def test_every_verb_is_in_the_table() -> None:
    assert set(ASKED) == {*VERBS, "obliterate"}
    assert set(ROLES) | {"change", "configure"} == set(ASKED)


def test_every_command_is_in_the_table() -> None:
    assert {name for name, _, _ in REQUESTS} | TALK_ONLY == set(COMMANDS)


@pytest.mark.parametrize("verb", ASKED)
async def test_verb_tells_nothing_of_what_is_out_of_reach_and_does_nothing_to_it(scene: Scene, verb: str) -> None:
    before = await scene.seen()
    counts = [await scene.store.count(Context(tenant), SECRET, scene.clock()) for tenant in ("acme", "globex")]
    for arguments in ASKED[verb](scene.ids):
        try:
            found: object = await scene.ask(verb, *arguments)
        except Error as error:
            found = error
        said = text_of(found)
        assert PRIVATE not in said, (arguments, said)
        assert "concurrency" not in said or isinstance(found, Forbidden), (arguments, said)
        if verb not in NAMED:
            assert not [id for id in scene.ids if str(id) in said], said
    assert await scene.seen() == before
    after = [await scene.store.count(Context(tenant), SECRET, scene.clock()) for tenant in ("acme", "globex")]
    assert after == counts


class Peeking(MemoryStore):
    """A store with a verb that the server has no rule for."""

    def __init__(self) -> None:
        super().__init__()
        self.peeks = 0

    async def peek(self, context: Context, queue: str, now: Now) -> str:
        self.peeks += 1
        return PRIVATE


async def test_verb_without_a_rule_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(ROLES, "peek", READS)
    store, clock = Peeking(), Clock()
    await store.open(clock())
    handler = Handler(store, clock, lambda: None)
    bounded = Caller(Grant("one queue", ALL_ROLES, ("acme",), (OWN,)), clock)
    with pytest.raises(Forbidden):
        await handler.execute(bounded, Asked(), Call("peek", (SECRET,), lambda found: found))
    assert store.peeks == 0
    await store.close()


async def test_command_tells_nothing_of_what_is_out_of_reach_and_does_nothing_to_it() -> None:
    """Every command, about a job and a queue of the same tenant."""
    tokens = {"some": token("some", tenants=("acme",), queues=(OWN,)), "all": token("all")}
    async with serving(tokens=tokens) as house:
        some, everyone = await house.talk(LINES, "some"), await house.talk(LINES, "all")
        await everyone.do("PUSHB", queue="q", tenant="others", jobs=[{"data": 1}] * 5_000)
        secret = {"queue": SECRET, "data": PRIVATE, "custom_id": CUSTOM, "tags": [PRIVATE]}
        ids = [(await everyone.do("PUSH", tenant=tenant, **secret))["id"] for tenant in ("acme", "globex")]

        async def seen() -> list[object]:
            return [await everyone.do("GETJOBS", queue=SECRET, tenant=tenant) for tenant in ("acme", "globex")]

        before = await seen()
        for name, fields, _ in REQUESTS:
            for id in ids:
                asked = dict(fields)
                if "id" in asked:
                    asked["id"] = id
                if "queue" in asked:
                    asked["queue"] = SECRET
                if "filter" in asked:
                    asked["filter"] = {"queue": SECRET}
                if "custom_id" in asked:
                    asked["custom_id"] = CUSTOM
                if asked.get("ids"):
                    asked["ids"] = [id]
                answer = await some.ask(name, **asked)
                assert PRIVATE not in str(answer).replace(CUSTOM, ""), (name, asked, answer)
        assert await seen() == before
