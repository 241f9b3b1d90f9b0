"""Sources of imports in memory."""

from collections.abc import Mapping

from gascity_migrate.importers.source import compiled
from gascity_migrate.importers.types import SourceFile


class MemoryTree:
    """A source of texts, without a disk."""

    def __init__(self, files: Mapping[str, str | bytes], single: str = "") -> None:
        self.single = single
        self._files = {
            path: SourceFile(content if isinstance(content, bytes) else content.encode())
            for path, content in files.items()
        }

    def matching(self, *patterns: str) -> list[str]:
        checks = [compiled(pattern) for pattern in patterns]
        return sorted(path for path in self._files if any(check(path) for check in checks))

    def read(self, path: str) -> SourceFile | None:
        return self._files.get(path)

    def shown(self, path: str) -> str:
        return path
