"""TLS and mutual TLS, with certificates made for the test."""

import datetime
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from ipaddress import ip_address
from pathlib import Path

import grpc
import httpx
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from grpc import StatusCode

import tenure
from tenure.client import remote
from tenure.core.error import InvalidRequest
from tenure.server.config import Settings, check
from tenure.server.grpc import tenure_pb2 as pb
from tenure.server.server import Server
from tenure.store.embedded.memory import MemoryStore
from tests.grpc.rig import Stub

CALL_S = 10.0

Key = ec.EllipticCurvePrivateKey


def usage(is_authority: bool) -> x509.KeyUsage:
    signs, certifies, no = not is_authority, is_authority, False
    return x509.KeyUsage(signs, no, no, no, no, certifies, certifies, no, no)


class Authority:
    def __init__(self, folder: Path, name: str) -> None:
        self._folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        made = self._build(self._name, self._key, True)
        self.path = folder / f"{name}.pem"
        self.path.write_bytes(made.public_bytes(serialization.Encoding.PEM))

    def _build(self, subject: x509.Name, key: Key, is_authority: bool) -> x509.Certificate:
        now = datetime.datetime.now(datetime.UTC)
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(hours=1))
            .not_valid_after(now + datetime.timedelta(hours=1))
            .add_extension(x509.BasicConstraints(is_authority, None), critical=True)
            .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=False)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), critical=False)
            .add_extension(usage(is_authority), critical=True)
            .sign(self._key, hashes.SHA256())
        )

    def issue(self, name: str) -> tuple[str, str]:
        key = ec.generate_private_key(ec.SECP256R1())
        made = self._build(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]), key, False)
        cert, secret = self._folder / f"{name}.crt", self._folder / f"{name}.key"
        cert.write_bytes(made.public_bytes(serialization.Encoding.PEM))
        plain = serialization.NoEncryption()
        secret.write_bytes(
            key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain),
        )
        return str(cert), str(secret)


@asynccontextmanager
async def serving(cert: str, key: str, client_ca: str = "") -> AsyncIterator[str]:
    server = Server(
        Settings(tcp_port=0, http=False, grpc=False, tls_cert=cert, tls_key=key, tls_client_ca=client_ca), MemoryStore()
    )
    await server.start()
    try:
        yield f"127.0.0.1:{server.tcp_port}"
    finally:
        await server.stop()


def trusting(authority: Authority, cert: tuple[str, str] | None = None) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=str(authority.path))
    if cert is not None:
        context.load_cert_chain(*cert)
    return context


async def refused(url: str, tls: ssl.SSLContext | None = None) -> None:
    with pytest.raises(tenure.Unavailable):
        async with tenure.connect(url, tls=tls) as client:
            await client.count()


@pytest.fixture(autouse=True)
def short_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote, "CONNECT_S", 0.5)


async def test_a_connection_is_encrypted_and_the_server_proves_who_it_is(tmp_path: Path) -> None:
    ours, others = Authority(tmp_path, "ours"), Authority(tmp_path, "others")
    async with serving(*ours.issue("server")) as where:
        async with tenure.connect(f"tenure+tls://{where}", tls=trusting(ours)) as client:
            await client.enqueue(b"x")
        await refused(f"tenure+tls://{where}", trusting(others))
        await refused(f"tenure+tls://{where}")
        await refused(f"tenure://{where}")


async def test_http_is_encrypted_too(tmp_path: Path) -> None:
    ours = Authority(tmp_path, "ours")
    cert, key = ours.issue("server")
    server = Server(Settings(tcp=False, http_port=0, grpc=False, tls_cert=cert, tls_key=key), MemoryStore())
    await server.start()
    try:
        async with httpx.AsyncClient(verify=trusting(ours)) as client:
            answer = await client.get(f"https://127.0.0.1:{server.http_port}/livez")
            assert answer.status_code == 200
            with pytest.raises(httpx.HTTPError):
                await client.get(f"http://127.0.0.1:{server.http_port}/livez")
    finally:
        await server.stop()


@asynccontextmanager
async def serving_grpc(cert: str, key: str, client_ca: str = "") -> AsyncIterator[str]:
    settings = Settings(tcp=False, http=False, grpc_port=0, tls_cert=cert, tls_key=key, tls_client_ca=client_ca)
    server = Server(settings, MemoryStore())
    await server.start()
    try:
        yield f"127.0.0.1:{server.grpc_port}"
    finally:
        await server.stop()


async def count(where: str, authority: Authority | None, cert: tuple[str, str] | None = None) -> StatusCode:
    """How a call by gRPC ends; without an authority it is made in plain text."""
    options = (("grpc.use_local_subchannel_pool", 1),)
    if authority is None:
        made = grpc.aio.insecure_channel(where, options)
    else:
        chain, key = (None, None) if cert is None else (Path(cert[0]).read_bytes(), Path(cert[1]).read_bytes())
        made = grpc.aio.secure_channel(
            where, grpc.ssl_channel_credentials(authority.path.read_bytes(), key, chain), options
        )
    async with made:
        try:
            await Stub(made).Count(pb.CountRequest(), timeout=CALL_S)
        except grpc.aio.AioRpcError as error:
            return error.code()
    return StatusCode.OK


async def test_grpc_is_encrypted_too(tmp_path: Path) -> None:
    ours, others = Authority(tmp_path, "ours"), Authority(tmp_path, "others")
    async with serving_grpc(*ours.issue("server")) as where:
        assert await count(where, ours) == StatusCode.OK
        for authority in (others, None):
            assert await count(where, authority) == StatusCode.UNAVAILABLE


async def test_a_client_by_grpc_has_to_prove_who_it_is_when_asked(tmp_path: Path) -> None:
    ours, others = Authority(tmp_path, "ours"), Authority(tmp_path, "others")
    async with serving_grpc(*ours.issue("server"), str(ours.path)) as where:
        assert await count(where, ours, ours.issue("client")) == StatusCode.OK
        assert await count(where, ours) == StatusCode.UNAVAILABLE
        assert await count(where, ours, others.issue("stranger")) == StatusCode.UNAVAILABLE


async def test_a_client_has_to_prove_who_it_is_when_asked(tmp_path: Path) -> None:
    ours, others = Authority(tmp_path, "ours"), Authority(tmp_path, "others")
    async with serving(*ours.issue("server"), str(ours.path)) as where:
        url = f"tenure+tls://{where}"
        async with tenure.connect(url, tls=trusting(ours, ours.issue("client"))) as client:
            await client.enqueue(b"x")
        await refused(url, trusting(ours))
        await refused(url, trusting(ours, others.issue("stranger")))


def test_settings_that_cannot_work_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidRequest, match="tls_key"):
        check(Settings(tls_cert="x"))
    with pytest.raises(InvalidRequest, match="tls_cert"):
        check(Settings(tls_client_ca="x"))
    with pytest.raises(InvalidRequest, match="tls_cert"):
        Server(Settings(tls_cert=str(tmp_path / "none"), tls_key=str(tmp_path / "none")), MemoryStore())
    with pytest.raises(InvalidRequest, match=r"tenure\+tls"):
        tenure.connect("tenure://h", tls=ssl.create_default_context())
