"""Rules on the syntax tree of Python files."""

import ast
import re
from collections.abc import Iterator

from tests.tidy.source import Source, dotted, rule

# Everything in these folders is a plain `def` (ARCHITECTURE.md): the shells above them know trio.
PURE_FOLDERS = (
    "minikafka/protocol",
    "minikafka/storage",
    "minikafka/replication",
    "minikafka/consensus",
    "minikafka/security",
    "minikafka/metadata",
    "minikafka/coordinator",
    "client/minikafka_client/core",
    "client/minikafka_client/plans",
)
FUNCTION_LINES_MAX = 70
VAGUE_MODULE = re.compile(r"(?:^|_)(?:utils?|helpers?|common|misc|manager2|stuff|info)$")


@rule(
    applies=lambda source: source.is_python and source.is_under(*PURE_FOLDERS),
    objects_to={
        "minikafka/storage/log.py": "async def append(): ...",
        "client/minikafka_client/core/fetcher.py": "async def f():\n    async with g(): pass",
    },
    accepts={"minikafka/storage/log.py": "def append(): ..."},
)
def async_means_shell(source: Source) -> Iterator[tuple[int, str]]:
    for node in source.nodes:
        if isinstance(node, ast.AsyncFunctionDef):
            yield node.lineno, f"async def {node.name} below the broker; return an effect instead"


@rule(
    applies=lambda source: source.is_python,
    objects_to={"minikafka/broker/utils.py": "", "tests/storage/log_helpers.py": ""},
    accepts={"minikafka/broker/purgatory.py": "", "minikafka/__init__.py": ""},
)
def a_module_is_named_after_its_idea(source: Source) -> Iterator[tuple[int, str]]:
    stem = source.path.rsplit("/", maxsplit=1)[-1].removesuffix(".py")
    if VAGUE_MODULE.search(stem):
        yield 1, f"{stem} says nothing about what is inside"


@rule(
    applies=lambda source: source.path == "spark_connector/pyspark_minikafka/__init__.py",
    objects_to={"spark_connector/pyspark_minikafka/__init__.py": "import pyarrow as pa"},
    accepts={"spark_connector/pyspark_minikafka/__init__.py": "from typing import Any"},
)
def spark_can_always_import_the_connector(source: Source) -> Iterator[tuple[int, str]]:
    """Spark imports every `pyspark_*` module it finds; a slow or broken one hurts everybody."""
    for node in source.tree.body:
        if isinstance(node, ast.Import | ast.ImportFrom):
            module = getattr(node, "module", None) or node.names[0].name
            if module.split(".")[0] in {"pyspark", "pyarrow", "numpy", "trio", "minikafka_client"}:
                yield node.lineno, f"{module} must be imported when it is used, not here"


@rule(
    applies=lambda source: source.is_python and not source.is_under("tests"),
    objects_to={
        "minikafka/broker/a.py": "send, receive = trio.open_memory_channel(math.inf)",
        "minikafka/broker/b.py": "send, receive = trio.open_memory_channel[int](float('inf'))",
        "minikafka/broker/c.py": "@functools.lru_cache(maxsize=None)\ndef f(topic): ...",
        "minikafka/broker/d.py": "@cache\ndef f(topic): ...",
    },
    accepts={
        "minikafka/broker/a.py": "send, receive = trio.open_memory_channel(REQUESTS_MAX)",
        "minikafka/broker/b.py": "@cache\ndef table(): ...",
        "minikafka/broker/c.py": "@lru_cache(maxsize=TOPICS_MAX)\ndef f(topic): ...",
    },
)
def every_buffer_is_bounded(source: Source) -> Iterator[tuple[int, str]]:
    for node in source.nodes:
        if isinstance(node, ast.Call):
            function = node.func.value if isinstance(node.func, ast.Subscript) else node.func
            sizes = [ast.unparse(argument) for argument in node.args]
            if dotted(function).endswith("open_memory_channel") and any("inf" in x for x in sizes):
                yield node.lineno, "a channel without a limit; name one in the configuration"
        if isinstance(node, ast.FunctionDef) and node.args.args:
            for decorator in map(ast.unparse, node.decorator_list):
                if re.fullmatch(r"(functools\.)?(cache|lru_cache\((maxsize=)?None\))", decorator):
                    yield node.lineno, f"{node.name} caches without a limit: @{decorator}"


@rule(
    applies=lambda source: source.is_python,
    objects_to={"minikafka/storage/log.py": "def append():\n" + "    f()\n" * FUNCTION_LINES_MAX},
    accepts={
        "minikafka/storage/log.py": "def append():\n" + "    f()\n" * (FUNCTION_LINES_MAX - 1)
    },
    allowed={
        "minikafka/protocol/records/record.py": "a loop without calls: one would cost 13 %",
    },
)
def a_function_fits_on_one_screen(source: Source) -> Iterator[tuple[int, str]]:
    """Files have no limit: a file is one idea, however long that is."""
    for node in source.nodes:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.end_lineno is not None:
            lines = node.end_lineno - node.lineno + 1
            if lines > FUNCTION_LINES_MAX:
                yield node.lineno, f"{node.name} has {lines} lines; it does more than one thing"


@rule(
    applies=lambda source: source.is_python and source.is_under("minikafka"),
    objects_to={
        "minikafka/broker/replicas/fetcher.py": "def f(broker: Broker) -> None: ...",
        "minikafka/broker/control/a.py": "class A:\n    def __init__(self, b: 'Broker'): ...",
    },
    accepts={
        "minikafka/broker/handlers/fetch.py": "def f(broker: Broker) -> None: ...",
        "minikafka/broker/net/server.py": "class A:\n    def __init__(self, b: Broker): ...",
        "minikafka/broker/control/a.py": "def f(broker_id: int) -> None: ...",
    },
)
def only_handlers_and_listeners_see_the_whole_broker(source: Source) -> Iterator[tuple[int, str]]:
    """A service takes what it uses, by name and type; see `minikafka.broker.broker`."""
    knowing = ("minikafka/broker/handlers", "minikafka/broker/net", "minikafka/testing/inside")
    if source.is_under(*knowing) or source.path in {
        *(f"minikafka/broker/{name}.py" for name in ("run", "opening", "lifetime")),
        "minikafka/pytest_plugin.py",  # its Broker is the one of minikafka.testing
    }:
        return
    for node in source.nodes:
        if isinstance(node, ast.arg) and node.annotation is not None:
            annotation = ast.unparse(node.annotation).strip("'\"")
            if re.search(r"\bBroker\b", annotation):
                yield node.lineno, f"{node.arg} is the whole broker; take the services it uses"
