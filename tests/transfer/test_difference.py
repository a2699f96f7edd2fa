"""A copy that differs is found out, whatever it differs in, and the job and the field are named."""

import asyncio
from typing import Any, Final

import pytest

import tenure
from tenure.client.client import Client
from tenure.core.request import REMOVE, UPDATE, Change
from tenure.transfer.copy import Copy
from tenure.transfer.difference import COMPARED, LASTING, RULES, Tally, View, compare_rows
from tenure.transfer.row import Row
from tests.transfer.rig import copied, furnish, rows_of, wall_ms

ENDED: Final = {
    "attempt": 1,
    "delivery": 1,
    "worker": "w",
    "started_at": 10**12,
    "ended_at": 10**12,
    "cause": "fail",
    "error": None,
}
# Field -> the job that is changed on its way, and what it becomes there.
CHANGES: Final[dict[str, tuple[str, object]]] = {
    "custom_id": ("ready", "another"),
    "queue": ("ready", "elsewhere"),
    "task": ("ready", "another"),
    "state": ("ready", "scheduled"),
    "priority": ("ready", 5),
    "payload": ("ready", b"other bytes"),
    "result": ("completed", b"another result"),
    "codec": ("ready", "json"),
    "schema_version": ("ready", 5),
    "attempt": ("retrying", 0),
    "delivery": ("retrying", 3),
    "max_attempts": ("ready", 9),
    "created_at": ("ready", 10**12),
    "run_at": ("scheduled", 4 * 10**12),
    "ready_at": ("ready", 10**12),
    "started_at": ("completed", 10**12),
    "ended_at": ("cancelled", 0),
    "expires_at": ("scheduled", 4 * 10**12),
    "worker": ("completed", "another"),
    "progress": ("completed", {"percent": 41, "message": "half", "at": 10**12}),
    "error": ("failed", {"type": "ValueError", "message": "bad", "trace": "", "fingerprint": "f"}),
    "reason": ("failed", "discarded"),
    "group": ("behind", "another"),
    "tags": ("ready", ("red",)),
    "metadata": ("ready", {"who": "you"}),
    "depends_on": ("blocked", ()),
    "parent": ("ready", 1),
    "replays": ("replayed", 2),
    "trace": ("ready", "01-trace"),
    "history": ("failed", [ENDED]),
    "backoff": ("ready", {"kind": "fixed", "base": 1, "factor": 2.0, "cap": 5, "delays": []}),
    "timeout_ms": ("ready", 1),
    "lease_ms": ("ready", 2_000),
    "on_conflict": ("scheduled", "error"),
    "idempotency_ttl_ms": ("ready", 2_000),
    "dependency_policy": ("ready", "any_success"),
    "lifo": ("ready", False),
    "limit_keys": ("ready", ("db:1",)),
    "keep_completed_ms": ("ready", 100_000),
    "keep_completed_count": ("ready", 7),
    "keep_failed_ms": ("ready", 100_000),
    "keep_failed_count": ("ready", 7),
    "unique_key": ("ready", "another"),
    "idempotency_key": ("running", "another"),
}
# Fields that cannot be changed alone: another one follows from them.
NOT_ALONE: Final = {"state": {"state", "run_at"}, "depends_on": {"depends_on", "state"}}
# Not given by the one who copies; or never in use.
STORES_OWN: Final = {"id", "tenant", "lease_until", "flow"}


class Faulty(Copy):
    """Changes one field of one job on its way."""

    id = 0
    field = ""
    value: Any = None

    def _fitting(self, row: Row) -> Row:
        if row["id"] != self.id:
            return row
        changed = {**row, self.field: self.value}
        if self.field == "state":
            changed["run_at"] = 4 * 10**12
        if self.field == "ended_at":
            changed["ended_at"] = row["created_at"] + 1
        if self.field == "depends_on":
            changed["state"] = "ready"
        return changed


def test_every_field_is_tried() -> None:
    assert set(CHANGES) == set(COMPARED) - STORES_OWN


