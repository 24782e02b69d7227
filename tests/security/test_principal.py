"""Principals as ACLs and settings write them."""

from __future__ import annotations

import pytest

from minikafka.security.principal import Principal


@pytest.mark.parametrize("text", ["User:alice", "User:CN=a:b,O=c", "Role:admins"])
def test_a_principal_is_read_and_written_alike(text: str) -> None:
    assert str(Principal.parse(text)) == text


@pytest.mark.parametrize("text", ["", "alice", "User:", ":alice"])
def test_half_a_principal_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="TYPE:NAME"):
        Principal.parse(text)
