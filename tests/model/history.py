"""A run of a store as it is seen from outside: what was asked and answered, the events, and what can be read.

It knows nothing of the engine or the model. `tests.model.invariants` judges it.
"""

from dataclasses import dataclass, field

from tenure.core.clock import Now
from tenure.core.job import Extras, Options
from tenure.core.record import Event, JobRecord
from tenure.core.request import Claim
from tenure.core.tenant import Context


@dataclass
class Step:
    wall: int
    elapsed: int
    served: int
    verb: str


@dataclass
class Accepted:
    """A job that was answered as new."""

    step: int
    tenant: str
    options: Options
    extras: Extras


@dataclass
class Granted:
    """One claim's answer."""

    step: int
    token: bytes
    ids: list[int]
    deadlines: dict[int, int]  # served


@dataclass
class Word:
    """What a worker said of a job and was not refused."""

    step: int
    id: int
    token: bytes


@dataclass
class Setting:
    """All settings of a queue, a key prefix or a tenant, from a step on."""

    step: int
    kind: str  # queue, key, tenant
    tenant: str
    name: str
    values: dict[str, object]


@dataclass
class View:
    """What is read after a step: by an operator of all tenants, and by each tenant."""

    records: dict[int, JobRecord] = field(default_factory=dict)
    by_state: dict[str, list[int]] = field(default_factory=dict)
    counts: dict[str, dict[str, dict[str, int]]] = field(default_factory=dict)  # tenant, queue, state
    got_by: dict[str, list[int]] = field(default_factory=dict)
    found_by: dict[str, list[int]] = field(default_factory=dict)
    events_by: dict[str, list[Event]] = field(default_factory=dict)


@dataclass
class History:
    steps: list[Step] = field(default_factory=list)
    events: list[tuple[int, Event]] = field(default_factory=list)  # with the step they came from
    accepted: dict[int, Accepted] = field(default_factory=dict)
    unnamed: dict[int, int] = field(default_factory=dict)  # step -> jobs it may have made without answering their ids
    grants: list[Granted] = field(default_factory=list)
    words: list[Word] = field(default_factory=list)
    extensions: list[tuple[int, int, int]] = field(default_factory=list)  # step, id, deadline (served)
    withdrawals: set[int] = field(default_factory=set)  # steps
    settings: list[Setting] = field(default_factory=list)
    waiting: dict[int, tuple[Context, Claim]] = field(default_factory=dict)
    view: View = field(default_factory=View)
    residue: dict[str, int] = field(default_factory=dict)  # what is left when everything has ended

    def begin(self, now: Now, verb: str) -> int:
        self.steps.append(Step(int(now.wall_ms), int(now.elapsed_ms), int(now.elapsed_ms - now.left_out_ms), verb))
        return self.step

    @property
    def step(self) -> int:
        return len(self.steps) - 1

    def of_jobs(self) -> list[tuple[int, Event]]:
        return [(step, event) for step, event in self.events if event.job]

    def by_job(self) -> dict[int, list[tuple[int, Event]]]:
        jobs: dict[int, list[tuple[int, Event]]] = {}
        for step, event in self.events:
            if event.job:
                jobs.setdefault(event.job, []).append((step, event))
        return jobs

    def values(self, kind: str, tenant: str, name: str, step: int) -> dict[str, object]:
        """The settings in force in a step."""
        found: dict[str, object] = {}
        for setting in self.settings:
            if (setting.kind, setting.tenant, setting.name) == (kind, tenant, name) and setting.step <= step:
                found = setting.values
        return found

    def key_values(self, tenant: str, key: str, step: int) -> dict[str, object]:
        """The settings of a limit key in a step, by the longest prefix."""
        found: dict[str, object] = {}
        longest = -1
        for setting in self.settings:
            is_prefix = setting.kind == "key" and setting.tenant == tenant and key.startswith(setting.name)
            if is_prefix and setting.step <= step and len(setting.name) >= longest:
                longest = len(setting.name)
                found = setting.values
        return found
