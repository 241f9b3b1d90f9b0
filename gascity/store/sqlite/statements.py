"""Every SQL statement of the store, by name.

Statements are constants where their text is fixed and functions where the number of values or the
columns vary. Values are always bound, with one exception: the words of a partial index must appear
literally, because SQLite uses such an index only for a query that repeats its exact condition.
"""

from collections.abc import Collection, Iterable

from gascity.model.work import Session
from gascity.store.sqlite.rows import DECISION, EVENT, MAIL, NUDGE, RUN, SESSION, WORK
from gascity.store.sqlite.schema import FINISHED, LIVE, UNFINISHED


def placeholders(values: Collection[object]) -> str:
    """Return one question mark per value."""
    return ", ".join("?" * len(values))


# THE predicate of claimable work. Binds `now` and the id of the session that wants the work.
# Claiming, demand and queue position all use it, so they can never disagree. `waiting` counts the
# dependencies that are not done; `session` is empty unless the work is reserved for one session.
CLAIMABLE = (
    "status = 'open' AND waiting = 0 AND (not_before IS NULL OR not_before <= ?)"
    " AND session IN ('', ?)"
)
QUEUE_ORDER = "ORDER BY priority, number"  # the index work_ready has this order

# Work

WORK_BY_ID = f"SELECT {WORK} FROM work WHERE id = ?"
WORK_BY_KEY = f"SELECT {WORK} FROM work WHERE key = ?"
# AUTOINCREMENT keeps the last number here, also when that row is gone: ids are never reused.
LAST_WORK_NUMBER = "SELECT seq FROM sqlite_sequence WHERE name = 'work'"
INSERT_WORK = (
    "INSERT INTO work (number, id, agent, title, body, status, priority, waiting, created, updated,"
    " not_before, session, reserved, depends_on, sender, parent, depth, key, start_from,"
    " no_reflection, answer_to)"
    " VALUES (?, ?, ?, ?, ?, 'open', ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
)
INSERT_DEPENDENCY = "INSERT INTO dependency (work, needs) VALUES (?, ?)"
CLAIMABLE_WORK = f"SELECT {WORK} FROM work WHERE agent = ? AND {CLAIMABLE} {QUEUE_ORDER} LIMIT ?"
RESERVED_WORK = (
    f"SELECT {WORK} FROM work WHERE agent = ? AND {CLAIMABLE} AND session = ? {QUEUE_ORDER} LIMIT 1"
)
RESERVATIONS = "SELECT DISTINCT agent, session FROM work WHERE session <> '' AND status = 'open'"
QUEUE_PLACE = f"SELECT agent, session, priority, number FROM work WHERE id = ? AND {UNFINISHED}"
COUNT_BEFORE = (
    f"SELECT COUNT(*) FROM work WHERE agent = ? AND {CLAIMABLE} AND (priority, number) < (?, ?)"
)
UNFINISHED_DEPENDENCIES = (
    f"SELECT {WORK} FROM work WHERE id IN (SELECT needs FROM dependency WHERE work = ?)"
    " AND status <> 'done' ORDER BY number"
)
DEPENDENT_AGENTS = (
    "SELECT DISTINCT work.agent FROM dependency JOIN work ON work.id = dependency.work"
    " WHERE dependency.needs = ? AND work.status = 'open'"
)
COUNT_CHILDREN = "SELECT COUNT(*) FROM work WHERE parent = ? AND parent <> ''"
DELEGATIONS = (
    f"SELECT {WORK} FROM work WHERE parent = '' AND id IN"
    " (SELECT parent FROM work WHERE parent <> '') ORDER BY number DESC LIMIT ?"
)
NEXT_DUE = (
    "SELECT MIN(not_before) FROM work WHERE status = 'open' AND not_before IS NOT NULL"
    " AND agent = ? AND not_before > ?"
)


def _agents_with_work(condition: str) -> str:
    """Return the query for the agents of work that meets the condition of an index on `agent`.

    A loose index scan: jumps from one agent to the next in the index, so its cost depends on the
    number of agents, not on the number of items.
    """
    first = f"SELECT MIN(agent) FROM work WHERE {condition}"
    return (
        f"WITH RECURSIVE hop (agent) AS ({first} UNION ALL"
        f" SELECT ({first} AND work.agent > hop.agent) FROM hop WHERE hop.agent IS NOT NULL)"
        " SELECT agent FROM hop WHERE agent IS NOT NULL"
    )