@pytest.mark.parametrize("field", CHANGES)
async def test_field_that_was_changed_on_the_way_is_named(field: str) -> None:
    name, value = CHANGES[field]
    async with tenure.connect("memory://") as source, tenure.connect("memory://") as target:
        ids = await furnish(source)
        await target.as_tenant("other").enqueue_many([b"x"] * 3)
        furnished = wall_ms()
        while wall_ms() <= furnished + 1:  # no job may have ended later than now
            await asyncio.sleep(0)
        copy = Faulty(source, target, "copy", wall_ms)
        copy.id, copy.field, copy.value = ids[name], field, value
        done = await copy.run()
        verified = await copy.verify()
        assert (done.new, done.refused) == (len(ids), 0)
        assert not verified.is_same
        [other] = {(each.kind, each.source) for each in verified.named}
        assert other == ("different", ids[name])
        fields = {each.field for each in verified.named}
        assert fields - ({"ready_at"} if field == "depends_on" else set()) == NOT_ALONE.get(field, {field})
        uneven = {queue.queue for queue in verified.queues if not queue.is_same}
        expected = {"mail", "elsewhere"} if field == "queue" else {(await rows_of(source))[ids[name]]["queue"]}
        assert uneven == (expected if field in LASTING else set())


async def test_job_that_is_gone_and_one_that_came_later_are_named() -> None:
    async with tenure.connect("memory://") as source, tenure.connect("memory://") as target:
        ids = await furnish(source)
        copy = Copy(source, target, "copy", wall_ms)
        await copy.run()
        there = {row["payload"]: id for id, row in (await rows_of(target)).items()}
        await target.change_batch(Change(REMOVE, [there[b"plain"]]))
        await target.change_batch(Change(UPDATE, [there[b"raised"]], payload=b"other"))
        await source.remove(ids["unlimited"])
        later = await source.enqueue(b"later")
        verified = await copy.verify()
        named = {(each.kind, each.source, each.field): each.note for each in verified.named}
        assert named == {
            ("missing", ids["plain"], ""): "",
            ("different", ids["raised"], "payload"): "it changed in the new store after it was copied",
            ("extra", ids["unlimited"], ""): "it is not in the old store any more",
            ("missing", later.id, ""): "it came after the copy had read the store",
        }
        assert verified.differences == 4


async def test_all_differences_are_told_though_few_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tenure.transfer.verify.NAMED_MAX", 2)
    async with tenure.connect("memory://") as source, tenure.connect("memory://") as target:
        await source.enqueue_many([b"x"] * 5)
        copy = Copy(source, target, "copy", wall_ms)
        await copy.run()
        for id in await rows_of(target):
            await target.remove(id)
        told: list[Any] = []
        verified = await copy.verify(told.append)
        assert (len(verified.named), verified.differences, len(told)) == (2, 5, 5)


async def test_setting_that_differs_is_named() -> None:
    async with tenure.connect("memory://") as source, tenure.connect("memory://") as target:
        await furnish(source)
        copy = Copy(source, target, "copy", wall_ms)
        await copy.run()
        await target.configure("queue", "mail", concurrency=7)
        await target.configure("key", "api:", rate=tenure.Rate(1, 1_000))
        verified = await copy.verify()
        found = [(each.subject, each.name, each.setting, each.expected, each.found) for each in verified.settings]
        assert found == [("key", "api:", "rate", None, [1, 1_000, 1]), ("queue", "mail", "concurrency", 50, 7)]
        assert not verified.is_same


async def test_job_that_moved_on_while_it_was_copied_is_named_with_the_reason() -> None:
    async with tenure.connect("memory://") as source, tenure.connect("memory://") as target:
        ids = await furnish(source)
        copy = Copy(source, target, "copy", wall_ms)
        await copy.run()
        await source.change_batch(Change(UPDATE, [ids["plain"]], metadata={"a": "b"}))
        verified = await copy.verify()
        assert [(each.field, each.note) for each in verified.named] == [
            ("metadata", "it changed in the old store after it was read")
        ]


async def test_rules_explain_what_a_copy_changes() -> None:
    async with tenure.connect("memory://") as source, tenure.connect("memory://") as target:
        await furnish(source)
        await target.as_tenant("other").enqueue_many([b"x"] * 3)
        _, verified = await copied(source, target)
        assert verified.is_same
        assert set(verified.expected) == {"new ids", "released"}
    assert all(rule.reason and rule.fields for rule in RULES)


async def test_hash_is_the_same_in_any_order_and_another_for_any_lasting_field(client: Client) -> None:
    await furnish(client)
    rows = list((await rows_of(client)).values())
    one, other = Tally(), Tally()
    for row in rows:
        one.add(row)
    for row in reversed(rows):
        other.add(row)
    assert (one.rows, one.hash) == (other.rows, other.hash)
    assert list(compare_rows(rows[0], dict(rows[0]), View(lambda id: id, 0))) == []
    for field in LASTING:
        changed = Tally()
        for row in rows:
            changed.add({**row, field: "another"} if row is rows[0] else row)
        assert changed.hash != one.hash, field


@pytest.fixture
async def client() -> Any:
    async with tenure.connect("memory://") as client:
        yield client
