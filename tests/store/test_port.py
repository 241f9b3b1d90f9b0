"""Nothing outside gascity/store knows what the store is made of."""

import ast
import re
import shutil
from contextlib import closing
from pathlib import Path

from gascity.store import open_store, store_exists

PACKAGE = Path(__file__).parents[2] / "gascity"
SECRETS = re.compile(r"sqlite|city\.db", re.IGNORECASE)


def test_only_the_store_names_sqlite_or_its_file() -> None:
    outside = [path for path in PACKAGE.rglob("*.py") if PACKAGE / "store" not in path.parents]
    assert len(outside) > 100
    outside += (PACKAGE.parent / "migrate").rglob("*.py")
    assert [str(path) for path in outside if SECRETS.search(path.read_text())] == []


def test_other_packages_import_only_the_functions_that_open_a_store_and_the_protocol() -> None:
    outside = [path for path in PACKAGE.rglob("*.py") if PACKAGE / "store" not in path.parents]
    imported = {
        node.module
        for path in [*outside, *(PACKAGE.parent / "migrate").rglob("*.py")]
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ImportFrom)
        if node.module and node.module.startswith("gascity.store")
    }
    assert imported == {"gascity.store", "gascity.store.port"}


def test_a_store_exists_once_it_was_opened_and_until_it_is_deleted(tmp_path: Path) -> None:
    assert not store_exists(str(tmp_path))
    with closing(open_store(str(tmp_path))) as store:
        assert store_exists(str(tmp_path))
        assert not store.deleted()
        shutil.rmtree(tmp_path / ".gc")
        assert store.deleted()
        assert not store_exists(str(tmp_path))
