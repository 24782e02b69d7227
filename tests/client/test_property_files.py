"""``client.properties``: Java's format, and whose files are read."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minikafka_client.property_files import parse_properties, read_properties


def test_the_format_is_javas() -> None:
    text = (
        "# a comment\n! another = one\n\n"
        "a=1\n  b : 2  \nc 3\nd\ne=\n"
        "long = one, \\\n    two, \\\n  three\n"
        "path=C:\\\\temp\\ttab \\u00e9\n"
        "key\\ with\\=signs = x=y\n"
        "a = again\r\nlast=\\"
    )
    assert parse_properties(text) == {
        "a": "again",
        "b": "2  ",
        "c": "3",
        "d": "",
        "e": "",
        "long": "one, two, three",
        "path": "C:\\temp\ttab é",
        "key with=signs": "x=y",
        "last": "",
    }


def test_jaas_lines_keep_their_quotes_and_equals_signs() -> None:
    line = 'sasl.jaas.config=a.b.ScramLoginModule required username="a" password="p=\\"q";'
    assert parse_properties(line) == {
        "sasl.jaas.config": 'a.b.ScramLoginModule required username="a" password="p="q";'
    }


@given(st.dictionaries(st.text(st.characters(codec="utf-8"), min_size=1), st.text()))
def test_what_is_escaped_comes_back(properties: dict[str, str]) -> None:
    def escaped(text: str) -> str:
        return "".join(f"\\u{ord(one):04x}" if ord(one) < 0x10000 else one for one in text)

    text = "".join(f"{escaped(name)}={escaped(value)}\n" for name, value in properties.items())
    assert parse_properties(text) == properties


@given(st.text())
def test_any_text_is_read_as_something(text: str) -> None:
    assert all(isinstance(value, str) for value in parse_properties(text).values())


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o604, 0o660])
def test_secrets_that_others_can_read_are_refused(tmp_path: Path, mode: int) -> None:
    file = tmp_path / "client.properties"
    file.write_text("sasl.username=alice\nsasl.password=alice-secret\n")
    file.chmod(mode)
    with pytest.raises(ValueError, match=rf"holds sasl.password.*chmod 600 {file}") as caught:
        read_properties(file)
    assert "alice-secret" not in str(caught.value)
    file.chmod(0o600)
    assert read_properties(file)["sasl.password"] == "alice-secret"


def test_a_file_without_secrets_may_be_everybodys(tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text("client.id=a\n")
    file.chmod(0o644)
    assert read_properties(file) == {"client.id": "a"}


def test_what_is_no_file_of_properties_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ValueError, match="not UTF-8"):
        read_properties(file)
    file.write_bytes(b"#" * 2_000_000)
    with pytest.raises(ValueError, match="larger than"):
        read_properties(file)
