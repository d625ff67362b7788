"""The parts of one network on their workers: called together, and restored elsewhere when a worker dies."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import CancelledError
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

from sensormend.cluster.connecting import ERRORS, PATIENCE, Client, is_lost, workers_of
from sensormend.cluster.row_parts import Drawn, Given, LostPartError, Terms, Written, call, call_all, drop, hold, replay
from sensormend.errors import SensormendError

__all__ = ["Parts", "Period"]

POLL = 0.5
"""Seconds between two looks at whether the workers that we wait for are still there."""

ROUNDS = 5
"""So often parts may get lost in a row, while they are made again, until that is given up."""

Call = tuple[str, tuple[Any, ...]]


@dataclass(eq=False)
class Period:
    """One minibatch, chunk by chunk, and the calls that were made with it."""

    chunks: Sequence[Any]
    first: tuple[Any, ...]
    calls: list[Call] = field(default_factory=list)
    turn: str = field(default_factory=lambda: uuid4().hex)


class Parts:
    """The parts, each with one worker.

    All that a part is told is small and written down here, so that a part whose worker died is made again from its
    last checkpoint by telling it the same again: what it then has is the same to the last bit.
    """

    def __init__(self, client: Client, terms: Sequence[Terms], rows: Sequence[Drawn | Given | Written]) -> None:
        self._client, self._terms, self._origin = client, list(terms), list(rows)
        self._token = uuid4().hex
        self._since: list[Period] = []
        self._now: Period | None = None
        self.restorable = False
        """Whether there are checkpoints; without, a dead worker ends the run."""
        self.restored = 0
        """How many parts were made again so far."""
        self._homes = self._spread(range(len(self._terms)), {})
        self._gathered({number: self._hold(number) for number in range(len(self._terms))})

    def begin(self, chunks: Sequence[Any], *given: Any) -> list[Any]:
        """Give every part its chunk of a minibatch, something that the client can compute, or an array."""
        now = self._now = Period(chunks, given)
        return self._all(lambda number: self._begin(number, now))

    def call(self, name: str, *given: Any) -> list[Any]:
        """Call every part, and return what they say, in their order."""
        found = self.call_each(name, [given] * len(self._terms))
        if self._now is not None:
            self._now.calls.append((name, given))
        return found

    def futures(self, name: str, *given: Any) -> list[Any]:
        """Call every part, and leave what they return with them."""
        found = self._all(lambda number: self._on(number, call, self._turn, name, *given), fetch=False)
        if self._now is not None:
            self._now.calls.append((name, given))
        return found

    def call_each(self, name: str, given: Sequence[tuple[Any, ...]]) -> list[Any]:
        """Call every part with something of its own, for nothing that it would have to be told again."""
        found: dict[int, Any] = {}
        waiting = list(range(len(given)))
        for _ in range(ROUNDS):
            found |= self._answers(name, {number: given[number] for number in waiting})
            waiting = [number for number in waiting if number not in found]
            if not waiting:
                return [found[number] for number in range(len(given))]
            self._restore(waiting)
        raise self._hopeless(waiting)

    def learned(self) -> None:
        """Have the minibatch count; what was said in it is kept for a part that has to be made again."""
        if self._now is not None and self.restorable:
            self._since.append(self._now)
        self._now = None

    def forget(self) -> None:
        """Have the minibatch not count."""
        self._now = None

    def checkpointed(self, paths: Sequence[str]) -> None:
        """Every part has been written: what went before is not needed any more."""
        self._origin = [Written(path) for path in paths]
        self._since.clear()

    def home(self, number: int) -> str:
        """Return the worker that has a part."""
        return self._homes[number]

    def close(self) -> None:
        """Have the workers let go."""
        # A client that has given up its scheduler has none to ask; they let go when they end.
        with suppress(*ERRORS, AttributeError):
            if not is_lost(self._client):
                self._client.run(drop, self._token)

    @property
    def _turn(self) -> str | None:
        return None if self._now is None else self._now.turn

    def _answers(self, name: str, given: dict[int, tuple[Any, ...]]) -> dict[int, Any]:
        """Ask some parts at once; those that are lost do not answer."""
        try:
            told = self._client.sync(self._asked, self._turn, name, given)
        except ERRORS:
            told = {}
        found = {}
        for number in given:
            said = told.get(self._homes[number])
            answer = said.get(number, LostPartError()) if isinstance(said, dict) else LostPartError()
            if isinstance(answer, LostPartError):
                continue
            if isinstance(answer, BaseException):
                raise answer
            found[number] = answer
        self._check_restorable([number for number in given if number not in found])
        return found

    async def _asked(self, turn: str | None, name: str, given: dict[int, tuple[Any, ...]]) -> dict[str, Any]:
        """Ask every worker for its parts' answers; one that is gone is not waited for."""
        homes: dict[str, dict[int, tuple[Any, ...]]] = {}
        for number, what in given.items():
            homes.setdefault(self._homes[number], {})[number] = what
        asked = {
            home: asyncio.ensure_future(
                self._client.run(call_all, self._token, turn, name, parts, workers=[home], on_error="return")
            )
            for home, parts in homes.items()
        }
        waiting = set(asked.values())
        try:
            while waiting:
                _, waiting = await asyncio.wait(waiting, timeout=POLL)
                if waiting:
                    # A call to an address where nobody is would try for half a minute.
                    alive = await asyncio.wait_for(self._client.scheduler.ncores(), PATIENCE)
                    for home, future in asked.items():
                        if home not in alive and not future.done():
                            future.cancel()
        finally:
            # Where the scheduler is gone nobody asks what they say, and errors that nobody hears would be printed.
            for future in asked.values():
                future.add_done_callback(lambda ended: ended.cancelled() or ended.exception())
        return {home: future.result().get(home) for home, future in asked.items()
                if not future.cancelled() and future.exception() is None}  # fmt: skip

    def _all(self, submit: Any, *, fetch: bool = True) -> list[Any]:
        found: dict[int, Any] = {}
        waiting = list(range(len(self._terms)))
        for _ in range(ROUNDS):
            found |= self._gathered({number: submit(number) for number in waiting}, fetch=fetch)
            waiting = [number for number in waiting if number not in found]
            if not waiting:
                return [found[number] for number in sorted(found)]
            self._restore(waiting)
        raise self._hopeless(waiting)

    def _gathered(self, futures: dict[int, Any], *, fetch: bool = True) -> dict[int, Any]:
        """Wait for the parts' answers; those of parts that are lost are not in it."""
        import distributed

        wait: Any = distributed.wait  # which has no types
        waiting = {number: future for number, future in futures.items() if future is not None}
        found: dict[int, Any] = {}
        failed: list[BaseException] = []
        while waiting:
            # One that was cancelled, since what it needs was lost with a worker, is seen by its status.
            with suppress(*ERRORS, CancelledError), self._client.as_current():
                wait(list(waiting.values()), timeout=POLL)
            self._check_scheduler()
            done = {number: future for number, future in waiting.items() if future.done()}
            good = {number: future for number, future in done.items() if future.status == "finished"}
            try:
                answers = self._client.gather(list(good.values())) if fetch else list(good.values())
                found |= dict(zip(good, answers, strict=True))
            except (*ERRORS, KeyError, CancelledError):
                good, done = {}, {number: future for number, future in done.items() if future.status != "finished"}
            for number, future in done.items():
                if number not in good and not self._died(future):
                    failed.append(future.exception())
            waiting = {number: future for number, future in waiting.items() if number not in done}
            if waiting:
                alive = workers_of(self._client)
                gone = [number for number in waiting if self._homes[number] not in alive]
                self._client.cancel([waiting.pop(number) for number in gone])
        if failed:
            # Not before all others have ended: they would still be at work when the next minibatch begins.
            raise failed[0]
        self._check_restorable([number for number in futures if number not in found])
        return found

    def _check_scheduler(self, *, ask: bool = False) -> None:
        gone = is_lost(self._client)
        if ask and not gone:
            try:
                self._client.sync(self._client.scheduler.identity, callback_timeout=PATIENCE)
            except ERRORS:
                gone = True
        if gone:
            raise SensormendError("the scheduler of the cluster is gone; start it again and load the last checkpoint")

    def _check_restorable(self, lost: Sequence[int]) -> None:
        if lost:
            self._check_scheduler(ask=True)
        if lost and not self.restorable:
            raise SensormendError(
                f"the worker {self._homes[lost[0]]} is gone and with it part {lost[0]} of the network; "
                "with checkpoint=FOLDER the work goes on elsewhere"
            )

    @staticmethod
    def _died(future: Any) -> bool:
        if future.status in ("cancelled", "lost"):
            return True
        from distributed.scheduler import KilledWorker

        return isinstance(future.exception(), LostPartError | KilledWorker)

    def _restore(self, lost: Sequence[int]) -> None:
        """Make parts again on workers that are there, and bring them to where the others are."""
        for _ in range(ROUNDS):
            if not lost:
                return
            self._homes |= self._spread(lost, self._homes)
            self.restored += len(lost)
            made = self._gathered({number: self._hold(number) for number in lost})
            for period in [*self._since, *([] if self._now is None else [self._now])]:
                made = self._gathered({number: self._begin(number, period) for number in made})
                made = self._gathered({number: self._on(number, replay, period.turn, period.calls) for number in made})
            lost = [number for number in lost if number not in made]
        if lost:
            raise self._hopeless(lost)

    @staticmethod
    def _hopeless(lost: Sequence[int]) -> SensormendError:
        return SensormendError(
            f"part {lost[0]} of the network got lost {ROUNDS} times in a row: its readings were lost with a worker and "
            "cannot be computed again, or are too large for one"
        )

    def _spread(self, numbers: Sequence[int], homes: dict[int, str]) -> dict[int, str]:
        """Give each of these parts to the worker that has the fewest."""
        alive = workers_of(self._client)
        if not alive:
            raise SensormendError("no worker of the cluster is left; start some and load the last checkpoint")
        load = Counter(home for number, home in homes.items() if number not in set(numbers))
        chosen = {}
        for number in numbers:
            chosen[number] = min(alive, key=lambda worker: (load[worker] / alive[worker], worker))
            load[chosen[number]] += 1
        return chosen

    def _hold(self, number: int) -> Any:
        rows: Any = self._origin[number]
        if isinstance(rows, Given):
            rows = self._sent(number, rows)
        return None if rows is None else self._on(number, hold, self._terms[number], rows)

    def _begin(self, number: int, period: Period) -> Any:
        chunk = period.chunks[number]
        if hasattr(chunk, "dask"):
            chunk = self._client.compute(chunk, workers=[self._homes[number]], allow_other_workers=True)
        else:
            chunk = self._sent(number, chunk)
        return None if chunk is None else self._on(number, call, period.turn, "begin", chunk, *period.first)

    def _sent(self, number: int, data: Any) -> Any:
        """Send data to the worker of a part; None where it is gone."""
        if self._homes[number] not in workers_of(self._client):
            return None
        try:
            return self._client.scatter(data, workers=[self._homes[number]], hash=False)
        except ERRORS:
            return None

    def _on(self, number: int, function: Any, *given: Any) -> Any:
        return self._client.submit(
            function, self._token, number, *given, workers=[self._homes[number]], pure=False, retries=0
        )
