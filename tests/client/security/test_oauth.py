"""OAUTHBEARER: what the client says, and where its tokens come from."""

from __future__ import annotations

import json
import threading
from base64 import b64decode
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from urllib.parse import parse_qs

import pytest

from minikafka.security.oauthbearer import parse_initial_response, unsecured_claims
from minikafka_client import AuthenticationError, Producer
from minikafka_client.oauth import (
    AccessToken,
    ClientCredentials,
    OAuthBearer,
    token_from_file,
    unsecured_token,
)
from minikafka_client.security_properties import security_options

ERROR = b'{"status":"invalid_token"}'


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def said(mechanism: OAuthBearer) -> tuple[str, str, dict[str, str]]:
    return parse_initial_response(next(mechanism.authenticate("b")))


def test_the_token_and_everything_beside_it_is_shown() -> None:
    mechanism = OAuthBearer(lambda: "t=", authorization_id="a,b=", extensions={"cluster": "x y"})
    assert said(mechanism) == ("t=", "a,b=", {"cluster": "x y"})
    assert said(OAuthBearer(lambda: AccessToken("t"))) == ("t", "", {})


def test_a_broker_that_is_content_says_nothing() -> None:
    conversation = OAuthBearer(lambda: "t").authenticate("b")
    next(conversation)
    with pytest.raises(StopIteration):
        conversation.send(b"")


@pytest.mark.parametrize(
    ("answer", "text"),
    [(ERROR, "invalid_token"), (b"?", "no reason"), (b"[]", "no reason"), (b"{}", "no reason")],
)
def test_an_error_of_the_broker_is_acknowledged(answer: bytes, text: str) -> None:
    conversation = OAuthBearer(lambda: "t").authenticate("b")
    next(conversation)
    assert conversation.send(answer) == b"\x01"
    with pytest.raises(AuthenticationError, match=text):
        conversation.send(b"")


def test_a_token_is_used_again_until_it_is_almost_over() -> None:
    clock, fetched = Clock(), list[str]()

    def fetch() -> AccessToken:
        fetched.append(f"t{len(fetched)}")
        return AccessToken(fetched[-1], 100.0)

    mechanism = OAuthBearer(fetch, clock=clock)
    seen: list[str] = []
    for clock.now in (0.0, 79.0, 81.0, 82.0):
        mechanism.prepare()
        seen.append(said(mechanism)[0])
    assert seen == ["t0", "t0", "t1", "t1"]


def test_a_token_that_was_refused_is_not_shown_again() -> None:
    tokens = iter([AccessToken("old", 100.0), AccessToken("new", 100.0)])
    mechanism = OAuthBearer(lambda: next(tokens), clock=Clock())
    conversation = mechanism.authenticate("b")
    next(conversation)
    conversation.send(ERROR)
    mechanism.prepare()
    assert said(mechanism)[0] == "new"


def test_what_is_no_token_is_not_sent() -> None:
    with pytest.raises(AuthenticationError, match="characters"):
        OAuthBearer(lambda: "t\x01host=x").prepare()


@pytest.mark.parametrize("extensions", [{"auth": "x"}, {"a1": "x"}, {"a": "\x01"}, {"a": ""}])
def test_extensions_that_cannot_be_sent_are_refused(extensions: dict[str, str]) -> None:
    with pytest.raises(ValueError, match="extension"):
        OAuthBearer(lambda: "t", extensions=extensions)


def test_nothing_shows_a_token() -> None:
    token = AccessToken("very-secret")
    shown = f"{token!r} {OAuthBearer(lambda: token)!r} {ClientCredentials('http://h', 'i', 's3')!r}"
    assert "secret" not in shown
    assert "s3" not in shown


def test_a_token_for_tests_says_who_and_for_how_long() -> None:
    token = unsecured_token("alice", lifetime_s=60, claims={"scope": "kafka"})
    claims = unsecured_claims(token.value)
    assert (claims["sub"], claims["scope"], token.expires_in_s) == ("alice", "kafka", 60)
    assert claims["exp"] - claims["iat"] == pytest.approx(60)


# --- where tokens come from ----------------------------------------------------------------------


class Endpoint:
    """Answers one request as it is told, and remembers it."""

    def __init__(self, status: int, answer: bytes) -> None:
        self.status = status
        self.answer = answer
        self.authorization = ""
        self.form: dict[str, list[str]] = {}
        self.url = ""


