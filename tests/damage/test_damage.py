"""Harmed in any way, a file reads as before or is Damaged: no other exception, and nothing that was not written."""

import shutil
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import apsw
import pytest

from tenure.core.error import Internal, Unavailable
from tenure.engine.restore import Restore
from tenure.ops.verify import verify_file
from tenure.store.embedded.content import UNRELEASED_ID, Damaged, Unreadable, record_checksum
from tenure.store.embedded.file import StoreFile
from tenure.store.embedded.inspection import inspect
from tenure.store.embedded.sqlite import SqliteStore
from tests.damage.campaign import Patient, closed_patient, harm, harm_head, killed_patient
from tests.damage.sample import EVERYBODY, LATER, make_closed, read, same, tables_filled

CASES = 200


@pytest.mark.slow
async def test_a_closed_file_that_is_harmed_is_never_served_otherwise(tmp_path: Path) -> None:
    patient = await closed_patient(tmp_path / "jobs.db")
    assert all(count > 0 for count in tables_filled(patient.whole))
    assert patient.whole.problems == ()
    tally = harm(patient, "jobs.db", CASES, 1)
    assert tally.findings == []
    assert tally.noticed > CASES // 2


@pytest.mark.slow
async def test_a_harmed_head_is_noticed_or_harmless(tmp_path: Path) -> None:
    patient = await closed_patient(tmp_path / "jobs.db")
    assert harm_head(patient, range(0, 8, 4)).findings == []


