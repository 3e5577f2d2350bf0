#!/usr/bin/env python3
"""Streams of tokens: `hoptax load --llm` and Python's http.client, in turns, directly and through AI gateways.

Both read one stream after another, from the same upstream, and share its clock. Each figure is the median over all streams or
tokens of a turn: the time until the first token, and the age of the tokens, which is the time since each was due. hoptax
starts the gateways with the settings of their packs. This checks what a run says of a gateway, because a run's traffic is
that of `hoptax load`.
"""

import json
import sys
import tempfile
from pathlib import Path

from common import Disturbance, Failed, Record, client, options, spread, summary, table
from gateways import kept_up
from messages import load, spec
from runs import buckets, quantile

PEER = Path(__file__).resolve().parent.parent / "crates/hoptax/tests/all/stream_peers/peer.py"
# The model: time until the first token and between tokens, and tokens of a stream.
MODEL = {"first_token": "50ms", "gap": "10ms", "tokens": 20}
GATEWAYS = "nginx,haproxy,envoy,ferro,litellm,portkey,sglang-router,vllm-router"


def headers(gateway, upstream):
    """The headers that the pack of a gateway asks for (`llm.headers`)."""
    if gateway == "portkey":
        return {"x-portkey-provider": "openai", "x-portkey-custom-host": f"{upstream}v1"}
    return {"authorization": "Bearer hoptax"}


def by_hoptax(address, more, streams):
    gap = int(MODEL["gap"].removesuffix("ms")) * 1_000_000
    described = spec(address, 1, MODEL["tokens"], gap, 120, requests=streams, model="gpt-4o-mini", headers=list(more.items()))
    found = load(described)[0]["messages"]
    assert found["tokens"]["counts"]["ended"] == streams, found["tokens"]["counts"]
    first, age = (quantile(buckets(found["histograms"][name]), 0.5) for name in ("first_message", "age"))
    return {"tokens": found["counts"]["received"], "first": first, "age": age}


def by_socket(address, more, streams):
    return json.loads(client([sys.executable, PEER, "tokens", address, streams, json.dumps(more)]).text)


def main():
    parser = options(__doc__, rounds=5, seconds=5)
    parser.add_argument("--gateways", default=GATEWAYS, help="names of packs, separated by commas (default %(default)s)")
    arguments = parser.parse_args()
    record = Record("tokens-by-hand", "Streams of tokens: hoptax load and Python's http.client, one stream at a time", arguments)
    streams, rows = 4 * arguments.seconds, [["path", "first token, hoptax ms", "Python ms", "ratio", "age, hoptax ms", "Python ms"]]
    for gateway in [None, *arguments.gateways.split(",")]:
        disturbance, turns = Disturbance(), []
        with tempfile.TemporaryDirectory(prefix="hoptax-bench-") as below:
            try:
                with kept_up(gateway, Path(below) / "run", model=MODEL, headers=headers) as kept:
                    address = kept.url.removeprefix("http://").rstrip("/")
                    more = headers(gateway, kept.upstream) if gateway else {}
                    for reader in (by_hoptax, by_socket):
                        reader(address, more, 4)
                    for _ in range(arguments.rounds):
                        turns.append({reader.__name__: reader(address, more, streams)
                                      for reader in record.shuffled([by_hoptax, by_socket])})
            except Failed as failure:
                record.say(f"{gateway}: {failure}")
                continue
        of = lambda reader, name: spread([turn[reader][name] / 1e3 for turn in turns], 2)
        ratios = [turn["by_hoptax"]["first"] / turn["by_socket"]["first"] for turn in turns]
        rows.append([gateway or "direct", of("by_hoptax", "first"), of("by_socket", "first"), spread(ratios, 3),
                     of("by_hoptax", "age"), of("by_socket", "age")])
        record.add({"gateway": gateway or "direct", "turns": turns, "first_ratio": summary(ratios), **disturbance.shares(0)})
    record.say(f"{streams} streams in each turn, {arguments.rounds} turns each\n{table(rows)}")


if __name__ == "__main__":
    main()
