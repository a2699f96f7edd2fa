"""`tenure spark migrate SRC DST`"""

import sys
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from tenure.cli.argument import AsJson
from tenure.cli.cluster import Master, open_session
from tenure.cli.copy import (
    CopyTenant,
    LoadId,
    Source,
    SourceToken,
    Target,
    TargetToken,
    Verify,
    check_apart,
    fields_of,
    load_id_of,
    place_name,
    show_copied,
    show_verified,
)
from tenure.cli.session import Place, check_place
from tenure.client.clock import read_clock
from tenure.core.tenant import ANY_TENANT


def migrate(
    source: Source,
    target: Target,
    tenant: CopyTenant = ANY_TENANT,
    load_id: LoadId = "",
    parts: Annotated[
        int, typer.Option(metavar="N", min=0, help="Ranges of ids, each a task; as many as are useful if 0.")
    ] = 0,
    verify: Verify = True,
    differences: Annotated[
        str,
        typer.Option(metavar="FOLDER", help="Write all differences there, as Parquet.", show_default=False),
    ] = "",
    source_token_file: SourceToken = None,
    target_token_file: TargetToken = None,
    master: Master = "",
    as_json: AsJson = False,
) -> None:
    """Copy jobs and settings from one store to another by Spark, and compare.

    As tenure copy, divided among tasks. The tokens are read by the tasks, from the same variable or files.
    """
    check_apart(source, target)
    check_place(Place(source, "given"))
    check_place(Place(target, "given"), create=True)
    from tenure.spark import migrate as spark_migrate

    done = spark_migrate.migrate(
        open_session(master),
        source,
        target,
        now_ms=lambda: read_clock().wall_ms,
        tenant=tenant,
        load_id=load_id or load_id_of("migrate", place_name(source), tenant),
        parts=parts,
        verify=verify,
        differences=differences,
        source_token_file=str(source_token_file or ""),
        target_token_file=str(target_token_file or ""),
        source_token_variable="TENURE_SOURCE_TOKEN",
        target_token_variable="TENURE_TARGET_TOKEN",
    )
    verified = done.verified
    if as_json:
        from tenure.cli.screen import show_json

        show_json({**msgspec.to_builtins(done.copied), "verified": None if verified is None else fields_of(verified)})
    else:
        show_copied(done.copied, target)
        if verified is not None:
            show_verified(verified, Path(differences) if differences else None)
    if done.copied.refused or (verified is not None and not verified.is_same):
        sys.exit(1)