@contextmanager
def endpoint(answer: bytes, status: int = 200) -> Generator[Endpoint]:
    made = Endpoint(status, answer)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            size = int(self.headers["Content-Length"])
            made.authorization = self.headers["Authorization"]
            made.form = parse_qs(self.rfile.read(size).decode())
            self.send_response(made.status)
            self.end_headers()
            self.wfile.write(made.answer)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        made.url = f"http://127.0.0.1:{server.server_port}/token"
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield made
        finally:
            server.shutdown()
            thread.join()


def test_client_credentials_are_exchanged_for_a_token() -> None:
    answer = json.dumps({"access_token": "t", "expires_in": 300}).encode()
    with endpoint(answer) as asked:
        token = ClientCredentials(asked.url, "me", "my secret", scope="kafka")()
    assert token == AccessToken("t", 300)
    assert b64decode(asked.authorization.removeprefix("Basic ")) == b"me:my+secret"
    assert asked.form == {"grant_type": ["client_credentials"], "scope": ["kafka"]}


@pytest.mark.parametrize(
    ("answer", "status", "text"),
    [
        (b"", 401, "Unauthorized"),
        (b"no", 200, "something else"),
        (b"{}", 200, "something else"),
        (b"[]", 200, "something else"),
        (b'{"access_token": 7}', 200, "something else"),
    ],
)
def test_an_endpoint_that_gives_no_token_is_an_error(answer: bytes, status: int, text: str) -> None:
    with endpoint(answer, status) as asked, pytest.raises(AuthenticationError, match=text) as found:
        ClientCredentials(asked.url, "me", "my secret")()
    assert "secret" not in str(found.value)


def test_an_endpoint_is_an_address() -> None:
    with pytest.raises(ValueError, match="https:"):
        ClientCredentials("file:/etc/passwd", "me", "my secret")


def test_a_token_in_a_file_is_read_each_time(tmp_path: Path) -> None:
    mechanism = OAuthBearer(token_from_file(tmp_path / "token"))
    with pytest.raises(AuthenticationError, match="no token in"):
        mechanism.prepare()
    for value in ("one", "two"):
        (tmp_path / "token").write_text(f"{value}\n", encoding="ascii")
        mechanism.prepare()
        assert said(mechanism)[0] == value


# --- properties ----------------------------------------------------------------------------------

BASE = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "OAUTHBEARER"}
URL = "sasl.oauthbearer.token.endpoint.url"
CREDENTIALS = "sasl.oauthbearer.client.credentials.client"


@pytest.mark.parametrize(
    "properties",
    [
        {f"{CREDENTIALS}.id": "me", f"{CREDENTIALS}.secret": "s", "sasl.oauthbearer.scope": "k"},
        {
            "sasl.oauthbearer.method": "oidc",
            "sasl.oauthbearer.client.id": "me",
            "sasl.oauthbearer.client.secret": "s",
            "sasl.oauthbearer.scope": "k",
        },
        {"sasl.jaas.config": 'X required clientId="me" clientSecret="s" scope="k";'},
    ],
)
def test_kafkas_properties_name_an_endpoint(properties: dict[str, str]) -> None:
    with endpoint(b'{"access_token": "t"}') as asked:
        mechanism = security_options({**BASE, URL: asked.url, **properties})["sasl"]
        mechanism.prepare()
    assert said(mechanism)[0] == "t"
    assert b64decode(asked.authorization.removeprefix("Basic ")) == b"me:s"
    assert asked.form["scope"] == ["k"]


def test_kafkas_properties_name_a_file(tmp_path: Path) -> None:
    path = tmp_path / "a token"
    path.write_text("t", encoding="ascii")
    assert said(security_options({**BASE, URL: path.as_uri()})["sasl"])[0] == "t"


def test_kafkas_properties_ask_for_a_token_without_a_signature() -> None:
    options = 'unsecuredLoginStringClaim_sub="alice" unsecuredLoginStringClaim_scope="k"'
    mechanism = security_options({**BASE, "sasl.jaas.config": f"X required {options};"})["sasl"]
    claims = unsecured_claims(said(mechanism)[0])
    assert (claims["sub"], claims["scope"]) == ("alice", "k")


@pytest.mark.parametrize(
    ("properties", "text"),
    [
        ({}, "needs a token"),
        ({URL: "https://h"}, "needs a token"),
        ({URL: "ftp://h", f"{CREDENTIALS}.id": "me", f"{CREDENTIALS}.secret": "s3"}, "https:"),
    ],
)
def test_properties_that_give_no_token_are_refused(properties: dict[str, str], text: str) -> None:
    with pytest.raises(ValueError, match=text) as caught:
        Producer.from_config({"bootstrap.servers": "h:1", **BASE, **properties})
    assert "s3" not in str(caught.value)
