"""`city telemetry`: export runs and metrics to an OpenTelemetry collector."""

import os
import select
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

import click

from gascity.cli.command import json_command
from gascity.cli.context import CommandContext
from gascity.cli.output import plural, print_stderr
from gascity.cli.problems import city_error, missing_extra
from gascity.control.telemetry.measures import read_measures
from gascity.control.telemetry.runs import ExportProgress, load_progress, next_runs, save_progress
from gascity.files import locked_file, read_or_none
from gascity.model.problems import CityError
from gascity.store.port import Store, StoreError, Wakeups

if TYPE_CHECKING:
    from gascity.control.telemetry.otlp import OtlpExporter

_EXTRA = "gascity[otel]"
_PACKAGES = ("opentelemetry-sdk", "opentelemetry-exporter-otlp-proto-http")
_VARIABLES = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
_DEFAULT = "http://localhost:4318"
_INTERVAL = 15.0  # seconds between two exports of metrics
_RETRY = 10.0  # seconds until the next try; the SDK has retried for 10 seconds by then
_SETTLE = 0.2  # seconds from a wake-up to the read: a write is notified before it is committed


def _endpoint(ctx: click.Context, _: click.Parameter, value: str | None) -> str | None:
    from urllib.parse import urlsplit

    try:
        url = urlsplit(value or _DEFAULT)
        valid = url.scheme in ("http", "https") and bool(url.hostname) and url.port != 0
    except ValueError:  # the port
        valid = False
    if not valid:
        raise click.BadParameter("expected a URL such as http://localhost:4318", ctx)
    return value


@json_command(
    "telemetry",
    examples=("city telemetry", "city telemetry --endpoint http://localhost:4318 --once"),
    page="how-to/cost",
)
@click.option(
    "--endpoint",
    metavar="URL",
    callback=_endpoint,
    help="Base URL of the collector (default: OTEL_EXPORTER_OTLP_ENDPOINT, or localhost:4318).",
)
@click.option("--once", is_flag=True, help="Export what is new and exit.")
def telemetry(context: CommandContext, endpoint: str | None, once: bool) -> int:
    """Export runs and metrics to OpenTelemetry.

    Sends ended runs as spans, and queue depth, live sessions, tokens and cost as metrics,
    by OTLP over HTTP, until Ctrl-C. A restart continues where the last export ended. Never
    sends prompts, titles or output. Needs the extra gascity[otel].
    """
    if context.as_json and not once:
        raise click.UsageError("--json needs --once")
    with _only_exporter(context.root):
        export = _open(context, endpoint)
        try:
            if once:
                return _export_once(context, export)
            print_stderr(f"city: exporting to {export.shown} until Ctrl-C")
            export.follow()
        except KeyboardInterrupt:
            return 130  # the usual way to stop following
        finally:
            export.close()
    return 0


@contextmanager
def _only_exporter(root: str) -> Iterator[None]:
    """Hold the lock of the city's exporter: two would send every run and every total twice."""
    path = f"{root}/.gc/telemetry.lock"
    with ExitStack() as stack:
        try:
            handle = stack.enter_context(locked_file(path, wait=False))
        except BlockingIOError:
            pid = (read_or_none(path) or b"").decode("ascii", "replace").strip()
            named = f" (pid {pid})" if pid.isdecimal() else ""  # it may not have written it yet
            message = f"another `city telemetry` already exports this city{named}"
            hint = f"stop it first: `kill {pid}`" if named else "try again in a moment"
            raise city_error("telemetry-running", message, hint) from None
        os.ftruncate(handle, 0)
        os.write(handle, f"{os.getpid()}\n".encode())
        yield


