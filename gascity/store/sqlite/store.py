"""The store in an SQLite file, `.gc/city.db`, shared by all processes that work on a city."""

import os
from typing import TYPE_CHECKING

from gascity.store.sqlite.connection import Connection
from gascity.store.sqlite.events import EventLog
from gascity.store.sqlite.mail import Mailbox
from gascity.store.sqlite.queue import WorkQueue
from gascity.store.sqlite.retention import Retention
from gascity.store.sqlite.sessions import SessionTable

if TYPE_CHECKING:
    from gascity.store.port import Store, Wakeups


class SqliteStore:
    """`Store` on one connection. Each method is that of the part that owns its tables."""

    def __init__(self, root: str, *, relaxed: bool = False) -> None:
        self.connection = connection = Connection(root, relaxed=relaxed)
        self.close = connection.close
        self.transaction = connection.transaction
        self.changed = connection.changed
        self.deleted = connection.deleted
        self.integrity_errors = connection.integrity_errors
        self.prune = Retention(connection).prune

        events = EventLog(connection)
        self.record_event = events.record_event
        self.events = events.events
        self.last_event = events.last_event
        self.record_decisions = events.record_decisions
        self.decisions = events.decisions
        self.set_note = events.set_note
        self.get_note = events.get_note

        queue = WorkQueue(connection, events)
        self.add_work = queue.add_work
        self.work = queue.work
        self.list_work = queue.list_work
        self.claimable = queue.claimable
        self.reserved = queue.reserved
        self.reservations = queue.reservations
        self.position = queue.position
        self.unfinished_dependencies = queue.unfinished_dependencies
        self.dependent_agents = queue.dependent_agents
        self.child_count = queue.child_count
        self.next_due = queue.next_due
        self.work_counts = queue.work_counts
        self.open_agents = queue.open_agents
        self.update_work = queue.update_work
        self.claim = queue.claim
        self.finish = queue.finish
        self.reopen = queue.reopen

        sessions = SessionTable(connection, events)
        self.add_session = sessions.add_session
        self.session = sessions.session
        self.sessions = sessions.sessions
        self.find_sessions = sessions.find_sessions
        self.update_session = sessions.update_session
        self.delete_session = sessions.delete_session
        self.add_run = sessions.add_run
        self.run = sessions.run
        self.runs = sessions.runs
        self.update_run = sessions.update_run
        self.total_cost = sessions.total_cost

        mailbox = Mailbox(connection, events)
        self.send_mail = mailbox.send_mail
        self.mail = mailbox.mail
        self.inbox = mailbox.inbox
        self.mark_mail = mailbox.mark_mail
        self.unread_counts = mailbox.unread_counts
        self.add_nudge = mailbox.add_nudge
        self.nudges = mailbox.nudges
        self.mark_nudges = mailbox.mark_nudges

    def subscribe(self) -> "Wakeups":
        return WriteWatch(os.path.dirname(self.connection.path))


class WriteWatch:
    """`Wakeups` by inotify: in WAL mode, every commit writes to a file beside the database.

    The kernel reports a write before SQLite has committed it, and also writes that are rolled back.
    """

    def __init__(self, directory: str) -> None:
        from gascity.watch import WRITES, Watch  # here, because most commands never wait

        self._watch = Watch()
        self._watch.add(directory, WRITES)
        self.fd = self._watch.fd

    def drain(self) -> None:
        self._watch.read()

    def close(self) -> None:
        self._watch.close()
        self.fd = -1


if TYPE_CHECKING:

    def _implements_the_port(store: SqliteStore) -> Store:
        return store
