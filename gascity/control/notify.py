"""Notifications: `[notify]` of city.toml and of the user's config.toml.

The loop only reads new events from the store and puts them into a queue. One thread, which nothing
else uses, sends them: a program that hangs or a server that does not answer delays later
notifications and nothing else.

A notification is sent at once, and then none for `min_interval`; events that happen meanwhile are
sent together. A channel that fails is tried again a few times. The position in the events is saved
in the store, so a controller that was killed sends what it had not sent.
"""

import json
import os
import signal
import subprocess
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import NamedTuple

from gascity.model.city import City
from gascity.model.problems import CityError
from gascity.model.secrets import filled
from gascity.model.settings import NotifySettings
from gascity.model.values import JsonObject
from gascity.model.work import Event
from gascity.paths import which
from gascity.source.user_settings import read_user_settings
from gascity.store.port import Store, StoreError

_TYPES = {"failed": "work.failed", "done": "work.done", "waiting": "session.waiting"}
_NOTE = "notified"  # note with the number of the last event that was queued
_TOO_OLD = 600.0  # seconds; an event of this age is no news after a restart
_BATCH = 1000  # events read at once
_MOST = 20  # events in one notification
_TIMEOUT = 15.0  # seconds for one attempt
_DELAYS = (1.0, 5.0, 25.0)  # seconds before each further attempt
_LAST_MOMENT = 3.0  # seconds that a notification may take when the controller exits

Log = Callable[[str], None]


class Notice(NamedTuple):
    """An event and a sentence about it."""

    event: Event
    text: str


class NotifyConfig(NamedTuple):
    """Channels of notifications, with references resolved."""

    types: tuple[str, ...] = ()
    command: tuple[str, ...] = ()
    desktop: bool = False
    webhook: str = ""
    min_interval: float = 0.0

    @property
    def active(self) -> bool:
        return bool(self.types and (self.command or self.desktop or self.webhook))


class Notifier:
    """Queues events for the thread that sends them. All methods are called by the loop."""

    def __init__(self, root: str, environ: Mapping[str, str], store: Store, log: Log) -> None:
        self._root = root
        self._environ = environ
        self._store = store
        self._log = log
        self._config: NotifyConfig | None = None
        self._sender: NoticeSender | None = None
        self._seen: int | None = None  # number of the last event that was read; None: of the note
        self._unsaved = False

    def configure(self, city: City) -> None:
        """Use the settings of a city that was loaded, and read those of the user again."""
        before, self._config = self._config, self._resolve(city)
        if self._config.active and self._sender is None:
            self._sender = NoticeSender(self._root, self._environ, self._log)
        if before is not None and self._config.active and not before.active:
            self._seen = self._store.last_event()  # nothing that happened before
        if self._sender is not None:
            self._sender.configure(self._config, city.name)

    def _resolve(self, city: City) -> NotifyConfig:
        try:
            own = read_user_settings(self._environ).notify
        except CityError as error:
            self._log(f"ignoring the user's config.toml: {error.problems[0].message}")
            own = ()
        settings = NotifySettings((*own, *city.layers.notify))
        webhook, unset = filled(settings.webhook or "", self._environ.get)
        if unset:
            self._log(f"no notifications by webhook: {', '.join(unset)} is not set")
            webhook = ""
        return NotifyConfig(
            tuple(_TYPES[word] for word in settings.on),
            settings.command,
            settings.desktop,
            webhook,
            settings.min_interval,
        )

    def committed(self, now: float) -> None:
        """Queue the new events; called after every transaction."""
        if self._config is None or not self._config.active or self._sender is None:
            return
        try:
            last = self._store.last_event()
            if self._seen is None:
                noted = self._store.get_note(_NOTE)
                self._seen = int(noted) if noted else 0
            if last == self._seen:
                return
            events = self._store.events(
                self._seen, _BATCH, types=self._config.types, since=now - _TOO_OLD
            )
            notices = [Notice(event, self._text(event)) for event in events]
        except StoreError:
            return  # the next round tries again
        self._seen = events[-1].seq if len(events) == _BATCH else last
        if notices:
            self._unsaved = True
            self._sender.put(notices)

    def save(self) -> None:
        """Save the position, inside a transaction."""
        if self._unsaved:
            self._unsaved = False
            self._store.set_note(_NOTE, str(self._seen))

    def close(self) -> None:
        """Send what is queued, if that takes no time."""
        if self._sender is not None:
            self._sender.close()

    def _text(self, event: Event) -> str:
        reason = str(event.data.get("reason") or "")
        if event.type == "session.waiting":
            return f"{event.data.get('alias') or event.subject}: {reason}"
        work = self._store.work(event.subject)
        title = f": {work.title}" if work is not None else ""
        failed = event.type == "work.failed"
        end = f" ({reason})" if failed and reason else ""
        return f"{event.subject} {'failed' if failed else 'done'}{title}{end}"