OPEN_AGENTS = _agents_with_work(UNFINISHED)
WORK_AGENTS = _agents_with_work("1")
# Without the hint the planner reads all work of the agents, also in the queries below.
OPEN_COUNTS = (
    "SELECT agent, COUNT(*) FROM work INDEXED BY work_unsettled"
    f" WHERE {UNFINISHED} AND status = 'open' GROUP BY agent"
)
# The session's current generation, and the work that this generation holds, if any.
SESSION_AND_CLAIM = (
    "SELECT generation, (SELECT id FROM work WHERE work.session = s.id AND work.session <> ''"
    " AND work.generation = s.generation AND status = 'claimed' LIMIT 1) FROM session AS s"
    " WHERE id = ?"
)
_CLAIM = (
    "UPDATE work SET status = 'claimed', session = ?, generation = ?, attempts = attempts + 1,"
    " updated = ?, reason = '' WHERE number = (SELECT number FROM work WHERE {column} = ?"
    f" AND {CLAIMABLE} {QUEUE_ORDER} LIMIT 1) RETURNING {WORK}"
)
CLAIM_BY_ID = _CLAIM.format(column="id")
CLAIM_NEXT = _CLAIM.format(column="agent")
_FINISH = (
    "UPDATE work SET status = ?, updated = ?, reason = ?, summary = ?, exit_code = ?, usage = ?,"
    " cost = ?, failures = failures + CASE status WHEN 'claimed' THEN ? ELSE 0 END"
    " WHERE id = ? AND"
)
FINISH = f"{_FINISH} {UNFINISHED} RETURNING {WORK}"
FINISH_AS_HOLDER = (
    f"{_FINISH} status = 'claimed' AND session = ? AND generation = ? RETURNING {WORK}"
)
REOPEN = (
    "UPDATE work SET status = 'open', updated = ?, reason = ?, not_before = ?,"
    " session = CASE WHEN reserved THEN session ELSE '' END, generation = 0,"
    " attempts = ?, failures = ?, attempts_before = ?, failures_before = ?,"
    " summary = NULL, exit_code = NULL, usage = NULL, cost = NULL"
    " WHERE id = ?"
)
MOVE_WORK = (
    "UPDATE work SET agent = ?, start_from = ?, updated = ?, reason = ?, session = '',"
    " reserved = 0, generation = 0, attempts = 0, failures = 0, attempts_before = 0,"
    " failures_before = 0, not_before = NULL, branch = '',"
    f" base = '', workdir = '', commits = 0, log = '' WHERE id = ? AND status = 'open'"
    f" RETURNING {WORK}"
)
RENAME_AGENT_OF_WORK = (
    f"UPDATE work SET agent = ? WHERE agent = ? AND {UNFINISHED} RETURNING {WORK}"
)
ADD_TO_WAITING = (
    "UPDATE work SET waiting = waiting + ?"
    " WHERE id IN (SELECT work FROM dependency WHERE needs = ?)"
)


def children(ids: Collection[str]) -> str:
    """Return the query for the items that were slung while working on any of `ids`."""
    where = f"parent IN ({placeholders(ids)}) AND parent <> ''"
    return f"SELECT {WORK} FROM work WHERE {where} ORDER BY number"


def work_statuses(ids: Collection[str]) -> str:
    """Return the query for the status of each work item in `ids`."""
    return f"SELECT id, status FROM work WHERE id IN ({placeholders(ids)})"


_CONTAINS = "id || ' ' || agent || ' ' || title LIKE ? ESCAPE '!'"


