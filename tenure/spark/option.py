"""The options of `format("tenure")`: read and checked here and nowhere else.

Spark hands options over as texts, with their names in lower case. A name that is not known is refused with the nearest
one: an option that is misspelt and ignored would be a load without its key or a stream from the wrong place. The words
are Kafka's where Kafka has one.
"""

import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple
from urllib.parse import urlsplit

import msgspec

from tenure.core import bound
from tenure.core.duration import milliseconds
from tenure.core.error import InvalidRequest
from tenure.core.job import ATTEMPTS_DEFAULT, Options
from tenure.core.tenant import ANY_TENANT, DEFAULT_TENANT
from tenure.lake.schema import TABLES
from tenure.spark.token import TOKEN_VARIABLE
from tenure.spark.value import NAN_ERROR, NAN_KEEP, NAN_NULL

SERVERS: Final = ("tenure", "tenure+tls", "tenure+unix")
HISTORIES: Final = ("events", "attempts")  # tables that have offsets, and can be streamed
CODECS: Final = ("json", "msgpack")
NANS: Final = (NAN_ERROR, NAN_NULL, NAN_KEEP)
AUTO: Final = "auto"
EARLIEST: Final = "earliest"
LATEST: Final = "latest"
NUMBER_MAX: Final = 2**62
PARTITIONS_MAX: Final = 10_000
IDEMPOTENCY_TTL: Final = "7d"  # as long as a published load is remembered
LOAD_ID_CHARS_MAX: Final = 400  # with the number of a batch it has to stay below the bound of a key
DEFAULT_NAME: Final = "default"  # of a queue or task that every row says for itself
EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
DATE: Final = re.compile(r"\d{4}-\d{2}-\d{2}")
SIZE: Final = re.compile(r"(\d+)([kmgt]?)b?")
VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")

READING: Final = "reading"
STREAMING: Final = "streaming from it"
WRITING: Final = "writing"
SINKING: Final = "streaming into it"


class Known(NamedTuple):
    name: str
    uses: tuple[str, ...]


EVERYWHERE = (READING, STREAMING, WRITING, SINKING)
READS = (READING, STREAMING)
WRITES = (WRITING, SINKING)
KNOWN: Final = {
    known.name.lower(): known
    for known in (
        Known("url", EVERYWHERE),
        Known("tokenFile", EVERYWHERE),
        Known("tokenVariable", EVERYWHERE),
        Known("tenant", EVERYWHERE),
        Known("table", READS),
        Known("columns", READS),
        Known("startingOffsets", READS),
        Known("endingOffsets", (READING,)),
        Known("startingTimestamp", READS),
        Known("endingTimestamp", (READING,)),
        Known("minPartitions", READS),
        Known("failOnDataLoss", READS),
        Known("pushdown", (READING,)),
        Known("maxOffsetsPerTrigger", (STREAMING,)),
        Known("maxBytesPerTrigger", (STREAMING,)),
        Known("queue", WRITES),
        Known("task", WRITES),
        Known("key", WRITES),
        Known("loadId", WRITES),
        Known("payload", WRITES),
        Known("payloadColumns", WRITES),
        Known("codec", WRITES),
        Known("nan", WRITES),
        Known("schemaVersion", WRITES),
        Known("priority", WRITES),
        Known("delay", WRITES),
        Known("ttl", WRITES),
        Known("timeout", WRITES),
        Known("maxAttempts", WRITES),
        Known("idempotencyTtl", WRITES),
        Known("priorityColumn", WRITES),
        Known("runAtColumn", WRITES),
        Known("groupColumn", WRITES),
        Known("queueColumn", WRITES),
        Known("taskColumn", WRITES),
        Known("tags", WRITES),
        Known("tagsColumn", WRITES),
        Known("uniqueKeyColumn", WRITES),
    )
}
# What Spark itself puts among the options of a stream.
OF_SPARK: Final = frozenset({"checkpointlocation", "queryname"})


class Place(msgspec.Struct, frozen=True):
    """Where the server is and on whose behalf it is asked. It names where the token lies and never holds it: a plan, a
    pickled partition and a log have what is in here."""

    url: str
    tenant: str = DEFAULT_TENANT
    token_file: str = ""
    token_variable: str = TOKEN_VARIABLE


