r"""`subscribePattern`: Java's regular expressions, translated to Python's.

Spark's own connector compiles the option with `java.util.regex` and subscribes to every topic in
whose name it finds a match. Most of the two dialects is the same; what differs is parsed here:

- Character classes. Java has unions and intersections (``[a-z&&[^aeiou]]``), POSIX and Unicode
  classes (``\p{Lower}``). A topic's name has only 65 different characters, so a class is evaluated
  and written out.
- ``(?i)`` holds to the end of its group, across ``|``. It is applied to each character.
- ``\Q...\E``, ``\z``, ``\h``, ``\x{2d}``, ``(?<name>...)``, ``\k<name>``.

What has no translation raises `PatternError`; nothing is passed on in the hope that it means the
same.
"""

from __future__ import annotations

import re
import string
import unicodedata
from collections.abc import Callable
from typing import Final

_ASCII: Final = frozenset(map(chr, range(128)))
_IN_TOPIC_NAMES: Final = frozenset(string.ascii_letters + string.digits + "._-")
_NOTHING: Final = r"[^\x00-\U0010ffff]"

_WORD: Final = frozenset(string.ascii_letters + string.digits + "_")
_DIGITS: Final = frozenset(string.digits)
_SPACE: Final = frozenset(" \t\n\x0b\f\r")
_ESCAPED_CLASSES: Final = {
    "d": _DIGITS,
    "w": _WORD,
    "s": _SPACE,
    "h": frozenset(" \t"),
    "v": frozenset("\n\x0b\f\r"),
}
_CONTROL: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f", "a": "\a", "e": "\x1b"}
_PUNCTUATION: Final = frozenset(string.punctuation)
_PROPERTIES: Final = {
    "Lower": frozenset(string.ascii_lowercase),
    "Upper": frozenset(string.ascii_uppercase),
    "ASCII": _ASCII,
    "Alpha": frozenset(string.ascii_letters),
    "Digit": _DIGITS,
    "Alnum": frozenset(string.ascii_letters) | _DIGITS,
    "Punct": _PUNCTUATION,
    "Graph": frozenset(string.ascii_letters) | _DIGITS | _PUNCTUATION,
    "Print": frozenset(string.ascii_letters) | _DIGITS | _PUNCTUATION | {" "},
    "Blank": frozenset(" \t"),
    "Cntrl": frozenset(map(chr, range(32))) | {"\x7f"},
    "XDigit": frozenset(string.hexdigits),
    "Space": _SPACE,
    "IsAlphabetic": frozenset(string.ascii_letters),
    "IsDigit": _DIGITS,
    "IsLowercase": frozenset(string.ascii_lowercase),
    "IsUppercase": frozenset(string.ascii_uppercase),
    "IsPunctuation": frozenset("!\"#%&'()*,-./:;?@[\\]_{}"),
}
_FLAGS_WITHOUT_EFFECT: Final = "dmsuU"
"""About line ends and letters outside ASCII, which no topic's name has."""

_QUANTIFIER: Final = re.compile(r"(?:[*+?]|\{\d+(?:,\d*)?\})[?+]?")
_GROUP_NAME: Final = re.compile(r"\?<([a-zA-Z][a-zA-Z0-9]*)>")
_FLAGS: Final = re.compile(r"\?([a-zA-Z]*)(?:-([a-zA-Z]*))?([:)])")
_QUOTED: Final = re.compile(r"\\Q(.*?)(?:\\E|\Z)", re.DOTALL)
_ESCAPED_OR_QUOTED: Final = re.compile(r"(\\Q.*?(?:\\E|\Z))|\\.", re.DOTALL)

Characters = frozenset[str]


class PatternError(ValueError):
    """A regular expression is malformed, or cannot be translated."""


def topic_matcher(pattern: str) -> Callable[[str], bool]:
    """Return whether Java would find a pattern in a topic's name.

    Raises:
        PatternError: the pattern is malformed, or has no translation.
    """
    translated = _Translator(_unquoted(pattern)).translated()
    try:
        search = re.compile(translated, re.ASCII).search
    except (re.error, OverflowError, RecursionError) as error:
        raise PatternError(str(error)) from None
    return lambda name: search(name) is not None