def list_work(
    statuses: Collection[str],
    agents: Collection[str] | None,
    *,
    session: bool,
    before: bool,
    words: int = 0,
) -> str:
    """Return the query for work, newest first, with these statuses and filters.

    Binds the agents, the session, a pattern for each word, the id that the items are older than,
    and a limit.
    """
    more = ["session = ? AND session <> ''"] if session else []
    more += [_CONTAINS] * words
    more += ["number < (SELECT number FROM work WHERE id = ?)"] if before else []
    terms = _work_terms(statuses, agents) + more
    if len(statuses) == 1 and agents is None and not session:
        (status,) = statuses
        if status in _FEW:  # reading newest first until enough are found would read all work
            limits = "".join(f" AND {term}" for term in more)
            numbers = f"{_few('number', status)}{limits} ORDER BY number DESC LIMIT ?"
            return f"SELECT {WORK} FROM work WHERE number IN ({numbers}) ORDER BY number DESC"
    # The planner prefers to read all work ever done in the requested order over sorting the few
    # open items, so it must be told which index to use.
    only_unfinished = bool(statuses) and UNFINISHED in terms[0] and not session
    index = "INDEXED BY work_unsettled" if only_unfinished else ""
    where = " AND ".join(terms) or "1"
    return f"SELECT {WORK} FROM work {index} WHERE {where} ORDER BY number DESC LIMIT ?"


def count_work(statuses: Collection[str], agents: Collection[str] | None, words: int = 0) -> str:
    """Return the query that counts the items of `list_work`; binds agents and patterns."""
    terms = [*_work_terms(statuses, agents), *[_CONTAINS] * words]
    return f"SELECT COUNT(*) FROM work WHERE {' AND '.join(terms) or '1'}"


def containing(word: str) -> str:
    """Return the pattern for texts that contain a word."""
    for special in "!%_":
        word = word.replace(special, f"!{special}")
    return f"%{word}%"


def _work_terms(statuses: Collection[str], agents: Collection[str] | None) -> list[str]:
    terms = [_has_status(statuses)] if statuses else []
    return terms + ([] if agents is None else [f"agent IN ({placeholders(agents)})"])


def _has_status(statuses: Iterable[str]) -> str:
    """Return the condition for these statuses, with the words of a partial index that covers it."""
    words = set(statuses)
    terms = ["status IN ({})".format(", ".join(f"'{word}'" for word in sorted(words)))]
    terms += [UNFINISHED] if words <= {"open", "claimed"} else []
    terms += [FINISHED] if words <= {"done", "failed", "cancelled"} else []
    return " AND ".join(terms)


_FEW = ("failed", "cancelled")  # statuses of few items, compared with all that are done


def _few(columns: str, status: str) -> str:
    """Return the query for the items of all agents with a status of `_FEW`."""
    # The one status comes first: SQLite may search the index only for the first of both terms.
    return (
        f"SELECT {columns} FROM work INDEXED BY work_settled"
        f" WHERE agent IN ({WORK_AGENTS}) AND status = '{status}' AND {FINISHED}"
    )


def _count_unfinished(mine: str = "") -> str:
    # Grouped by agent first, the order of the index: sorting 100,000 rows by status takes longer.
    return (
        "SELECT status, SUM(items) FROM (SELECT status, COUNT(*) AS items FROM work"
        f" INDEXED BY work_unsettled WHERE {mine}{UNFINISHED} GROUP BY agent, status)"
        " GROUP BY status"
    )


_FEW_COUNTS = " UNION ALL ".join(f"SELECT '{word}', ({_few('COUNT(*)', word)})" for word in _FEW)
# Counting all rows is fast, because SQLite does not look at them. The items that are done are not
# counted one by one: they are the rest. One statement, so that all numbers are of one moment.
COUNT_BY_STATUS = (
    f"WITH counted (status, items) AS ({_count_unfinished()} UNION ALL {_FEW_COUNTS})"
    " SELECT status, items FROM counted UNION ALL"
    " SELECT 'done', (SELECT COUNT(*) FROM work) - SUM(items) FROM counted"
)
COUNT_BY_STATUS_OF_AGENT = (
    f"{_count_unfinished('agent = ?1 AND ')} UNION ALL SELECT status, COUNT(*) FROM work"
    f" INDEXED BY work_settled WHERE agent = ?1 AND {FINISHED} GROUP BY status"
)


def update_work(columns: Iterable[str]) -> str:
    """Return the statement that sets columns of one work item."""
    return f"UPDATE work SET {_assignments((*columns, 'updated'))} WHERE id = ? RETURNING number"


# Sessions

