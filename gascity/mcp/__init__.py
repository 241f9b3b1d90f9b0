"""MCP servers: definition files, each provider's native format, and the handshake test."""
