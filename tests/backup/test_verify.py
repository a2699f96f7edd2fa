"""Damage is found and named, wherever it is."""

import re
import zlib
from collections.abc import Callable
from contextlib import closing
from hashlib import sha256
from pathlib import Path

import apsw
import pytest

from tenure.client.clock import read_clock
from tenure.core.error import Unavailable
from tenure.core.request import QUEUE, Configure
from tenure.core.tenant import Context
from tenure.ops.backup import Run, back_up
from tenure.ops.catalog import object_of
from tenure.ops.error import BackupDamaged
from tenure.ops.fetch import fetch
from tenure.ops.manifest import Chunk, Manifest
from tenure.ops.place import Place, open_place
from tenure.ops.verify import verify_file, verify_place
from tenure.store.embedded import mark
from tenure.store.embedded.content import Unreadable, events_checksum
from tests.backup.rig import connect, fill
from tests.crash.workload import journal_kept
from tests.kill.test_crash import enqueue, opened, save


async def test_store_at_work_is_verified_and_not_changed(tmp_path: Path) -> None:
    path = tmp_path / "jobs.db"
    async with connect(path) as client:
        for number in range(20):
            await client.enqueue(b"x", queue=f"queue-{number % 3}", group="g", unique_key=str(number))
        held = await client.claim("queue-0", "queue-1", n=5)
        before = path.read_bytes(), Path(f"{path}-wal").read_bytes()
        assert verify_file(path).findings == []
        assert (path.read_bytes(), Path(f"{path}-wal").read_bytes()) == before
        await client.complete(held[0])
    assert verify_file(path).findings == []
    assert sorted(found.name for found in tmp_path.iterdir()) == ["jobs.db", "jobs.db-mark", "jobs.db-owner"]


def change(sql: str) -> Callable[[Path], None]:
    def damage(path: Path) -> None:
        db = apsw.Connection(str(path))
        db.execute(sql)
        assert db.changes() > 0
        db.close()

    return damage


def overwrite(path: Path) -> None:
    with path.open("r+b") as file:
        file.seek(-8_192, 2)
        file.write(b"\xff" * 8_192)


DAMAGES = [
    (overwrite, "Tree|page|malformed"),
    (
        change("UPDATE pages SET facts = cast(facts || x'00' AS BLOB) WHERE page = 1"),
        "row 1 of its table pages is not as it was written$",
    ),
    (change("UPDATE journal SET events = x'' WHERE n = 5"), "record 5 says of events is not as it was written$"),
    (change("DELETE FROM journal WHERE n = 4"), "misses record 4"),
    (change("DELETE FROM meta WHERE key = 'secret'"), "meta table lacks secret$"),
    (change("UPDATE entities SET fact = x'01'"), "row b.* of its table entities is not as it was written$"),
    (
        change("UPDATE events SET events = substr(events, 1, length(events) / 2)"),
        "row 1 of its table events is not as it was written$",
    ),
]


async def store_with_a_checkpoint(path: Path) -> None:
    """Pages, a setting, moved events, and three records after them."""
    store = await opened(path)
    await enqueue(store, *[b"x" * 100] * 300)
    await store.configure(Context(), Configure(QUEUE, "work", {"concurrency": 5}), read_clock())
    await save(store)
    for _ in range(3):
        await enqueue(store, b"y")
    with journal_kept():
        await store.close()


@pytest.mark.parametrize(("damage", "finding"), DAMAGES)
async def test_damage_of_a_store_is_named(damage: Callable[[Path], None], finding: str, tmp_path: Path) -> None:
    path = tmp_path / "jobs.db"
    await store_with_a_checkpoint(path)
    assert verify_file(path).findings == []
    damage(path)
    found = verify_file(path)
    assert re.search(finding, "\n".join(found.findings), re.MULTILINE), found.findings
    assert found.is_damaged


def forget_size(events: bytes) -> bytes:
    """A run that was not closed when it was written."""
    return bytes(8) + events[8:]


def lose_tail(events: bytes) -> bytes:
    return events[:-2]


def lose_run(_events: bytes) -> bytes:
    return b""


@pytest.mark.parametrize(
    ("change_events", "finding"),
    [
        (forget_size, "cannot be decoded .ValueError: a run of events has 0 bytes; it was not closed"),
        (lose_tail, "cannot be decoded .(IndexError|DecodeError)"),
        (lose_run, "are not all there: 0 were decoded"),
    ],
)
@pytest.mark.parametrize("table", ["events", "journal"])
async def test_events_that_a_bug_wrote_are_found_and_not_called_damage(
    table: str, change_events: Callable[[bytes], bytes], finding: str, tmp_path: Path
) -> None:
    """Their checksums are right, and the sums of their table too."""
    path = tmp_path / "jobs.db"
    await store_with_a_checkpoint(path)
    last = rewrite_events(path, table, change_events)
    found = verify_file(path)
    assert re.search(finding, "\n".join(found.findings)), found.findings
    assert f"{last} " in found.findings[0]
    assert not found.is_damaged
    store = await opened(path)  # jobs are whole
    if change_events is not lose_run:
        with pytest.raises(Unreadable, match=r"cannot be decoded.*; run tenure verify"):
            await store.events(Context(), "", 1_000, 0, read_clock())
    await store.close()


