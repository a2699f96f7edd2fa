"""Who asks: the context that every operation carries."""

from typing import Final

PRODUCER: Final = 1
WORKER: Final = 2
OPERATOR: Final = 4
ADMIN: Final = 8
ALL_ROLES: Final = 15

ROLE_NAMES: Final = {"producer": PRODUCER, "worker": WORKER, "operator": OPERATOR, "admin": ADMIN}
DEFAULT_TENANT: Final = "default"
ANY_TENANT: Final = "*"


class OpId:
    """Names one changing request, so that its repeat is answered and not executed: a random session and a counter."""

    def __init__(self, session: str, counter: int) -> None:
        self.session = session
        self.counter = counter


class Context:
    """`tenant` owns what is enqueued and named; a claim takes from `tenants` ("*" is all, empty is just `tenant`).

    `connection` names the connection (0 is none): on the one that claimed a job the token may be left out.
    A `tokenless` client knows no lease tokens: it may leave out those of every lease that its `principal` claimed.
    `durability` is how safe a change must be before it is answered: fsync, write, relaxed; empty asks for the store's.
    `queues` are the queues within reach, names or prefixes ending in `*`; empty is all. What a request names was
    authorised before; the engine asks for what a request meets unnamed: the holder of a key. `reaches_all_tenants` says
    whether what tenants share, limits and their pauses, may be changed.
    """

    def __init__(
        self,
        tenant: str = DEFAULT_TENANT,
        tenants: tuple[str, ...] = (),
        principal: str = "",
        roles: int = ALL_ROLES,
        trace: str = "",
        op: OpId | None = None,
        connection: int = 0,
        durability: str = "",
        tokenless: bool = False,
        queues: tuple[str, ...] = (),
        reaches_all_tenants: bool = True,
    ) -> None:
        self.tenant = tenant
        self.tenants = tenants
        self.principal = principal
        self.roles = roles
        self.trace = trace
        self.op = op
        self.connection = connection
        self.durability = durability
        self.tokenless = tokenless
        self.queues = queues
        self.reaches_all_tenants = reaches_all_tenants


def reaches_queue(queues: tuple[str, ...], queue: str) -> bool:
    """Whether the queue, or every queue of a prefix that ends in `*`, is one of these names and prefixes."""
    return any(queue == reached or (reached.endswith("*") and queue.startswith(reached[:-1])) for reached in queues)
