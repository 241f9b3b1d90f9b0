"""The tables of `.gc/city.db`, as migrations from one schema version to the next."""

from collections.abc import Iterable

# Conditions of partial indexes. SQLite uses such an index only for a query with the same words.
UNFINISHED = "status IN ('open', 'claimed')"
FINISHED = "status IN ('done', 'failed', 'cancelled')"
LIVE = "state IN ('starting', 'running', 'idle', 'waiting', 'draining', 'stopping', 'unknown')"
_LIVE_1 = "state IN ('starting', 'running', 'idle', 'draining', 'stopping', 'unknown')"

_VERSION_1 = (
    # `waiting` counts the dependencies that are not done; `depends_on` lists their ids in order,
    # for readers. `summary` is null while there is no result.
    """CREATE TABLE work (
        number INTEGER PRIMARY KEY AUTOINCREMENT,
        id TEXT NOT NULL UNIQUE,
        agent TEXT NOT NULL,
        title TEXT NOT NULL,
        status TEXT NOT NULL,
        priority INTEGER NOT NULL,
        waiting INTEGER NOT NULL,
        attempts INTEGER NOT NULL DEFAULT 0,
        failures INTEGER NOT NULL DEFAULT 0,
        created REAL NOT NULL,
        updated REAL NOT NULL,
        not_before REAL,
        session TEXT NOT NULL DEFAULT '',
        generation INTEGER NOT NULL DEFAULT 0,
        reserved INTEGER NOT NULL DEFAULT 0,
        depends_on TEXT NOT NULL DEFAULT '',
        branch TEXT NOT NULL DEFAULT '',
        base TEXT NOT NULL DEFAULT '',
        workdir TEXT NOT NULL DEFAULT '',
        commits INTEGER NOT NULL DEFAULT 0,
        exit_code INTEGER,
        summary TEXT,
        usage TEXT,
        cost REAL,
        log TEXT NOT NULL DEFAULT '',
        reason TEXT NOT NULL DEFAULT '',
        sender TEXT NOT NULL,
        parent TEXT NOT NULL DEFAULT '',
        depth INTEGER NOT NULL DEFAULT 0,
        key TEXT,
        body TEXT NOT NULL
    ) STRICT""",
    "CREATE UNIQUE INDEX work_key ON work (key) WHERE key IS NOT NULL",
    """CREATE INDEX work_ready ON work (agent, priority, number, not_before, session)
        WHERE status = 'open' AND waiting = 0""",
    f"CREATE INDEX work_unsettled ON work (agent) WHERE {UNFINISHED}",
    f"CREATE INDEX work_settled ON work (agent, status, updated) WHERE {FINISHED}",
    """CREATE INDEX work_due ON work (agent, not_before)
        WHERE status = 'open' AND not_before IS NOT NULL""",
    "CREATE INDEX work_agent ON work (agent)",
    "CREATE INDEX work_session ON work (session, status) WHERE session <> ''",
    "CREATE INDEX work_parent ON work (parent) WHERE parent <> ''",
    """CREATE TABLE dependency (
        work TEXT NOT NULL REFERENCES work (id) ON DELETE CASCADE,
        needs TEXT NOT NULL REFERENCES work (id),
        PRIMARY KEY (work, needs)
    ) STRICT, WITHOUT ROWID""",
    "CREATE INDEX dependency_needs ON dependency (needs, work)",
    """CREATE TABLE session (
        id TEXT PRIMARY KEY,
        agent TEXT NOT NULL,
        origin TEXT NOT NULL,
        slot INTEGER NOT NULL,
        alias TEXT NOT NULL,
        state TEXT NOT NULL,
        reason TEXT NOT NULL,
        created REAL NOT NULL,
        updated REAL NOT NULL,
        name TEXT NOT NULL,
        interactive INTEGER NOT NULL,
        runtime TEXT NOT NULL,
        generation INTEGER NOT NULL,
        run INTEGER NOT NULL,
        pid INTEGER NOT NULL,
        workdir TEXT NOT NULL,
        branch TEXT NOT NULL,
        conversation TEXT NOT NULL,
        prints TEXT NOT NULL,
        started REAL,
        idle_since REAL,
        work TEXT NOT NULL,
        attached INTEGER NOT NULL,
        pinned REAL,
        crashes INTEGER NOT NULL,
        retry_at REAL,
        drain_by REAL,
        asked TEXT NOT NULL,
        pending TEXT NOT NULL,
        busy_until REAL,
        snippet TEXT NOT NULL
    ) STRICT, WITHOUT ROWID""",
    f"CREATE UNIQUE INDEX session_called ON session (alias) WHERE {_LIVE_1} AND alias <> ''",
    f"CREATE INDEX session_live ON session (agent) WHERE {_LIVE_1}",
    "CREATE INDEX session_agent ON session (agent)",
    "CREATE INDEX session_alias ON session (alias)",
    "CREATE INDEX session_name ON session (name) WHERE name <> ''",
    # `agent` repeats the session's agent so that the index run_cost alone answers the total cost.
    """CREATE TABLE run (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        session TEXT NOT NULL REFERENCES session (id) ON DELETE CASCADE,
        agent TEXT NOT NULL,
        generation INTEGER NOT NULL,
        work TEXT NOT NULL,
        runtime TEXT NOT NULL,
        started REAL NOT NULL,
        log TEXT NOT NULL,
        exit_file TEXT NOT NULL,
        pid INTEGER NOT NULL,
        ticks INTEGER NOT NULL,
        boot TEXT NOT NULL,
        handle TEXT NOT NULL,
        ended REAL,
        outcome TEXT NOT NULL,
        exit_code INTEGER,
        usage TEXT,
        cost REAL,
        lost_bytes INTEGER NOT NULL,
        about TEXT NOT NULL
    ) STRICT""",
    "CREATE INDEX run_session ON run (session)",
    "CREATE INDEX run_work ON run (work)",
    "CREATE INDEX run_open ON run (session) WHERE ended IS NULL",
    "CREATE INDEX run_cost ON run (ended, agent, cost) WHERE cost IS NOT NULL",
    """CREATE TABLE mail (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        thread INTEGER NOT NULL,
        sender TEXT NOT NULL,
        recipient TEXT NOT NULL,
        subject TEXT NOT NULL,
        body TEXT NOT NULL,
        at REAL NOT NULL,
        read REAL,
        archived REAL
    ) STRICT""",
    "CREATE INDEX mail_inbox ON mail (recipient) WHERE archived IS NULL",
    "CREATE INDEX mail_unread ON mail (recipient) WHERE archived IS NULL AND read IS NULL",
    """CREATE TABLE nudge (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        session TEXT NOT NULL REFERENCES session (id) ON DELETE CASCADE,
        text TEXT NOT NULL,
        at REAL NOT NULL,
        delivered REAL
    ) STRICT""",
    "CREATE INDEX nudge_session ON nudge (session, delivered)",
    """CREATE TABLE event (
        seq INTEGER PRIMARY KEY AUTOINCREMENT,
        at REAL NOT NULL,
        type TEXT NOT NULL,
        actor TEXT NOT NULL,
        subject TEXT NOT NULL,
        data TEXT NOT NULL
    ) STRICT""",
    """CREATE TABLE decision (
        number INTEGER PRIMARY KEY AUTOINCREMENT,
        at REAL NOT NULL,
        subject TEXT NOT NULL,
        action TEXT NOT NULL,
        reason TEXT NOT NULL,
        times INTEGER NOT NULL
    ) STRICT""",
    "CREATE INDEX decision_subject ON decision (subject)",
    "CREATE TABLE note (key TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT, WITHOUT ROWID",
)

