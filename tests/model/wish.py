"""What the state machine asks for: small name spaces, so that requests collide, and the strategies that draw them.

Jobs are drawn as lists of features, few per job, so that most jobs are simple and every pair of features meets. Times
are drawn relative to now and ids as places in what exists, so that a shrunk example stays meaningful.
"""

from typing import Any, Final, NamedTuple

from hypothesis import strategies as st

from tenure.core.bound import make_claim, make_extras, make_options
from tenure.core.job import Extras, Options
from tenure.core.limit import Rate
from tenure.core.request import Claim
from tenure.core.retry import LISTED, Backoff
from tenure.core.state import FAILED, READY, RETRYING, SCHEDULED

TENANTS: Final = ("a", "b", "c")
QUEUES: Final = ("q1", "q2", "aged")
TASKS: Final = ("t1", "t2")
WORKERS: Final = ("w1", "w2")
KEYS: Final = ("k1", "k2", "m1")
PREFIXES: Final = ("k", "k1", "m")
PAYLOAD_BYTES_MAX: Final = 64

Feature = tuple[str, Any]

OPTION_FEATURES: Final[tuple[Feature, ...]] = (
    ("priority", 5),
    ("priority", -1),
    ("delay_ms", 1_000),
    ("delay_ms", 5_000),
    ("ttl_ms", 1_000),
    ("ttl_ms", 8_000),
    ("max_attempts", 1),
    ("max_attempts", 2),
    ("max_attempts", None),
    ("waits", (1_000,)),
    ("waits", (0,)),
    ("waits", (0, 3_000)),
    ("timeout_ms", 1_500),
    ("timeout_ms", 10_000),
    ("lease_ms", 1_000),
    ("lease_ms", 4_000),
    ("on_conflict", "replace"),
    ("on_conflict", "error"),
    ("dependency_policy", "all_done"),
    ("dependency_policy", "any_success"),
    ("lifo", True),
    ("limit_keys", ("k1",)),
    ("limit_keys", ("k2",)),
    ("limit_keys", ("k1", "m1")),
    ("keep_completed_ms", 0),
    ("keep_completed_ms", 90_000),
    ("keep_completed_count", 1),
    ("keep_failed_ms", 0),
    ("keep_failed_count", 1),
    ("idempotency_ttl_ms", 30_000),
    ("task", "t2"),
    ("task", "t2"),
)

EXTRA_FEATURES: Final[tuple[Feature, ...]] = (
    ("custom_id", "c1"),
    ("custom_id", "c2"),
    ("unique_key", "u1"),
    ("unique_key", "u2"),
    ("idempotency_key", "i1"),
    ("idempotency_key", "i2"),
    ("group", "g1"),
    ("group", "g1"),
    ("group", "g2"),
    ("after_ms", 2_000),
    ("after_ms", -5_000),
    ("expires_ms", 3_000),
    ("expires_ms", 0),
    ("needs", 0),
    ("needs", 1),
    ("needs", 2),
    ("needs", 5),
    ("needs_unknown", 1),
    ("tags", ("red",)),
    ("metadata", {"colour": "blue"}),
    ("leading", "d1"),
    ("trailing", "d2"),
)


class Item(NamedTuple):
    """A job to enqueue, before times and ids are filled in."""

    queue: str
    options: tuple[Feature, ...]
    extras: tuple[Feature, ...]
    payload: Any


class Wish(NamedTuple):
    """A claim."""

    queues: tuple[Any, ...]
    n: int
    wait_ms: int
    worker: str
    tasks: tuple[str, ...] | None
    max_bytes: int
    lease_ms: int
    strict: bool
    tenants: tuple[str, ...]


