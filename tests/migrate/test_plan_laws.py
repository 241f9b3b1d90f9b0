"""Property tests: a migrated city is equivalent, and migrating again changes nothing."""

import os
import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from gascity.pipeline import open_city
from gascity_migrate.compare import changes_intended_by, differences, read_configuration
from gascity_migrate.plan import plan_migration
from tests.migrate.cases import do
from tests.support.memory import MEMORY
from tests.support.trees import build_tree

FILES = {
    "prompts/plain.md": "You work.\n",
    "prompts/braces.md": "You are {{ .AgentName }}.\n",
    "prompts/suffix.md.tmpl": '{{ template "manners" . }}\n',
    "prompts/shared/manners.md.tmpl": "Be kind.\n",
    "template-fragments/hours.template.md": "We open at nine.\n",
    "overlays/one/a.txt": "a\n",
    "overlays/two/b.txt": "b\n",
    "names.txt": "wren\n",
    "packs/guards/pack.toml": '[pack]\nname = "guards"\nschema = 1\n\n'
    '[[agent]]\nname = "guard"\nscope = "rig"\ndescription = "Watches."\n',
}
RIGS = "".join(f'[[rigs]]\nname = "{rig}"\n\n' for rig in ("api", "web"))
PROMPTS = st.sampled_from(
    ["prompts/plain.md", "prompts/braces.md", "//prompts/plain.md", "prompts/suffix.md.tmpl"]
)
MORE = st.lists(
    st.sampled_from(
        [
            'overlay_dir = "overlays/one"',
            'namepool = "names.txt"',
            'inject_fragments = ["manners"]  # kind',
            'append_fragments = ["hours"]',
            "append_fragments = []",
            "pool = { min = 1, max = 3 }",
            'depends_on = ["worker"]',
            'env = { A = "1" }',
            'skills = ["x"]',
        ]
    ),
    unique_by=lambda line: line.partition(" ")[0],
    max_size=4,
)
OTHERS = st.lists(
    st.sampled_from(
        [
            '[agents]\nidle_timeout = "1h"\n\n',
            '[agent_defaults]\nappend_fragments = ["hours"]\n\n',
            '[[patches.agent]]\nname = "claude"\npool = { max = 2 }\n\n',
            '[[patches.agent]]\nname = "claude"\noverlay_dir = "overlays/two"\n\n',
        ]
    ),
    unique=True,
    max_size=3,
)
WORKSPACE = st.sampled_from(
    ["", 'includes = ["packs/guards"]\n', 'global_fragments = ["manners"]\n', "includes = []\n"]
)


@st.composite
def agents(draw: st.DrawFn) -> str:
    pairs = st.tuples(st.sampled_from(["worker", "clerk"]), st.sampled_from(["", "api", "web"]))
    tables = []
    for name, rig in draw(st.lists(pairs, unique=True, max_size=4)):
        lines = [f'prompt_template = "{draw(PROMPTS)}"', *draw(MORE)]
        lines += [f'dir = "{rig}"'] if rig else []
        lines = ["[[agent]]", f'name = "{name}"', *draw(st.permutations(lines))]
        tables.append("\n".join(lines) + "\n\n")
    return "".join(tables)


@settings(max_examples=40)
@given(agents(), OTHERS, WORKSPACE)
def test_a_migrated_city_has_the_same_configuration(
    tables: str, others: list[str], workspace: str
) -> None:
    text = f'[workspace]\nprovider = "claude"\n{workspace}\n{tables}{RIGS}{"".join(others)}'
    with tempfile.TemporaryDirectory(dir=MEMORY) as directory:
        town = build_tree(Path(directory) / "town", {"city.toml": text, **FILES})
        root = str(town)
        plan = plan_migration(root, os.environ)
        assert plan.problems == ()
        before, meant = (
            read_configuration(open_city(root, os.environ, dialects=True)),
            changes_intended_by(plan),
        )
        do(town, plan.changes)
        assert differences(before, read_configuration(open_city(root, os.environ)), meant) == []
        again = plan_migration(root, os.environ)
        assert (again.changes, again.problems) == ((), ())
