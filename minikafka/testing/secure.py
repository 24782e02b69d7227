"""A broker with users, access rules and certificates, all made when it starts.

    with minikafka.testing.secure_broker(users={"alice": "secret"}) as kafka:
        kafka.allow("alice", "WRITE", topic="orders")
        producer = confluent_kafka.Producer(kafka.client("alice"))

It listens with TLS and SASL, with SASL alone, and with TLS for clients that show a certificate.
Nobody but ``admin`` may do anything until a rule allows it. The certificates are signed by an
authority of its own; for them the package trustme is needed: ``pip install
'minikafka[secure-testing]'``.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from .brokers import Broker
from .process import BrokerStartError
from .settings import Setting

if TYPE_CHECKING:
    import trustme

    from minikafka_client.acls import Acl
    from minikafka_client.sync import AdminClient

__all__ = ["ADMIN", "LISTENERS", "SecureBroker"]

ADMIN: Final = "admin"
"""The user that may do everything."""
LISTENERS: Final = ("SASL_SSL", "SASL_PLAINTEXT", "SSL")
"""The listeners, each called by its security protocol."""
MECHANISMS: Final = ("SCRAM-SHA-512", "SCRAM-SHA-256", "PLAIN")
USERS: Final[Mapping[str, str]] = {"alice": "alice-secret", "bob": "bob-secret"}
"""Users and their passwords, unless a test has others."""

_ADMIN_PASSWORD: Final = "admin-secret"
_RESOURCES: Final = ("topic", "group", "transactional_id")
_HOSTS: Final = ("127.0.0.1", "localhost")


class SecureBroker(Broker):
    """A `Broker` whose clients have to say who they are, and may do what rules allow.

    `minikafka.testing.secure_broker` makes one and describes the arguments.

    Attributes:
        users: passwords by name; ``admin`` is one of them.
    """

    def __init__(
        self,
        settings: Mapping[str, Setting] | None = None,
        *,
        users: Mapping[str, str] = USERS,
        directory: Path | str | None = None,
        keep: bool = False,
        name: str = "the secure broker",
        **options: Any,
    ) -> None:
        security: dict[str, Setting] = {
            "sasl.enabled.mechanisms": MECHANISMS,
            "ssl.client.auth": "required",
            "ssl.keystore.type": "PEM",
            "ssl.truststore.type": "PEM",
            "ssl.principal.mapping.rules": "RULE:^.*CN=([^,]+).*$/$1/",
            "authorizer.class.name": "standard",
            "super.users": f"User:{ADMIN}",
        }
        super().__init__(
            {**security, **(settings or {})},
            directory=directory,
            keep=keep,
            listen=",".join(f"{one}://127.0.0.1:0" for one in LISTENERS),
            name=name,
            **options,
        )
        self.users: dict[str, str] = {**users, ADMIN: _ADMIN_PASSWORD}
        self._authority: trustme.CA | None = None
        self._rules: list[Acl] = []

    # --- starting ---

    def launch(self) -> None:
        """Start it, the first time with certificates and its first users."""
        if self._authority is None:
            self._prepare()
        super().launch()

    def _prepare(self) -> None:
        folder = self.security_dir
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._authority = authority = _new_authority()
        authority.cert_pem.write_to_path(self.ca_path)
        own = authority.issue_cert(*_HOSTS, common_name="localhost")
        keystore = folder / "broker.pem"
        _write_private(keystore, own.private_key_and_cert_chain_pem.bytes())
        words = ["--set", f"ssl.keystore.location={keystore}"]
        words += ["--set", f"ssl.truststore.location={self.ca_path}"]
        for number, (user, password) in enumerate(self.users.items()):
            password_file = folder / f"user-{number}"
            _write_private(password_file, f"{password}\n".encode())
            words += ["--user", user, "--password-file", str(password_file)]
        self._arguments = (*self._arguments, *words)

    @property
    def security_dir(self) -> Path:
        """What has its certificates."""
        return self.directory / "security"

    @property
    def ca_path(self) -> Path:
        """The certificate of the authority that clients have to trust, as a PEM file."""
        return self.security_dir / "ca.pem"

    # --- clients ---

    def client(
        self, user: str = ADMIN, *, listener: str = "SASL_SSL", mechanism: str = MECHANISMS[0]
    ) -> dict[str, str]:
        """How a user connects: a configuration for confluent-kafka, and for our ``from_config``.

        Args:
            user: one of ``users``; on the listener SSL any name, which gets a certificate.
            listener: SASL_SSL, SASL_PLAINTEXT or SSL.
            mechanism: SCRAM-SHA-512, SCRAM-SHA-256 or PLAIN.

        Raises:
            KeyError: there is no such user or listener.
        """
        found = {
            "bootstrap.servers": self.bootstrap_of(listener),
            "security.protocol": listener,
        }
        if listener.endswith("SSL"):
            found["ssl.ca.location"] = str(self.ca_path)
        if listener == "SSL":
            certificate, key = self.certificate(user)
            found["ssl.certificate.location"] = str(certificate)
            found["ssl.key.location"] = str(key)
        else:
            found["sasl.mechanism"] = mechanism
            found["sasl.username"] = user
            found["sasl.password"] = self.users[user]
        return found

    def java_client(
        self, user: str = ADMIN, *, listener: str = "SASL_SSL", mechanism: str = MECHANISMS[0]
    ) -> dict[str, str]:
        """The same with the names of Java clients, and of PySpark behind ``kafka.``."""
        found = {
            "bootstrap.servers": self.bootstrap_of(listener),
            "security.protocol": listener,
        }
        if listener.endswith("SSL"):
            found["ssl.truststore.type"] = "PEM"
            found["ssl.truststore.location"] = str(self.ca_path)
        if listener == "SSL":
            certificate, key = self.certificate(user)
            keystore = certificate.with_suffix(".keystore.pem")
            _write_private(keystore, key.read_bytes() + certificate.read_bytes())
            found["ssl.keystore.type"] = "PEM"
            found["ssl.keystore.location"] = str(keystore)
        else:
            module = "plain.Plain" if mechanism == "PLAIN" else "scram.Scram"
            found["sasl.mechanism"] = mechanism
            found["sasl.jaas.config"] = (
                f"org.apache.kafka.common.security.{module}LoginModule required "
                f'username="{user}" password="{self.users[user]}";'
            )
        return found

    def client_properties(self, user: str = ADMIN, **how: str) -> Path:
        """A file ``client.properties`` for command lines, of `java_client`."""
        listener = how.get("listener", LISTENERS[0])
        path = self.security_dir / f"{user}-{listener}-{how.get('mechanism', '')}.properties"
        lines = [f"{name}={value}\n" for name, value in self.java_client(user, **how).items()]
        _write_private(path, "".join(lines).encode())
        return path

    def certificate(self, common_name: str) -> tuple[Path, Path]:
        """Files with a client's certificate and its key, for the principal of that name."""
        if self._authority is None:
            raise RuntimeError(f"{self.name} was not started")
        certificate = self.security_dir / f"client-{common_name}.pem"
        key = self.security_dir / f"client-{common_name}.key"
        if not certificate.exists():
            made = self._authority.issue_cert(f"{common_name}.client", common_name=common_name)
            _write_private(key, _pkcs8(made.private_key_pem.bytes()))
            certificate.write_bytes(b"".join(one.bytes() for one in made.cert_chain_pems))
        return certificate, key

    # --- what users may do ---

    def admin(self) -> AdminClient:
        """A blocking admin client of the user who may do everything; use it in a ``with`` block."""
        from minikafka_client.sync import AdminClient

        return AdminClient.from_config(self.client(ADMIN))

    def add_user(self, name: str, password: str) -> None:
        """Another user, or another password."""
        from minikafka_client.sasl import scram_upsertion

        with self.admin() as admin:
            admin.alter_user_scram_credentials(
                [
                    scram_upsertion(name, password, "SCRAM-SHA-256"),
                    scram_upsertion(name, password, "SCRAM-SHA-512"),
                ]
            )
        self.users[name] = password

    def allow(self, user: str, *operations: str, **resource: str) -> None:
        """Let a user do something: ``allow("alice", "READ", topic="orders")``.

        It is forgotten after the test if the broker is the fixture ``kafka_secure_broker``.

        Args:
            user: a name, or ``*`` for everybody.
            *operations: Kafka's names: READ, WRITE, CREATE, DESCRIBE, ALL, ...
            **resource: one of ``topic``, ``group`` and ``transactional_id``, whose name may end in
                ``*`` for a prefix; without any it is the cluster.

        Raises:
            ValueError: there is no such operation, or more than one resource.
        """
        self._add_rules(user, operations, resource, denies=False)

    def deny(self, user: str, *operations: str, **resource: str) -> None:
        """Forbid something, whatever else allows it; see `allow`."""
        self._add_rules(user, operations, resource, denies=True)

    def _add_rules(
        self, user: str, operations: Iterable[str], resource: Mapping[str, str], *, denies: bool
    ) -> None:
        rules = _rules(user, operations, resource, denies=denies)
        with self.admin() as admin:
            admin.create_acls(rules)
        self._rules += rules

    def restore(self) -> None:
        """Also forget the rules."""
        super().restore()
        self.forget_rules()

    def forget_rules(self) -> None:
        """Take back what `allow` and `deny` have said."""
        from minikafka_client.acls import AclFilter

        rules, self._rules = self._rules, []
        if rules:
            with self.admin() as admin:
                admin.delete_acls([AclFilter(*_filter_fields(one)) for one in rules])


