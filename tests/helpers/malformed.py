"""`malformed_message` draws messages that no decoder accepts."""

from __future__ import annotations

import json
import random

__all__ = ["malformed_message"]


def malformed_message(chance: random.Random) -> bytes:
    """Return a message that no decoder accepts."""
    good = json.dumps({"sensor": "x", "time": 1577836800, "value": 1.5}).encode()
    senml = b'[{"bn":"urn:dev:1:","n":"t","u":"Cel","v":23.1}]'
    kind = chance.randrange(10)
    if kind == 0:
        return bytes([0x80 | chance.randrange(64)]) + chance.randbytes(chance.randrange(200))
    if kind == 1:
        return good[: chance.randrange(1, len(good))]
    if kind == 2:
        return senml[: chance.randrange(1, len(senml))]
    if kind == 3:
        return b"[" * chance.randrange(2000, 60_000)
    if kind == 4:
        return b'{"a":' * chance.randrange(5, 3000) + b"1" + b"}" * 3000
    if kind == 5:
        return chance.choice(
            [b"", b"on", b"21,5", b"1_0", b"true", b"0x1F", b"12:00", b"--1", b'"x"', b"{}", b"[]", b"[[1]]"]
        )
    if kind == 6:
        return good.replace(
            b"1577836800", chance.choice([b'"soon"', b"1e300", b"true", b"[]", b'"2020-99-99"', b"9" * 30])
        )
    if kind == 7:
        return good.replace(
            b"1.5", chance.choice([b'"1.5x"', b"true", b"[1]", b'{"a": {"b": {"c": {"d": 1}}}}', b"9" * 5000])
        )
    if kind == 8:
        return senml.replace(b"23.1", chance.choice([b"null1", b'"a"', b"true", b"[]"]))
    return json.dumps({"sensor": "\0" + "x" * chance.randrange(300), "value": 1}).encode()
