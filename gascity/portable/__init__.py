"""The portable adapter for every Unix: processes, exits, locks, file changes and polling.

`gascity.host` decides whether this package or the Linux code is used. Only this package imports
psutil and filelock.
"""
