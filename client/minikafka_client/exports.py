"""Names of a package that are imported when they are first used.

Importing ``minikafka_client`` takes no time: trio, and the modules that need it, are imported with
the first class that runs on it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module


def lazy_exports(
    package: str, homes: Mapping[str, str]
) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """The package's ``__getattr__`` and ``__dir__``; sets its ``__all__``.

    Classes report the package as their module, as the documentation and the user's imports have it.

    Args:
        package: its name.
        homes: module (in the package) -> names that it defines, with spaces between.
    """
    home_of = {name: home for home, names in homes.items() for name in names.split()}
    namespace = vars(sys.modules[package])
    namespace["__all__"] = sorted(home_of)

    def get(name: str) -> object:
        home = home_of.get(name)
        if home is None:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value: object = getattr(import_module(f"{package}.{home}"), name)
        _publish(package, homes)
        namespace[name] = value
        return value

    return get, lambda: sorted({*namespace, *home_of})


def _publish(package: str, homes: Mapping[str, str]) -> None:
    """For all loaded modules: an error that was never imported is still shown by its name."""
    for home, names in homes.items():
        module = sys.modules.get(f"{package}.{home}")
        if module is not None:
            for name in names.split():
                value = getattr(module, name, None)
                if isinstance(value, type) and value.__module__ == module.__name__:
                    value.__module__ = package
