"""The life of a job, whole, in one table.

How to think about it. A job is always in exactly one of eight states. Five are *live*: it waits for other jobs
(`blocked`), for a time (`scheduled`, `retrying`), for a worker (`ready`), or a worker holds it (`running`). Three are
*terminal*: `completed`, `failed` (a dead letter), `cancelled`. Two more codes stand for a job that is not there: `NEW`
before its enqueue and `GONE` after its removal, so that arriving and leaving are transitions like any other.

States change for a *cause*, and the table below says, for every pair of state and cause, where the job may go. What is
not in the table does not happen: the engine takes every step through it, the model in the tests checks every step
against it, and the history of any job, read from its events, is a path in it.

Three rules explain its shape:

* Only a claim leads into `running`, and every way out of `running` ends the lease. An attempt is therefore exactly one
  stay in `running`: it is counted on the way in, and given back by `release` and `snooze` on the way out.
* Terminal states are final. `replay` is the one exception, only for `failed`, and it decides anew, as an enqueue would.
* A running job cannot be removed and does not expire: somebody is working on it. It can be cancelled or discarded; that
  takes the lease away at once, and whatever the worker says afterwards changes nothing.

Where a cause may lead to several states, a rule elsewhere decides: `core.dependency` (blocked or not), the clock
(scheduled or ready), `core.retry` (again or dead).
"""

from typing import Final

SCHEDULED: Final = 0
BLOCKED: Final = 1
READY: Final = 2
RUNNING: Final = 3
RETRYING: Final = 4
COMPLETED: Final = 5
FAILED: Final = 6
CANCELLED: Final = 7
NEW: Final = 8
GONE: Final = 9
STATES: Final = 10  # these two included

STATE_NAMES: Final = ("scheduled", "blocked", "ready", "running", "retrying", "completed", "failed", "cancelled")
LIVE: Final = (SCHEDULED, BLOCKED, READY, RUNNING, RETRYING)
TERMINAL: Final = (COMPLETED, FAILED, CANCELLED)

# Causes: imperatives, because a cause is what somebody or some timer asked for.
ENQUEUE: Final = 0
SATISFY: Final = 1
FAIL_DEPENDENCY: Final = 2
DUE: Final = 3
PROMOTE: Final = 4
CLAIM: Final = 5
COMPLETE: Final = 6
FAIL: Final = 7
EXPIRE_LEASE: Final = 8
TIME_OUT: Final = 9
RELEASE: Final = 10
SNOOZE: Final = 11
REFUSE: Final = 12  # the payload cannot be decoded
ABANDON: Final = 13  # set aside for an hour and no worker knows the task
CANCEL: Final = 14
DISCARD: Final = 15
EXPIRE: Final = 16
DELAY: Final = 17
UPDATE: Final = 18
REPLAY: Final = 19
REMOVE: Final = 20
IMPORT: Final = 21

CAUSE_NAMES: Final = (
    "enqueue",
    "satisfy",
    "fail_dependency",
    "due",
    "promote",
    "claim",
    "complete",
    "fail",
    "expire_lease",
    "time_out",
    "release",
    "snooze",
    "refuse",
    "abandon",
    "cancel",
    "discard",
    "expire",
    "delay",
    "update",
    "replay",
    "remove",
    "import",
)

# Why a job ended `failed`.
REASON_ATTEMPTS: Final = "attempts_exhausted"
REASON_PERMANENT: Final = "permanent"
REASON_LEASE: Final = "lease_expired"
REASON_TIMEOUT: Final = "timed_out"
REASON_DELIVERIES: Final = "delivery_limit"
REASON_UNDECODABLE: Final = "undecodable"
REASON_UNKNOWN_TASK: Final = "unknown_task"
REASON_DISCARDED: Final = "discarded"
REASON_EXPIRED: Final = "expired"
REASON_DEPENDENCY: Final = "dependency_failed"

REASONS: Final = (
    REASON_ATTEMPTS,
    REASON_PERMANENT,
    REASON_LEASE,
    REASON_TIMEOUT,
    REASON_DELIVERIES,
    REASON_UNDECODABLE,
    REASON_UNKNOWN_TASK,
    REASON_DISCARDED,
    REASON_EXPIRED,
    REASON_DEPENDENCY,
)

_WAITING: Final = (SCHEDULED, BLOCKED, READY, RETRYING)

# cause -> (states it may happen in, states it may lead to). `UPDATE` keeps the state, whichever it is.
TRANSITIONS: Final[dict[int, tuple[tuple[int, ...], tuple[int, ...]]]] = {
    ENQUEUE: ((NEW,), (BLOCKED, SCHEDULED, READY)),
    SATISFY: ((BLOCKED,), (SCHEDULED, READY)),
    FAIL_DEPENDENCY: ((BLOCKED,), (FAILED,)),
    DUE: ((SCHEDULED, RETRYING), (READY,)),
    PROMOTE: ((SCHEDULED, RETRYING), (READY,)),
    CLAIM: ((READY,), (RUNNING,)),
    COMPLETE: ((RUNNING,), (COMPLETED,)),
    FAIL: ((RUNNING,), (RETRYING, READY, FAILED)),
    EXPIRE_LEASE: ((RUNNING,), (RETRYING, READY, FAILED)),
    TIME_OUT: ((RUNNING,), (RETRYING, READY, FAILED)),
    RELEASE: ((RUNNING,), (READY, SCHEDULED, FAILED)),
    SNOOZE: ((RUNNING,), (READY, SCHEDULED)),
    REFUSE: ((RUNNING,), (FAILED,)),
    ABANDON: ((READY,), (FAILED,)),
    CANCEL: (LIVE, (CANCELLED,)),
    DISCARD: (LIVE, (FAILED,)),
    EXPIRE: (_WAITING, (FAILED,)),
    DELAY: ((SCHEDULED, READY, RETRYING), (SCHEDULED,)),
    UPDATE: (LIVE, LIVE),
    REPLAY: ((FAILED,), (BLOCKED, SCHEDULED, READY)),
    REMOVE: ((*_WAITING, *TERMINAL), (GONE,)),
    IMPORT: ((NEW,), (*_WAITING, *TERMINAL)),
}


def allows(cause: int, before: int, after: int) -> bool:
    """Whether `cause` may take a job from the state `before` to the state `after`."""
    sources, targets = TRANSITIONS[cause]
    if before not in sources or after not in targets:
        return False
    return cause != UPDATE or before == after


def is_terminal(state: int) -> bool:
    return state == COMPLETED or state == FAILED or state == CANCELLED


# What the worker's word becomes when it is late (contract of `settle`): each verb by its code.
SETTLE_NONE: Final = 0
SETTLE_COMPLETE: Final = 1
SETTLE_FAIL: Final = 2
SETTLE_RELEASE: Final = 3
SETTLE_SNOOZE: Final = 4
SETTLE_CANCEL: Final = 5
# A lease that ended without its worker's word.
SETTLE_EXPIRED: Final = 6
SETTLE_TIMED_OUT: Final = 7
SETTLE_CANCELLED: Final = 8  # by somebody else: cancel wins
SETTLE_DISCARDED: Final = 9

SETTLE_NAMES: Final = (
    "none",
    "complete",
    "fail",
    "release",
    "snooze",
    "cancel",
    "expired",
    "timed_out",
    "cancelled",
    "discarded",
)
