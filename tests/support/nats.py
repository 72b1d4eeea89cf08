"""A NATS server of the tests' own, on a port of its own: up in a twentieth of a second."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import nkeys  # type: ignore[import-untyped]

from support.loopback import reserved_port

_START_S = 30.0


def lacks() -> str:
    """Say why there can be no server here; empty if there can."""
    return "" if shutil.which("nats-server") else "nats-server is not installed"


class Server:
    """A broker that can be killed, stopped and started again where it was."""

    def __init__(self, directory: Path, port: int, *settings: str) -> None:
        self.port = port
        self.url = f"nats://127.0.0.1:{self.port}"
        self._config = directory / "nats.conf"
        lines = ["host: 127.0.0.1", f"port: {self.port}", f'log_file: "{directory / "log"}"']
        self._config.write_text("\n".join([*lines, *settings]))
        self._process: subprocess.Popen[bytes] | None = None
        self.start()

    def start(self) -> None:
        """Run the server, and return when it answers."""
        self._process = subprocess.Popen(["nats-server", "-c", str(self._config)])
        deadline = time.monotonic() + _START_S
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port)).close()
            except OSError:
                if time.monotonic() > deadline or self._process.poll() is not None:
                    raise
                time.sleep(0.005)
            else:
                return

    def kill(self) -> None:
        """Kill the server, as a crash of its machine would."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def freeze(self) -> None:
        """Let it be there and do nothing."""
        assert self._process is not None
        os.kill(self._process.pid, signal.SIGSTOP)

    def thaw(self) -> None:
        """Let it go on."""
        assert self._process is not None
        os.kill(self._process.pid, signal.SIGCONT)


@contextmanager
def server(*settings: str) -> Iterator[Server]:
    """A server for a block; nothing is left of it."""
    with tempfile.TemporaryDirectory(prefix="nats") as directory, reserved_port() as port:
        started = Server(Path(directory), port, *settings)
        try:
            yield started
        finally:
            started.kill()


def encrypted(directory: Path) -> str:
    """Settings of a server with a certificate for loopback, of a throw-away authority: `ca.pem`."""

    def openssl(*words: str) -> None:
        subprocess.run(["openssl", *words], cwd=directory, check=True, capture_output=True)

    fresh = ("req", "-newkey", "ed25519", "-nodes")
    # From 3.13 on, Python wants an authority to say what its key is for (RFC 5280 §4.2.1.3).
    openssl(*fresh, "-x509", "-keyout", "ca.key", "-out", "ca.pem", "-subj", "/CN=throw-away",
            "-addext", "keyUsage=critical,keyCertSign")  # fmt: skip
    openssl(*fresh, "-keyout", "key.pem", "-out", "asked", "-subj", "/CN=broker")
    (directory / "names").write_text("subjectAltName=IP:127.0.0.1")
    openssl("x509", "-req", "-in", "asked", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial",
            "-extfile", "names", "-out", "cert.pem")  # fmt: skip
    return f'tls {{ cert_file: "{directory}/cert.pem", key_file: "{directory}/key.pem" }}'


def with_credentials(file: Path) -> str:
    """Settings of a server that lets in whoever has these credentials, which are written."""
    prefixes = (nkeys.PREFIX_BYTE_OPERATOR, nkeys.PREFIX_BYTE_ACCOUNT, nkeys.PREFIX_BYTE_USER)
    operator, account, user = (
        nkeys.from_seed(nkeys.encode_seed(os.urandom(32), prefix)) for prefix in prefixes
    )
    any_number = dict.fromkeys(("subs", "data", "payload", "conn", "imports", "exports"), -1)
    token = _signed("account", account, operator, {"limits": any_number})
    file.write_text(
        f"-----BEGIN NATS USER JWT-----\n{_signed('user', user, account, any_number)}\n"
        "------END NATS USER JWT------\n-----BEGIN USER NKEY SEED-----\n"
        f"{user.seed.decode()}\n------END USER NKEY SEED------\n"
    )
    return (
        f'operator: "{_signed("operator", operator, operator, {})}"\nresolver: MEMORY\n'
        f'resolver_preload: {{ {account.public_key.decode()}: "{token}" }}'
    )


def _signed(kind: str, subject: Any, signer: Any, more: Mapping[str, object]) -> str:
    """Claims as NATS signs them: a JSON Web Token by ed25519-nkey, version 2."""
    claims: dict[str, object] = {
        "iat": 1, "iss": signer.public_key.decode(), "sub": subject.public_key.decode(),
        "name": kind, "nats": {"type": kind, "version": 2, **more},
    }  # fmt: skip
    digest = hashlib.sha256(json.dumps(claims).encode()).digest()
    claims["jti"] = base64.b32encode(digest).decode().rstrip("=")
    parts = ({"typ": "JWT", "alg": "ed25519-nkey"}, claims)
    text = ".".join(_text(json.dumps(part).encode()) for part in parts)
    return f"{text}.{_text(signer.sign(text.encode()))}"


def _text(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")