SESSION_BY_ID = f"SELECT {SESSION} FROM session WHERE id = ?"
INSERT_SESSION = f"INSERT INTO session ({SESSION}) VALUES ({placeholders(Session._fields)})"
DELETE_SESSION = f"DELETE FROM session WHERE id = ? RETURNING {SESSION}"
RELEASE_RESERVATIONS = (
    "UPDATE work SET session = '', reserved = 0"
    " WHERE session = ? AND session <> '' AND status = 'open'"
)
SESSION_AGENT = "SELECT agent FROM session WHERE id = ?"
_HAS_NAME = "(alias = ? OR (name <> '' AND name = ?))"


def list_sessions(*, agent: bool, live: bool | None) -> str:
    """Return the query for sessions with these filters; binds a limit."""
    terms = ["1"]
    terms += ["agent = ?"] if agent else []
    terms += [] if live is None else [LIVE if live else f"NOT ({LIVE})"]
    return _sessions_where(" AND ".join(terms), _LIVE_FIRST if live is None else "")


_LIVE_FIRST = f"({LIVE}) DESC, "
SESSION_KEYS = (
    f"SELECT id, agent, state FROM session ORDER BY pinned IS NULL, pinned DESC, ({LIVE}) DESC,"
    " (state IN ('quarantined', 'rate-limited') OR retry_at IS NOT NULL) DESC, updated DESC, id"
)


def _sessions_where(where: str, first: str = _LIVE_FIRST) -> str:
    return f"SELECT {SESSION} FROM session WHERE {where} ORDER BY {first}updated DESC, id LIMIT ?"


def sessions_by_id(ids: Collection[str]) -> str:
    """Return the query for the sessions with these ids."""
    return f"SELECT {SESSION} FROM session WHERE id IN ({placeholders(ids)})"


LIVE_SESSIONS_BY_NAME = _sessions_where(f"{_HAS_NAME} AND {LIVE}")
SESSIONS_BY_NAME = _sessions_where(_HAS_NAME)
# No character of an id sorts after the tilde, so this range is "starts with".
SESSIONS_BY_NAME_OR_PREFIX = _sessions_where(f"{_HAS_NAME} OR (id >= ? AND id < ? || '~')")


def update_session(columns: Iterable[str], *, fenced: bool) -> str:
    """Return the statement that sets columns of one session, fenced by its generation or not."""
    fence = " AND generation = ?" if fenced else ""
    assignments = _assignments((*columns, "updated"))
    return f"UPDATE session SET {assignments} WHERE id = ?{fence} RETURNING {SESSION}"


# Runs

RUN_BY_ID = f"SELECT {RUN} FROM run WHERE id = ?"
# `agent` is copied from the session so that TOTAL_COST can be answered from the index run_cost.
INSERT_RUN = (
    f"INSERT INTO run (agent, {RUN.removeprefix('id, ')})"
    f" VALUES ((SELECT agent FROM session WHERE id = ?){', ?' * RUN.count(',')}) RETURNING id"
)
RUNS_AFTER = f"SELECT {RUN} FROM run WHERE id > ? ORDER BY id LIMIT ?"
RUN_USAGE = "SELECT agent, ended, usage, cost FROM run WHERE ended >= ? ORDER BY id"
TOTAL_COST = "SELECT TOTAL(cost) FROM run WHERE cost IS NOT NULL AND ended >= ?"


# Steps of time since `?1`, each `?2` seconds long. The index work_settled begins with the agent, so
# each agent's part of it is searched by time.
FINISHED_BY_STEP = (
    "SELECT CAST((updated - ?1) / ?2 AS INTEGER) AS step, status, COUNT(*) FROM work"
    f" INDEXED BY work_settled WHERE agent IN ({WORK_AGENTS}) AND status IN ('done', 'failed')"
    f" AND {FINISHED} AND updated >= ?1 GROUP BY step, status"
)
COST_BY_STEP = (
    "SELECT CAST((ended - ?1) / ?2 AS INTEGER) AS step, TOTAL(cost) FROM run"
    " WHERE cost IS NOT NULL AND ended >= ?1 GROUP BY step"
)


def list_runs(columns: Iterable[str], open: bool | None) -> str:
    """Return the query for runs, latest first, filtered by equality of `columns`."""
    names = tuple(columns)
    terms = ["1", *(f"{name} = ?" for name in names)]
    terms += [] if open is None else ["ended IS NULL" if open else "ended IS NOT NULL"]
    # As in list_work: without the hint the planner reads every run there ever was.
    index = "INDEXED BY run_open" if open and "work" not in names else ""
    return f"SELECT {RUN} FROM run {index} WHERE {' AND '.join(terms)} ORDER BY id DESC"