def _unquoted(pattern: str) -> str:
    r"""Replace ``\Q...\E`` with the escaped characters."""

    def escape(found: re.Match[str]) -> str:
        if found[1] is None:
            return found[0]
        quoted = _QUOTED.fullmatch(found[1])
        assert quoted is not None
        return "".join(map(_escaped, quoted[1]))

    return _ESCAPED_OR_QUOTED.sub(escape, pattern)


def _escaped(character: str) -> str:
    if character in string.digits:
        return rf"\x{ord(character):02x}"  # it must not continue a back reference
    return character if character.isalnum() else f"\\{character}"


class _Translator:
    def __init__(self, pattern: str) -> None:
        self._pattern = pattern
        self._at = 0
        self._ignores_case = False

    def translated(self) -> str:
        parts: list[str] = []
        flags_outside: list[bool] = []
        can_repeat = False
        while self._at < len(self._pattern):
            if quantifier := self._taken(_QUANTIFIER):
                if not can_repeat:
                    raise PatternError(f"nothing to repeat before {quantifier[0]!r}")
                parts.append(quantifier[0])
                can_repeat = False
                continue
            can_repeat = True
            match character := self._next():
                case "(":
                    flags_outside.append(self._ignores_case)
                    opened = self._group()
                    if not opened:
                        flags_outside.pop()
                    parts.append(opened)
                    can_repeat = False
                case ")":
                    if not flags_outside:
                        raise PatternError("unmatched ')'")
                    self._ignores_case = flags_outside.pop()
                    parts.append(character)
                case "[":
                    parts.append(_written(self._class()))
                case "\\":
                    parts.append(self._escape())
                case "|" | "^":
                    parts.append(character)
                    can_repeat = False
                case "." | "$":
                    parts.append(character)
                case "{":
                    raise PatternError("'{' without a number of repetitions; write \\{")
                case _:
                    parts.append(self._literal(character))
        if flags_outside:
            raise PatternError("missing ')'")
        return "".join(parts)

    # --- the text ---

    def _next(self) -> str:
        if self._at >= len(self._pattern):
            raise PatternError("it ends too early")
        self._at += 1
        return self._pattern[self._at - 1]

    def _taken(self, expression: re.Pattern[str]) -> re.Match[str] | None:
        found = expression.match(self._pattern, self._at)
        if found is not None:
            self._at = found.end()
        return found

    def _has(self, text: str) -> bool:
        return self._pattern.startswith(text, self._at)

    def _took(self, text: str) -> bool:
        if not self._has(text):
            return False
        self._at += len(text)
        return True

    # --- groups and escapes ---

    def _group(self) -> str:
        """What opens a group; empty for flags without a group of their own."""
        for same in ("?=", "?!", "?<=", "?<!", "?>"):
            if self._took(same):
                return f"({same}"
        if name := self._taken(_GROUP_NAME):
            return f"(?P<{name[1]}>"
        if flags := self._taken(_FLAGS):
            for letter in flags[1] + (flags[2] or ""):
                if letter != "i" and letter not in _FLAGS_WITHOUT_EFFECT:
                    raise PatternError(f"the flag {letter!r} cannot be translated")
            if "i" in flags[1]:
                self._ignores_case = True
            if "i" in (flags[2] or ""):
                self._ignores_case = False
            return "(?:" if flags[3] == ":" else ""
        if self._has("?"):
            raise PatternError(f"'({self._pattern[self._at : self._at + 3]}' cannot be translated")
        return "("

    def _escape(self) -> str:
        """An escape outside a class."""
        match character := self._next():
            case "b" if self._has("{"):
                raise PatternError("\\b{g} cannot be translated")
            case "A" | "b" | "B":
                return f"\\{character}"
            case "z" | "Z":
                return "\\Z"
            case "k":
                name = self._taken(re.compile(r"<([a-zA-Z][a-zA-Z0-9]*)>"))
                if name is None:
                    raise PatternError("\\k needs the name of a group")
                return self._reference(f"(?P={name[1]})")
            case _ if character in "123456789":
                if self._taken(re.compile(r"\d")):
                    raise PatternError("a back reference of two digits cannot be translated")
                return self._reference(f"\\{character}")
            case _:
                found = self._escaped_characters(character)
                return self._literal(found) if isinstance(found, str) else _written(found)

    def _reference(self, text: str) -> str:
        return f"(?i:{text})" if self._ignores_case else f"(?:{text})"

    def _literal(self, character: str) -> str:
        found = self._in_any_case({character})
        return re.escape(character) if len(found) == 1 else _written(found)

    def _escaped_characters(self, character: str) -> str | Characters:
        """One character, or the characters of a class, after a backslash was read."""
        if character.lower() in _ESCAPED_CLASSES:
            found = _ESCAPED_CLASSES[character.lower()]
            return found if character.islower() else _ASCII - found
        if character in "pP":
            found = self._property()
            return found if character == "p" else _ASCII - found
        if character in _CONTROL:
            return _CONTROL[character]
        if character == "0":
            return self._code_point(r"([0-3]?[0-7]{1,2})", 8)
        if character == "x":
            return self._code_point(r"([0-9a-fA-F]{2})|\{([0-9a-fA-F]{1,6})\}", 16)
        if character == "u":
            return self._code_point(r"([0-9a-fA-F]{4})", 16)
        if character.isascii() and character.isalpha():
            raise PatternError(f"\\{character} cannot be translated")
        return character

    def _code_point(self, expression: str, base: int) -> str:
        found = self._taken(re.compile(expression))
        if found is None:
            raise PatternError("a character's code is malformed")
        try:
            return chr(int(found[found.lastindex or 1], base))
        except ValueError:
            raise PatternError("there is no character with such a code") from None

    def _property(self) -> Characters:
        found = self._taken(re.compile(r"\{(\w+)\}|([A-Z])"))
        name = "" if found is None else found[1] or found[2]
        if name in _PROPERTIES:
            characters = _PROPERTIES[name]
        else:
            category = name.removeprefix("Is")
            characters = frozenset(
                each for each in _ASCII if unicodedata.category(each).startswith(category)
            )
            if len(category) not in (1, 2) or not characters:
                raise PatternError(f"\\p{{{name}}} cannot be translated")
        if self._ignores_case and characters != self._in_any_case(characters):
            raise PatternError(f"\\p{{{name}}} with (?i) cannot be translated")
        return characters

    def _in_any_case(self, characters: Characters | set[str]) -> Characters:
        if not self._ignores_case:
            return frozenset(characters)
        return frozenset(
            case for each in characters for case in ((each, each.swapcase())[: 1 + each.isascii()])
        )

    # --- character classes ---

    def _class(self) -> Characters:
        """A class whose ``[`` was read."""
        is_negated = self._took("^")
        found = self._operand(is_first=True)
        while self._took("&&"):
            if self._has("&"):
                raise PatternError("'&&&' cannot be translated; write \\&")
            found &= self._operand(is_first=False)
        if not self._took("]"):
            raise PatternError("missing ']'")
        return _ASCII - found if is_negated else found

    def _operand(self, *, is_first: bool) -> Characters:
        """A union, up to ``&&`` or ``]``; the first character may be a ``]`` itself."""
        found: Characters | None = None
        has_class = False
        while not self._has("&&") and (not self._has("]") or (found is None and is_first)):
            if self._took("["):
                added = self._class()
                has_class = True
            else:
                added = self._range()
                if has_class and not is_first:
                    raise PatternError("characters after a class, behind '&&'; write [...] around")
            found = added if found is None else found | added
        if found is None:
            raise PatternError("'&&' has nothing on one side")
        return found

    def _range(self) -> Characters:
        first = self._one()
        if not isinstance(first, str):
            return first
        if not self._has("-") or self._has("-]") or self._has("-["):
            return self._in_any_case({first})
        self._at += 1
        last = self._one()
        if not isinstance(last, str) or last < first:
            raise PatternError(f"a range that begins with {first!r} is malformed")
        between = {each for each in _ASCII if first <= each <= last}
        return self._in_any_case(between)

    def _one(self) -> str | Characters:
        character = self._next()
        return self._escaped_characters(self._next()) if character == "\\" else character


def _written(characters: Characters) -> str:
    """A class of Python's, of those characters that a topic's name can have."""
    found = sorted(characters & _IN_TOPIC_NAMES)
    return f"[{re.escape(''.join(found))}]" if found else _NOTHING
