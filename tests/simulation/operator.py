"""Reaches into the queues: pauses, changes jobs one by one and by filter, changes limits, reads."""

from random import Random

from tenure.core import request, state
from tenure.core.limit import Rate
from tenure.core.request import Change, Filter
from tenure.core.tenant import Context
from tests.simulation.scenario import PREFIXES, TASKS, Scenario, key_settings, queue_settings
from tests.simulation.world import EVERYONE, World


class Operator:
    def __init__(self, world: World, scenario: Scenario) -> None:
        self._world = world
        self._random: Random = world.random
        self._scenario = scenario

    def act(self) -> None:
        choice = self._random.random()
        if choice < 0.15:
            self._pause()
        elif choice < 0.30:
            self._set_limits()
        elif choice < 0.70:
            self._change_some()
        elif choice < 0.80:
            self._sweep()
        else:
            self.look()

    def look(self) -> None:
        """Read, as one tenant, its own and others' jobs, its counts, its events."""
        random = self._random
        tenant = random.choice(self._scenario.tenants)
        choice = random.random()
        if choice < 0.4:
            self._world.get(Context(tenant=tenant), tuple(self._ids(6)))
        elif choice < 0.6:
            self._world.count(tenant)
        elif choice < 0.8:
            self._world.read_events(tenant)
        else:
            for id in self._ids(1):
                self._world.watch(Context(tenant=tenant), id, random.choice((0, 1_000, 60_000)))

    def _ids(self, count: int) -> list[int]:
        """Any job's id, new ones more often; some that never were."""
        newest = self._world.checker.accepted + 2
        low = 1 if self._random.random() < 0.3 else max(1, newest - 80)
        return [self._random.randint(low, newest) for _ in range(count)]

    def _pause(self) -> None:
        random = self._random
        queue = random.choice(self._scenario.queues)
        context = self._scenario.context(random)
        self._world.configure(context, request.QUEUE, queue, {"paused": random.choice((True, False, False, None))})

    def _set_limits(self) -> None:
        random = self._random
        context = self._scenario.context(random)
        choice = random.random()
        if choice < 0.4:
            changes = queue_settings(random)
            if changes:
                self._world.configure(context, request.QUEUE, random.choice(self._scenario.queues), changes)
        elif choice < 0.8:
            prefix = random.choice(PREFIXES)
            changes = {"concurrency": random.choice((1, 2, 3))} if prefix == PREFIXES[3] else key_settings(random)
            self._world.configure(context, request.KEY, prefix, changes)
        else:
            changes = {"weight": random.randint(1, 9), "running_max": random.choice((1, 4, 20, None))}
            if random.random() < 0.3:
                changes["rate"] = random.choice((Rate(20, 1_000), None))
            self._world.configure(EVERYONE, request.TENANT, context.tenant, changes)

    def _change(self, action: int, **fields: object) -> Change:
        random = self._random
        change = Change(action)
        if action == request.PRIORITY:
            change.priority = random.randint(-20, 20)
        elif action == request.DELAY:
            change.run_at = self._world.clock.wall + random.choice((-1_000, 0, 400, 30_000))
        elif action in (request.UPDATE, request.REPLAY, request.CLONE):
            change.payload = random.choice((None, b"changed"))
            change.metadata = random.choice((None, {"by": "operator"}))
        return change

    def _change_some(self) -> None:
        random = self._random
        change = self._change(random.randint(request.CANCEL, request.REMOVE))
        change.ids = self._ids(random.choice((1, 2, 5)))
        context = EVERYONE if random.random() < 0.5 else self._scenario.context(random)
        self._world.change(context, change)

    def _sweep(self) -> None:
        random = self._random
        actions = (
            request.CANCEL,
            request.DISCARD,
            request.PROMOTE,
            request.PRIORITY,
            request.DELAY,
            request.REPLAY,
            request.REPLAY,
            request.REMOVE,
        )
        change = self._change(random.choice(actions))
        change.filter = Filter(
            queue=random.choice(("", *self._scenario.queues)),
            states=random.choice((0, 1 << state.READY, 1 << state.FAILED, 1 << state.SCHEDULED | 1 << state.RETRYING)),
            task=random.choice(("", *TASKS)),
            group=random.choice(("", "", "g1")),
        )
        change.limit = random.choice((0, 1, 10))
        if change.action == request.REPLAY:
            change.rate_per_s = random.choice((0, 5))
        self._world.change(self._scenario.context(random), change)