def _filter_fields(rule: Acl) -> tuple[Any, ...]:
    return (
        rule.resource_type,
        rule.resource_name,
        rule.principal,
        rule.operation,
        rule.permission,
        rule.host,
        rule.pattern,
    )


def _rules(
    user: str, operations: Iterable[str], resource: Mapping[str, str], *, denies: bool
) -> list[Acl]:
    from minikafka_client.acls import (
        Acl,
        AclOperation,
        AclPattern,
        AclPermission,
        AclResourceType,
    )

    unknown = resource.keys() - set(_RESOURCES)
    if unknown or len(resource) > 1:
        raise ValueError(f"a rule is for one of {', '.join(_RESOURCES)}, or else the cluster")
    kind, name = next(iter(resource.items()), ("cluster", "kafka-cluster"))
    pattern = AclPattern.LITERAL
    if name != "*" and name.endswith("*"):
        pattern, name = AclPattern.PREFIXED, name[:-1]
    known = {one.name: one for one in AclOperation if one is not AclOperation.ANY}
    chosen: list[AclOperation] = []
    for text in operations:
        operation = known.get(text.upper())
        if operation is None:
            raise ValueError(f"there is no operation {text!r}; Kafka has {', '.join(known)}")
        chosen.append(operation)
    permission = AclPermission.DENY if denies else AclPermission.ALLOW
    return [
        Acl(
            AclResourceType[kind.upper()],
            name,
            f"User:{user}",
            operation,
            permission,
            pattern=pattern,
        )
        for operation in chosen
    ]


def _new_authority() -> trustme.CA:
    try:
        import trustme
    except ImportError:
        raise BrokerStartError(
            "a secure broker makes its certificates with trustme, which is not installed; "
            "pip install 'minikafka[secure-testing]'"
        ) from None
    return trustme.CA(organization_name="minikafka tests")


def _pkcs8(key: bytes) -> bytes:
    """A private key in the form that Java reads, too."""
    from cryptography.hazmat.primitives import serialization

    return serialization.load_pem_private_key(key, None).private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )


def _write_private(path: Path, content: bytes) -> None:
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
        file.write(content)
