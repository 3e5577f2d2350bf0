#!/usr/bin/env python3
"""Writes header blocks that Python's `hpack` encodes, and their fields, for hpack_vectors.rs.

    vectors.py >vectors.txt           needs the package hpack
    vectors.py DIRECTORY >FILE        converts the stories of a copy of hpack-test-case

A story begins with the line `story NAME`. Then come, for each block, `limit SIZE` if the limit of the table changes, the
block in hexadecimal, and a line for each field: name, tab, value.
"""

import json
import random
import sys
from pathlib import Path

NAMES = [":status", "content-type", "date", "server", "set-cookie", "x-request-id", "etag", "vary", "x-ünïcode", "x-empty"]


def value(name, chance):
    match name:
        case ":status":
            return chance.choice(["200", "204", "304", "404", "500", "418"])
        case "content-type":
            return chance.choice(["text/html", "application/json; charset=utf-8"])
        case "date":
            return f"Sat, 28 Nov 2026 04:{chance.randrange(3):02}:00 GMT"
        case "x-empty":
            return ""
        case "x-request-id":
            return f"{chance.getrandbits(128):032x}"
        case "set-cookie":
            return "".join(chr(chance.randrange(32, 127)) for _ in range(chance.randrange(120))).strip()
    return chance.choice(["a", "öß€", "W/\"1\"", "hoptax" * chance.randrange(1, 4)])


def generated():
    from hpack import Encoder, HeaderTuple, NeverIndexedHeaderTuple

    for story in range(12):
        chance = random.Random(story)
        encoder = Encoder()
        yield f"story {story}"
        for _ in range(15):
            if chance.random() < 0.15:
                size = chance.choice([0, 100, 300, 4096, 8192])
                encoder.header_table_size = size
                yield f"limit {size}"
            fields = []
            for _ in range(chance.randrange(8)):
                name = chance.choice(NAMES)
                kind = chance.choice([HeaderTuple, HeaderTuple, NeverIndexedHeaderTuple])
                fields.append(kind(name, value(name, chance)))
            yield encoder.encode(fields, huffman=chance.random() < 0.7).hex()
            yield from (f"{name}\t{content}" for name, content in fields)


def converted(directory):
    for file in sorted(Path(directory).rglob("story_*.json")):
        if "raw-data" in file.parts:
            continue
        yield f"story {file.parent.name}/{file.stem}"
        limit = 4096
        for case in json.loads(file.read_text())["cases"]:
            size = case.get("header_table_size")
            if size is not None and size != limit:
                limit = size
                yield f"limit {limit}"
            yield case["wire"].lower()
            yield from (f"{name}\t{content}" for field in case["headers"] for name, content in field.items())


for line in converted(sys.argv[1]) if sys.argv[1:] else generated():
    print(line)
