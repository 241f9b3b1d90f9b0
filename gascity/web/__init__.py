"""The page of `city web`: a small server that shows one city, and runs commands for its user.

Imported only by that command: starlette and uvicorn are the extra `gascity[web]`. Live data
comes from the store. Everything that depends on the city's files comes from the command that prints
it, run as a process of its own (`commands.py`): the server never loads the city, so it stays small,
and an action makes the same checks and the same events as the command, because it is the command.
"""
