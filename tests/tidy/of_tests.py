"""Rules on the syntax tree of the tests: what they may not do, and that they can fail."""

import ast
import re
from collections.abc import Iterator
from itertools import pairwise

from tests.tidy.source import Source, dotted, rule

CLOCKS = {"monotonic", "perf_counter", "perf_counter_ns", "monotonic_ns", "current_time"}
DURATIONS = re.compile(r"^(?:elapsed|took|duration|wall_time)(?:_|$)")
SLEEPS = {"time.sleep", "trio.sleep", "asyncio.sleep", "anyio.sleep"}
SKIPS = {
    "pytest.skip",
    "pytest.mark.skip",
    "pytest.mark.skipif",
    "pytest.mark.xfail",
    "pytest.xfail",
    "pytest.importorskip",
    "unittest.skip",
}
# A test proves something with one of these, or with a function that is named as a proof.
PROOF_NAMES = re.compile(r"^(?:assert|check|expect|fail|raises|run_state_machine)")


def _is_test(source: Source) -> bool:
    return source.is_python and source.is_under("tests")


@rule(
    applies=_is_test,
    objects_to={
        "tests/test_a.py": "import time\ntime.sleep(1)",
        "tests/test_b.py": "from time import sleep\nsleep(1)",
        "tests/test_c.py": "async def test_it(): await trio.sleep(0.1)",
    },
    accepts={
        "tests/test_a.py": "async def test_it(): await trio.testing.wait_all_tasks_blocked()",
        "tests/test_b.py": "async def test_it(autojump_clock): await trio.sleep(60)",
    },
)
def no_test_sleeps(source: Source) -> Iterator[tuple[int, str]]:
    on_a_mock_clock = {
        node
        for function in source.nodes
        if isinstance(function, ast.AsyncFunctionDef)
        and "autojump_clock" in {argument.arg for argument in function.args.args}
        for node in ast.walk(function)
    }
    for node in source.nodes:
        if isinstance(node, ast.Call) and node not in on_a_mock_clock:
            called = dotted(node.func)
            if called in SLEEPS or called == "sleep":
                yield node.lineno, f"{called}: wait for what must happen instead"


@rule(
    applies=_is_test,
    objects_to={
        "tests/test_a.py": "assert time.perf_counter() - start < 2",
        "tests/test_b.py": "assert elapsed_ms < 100",
    },
    accepts={"tests/test_a.py": "assert machine.deadline() == 30.0"},
)
def no_test_asserts_on_how_long_something_took(source: Source) -> Iterator[tuple[int, str]]:
    for node in source.nodes:
        if not isinstance(node, ast.Assert):
            continue
        for part in ast.walk(node.test):
            name = dotted(part).rsplit(".", maxsplit=1)[-1]
            if name in CLOCKS or DURATIONS.match(name):
                yield node.lineno, f"{name}: measure in benchmarks/, or put time on a mock clock"


@rule(
    applies=_is_test,
    objects_to={
        "tests/test_a.py": "@pytest.mark.skipif(True, reason='x')\ndef test_it(): assert f()",
        "tests/test_b.py": "kafka = pytest.importorskip('kafka')",
    },
    accepts={"tests/test_a.py": "@pytest.mark.interop\ndef test_it(): assert f()"},
    allowed={
        "tests/lab/processes/conftest.py": "Java and Maven do not come with pip; CI has them",
        "tests/peers/conftest.py": "Java and Maven do not come with pip; CI has them",
        "tests/spark/conftest.py": "Java does not come with pip; CI has it",
        "tests/spark/oracle/conftest.py": "Maven does not come with pip; CI has it",
        "tests/lab/web/conftest.py": "Node and Chromium do not come with pip; CI has them",
        "tests/lab/page/conftest.py": "Chromium does not come with pip; CI has it",
        "tests/faults/test_cluster_networks.py": "namespaces need root and iproute2; CI has both",
    },
)
def no_test_is_skipped(source: Source) -> Iterator[tuple[int, str]]:
    for node in source.nodes:
        if isinstance(node, ast.Attribute) and dotted(node) in SKIPS:
            yield node.lineno, f"{dotted(node)}: run it, or delete it"


