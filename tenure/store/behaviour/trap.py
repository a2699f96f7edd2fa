"""Mistakes that job queues have made before (docs/semantics.md, section 22). Each has at least one behaviour.

These rows are about more than one store's verbs and belong to suites of their own:

* authentication that another setting switches off: the transports' matrix of roles;
* persistence through a writer that does not sync, and what a restart forgets or reuses: the crash tests;
* cron expressions, drift and doubled fires: the schedules' tests;
* idle workers that exit, shutdown that drops a handler: the worker's tests. Its third part, the unknown task, is here;
* a version clock read at the wrong scale: the tests of the store that has one. Its second part, a clock step that ends
  live leases, is here.
"""

from typing import Final

ONE_HEAP: Final = "a delayed or backing-off high-priority job blocks ready ones in one heap"
CYCLIC_LIFO: Final = "lifo compared after run_at, and pairwise: the order is cyclic"
HANGING_DEPENDENT: Final = "dependents hang when a dependency was removed, evicted, batch-acked, failed, or unknown"
BATCH_ACK: Final = "batch ack releases the wrong queue's slots, skips events, results and parents"
LEAKED_SLOT: Final = "timeout, stall, cancel, discard leak slots, groups, unique keys"
GROUP_POPPED: Final = "groups popped and pushed back on every pull"
BURNT_TOKEN: Final = "idle polling burns rate tokens; batch pull ignores the limit"
STALLED_UNRETRIED: Final = "a stalled worker's job goes to the DLQ unretried"
ACK_BY_ID: Final = "ack by id alone: a stale worker settles the next attempt; a released attempt's token works again"
DROPPED_ITEM: Final = "batch push drops invalid items and answers ok"
COUNTED_TWICE: Final = "attempts counted at claim and again at nack: 5 means 3"
CROSSED_TENANT: Final = "idempotency keys and reads cross tenants"
TWO_STEP_CLAIM: Final = "claim in two steps: a crash between loses the job; the move of due jobs duplicates it"
SAMPLED_EXPIRY: Final = "expired leases found by sampling, only when someone claims"
VANISHED_SCHEDULED: Final = "jobs vanish after 24 h though scheduled for later"
STOLEN_BY_CLOCK: Final = "a clock step steals live leases"
SIXTEEN_HEADS: Final = "only the first 16 keys are looked at: 16 busy heads hide the rest"
STUCK_UNKNOWN_TASK: Final = "unknown task stuck until expiry"
UNCOLLECTED: Final = "terminal records never collected"

TRAPS: Final = (
    ONE_HEAP,
    CYCLIC_LIFO,
    HANGING_DEPENDENT,
    BATCH_ACK,
    LEAKED_SLOT,
    GROUP_POPPED,
    BURNT_TOKEN,
    STALLED_UNRETRIED,
    ACK_BY_ID,
    DROPPED_ITEM,
    COUNTED_TWICE,
    CROSSED_TENANT,
    TWO_STEP_CLAIM,
    SAMPLED_EXPIRY,
    VANISHED_SCHEDULED,
    STOLEN_BY_CLOCK,
    SIXTEEN_HEADS,
    STUCK_UNKNOWN_TASK,
    UNCOLLECTED,
)
