"""`${NAME}` references in values, and literal secrets, which are masked in all output.

A reference is resolved from the environment when a session starts, so it is never a secret itself.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

_FIRST = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_")
_REST = _FIRST | frozenset("0123456789")


class EnvReference(NamedTuple):
    """A variable that a value refers to."""

    name: str


Part = str | EnvReference


def parts(text: str) -> list[Part]:
    """Split text into literals and references. `$${` is a literal `${`; bare `$X` is text."""
    result: list[Part] = []
    literal = ""
    at = 0
    while (dollar := text.find("$", at)) >= 0:
        literal += text[at:dollar]
        name = _name_at(text, dollar)
        if text.startswith("$${", dollar):
            literal, at = literal + "${", dollar + 3
        elif name:
            result += [literal, EnvReference(name)] if literal else [EnvReference(name)]
            literal, at = "", dollar + len(name) + 3
        else:
            literal, at = literal + "$", dollar + 1
    literal += text[at:]
    return [*result, literal] if literal else result


def _name_at(text: str, dollar: int) -> str:
    """Return the name of the reference that starts here, or ""."""
    if not text.startswith("${", dollar):
        return ""
    name, brace, _ = text[dollar + 2 :].partition("}")
    return name if brace and name[:1] in _FIRST and name and _REST.issuperset(name) else ""


def names_in(text: str) -> list[str]:
    """Return the variables a text refers to."""
    if "${" not in text:
        return []
    return [part.name for part in parts(text) if isinstance(part, EnvReference)]


def escaped(text: str) -> str:
    """Escape text so that nothing in it is a reference."""
    return text.replace("${", "$${")


def filled(text: str, resolve: Callable[[str], str | None]) -> tuple[str, list[str]]:
    """Resolve the references in a text; also return the names that are not set."""
    if "${" not in text:
        return text, []
    out, unset = "", []
    for part in parts(text):
        if isinstance(part, str):
            out += part
            continue
        value = resolve(part.name)
        if value is None:
            unset.append(part.name)
        out += value or ""
    return out, unset


HIDDEN = "…"

_WORDS = frozenset(
    ("key", "token", "secret", "password", "auth", "authorization", "credential", "cookie")
)
_SCHEMES = ("bearer", "basic", "token", "digest", "apikey")  # of an Authorization header
_SHORT = 4  # a shorter secret is masked only as a whole word


def is_secret(key: str) -> bool:
    """Return whether a key names a secret: it contains a word such as `token`."""
    return any(word in _WORDS or word.removesuffix("s") in _WORDS for word in _words(key))


def _words(key: str) -> list[str]:
    """Split a key into words: `apiKey`, `APIKey`, `api-key` and `API_KEY` are the same two."""
    words = [""]
    for at, char in enumerate(key):
        before, after = key[at - 1 : at], key[at + 1 : at + 2]
        if not char.isalnum():
            words.append("")
            continue
        if char.isupper() and (before.islower() or (before.isupper() and after.islower())):
            words.append("")
        words[-1] += char
    return [word.lower() for word in words if word]


def masked(value: object, key: str = "") -> object:
    """Return a value with its secrets masked; a reference to a variable is not a secret."""
    return _masked(value, bool(key) and is_secret(key))


def _masked(value: object, secret: bool) -> object:
    match value:
        case Mapping():
            pairs = value.items()
            return {name: _masked(item, secret or is_secret(str(name))) for name, item in pairs}
        case list() | tuple():
            return [_masked_entry(item, secret) for item in value]
        case str() if secret and not is_reference(value):
            return HIDDEN
        case str() | None:
            return value
    return HIDDEN if secret else value


def _masked_entry(item: object, secret: bool) -> object:
    """Mask an item of a list; the `key` of a table in a list is its name, not a secret."""
    shown = _masked(item, secret)
    if not secret and isinstance(item, Mapping) and isinstance(shown, dict) and "key" in item:
        shown["key"] = _masked(item["key"], secret=False)
    return shown


def is_reference(value: str) -> bool:
    """Return whether a value is one reference, in any provider's syntax, and nothing secret.

    Before it there may be the scheme of an Authorization header. A reference with a default, such
    as `${NAME:-text}`, does not count: the default may be a secret.
    """
    scheme, _, reference = value.rpartition(" ")
    if scheme and scheme.lower() not in _SCHEMES:
        return False
    for opening in ("${env:", "{env:", "${"):
        if reference.startswith(opening):
            return _name_at("${" + reference[len(opening) :], 0) + "}" == reference[len(opening) :]
    return False


def agent_secrets(env: Mapping[str, str]) -> dict[str, str]:
    """Return the literal secrets in an agent's environment, by name."""
    return {
        key: value for key, value in env.items() if is_secret(key) and secrets_of_pair(key, value)
    }


def mask_secrets(text: str, secrets: Iterable[str]) -> str:
    """Return a text with all secrets in it masked."""
    for secret in sorted(secrets, key=len, reverse=True):
        if len(secret) >= _SHORT:
            text = text.replace(secret, HIDDEN)
        elif secret:
            text = _hidden_word(text, secret)
    return text