def _open(context: CommandContext, endpoint: str | None) -> "_Export":
    """Return the export; CityError if the extra is missing or its variables are wrong."""
    try:
        from gascity.control.telemetry.otlp import OtlpExporter
    except ImportError:
        raise missing_extra("telemetry", _EXTRA, _PACKAGES) from None
    except ValueError as error:  # the SDK reads some variables when it is imported
        raise _variable_error(error) from None
    store = context.store()
    progress = load_progress(store, time.time())
    try:
        otlp = OtlpExporter(endpoint, os.path.basename(context.root), progress.city)
    except (ValueError, OSError) as error:
        raise _variable_error(error) from None
    if otlp.warning:
        print_stderr(f"city: OpenTelemetry: {otlp.warning}")
    named = next((context.environ[name] for name in _VARIABLES if context.environ.get(name)), "")
    return _Export(store, otlp, progress, _without_password(endpoint or named or _DEFAULT))


def _variable_error(error: Exception) -> CityError:
    message = f"a variable of OpenTelemetry (OTEL_…) is invalid: {error}"
    return city_error("bad-telemetry-variable", message, "correct or unset it")


def _without_password(url: str) -> str:
    """Return a URL for messages, without the user and password that it may contain."""
    scheme, separator, rest = url.partition("://")
    authority, slash, path = rest.partition("/")
    return f"{scheme}{separator}{authority.rpartition('@')[2]}{slash}{path}"


def _export_once(context: CommandContext, export: "_Export") -> int:
    error = export.send_runs() or export.send_measures()
    if error:
        hint = "start the collector, or name another with --endpoint; then run this again"
        message = f"cannot export to {export.shown}: {error}"
        raise city_error("telemetry-failed", message, hint)
    return context.output(
        {"endpoint": export.shown, "runs": export.sent},
        lambda: [f"Exported {plural(export.sent, 'run')} to {export.shown}."],
    )


class _Export:
    """Sends what is new in the store to the collector."""

    def __init__(
        self, store: Store, otlp: "OtlpExporter", progress: ExportProgress, shown: str
    ) -> None:
        self.shown = shown
        self.sent = 0
        self._store = store
        self._otlp = otlp
        self._progress = progress
        self._failing = False

    def send_runs(self) -> str:
        """Send all runs that ended since the last time; return why that failed, or ""."""
        while True:
            spans, progress = next_runs(self._store, self._progress)
            if spans:
                error = self._otlp.send_spans(spans)
                if error:
                    return error
                save_progress(self._store, progress)
                self.sent += len(spans)
            elif progress == self._progress:
                return ""
            self._progress = progress

    def send_measures(self) -> str:
        """Send metrics, if only to reach the collector; return why that failed, or ""."""
        measures = read_measures(self._store, self._progress)
        return self._otlp.send_measures(measures, self._progress.since)

    def follow(self) -> None:
        """Send what is new after each write to the store, until the store is deleted."""
        wakeups = self._store.subscribe()
        due = 0.0  # when to send metrics
        try:
            while not self._store.deleted():
                now = time.monotonic()
                error = self._try(measures=now >= due)
                self._report(error)
                if error:
                    time.sleep(_RETRY)
                    continue
                due = now + _INTERVAL if now >= due else due
                _wait(wakeups, due - time.monotonic())
        finally:
            wakeups.close()

    def _try(self, *, measures: bool) -> str:
        try:
            return self.send_runs() or (self.send_measures() if measures else "")
        except StoreError as error:
            if error.code != "store-busy":
                raise
            return error.message

    def _report(self, error: str) -> None:
        """Print once that the export fails, and once that it works again."""
        if error and not self._failing:
            print_stderr(f"city: cannot export to {self.shown}, will keep trying: {error}")
        elif self._failing and not error:
            print_stderr(f"city: exporting to {self.shown} again")
        self._failing = bool(error)

    def close(self) -> None:
        self._otlp.close()


def _wait(wakeups: Wakeups, seconds: float) -> None:
    """Wait for a write to the store, at most so long."""
    if wakeups.recheck is not None:
        seconds = min(seconds, wakeups.recheck)
    poll = select.poll()
    poll.register(wakeups.fd, select.POLLIN)
    if poll.poll(max(0.0, seconds) * 1000):
        time.sleep(_SETTLE)
        wakeups.drain()
