"""Exports runs, the queue and cost to an OpenTelemetry collector. Only `otlp` imports the SDK."""