def rewrite_events(path: Path, table: str, change_events: Callable[[bytes], bytes]) -> int:
    """Of the last row; answers the number of its last event."""
    with closing(apsw.Connection(str(path))) as db:
        columns = "first_seq, last_seq, follows, at, events"
        rows = f"SELECT {columns} FROM {table} WHERE length(events) > 0 ORDER BY first_seq DESC LIMIT 1"
        [(first, last, follows, at, events)] = db.execute(rows)
        written = change_events(events)
        db.execute(
            f"UPDATE {table} SET events = ?, events_checksum = ? WHERE first_seq = ?",
            (written, events_checksum(first, last, follows, at, written), first),
        )
    return int(last)


async def test_file_without_its_last_records_is_found(tmp_path: Path) -> None:
    path = tmp_path / "jobs.db"
    await store_with_a_checkpoint(path)
    assert verify_file(path).findings == []
    noted = Path(f"{path}-mark").read_bytes()
    with closing(apsw.Connection(str(path))) as db:
        [(secret,)] = db.execute("SELECT value FROM meta WHERE key = 'secret'")
    with Path(f"{path}-mark").open("r+b") as file:
        mark.note(file.fileno(), mark.identity(path, secret), 1, 1_000)
    found = verify_file(path)
    assert found.is_damaged
    assert "it ends with record 5, and later ones were on disk" in found.findings[0]
    Path(f"{path}-mark").write_bytes(noted)
    assert verify_file(path).findings == []


async def test_file_of_something_else_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "jobs.db"
    await store_with_a_checkpoint(path)
    for sql, reason in (("PRAGMA user_version=9", "use a newer Tenure"), ("PRAGMA application_id=9", "not a store")):
        db = apsw.Connection(str(path))
        db.execute(sql)
        db.close()
        with pytest.raises(Unavailable, match=reason):
            verify_file(path)


async def test_damage_of_backups_is_named(place: Place, tmp_path: Path) -> None:
    path = tmp_path / "jobs.db"
    manifests: list[Manifest] = []
    for number in range(2):
        await fill(path, 1_000, seed=number)
        manifests.append(back_up(Run(path, place, read_clock)).manifest)
    sound = verify_place(place)
    assert (sound.backups, sound.findings) == (2, [])
    own = [[chunk for chunk in one.chunks if chunk not in other.chunks] for one, other in (manifests, manifests[::-1])]
    lost, cut, other = own[1][0], own[1][1], own[0][0]
    place.delete([lost.object])
    place.put(cut.object, place.get(cut.object)[:-1])
    place.put(other.object, bytes(other.stored_bytes))
    assert sorted(verify_place(place).findings) == sorted(
        [
            f"{place.title}: {lost.object} is missing; restore a backup without it",
            f"{place.title}: {cut.object} is damaged: it has {cut.stored_bytes - 1} bytes instead of"
            f" {cut.stored_bytes}; restore a backup without it",
            f"{place.title}: {other.object} is damaged: it cannot be unpacked; restore a backup without it",
        ]
    )
    name = object_of(manifests[0].name)
    place.put(name, place.get(name).replace(b'"epoch":', b'"epoch":1'))
    assert any(finding.startswith(f"{place.title}: {name} is not") for finding in verify_place(place).findings)


@pytest.mark.parametrize("content", [b"b" * 100, b"a" * 99, b"a" * 101, b"a" * 50_000_000])
def test_chunk_with_other_content_is_not_taken(content: bytes, tmp_path: Path) -> None:
    """Also when it is sound in itself, and when it would unpack to more than there is room for."""
    place = open_place(str(tmp_path), create=True)
    packed = zlib.compress(content)
    chunk = Chunk(f"chunks/{sha256(b'a' * 100).hexdigest()}-01234567", len(packed))
    place.put(chunk.object, packed)
    with pytest.raises(BackupDamaged, match="its content is not what its name says"):
        fetch(place, chunk, 100)


async def test_manifest_under_another_name_is_found(place: Place, tmp_path: Path) -> None:
    await fill(tmp_path / "jobs.db", 10)
    name = back_up(Run(tmp_path / "jobs.db", place, read_clock)).manifest.name
    place.put(object_of(name.replace(name[:4], "2099")), place.get(object_of(name)))
    [finding] = verify_place(place).findings
    assert f"is the manifest of {name}" in finding


def test_place_without_backups_is_a_finding(place: Place) -> None:
    assert verify_place(place).findings == [f"{place.title} holds no backup; make one with tenure backup"]
