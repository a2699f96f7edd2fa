"""What may differ between a job and its copy, and what must not.

Two rows are compared field by field. A field that differs is a difference, unless one of the rules below explains it.
The rules are all there is: what no rule explains is named.
"""

import hashlib
from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

import msgspec

from tenure.core.table import JOB_COLUMNS
from tenure.transfer.row import Row

MISSING: Final = "missing"  # not in the store that was copied to
EXTRA: Final = "extra"  # not, or not any more, in the store that was copied from
REFUSED: Final = "refused"  # by the store that was copied to
DIFFERENT: Final = "different"

BLOBS: Final = ("payload_blob", "result_blob")
COMPARED: Final = tuple(name for name in JOB_COLUMNS if name not in BLOBS)
_WAITING: Final = ("scheduled", "retrying")
_TERMINAL: Final = ("completed", "failed", "cancelled")


class Difference(msgspec.Struct, frozen=True):
    """One field of one job, or a whole job that is on one side only. `source` and `target` are its ids, 0 if none."""

    kind: str
    tenant: str
    queue: str
    source: int
    target: int
    field: str = ""
    expected: Any = None
    found: Any = None
    note: str = ""


class View(NamedTuple):
    """What the rules need to know besides the two rows."""

    translate: Callable[[int], int]  # the id of a job in the other store, 0 if it has none
    began_ms: int  # when the copy began
    tenant: str = ""  # of the store that was copied to, where it is another


class Case(NamedTuple):
    """A field that differs, and the two rows."""

    field: str
    source: Row
    found: Row
    view: View


class Rule(NamedTuple):
    name: str
    fields: tuple[str, ...]
    reason: str
    explains: Callable[[Case], bool]


def _is_new_id(case: Case) -> bool:
    field, source, found, view = case
    if field == "depends_on":
        translated = [view.translate(id) for id in source["depends_on"] or ()]
        kept = tuple(dict.fromkeys(id for id in translated if id))
        return kept == tuple(found["depends_on"] or ())
    return view.translate(source[field]) == int(found[field])


def _is_released(case: Case) -> bool:
    field, source, found, _ = case
    if source["state"] != "running" or found["state"] not in ("ready", "scheduled"):
        return False
    if field == "attempt":
        return bool(found["attempt"] == source["attempt"] - 1)
    if field == "lease_until":
        return bool(found["lease_until"] == 0)
    # The lease may have been prolonged since: by its holder, or because the old store was not open meanwhile.
    return field == "state" or bool(found["run_at"] <= source["lease_until"])


def _is_due(case: Case) -> bool:
    field, source, found, view = case
    if found["state"] != "ready" or found["run_at"] > found["ready_at"]:
        return False
    if field == "state":
        return bool(source["state"] in _WAITING)
    return bool(source["state"] in (*_WAITING, "running") or source["run_at"] >= view.began_ms)


def _is_expired(case: Case) -> bool:
    _, source, found, view = case
    if found["reason"] != "expired" or not 0 < source["expires_at"] <= found["ended_at"]:
        return False
    is_new = source["reason"] == "expired" and source["ended_at"] >= view.began_ms
    return is_new or source["state"] not in _TERMINAL


def _is_fingerprint(case: Case) -> bool:
    ours, theirs = case.source["error"], case.found["error"]
    if ours is None or theirs is None or ours["fingerprint"]:
        return False
    return bool({**ours, "fingerprint": theirs["fingerprint"]} == theirs)


def _is_set(case: Case) -> bool:
    return bool(case.source["run_at"] == 0 and case.found["run_at"] == case.source["created_at"])


def _is_renamed(case: Case) -> bool:
    return bool(case.view.tenant and case.found["tenant"] == case.view.tenant)


RULES: Final = (
    Rule(
        "new ids",
        ("id", "depends_on", "parent"),
        "a store gives its own ids; dependencies and parents are named by them, and those that are gone from the old"
        " store are left out",
        _is_new_id,
    ),
    Rule(
        "released",
        ("state", "attempt", "run_at", "lease_until"),
        "a running job comes in as released: the attempt is given back, and it is not ready before the old lease is"
        " over",
        _is_released,
    ),
    Rule(
        "became due",
        ("state", "ready_at"),
        "its time came since the copy began, in each store by its own clock",
        _is_due,
    ),
    Rule(
        "expired",
        ("state", "reason", "ended_at", "ready_at"),
        "its expires_at came since the old store was read",
        _is_expired,
    ),
    Rule("fingerprint", ("error",), "an error without a fingerprint gets one", _is_fingerprint),
    Rule("run_at", ("run_at",), "a job without a time to run at has that of its enqueue", _is_set),
    Rule("tenant", ("tenant",), "it was imported for another tenant", _is_renamed),
)


def compare_rows(source: Row, found: Row, view: View) -> Iterator[tuple[str, str]]:
    """Each field that differs, and the name of the rule that explains it or an empty text."""
    for field in COMPARED:
        ours, theirs = source[field], found[field]
        if ours != theirs and canonical(field, ours) != canonical(field, theirs):
            case = Case(field, source, found, view)
            explained = (rule.name for rule in RULES if field in rule.fields and rule.explains(case))
            yield field, next(explained, "")


def canonical(field: str, value: Any) -> Any:
    """The same for what means the same: a list is a tuple, and nothing is none."""
    if field in ("payload", "result") or isinstance(value, bytes):
        return value
    if isinstance(value, (list, tuple)):
        return tuple(canonical("", each) for each in value) or None
    if isinstance(value, dict):
        return {key: canonical("", each) for key, each in value.items()} or None
    return value or None


def shown(value: Any) -> Any:
    """For people and JSON: of bytes their size and hash."""
    if isinstance(value, bytes):
        return f"{len(value)} bytes, sha256 {hashlib.sha256(value).hexdigest()[:16]}"
    return value


# What a job keeps wherever it is; the fields that rules are about are not among them.
LASTING: Final = tuple(
    name for name in COMPARED if name not in {field for rule in RULES for field in rule.fields} | {"tenant"}
)
_encode = msgspec.msgpack.Encoder(order="sorted").encode


class Tally:
    """How many jobs there are, and one number that is the same whatever the order they were counted in."""

    def __init__(self) -> None:
        self.rows = 0
        self._sum = 0

    def add(self, row: Row) -> None:
        said = _encode([row[name] or None for name in LASTING])
        self.rows += 1
        self._sum += int.from_bytes(hashlib.blake2b(said, digest_size=16).digest())

    @property
    def hash(self) -> str:
        return f"{self._sum % (1 << 128):032x}"