def update_run(columns: Iterable[str]) -> str:
    """Return the statement that sets columns of one run."""
    return f"UPDATE run SET {_assignments(columns)} WHERE id = ? RETURNING id"


def total_cost_of(agents: Collection[str]) -> str:
    """Return the query for the total cost of runs of these agents."""
    return f"{TOTAL_COST} AND agent IN ({placeholders(agents)})"


# Mail and nudges

MAIL_BY_ID = f"SELECT {MAIL} FROM mail WHERE id = ?"
MAIL_THREAD = "SELECT thread FROM mail WHERE id = ?"
INSERT_MAIL = (
    "INSERT INTO mail (thread, sender, recipient, subject, body, at) VALUES (?, ?, ?, ?, ?, ?)"
    f" RETURNING {MAIL}"
)
START_THREAD = "UPDATE mail SET thread = id WHERE id = ?"
UNREAD_COUNTS = (
    "SELECT recipient, COUNT(*) FROM mail WHERE archived IS NULL AND read IS NULL"
    " GROUP BY recipient"
)
INSERT_NUDGE = f"INSERT INTO nudge (session, text, at, about) VALUES (?, ?, ?, ?) RETURNING {NUDGE}"
PENDING_NUDGES = f"SELECT {NUDGE} FROM nudge WHERE session = ? AND delivered IS NULL ORDER BY id"


TAKE_NUDGES = (
    "UPDATE nudge SET delivered = ? WHERE session = ? AND delivered IS NULL AND typing IS NULL"
    f" RETURNING {NUDGE}"
)
SET_TYPING = f"UPDATE nudge SET typing = ? WHERE id = ? AND delivered IS NULL RETURNING {NUDGE}"
DELETE_NUDGE = "DELETE FROM nudge WHERE id = ? AND delivered IS NULL"


def inbox(names: Collection[str], *, unread: bool, before: bool) -> str:
    """Return the query for mail to any of the names, newest first.

    Binds the names, the id that the messages are older than, and a limit.
    """
    where = _in_inbox(names, unread) + (" AND id < ?" if before else "")
    return f"SELECT {MAIL} FROM mail WHERE {where} ORDER BY id DESC LIMIT ?"


def count_inbox(names: Collection[str], *, unread: bool) -> str:
    """Return the query that counts the messages of `inbox`; binds the names."""
    return f"SELECT COUNT(*) FROM mail WHERE {_in_inbox(names, unread)}"


def _in_inbox(names: Collection[str], unread: bool) -> str:
    state = "archived IS NULL AND read IS NULL" if unread else "archived IS NULL"
    return f"recipient IN ({placeholders(names)}) AND {state}"


def mark_mail(column: str, ids: Collection[int]) -> str:
    """Return the statement that sets `read` or `archived` where it is not set yet."""
    where = f"id IN ({placeholders(ids)}) AND {column} IS NULL"
    return f"UPDATE mail SET {column} = ? WHERE {where} RETURNING id, sender, recipient"


def mark_nudges(ids: Collection[int]) -> str:
    """Return the statement that marks nudges as delivered."""
    where = f"id IN ({placeholders(ids)}) AND delivered IS NULL"
    return f"UPDATE nudge SET delivered = ? WHERE {where}"


# Events, decisions, notes

INSERT_EVENT = "INSERT INTO event (at, type, actor, subject, data) VALUES (?, ?, ?, ?, ?)"
# Events have no gaps: numbers are given out in order, and only the oldest are deleted.
COUNT_ALL_EVENTS = (
    "SELECT MAX(0, COALESCE((SELECT MAX(seq) FROM event), 0)"
    " - MAX(?, COALESCE((SELECT MIN(seq) FROM event), 1) - 1))"
)
LAST_EVENT = "SELECT COALESCE(MAX(seq), 0) FROM event"
REPEAT_DECISION = (
    "UPDATE decision SET times = times + ?, at = ?"
    " WHERE number = (SELECT MAX(number) FROM decision WHERE subject = ?)"
    " AND action = ? AND reason = ? RETURNING number"
)
INSERT_DECISION = f"INSERT INTO decision ({DECISION}) VALUES (?, ?, ?, ?, ?)"
DECISIONS_OF = f"SELECT {DECISION} FROM decision WHERE subject = ? ORDER BY number DESC LIMIT ?"


