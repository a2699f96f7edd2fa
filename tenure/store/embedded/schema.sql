-- The file of an embedded store. Times are milliseconds since 1970, UTC.
-- Tenure reads meta, journal, pages, outcomes, output, entities and events; queues and the views are for people.

CREATE TABLE meta (key TEXT PRIMARY KEY, value) WITHOUT ROWID;

-- What changed since the checkpoint, one row per group of requests, with the events of the same steps.
CREATE TABLE journal (
    n INTEGER PRIMARY KEY,
    checksum INTEGER NOT NULL,
    record BLOB NOT NULL,
    first_seq INTEGER NOT NULL,
    last_seq INTEGER NOT NULL,
    at INTEGER NOT NULL,
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
    page INTEGER PRIMARY KEY, at INTEGER NOT NULL, tenants TEXT NOT NULL, codes BLOB NOT NULL, owners BLOB NOT NULL
);
CREATE TABLE output (job INTEGER, kind INTEGER, item INTEGER, at INTEGER, data BLOB, PRIMARY KEY (job, kind, item))
WITHOUT ROWID;
CREATE TABLE entities (name BLOB PRIMARY KEY, fact BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE events (
    first_seq INTEGER PRIMARY KEY, last_seq INTEGER NOT NULL, at INTEGER NOT NULL, events BLOB NOT NULL
);

CREATE TABLE queues (
    tenant TEXT, queue TEXT,
    scheduled INTEGER, blocked INTEGER, ready INTEGER, running INTEGER, retrying INTEGER,
    completed INTEGER, failed INTEGER, cancelled INTEGER,
    payload_bytes INTEGER, paused INTEGER,
    PRIMARY KEY (tenant, queue)
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
