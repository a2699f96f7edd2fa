"""What is known of one job from what was asked, answered and seen."""

from dataclasses import dataclass, field

from tenure.core.dependency import ALL_DONE, ALL_SUCCESS
from tenure.core.job import Extras, Options
from tenure.core.record import Event
from tenure.core.state import NEW

Scope = tuple[str, ...]


@dataclass
class Lease:
    token: bytes
    length: int
    started: int  # served
    deadline: int  # served
    connection: int
    worker: str


@dataclass
class Holdover:
    """Slots of an attempt that was taken from its worker, which may still be at work."""

    job: int
    tenant: str
    token: bytes
    deadline: int
    connection: int
    scopes: tuple[Scope, ...]


@dataclass
class Story:
    id: int
    tenant: str
    queue: str
    task: str
    options: Options | None = None  # None when the request did not name the job, as with follow-ups
    extras: Extras | None = None
    keys: tuple[str, ...] = ()
    group: str = ""
    depends_on: tuple[int, ...] = ()
    unique: str = ""
    max_attempts: int | None = None
    state: int = NEW
    seq: int = 0
    spent: int = 0
    attempt: int = 0
    delivery: int = 0
    snoozes: int = 0
    run_at: int = 0  # wall; of one that is delayed: elapsed
    is_delayed: bool = False
    expires_at: int = 0
    ended_at: int = 0
    lease: Lease | None = None
    scopes: tuple[Scope, ...] = ()
    joined: int = 0
    has_started: bool = False  # since it joined its group
    endings: list[str] = field(default_factory=list)
    last_word: tuple[bytes, int] | None = None  # the token and verb that settled it last
    is_removal_asked: bool = False

    @classmethod
    def begin(cls, event: Event, options: Options | None, extras: Extras | None) -> "Story":
        return cls(
            event.job,
            event.tenant,
            event.queue,
            event.task,
            options,
            extras,
            event.limit_keys,
            event.group,
            event.depends_on,
            event.unique_hash,
            event.max_attempts,
        )

    def are_needs_met(self, endings: list[list[str]]) -> bool:
        """Whether its dependencies, which ended like this (or not yet), let it run."""
        policy = ALL_DONE if self.options is None else self.options.dependency_policy
        done = sum(1 for ends in endings if ends)
        completed = sum(1 for ends in endings if "completed" in ends)
        if policy == ALL_SUCCESS:
            return completed == len(endings)
        if policy == ALL_DONE or not endings:
            return done == len(endings)
        return completed > 0