class NoticeSender:
    """Sends notices from a thread of its own. `delays` are those between attempts."""

    def __init__(
        self,
        root: str,
        environ: Mapping[str, str],
        log: Log,
        delays: Sequence[float] = _DELAYS,
    ) -> None:
        self._root = root
        self._environ = environ
        self._log = log
        self._delays = delays
        self._config = NotifyConfig()
        self._city = ""
        self._queue: deque[Notice] = deque(maxlen=_BATCH)
        self._changed = threading.Condition()
        self._closing = False  # send the rest and stop
        self._over = False  # send nothing more
        self._next_at = 0.0
        self._child: subprocess.Popen[bytes] | None = None
        # A daemon: a server that does not answer must not keep the controller from exiting.
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def configure(self, config: NotifyConfig, city: str) -> None:
        with self._changed:
            self._config, self._city = config, city

    def put(self, notices: Sequence[Notice]) -> None:
        with self._changed:
            self._queue.extend(notices)
            self._changed.notify()

    def close(self) -> None:
        """Send the rest at once and without further attempts, then stop."""
        with self._changed:
            self._closing = True
            self._changed.notify()
        self._thread.join(_LAST_MOMENT)
        self._over = True
        self._kill_child()

    def _run(self) -> None:
        while (notices := self._next_batch()) is not None:
            try:
                self._send_all(notices)
            except Exception as error:  # a bug here must not end the thread
                self._log(f"internal error (this is a bug in city) in a notification: {error!r}")

    def _next_batch(self) -> list[Notice] | None:
        """Wait until notices may be sent; None at the end."""
        with self._changed:
            while not self._closing:
                wait = self._next_at - time.monotonic() if self._queue else None
                if wait is not None and wait <= 0:
                    break
                self._changed.wait(wait)
            if not self._queue or self._over:
                return None
            self._next_at = time.monotonic() + self._config.min_interval
            notices = list(self._queue)
            self._queue.clear()
            return notices

    def _send_all(self, notices: Sequence[Notice]) -> None:
        config = self._config
        text = notices[0].text
        text += f" (and {len(notices) - 1} more)" if len(notices) > 1 else ""
        body = json.dumps(self._payload(notices, text), ensure_ascii=False).encode() + b"\n"
        if config.command:
            self._try("command", lambda: self._execute(config.command, body))
        if config.desktop:
            self._try("desktop", lambda: self._execute(self._desktop_command(text)))
        if config.webhook:
            self._try("webhook", lambda: post(config.webhook, body))

    def _payload(self, notices: Sequence[Notice], text: str) -> JsonObject:
        first, *rest = (_event_row(notice.event) for notice in notices)
        where: JsonObject = {"city": self._city, "root": self._root, "text": text}
        return {"schema": 1, **first, **where, "also": rest[:_MOST], "more": len(rest)}

    def _try(self, channel: str, send: Callable[[], None]) -> None:
        """Send by one channel; after a failure again, with growing delays."""
        for delay in (*self._delays, None):
            try:
                send()
                return
            except NotifyError as error:
                if delay is None or self._closing:
                    self._log(f"notification by {channel} failed: {error}")
                    return
            with self._changed:
                self._changed.wait_for(lambda: self._closing, delay)

    def _desktop_command(self, text: str) -> Sequence[str]:
        title = f"city {self._city}"
        if program := which("notify-send", self._environ):
            plain = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
            return (program, "--app-name=city", "--", title, plain)
        if program := which("osascript", self._environ):
            show = "display notification (item 2 of argv) with title (item 1 of argv)"
            return (program, "-e", f"on run argv\n{show}\nend run", title, text)
        raise NotifyError("neither notify-send nor osascript is installed")

    def _execute(self, command: Sequence[str], stdin: bytes = b"") -> None:
        """Run a program in a process group of its own; NotifyError if it fails."""
        try:
            process = subprocess.Popen(
                command,
                cwd=self._root,
                env=self._environ,
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                start_new_session=True,
            )
        except OSError as error:
            raise NotifyError(f"`{command[0]}`: {error.strerror}") from error
        self._child = process
        if self._over:
            self._kill_child()
        try:
            _, errors = process.communicate(stdin, _TIMEOUT)
        except subprocess.TimeoutExpired:
            self._kill_child()
            raise NotifyError(f"`{command[0]}` takes more than {_TIMEOUT:.0f} seconds") from None
        finally:
            self._child = None
        if process.returncode:
            last = errors.decode(errors="replace").strip().rpartition("\n")[2]
            why = f": {last}" if last else ""
            raise NotifyError(f"`{command[0]}` exited with {process.returncode}{why}")

    def _kill_child(self) -> None:
        if (process := self._child) is not None:
            with suppress(OSError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


class NotifyError(Exception):
    """A notification was not delivered."""


def post(url: str, body: bytes) -> None:
    """POST JSON; NotifyError if it was not accepted. Names only the host: the rest is a secret."""
    import http.client
    import urllib.error
    import urllib.parse
    import urllib.request

    class NoRedirect(urllib.request.HTTPRedirectHandler):
        """A redirected POST would become a GET, or go to another host."""

        def redirect_request(self, *_: object) -> None:
            return None

    host = "the webhook"
    try:
        parsed = urllib.parse.urlsplit(url)
        host = parsed.hostname or host
        if parsed.scheme not in ("http", "https"):
            raise NotifyError("a webhook starts with https:// or http://")
        headers = {"Content-Type": "application/json", "User-Agent": "city"}
        request = urllib.request.Request(url, body, headers, method="POST")
        urllib.request.build_opener(NoRedirect).open(request, timeout=_TIMEOUT).close()
    except urllib.error.HTTPError as error:
        error.close()
        raise NotifyError(f"{host} answered {error.code}") from None
    except urllib.error.URLError as error:
        raise NotifyError(f"{host}: {error.reason}") from None
    except (OSError, ValueError, http.client.HTTPException) as error:
        raise NotifyError(f"{host}: {type(error).__name__}") from None


def _event_row(event: Event) -> JsonObject:
    """Return an event as `city events --json` prints it."""
    at = datetime.fromtimestamp(event.at, UTC).isoformat(timespec="milliseconds")
    return {**event._asdict(), "at": at.replace("+00:00", "Z")}
