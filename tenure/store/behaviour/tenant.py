"""Section 2: a job of another tenant answers exactly as one that does not exist, whatever is asked of it."""

from collections.abc import Awaitable, Callable

from tenure.core.error import Error
from tenure.core.request import EMIT, KEY, LOG, QUEUE, Append, Configure, Extend, Filter
from tenure.core.state import SETTLE_CANCEL, SETTLE_COMPLETE, SETTLE_FAIL, SETTLE_RELEASE, SETTLE_SNOOZE
from tenure.store.behaviour.change import ACTIONS
from tenure.store.behaviour.registry import behaviour
from tenure.store.behaviour.rig import ACME, GLOBEX, Rig
from tenure.store.behaviour.trap import CROSSED_TENANT

ABSENT_ID = 2**53 - 1
TOKEN = b"\x00" * 20
Ask = Callable[[int], Awaitable[object]]


async def told(ask: Ask, id: int) -> object:
    """What somebody learns by asking for the job, with the id taken out."""
    try:
        answer = await ask(id)
    except Error as error:
        return (error.code, str(error).replace(str(id), "#"), str(error.fields).replace(str(id), "#"))
    return repr(answer).replace(str(id), "#")


async def same_as_absent(rig: Rig, ask: Ask) -> None:
    """Asked by the other tenant, a ready, a running and an ended job are all told as one that never was."""
    absent = await told(ask, ABSENT_ID)
    ids = await rig.enqueue_ids([b"secret"] * 3, tags=["t"])
    await rig.claim_one()
    await rig.complete(await rig.claim_one())
    before = [await rig.job(id) for id in ids]
    for id in ids:
        assert await told(ask, id) == absent
    assert [await rig.job(id) for id in ids] == before


@behaviour(2, trap=CROSSED_TENANT)
async def foreign_job_reads_as_absent(rig: Rig) -> None:
    await same_as_absent(rig, lambda id: rig.get(id, GLOBEX))


@behaviour(2)
async def foreign_job_is_explained_as_absent(rig: Rig) -> None:
    await same_as_absent(rig, lambda id: rig.explain(id, GLOBEX))


@behaviour(2)
async def foreign_job_is_watched_as_absent(rig: Rig) -> None:
    await same_as_absent(rig, lambda id: rig.store.watch(rig.context(GLOBEX), id, 0, rig.now()))


@behaviour(2)
async def foreign_job_is_streamed_as_absent(rig: Rig) -> None:
    await same_as_absent(rig, lambda id: rig.stream(id, EMIT, tenant=GLOBEX))
    await same_as_absent(rig, lambda id: rig.stream(id, LOG, tenant=GLOBEX))


@behaviour(2)
async def foreign_job_is_changed_as_absent(rig: Rig) -> None:
    for action in ACTIONS:
        await same_as_absent(rig, changed(rig, action))


def changed(rig: Rig, action: int) -> Ask:
    return lambda id: rig.change_one(action, id, tenant=GLOBEX)


@behaviour(2)
async def foreign_job_is_settled_as_absent(rig: Rig) -> None:
    for verb in (SETTLE_COMPLETE, SETTLE_FAIL, SETTLE_RELEASE, SETTLE_SNOOZE, SETTLE_CANCEL):
        for tokens in ([TOKEN], None):
            await same_as_absent(rig, settled(rig, verb, tokens))


def settled(rig: Rig, verb: int, tokens: list[bytes] | None) -> Ask:
    async def ask(id: int) -> object:
        return repr((await rig.settle(verb, [id], tokens, tenant=GLOBEX)).item(0).error)

    return ask


@behaviour(2)
async def foreign_job_is_settled_as_absent_with_a_genuine_token(rig: Rig) -> None:
    await rig.enqueue(tenant=GLOBEX)
    leased = await rig.claim_one(tenant=GLOBEX)
    for verb in (SETTLE_COMPLETE, SETTLE_FAIL, SETTLE_RELEASE):
        await same_as_absent(rig, settled(rig, verb, [leased.token]))


@behaviour(2)
async def foreign_job_is_extended_as_absent(rig: Rig) -> None:
    async def ask(id: int) -> object:
        extended = await rig.store.extend(rig.context(GLOBEX), Extend([id], [TOKEN]), rig.now())
        return (extended.lease_until, repr(extended.errors))

    await same_as_absent(rig, ask)


@behaviour(2)
async def foreign_job_is_appended_to_as_absent(rig: Rig) -> None:
    for kind in (0, LOG, EMIT):
        await same_as_absent(rig, appended(rig, kind))


def appended(rig: Rig, kind: int) -> Ask:
    return lambda id: rig.append(Append(kind, id, TOKEN, 10, "text", b"data"), GLOBEX)


@behaviour(2, needs=("dependencies",))
async def foreign_job_is_depended_on_as_absent(rig: Rig) -> None:
    await same_as_absent(rig, lambda id: rig.enqueue(depends_on=[id], tenant=GLOBEX))


@behaviour(2, trap=CROSSED_TENANT)
async def foreign_jobs_are_not_listed_counted_or_grouped(rig: Rig) -> None:
    await rig.enqueue(custom_id="c", tags=["t"])
    await rig.enqueue()
    await rig.fail(await rig.claim_one(), retryable=False)
    context, now = rig.context(GLOBEX), rig.now()
    assert await rig.find(Filter(), tenant=GLOBEX) == []
    assert await rig.store.count(context, "", now) == {}
    assert await rig.count(tenant=GLOBEX) == {}
    assert await rig.store.groups(context, "", now) == []
    assert await rig.store.get(context, [], ["c"], now) == [None]
    assert await rig.events(GLOBEX) == []


@behaviour(2)
async def foreign_jobs_are_not_claimed(rig: Rig) -> None:
    await rig.enqueue()
    assert await rig.claim(9, tenant=GLOBEX, queues="*") == []
    assert await rig.claim(9, tenant=GLOBEX, tenants=(GLOBEX, "initech"), queues="*") == []
    assert len(await rig.claim(9, tenant=GLOBEX, tenants=(GLOBEX, ACME))) == 1


@behaviour(2)
async def settings_of_another_tenant_are_not_shown(rig: Rig) -> None:
    await rig.set_queue("q", paused=True)
    await rig.set_key("api:", concurrency=5)
    for subject, name in ((QUEUE, "q"), (KEY, "api:")):
        configure = Configure(subject, "*", {})
        shown = await rig.store.configure(rig.context(GLOBEX), configure, rig.now())
        assert name not in shown
        own = await rig.store.configure(rig.context(ACME), configure, rig.now())
        assert name in own


@behaviour(2)
async def worker_of_several_tenants_settles_in_the_tenant_of_the_job(rig: Rig) -> None:
    await rig.enqueue(tenant=GLOBEX)
    leased = (await rig.claim(1, tenant=ACME, tenants=("*",)))[0]
    assert leased.tenant == GLOBEX
    await rig.complete(leased, tenant=GLOBEX)
    assert await rig.state(leased.id, GLOBEX) == "completed"


@behaviour(2)
async def same_names_in_two_tenants_are_two_queues(rig: Rig) -> None:
    await rig.enqueue(b"acme", tenant=ACME)
    await rig.enqueue(b"globex", tenant=GLOBEX)
    assert (await rig.claim_one(tenant=GLOBEX)).payload == b"globex"
    assert await rig.count(tenant=ACME) == {"ready": 1}
    assert await rig.count(tenant=GLOBEX) == {"running": 1}