class Reading(msgspec.Struct, frozen=True):
    """What a reader was asked for. An offset is a seq, or `earliest` or `latest`. `loose` are columns that may be null
    by the schema that was asked for, though they never are."""

    place: Place
    table: str
    columns: tuple[str, ...] = ()  # all, when empty
    starting: int | str = EARLIEST
    ending: int | str = LATEST
    min_partitions: int = 0
    fail_on_data_loss: bool = True
    pushdown: str = AUTO
    max_offsets: int = 0  # of a trigger; 0 is as many as there are
    max_bytes: int = 0  # of a trigger, likewise
    starting_at_ms: int | None = None  # instead of `starting`, as the next one is of `ending`
    ending_at_ms: int | None = None
    loose: tuple[str, ...] = ()


class Writing(msgspec.Struct, frozen=True):
    """What a writer was asked for. `load_id` is empty when none was given."""

    place: Place
    queue: str
    task: str
    key: str
    load_id: str = ""
    payload: str = ""
    payload_columns: tuple[str, ...] = ()
    codec: str = "json"
    schema_version: int = 0
    priority: int = 0
    delay_ms: int = 0
    ttl_ms: int = 0
    timeout_ms: int = 0
    max_attempts: int = ATTEMPTS_DEFAULT
    idempotency_ttl_ms: int = 0
    priority_column: str = ""
    run_at_column: str = ""
    group_column: str = ""
    nan: str = NAN_ERROR
    queue_column: str = ""
    task_column: str = ""
    tags: tuple[str, ...] = ()
    tags_column: str = ""
    unique_key_column: str = ""

    @property
    def order_columns(self) -> tuple[str, ...]:
        """Those that say how a job is to be treated, and are in no payload unless they are named there."""
        named = (self.priority_column, self.run_at_column, self.group_column, self.queue_column, self.task_column)
        return tuple(name for name in (*named, self.tags_column, self.unique_key_column) if name)

    def job_options(self, queue: str = "", task: str = "", priority: int | None = None) -> Options:
        """What all rows share, or those with this queue, task and priority, checked by the rules of the contract."""
        fields: dict[str, object] = {
            "queue": queue or self.queue or DEFAULT_NAME,
            "task": task or self.task or DEFAULT_NAME,
            "codec": self.codec,
            "schema_version": self.schema_version,
            "priority": self.priority if priority is None else priority,
            "delay_ms": self.delay_ms,
            "max_attempts": self.max_attempts,
            "idempotency_ttl_ms": self.idempotency_ttl_ms,
        }
        for name, given_ms in (("ttl_ms", self.ttl_ms), ("timeout_ms", self.timeout_ms)):
            if given_ms:
                fields[name] = given_ms
        return bound.make_options(**fields)


