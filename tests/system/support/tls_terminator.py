"""TLS in front of a server without it, like a private network's proxy; with certificates of a local CA."""

from __future__ import annotations

import datetime
import ipaddress
import socket
import ssl
import threading
from contextlib import suppress
from pathlib import Path
from types import TracebackType

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tests.system.support.cutting_proxy import hang_up

HANDSHAKE_S = 10


class Authority:
    """A CA for one test; clients trust the file ``ca``."""

    def __init__(self, folder: Path, name: str) -> None:
        self._folder = folder / name
        self._folder.mkdir()
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        certificate = self._builder(self._name, self._key.public_key(), days=30).add_extension(
            x509.BasicConstraints(ca=True, path_length=0), critical=True
        )
        self.ca = self._folder / "ca.pem"
        self.ca.write_bytes(certificate.sign(self._key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))

    def certificate(self, name: str, *, days: int = 30, password: str | None = None) -> tuple[Path, Path]:
        """A certificate for a host name or address, and its key; one of fewer than 0 days has expired."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        host: x509.GeneralName = x509.DNSName(name)
        with suppress(ValueError):
            host = x509.IPAddress(ipaddress.ip_address(name))
        made = self._builder(subject, key.public_key(), days).add_extension(
            x509.SubjectAlternativeName([host]), critical=False
        )
        paths = self._folder / f"{name}.{days}.pem", self._folder / f"{name}.{days}.key"
        paths[0].write_bytes(made.sign(self._key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))
        locked = serialization.BestAvailableEncryption(password.encode()) if password else None
        paths[1].write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                locked or serialization.NoEncryption(),
            )
        )
        return paths

    def _builder(self, subject: x509.Name, key: ec.EllipticCurvePublicKey, days: int) -> x509.CertificateBuilder:
        now = datetime.datetime.now(datetime.UTC)
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(days=90))
            .not_valid_after(now + datetime.timedelta(days=days))
        )


class TlsTerminator:
    """Accepts TLS on a port of loopback and forwards the content to another one; leaving the block ends it."""

    def __init__(self, port: int, certificate: tuple[Path, Path], clients_of: Path | None = None) -> None:
        """Listen at once.

        Args:
            port: of the plain server.
            certificate: shown to clients, with its key.
            clients_of: a CA's file; clients must show a certificate of it. None: they need none.
        """
        self._context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=clients_of)
        self._context.load_cert_chain(*certificate)
        if clients_of is not None:
            self._context.verify_mode = ssl.CERT_REQUIRED
        self._upstream = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        self.connections = 0  # established encrypted ones
        self._sockets: list[socket.socket] = []
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._threads[0].start()

    def _accept(self) -> None:
        while True:
            try:
                plain, _ = self._listener.accept()
            except OSError:
                return  # closed
            plain.settimeout(HANDSHAKE_S)
            self._start(self._serve, plain)

    def _serve(self, plain: socket.socket) -> None:
        try:
            client = self._context.wrap_socket(plain, server_side=True)
        except OSError:
            plain.close()
            return  # no TLS, or no valid certificate
        client.settimeout(None)
        server = socket.create_connection(("127.0.0.1", self._upstream), timeout=HANDSHAKE_S)
        server.settimeout(None)
        self.connections += 1
        self._sockets += [client, server]
        self._start(_pump, server, client)
        _pump(client, server)

    def _start(self, work: object, *arguments: object) -> None:
        thread = threading.Thread(target=work, args=arguments, daemon=True)  # type: ignore[arg-type]
        self._threads.append(thread)
        thread.start()

    def __enter__(self) -> TlsTerminator:
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        hang_up(*self._sockets)
        for thread in self._threads:
            thread.join(5)


def _pump(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):  # the other side is gone
        while data := source.recv(1 << 20):
            target.sendall(data)
    hang_up(source, target)
