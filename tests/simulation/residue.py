"""What a store still holds when all jobs have ended and all retention has passed: nothing, if it is sound."""

from tenure.engine.engine import Engine


def residue(engine: Engine) -> list[str]:
    w = engine._w
    held = {
        "jobs in the index": int(w.index.size),
        "live jobs": int(w.jobs),
        "bytes of live jobs": int(w.bytes),
        "staged jobs": int(w.staged_jobs),
        "ended jobs": int(w.terminal_jobs),
        "bytes of ended jobs": int(w.terminal_bytes),
        "outcomes": len(w.outcomes._pages),
        "holdovers": len(w.holdovers),
        "limits": len(w.limits),
        "shared limits": len(w.limits_shared),
        "waiting claims": len(w.waiters),
        "waiting claims by prefix": len(w.prefix_waiters),
        "watches": len(w.watches),
        "sessions": len(w.sessions),
        "names of sessions": len(w.session_names),
        "workers": len(w.workers),
        "workers by tenant": len(w.rosters),
        "workers that serve others": len(w.serving),
        "bytes of workers": int(w.worker_bytes),
        "loads": len(w.loads),
        "names of loads": len(w.load_names),
        "things owed": len(w.owed),
        "changed limits": len(w.changed_limits),
        "dirty queues": len(w.dirty),
        "lines too long": len(w.over),
        "jobs that leave": len(w.leaving),
        "answers not fetched": len(w.outbox),
        "lanes": len(w.lanes),
        "lines of ended jobs": len(w.kepts) - len(w.kepts_free),
        "places of queues": len(w.queues) - len(w.queues_free),
        "alarms on the wall": int(w.wall.live),
        "alarms on elapsed time": int(w.elapsed.live),
    }
    for tenant in w.tenants:
        held[f"queues of {tenant.name}"] = len(tenant.queues)
        held[f"jobs of {tenant.name}"] = int(tenant.jobs)
        held[f"bytes of {tenant.name}"] = int(tenant.bytes)
        held[f"running jobs of {tenant.name}"] = int(tenant.running)
        held[f"jobs held over of {tenant.name}"] = int(tenant.held_over)
        held[f"limits of {tenant.name}"] = len(tenant.limits or ())
        held[f"custom ids of {tenant.name}"] = int(tenant.custom_ids.size) if tenant.custom_ids is not None else 0
        held[f"outcomes by custom id of {tenant.name}"] = len(tenant.custom_outcomes or ())
        held[f"held queues of {tenant.name}"] = len(tenant.held_queues or ())
    return [f"{count} {name} are left" for name, count in held.items() if count]
