"""The endpoints of `/v1`: which method and path says which command. The description of the API is made of this table.

What stands in braces is a field of the command. The other fields are in the query of GET and DELETE, and in the body of
the rest, under the names they have in every door's protocol.
"""

from typing import Any, NamedTuple
from urllib.parse import unquote

from msgspec import Struct

from tenure.server.http import answer as a
from tenure.server.http.refusal import Refusal
from tenure.wire import command as c
from tenure.wire.command import Command


class Endpoint(NamedTuple):
    method: str
    path: str
    command: type[Command]
    summary: str
    answer: type[Struct]
    fixed: tuple[tuple[str, object], ...] = ()  # fields that the path decides

    @property
    def fields(self) -> tuple[str, ...]:
        """Those that stand in the path."""
        return tuple(part[1:-1] for part in self.path.split("/") if part.startswith("{"))

    @property
    def has_body(self) -> bool:
        return self.method not in ("GET", "DELETE")


def _one(action: str, command: type[Command], summary: str) -> tuple[Endpoint, Endpoint]:
    """A change of one job, and of several by ids or by filter."""
    return (
        Endpoint("POST", f"/v1/jobs/{{id}}/{action}", command, f"{summary} a job", a.Changed),
        Endpoint("POST", f"/v1/jobs/{action}", command, f"{summary} jobs by ids or by filter", a.Changed),
    )


ALL = (("name", "*"),)
ENDPOINTS: tuple[Endpoint, ...] = (
    # Enqueue.
    Endpoint("POST", "/v1/queues/{queue}/jobs", c.Push, "Enqueue a job", a.Accepted),
    Endpoint("POST", "/v1/jobs/batch", c.PushMany, "Enqueue many jobs", a.Each),
    Endpoint("POST", "/v1/loads/{load_id}/stage", c.LoadJobs, "Stage jobs of a load", a.Loaded, (("step", "stage"),)),
    Endpoint("POST", "/v1/loads/{load_id}/publish", c.LoadJobs, "Publish a load", a.Loaded, (("step", "publish"),)),
    Endpoint("POST", "/v1/loads/{load_id}/abort", c.LoadJobs, "Abort a load", a.Loaded, (("step", "abort"),)),
    Endpoint("POST", "/v1/loads/{load_id}/read", c.LoadJobs, "What became of a chunk", a.Loaded, (("step", "read"),)),
    # Claim and settle.
    Endpoint("POST", "/v1/claims", c.PullMany, "Lease jobs, waiting for them", a.Claims),
    Endpoint("POST", "/v1/jobs/{id}/complete", c.Ack, "Complete a job", a.Accepted),
    Endpoint("POST", "/v1/jobs/complete", c.AckMany, "Complete jobs", a.Each),
    Endpoint("POST", "/v1/jobs/{id}/fail", c.Fail, "Fail an attempt", a.Accepted),
    Endpoint("POST", "/v1/jobs/fail", c.FailMany, "Fail attempts", a.Each),
    Endpoint("POST", "/v1/jobs/{id}/release", c.Release, "Give a job back", a.Accepted),
    Endpoint("POST", "/v1/jobs/{id}/snooze", c.Snooze, "Give a job back until later", a.Accepted),
    Endpoint("POST", "/v1/jobs/settle", c.SettleMany, "Settle jobs, in columns", a.Each),
    Endpoint("POST", "/v1/jobs/{id}/heartbeat", c.Heartbeat, "Extend a lease", a.Renewed),
    Endpoint("POST", "/v1/jobs/heartbeat", c.HeartbeatMany, "Extend leases", a.RenewedEach),
    Endpoint("PUT", "/v1/jobs/{id}/progress", c.SetProgress, "Say how far a job is", a.ProgressKept),
    Endpoint("POST", "/v1/jobs/{id}/logs", c.WriteLog, "Add a line to a job's log", a.Written),
    Endpoint("POST", "/v1/jobs/{id}/items", c.Partial, "Add an item to a job's stream", a.Written),
    # Read.
    Endpoint("GET", "/v1/jobs", c.Find, "Search jobs", a.JobsPage),
    Endpoint("POST", "/v1/jobs/get", c.GetJobs, "Jobs by ids and custom ids", a.Jobs),
    Endpoint("GET", "/v1/jobs/{id}", c.GetJob, "A job", a.OneJob),
    Endpoint("GET", "/v1/custom-ids/{custom_id}", c.GetJobByCustomId, "A job by its custom id", a.OneJob),
    Endpoint("GET", "/v1/jobs/{id}/state", c.GetState, "The state of a job", a.StateView),
    Endpoint("GET", "/v1/jobs/{id}/result", c.GetResult, "The result of a job", a.ResultView),
    Endpoint("GET", "/v1/jobs/{id}/wait", c.WaitJob, "Wait for the result of a job", a.ResultView),
    Endpoint("GET", "/v1/jobs/{id}/progress", c.GetProgress, "How far a job is", a.ProgressView),
    Endpoint("GET", "/v1/jobs/{id}/logs", c.GetLogs, "The log of a job", a.Logs),
    Endpoint("GET", "/v1/jobs/{id}/items", c.ReadStream, "The stream of a job", a.Items),
    Endpoint("GET", "/v1/jobs/{id}/explanation", c.Explain, "Why a job is where it is", a.Explained),
    Endpoint("GET", "/v1/counts", c.OfQueue, "Jobs by queue and state", a.Counts),
    Endpoint("GET", "/v1/stats", c.Stats, "Jobs by state", a.StatsView),
    Endpoint("GET", "/v1/events", c.ReadEvents, "Events, as a page or live", a.Events),
    # Change.
    *_one("cancel", c.Cancel, "Cancel"),
    *_one("discard", c.Discard, "Discard"),
    *_one("promote", c.Promote, "Make ready"),
    *_one("priority", c.ChangePriority, "Change the priority of"),
    *_one("delay", c.MoveToDelayed, "Delay"),
    *_one("update", c.UpdateJob, "Rewrite"),
    *_one("clone", c.Clone, "Clone"),
    *_one("replay", c.RetryDead, "Replay"),
    *_one("remove", c.Remove, "Remove"),
    Endpoint("DELETE", "/v1/jobs/{id}", c.Remove, "Remove a job", a.Changed),
    Endpoint("GET", "/v1/dead", c.Dead, "Dead letters", a.JobsPage),
    Endpoint("GET", "/v1/dead/groups", c.DeadGroups, "Dead letters by failure", a.Groups),
    Endpoint("POST", "/v1/dead/replay", c.RetryDead, "Replay dead letters", a.Changed),
    Endpoint("POST", "/v1/dead/purge", c.PurgeDead, "Remove dead letters", a.Changed),
    # Settings.
    Endpoint("GET", "/v1/queues", c.ListQueues, "Names of queues", a.Queues),
    Endpoint("GET", "/v1/queues/{queue}", c.Settings, "Settings of a queue", a.SettingsView),
    Endpoint("PATCH", "/v1/queues/{queue}", c.Settings, "Change settings of a queue", a.SettingsView),
    Endpoint("GET", "/v1/queues/{queue}/counts", c.OfQueue, "Jobs of a queue by state", a.Counts),
    Endpoint("GET", "/v1/queues/{queue}/paused", c.IsPaused, "Whether a queue is paused", a.Paused),
    Endpoint("POST", "/v1/queues/{queue}/pause", c.Pause, "Pause a queue", a.Done),
    Endpoint("POST", "/v1/queues/{queue}/resume", c.Resume, "Resume a queue", a.Done),
    Endpoint("PUT", "/v1/queues/{queue}/rate", c.RateLimit, "Limit the rate of a queue", a.Done),
    Endpoint("DELETE", "/v1/queues/{queue}/rate", c.RateLimitClear, "Lift the rate of a queue", a.Done),
    Endpoint("PUT", "/v1/queues/{queue}/concurrency", c.SetConcurrency, "Limit what runs of a queue", a.Done),
    Endpoint("DELETE", "/v1/queues/{queue}/concurrency", c.ClearConcurrency, "Lift that limit", a.Done),
    Endpoint("POST", "/v1/queues/{queue}/drain", c.Drain, "Remove what has not begun", a.Counted),
    Endpoint("POST", "/v1/queues/{queue}/clean", c.Clean, "Remove what has ended", a.Counted),
    Endpoint("GET", "/v1/limits", c.Limit, "Settings of limit keys", a.SettingsView, (("key", "*"),)),
    Endpoint("GET", "/v1/limits/{key}", c.Limit, "Settings of a limit key", a.SettingsView),
    Endpoint("PATCH", "/v1/limits/{key}", c.Limit, "Change settings of a limit key", a.SettingsView),
    Endpoint("GET", "/v1/tenants", c.Tenant, "Settings of tenants", a.SettingsView, ALL),
    Endpoint("GET", "/v1/tenants/{name}", c.Tenant, "Settings of a tenant", a.SettingsView),
    Endpoint("PATCH", "/v1/tenants/{name}", c.Tenant, "Change settings of a tenant", a.SettingsView),
    Endpoint("GET", "/v1/settings", c.StoreSettings, "Settings of the store", a.SettingsView),
    Endpoint("PATCH", "/v1/settings", c.StoreSettings, "Change settings of the store", a.SettingsView),
    Endpoint("GET", "/v1/workers", c.Workers, "Workers", a.SettingsView, ALL),
    Endpoint("GET", "/v1/workers/{name}", c.Workers, "A worker", a.SettingsView),
    Endpoint("GET", "/v1/tasks/{task}", c.Workers, "What workers publish of a task", a.SettingsView),
    Endpoint("PATCH", "/v1/workers/{name}", c.Workers, "What a worker says of itself", a.SettingsView),
)


