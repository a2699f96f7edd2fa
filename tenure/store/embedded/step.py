"""What the writer does to the file, each a single statement.

A thread that calls SQLite waits for the interpreter after every statement, behind whatever the loop computes, and the
requests behind it wait too. So a transaction of several statements is one INSERT into a view that exists only in the
writer's connection; its trigger does the rest inside SQLite. Every one checks the epoch first.
"""

import apsw
import msgspec

from tenure.store.embedded.content import EVENTS, Value, meta_checksum
from tenure.store.embedded.file import Fenced

FENCED = "fenced"
OWNED = "(SELECT value FROM meta WHERE key = 'epoch')"
MOVED = "(SELECT last FROM sums WHERE name = 'events')"  # events of later numbers are in the journal yet
# The last record whose events were moved, looked for from the newest on: a journal may be long.
LAST_MOVED = f"coalesce((SELECT n FROM journal WHERE first_seq <= {MOVED} ORDER BY n DESC LIMIT 1), 0)"
OLDEST = "n <= min(NEW.position, (SELECT min(n) FROM journal) + NEW.many)"

VIEWS = f"""
PRAGMA temp_store = MEMORY;

CREATE TEMP VIEW large_group AS SELECT
    0 AS epoch, 0 AS n, 0 AS checksum, 0 AS first_seq, 0 AS last_seq, 0 AS follows, 0 AS at,
    0 AS events_checksum, 0 AS none_checksum, 0 AS record, 0 AS events;
CREATE TEMP TRIGGER write_large_group INSTEAD OF INSERT ON large_group BEGIN
    SELECT RAISE(ABORT, '{FENCED}') WHERE NEW.epoch IS NOT {OWNED};
    INSERT OR IGNORE INTO events ({EVENTS}) SELECT {EVENTS} FROM journal
        WHERE n > {LAST_MOVED} AND n < NEW.n AND last_seq >= first_seq ORDER BY n;
    INSERT OR IGNORE INTO events ({EVENTS})
        VALUES (NEW.first_seq, NEW.last_seq, NEW.follows, NEW.at, NEW.events_checksum, NEW.events);
    INSERT OR REPLACE INTO journal (n, checksum, record, {EVENTS}) VALUES (
        NEW.n, NEW.checksum, NEW.record, NEW.first_seq, NEW.last_seq, NEW.follows, NEW.at, NEW.none_checksum, x''
    );
END;

CREATE TEMP VIEW checkpoint AS SELECT 0 AS epoch, 0 AS meta, 0 AS head, 0 AS head_checksum;
CREATE TEMP TRIGGER end_checkpoint INSTEAD OF INSERT ON checkpoint BEGIN
    SELECT RAISE(ABORT, '{FENCED}') WHERE NEW.epoch IS NOT {OWNED};
    INSERT OR REPLACE INTO meta SELECT value ->> 0, value ->> 1, value ->> 2 FROM json_each(NEW.meta);
    INSERT OR REPLACE INTO meta VALUES ('head', NEW.head, NEW.head_checksum);
END;

CREATE TEMP VIEW oldest_records AS SELECT 0 AS epoch, 0 AS position, 0 AS many;
CREATE TEMP TRIGGER drop_oldest_records INSTEAD OF INSERT ON oldest_records BEGIN
    SELECT RAISE(ABORT, '{FENCED}') WHERE NEW.epoch IS NOT {OWNED};
    INSERT OR IGNORE INTO events ({EVENTS}) SELECT {EVENTS} FROM journal
        WHERE {OLDEST} AND last_seq >= first_seq AND first_seq > {MOVED} ORDER BY n;
    DELETE FROM journal WHERE {OLDEST};
END;

-- Events by number, when the store was asked to, and by age; once a minute by size. The oldest first, always.
CREATE TEMP VIEW retention AS SELECT
    0 AS epoch, 0 AS events_from, 0 AS events_after, 0 AS events_bytes, 0 AS outcomes_from,
    0 AS minute, 0 AS minute_checksum;
CREATE TEMP TRIGGER retain INSTEAD OF INSERT ON retention BEGIN
    SELECT RAISE(ABORT, '{FENCED}') WHERE NEW.epoch IS NOT {OWNED};
    DELETE FROM events WHERE first_seq < coalesce((
        SELECT first_seq FROM events WHERE at >= NEW.events_from AND last_seq > NEW.events_after
        ORDER BY first_seq LIMIT 1
    ), 1 << 62);
    DELETE FROM events WHERE NEW.minute IS NOT (SELECT value FROM meta WHERE key = 'tidied') AND first_seq <= (
        SELECT max(first_seq) FROM (
            SELECT first_seq, sum(length(events)) OVER (ORDER BY first_seq DESC) AS size FROM events
        ) WHERE size > NEW.events_bytes
    );
    INSERT OR REPLACE INTO meta SELECT 'tidied', NEW.minute, NEW.minute_checksum
        WHERE NEW.minute IS NOT (SELECT value FROM meta WHERE key = 'tidied');
    DELETE FROM outcomes WHERE at < NEW.outcomes_from;
END;
"""


PUT_META = f"""
INSERT OR REPLACE INTO meta SELECT value ->> 0, value ->> 1, value ->> 2 FROM json_each(?1) WHERE {OWNED} = ?2
"""

_json = msgspec.json.Encoder().encode


def as_json(value: object) -> str:
    return _json(value).decode()


def prepare(db: apsw.Connection) -> None:
    db.execute(VIEWS)


def insert(db: apsw.Connection, view: str, values: tuple[Value, ...]) -> int:
    """How many rows of tables it changed."""
    before = db.total_changes()
    try:
        db.execute(f"INSERT INTO {view} VALUES ({', '.join('?' * len(values))})", values)
    except apsw.ConstraintError as error:
        if str(error).endswith(FENCED):
            raise Fenced from None
        raise
    return db.total_changes() - before


def change(db: apsw.Connection, statement: str, values: tuple[Value, ...], rows: int) -> None:
    """A statement that changes so many rows if the file is ours, and none if it is not."""
    db.execute(statement, values)
    if db.changes() != rows:
        raise Fenced


def save_meta(db: apsw.Connection, epoch: int, values: dict[str, int]) -> None:
    change(db, PUT_META, (as_json(meta_rows(values)), epoch), len(values))


def meta_rows(values: dict[str, int]) -> list[tuple[str, int, int]]:
    return [(key, value, meta_checksum(key, value)) for key, value in values.items()]
