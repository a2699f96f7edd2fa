"""Payloads of many jobs as a table, and what a handler makes of a table as one value per job.

A table has a column per member of the payloads; what a payload lacks is null. The jobs' ids come along: as the index
of a pandas table, as the column `job_id` of an Arrow table.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from tenure.task.codec import Undecodable

if TYPE_CHECKING:
    import pandas as pd

JOB_ID: Final = "job_id"
Row = dict[str, Any]


def check_row(row: Any, needed: Sequence[str] = (), schema: pa.Schema | None = None) -> Row:
    """One payload that can stand in a table; raises `Undecodable`, so that it fails without its neighbours."""
    if not isinstance(row, dict):
        raise Undecodable(f"the payload is a {type(row).__name__}; a handler of tables needs objects")
    if JOB_ID in row:
        raise Undecodable(f'the payload has a member {JOB_ID}, which is the name of the ids; use form="list"')
    for name in needed:
        if name not in row:
            raise Undecodable(f"the payload has no member {name}, which the handler is called with")
    if schema is not None:
        try:
            pa.Table.from_pylist([row], schema=schema)
        except (pa.ArrowException, TypeError, ValueError) as error:
            raise Undecodable(f"the payload does not fit the schema: {error}") from error
    return row


def arrow_table(ids: list[int], rows: list[Row], schema: pa.Schema | None = None) -> pa.Table:
    if schema is None:
        names = list(dict.fromkeys(name for row in rows for name in row))
        table = pa.table({name: pa.array([row.get(name) for row in rows]) for name in names})
    else:
        table = pa.Table.from_pylist(rows, schema=schema)
    return table.append_column(JOB_ID, pa.array(ids, pa.int64()))


def pandas_table(ids: list[int], rows: list[Row], schema: pa.Schema | None = None) -> "pd.DataFrame":
    import pandas as pd

    index = pd.Index(ids, name=JOB_ID)
    if schema is None:
        return pd.DataFrame(rows, index=index)
    found: pd.DataFrame = pa.Table.from_pylist(rows, schema=schema).to_pandas()
    return found.set_index(index)


def values_of(made: Any, ids: list[int]) -> list[Any]:
    """One value per job, in the order of the ids. What carries the jobs' ids is put in their order, all else is taken
    to be in it already."""
    if isinstance(made, (pa.Array, pa.ChunkedArray)):
        return _as_many(made.to_pylist(), ids)
    if isinstance(made, (pa.Table, pa.RecordBatch)):
        return _of_table(made.to_pylist(), ids)
    if hasattr(made, "index") and hasattr(made, "iloc"):  # of pandas, which is not imported for the question
        return _of_pandas(made, ids)
    if hasattr(made, "dtype") and hasattr(made, "tolist"):  # of numpy
        made = made.tolist()
    if not isinstance(made, list):
        raise TypeError(f"a handler of {len(ids)} jobs gives as many values, in a list or a column, not {_kind(made)}")
    return _as_many(made, ids)


def _of_table(rows: list[Row], ids: list[int]) -> list[Any]:
    values = _as_many(rows, ids)
    if not values or JOB_ID not in values[0]:
        return values
    by_id = {row.pop(JOB_ID): row for row in values}
    if by_id.keys() != set(ids):
        raise TypeError(f"the column {JOB_ID} has other ids than those of the jobs; leave it as it is, or out")
    return [by_id[id] for id in ids]


def _of_pandas(made: Any, ids: list[int]) -> list[Any]:
    if len(made) != len(ids):
        _as_many(list(made.index), ids)
    if set(made.index) == set(ids):
        made = made.loc[ids]
    if hasattr(made, "columns"):
        return [{str(name): plain(value) for name, value in row.items()} for row in made.to_dict("records")]
    return [plain(value) for value in made.tolist()]


def _as_many(values: list[Any], ids: list[int]) -> list[Any]:
    if len(values) != len(ids):
        raise TypeError(f"a handler of {len(ids)} jobs gives as many values, not {len(values)}")
    return values


def plain(value: Any) -> Any:
    """Without what only numpy and pandas know."""
    if hasattr(value, "dtype") and hasattr(value, "tolist"):
        return value.tolist()
    if type(value).__module__.startswith("pandas.") and type(value).__name__ in ("NAType", "NaTType"):
        return None
    return value


def _kind(value: Any) -> str:
    return f"a {type(value).__name__}"