class Node:
    __slots__ = ("leaves", "literals", "parameter")

    def __init__(self) -> None:
        self.literals: dict[str, Node] = {}
        self.parameter: Node | None = None
        self.leaves: dict[str, Any] = {}  # by method

    def add(self, endpoint: Endpoint, leaf: object) -> None:
        node = self
        for part in endpoint.path.split("/")[1:]:
            if part.startswith("{"):
                if node.parameter is None:
                    node.parameter = Node()
                node = node.parameter
            else:
                node = node.literals.setdefault(part, Node())
        node.leaves[endpoint.method] = leaf

    def find(self, method: str, path: str) -> tuple[Any, list[str]]:
        """The leaf, and what stands in the places of its parameters. A name wins over a parameter."""
        node = self
        given: list[str] = []
        for part in path.split("/")[1:]:
            child = node.literals.get(part)
            if child is None:
                child = node.parameter
                if child is None or not part:
                    raise _nothing(path)
                given.append(_text(part) if "%" in part else part)
            node = child
        leaf = node.leaves.get(method)
        if leaf is None:
            if not node.leaves:
                raise _nothing(path)
            allowed = ", ".join(sorted(node.leaves))
            raise Refusal(
                405,
                "MethodNotAllowed",
                f"{method} is not understood here; {allowed} is",
                ((b"allow", allowed.encode()),),
            )
        return leaf, given


def _nothing(path: str) -> Refusal:
    return Refusal(404, "NotFound", f"there is nothing at {path[:200]}; /openapi.json lists what there is")


def _text(part: str) -> str:
    try:
        return unquote(part, errors="strict")
    except UnicodeDecodeError:
        raise Refusal(400, "InvalidRequest", "the path is not UTF-8") from None
