"""What is set for queues, keys and tenants, and how much of it is taken: an account kept beside the store's own."""

from tenure.core.limit import Rate
from tenure.core.request import KEY, QUEUE, TENANT, Configure
from tests.simulation.story import Scope, Story

UNLIMITED = 1 << 62

Values = dict[str, object]


class Settings:
    def __init__(self) -> None:
        self.of: dict[Scope, Values] = {}  # ("queue", tenant, name), ("key", tenant or "" when shared, prefix), ...

    def copy(self) -> "Settings":
        found = Settings()
        found.of = {scope: dict(values) for scope, values in self.of.items()}
        return found

    def queue(self, story: Story) -> Values:
        return self.of.get(("queue", story.tenant, story.queue), {})

    def tenant(self, name: str) -> Values:
        return self.of.get(("tenant", name), {})

    def key(self, tenant: str, key: str) -> tuple[bool, Values]:
        """Whether the key is shared, and its settings, by the longest prefix; a tenant's own go first."""
        for length in range(len(key), -1, -1):
            for owner in (tenant, ""):
                found = self.of.get(("key", owner, key[:length]))
                if found is not None:
                    return owner == "", found
        return False, {}


class Level:
    """A token bucket in units of 1/period of a token."""

    def __init__(self, rate: Rate, elapsed: int) -> None:
        self.rate = rate
        self.elapsed = elapsed
        self.units = rate.burst * rate.period_ms

    def take(self, elapsed: int) -> bool:
        full = self.rate.burst * self.rate.period_ms
        self.units = min(full, self.units + (elapsed - self.elapsed) * self.rate.tokens) - self.rate.period_ms
        self.elapsed = elapsed
        return self.units >= 0


