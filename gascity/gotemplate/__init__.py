"""Go's text/template in pure Python. No files, no clock, no attributes of any object.

    render_text("Hello {{.Name}}", {"Name": "you"})

or, for texts of many files: `parse` each, gather them in a `TemplateSet`, `render` to `Span`s.
"""

from gascity.gotemplate.errors import Note, TemplateError
from gascity.gotemplate.evaluate import Budget
from gascity.gotemplate.nodes import Template
from gascity.gotemplate.parse import parse
from gascity.gotemplate.references import Reference, references
from gascity.gotemplate.sets import TemplateSet, render, render_text
from gascity.gotemplate.spans import Span

__all__ = [
    "Budget",
    "Note",
    "Reference",
    "Span",
    "Template",
    "TemplateError",
    "TemplateSet",
    "parse",
    "references",
    "render",
    "render_text",
]