def _hidden_word(text: str, word: str) -> str:
    at = 0
    while (at := text.find(word, at)) >= 0:
        end = at + len(word)
        if text[at - 1 : at].isalnum() or text[end : end + 1].isalnum():
            at = end
        else:
            text = text[:at] + HIDDEN + text[end:]
            at += len(HIDDEN)
    return text


def secret_forms(secret: str) -> set[str]:
    """Return the forms a secret may have in a text: plain, quoted for JSON or a URL, its lines."""
    import json
    from urllib.parse import quote, quote_plus

    forms = {secret, quote(secret), quote(secret, safe=""), quote_plus(secret)}
    forms |= {json.dumps(secret, ensure_ascii=ascii)[1:-1] for ascii in (True, False)}
    if "\n" in secret:
        forms |= {line.strip() for line in secret.splitlines() if len(line.strip()) > 7}
    return forms


def secrets_of_pair(key: str, value: str) -> set[str]:
    """Return the literal secrets in one value; a reference to a variable is not a secret."""
    secrets = set(_in_addresses(value))
    if is_secret(key):
        secrets.update(_literals(value))
    return secrets


def secrets_of_arguments(arguments: Sequence[str]) -> set[str]:
    """Return the literal secrets on a command line: `--token x`, `--key=x`, `Cookie: x`, URLs."""
    secrets: set[str] = set()
    expected = False
    for argument in arguments:
        if expected and not argument.startswith("-"):
            secrets.update(_literals(argument))
        secrets.update(_in_addresses(argument))
        key, sign, value = _split(argument)
        secret = is_secret(key) and " " not in key.strip() and "://" not in key
        if secret and sign:
            secrets.update(_literals(value))
        expected = secret and not sign and argument.startswith("-")
    return secrets


def _split(argument: str) -> tuple[str, str, str]:
    """Split `key=value` or `Key: value` at whichever sign comes first."""
    places = [at for at in (argument.find("="), argument.find(": ")) if at > 0]
    if not places:
        return argument, "", ""
    at = min(places)
    return argument[:at], argument[at], argument[at + 1 :]


def _literals(value: str) -> Iterator[str]:
    """Yield the literal parts of a secret value, and what follows a scheme such as `Bearer`."""
    pieces = parts(value)
    for part in pieces:
        text = "" if isinstance(part, EnvReference) else part.strip()
        scheme, _, rest = text.partition(" ")
        if scheme.lower() in _SCHEMES and (rest.strip() or len(pieces) > 1):
            yield from (text, rest.strip()) if rest.strip() else ()
        elif text and (len(pieces) == 1 or any(char.isalnum() for char in text)):
            yield text


def _in_addresses(text: str) -> Iterator[str]:
    """Yield user names and passwords in URLs, and query values of secret keys."""
    at = 0
    while (at := text.find("://", at)) >= 0:
        before, rest = text[:at], text[at + 3 :].split(None, 1)[:1]
        at += 3
        address = rest[0] if rest else ""
        authority = address.replace("?", "/").replace("#", "/").partition("/")[0]
        user, sign, _ = authority.rpartition("@")
        name, colon, password = user.partition(":")
        if colon:
            yield from (text for text in (f"{name}:{password}", password) if _is_literal(text))
        elif sign and before.lower().endswith(("http", "https")) and _is_literal(name):
            yield name
        for pair in address.partition("?")[2].partition("#")[0].split("&"):
            key, _, value = pair.partition("=")
            if is_secret(key):
                yield from _literals(value)


def _is_literal(text: str) -> bool:
    return bool(text) and not names_in(text)


# A pair of JSON or YAML, and how its value starts: numbers and inner tables are no secrets.
_PAIR = (
    r"""(?:^|[{,]|- )\s*["']?([\w-]+)["']?\s*:\s*"""
    r"""(?![\d\s]|true|false|null|//)(?=(\{(?=\s*[^\s}])|[^\s{\[,]))"""
)
_TABLES = ("env", "environment", "headers", "http_headers")


def masked_line(line: str) -> str:
    """Return a line of a user's file for a problem message: cut off after the key of a secret."""
    import re  # most commands show no line

    start = 0
    while (equals := line.find("=", start)) >= 0:
        words = line[:equals].rstrip().rstrip("\"'").replace("{", " ").replace(",", " ").split()
        key = words[-1].strip("\"'") if words else ""
        value = line[equals + 1 :].strip()
        table = key in ("env", "headers") and value.startswith("{")
        secret = is_secret(key) and not is_reference(value.strip("\"'"))
        if (secret or table) and value:
            return f"{line[: equals + 1]} {HIDDEN}"
        start = equals + 1
    for pair in re.finditer(_PAIR, line):
        value = line[pair.start(2) :].strip(" \t\r\"',}")
        secret = is_secret(pair[1]) and not is_reference(value + "}" * value.startswith("${"))
        if secret or (pair[1] in _TABLES and pair[2] == "{"):
            return f"{line[: pair.start(2)]}{HIDDEN}"
    strings = [text for quote in "\"'" for text in line.split(quote)[1::2]]
    return mask_secrets(line, secrets_of_arguments(strings))