class Given:
    """Options as Spark gave them, for one use, or for one of several."""

    def __init__(self, options: Mapping[str, str], *uses: str) -> None:
        self._values = {name.lower(): value for name, value in options.items()}
        self._uses = frozenset(uses)
        for name in self._values:
            self._check_name(name)

    def _check_name(self, name: str) -> None:
        known = KNOWN.get(name)
        if known is not None:
            if self._uses.isdisjoint(known.uses):
                raise InvalidRequest(
                    known.name, self._values[name], f"it is for {' and '.join(known.uses)}; leave it out"
                )
        elif name == "token":
            rule = f"options are shown in plans; put it in a file and name that as tokenFile, or in {TOKEN_VARIABLE}"
            raise InvalidRequest("token", "it", rule)
        elif name == "path":
            raise InvalidRequest(
                "path", self._values[name], "say save() and load() without one, and name the server as url"
            )
        elif name not in OF_SPARK:
            mine = [known.name for known in KNOWN.values() if not self._uses.isdisjoint(known.uses)]
            near = {other.lower(): other for other in mine}
            hint = bound.nearest(name, near)
            for lower, other in near.items():
                hint = re.sub(rf"\b{lower}\b", other, hint)
            raise InvalidRequest("options", name, f"there is no such option; {hint}")

    def text(self, name: str, default: str = "") -> str:
        return self._values.get(name.lower(), default).strip()

    def needed(self, name: str, why: str) -> str:
        value = self.text(name)
        if not value:
            raise InvalidRequest(name, value, f"it must be given: {why}")
        return value

    def number(self, name: str, default: int, least: int, most: int) -> int:
        text = self.text(name)
        if not text:
            return default
        rule = f"it must be a whole number from {least} to {most}"
        try:
            value = int(text)
        except ValueError:
            raise InvalidRequest(name, text, rule) from None
        if not least <= value <= most:
            raise InvalidRequest(name, value, rule)
        return value

    def flag(self, name: str, default: bool) -> bool:
        text = self.text(name).lower()
        if text not in ("", "true", "false"):
            raise InvalidRequest(name, text, "it must be true or false")
        return default if not text else text == "true"

    def instant_ms(self, name: str) -> int | None:
        text = self.text(name)
        if not text:
            return None
        if text.isdecimal() and int(text) <= NUMBER_MAX:
            return int(text)
        rule = "it must be a time with a zone, as in 2026-01-31T07:00:00Z, a date (of UTC), or milliseconds since 1970"
        try:
            at = datetime.fromisoformat(text)
        except ValueError:
            raise InvalidRequest(name, text, rule) from None
        if at.tzinfo is None and not DATE.fullmatch(text):
            raise InvalidRequest(name, text, rule)
        at = at if at.tzinfo is not None else at.replace(tzinfo=UTC)
        return (at - EPOCH) // timedelta(milliseconds=1)

    def size_bytes(self, name: str) -> int:
        text = self.text(name).lower()
        found = SIZE.fullmatch(text)
        if text and (found is None or not 0 < int(found[1]) <= NUMBER_MAX):
            raise InvalidRequest(name, text, "it must be a number of bytes above 0, as in 4096, 100k, 8m or 1g")
        return 0 if found is None else int(found[1]) << 10 * " kmgt".index(found[2] or " ")

    def duration_ms(self, name: str, default: str = "0s") -> int:
        text = self.text(name, default)
        return milliseconds(name, int(text) if text.isdecimal() else text)

    def offset(self, name: str, default: str) -> int | str:
        text = self.text(name, default).lower()
        return text if text in (EARLIEST, LATEST) else self._seq(name, text)

    def _seq(self, name: str, text: str) -> int:
        if not text.isdecimal() or int(text) > NUMBER_MAX:
            raise InvalidRequest(name, text, "it must be earliest, latest, or the seq of an event")
        return int(text)

    def names(self, name: str, of: str = "names of columns") -> tuple[str, ...]:
        text = self.text(name)
        names = tuple(part.strip() for part in text.split(",")) if text else ()
        if "" in names or len(set(names)) != len(names):
            raise InvalidRequest(name, text, f"it must be {of} with commas between them, each once")
        return names

    def one_of(self, name: str, default: str, choices: tuple[str, ...]) -> str:
        text = self.text(name, default)
        if text not in choices:
            raise InvalidRequest(name, text, "it must be one of " + ", ".join(choices))
        return text


def place_of(given: Given) -> Place:
    url = given.needed("url", "the server, as in tenure://127.0.0.1:6789")
    check_url(url)
    tenant = given.text("tenant", DEFAULT_TENANT)
    if tenant != ANY_TENANT:
        bound.tenant_name("tenant", tenant)
    variable = given.text("tokenVariable", TOKEN_VARIABLE)
    if not VARIABLE.fullmatch(variable):
        raise InvalidRequest("tokenVariable", "it", "it must be the name of an environment variable, not the token")
    return Place(url, tenant, given.text("tokenFile"), variable)


