"""A web app whose slow part runs as a job: POST /reports answers at once, GET /reports/{id} says how far it is.

uvicorn examples.web:web            # runs its own jobs
"""

from typing import Annotated

from fastapi import Depends, FastAPI
from pydantic import BaseModel

import tenure
from tenure.integration.fastapi import client_of

jobs = tenure.App(name="reports")
web = FastAPI(lifespan=jobs.lifespan_with_worker(concurrency=4))
Store = Annotated[tenure.Client, Depends(client_of(jobs))]


class Report(BaseModel):
    title: str
    rows: int


class Progress(BaseModel):
    state: str
    percent: int = 0
    report: Report | None = None


@jobs.task(queue="reports", timeout="10m", unique_key=lambda title, **_: title)
def build_report(ctx: tenure.Context, title: str, rows: int) -> Report:
    for row in range(rows):
        ctx.progress(100 * (row + 1) // rows, f"row {row + 1}")
    return Report(title=title, rows=rows)


@web.post("/reports", status_code=202)
async def order(report: Report) -> dict[str, int]:
    """Two orders of one title are one job."""
    job = await build_report.enqueue(report.title, report.rows)
    return {"id": job.id}


@web.get("/reports/{id}")
async def look(id: int) -> Progress:
    job: tenure.Job[Report] = jobs.job(id, returns=Report)
    found = await job.info()
    percent = 0 if found.progress is None else found.progress.percent
    report = await job.result() if found.state == "completed" else None
    return Progress(state=found.state, percent=percent, report=report)


@web.get("/queues")
async def queues(store: Store) -> dict[str, dict[str, int]]:
    return await store.count()
