"""When a job that waits for others may go on. Pure counting: the graph itself lives in the engine's reverse index."""

from typing import Final

ALL_SUCCESS: Final = 0
ALL_DONE: Final = 1
ANY_SUCCESS: Final = 2

POLICY_NAMES: Final = ("all_success", "all_done", "any_success")

WAIT: Final = 0
GO: Final = 1
FAIL: Final = 2


def decide(policy: int, pending: int, succeeded: int, failed: int) -> int:
    """What so many open, completed, and failed or cancelled dependencies mean for the job that waits for them."""
    if policy == ALL_SUCCESS:
        if failed:
            return FAIL
        return WAIT if pending else GO
    if policy == ALL_DONE:
        return WAIT if pending else GO
    if succeeded:
        return GO
    return WAIT if pending else FAIL
