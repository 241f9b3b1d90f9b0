"""Plans of skill directories: their links, and the agents that see them."""

from collections.abc import Sequence

import pytest

from gascity.model.provider import Provider
from gascity.model.skills import SkillFile
from gascity.model.wanted import FILE, LINK, WantedPath
from gascity.source.disk import Disk
from gascity.workdir.decide.skills import (
    ClaimedSkill,
    SkillClaim,
    SkillReader,
    SkippedSkill,
    readers_of,
    sink_plan,
)
from gascity.workdir.wanted import skill_claim
from tests.support.city import CityBuilder, agent_of

STAMP = (1, 2, 3, 4)
WORK = "/city/work"


def skill(path: str, origin: str = "city") -> ClaimedSkill:
    return ClaimedSkill(path.rpartition("/")[2], f"/city/{path}", path, origin, "/city")


def claim(
    agent: str,
    *skills: ClaimedSkill,
    sink: str = ".claude/skills",
    links: str = "any",
    copies: bool = False,
) -> SkillClaim:
    return SkillClaim(agent, "claude" if sink else "shell", sink, links, copies, skills)


def no_files(directory: str) -> Sequence[SkillFile]:
    raise AssertionError(f"{directory} was listed, although links work")


def two_files(directory: str) -> Sequence[SkillFile]:
    return [
        SkillFile("SKILL.md", f"{directory}/SKILL.md", 0o644, STAMP),
        SkillFile("scripts/run", f"{directory}/scripts/run", 0o755, STAMP),
    ]


def link(path: str, source: str, *agents: str, origin: str = "city") -> WantedPath:
    return WantedPath(path, LINK, source, origin, agents, target=f"/city/{source}")


def test_a_skill_is_one_absolute_link_in_the_sink() -> None:
    plan = sink_plan([claim("mayor", skill("skills/knots"))], WORK, no_files)
    assert plan.wanted == (link(".claude/skills/knots", "skills/knots", "mayor"),)
    assert (plan.skipped, plan.problems) == ((), {})


def test_agents_that_share_a_sink_keep_each_others_skills() -> None:
    own = skill("agents/mayor/skills/ledger", "agent")
    other = skill("agents/clerk/skills/pen", "agent")
    shared = skill("skills/knots")
    plan = sink_plan([claim("mayor", shared, own), claim("clerk", other, shared)], WORK, no_files)
    assert plan.wanted == (
        link(".claude/skills/knots", "skills/knots", "mayor", "clerk"),
        link(".claude/skills/ledger", "agents/mayor/skills/ledger", "mayor", origin="agent"),
        link(".claude/skills/pen", "agents/clerk/skills/pen", "clerk", origin="agent"),
    )


def test_sinks_of_several_providers_are_kept_apart() -> None:
    knots = skill("skills/knots")
    claims = [claim("mayor", knots), claim("clerk", knots, sink="./.agents/skills/")]
    assert sink_plan(claims, WORK, no_files).wanted == (
        link(".agents/skills/knots", "skills/knots", "clerk"),
        link(".claude/skills/knots", "skills/knots", "mayor"),
    )


def test_no_agent_gets_skills_whose_names_collide_in_one_directory() -> None:
    mine, theirs, tides = (
        skill("agents/clerk/skills/knots"),
        skill("skills/knots"),
        skill("s/tides"),
    )
    claims = [claim("pilot", theirs), claim("mayor", theirs, tides), claim("clerk", mine)]
    plan = sink_plan(claims, WORK, no_files)
    assert plan.wanted == (link(".claude/skills/tides", "s/tides", "mayor"),)
    words = (
        "skill `knots` in .claude/skills differs between the agents that share it "
        "(`clerk`: agents/clerk/skills/knots; `mayor`, `pilot`: skills/knots)"
    )
    assert plan.skipped == (
        SkippedSkill("pilot", "knots", words),
        SkippedSkill("mayor", "knots", words),
        SkippedSkill("clerk", "knots", words),
    )
    assert list(plan.problems) == ["pilot", "mayor", "clerk"]
    ((problem,),) = {found for found in plan.problems.values()}
    assert (problem.code, problem.message, problem.is_error) == ("skill-collision", words, True)


def test_skills_with_the_same_name_in_different_directories_do_not_collide() -> None:
    claims = [
        claim("mayor", skill("skills/knots")),
        claim("clerk", skill("agents/clerk/skills/knots"), sink=".agents/skills"),
    ]
    plan = sink_plan(claims, WORK, no_files)
    assert [one.path for one in plan.wanted] == [".agents/skills/knots", ".claude/skills/knots"]
    assert not plan.problems