class Ledger:
    def __init__(self) -> None:
        self.now = Settings()
        self.before: Settings | None = None  # in a step that changes something: both count
        self.ever: dict[Scope, list[int]] = {}  # (tenant, queue, setting): every retention that was ever set
        self.taken: dict[Scope, int] = {}
        self.levels: dict[Scope, Level] = {}
        self.pauses: dict[Scope, int] = {}  # ("key", tenant, key) or ("prefix", tenant, prefix): until, elapsed

    def configure(self, tenant: str, request: Configure, elapsed: int) -> None:
        self.before = self.now.copy()
        if request.subject == QUEUE:
            scope: Scope = ("queue", tenant, request.name)
        elif request.subject == TENANT:
            scope = ("tenant", request.name)
        elif request.subject == KEY:
            is_shared = request.changes.get("shared") or ("key", "", request.name) in self.now.of
            scope = ("key", "" if is_shared else tenant, request.name)
            self._pause_prefix(scope, request.changes, elapsed)
        else:
            return
        values = self.now.of.setdefault(scope, {})
        for name, value in request.changes.items():
            if value is None:
                values.pop(name, None)
            else:
                values[name] = value
                if name.startswith("keep_") and isinstance(value, int):
                    self.ever.setdefault((*scope[1:], name), []).append(value)
        if not values:
            del self.now.of[scope]

    def _pause_prefix(self, scope: Scope, changes: Values, elapsed: int) -> None:
        if "paused_ms" not in changes:
            return
        ms = changes["paused_ms"]
        until = elapsed + (ms if isinstance(ms, int) else 0)
        self.pauses[("prefix", scope[1], scope[2])] = until
        if until <= elapsed:
            for pause in list(self.pauses):
                if pause[0] == "key" and pause[2].startswith(scope[2]):
                    del self.pauses[pause]

    def pause_key(self, tenant: str, key: str, until: int) -> None:
        is_shared, _ = self.now.key(tenant, key)
        scope = ("key", "" if is_shared else tenant, key)
        self.pauses[scope] = max(until, self.pauses.get(scope, 0))

    def end_step(self) -> None:
        self.before = None

    def both(self) -> list[Settings]:
        return [self.now] if self.before is None else [self.before, self.now]

    # Slots.

    def scopes(self, story: Story) -> tuple[Scope, ...]:
        found: list[Scope] = [("tenant", story.tenant), ("queue", story.tenant, story.queue)]
        if story.group:
            found.append(("group", story.tenant, story.queue, story.group))
        for key in story.keys:
            is_shared, _ = self.now.key(story.tenant, key)
            found.append(("key", "" if is_shared else story.tenant, key))
        return tuple(found)

    def take(self, scopes: tuple[Scope, ...]) -> None:
        for scope in scopes:
            self.taken[scope] = self.taken.get(scope, 0) + 1

    def give(self, scopes: tuple[Scope, ...]) -> None:
        for scope in scopes:
            self.taken[scope] -= 1
            if self.taken[scope] == 0:
                del self.taken[scope]

    def start(self, story: Story, elapsed: int) -> list[str]:
        """The job takes its slots and tokens; answers what was not to be had."""
        found: list[str] = []
        if all(settings.queue(story).get("paused") for settings in self.both()):
            found.append(f"job {story.id} was started while its queue {story.queue} was paused")
        story.scopes = self.scopes(story)
        self.take(story.scopes)
        for scope in story.scopes:
            allowed = max(self._allowed(settings, scope, story) for settings in self.both())
            if self.taken[scope] > allowed:
                found.append(f"{self.taken[scope]} run in {scope}, which allows {allowed}; the last is job {story.id}")
            if scope[0] == "key" and self._is_paused(scope, story, elapsed):
                found.append(f"job {story.id} was started while its key {scope[2]} was paused")
            rate = self._rate(scope, story)
            if rate is None:
                self.levels.pop(scope, None)
                continue
            level = self.levels.get(scope)
            if level is None or level.rate.key() != rate.key():
                level = self.levels[scope] = Level(rate, elapsed)
            if not level.take(elapsed):
                found.append(f"{scope} is over its rate {rate.key()} with job {story.id}")
        return found

    def _allowed(self, settings: Settings, scope: Scope, story: Story) -> int:
        if scope[0] == "tenant":
            value = settings.tenant(story.tenant).get("running_max")
        elif scope[0] == "queue":
            value = settings.queue(story).get("concurrency")
        elif scope[0] == "group":
            value = settings.queue(story).get("group_concurrency", 1)
        else:
            value = settings.key(story.tenant, scope[2])[1].get("concurrency")
        return value if isinstance(value, int) else UNLIMITED

    def _rate(self, scope: Scope, story: Story) -> Rate | None:
        if scope[0] == "tenant":
            value = self.now.tenant(story.tenant).get("rate")
        elif scope[0] == "queue":
            value = self.now.queue(story).get("rate")
        elif scope[0] == "key":
            value = self.now.key(story.tenant, scope[2])[1].get("rate")
        else:
            return None
        return value if isinstance(value, Rate) and self.before is None else None

    def _is_paused(self, scope: Scope, story: Story, elapsed: int) -> bool:
        if self.before is not None:
            return False
        if self.pauses.get(scope, 0) > elapsed:
            return True
        key = scope[2]
        for length in range(len(key), -1, -1):
            for owner in (story.tenant, ""):
                if ("key", owner, key[:length]) in self.now.of:
                    return self.pauses.get(("prefix", owner, key[:length]), 0) > elapsed
        return False

    def is_strict(self, settings: Settings, story: Story) -> bool:
        return settings.queue(story).get("group_order", "strict") == "strict"

    def group_width(self, settings: Settings, tenant: str, queue: str) -> int:
        width = settings.of.get(("queue", tenant, queue), {}).get("group_concurrency", 1)
        assert isinstance(width, int)
        return width

    def is_free(self, story: Story) -> bool:
        """Whether no setting at all could hold the job back."""
        queue = self.now.queue(story)
        tenant = self.now.tenant(story.tenant)
        limits = [queue.get("paused"), queue.get("rate"), queue.get("concurrency")]
        limits += [tenant.get("rate"), tenant.get("running_max")]
        return not story.keys and not story.group and all(limit is None or limit is False for limit in limits)
