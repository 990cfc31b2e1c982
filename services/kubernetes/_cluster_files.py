"""Certificate, keys, tokens and kubeconfigs of a cluster, made once per home, private to us."""

from __future__ import annotations

import json
import os
import secrets
from pathlib import Path
from typing import Final

from services._process import run_tool

# The namespace of the tests' jobs, and their accounts: ADMIN has all rights, USER those of the
# documented role in NAMESPACE, STRANGER none.
NAMESPACE: Final = "trainings"
ADMIN: Final = "admin"
USER: Final = "trainfeed"
STRANGER: Final = "stranger"
_GROUPS: Final = {
    ADMIN: "system:masters",
    "system:kube-controller-manager": "system:masters",
    "node": "system:masters",
    USER: "trainfeed",
    STRANGER: "strangers",
}
_DAYS: Final = "3650"


class ClusterFiles:
    """The certificate, keys, tokens and kubeconfigs that the parts of one cluster share.

    One self-signed certificate serves the API server, the node and proxies between a client and the
    server; it is valid for 127.0.0.1 and localhost only.

    Args:
        folder: Folder of the files; :meth:`make` creates it.
        server: Address of the API server, ``https://127.0.0.1:PORT``.
    """

    def __init__(self, folder: Path, server: str) -> None:
        self.folder = folder
        self._server = server

    @property
    def certificate(self) -> Path:
        """The certificate, which is its own authority."""
        return self.folder / "tls.crt"

    @property
    def key(self) -> Path:
        """The private key of the certificate."""
        return self.folder / "tls.key"

    @property
    def account_key(self) -> Path:
        """The key that signs the tokens of service accounts."""
        return self.folder / "accounts.key"

    @property
    def tokens(self) -> Path:
        """Token, name, id and group of every account, in the form that the API server reads."""
        return self.folder / "tokens.csv"

    def kubeconfig(self, account: str) -> Path:
        """The file with which an account reaches the API server."""
        return self.folder / f"{account.rpartition(':')[2]}.kubeconfig"

    def make(self) -> None:
        """Create missing files; keep existing ones, so that clients outlive a restart.

        Raises:
            ServiceError: openssl failed.
        """
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not self.certificate.exists():
            self._make_certificate()
        if not self.account_key.exists():
            self._openssl("genrsa", "-out", str(self.account_key), "2048")
        if not self.tokens.exists():
            tokens = {account: secrets.token_hex(16) for account in _GROUPS}
            rows = [f'{tokens[a]},{a},{a},"{group}"\n' for a, group in _GROUPS.items()]
            _write(self.tokens, "".join(rows))
        for row in self.tokens.read_text().splitlines():
            token, account, *_ = row.split(",")
            _write(self.kubeconfig(account), self.config_text(token, self._server))

    def config_text(self, token: str, server: str) -> str:
        """Return a kubeconfig with a token and the server's address; JSON, so valid YAML."""
        cluster = {"server": server, "certificate-authority": str(self.certificate)}
        context = {"cluster": "tests", "user": "caller", "namespace": NAMESPACE}
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "tests", "cluster": cluster}],
            "users": [{"name": "caller", "user": {"token": token}}],
            "contexts": [{"name": "tests", "context": context}],
            "current-context": "tests",
        }
        return json.dumps(config, indent=1)

    def _make_certificate(self) -> None:
        self._openssl(
            *("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", _DAYS),
            *("-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1,DNS:localhost"),
            *("-keyout", str(self.key), "-out", str(self.certificate)),
        )

    def _openssl(self, *arguments: str) -> None:
        run_tool(["openssl", *arguments], what="making the keys of kubernetes")


def _write(path: Path, text: str) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
    with os.fdopen(os.open(path, flags, 0o600), "w") as file:
        file.write(text)
