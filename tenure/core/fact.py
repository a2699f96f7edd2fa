"""What is written down of the rarer sides of a job: named fields, so that a reader of another version finds its way.

A field that is not there has its default; one that is not known is passed over. Names are never used again for
something else.
"""

import msgspec

from tenure.core.record import Ended, Failed, Progress


class SideFact(msgspec.Struct, omit_defaults=True, kw_only=True):
    """See `engine.job.Side`; what follows from other facts (pins, dependents, places) is not here."""

    has_extras: bool = False
    custom_id: str = ""
    unique_key: str = ""
    debounce_key: str = ""
    depends_on: tuple[int, ...] = ()
    group: str = ""
    asked_run_at: int = 0
    asked_expires_at: int = 0
    trace: str = ""
    tags: tuple[str, ...] = ()
    metadata: dict[str, str] | None = None
    expires_at: int = 0
    error: Failed | None = None
    reason: str = ""
    history: list[Ended] | None = None
    result: bytes | None = None
    payload_blob: str = ""
    payload_blob_bytes: int = 0
    result_blob: str = ""
    result_blob_bytes: int = 0
    snoozes: int = 0
    replays: int = 0
    answer_run_at: int = 0
    answer_state: int = 0
    settled_token: bytes = b""
    settled_verb: int = 0
    lease_lost: bool = False
    progress: Progress | None = None
    told_upto: int = 0
    rejoined: int = 0
    doomed: str = ""
    joined: int = 0
    holds_group: bool = False
    holds_limits: bool = False
    holds_unique: bool = False
    holds_custom: bool = False
    debounced: bool = False
    aside_at: int = 0
    flow: int = 0
    parent: int = 0
    worker: str = ""
