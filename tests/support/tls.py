"""A server that speaks TLS only, with an authority of its own."""

import shutil
import subprocess
from pathlib import Path

import attrs

from support.not_run import missing
from support.server_files import ServerFile, find_server_file
from support.servers import ServerProcess, free_port

__all__ = ["Certificates", "file_with_tls", "make_certificates", "start_tls_server"]

DEBIAN = {"valkey": "valkey-8.0"}
"""Wheels carry Valkey without TLS; Debian's has it."""


@attrs.frozen(kw_only=True)
class Certificates:
    """Files of one authority, a server and a client.

    Attributes:
        ca: The authority, as PEM.
        server: The server's certificate; for localhost and 127.0.0.1.
        server_key: Its key.
        client: A client's certificate.
        client_key: Its key.
    """

    ca: Path
    server: Path
    server_key: Path
    client: Path
    client_key: Path

    def of_server(self, port: int) -> tuple[str, ...]:
        """Arguments of a server that speaks TLS on a port, and wants a certificate of its clients."""
        return (
            *("--tls-port", str(port), "--tls-auth-clients", "yes"),
            *("--tls-cert-file", str(self.server), "--tls-key-file", str(self.server_key)),
            *("--tls-ca-cert-file", str(self.ca)),
        )

    def of_client(self, lead: str = "") -> str:
        """Options of a client's URL; those of sentinels begin with ``sentinel_``."""
        files = {"ca_certs": self.ca, "certfile": self.client, "keyfile": self.client_key}
        return "&".join(f"{lead}ssl_{name}={path}" for name, path in files.items())


def make_certificates(folder: Path) -> Certificates:
    """Make an authority and two certificates; skips the test where there is no openssl."""
    if shutil.which("openssl") is None:
        missing("TLS", "openssl is not installed")
    new_key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    authority = ["-x509", "-days", "2", "-subj", "/CN=test authority", "-keyout", "ca.key", "-out", "ca.crt"]
    authority += ["-addext", "keyUsage=critical,keyCertSign,cRLSign"]  # Python 3.13 trusts no authority without it
    _openssl(folder, "req", *new_key, *authority)
    for name in ("server", "client"):
        _openssl(folder, "req", *new_key, "-subj", f"/CN={name}", "-keyout", f"{name}.key", "-out", f"{name}.csr")
        (folder / "names").write_text("subjectAltName=DNS:localhost,IP:127.0.0.1\nauthorityKeyIdentifier=keyid\n")
        signing = ["-CA", "ca.crt", "-CAkey", "ca.key", "-CAcreateserial", "-days", "2", "-extfile", "names"]
        _openssl(folder, "x509", "-req", "-in", f"{name}.csr", *signing, "-out", f"{name}.crt")
    return Certificates(
        ca=folder / "ca.crt",
        server=folder / "server.crt",
        server_key=folder / "server.key",
        client=folder / "client.crt",
        client_key=folder / "client.key",
    )


def _openssl(folder: Path, *arguments: str) -> None:
    subprocess.run(["openssl", *arguments], cwd=folder, check=True, capture_output=True)


def file_with_tls(name: str, certificates: Certificates) -> ServerFile:
    """Return the program of a server that speaks TLS, or that of Debian; skips the test where neither can.

    Args:
        name: One of :data:`support.server_files.KINDS`.
        certificates: The server's.
    """
    kinds = [kind for kind in (name, DEBIAN.get(name)) if kind]
    files = (find_server_file(kind) for kind in kinds)
    able = next((file for file in files if isinstance(file, ServerFile) and _speaks_tls(file, certificates)), None)
    if able is None:
        missing(f"TLS of {name}", f"no build of {' or '.join(kinds)} here speaks it", required=False)
    return able


def _speaks_tls(file: ServerFile, certificates: Certificates) -> bool:
    engine = ServerProcess(file=file, args=certificates.of_server(free_port()))
    try:
        engine.start()
    except RuntimeError:
        return False
    finally:
        engine.close()
    return True


def start_tls_server(certificates: Certificates, *args: str, name: str = "redis") -> tuple[ServerProcess, int]:
    """Start a server that speaks TLS on one port; see :func:`file_with_tls`.

    Args:
        certificates: The server's, and whom it trusts.
        args: Further arguments of the program.
        name: One of :data:`support.server_files.KINDS`.

    Returns:
        The server, whose own port is plain and only for the fixture, and the port with TLS.
    """
    file = file_with_tls(name, certificates)
    port = free_port()
    engine = ServerProcess(file=file, args=(*certificates.of_server(port), *args))
    try:
        engine.start()
    except BaseException:
        engine.close()
        raise
    return engine, port
