"""Words in `[capabilities] allow` that let the sessions of an agent change the city."""

GRANTS = "city."  # every such word starts with it
ADMIN = "city.admin"
SESSIONS, WORK, MAIL = "city.sessions", "city.work", "city.mail"
FILES, PACKS, RIGS, CONTROL = "city.files", "city.packs", "city.rigs", "city.control"
WORDS = (SESSIONS, WORK, MAIL, FILES, PACKS, RIGS, CONTROL, ADMIN)
