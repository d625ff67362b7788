"""The package has one module per command of the command line."""

from sensormend.cli.app import main

__all__ = ["main"]
