"""``minikafka lab verify``: random scenarios of all promises against any cluster."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

from ..cli.failure import EXIT_INTERRUPTED, EXIT_USAGE, CommandFailed, one_line
from ..cli.output import Progress, is_terminal, note, reader_may_leave
from ..cli.target import (
    BOOTSTRAP_VARIABLE,
    config_option,
    configured_properties,
    properties_option,
)
from .command_files import check_writable, write_report
from .engines import quiet
from .report import Lab
from .runner import EngineResult

if TYPE_CHECKING:
    from .processes.engine import ProcessesEngine
    from .processes.verify import Progress as Step
    from .processes.verify import Verification


class CannotVerify(CommandFailed):
    """The cluster cannot be used, or a hook fails."""

    exit_code = EXIT_USAGE


@click.command("verify")
@click.option(
    "--bootstrap",
    envvar=BOOTSTRAP_VARIABLE,
    metavar="HOST:PORT[,...]",
    help="Brokers to contact first; needed if --config does not name them.",
)
@config_option
@properties_option
@click.option(
    "--on",
    "hooks",
    multiple=True,
    metavar="ACTION=COMMAND",
    help="What kills, stops, starts, pauses, resumes, isolates or heals a {node}; repeatable.",
)
@click.option(
    "--on-timeout",
    "hook_timeout_s",
    type=click.FloatRange(0, min_open=True),
    default=60.0,
    show_default=True,
    metavar="SECONDS",
    help="A command of --on that takes longer is ended, and has failed.",
)
@click.option("--minutes", type=click.FloatRange(0, min_open=True), default=2.0, show_default=True)
@click.option("--runs", "runs_max", type=click.IntRange(1), help="End after so many runs.")
@click.option("--seed", type=click.IntRange(0), default=0, help="Which scenarios are drawn.")
@click.option(
    "--count",
    type=click.Choice(("plain", "spark")),
    default="plain",
    show_default=True,
    help="spark: the Spark audit job counts all topics once more, and both must agree.",
)
@click.option("--json", "json_path", type=click.Path(path_type=Path, allow_dash=True))
@click.option("--html", "html_path", type=click.Path(path_type=Path))
def command(
    bootstrap: str | None,
    config_file: Path | None,
    properties: Sequence[str],
    hooks: Sequence[str],
    hook_timeout_s: float,
    minutes: float,
    runs_max: int | None,
    seed: int,
    count: Literal["plain", "spark"],
    json_path: Path | None,
    html_path: Path | None,
) -> None:
    r"""Attack a cluster of any make, and judge it by the promises of Kafka.

    Real clients run the scenarios of the claims, for some minutes. What can go wrong is what --on
    has a command for; without any, connections are cut and clients are killed. What a command does
    has to be undone by another: kill needs start, pause needs resume, isolate needs heal.

    \b
    For example, three brokers in containers:
      minikafka lab verify --bootstrap localhost:9092 --minutes 10 \
        --on kill='docker kill kafka-{node}' --on start='docker start kafka-{node}' \
        --on pause='docker pause kafka-{node}' --on resume='docker unpause kafka-{node}'

    The cluster may ask for TLS and SASL: --config is the file that the other commands take, too.

    Topics and groups whose names begin with lab- are made, and deleted.

    Ctrl-C ends it early, and what was found is still written.

    Exit codes: 0 no promise was broken, 1 one was, 2 the cluster or a command of --on failed, 130
    it was interrupted.
    """
    check_writable(json_path, html_path)
    from .processes.verify import verify

    engine = _reach(_configured(bootstrap or "", config_file, properties), hooks, hook_timeout_s)
    bar = Progress("verify", None, is_bytes=False)

    def progress(step: Step) -> None:
        if is_terminal(sys.stderr):
            bar.update(step.runs, f"{step.breaches} broken; {step.scenario}")

    try:
        with bar, quiet():
            found = verify(
                engine,
                seconds=minutes * 60,
                runs_max=runs_max,
                seed=seed,
                count=count,
                progress=progress,
            )
    finally:
        is_restored = _close(engine)
    _write(found, engine.version, json_path, html_path)
    is_unusable = found.exit_code == EXIT_USAGE and not found.is_interrupted
    _tell(found, found.failures[:-1] if is_unusable else found.failures)
    if found.is_interrupted:
        note("interrupted: only the runs until then were judged; topics lab-... may be left")
        sys.exit(EXIT_INTERRUPTED)
    if is_unusable:
        reason = one_line(found.failures[-1]) if found.failures else "there was no time for a run"
        raise CannotVerify(f"{engine.version} could not be judged: {reason}")
    if not (found.breaches or is_restored):
        raise CannotVerify(f"{engine.version} could not be restored; see above")
    if not found.breaches:
        click.echo("no promise was broken")
    sys.exit(found.exit_code)


def _configured(
    bootstrap: str, config_file: Path | None, assigned: Sequence[str]
) -> dict[str, str]:
    """The properties of ``--config`` and ``-X``.

    Raises:
        CannotVerify: the file cannot be read, or others can read its secrets.
        click.UsageError: no brokers are named, or a property is malformed.
    """
    try:
        found = configured_properties(bootstrap, config_file, assigned)
    except CommandFailed as error:
        raise CannotVerify(error.message) from None
    if not found["bootstrap.servers"]:
        raise click.UsageError(
            "name brokers with --bootstrap, or with bootstrap.servers in --config"
        )
    return found


def _reach(
    properties: dict[str, str], hooks: Sequence[str], hook_timeout_s: float
) -> ProcessesEngine:
    """An engine for the cluster.

    Raises:
        CannotVerify: it does not answer or does not accept us, or a property or a command of
            ``--on`` is malformed.
    """
    from .processes.target import CannotError
    from .processes.verify import engine_for
    from .processes.verify_target import Hooks

    bootstrap = properties.pop("bootstrap.servers")
    try:
        commands = Hooks.parse(hooks, timeout_s=hook_timeout_s)
        return engine_for("verify", bootstrap=bootstrap, hooks=commands, properties=properties)
    except (TypeError, ValueError) as error:
        raise CannotVerify(str(error)) from None
    except CannotError as error:
        raise CannotVerify(f"{bootstrap} cannot be used: {error}") from None


def _tell(found: Verification, failures: Sequence[str]) -> None:
    """Print what was found, but no verdict."""
    with reader_may_leave():
        click.echo(f"{found.runs} runs of {len(found.found)} cells in {found.seconds:.0f} s")
        for breach in found.breaches:
            click.echo(f"BROKEN {breach.promise}: {breach.text} ({breach.scenario})")
        for failure in failures:
            note(f"not judged: {one_line(failure)}")


def _close(engine: ProcessesEngine) -> bool:
    """Restore the cluster; return whether that worked."""
    from .processes.target import CannotError

    try:
        engine.close()
    except CannotError as error:
        note(f"the cluster could not be restored: {error}")
        return False
    return True


def _write(
    found: Verification, version: str, json_path: Path | None, html_path: Path | None
) -> None:
    if json_path is None and html_path is None:
        return
    result = EngineResult("verify", version, found.found, seconds=found.seconds)
    lab = Lab([result], seconds=found.seconds, is_complete=not found.is_interrupted)
    document = lab.document(lambda _: {}, lambda scenario, _: scenario) | {
        "breaches": [one._asdict() for one in found.breaches],
        "failures": found.failures,
    }
    write_report(document, json_path, html_path)