def check_url(url: str) -> None:
    """Its parts are not repeated in what is raised: a password may be among them."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise InvalidRequest("url", "it", "it cannot be read; it must be as in tenure://127.0.0.1:6789") from None
    if parts.username is not None or parts.password is not None or parts.query or parts.fragment:
        rule = (
            f"it has an address and no more; put a token in a file and name that as tokenFile, or in {TOKEN_VARIABLE}"
        )
        raise InvalidRequest("url", "it", rule)
    if parts.scheme not in SERVERS:
        rule = "tasks of Spark are processes of their own: it must name a server, as in tenure://127.0.0.1:6789"
        raise InvalidRequest("url", f"{parts.scheme}://", rule)
    if parts.scheme != "tenure+unix" and (not parts.hostname or port == 0):
        raise InvalidRequest("url", url, "it must have a host, as in tenure://127.0.0.1:6789")


def read_columns(options: Mapping[str, str]) -> tuple[str, tuple[str, ...]]:
    """The table and the columns: what a schema depends on, which Spark asks for before it says how it will read."""
    return _columns_of(Given(options, *READS))


def _columns_of(given: Given) -> tuple[str, tuple[str, ...]]:
    table = given.needed("table", "one of " + ", ".join(TABLES))
    if table not in TABLES:
        raise InvalidRequest("table", table, "it must be one of " + ", ".join(TABLES))
    columns = given.names("columns")
    for column in columns:
        if column not in TABLES[table].names:
            rule = f"{table} has no such column; {bound.nearest(column, TABLES[table].names)}"
            raise InvalidRequest("columns", column, rule)
    return table, columns


def read_reading(options: Mapping[str, str], is_stream: bool) -> Reading:
    given = Given(options, STREAMING if is_stream else READING)
    place = place_of(given)
    table, columns = _columns_of(given)
    if table not in HISTORIES:
        if is_stream:
            raise InvalidRequest(
                "table", table, "of the tables only events and attempts can be streamed; read it as a batch"
            )
        for name in ("startingOffsets", "endingOffsets", "startingTimestamp", "endingTimestamp"):
            if given.text(name):
                raise InvalidRequest(name, given.text(name), "only events and attempts have offsets; leave it out")
    for timestamp, offsets in (("startingTimestamp", "startingOffsets"), ("endingTimestamp", "endingOffsets")):
        if given.text(timestamp) and given.text(offsets):
            raise InvalidRequest(timestamp, given.text(timestamp), f"either it or {offsets} is given")
    return Reading(
        place,
        table,
        columns,
        given.offset("startingOffsets", EARLIEST),
        given.offset("endingOffsets", LATEST),
        given.number("minPartitions", 0, 1, PARTITIONS_MAX),
        given.flag("failOnDataLoss", True),
        given.one_of("pushdown", AUTO, (AUTO, "true", "false")),
        given.number("maxOffsetsPerTrigger", 0, 1, NUMBER_MAX),
        given.size_bytes("maxBytesPerTrigger"),
        given.instant_ms("startingTimestamp"),
        given.instant_ms("endingTimestamp"),
    )


def read_writing(options: Mapping[str, str], is_stream: bool) -> Writing:
    given = Given(options, SINKING if is_stream else WRITING)
    place = place_of(given)
    if place.tenant == ANY_TENANT:
        raise InvalidRequest("tenant", place.tenant, "a load belongs to one tenant; name it")
    load_id = given.text("loadId")
    if len(load_id.encode()) > LOAD_ID_CHARS_MAX:
        raise InvalidRequest("loadId", load_id, f"it has at most {LOAD_ID_CHARS_MAX} bytes")
    if given.text("payload") and given.names("payloadColumns"):
        raise InvalidRequest(
            "payloadColumns", given.text("payloadColumns"), "either it or payload says what the payload is"
        )
    if given.text("delay") and given.text("runAtColumn"):
        raise InvalidRequest("delay", given.text("delay"), "either it or runAtColumn says when jobs run")
    writing = Writing(
        place,
        _named(given, "queue", "the queue that is filled"),
        _named(given, "task", "the task that the jobs are for"),
        given.needed("key", "the column whose value tells a row from all others; a row that comes again adds no job"),
        load_id,
        given.text("payload"),
        given.names("payloadColumns"),
        given.text("codec", "json") if given.text("payload") else given.one_of("codec", "json", CODECS),
        given.number("schemaVersion", 0, 0, 2**31 - 1),
        _priority(given),
        given.duration_ms("delay"),
        given.duration_ms("ttl"),
        given.duration_ms("timeout"),
        given.number("maxAttempts", ATTEMPTS_DEFAULT, 1, 2**31 - 1),
        given.duration_ms("idempotencyTtl", IDEMPOTENCY_TTL),
        given.text("priorityColumn"),
        given.text("runAtColumn"),
        given.text("groupColumn"),
        _nan(given),
        given.text("queueColumn"),
        given.text("taskColumn"),
        _tags(given),
        given.text("tagsColumn"),
        given.text("uniqueKeyColumn"),
    )
    writing.job_options()  # what is wrong with it is said before a row is read
    return writing


def _named(given: Given, name: str, why: str) -> str:
    """It may be left out where a column says it of every row."""
    return given.text(name) if given.text(f"{name}Column") else given.needed(name, f"{why}, or {name}Column")


def _tags(given: Given) -> tuple[str, ...]:
    tags = given.names("tags", "tags")
    if tags and given.text("tagsColumn"):
        raise InvalidRequest("tags", given.text("tags"), "either it or tagsColumn says what tags rows have")
    bound.make_extras(tags=tags)
    return tags


def _nan(given: Given) -> str:
    if given.text("payload") and given.text("nan"):
        raise InvalidRequest("nan", given.text("nan"), "payload is taken as it stands; leave it out")
    default = NAN_KEEP if given.text("codec") == "msgpack" else NAN_ERROR
    return given.one_of("nan", default, (NAN_ERROR, NAN_NULL) if default == NAN_ERROR else NANS)


def _priority(given: Given) -> int:
    text = given.text("priority", "0")
    read: Callable[[str], object] = int if text.lstrip("-").isdecimal() else str
    return bound.as_int(bound.priority("priority", read(text)))
