"""Prompts that are templates: by their text in the first layout, by their names today."""

import os

from gascity.source.disk import read_plain

TEMPLATE_SUFFIXES = (".template.md", ".md.tmpl")


def is_template(path: str) -> bool:
    """Was a prompt, absolute, meant as a template?"""
    return path.endswith(TEMPLATE_SUFFIXES) or b"{{" in (read_plain(path) or b"")


def template_name(path: str) -> str:
    """What a template is called so that it is one by its name."""
    if path.endswith(TEMPLATE_SUFFIXES):
        return path
    stem, suffix = os.path.splitext(path)
    return f"{stem if suffix == '.md' else path}.template.md"
