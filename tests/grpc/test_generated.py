"""The generated code is what the description gives."""

import subprocess
import sys
from pathlib import Path

from tenure.server.grpc import tenure_pb2 as pb
from tenure.server.grpc.door import SERVICE
from tenure.server.grpc.request import UNARY
from tests.docs.page import ROOT

HERE = ROOT / "tenure" / "server" / "grpc"


def test_code_is_the_same_when_written_anew(tmp_path: Path) -> None:
    protoc = [sys.executable, "-m", "grpc_tools.protoc", "-Itenure/v1=tenure/wire"]
    outs = (f"--python_out={tmp_path}", f"--pyi_out={tmp_path}")
    subprocess.run([*protoc, *outs, "tenure/v1/tenure.proto"], cwd=ROOT, check=True)
    for name in ("tenure_pb2.py", "tenure_pb2.pyi"):
        assert (tmp_path / "tenure" / "v1" / name).read_bytes() == (HERE / name).read_bytes(), "run make proto"


def test_every_method_is_served() -> None:
    assert {method.name for method in SERVICE.methods} == {*UNARY, "Work", "Events"}


def test_every_request_has_a_header() -> None:
    for method in SERVICE.methods:
        if method.name != "Work":
            assert method.input_type.fields_by_name["header"].message_type is pb.Header.DESCRIPTOR
