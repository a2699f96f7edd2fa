-- The file of an embedded store. Times are milliseconds since 1970, UTC.
-- Tenure reads meta, sums, journal, pages, outcomes, output, entities and events; every row of them has a checksum
-- (tenure/store/embedded/content.py). queues, schedules and the views are for people.

CREATE TABLE meta (key TEXT PRIMARY KEY, value, checksum INTEGER NOT NULL) WITHOUT ROWID;

-- What changed since the checkpoint, one row per group of requests, with the events of the same steps. `follows` is the
-- last event before those; where it is not the last of the row before, a row is missing.
CREATE TABLE journal (
    n INTEGER PRIMARY KEY,
    checksum INTEGER NOT NULL,
    first_seq INTEGER NOT NULL,
    last_seq INTEGER NOT NULL,
    follows INTEGER NOT NULL,
    at INTEGER NOT NULL,
    events_checksum INTEGER NOT NULL,
    record BLOB NOT NULL,
    events BLOB NOT NULL
);

-- The checkpoint: 64 jobs a row; the facts for Tenure, specs and shown for the views below.
CREATE TABLE pages (
    page INTEGER PRIMARY KEY,
    checksum INTEGER NOT NULL,
    facts BLOB NOT NULL,
    specs TEXT NOT NULL,
    shown TEXT NOT NULL
);
CREATE TABLE outcomes (
    page INTEGER PRIMARY KEY,
    checksum INTEGER NOT NULL,
    at INTEGER NOT NULL,
    tenants TEXT NOT NULL,
    codes BLOB NOT NULL,
    owners BLOB NOT NULL
);
CREATE TABLE output (
    job INTEGER, kind INTEGER, item INTEGER, checksum INTEGER NOT NULL, at INTEGER NOT NULL, data BLOB NOT NULL,
    PRIMARY KEY (job, kind, item)
) WITHOUT ROWID;
CREATE TABLE entities (name BLOB PRIMARY KEY, checksum INTEGER NOT NULL, fact BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE events (
    first_seq INTEGER PRIMARY KEY,
    last_seq INTEGER NOT NULL,
    follows INTEGER NOT NULL,
    at INTEGER NOT NULL,
    events_checksum INTEGER NOT NULL,
    events BLOB NOT NULL
);

-- How many rows a table has, the sum of their checksums, and the last event that was moved.
CREATE TABLE sums (
    name TEXT PRIMARY KEY, rows INTEGER NOT NULL, total INTEGER NOT NULL, last INTEGER NOT NULL
) WITHOUT ROWID;
INSERT INTO sums VALUES
    ('pages', 0, 0, 0), ('outcomes', 0, 0, 0), ('output', 0, 0, 0), ('entities', 0, 0, 0), ('events', 0, 0, 0);

CREATE TRIGGER pages_come AFTER INSERT ON pages BEGIN
    UPDATE sums SET rows = rows + 1, total = (total + NEW.checksum) & 0xFFFFFFFFFFFF WHERE name = 'pages';
END;
CREATE TRIGGER pages_change AFTER UPDATE ON pages BEGIN
    UPDATE sums SET total = (total + NEW.checksum - OLD.checksum) & 0xFFFFFFFFFFFF WHERE name = 'pages';
END;
CREATE TRIGGER pages_go AFTER DELETE ON pages BEGIN
    UPDATE sums SET rows = rows - 1, total = (total - OLD.checksum) & 0xFFFFFFFFFFFF WHERE name = 'pages';
END;
CREATE TRIGGER outcomes_come AFTER INSERT ON outcomes BEGIN
    UPDATE sums SET rows = rows + 1, total = (total + NEW.checksum) & 0xFFFFFFFFFFFF WHERE name = 'outcomes';
END;
CREATE TRIGGER outcomes_change AFTER UPDATE ON outcomes BEGIN
    UPDATE sums SET total = (total + NEW.checksum - OLD.checksum) & 0xFFFFFFFFFFFF WHERE name = 'outcomes';
END;
CREATE TRIGGER outcomes_go AFTER DELETE ON outcomes BEGIN
    UPDATE sums SET rows = rows - 1, total = (total - OLD.checksum) & 0xFFFFFFFFFFFF WHERE name = 'outcomes';
END;
CREATE TRIGGER output_come AFTER INSERT ON output BEGIN
    UPDATE sums SET rows = rows + 1, total = (total + NEW.checksum) & 0xFFFFFFFFFFFF WHERE name = 'output';
END;
CREATE TRIGGER output_change AFTER UPDATE ON output BEGIN
    UPDATE sums SET total = (total + NEW.checksum - OLD.checksum) & 0xFFFFFFFFFFFF WHERE name = 'output';
END;
CREATE TRIGGER output_go AFTER DELETE ON output BEGIN
    UPDATE sums SET rows = rows - 1, total = (total - OLD.checksum) & 0xFFFFFFFFFFFF WHERE name = 'output';
END;
CREATE TRIGGER entities_come AFTER INSERT ON entities BEGIN
    UPDATE sums SET rows = rows + 1, total = (total + NEW.checksum) & 0xFFFFFFFFFFFF WHERE name = 'entities';
END;
CREATE TRIGGER entities_change AFTER UPDATE ON entities BEGIN
    UPDATE sums SET total = (total + NEW.checksum - OLD.checksum) & 0xFFFFFFFFFFFF WHERE name = 'entities';
END;
CREATE TRIGGER entities_go AFTER DELETE ON entities BEGIN
    UPDATE sums SET rows = rows - 1, total = (total - OLD.checksum) & 0xFFFFFFFFFFFF WHERE name = 'entities';
END;
CREATE TRIGGER events_come AFTER INSERT ON events BEGIN
    UPDATE sums SET rows = rows + 1, total = (total + NEW.events_checksum) & 0xFFFFFFFFFFFF, last = NEW.last_seq WHERE name = 'events';
END;
CREATE TRIGGER events_change AFTER UPDATE ON events BEGIN
    UPDATE sums SET total = (total + NEW.events_checksum - OLD.events_checksum) & 0xFFFFFFFFFFFF WHERE name = 'events';
END;
CREATE TRIGGER events_go AFTER DELETE ON events BEGIN
    UPDATE sums SET rows = rows - 1, total = (total - OLD.events_checksum) & 0xFFFFFFFFFFFF WHERE name = 'events';
END;

CREATE TABLE queues (
    tenant TEXT, queue TEXT,
    scheduled INTEGER, blocked INTEGER, ready INTEGER, running INTEGER, retrying INTEGER,
    completed INTEGER, failed INTEGER, cancelled INTEGER,
    payload_bytes INTEGER, paused INTEGER,
    PRIMARY KEY (tenant, queue)
) WITHOUT ROWID;

-- Empty: this Tenure keeps no schedules. A fire is (schedule, fire time); `template` is a job as it would be enqueued.
CREATE TABLE schedules (
    tenant TEXT, name TEXT,
    owner TEXT, cron TEXT, every_ms INTEGER, zone TEXT, template TEXT,
    start_at INTEGER, end_at INTEGER, fires_max INTEGER, fires INTEGER,
    overlap TEXT, catch_up TEXT, catch_up_max INTEGER, paused INTEGER, last_fire_at INTEGER, next_fire_at INTEGER,
    PRIMARY KEY (tenant, name)
) WITHOUT ROWID;

-- Every job as of meta.as_of.
CREATE VIEW jobs AS
SELECT
    job.value ->> 0 AS id,
    json_extract(pages.specs, '$[' || (job.value ->> 1) || '][0]') AS tenant,
    json_extract(pages.specs, '$[' || (job.value ->> 1) || '][1]') AS queue,
    json_extract(pages.specs, '$[' || (job.value ->> 1) || '][2]') AS task,
    CASE job.value ->> 2
        WHEN 0 THEN 'scheduled' WHEN 1 THEN 'blocked' WHEN 2 THEN 'ready' WHEN 3 THEN 'running'
        WHEN 4 THEN 'retrying' WHEN 5 THEN 'completed' WHEN 6 THEN 'failed' WHEN 7 THEN 'cancelled'
    END AS state,
    job.value ->> 3 AS priority,
    job.value ->> 4 AS attempt,
    nullif(job.value ->> 5, 0) AS run_at,
    job.value ->> 6 AS created_at,
    nullif(job.value ->> 7, 0) AS started_at,
    nullif(job.value ->> 8, 0) AS ended_at,
    job.value ->> 9 AS payload_bytes
FROM pages, json_each(pages.shown) AS job;

CREATE VIEW dead_letters AS
SELECT
    job.value ->> 0 AS id,
    json_extract(pages.specs, '$[' || (job.value ->> 1) || '][0]') AS tenant,
    json_extract(pages.specs, '$[' || (job.value ->> 1) || '][1]') AS queue,
    json_extract(pages.specs, '$[' || (job.value ->> 1) || '][2]') AS task,
    job.value ->> 8 AS failed_at,
    job.value ->> 4 AS attempts,
    job.value ->> 10 AS reason,
    job.value ->> 11 AS error_type,
    job.value ->> 12 AS message,
    job.value ->> 13 AS fingerprint
FROM pages, json_each(pages.shown) AS job
WHERE job.value ->> 2 = 6;
