"""`city telemetry`: runs as spans and the city's metrics, sent to a collector on this machine."""

import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from gascity.cli import telemetry
from gascity.model.work import POOL, RUN_FAILED, RUNNING, STOPPED, SUCCEEDED, NewWork, Run, Session
from gascity.store import open_store
from tests.cli.shapes import TELEMETRY, fits
from tests.support.command import Command

SECRET = "a title that must stay here"


class Collector(ThreadingHTTPServer):
    """Keeps the requests it gets; answers with the statuses in `answers`, then with 200."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.url = f"http://127.0.0.1:{self.server_port}"
        self.answers: list[int] = []
        self.bodies: list[bytes] = []
        self.headers: list[str] = []
        self.spans: queue.Queue[Any] = queue.Queue()
        self.metrics: queue.Queue[Any] = queue.Queue()

    def all_spans(self) -> dict[int, Any]:
        """Return the spans received so far by the id of their run."""
        found = {}
        while not self.spans.empty():
            span = self.spans.get()
            found[attributes(span)["gascity.run.id"]] = span
        return found

    def last_metrics(self) -> dict[str, Any]:
        """Return the metrics of the last request by name."""
        request = self.metrics.get(timeout=30)
        while not self.metrics.empty():
            request = self.metrics.get()
        (resource,) = request.resource_metrics
        return {metric.name: metric for metric in resource.scope_metrics[0].metrics}


class _Handler(BaseHTTPRequestHandler):
    server: Collector

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        status = self.server.answers.pop(0) if self.server.answers else 200
        if status == 200:
            self._keep(body)
        self.send_response(status)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def _keep(self, body: bytes) -> None:
        self.server.bodies.append(body)
        self.server.headers.append(self.headers.get("X-Key", ""))
        if self.path == "/v1/metrics":
            self.server.metrics.put(ExportMetricsServiceRequest.FromString(body))
            return
        assert self.path == "/v1/traces"
        for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
            for span in resource.scope_spans[0].spans:
                self.server.spans.put(span)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def collector() -> Iterator[Collector]:
    with Collector() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def town_with_runs(town: Callable[..., Path]) -> Path:
    """A city whose w-1 slung w-2: runs 1 (failed) and 3 (open) of w-1, run 2 of w-2."""
    root = town()
    store = open_store(str(root))
    for id, agent, state in (("s1", "clerk", RUNNING), ("s2", "web/smith", STOPPED)):
        store.add_session(Session(id, agent, POOL, 1, f"a-{id}", state, "", 1.0, 1.0))
    first = store.add_work(NewWork("clerk", SECRET, SECRET), 5.0)
    store.add_work(NewWork("web/smith", SECRET, SECRET, parent=first.id, depth=1), 15.0)
    usage = {"input": 100, "output": 10}
    store.add_run(a_run("s1", "w-1", 10.0, 20.0, outcome=RUN_FAILED, exit_code=3))
    store.add_run(a_run("s2", "w-2", 16.0, 18.0, outcome=SUCCEEDED, usage=usage, cost=0.5))
    store.add_run(a_run("s1", "w-1", 30.0))
    store.close()
    return root


def a_run(session: str, work: str, started: float, ended: float | None = None, **more: Any) -> Run:
    return Run(0, session, 1, work, "process", started, "", "", ended=ended, **more)


def attributes(record: Any) -> dict[str, Any]:
    return {one.key: getattr(one.value, one.value.WhichOneof("value")) for one in record.attributes}


def values(metric: Any) -> dict[tuple[str, ...], float]:
    data = getattr(metric, metric.WhichOneof("data"))
    return {
        tuple(attributes(point).values()): getattr(point, point.WhichOneof("value"))
        for point in data.data_points
    }


def once(run: Command, root: Path, collector: Collector) -> dict[str, Any]:
    ran = run("telemetry", "--endpoint", collector.url, "--once", "--json", cwd=root)
    fits(ran.json, TELEMETRY)
    return ran.json


def test_ended_runs_are_spans_in_one_trace_a_child_item_under_the_run_that_slung_it(
    run: Command, town_with_runs: Path, collector: Collector
) -> None:
    assert once(run, town_with_runs, collector)["runs"] == 2
    spans = collector.all_spans()
    assert set(spans) == {1, 2}
    parent, child = spans[1], spans[2]
    assert child.trace_id == parent.trace_id
    assert (parent.parent_span_id, child.parent_span_id) == (b"", parent.span_id)
    assert attributes(child) == {
        "gascity.agent": "web/smith",
        "gascity.rig": "web",
        "gascity.work.id": "w-2",
        "gascity.session.id": "s2",
        "gascity.run.id": 2,
        "gascity.outcome": "succeeded",
        "gascity.cost": 0.5,
        "gascity.tokens.input": 100,
        "gascity.tokens.output": 10,
    }
    assert (attributes(parent)["process.exit.code"], parent.status.code) == (3, 2)
    assert (child.start_time_unix_nano, child.end_time_unix_nano) == (16 * 10**9, 18 * 10**9)


def test_no_title_or_text_is_sent(run: Command, town_with_runs: Path, collector: Collector) -> None:
    once(run, town_with_runs, collector)
    assert len(collector.bodies) == 2
    assert not any(SECRET.encode() in body for body in collector.bodies)


def test_a_run_is_sent_once_also_if_an_earlier_one_ends_later(
    run: Command, town_with_runs: Path, collector: Collector
) -> None:
    once(run, town_with_runs, collector)
    trace = collector.all_spans()[1].trace_id
    store = open_store(str(town_with_runs))
    store.add_run(a_run("s2", "", 40.0, 41.0, usage={"input": 1}, cost=0.25))
    assert once(run, town_with_runs, collector)["runs"] == 1
    assert collector.all_spans()[4].trace_id != trace  # a run without a work item
    store.update_run(3, {"ended": 50.0, "outcome": SUCCEEDED})
    store.close()
    assert once(run, town_with_runs, collector)["runs"] == 1
    assert collector.all_spans()[3].trace_id == trace
    assert once(run, town_with_runs, collector)["runs"] == 0


def test_metrics_are_queue_sessions_and_totals_that_outlive_deleted_runs(
    run: Command, town_with_runs: Path, collector: Collector
) -> None:
    once(run, town_with_runs, collector)
    store = open_store(str(town_with_runs))
    store.delete_session("s2", 60.0)
    store.finish("w-2", "cancelled", None, 60.0, token=None)
    store.close()
    once(run, town_with_runs, collector)
    metrics = collector.last_metrics()
    assert values(metrics["gascity.queue.depth"]) == {("clerk",): 1, ("web/smith",): 0}
    assert values(metrics["gascity.sessions"]) == {("clerk",): 1}
    assert values(metrics["gascity.cost"]) == {("web/smith",): 0.5}
    tokens = metrics["gascity.tokens"]
    assert values(tokens) == {("web/smith", "input"): 100, ("web/smith", "output"): 10}
    assert tokens.sum.is_monotonic


def test_the_standard_variables_name_the_collector_and_its_headers(
    run: Command, town_with_runs: Path, collector: Collector
) -> None:
    variables = {
        "OTEL_EXPORTER_OTLP_ENDPOINT": collector.url,
        "OTEL_EXPORTER_OTLP_HEADERS": "x-key=abc",
    }
    ran = run("telemetry", "--once", cwd=town_with_runs, env=variables)
    assert (ran.code, ran.out) == (0, f"Exported 2 runs to {collector.url}.\n")
    assert collector.headers == ["abc", "abc"]


def test_once_fails_if_the_collector_refuses_and_sends_the_same_runs_next_time(
    run: Command, town_with_runs: Path, collector: Collector
) -> None:
    collector.answers = [401]
    ran = run("telemetry", "--endpoint", collector.url, "--once", cwd=town_with_runs)
    assert (ran.code, "401" in ran.err, "[telemetry-failed]" in ran.err) == (1, True, True)
    assert once(run, town_with_runs, collector)["runs"] == 2


def test_following_reports_an_outage_once_and_continues_after_it(
    run: Command, town_with_runs: Path, collector: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    collector.answers = [400, 400, 400]
    monkeypatch.setattr(telemetry, "_RETRY", 0.0)
    monkeypatch.setattr(telemetry, "_wait", interrupt)  # called when everything was accepted
    ran = run("telemetry", "--endpoint", collector.url, cwd=town_with_runs)
    assert ran.code == 130
    assert (ran.err.count("will keep trying"), ran.err.count("again")) == (1, 1)
    assert set(collector.all_spans()) == {1, 2}


def test_following_sends_a_run_when_it_ends_and_no_other_process_does(
    run: Command, town_with_runs: Path, collector: Collector
) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "gascity", "telemetry", "--endpoint", collector.url],
        cwd=town_with_runs,
        env={**os.environ},
        stderr=subprocess.PIPE,
    )
    try:
        collector.metrics.get(timeout=60)  # all that is in the store was sent
        assert set(collector.all_spans()) == {1, 2}
        ran = run("telemetry", "--endpoint", collector.url, "--once", cwd=town_with_runs)
        assert (ran.code, f"(pid {process.pid})" in ran.err) == (1, True)
        assert "[telemetry-running]" in ran.err
        store = open_store(str(town_with_runs))
        store.update_run(3, {"ended": 50.0, "outcome": SUCCEEDED})
        store.close()
        assert attributes(collector.spans.get(timeout=60))["gascity.run.id"] == 3
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
        assert (process.returncode, b"Traceback" in err) == (130, False)
    finally:
        process.kill()
        process.wait()


def test_without_the_extra_one_line_has_the_command_that_installs_it(
    program: Command, town_with_runs: Path, tmp_path: Path
) -> None:
    package = tmp_path / "missing/opentelemetry"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("raise ImportError\n")
    paths = os.pathsep.join((str(package.parent), os.environ.get("PYTHONPATH", "")))
    ran = program("telemetry", "--once", cwd=town_with_runs, env={"PYTHONPATH": paths})
    assert (ran.code, "pip install 'gascity[otel]'" in ran.err) == (1, True)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--endpoint", "localhost:4318"), "http://localhost:4318"),
        (("--endpoint", "http://a:x"), "http://localhost:4318"),
        (("--json",), "--once"),
    ],
)
def test_wrong_options_are_usage_errors(
    run: Command, town_with_runs: Path, options: tuple[str, ...], words: str
) -> None:
    ran = run("telemetry", *options, cwd=town_with_runs)
    assert (ran.code, words in ran.printed) == (2, True)


def test_a_wrong_variable_is_reported_and_no_secret_is_printed(
    run: Command, town_with_runs: Path, collector: Collector
) -> None:
    wrong = {"OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT": "few"}
    ran = run("telemetry", "--once", "--endpoint", collector.url, cwd=town_with_runs, env=wrong)
    assert (ran.code, "[bad-telemetry-variable]" in ran.err) == (1, True)
    url = collector.url.replace("//", "//me:hidden@")
    ran = run("telemetry", "--once", "--endpoint", url, cwd=town_with_runs)
    assert (ran.code, "hidden" in ran.printed) == (0, False)
    wrong = {"OTEL_EXPORTER_OTLP_HEADERS": "hidden"}
    ran = run("telemetry", "--once", "--endpoint", url, cwd=town_with_runs, env=wrong)
    assert (ran.code, "OTLP_HEADERS" in ran.err, "hidden" in ran.printed) == (0, True, False)


def test_a_city_without_work_reaches_the_collector_too(
    run: Command, town: Callable[..., Path], collector: Collector
) -> None:
    root = town()
    assert once(run, root, collector)["runs"] == 0
    assert collector.last_metrics() == {}
    collector.answers = [400]
    assert run("telemetry", "--endpoint", collector.url, "--once", cwd=root).code == 1
