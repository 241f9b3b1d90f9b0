"""Sends spans and measures to a collector by OTLP over HTTP. Only here is the SDK imported.

The SDK's exporters are called directly, without its background threads: the caller must know
whether the collector accepted a batch, and waits for nothing else. They read the standard
variables (`OTEL_EXPORTER_OTLP_ENDPOINT`, `OTEL_EXPORTER_OTLP_HEADERS` …) themselves.
"""

import logging
from collections.abc import Sequence
from time import time

from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.metrics.export import (
    AggregationTemporality,
    Gauge,
    Metric,
    MetricExportResult,
    MetricsData,
    NumberDataPoint,
    ResourceMetrics,
    ScopeMetrics,
    Sum,
)
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import SpanExportResult
from opentelemetry.sdk.trace.id_generator import IdGenerator
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import (
    NonRecordingSpan,
    SpanContext,
    SpanKind,
    Status,
    StatusCode,
    TraceFlags,
    set_span_in_context,
)

from gascity.control.telemetry.measures import Measure
from gascity.control.telemetry.runs import RunSpan, span_attributes
from gascity.model.work import STOPPED_BY_CITY, SUCCEEDED

_SCOPE = "gascity"


class OtlpExporter:
    """Sends to one collector. Methods return why it did not accept something, or an empty string.

    Raises ValueError or OSError if a variable of the SDK has an invalid value.
    """

    def __init__(self, endpoint: str | None, city: str, city_id: str) -> None:
        base = endpoint.rstrip("/") if endpoint else ""
        self._log = _FirstMessage()
        self._spans = OTLPSpanExporter(f"{base}/v1/traces" if base else None)
        self._metrics = OTLPMetricExporter(f"{base}/v1/metrics" if base else None)
        own = {"service.name": _SCOPE, "service.instance.id": city_id, "gascity.city": city}
        self._resource = Resource(own).merge(OTELResourceDetector().detect())
        self._ids = _GivenIds()
        self._ended = _EndedSpans()
        provider = TracerProvider(
            resource=self._resource, id_generator=self._ids, shutdown_on_exit=False
        )
        provider.add_span_processor(self._ended)
        self._tracer = provider.get_tracer(_SCOPE)
        self.warning = self._log.text  # about a variable that the SDK ignores

    def send_spans(self, spans: Sequence[RunSpan]) -> str:
        """Send runs as spans, all in one request."""
        for span in spans:
            self._record(span)
        self._log.text = ""
        accepted = self._spans.export(self._ended.take()) is SpanExportResult.SUCCESS
        return "" if accepted else self._log.text or "not accepted"

    def send_measures(self, measures: Sequence[Measure], since: float) -> str:
        """Send measures; the totals among them started at `since`."""
        scope = InstrumentationScope(_SCOPE)
        metrics = [_metric(measure, _nanoseconds(since)) for measure in measures]
        scoped = [ScopeMetrics(scope, metrics, "")]
        data = MetricsData([ResourceMetrics(self._resource, scoped, "")])
        self._log.text = ""
        accepted = self._metrics.export(data) is MetricExportResult.SUCCESS
        return "" if accepted else self._log.text or "not accepted"

    def close(self) -> None:
        """Close the connections to the collector."""
        self._spans.shutdown()
        self._metrics.shutdown()
        self._log.detach()

    def _record(self, span: RunSpan) -> None:
        run = span.run
        self._ids.trace, self._ids.span = span.trace, span.span
        above = None
        if span.parent:
            sampled = TraceFlags(TraceFlags.SAMPLED)
            place = SpanContext(span.trace, span.parent, is_remote=True, trace_flags=sampled)
            above = set_span_in_context(NonRecordingSpan(place))
        recorded = self._tracer.start_span(
            f"run {span.agent}",
            above,
            SpanKind.INTERNAL,
            span_attributes(span),
            start_time=_nanoseconds(run.started),
        )
        if run.outcome not in (SUCCEEDED, STOPPED_BY_CITY):
            recorded.set_status(Status(StatusCode.ERROR))
        recorded.end(_nanoseconds(run.ended or run.started))


class _GivenIds(IdGenerator):
    """Gives the next span the ids that were set."""

    trace = 0
    span = 0

    def generate_trace_id(self) -> int:
        return self.trace

    def generate_span_id(self) -> int:
        return self.span


class _EndedSpans(SpanProcessor):
    """Collects spans until they are sent."""

    def __init__(self) -> None:
        self._spans: list[ReadableSpan] = []

    def on_end(self, span: ReadableSpan) -> None:
        self._spans.append(span)

    def take(self) -> list[ReadableSpan]:
        taken, self._spans = self._spans, []
        return taken


class _FirstMessage(logging.Handler):
    """Keeps the SDK's log off stderr, and the first message of an export: why it failed."""

    def __init__(self) -> None:
        super().__init__()
        self.text = ""
        self._logger = logging.getLogger("opentelemetry")
        self._logger.addHandler(self)
        self._logger.propagate = False

    def detach(self) -> None:
        self._logger.removeHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        if record.name == "opentelemetry.util.re":  # its message contains the header, a secret
            message = "OTEL_EXPORTER_OTLP_HEADERS is not a list of key=value, URL-encoded"
        else:
            message = record.getMessage()
        self.text = self.text or message


def _metric(measure: Measure, since: int) -> Metric:
    now = _nanoseconds(time())
    points = [
        NumberDataPoint(dict(point.attributes), since if measure.total else 0, now, point.value)
        for point in measure.points
    ]
    cumulative = AggregationTemporality.CUMULATIVE
    data = Sum(points, cumulative, is_monotonic=True) if measure.total else Gauge(points)
    return Metric(measure.name, measure.description, measure.unit, data)


def _nanoseconds(seconds: float) -> int:
    return int(seconds * 1_000_000_000)