def _is_run_as_module(words: list[ast.expr]) -> bool:
    """Whether words of a command line are ``-m minikafka`` or ``-m minikafka.cli.main``."""
    texts = [word.value if isinstance(word, ast.Constant) else None for word in words]
    return any(
        option == "-m" and module in {"minikafka", "minikafka.cli.main"}
        for option, module in pairwise(texts)
    )


@rule(
    applies=lambda source: source.is_python,
    objects_to={
        "tests/test_a.py": "Popen([sys.executable, '-m', 'minikafka', 'serve'])",
        "benchmarks/b.py": "words = ['-m', 'minikafka.cli.main', 'cluster', 'up']",
        "examples/c.py": "run(sys.executable, '-m', 'minikafka', *words)",
    },
    accepts={
        "tests/test_a.py": "with minikafka.testing.broker() as kafka: check(kafka)",
        "tests/test_b.py": "Popen([sys.executable, '-m', 'benchmarks.load'])",
    },
    allowed={
        "minikafka/testing/brokers.py": "the one place that starts a broker for tests",
        "minikafka/cli/cluster/layout.py": "the nodes of `minikafka cluster up`",
        "tests/cli/conftest.py": "runs any command of the command line, to test it",
        "tests/cli/play_cluster.py": "runs `minikafka cluster up`, to test it",
    },
)
def brokers_are_started_by_minikafka_testing(source: Source) -> Iterator[tuple[int, str]]:
    for node in source.nodes:
        if isinstance(node, ast.Call):
            words = node.args
        elif isinstance(node, ast.List | ast.Tuple):
            words = node.elts
        else:
            continue
        if _is_run_as_module(words):
            yield node.lineno, "start brokers with minikafka.testing.broker() or cluster()"


@rule(
    applies=lambda source: source.is_python,
    objects_to={
        "tests/test_a.py": "await nursery.start(lifetime.run, broker)",
        "benchmarks/b.py": "run_broker(options, print)",
    },
    accepts={
        "tests/test_a.py": "nursery.start_soon(lifetime.run_partitions, broker)",
        "tests/test_b.py": "async with testing.in_process_broker() as kafka: check(kafka)",
    },
    allowed={
        "minikafka/broker/run.py": "what `minikafka serve` calls",
        "minikafka/cli/serve.py": "it is `minikafka serve`",
        "minikafka/testing/in_process.py": "the one place that runs a broker in a test's process",
        "tests/broker/test_addresses.py": "which addresses it refuses, without starting anything",
        "minikafka/testing/simulation/node.py": "brokers on a simulated network",
    },
)
def brokers_in_process_are_run_by_minikafka_testing(source: Source) -> Iterator[tuple[int, str]]:
    for node in source.nodes:
        if not isinstance(node, ast.Attribute | ast.Call):
            continue
        name = ast.unparse(node.func if isinstance(node, ast.Call) else node)
        is_call = isinstance(node, ast.Call)
        if name.endswith("run_broker") if is_call else name == "lifetime.run":
            yield node.lineno, "use minikafka.testing.in_process_broker(), or tests.kit.in_process"


@rule(
    applies=_is_test,
    objects_to={
        "tests/test_a.py": "assert True",
        "tests/test_b.py": "assert (x == 1, 'message')",
        "tests/test_c.py": "assert x == x",
        "tests/test_d.py": "assert len(x) >= 0",
        "tests/test_e.py": "assert f() or True",
        "tests/test_f.py": "assert 'text'",
        "tests/test_g.py": "assert [x for x in y if x] is not None",
    },
    accepts={
        "tests/test_a.py": "assert x == y\nassert len(x) >= 1\nassert x or y",
        "tests/test_b.py": "assert first() == second()",
    },
)
def every_assertion_can_fail(source: Source) -> Iterator[tuple[int, str]]:
    for node in source.nodes:
        if isinstance(node, ast.Assert) and _always_true(node.test):
            yield node.lineno, f"always true: assert {ast.unparse(node.test)}"


