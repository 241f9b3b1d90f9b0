"""Go's text/template in pure Python, over plain data only: no files, no clock, no attributes.

    render_text("Hello {{.Name}}", {"Name": "you"})

For several files: `parse` each, collect them in a `TemplateSet`, `render` to `Span`s.
"""

from gascity.gotemplate.errors import TemplateError, UndefinedName
from gascity.gotemplate.evaluate import Budget
from gascity.gotemplate.nodes import Template
from gascity.gotemplate.parse import parse
from gascity.gotemplate.references import TemplateReference, references
from gascity.gotemplate.render import TemplateSet, render, render_text
from gascity.gotemplate.values import Span

__all__ = [
    "Budget",
    "Span",
    "Template",
    "TemplateError",
    "TemplateReference",
    "TemplateSet",
    "UndefinedName",
    "parse",
    "references",
    "render",
    "render_text",
]
