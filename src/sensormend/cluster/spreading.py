"""Many orders carried out: one after the other here, or spread over the workers of a cluster that come and go."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from queue import Empty, SimpleQueue
from time import monotonic, sleep
from typing import Any
from uuid import uuid4

from sensormend.cluster.connecting import ERRORS, Client, ask_workers, first_line, is_lost, workers_of
from sensormend.cluster.mending_part import Order, StoppedError, clean_part, fruitless
from sensormend.errors import SensormendError

__all__ = ["Ended", "Teller", "in_turn", "probe", "see", "spread"]

AHEAD = 2
"""Networks per thread that the scheduler has at a time: the one that is mended and the next. Thousands that wait would
make every one of its steps dearer, and a worker that joins later would find all of them given away."""

FRUITLESS = 4
"""So often a network may take its worker with it from the same state before it is left alone."""

NO_WORKERS = 60.0
"""Seconds without any worker until the run stops; a nanny needs a few to bring one back."""

GO_ON = "what is done is kept, the same call with --resume goes on"

PASSING = ("FutureCancelledError", "FuturesCancelledError", "CancelledError", "TimeoutError", "CommClosedError")
"""What distributed says when a result got lost on its way; the network is asked for again."""

Ended = Iterator[tuple[str, str | None]]
"""Networks as they end, each with one line why it could not be mended, or None."""

Teller = Callable[[int, float, int | None], None]
"""Told how many networks are done, how many readings, and how many workers there are."""


def in_turn(orders: Sequence[Order], tell: Teller) -> Ended:
    """Mend networks one after the other, here; give why not where one cannot be."""
    readings = 0
    for done, order in enumerate(orders):

        def told(share: float, done: int = done, before: int = readings, own: int = order.part.readings) -> None:
            tell(done, before + share * own, None)

        told(0.0)
        try:
            yield order.part.network, clean_part(order, told)
        except StoppedError as error:
            raise SensormendError(f"{error}; {GO_ON}") from None
        readings += order.part.readings
    tell(len(orders), readings, None)


def spread(client: Client, orders: Sequence[Order], tell: Teller) -> Ended:
    """Mend networks on the workers; give why not where one cannot be."""
    from distributed import KilledWorker

    # The longest first: at the end nobody waits for one that was begun last.
    waiting = deque(sorted(orders, key=lambda order: -order.part.readings))
    landed: SimpleQueue[Any] = SimpleQueue()
    flying: dict[Any, Order] = {}
    done = readings = 0
    killed: Counter[str] = Counter()
    crew = _Crew(client)
    try:
        while waiting or flying:
            workers = crew.threads()
            tell(done, readings, len(workers))
            while waiting and len(flying) < AHEAD * sum(workers.values()):
                order = waiting.popleft()
                future = client.submit(clean_part, order, key=f"clean-{order.part.folder}-{uuid4().hex}", pure=False)
                flying[future] = order
                future.add_done_callback(landed.put)
            try:
                future = landed.get(timeout=0.2)
            except Empty:
                continue
            order = flying.pop(future)
            try:
                # A worker that dies with a result is no matter: the network is done, as whoever asks again will see.
                failed = future.result(timeout=NO_WORKERS)
            except StoppedError as error:
                raise SensormendError(f"{error}; {GO_ON}") from None
            except KilledWorker:
                killed[order.part.network] += 1
                # Who dies before it has noted that it began leaves nothing else to count.
                died = fruitless(order) or killed[order.part.network]
                if died < FRUITLESS:
                    waiting.appendleft(order)
                    continue
                failed = f"its worker died {died} times in the same place; too little memory?"
            except Exception as error:
                crew.check()
                if type(error).__name__ not in PASSING:
                    raise SensormendError(f"network {order.part.network!r}: {first_line(error)}; {GO_ON}") from None
                waiting.appendleft(order)
                continue
            done += 1
            readings += order.part.readings
            yield order.part.network, failed
        tell(done, readings, len(crew.threads()))
    finally:
        with suppress(*ERRORS):
            if flying and not is_lost(client):
                client.cancel(list(flying))


class _Crew:
    """The workers that there are; asked for now and then, since they come and go."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._address = client.scheduler.address
        self._known: dict[str, int] = {}
        self._asked = self._seen = 0.0

    def threads(self) -> dict[str, int]:
        """Return the threads of each; refuse to wait for ever."""
        self.check()
        if monotonic() - self._asked > 1:
            self._known, self._asked = workers_of(self._client), monotonic()
            if self._known or not self._seen:
                self._seen = self._asked
            elif self._asked - self._seen > NO_WORKERS:
                raise SensormendError(f"the cluster at {self._address} has no workers any more; {GO_ON}")
        return self._known

    def check(self) -> None:
        """Stop where the scheduler has gone."""
        if is_lost(self._client):
            raise SensormendError(f"the scheduler at {self._address} is lost; {GO_ON}")


def probe(client: Client, folder: Path, what: str) -> None:
    """Refuse workers that do not see a folder, or that see another one; `what` is what people call it."""
    token = uuid4().hex
    asked = folder / f"probe-{token}"
    asked.write_text(token)
    try:
        answers = ask_workers(client, see, str(asked), token)
        blind = [worker for worker, answer in answers.items() if answer is None]
        deadline = monotonic() + 5
        for worker, answer in answers.items():
            # A file system of another machine shows a new file a little later.
            while answer is not None and not (folder / answer).exists() and monotonic() < deadline:
                sleep(0.1)
            if answer is not None and not (folder / answer).exists():
                blind.append(worker)
        if blind:
            raise SensormendError(
                f"{len(blind)} of {len(answers)} workers do not see {folder} (worker {blind[0]}): {what} has to lie "
                "on a file system that all of them share, at the same path"
            )
    finally:
        for file in folder.glob(f"probe-{token}*"):
            file.unlink(missing_ok=True)


def see(asked: str, token: str) -> str | None:
    """Answer a probe beside it, and return the answer's name; None where it is not seen."""
    file = Path(asked)
    answer = file.with_name(f"{file.name}-{uuid4().hex}")
    for _ in range(20):
        with suppress(OSError):
            if file.read_text() == token:
                answer.write_text(token)
                return answer.name
        sleep(0.1)
    return None