def _always_true(test: ast.expr) -> bool:
    match test:
        case ast.Constant(value=value):
            return bool(value)
        case ast.Tuple(elts=elements):
            return bool(elements)
        case ast.JoinedStr() | ast.Lambda():
            return True
        case ast.BoolOp(op=ast.Or(), values=values):
            return any(_always_true(value) for value in values)
        case ast.BoolOp(op=ast.And(), values=values):
            return all(_always_true(value) for value in values)
        case ast.Compare(left=left, ops=[operation], comparators=[right]):
            return _comparison_always_true(left, operation, right)
        case _:
            return False


def _comparison_always_true(left: ast.expr, operation: ast.cmpop, right: ast.expr) -> bool:
    is_length = isinstance(left, ast.Call) and dotted(left.func) == "len"
    is_zero = isinstance(right, ast.Constant) and right.value == 0
    if is_length and is_zero and isinstance(operation, ast.GtE):
        return True
    built_here = (
        ast.List | ast.Dict | ast.Set | ast.ListComp | ast.DictComp | ast.SetComp | ast.Tuple
    )
    is_none = isinstance(right, ast.Constant) and right.value is None
    if isinstance(left, built_here) and is_none and isinstance(operation, ast.IsNot):
        return True
    same = ast.dump(left) == ast.dump(right)
    # Two calls that read the same need not give the same.
    has_call = any(isinstance(part, ast.Call | ast.Await) for part in ast.walk(left))
    return same and not has_call and isinstance(operation, ast.Eq | ast.LtE | ast.GtE | ast.Is)


@rule(
    applies=lambda source: _is_test(source) and "/test_" in source.path,
    objects_to={
        "tests/test_a.py": "def test_it():\n    start()",
        "tests/test_b.py": "async def test_it():\n    await start()",
    },
    accepts={
        "tests/test_a.py": "def test_it():\n    assert start() == 1",
        "tests/test_b.py": "def test_it():\n    with pytest.raises(ValueError):\n        start()",
        "tests/test_c.py": "def test_it():\n    check_log(start())",
        "tests/test_d.py": "def proves(x):\n    assert x\ndef test_it():\n    proves(1)",
    },
)
def every_test_proves_something(source: Source) -> Iterator[tuple[int, str]]:
    functions = [
        node for node in source.nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    proving = {function.name for function in functions if _proves(function, set())}
    for _ in functions:
        more = {function.name for function in functions if _proves(function, proving)}
        if more == proving:
            break
        proving = more
    for function in functions:
        if function.name.startswith("test_") and function.name not in proving:
            yield function.lineno, f"{function.name} asserts nothing"


def _proves(function: ast.AST, proving: set[str]) -> bool:
    for node in ast.walk(function):
        if isinstance(node, ast.Assert | ast.Raise):
            return True
        if isinstance(node, ast.Call):
            name = dotted(node.func).rsplit(".", maxsplit=1)[-1]
            if name in proving or PROOF_NAMES.search(name):
                return True
    return False


@rule(
    applies=_is_test,
    objects_to={
        "tests/test_a.py": "key = random.randbytes(8)",
        "tests/test_b.py": "dice = random.Random()",
        "tests/test_c.py": "value = os.urandom(100)",
    },
    accepts={"tests/test_a.py": "dice = random.Random(7)\nvalue = dice.randbytes(100)"},
)
def every_test_can_be_repeated(source: Source) -> Iterator[tuple[int, str]]:
    for node in source.nodes:
        if isinstance(node, ast.Call):
            called = dotted(node.func)
            seeded = called.endswith("Random") and (node.args or node.keywords)
            if not seeded and re.match(r"(random\.\w|Random$|os\.urandom$|secrets\.\w)", called):
                yield node.lineno, f"{called}: draw from hypothesis or from random.Random(SEED)"
