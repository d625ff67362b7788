"""The command line: one file per command."""

from sensormend.cli.app import main

__all__ = ["main"]
