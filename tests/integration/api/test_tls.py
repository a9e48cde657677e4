"""The coordinator behind TLS."""

import datetime
import ipaddress
import ssl

import httpx
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from typer.testing import CliRunner

from gsdm_grid.cli.commands import app


@pytest.fixture
def certificate(tmp_path):
    """Files of a certificate for the loopback address, and of its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "gsdm test")])
    now = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    files = tmp_path / "certificate.pem", tmp_path / "key.pem"
    files[0].write_bytes(made.public_bytes(serialization.Encoding.PEM))
    private = serialization.PrivateFormat.PKCS8
    files[1].write_bytes(key.private_bytes(serialization.Encoding.PEM, private, serialization.NoEncryption()))
    return files


def test_it_serves_https_to_who_trusts_its_certificate(own_service, certificate):
    files = "--tls-certificate", str(certificate[0]), "--tls-key", str(certificate[1])
    service = own_service("--placement", "threads", *files)
    service.trusted = ssl.create_default_context(cafile=str(certificate[0]))
    service.start()
    assert service.url.startswith("https://127.0.0.1:")
    with service.client() as client:
        assert client.get("/v1/queries").status_code == 200
    with pytest.raises(httpx.ConnectError, match="CERTIFICATE_VERIFY_FAILED"):
        httpx.get(f"{service.url}/healthz")


def test_a_certificate_without_its_key_is_refused(tmp_path, certificate):
    arguments = ["serve", "--home", str(tmp_path), "--tls-certificate", str(certificate[0])]
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 1
    assert "TLS needs both a certificate and its key" in done.output
