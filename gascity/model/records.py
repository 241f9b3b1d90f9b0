"""Named tuples that take a fifth of the time to define: every command defines a hundred."""

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING or sys.version_info >= (3, 14):  # where annotations are no longer at hand
    from typing import NamedTuple as NamedTuple
else:
    try:
        from collections import _tuplegetter  # reads a field of the library's own named tuples
    except ImportError:  # not every Python has it
        from operator import itemgetter

        def _tuplegetter(at, doc):
            return property(itemgetter(at), doc=doc)

    class _Fields(type):
        """Makes what a class annotates the fields of a tuple."""

        def __new__(cls, name, bases, members):
            fields = tuple(members.get("__annotations__", ()))
            defaults = {field: members[field] for field in fields if field in members}
            members.update(__slots__=(), __match_args__=fields, _fields=fields)
            members["_field_defaults"] = defaults
            for at, field in enumerate(fields):
                members[field] = _tuplegetter(at, None)
            return super().__new__(cls, name, bases, members)

    class NamedTuple(tuple, metaclass=_Fields):
        """What `typing.NamedTuple` is, with a constructor that is written when it is first used."""

        def __new__(cls, *values, **named):
            words = ", ".join(cls._fields)
            made = eval(f"lambda _cls, {words}: _new(_cls, ({words},))", {"_new": tuple.__new__})
            made.__defaults__ = tuple(cls._field_defaults.values())
            made.__qualname__ = cls.__name__  # for what is said of a wrong call
            cls.__new__ = made
            return made(cls, *values, **named)

        @classmethod
        def _make(cls, values):
            return cls(*values)

        def _replace(self, **changes):
            found = tuple.__new__(type(self), map(changes.pop, self._fields, self))
            if changes:
                raise ValueError(f"{type(self).__name__} has no {', '.join(changes)}")
            return found

        def _asdict(self):
            return dict(zip(self._fields, self, strict=True))

        def __repr__(self):
            fields = (f"{name}={value!r}" for name, value in self._asdict().items())
            return f"{type(self).__name__}({', '.join(fields)})"

        def __getnewargs__(self):
            return tuple(self)
