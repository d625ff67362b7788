"""Names as they come in messages, and the numbers that stand for them."""

from __future__ import annotations

import unicodedata

from sensormend.stream.formats.refused import BAD_NAME, Refused

__all__ = ["Names"]

LONGEST = 200


class Names:
    """Names in the order in which they were first seen.

    Parameters
    ----------
    nameless
        What is said of something that is no name.
    empty
        An empty name is one too.
    """

    def __init__(self, nameless: str, *, empty: bool = False) -> None:
        self.codes: dict[str, int] = {}
        self._nameless, self._empty = nameless, empty
        self._listed: tuple[str, ...] = ()

    @property
    def listed(self) -> tuple[str, ...]:
        """All of them; the same object while there is no new one."""
        if len(self._listed) != len(self.codes):
            self._listed = tuple(self.codes)
        return self._listed

    def code(self, told: object) -> int:
        """Return the number of a name, a new one for a new name."""
        name = self.checked(told)
        code = self.codes.get(name)
        if code is None:
            if not name and not self._empty:
                raise Refused(self._nameless)
            code = self.codes[name] = len(self.codes)
        return code

    def checked(self, told: object, otherwise: object = None) -> str:
        """Return a name as it is written down, `otherwise` for None; refuse what cannot be one."""
        told = otherwise if told is None else told
        if type(told) is str:
            if told in self.codes:
                return told
            name = told.strip()
        elif type(told) is int and abs(told) < 1 << 63:
            name = str(told)
        elif type(told) is float and abs(told) < 1e15:
            name = str(int(told)) if told == int(told) else str(told)
        else:
            raise Refused(self._nameless)
        if len(name) > LONGEST or not (name.isprintable() or _printable(name)):
            raise Refused(BAD_NAME)
        return name


def _printable(name: str) -> bool:
    """Say whether a name has neither control characters nor half characters, which no file can hold."""
    return not any(unicodedata.category(letter) in ("Cc", "Cs", "Zl", "Zp") for letter in name)
