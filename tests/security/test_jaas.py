"""JAAS configurations."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minikafka.security.jaas import JaasModule, MalformedJaasError, parse_jaas

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"


@pytest.mark.parametrize(
    ("text", "options"),
    [
        (f"{PLAIN} required;", {}),
        (f'{PLAIN} required user_a="x";', {"user_a": "x"}),
        (f"{PLAIN} REQUIRED\n  user_a='x y'\n  user_b = z ;\n", {"user_a": "x y", "user_b": "z"}),
        (f'{PLAIN} required user_a="q\\"\\\\\\n;=";', {"user_a": 'q"\\\n;='}),
        (f'{PLAIN} required user_a="";', {"user_a": ""}),
    ],
)
def test_a_login_module_has_options(text: str, options: dict[str, str]) -> None:
    assert parse_jaas(text) == JaasModule("PlainLoginModule", options)


@pytest.mark.parametrize(
    "text",
    [
        "",
        ";",
        PLAIN,
        f'{PLAIN} required user_a="secret"',
        f'{PLAIN} user_a="secret";',
        f'{PLAIN} required user_a="secret;',
        f'{PLAIN} required user_a "secret";',
        f'{PLAIN} required user_a= ="secret";',
        f'{PLAIN} required user_a="secret"; {PLAIN} required user_b="secret";',
    ],
)
def test_what_is_malformed_is_refused_and_not_repeated(text: str) -> None:
    with pytest.raises(MalformedJaasError) as caught:
        parse_jaas(text)
    assert "secret" not in str(caught.value)


def test_a_module_does_not_show_its_passwords() -> None:
    assert "secret" not in repr(parse_jaas(f'{PLAIN} required user_a="secret";'))


@given(password=st.text(max_size=30))
def test_every_password_can_be_quoted(password: str) -> None:
    quoted = password.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    assert parse_jaas(f'{PLAIN} required user_a="{quoted}";').options == {"user_a": password}


@given(text=st.text(st.sampled_from("ab=;\"'\\ \n"), max_size=30))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        found = parse_jaas(f"{PLAIN} required {text}")
    except MalformedJaasError:
        return
    assert found.name == "PlainLoginModule"