features = st.sampled_from
items = st.builds(
    Item,
    st.sampled_from((*QUEUES, "q1")),
    st.lists(features(OPTION_FEATURES), max_size=3).map(tuple),
    st.lists(features(EXTRA_FEATURES), max_size=2).map(tuple),
    st.sampled_from((b"a", b"a", b"b" * 10, b"c" * 30, b"c" * 30, b"d" * (PAYLOAD_BYTES_MAX + 1), "no bytes")),
)
batches = st.lists(items, min_size=1, max_size=4)
themes = st.sampled_from(
    (
        Item("q1", (), (), b"a"),
        Item("q2", (), (), b"a"),
        Item("aged", (("priority", 5),), (), b"a"),
        Item("q1", (("task", "t2"),), (), b"b" * 10),
        Item("q1", (), (("group", "g1"),), b"a"),
        Item("q2", (("waits", (1_000,)),), (("group", "g1"),), b"a"),
        Item("q2", (("priority", 5),), (("group", "g1"),), b"a"),
        Item("q1", (("limit_keys", ("k1",)),), (), b"a"),
        Item("q2", (("limit_keys", ("k1", "m1")),), (), b"a"),
        Item("q1", (("limit_keys", ("k1",)),), (("group", "g1"),), b"a"),
        Item("q1", (("timeout_ms", 1_500), ("waits", (0,))), (("group", "g1"),), b"a"),
        Item("q1", (("timeout_ms", 1_500), ("limit_keys", ("k1",))), (), b"a"),
        Item("q1", (("waits", (0,)), ("max_attempts", 2)), (), b"a"),
        Item("q1", (("lifo", True),), (), b"a"),
        Item("q1", (), (("needs", 0),), b"a"),
        Item("q2", (("dependency_policy", "all_done"),), (("needs", 0), ("needs", 1)), b"a"),
        Item("q2", (("keep_completed_ms", 0), ("keep_failed_ms", 0)), (("needs", 0),), b"a"),
        Item("q1", (("ttl_ms", 1_000),), (), b"a"),
        Item("q1", (("delay_ms", 1_000),), (("unique_key", "u1"),), b"a"),
    )
)
wishes = st.builds(
    Wish,
    st.sampled_from(
        (
            ("*",),
            ("*",),
            ("q1",),
            ("q2",),
            ("q1", "q2"),
            ("q*",),
            (("q1", 3), ("q2", 1)),
            ("aged", "q*"),
            ("q2", "q1", "aged"),
        )
    ),
    st.sampled_from((1, 1, 2, 5)),
    st.sampled_from((0, 0, 0, 1_000, 20_000)),
    st.sampled_from(WORKERS),
    st.sampled_from((None, None, None, None, ("t1",), ("t1", "t2"))),
    st.sampled_from((1_000, 1_000, 35)),
    st.sampled_from((0, 0, 1_000, 5_000)),
    st.booleans(),
    st.sampled_from((("*",), ("*",), ("*",), ("a", "b"), ())),
)
places = st.lists(st.integers(0, 40), min_size=1, max_size=3)
failures = st.sampled_from(
    (
        {"type": "ValueError", "message": "no user 17"},
        {"type": "ValueError", "message": "no user 18"},
        {"type": "OSError", "retryable": False},
        {"undecodable": True},
        {"delay_ms": 0},
        {"delay_ms": 2_000},
    )
)
filters = st.sampled_from(
    (
        {},
        {"queue": "q1"},
        {"states": 1 << FAILED},
        {"states": 1 << READY | 1 << SCHEDULED | 1 << RETRYING},
        {"task": "t2"},
        {"tag": "red"},
        {"metadata": (("colour", "blue"),)},
        {"worker": "w1"},
        {"group": "g1"},
        {"custom_id_prefix": "c"},
        {"reason": "discarded"},
        {"queue": "q2", "task": "t2"},
    )
)
queue_settings = st.sampled_from(
    (
        {"paused": True},
        {"rate": (1, 1_000, 1)},
        {"rate": (2, 1_000, 3)},
        {"concurrency": 1},
        {"concurrency": 2},
        {"concurrency": 0},
        {"enqueue_rate": (3, 10_000, 3)},
        {"group_concurrency": 2},
        {"group_concurrency": 3},
        {"group_concurrency": 1},
        {"group_order": "relaxed"},
        {"jobs_max": 3},
        {"bytes_max": 40},
        {"lease_ms": 2_000},
    )
)
key_settings = st.sampled_from(
    (
        {"rate": (1, 1_000, 1)},
        {"rate": (2, 3_000, 2)},
        {"concurrency": 1},
        {"concurrency": 1},
        {"concurrency": 2},
        {"concurrency": 0},
        {"paused_ms": 1_500},
        {"concurrency": 1, "rate": (1, 2_000, 2)},
    )
)
tenant_settings = st.sampled_from(
    (
        {"weight": 2},
        {"weight": 3},
        {"running_max": 1},
        {"running_max": 2},
        {"rate": (1, 1_000, 1)},
        {"jobs_max": 5},
        {"enqueue_rate": (2, 5_000, 4)},
    )
)


def options_of(item: Item) -> Options:
    fields: dict[str, Any] = {"queue": item.queue, "task": "t1", **dict(item.options)}
    if "waits" in fields:
        fields["backoff"] = Backoff(LISTED, delays_ms=fields.pop("waits"))
    for name, _ in item.extras:
        if name in ("leading", "trailing"):
            fields |= {"debounce_ms": 2_000, "debounce_mode": name, "debounce_max_wait_ms": 5_000}
    return make_options(**fields)


def extras_of(item: Item, wall: int, ids: list[int]) -> Extras | None:
    """The extras, with times counted from `wall` and dependencies counted back from the newest of `ids`."""
    fields: dict[str, Any] = {}
    for name, value in item.extras:
        if name == "after_ms":
            fields["run_at"] = wall + value
        elif name == "expires_ms":
            fields["expires_at"] = wall + value
        elif name in ("leading", "trailing"):
            fields["debounce_key"] = value
        elif name == "needs":
            fields.setdefault("depends_on", []).extend(ids[-1 - value : len(ids) - value])
        elif name == "needs_unknown":
            fields.setdefault("depends_on", []).append(10**9)
        else:
            fields[name] = value
    return make_extras(**fields) if fields else None


def claim_of(wish: Wish) -> Claim:
    return make_claim(
        list(wish.queues),
        wish.n,
        wish.wait_ms,
        wish.worker,
        list(wish.tasks) if wish.tasks else None,
        wish.max_bytes,
        wish.lease_ms,
        wish.strict,
    )


def settings_of(changes: dict[str, Any]) -> dict[str, object]:
    return {name: Rate(*value) if isinstance(value, tuple) else value for name, value in changes.items()}