# Sessions may be `waiting`. A nudge says what it is about and whether it is being typed.
_VERSION_2 = (
    "DROP INDEX session_called",
    "DROP INDEX session_live",
    f"CREATE UNIQUE INDEX session_called ON session (alias) WHERE {LIVE} AND alias <> ''",
    f"CREATE INDEX session_live ON session (agent) WHERE {LIVE}",
    "ALTER TABLE nudge ADD COLUMN about TEXT NOT NULL DEFAULT ''",
    "ALTER TABLE nudge ADD COLUMN typing REAL",
)
# The hash of the secret by which a run proves that it acts for its session.
_VERSION_3 = ("ALTER TABLE run ADD COLUMN token TEXT NOT NULL DEFAULT ''",)
# The work item or branch that an item starts from.
_VERSION_4 = ("ALTER TABLE work ADD COLUMN start_from TEXT NOT NULL DEFAULT ''",)
# The attempts and failures before the last retry, which do not count against the limits.
_VERSION_5 = (
    "ALTER TABLE work ADD COLUMN attempts_before INTEGER NOT NULL DEFAULT 0",
    "ALTER TABLE work ADD COLUMN failures_before INTEGER NOT NULL DEFAULT 0",
)
# Items that no reflection follows.
_VERSION_6 = ("ALTER TABLE work ADD COLUMN no_reflection INTEGER NOT NULL DEFAULT 0",)
# The agent, or the user, to whose session the result of an item is mailed.
_VERSION_7 = ("ALTER TABLE work ADD COLUMN answer_to TEXT NOT NULL DEFAULT ''",)

# The first migration makes version 1 from an empty file, the next makes version 2 of it, and so on.
MIGRATIONS: tuple[tuple[str, ...], ...] = (
    _VERSION_1,
    _VERSION_2,
    _VERSION_3,
    _VERSION_4,
    _VERSION_5,
    _VERSION_6,
    _VERSION_7,
)
VERSION = len(MIGRATIONS)


def statements_for_new(migrations: Iterable[Iterable[str]]) -> list[str]:
    """Return statements that have the effect of all migrations on an empty file.

    Only for `CREATE`, `DROP INDEX` and `ADD COLUMN`. Each table is created with all its columns:
    SQLite reads the whole schema again for each added column, which would take longer than to
    create all tables.
    """
    made: dict[str, str] = {}
    for statement in (each for migration in migrations for each in migration):
        head, added, column = statement.partition(" ADD COLUMN ")
        kind, *words = head.partition("(")[0].split()
        if kind == "CREATE":
            name = next(word for word in words if word not in ("UNIQUE", "TABLE", "INDEX"))
            made[name] = statement
        elif kind == "DROP":
            del made[words[1]]
        elif added:
            columns, end, options = made[words[1]].rpartition(")")
            made[words[1]] = f"{columns}, {column}{end}{options}"
        else:  # nothing else occurs in the migrations
            raise ValueError(statement)
    return list(made.values())