def list_events(types: Collection[str], *, newest: bool) -> str:
    """Return the query for events in the order of reading; binds what `_events` does, and a limit.

    The newest are read from the end, so that the query stops after the last few.
    """
    order = "seq DESC" if newest else "seq"
    return f"SELECT {EVENT} FROM event WHERE {_events(types)} ORDER BY {order} LIMIT ?"


def count_events(types: Collection[str]) -> str:
    """Return the query that counts events; binds what `_events` does."""
    return f"SELECT COUNT(*) FROM event WHERE {_events(types)}"


def _events(types: Collection[str]) -> str:
    """Return the condition; binds a sequence number, a time, and each type three times."""
    matches = " OR ".join(["type = ? OR substr(type, 1, length(?) + 1) = ? || '.'"] * len(types))
    return f"seq > ? AND at >= ?{f' AND ({matches})' if matches else ''}"


SET_NOTE = "INSERT OR REPLACE INTO note (key, value) VALUES (?, ?)"
GET_NOTE = "SELECT value FROM note WHERE key = ?"

# Retention

_OLD_WORK = f"""{FINISHED} AND updated < ?
    AND number NOT IN (SELECT number FROM work WHERE {FINISHED} ORDER BY updated DESC LIMIT ?)
    AND NOT EXISTS (SELECT 1 FROM dependency WHERE needs = work.id)"""
DELETE_OLD_WORK = f"DELETE FROM work WHERE {_OLD_WORK} RETURNING log"
_ENDED = "state IN ('stopped', 'crashed')"
_OLD_SESSION = f"""{_ENDED} AND updated < ? AND pinned IS NULL AND name = '' AND origin <> 'named'
    AND id NOT IN (SELECT id FROM session WHERE {_ENDED} ORDER BY updated DESC LIMIT ?)
    AND NOT EXISTS (SELECT 1 FROM run WHERE run.session = session.id AND ended IS NULL)
    AND NOT EXISTS (SELECT 1 FROM work WHERE work.session = session.id AND work.session <> ''
        AND {UNFINISHED})"""
DELETE_RUNS_OF_OLD_SESSIONS = (
    f"DELETE FROM run WHERE session IN (SELECT id FROM session WHERE {_OLD_SESSION})"
    " RETURNING log, exit_file"
)
DELETE_OLD_SESSIONS = f"DELETE FROM session WHERE {_OLD_SESSION}"
DELETE_OLD_RUNS = (
    "DELETE FROM run WHERE ended < ? AND NOT EXISTS (SELECT 1 FROM work WHERE work.id = run.work)"
    " RETURNING log, exit_file"
)
DELETE_OLD_MAIL = (
    "DELETE FROM mail WHERE COALESCE(read, archived) IS NOT NULL"
    " AND MAX(COALESCE(read, 0), COALESCE(archived, 0)) < ?"
)
RENAME_RECIPIENT = (
    "UPDATE mail SET recipient = ? WHERE recipient = ? AND archived IS NULL AND read IS NULL"
)
DELETE_OLD_NUDGES = "DELETE FROM nudge WHERE delivered < ?"
DELETE_OLD_EVENTS = "DELETE FROM event WHERE seq <= (SELECT MAX(seq) FROM event) - ?"
DELETE_OLD_DECISIONS = "DELETE FROM decision WHERE number <= (SELECT MAX(number) FROM decision) - ?"
DELETE_SURPLUS_DECISIONS = """DELETE FROM decision WHERE number IN (
    SELECT number FROM (SELECT number,
        row_number() OVER (PARTITION BY subject ORDER BY number DESC) AS place FROM decision)
    WHERE place > ?)"""


def logs_in_use(table: str, logs: Collection[str]) -> str:
    """Return the query for those of `logs` that rows of the table still name."""
    return f"SELECT log FROM {table} WHERE log IN ({placeholders(logs)})"


def _assignments(columns: Iterable[str]) -> str:
    return ", ".join(f"{name} = ?" for name in columns)
