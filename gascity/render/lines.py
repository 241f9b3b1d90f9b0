"""Lines of a text that a person wrote: where they begin and end, and how new ones are set apart."""

BOM = "\ufeff"


def newline(text: str) -> str:
    """The line end that a text uses."""
    return "\r\n" if text.partition("\n")[0].endswith("\r") else "\n"


def line_start(text: str, at: int) -> int:
    """The beginning of a line; a byte order mark is before it."""
    start = text.rfind("\n", 0, at) + 1
    return 1 if start == 0 and text.startswith(BOM) else start


def line_end(text: str, at: int) -> int:
    """The beginning of the next line."""
    return text.find("\n", at) + 1 or len(text)


def is_blank(text: str, at: int) -> bool:
    """Is there nothing from here to the end of the line?"""
    return not text[at : line_end(text, at)].strip()


def comments_end(text: str, end: int) -> int:
    """The end of a block with the comments right under it, unless what follows has them."""
    after = end
    while text[after : line_end(text, after)].lstrip().startswith("#"):
        after = line_end(text, after)
    return after if is_blank(text, after) else end


def put_block(text: str, at: int, block: str) -> str:
    """Write lines with a blank line before and after, where there is something to set apart."""
    end = newline(text)
    before, after = text[:at], text[at:]
    if before.strip(BOM) and not before.endswith("\n"):
        before += end
    if before.strip(BOM) and not is_blank(before, line_start(before, len(before) - 1)):
        before += end
    gap = "" if is_blank(after, 0) else end
    return f"{before}{block}{end}{gap}{after}"


def without_block(text: str, begin: int, end: int) -> str:
    """Cut lines with the blank lines that set them apart on one side."""
    above = text[:begin].rstrip()
    if not above.strip(BOM):
        return text[:begin] + text[end:].lstrip("\r\n")
    if is_blank(text, end):
        begin = min(begin, line_end(text, len(above)))
    return text[:begin] + text[end:]
