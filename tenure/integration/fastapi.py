"""Tenure in FastAPI and Starlette. Neither is imported: a lifespan and a dependency are functions.

jobs = tenure.App(…)
web = FastAPI(lifespan=jobs.lifespan)                               # or jobs.lifespan_with_worker(concurrency=4)
Store = Annotated[tenure.Client, Depends(client_of(jobs))]
"""

from collections.abc import Awaitable, Callable

from tenure.app.app import App
from tenure.client.client import Client


def client_of(app: App, tenant: str = "") -> Callable[[], Awaitable[Client]]:
    """A dependency of routes: the low-level client of the app's store, on behalf of the app's tenant or another."""

    async def client() -> Client:
        return app.client.as_tenant(tenant) if tenant else app.client

    return client
