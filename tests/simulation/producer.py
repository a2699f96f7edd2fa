"""Enqueues jobs with every kind of option, and repeats itself when it is not sure to have been heard."""

from typing import Final

from tenure.core import request
from tenure.core.bound import make_extras, make_options
from tenure.core.job import Extras, Options
from tenure.core.request import Batch, Load
from tenure.core.retry import Backoff
from tenure.core.tenant import Context, OpId
from tests.packing import in_form
from tests.simulation.scenario import TASKS, Scenario
from tests.simulation.world import World

BACKOFFS: Final = (
    Backoff.fixed("0s"),
    Backoff.fixed("500ms"),
    Backoff.linear("1s"),
    Backoff.exponential("200ms", "10s"),
    Backoff.equal_jitter("1s", "1m"),
    Backoff.full_jitter("2s"),
    Backoff.listed("0s", "100ms", "5s"),
)
REPEATS_KEPT: Final = 20
KEYS = tuple(f"once-{at}" for at in range(20))


class Producer:
    def __init__(self, world: World, scenario: Scenario, name: str) -> None:
        self._world = world
        self._random = world.random
        self._scenario = scenario
        self._name = name
        self._tenant = self._random.choice(scenario.tenants)
        self._counter = 0
        self._sent: list[tuple[Context, Batch]] = []
        self._ids: list[int] = []  # of its tenant
        self._loads = 0

    def act(self) -> None:
        random = self._random
        if self._sent and random.random() < 0.15:
            self._world.enqueue(*random.choice(self._sent))
        elif random.random() < 0.03:
            self._load()
        else:
            self._send()

    def _send(self) -> None:
        random = self._random
        count = random.choice((1, 1, 1, 2, 3, 8, 20))
        if random.random() < 0.3:
            payloads = [b"p" * random.randrange(20) for _ in range(count)]
            batch = Batch(self._plain_options(), payloads, keys=self._keys(count))
        else:
            each = [self._options() for _ in range(count)]
            extras = [self._extras(options) if random.random() < 0.8 else None for options in each]
            payloads = [b"x" * random.randrange(40) for _ in range(count)]
            batch = Batch(each[0], payloads, extras, each, random.random() < 0.1)
        context = Context(tenant=self._tenant)
        if random.random() < 0.7:
            self._counter += 1
            context = Context(tenant=self._tenant, op=OpId(self._name, self._counter))
            self._sent.append((context, batch))
            del self._sent[:-REPEATS_KEPT]
        answers = self._world.enqueue(context, batch)
        if answers is not None:
            self._ids += [id for id in answers.ids if id]
            del self._ids[:-60]

    def _load(self) -> None:
        """A set of jobs that becomes visible at once, or is thought better of."""
        random = self._random
        self._loads += 1
        context = Context(tenant=self._tenant)
        name = f"{self._name}-{self._loads}"
        for chunk in range(random.randint(1, 3)):
            for writing in ("first", "second")[: random.randint(1, 2)]:
                count = random.choice((1, 3, 9, 15, 16, 30, 70))
                batch = Batch(self._plain_options(), [b"l"] * count, keys=self._keys(count))
                batch = in_form(batch, random.randrange(3))
                self._world.load(context, Load(request.STAGE, name, 0, writing, chunk, batch))
        if random.random() < 0.7:
            for _ in range(random.randint(1, 2)):
                self._world.load(context, Load(request.PUBLISH, name, parts={0: "first"}))
        elif random.random() < 0.5:
            self._world.load(context, Load(request.ABORT, name))

    def _keys(self, count: int) -> list[str] | None:
        """Idempotency keys, some of them taken, some missing."""
        random = self._random
        return [random.choice(("", *KEYS)) for _ in range(count)] if random.random() < 0.5 else None

    def _plain_options(self) -> Options:
        random = self._random
        return make_options(
            queue=random.choice(self._scenario.queues),
            task=random.choice(TASKS[:3]),
            priority=random.choice((-10, 0, 0, 0, 10)),
            lease_ms=random.choice((1_000, 5_000, 30_000)),
            lifo=random.random() < 0.1,
        )

    def _options(self) -> Options:
        random = self._random
        fields: dict[str, object] = {
            "queue": random.choice(self._scenario.queues),
            "task": random.choice((*TASKS[:3], *TASKS)),
        }
        maybe = self._maybe
        maybe(fields, 0.3, "priority", (-10, 10, 20, 5))
        maybe(fields, 0.2, "delay_ms", (1, 50, 1_000, 30_000, 7_200_000))
        maybe(fields, 0.1, "ttl_ms", (500, 5_000, 60_000, 86_400_000))
        maybe(fields, 0.5, "max_attempts", (1, 2, 5, None))
        maybe(fields, 0.8, "backoff", BACKOFFS)
        maybe(fields, 0.2, "timeout_ms", (200, 2_000, 20_000, 100_000))
        maybe(fields, 0.5, "lease_ms", (1_000, 2_000, 10_000, 120_000))
        maybe(fields, 0.3, "on_conflict", ("return", "replace", "error"))
        maybe(fields, 0.3, "idempotency_ttl_ms", (1_000, 60_000, 3_600_000))
        maybe(fields, 0.3, "dependency_policy", ("all_success", "all_done", "any_success"))
        maybe(fields, 0.1, "lifo", (True,))
        maybe(fields, 0.1, "keep_completed_ms", (0, 60_000, 100_000, 31 * 86_400_000))
        maybe(fields, 0.1, "keep_failed_ms", (0, 60_000, 86_400_000))
        maybe(fields, 0.05, "keep_completed_count", (0, 1, 5))
        maybe(fields, 0.05, "keep_failed_count", (0, 1, 5))
        if random.random() < 0.25:
            fields["limit_keys"] = random.sample(self._scenario.keys, random.randint(1, 3))
        if random.random() < 0.1:
            fields["debounce_ms"] = random.choice((100, 2_000, 60_000))
            fields["debounce_mode"] = random.choice(("leading", "trailing"))
        return make_options(**fields)

    def _extras(self, options: Options) -> Extras:
        random = self._random
        fields: dict[str, object] = {}
        maybe = self._maybe
        maybe(fields, 0.1, "custom_id", tuple(f"custom-{at}" for at in range(40)))
        maybe(fields, 0.15, "unique_key", tuple(f"unique-{at}" for at in range(8)))
        maybe(fields, 0.1, "idempotency_key", KEYS)
        maybe(fields, 0.3, "group", ("g1", "g2", "g3", "g4"))
        maybe(fields, 0.1, "tags", (("red",), ("red", "blue")))
        maybe(fields, 0.1, "metadata", ({"user": "7"}, {"user": "8"}))
        if options.debounce_ms:
            fields["debounce_key"] = random.choice(("d1", "d2"))
        if self._ids and random.random() < 0.15:
            fields["depends_on"] = random.sample(self._ids, min(len(self._ids), random.randint(1, 4)))
        if not options.delay_ms and random.random() < 0.05:
            fields["run_at"] = self._world.clock.wall + random.choice((-5_000, 300, 60_000))
        if options.lifo:
            fields.pop("group", None)
        return make_extras(**fields)

    def _maybe(self, fields: dict[str, object], chance: float, name: str, values: tuple[object, ...]) -> None:
        if self._random.random() < chance:
            fields[name] = self._random.choice(values)
