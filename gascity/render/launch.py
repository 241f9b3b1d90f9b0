"""Arguments and variables of a launch with the places in them that only the launch knows."""

import json
import re
from collections.abc import Mapping


def filled(text: str, known: Mapping[str, str]) -> str:
    """`{workdir}` and the like replaced; one in quotes is written as a string of TOML and JSON."""

    def value(found: re.Match[str]) -> str:
        word = known[found[2]]
        if found[1] and found[3]:
            return json.dumps(word, ensure_ascii=False)
        return found[1] + word + found[3]

    return re.sub(rf'("?)\{{({"|".join(known)})\}}("?)', value, text)
