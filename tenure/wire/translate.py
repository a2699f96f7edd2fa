"""From commands to the verbs of a store: which function translates which command."""

from collections.abc import Callable
from typing import Any

from msgspec import UNSET

from tenure.core import request, state
from tenure.wire import command as c
from tenure.wire import manage, query, work
from tenure.wire.command import Command
from tenure.wire.speech import Call, Speech

Translator = Callable[[Speech, Any], Call]
TRANSLATORS: dict[type[Command], Translator] = {
    c.Push: work.push,
    c.PushMany: work.push_many,
    c.PushColumn: work.push_column,
    c.PushManyItems: work.push_many,
    c.LoadJobs: work.load,
    c.LoadItems: work.load,
    c.Pull: work.pull,
    c.PullMany: work.pull_many,
    c.Ack: work.ack,
    c.AckMany: work.ack_many,
    c.Fail: work.fail,
    c.FailMany: work.fail_many,
    c.Release: work.release(state.SETTLE_RELEASE),
    c.Snooze: work.release(state.SETTLE_SNOOZE),
    c.SettleMany: work.settle,
    c.Heartbeat: work.heartbeat,
    c.HeartbeatMany: work.heartbeat_many,
    c.GetJob: query.get(lambda s, found: {"job": s.record(found)}),
    c.GetState: query.get(lambda s, found: {"state": s.state(found.state)}),
    c.GetResult: query.get(query.say_result),
    c.GetProgress: query.get(query.say_progress),
    c.GetJobByCustomId: query.get_by_custom_id,
    c.GetJobs: query.get_many,
    c.WaitJob: query.wait,
    c.Explain: lambda s, m: Call("explain", (m.id,), lambda found: {"explanation": found}),
    c.Find: query.find,
    c.OfQueue: query.counts,
    c.Count: query.count,
    c.ListQueues: query.list_queues,
    c.Stats: query.stats,
    c.Cancel: manage.cancel,
    c.Discard: manage.simple(request.DISCARD),
    c.Promote: manage.simple(request.PROMOTE),
    c.ChangePriority: manage.priority,
    c.UpdateJob: manage.rewrite(request.UPDATE),
    c.MoveToDelayed: manage.delay,
    c.Clone: manage.rewrite(request.CLONE),
    c.RetryDead: manage.retry_dead,
    c.Remove: manage.simple(request.REMOVE),
    c.Dead: manage.list_dead,
    c.DeadGroups: lambda s, m: Call("groups", (m.queue,), lambda found: {"groups": found}),
    c.PurgeDead: manage.purge,
    c.Drain: manage.drain,
    c.Clean: manage.clean,
    c.Obliterate: manage.obliterate,
    c.SetProgress: work.set_progress,
    c.WriteLog: work.write_log,
    c.Partial: work.partial,
    c.GetLogs: work.read_output(request.LOG, "logs"),
    c.ReadStream: work.read_output(request.EMIT, "items"),
    c.Pause: manage.set_queue(paused=True),
    c.Resume: manage.set_queue(paused=False),
    c.IsPaused: manage.is_paused,
    c.RateLimit: manage.rate_limit,
    c.RateLimitClear: manage.set_queue(rate=None),
    c.SetConcurrency: manage.set_concurrency,
    c.ClearConcurrency: manage.set_queue(concurrency=None),
    c.Settings: lambda s, m: manage.configure(request.QUEUE, m.queue, m),
    c.Limit: lambda s, m: manage.configure(request.KEY, m.key, m),
    c.Tenant: lambda s, m: manage.configure(request.TENANT, m.tenant if m.name is UNSET else m.name, m),
    c.StoreSettings: lambda s, m: manage.configure(request.STORE, "store", m),
    c.Workers: lambda s, m: manage.workers(m),
    c.ReadEvents: query.events,
    c.ScanTable: query.scan,
}