@pytest.mark.slow
@pytest.mark.parametrize("name", ["jobs.db", "jobs.db-wal"])
@pytest.mark.parametrize("backfilled", [False, True], ids=["", "backfilled"])
async def test_a_killed_store_that_is_harmed_keeps_all_that_was_on_disk(
    name: str, backfilled: bool, tmp_path: Path
) -> None:
    """Its mark says how far the log must reach."""
    patient = await killed_patient(tmp_path / "jobs.db", backfilled, marked=True)
    tally = harm(patient, name, CASES // 2, 2)
    assert tally.findings == []
    assert tally.noticed > 0


@pytest.mark.slow
async def test_without_a_mark_a_harmed_log_ends_after_a_whole_transaction(tmp_path: Path) -> None:
    """So it looks after a loss of power too: an unfinished transaction at the end is not damage."""
    patient = await killed_patient(tmp_path / "jobs.db", True, marked=False)
    tally = harm(patient, "jobs.db-wal", CASES // 4, 3)
    assert tally.findings == []
    assert tally.shorter > 0


async def test_an_unharmed_file_reads_the_same_twice(tmp_path: Path) -> None:
    patient: Patient = await closed_patient(tmp_path / "jobs.db")
    assert same(read(patient.path), patient.whole)


def behind_triggers(path: Path, sql: str) -> None:
    """As a disk would lose it, not as somebody who deletes it."""
    with apsw.Connection(str(path)) as db:
        db.config(apsw.SQLITE_DBCONFIG_ENABLE_TRIGGER, 0)
        db.execute(sql)
        assert db.changes() > 0, sql


TABLES = {
    "pages": "page",
    "outcomes": "page",
    "output": "rowid",
    "entities": "name",
    "events": "first_seq",
}
LOSSES = {
    **{f"a row of {table}": f"DELETE FROM {table}" for table in TABLES},
    "the last record": "DELETE FROM journal WHERE n = (SELECT max(n) FROM journal)",
    "a record": "DELETE FROM journal WHERE n = (SELECT max(n) - 1 FROM journal)",
    "the last row of events": "DELETE FROM events WHERE first_seq = (SELECT max(first_seq) FROM events)",
    "some events": "DELETE FROM events WHERE first_seq = (SELECT first_seq FROM events ORDER BY 1 LIMIT 1 OFFSET 5)",
    "a page's number": "UPDATE pages SET page = page + 1000 WHERE page = 2",
    "an entity's name": "UPDATE entities SET name = x'00' WHERE name = (SELECT max(name) FROM entities)",
    "an entity": "DELETE FROM entities WHERE name = (SELECT max(name) FROM entities)",
    "some output": "DELETE FROM output WHERE item = 0 AND job = (SELECT min(job) FROM output)",
    "a page": "DELETE FROM pages WHERE page = 2",
    "the epoch": "UPDATE meta SET value = value - 1 WHERE key = 'epoch'",
    "the secret": "UPDATE meta SET value = zeroblob(32) WHERE key = 'secret'",
    "a value": "DELETE FROM meta WHERE key = 'reserved_id'",
    "a type": "UPDATE meta SET value = 'text' WHERE key = 'head'",
    "a sum": "UPDATE sums SET total = total + 1 WHERE name = 'pages'",
    "all sums": "DELETE FROM sums",
    "a blob that is text": "UPDATE pages SET facts = cast(facts AS TEXT) WHERE page = 2",
    "a number that is text": "UPDATE outcomes SET at = 'yesterday'",
    "a huge number": "UPDATE outcomes SET page = 9000000000000000000",
}


@pytest.mark.parametrize("sql", LOSSES.values(), ids=LOSSES.keys())
async def test_what_is_lost_is_noticed(sql: str, tmp_path: Path) -> None:
    """And said to be damage, which takes a second look that agrees."""
    await make_closed(tmp_path / "jobs.db")
    behind_triggers(tmp_path / "jobs.db", sql)
    with pytest.raises(Damaged, match=r"jobs\.db is damaged: .*; restore"):
        read(tmp_path / "jobs.db")


async def test_a_file_that_was_emptied_is_not_taken_for_a_new_one(tmp_path: Path) -> None:
    path = tmp_path / "jobs.db"
    await make_closed(path)
    path.write_bytes(b"")
    with pytest.raises(Damaged, match="it is empty, and was not"):
        read(path)
    path.unlink()
    assert read(path).jobs.count(None) == len(read(path).jobs)


async def test_a_lost_log_is_noticed_and_another_file_may_take_the_place(tmp_path: Path) -> None:
    patient = await killed_patient(tmp_path / "jobs.db", True, marked=True)
    without = {name: content for name, content in patient.files.items() if not name.endswith("-wal")}
    found = patient.read(without)
    assert isinstance(found, Damaged)
    assert f"remove {patient.path}-mark" in str(found)
    shutil.copy(patient.path, tmp_path / "copy")
    (tmp_path / "copy").replace(patient.path)
    assert read(patient.path).problems == ()


def harm_version(path: Path) -> None:
    with apsw.Connection(str(path)) as db:
        db.execute("PRAGMA user_version=2")


def harm_application(path: Path) -> None:
    with apsw.Connection(str(path)) as db:
        db.execute("PRAGMA application_id=5")


@pytest.mark.parametrize("harm_head_by", [harm_version, harm_application])
async def test_a_head_that_contradicts_the_rest_is_damage(harm_head_by: Callable[[Path], None], tmp_path: Path) -> None:
    await make_closed(tmp_path / "jobs.db")
    harm_head_by(tmp_path / "jobs.db")
    with pytest.raises(Damaged, match="its head is not as it was written"):
        read(tmp_path / "jobs.db")


@pytest.mark.parametrize("harm_head_by", [harm_version, harm_application])
def test_a_file_of_something_else_is_not_called_damaged(harm_head_by: Callable[[Path], None], tmp_path: Path) -> None:
    with apsw.Connection(str(tmp_path / "jobs.db")) as db:
        db.execute("CREATE TABLE meta (key, value)")
    harm_head_by(tmp_path / "jobs.db")
    with pytest.raises(Unavailable, match="a database of something else"):
        read(tmp_path / "jobs.db")


async def test_a_file_of_an_unreleased_build_is_refused_with_the_way_out(tmp_path: Path) -> None:
    path = tmp_path / "jobs.db"
    await make_closed(path)
    with apsw.Connection(str(path)) as db:
        db.execute(f"PRAGMA application_id={UNRELEASED_ID}")
    with pytest.raises(Unavailable, match="tenure tenants export"):
        read(path)


def inspected(path: Path) -> list[str]:
    with closing(apsw.Connection(str(path))) as db:
        return inspect(path, db)


async def test_inspection_finds_what_opening_does_not_look_at(tmp_path: Path) -> None:
    path = tmp_path / "jobs.db"
    await make_closed(path)
    assert inspected(path) == []
    behind_triggers(path, "UPDATE events SET events = zeroblob(9) WHERE first_seq = 1")
    assert inspected(path)[0] == "row 1 of its table events is not as it was written"


def rewrite_record(path: Path, change: Callable[[bytes], bytes]) -> None:
    """A record as a bug might have written it: its checksum is right."""
    with closing(apsw.Connection(str(path))) as db:
        rows = "SELECT n, record FROM journal WHERE length(record) > 0 ORDER BY n DESC LIMIT 1"
        [(n, record)] = db.execute(rows)
        written = change(record)
        db.execute("UPDATE journal SET record = ?, checksum = ? WHERE n = ?", (written, record_checksum(n, written), n))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda record: b"\x09" + record[1:], "a record of version 9"),
        (lambda record: record + b"\x01\x02\x00\x00\x00\xff\xff", "Error"),
    ],
    ids=["a newer version", "rows that are none"],
)
async def test_what_was_written_so_is_a_bug_and_not_damage(
    change: Callable[[bytes], bytes], said: str, tmp_path: Path
) -> None:
    path = tmp_path / "jobs.db"
    await make_closed(path)
    rewrite_record(path, change)
    before = path.read_bytes()
    with pytest.raises(Internal, match=f"was not opened: .*{said}.*a bug in Tenure.*left as it is") as caught:
        StoreFile(path).examine()
    assert caught.value.__cause__ is not None
    assert "restore" not in str(caught.value)
    assert path.read_bytes() == before
    found = verify_file(path)
    assert not found.is_damaged
    assert any("cannot be decoded" in finding for finding in found.findings)


@pytest.mark.parametrize("kind", [AssertionError, AttributeError, TypeError, KeyError, ValueError])
async def test_bug_in_restoring_is_not_called_damage(
    kind: type[Exception], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "jobs.db"
    await make_closed(path)

    def finishing(*_: object) -> None:
        raise kind("planted")

    monkeypatch.setattr(Restore, "finishing", finishing)
    with pytest.raises(Internal, match=r"planted.*a bug in Tenure") as caught:
        read(path)
    assert isinstance(caught.value.__cause__, kind)
    behind_triggers(path, "DELETE FROM pages WHERE page = 2")
    with pytest.raises(Damaged):  # the same bug, and damage beside it
        read(path)


async def test_reader_in_a_serving_store_asks_for_a_second_look(tmp_path: Path) -> None:
    path = tmp_path / "jobs.db"
    await make_closed(path)
    behind_triggers(path, "UPDATE events SET events = zeroblob(9) WHERE first_seq = 1")
    store = SqliteStore(path)
    await store.open(LATER)
    with pytest.raises(Unreadable, match=rf"events 1 to .*; run tenure verify {path}") as caught:
        await store.events(EVERYBODY, "", 10, 0, LATER)
    assert "restore" not in str(caught.value)
    await store.close()
    assert verify_file(path).is_damaged