def test_a_provider_without_a_skill_directory_gets_no_skills_and_a_reason() -> None:
    plan = sink_plan([claim("sh", skill("skills/knots"), sink="")], WORK, no_files)
    assert (plan.wanted, plan.problems) == ((), {})
    assert plan.skipped == (
        SkippedSkill("sh", "knots", "provider `shell` does not support skills"),
    )


COPIES = tuple(
    WantedPath(
        f".claude/skills/knots/{path}",
        FILE,
        f"skills/knots/{path}",
        "city",
        ("mayor",),
        mode=mode,
        copy_of=f"/city/skills/knots/{path}",
        stamp=STAMP,
    )
    for path, mode in (("SKILL.md", 0o644), ("scripts/run", 0o755))
)


@pytest.mark.parametrize(
    "one",
    [
        pytest.param(claim("mayor", skill("skills/knots"), copies=True), id="container"),
        pytest.param(claim("mayor", skill("skills/knots"), links="inside"), id="links-inside-only"),
    ],
)
def test_where_links_cannot_work_every_file_is_copied(one: SkillClaim) -> None:
    assert sink_plan([one], WORK, two_files).wanted == COPIES


def test_a_link_that_stays_inside_serves_a_provider_that_asks_for_that() -> None:
    one = claim("mayor", skill("skills/knots"), links="inside")
    for workdir in ("/city", "/city/"):
        assert [found.kind for found in sink_plan([one], workdir, no_files).wanted] == [LINK]
    assert sink_plan([one], "/city/ski", two_files).wanted == COPIES


def test_a_copy_serves_all_when_one_of_them_cannot_follow_a_link() -> None:
    knots = skill("skills/knots")
    claims = [claim("mayor", knots), claim("clerk", knots, copies=True)]
    plan = sink_plan(claims, WORK, two_files)
    both = ("mayor", "clerk")
    assert plan.wanted == tuple(one._replace(agents=both) for one in COPIES)


def test_an_agents_claim_has_the_skills_that_its_filter_and_the_rules_allow(
    city: CityBuilder,
) -> None:
    sound = "---\nname: {0}\ndescription: D.\n---\n"
    town = city(
        {
            "city.toml": '[imports.crew]\nsource = "packs/crew"\n',
            "agents/mayor/agent.toml": (
                'provider = "kilo"\nexecution = "container"\n[skills_filter]\ndeny = ["ti*"]\n'
            ),
            "agents/mayor/prompt.md": "x\n",
            "packs/crew/pack.toml": '[pack]\nname = "crew"\n',
            "packs/crew/skills/knots/SKILL.md": sound.format("knots"),
            "skills/tides/SKILL.md": sound.format("tides"),
            "skills/mute/SKILL.md": "Mute.\n",
        }
    )
    root = town.root
    assert skill_claim(town, Disk(root), agent_of(town, "mayor")) == SkillClaim(
        agent="mayor",
        provider="kilo",
        sink=".kilo/skills",
        links="inside",
        copies=True,
        skills=(
            ClaimedSkill(
                "knots",
                f"{root}/packs/crew/skills/knots",
                "packs/crew/skills/knots",
                "crew",
                f"{root}/packs/crew",
            ),
        ),
    )


@pytest.fixture
def provider(city: CityBuilder) -> dict[str, Provider]:
    names = ("claude", "codex", "opencode", "shell")
    agents = {f"agents/{n}-1/agent.toml": f'provider = "{n}"\ndescription = "x"\n' for n in names}
    return dict(city(agents).providers)


def test_readers_of_a_sink_work_in_the_same_directory_and_look_there(
    provider: dict[str, Provider],
) -> None:
    def reader(agent: str, name: str, workdir: str = WORK) -> SkillReader:
        return SkillReader(agent, workdir, provider[name])

    others = [
        reader("same", "claude"),
        reader("also-reads", "opencode"),
        reader("reads-others", "codex"),
        reader("reads-none", "shell"),
        reader("elsewhere", "claude", "/city/other"),
        SkillReader("broken", WORK, None),
    ]
    assert readers_of(reader("me", "claude"), others) == ("same", "also-reads")
    assert readers_of(reader("same", "claude"), others) == ("also-reads",)
    assert readers_of(reader("me", "codex"), others) == ("also-reads", "reads-others")
    assert readers_of(reader("me", "shell"), others) == ()
    assert readers_of(reader("me", "claude", ""), [reader("lost", "claude", "")]) == ()
