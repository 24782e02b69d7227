"""A broker's configuration: defaults, a TOML file, ``--set`` and other flags.

The settings themselves are declared in `minikafka.metadata.setting_table`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

from ...metadata.setting_table import (
    BROKER_SETTINGS,
    COARSER_SETTINGS,
    LISTENER_PREFIX,
    SYNONYMS,
    BrokerConfig,
    setting_of_listener,
)
from ...metadata.settings import (
    LONG_MAX,
    InvalidSettingError,
    Setting,
    SettingType,
    Value,
    parse_setting,
    render_setting,
    unknown_setting,
)

__all__ = ["load_config", "secrets_in"]


def load_config(
    toml_text: str | None, assignments: Sequence[str], flags: Mapping[str, str]
) -> BrokerConfig:
    """Build the configuration; later sources override earlier ones.

    Args:
        toml_text: the text of a TOML file: ``"num.partitions" = 3``, or nested tables
            (``[log.retention]`` / ``ms = 1000``), which are equivalent.
        assignments: ``key=value`` texts of ``--set``.
        flags: settings given by flags of their own, by Kafka name.

    Raises:
        InvalidSettingError: a name is unknown, a value is invalid, or the text is not TOML.
    """
    texts: dict[str, str] = {}
    if toml_text is not None:
        import tomllib

        try:
            texts.update(_flatten(tomllib.loads(toml_text)))
        except tomllib.TOMLDecodeError as error:
            raise InvalidSettingError(
                f"The configuration file is not valid TOML: {error}"
            ) from None
    for assignment in assignments:
        name, separator, text = assignment.partition("=")
        if not separator:
            # Whatever it is, it may hold a secret.
            words = re.split(r"[\s:]", assignment, maxsplit=1)[0]
            raise InvalidSettingError(f"--set takes key=value, not {words!r}")
        texts[name.strip()] = text
    texts.update(flags)
    of_listeners = {
        name: texts.pop(name) for name in list(texts) if name.startswith(LISTENER_PREFIX)
    }
    values = _parse(texts)
    return BrokerConfig(
        explicitly_set=frozenset(values),
        listener_settings=_parse_of_listeners(of_listeners),
        **{name.replace(".", "_"): value for name, value in values.items()},  # type: ignore[arg-type]  # the table's types are the fields' types
    )


def _parse(texts: Mapping[str, str]) -> dict[str, Value]:
    values: dict[str, Value] = {}
    coarser = [given for given in COARSER_SETTINGS if given in texts]
    others = [given for given in texts if given not in COARSER_SETTINGS]
    for given in [*coarser, *others]:  # the finest unit comes last, so it wins
        name = SYNONYMS.get(given, given)
        if given in COARSER_SETTINGS:
            name, factor = COARSER_SETTINGS[given]
            as_int = Setting(given, SettingType.LONG, 0, "", -1, LONG_MAX // factor)
            number = parse_setting(as_int, texts[given])
            assert isinstance(number, int)
            values[name] = number * factor if number >= 0 else -1
            continue
        setting = BROKER_SETTINGS.get(name)
        if setting is None:
            raise unknown_setting(given, BROKER_SETTINGS)
        values[name] = parse_setting(setting, texts[given])
    return values


def _parse_of_listeners(texts: Mapping[str, str]) -> dict[str, Value]:
    values: dict[str, Value] = {}
    for name, text in texts.items():
        setting = setting_of_listener(name)
        if setting is None:
            raise InvalidSettingError(
                f"{name[:100]} is no setting of a listener: these are "
                f"{LISTENER_PREFIX}<name in lower case>.ssl.*, .sasl.*, .max.connections and "
                ".max.connection.creation.rate"
            )
        values[name] = parse_setting(setting._replace(name=name), text)
    return values


def secrets_in(toml_text: str | None, assignments: Sequence[str]) -> list[str]:
    """The names of the settings with secrets that a file and ``--set`` give."""
    texts: dict[str, str] = {}
    if toml_text is not None:
        import tomllib

        texts = _flatten(tomllib.loads(toml_text))
    texts.update((one.partition("=")[0].strip(), one) for one in assignments)
    found: list[str] = []
    for name in texts:
        setting = BROKER_SETTINGS.get(SYNONYMS.get(name, name)) or setting_of_listener(name)
        if setting is not None and setting.kind is SettingType.PASSWORD:
            found.append(name)
    return found


def _flatten(table: Mapping[str, Any], prefix: str = "") -> dict[str, str]:
    flat: dict[str, str] = {}
    for key, value in table.items():
        name = prefix + key
        if isinstance(value, dict):
            flat.update(_flatten(cast("dict[str, Any]", value), name + "."))
        elif isinstance(value, list):
            flat[name] = render_setting(tuple(map(str, cast("Iterable[object]", value))))
        else:
            flat[name] = render_setting(value)
    return flat
