#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Bytes that tokens send when each goes once to a node: counted copy by copy, without the product's formulas.

Draws mixtures (experts, choices, devices, devices of a node), routes tokens of every device and follows each copy:
over a network card to the device of the same index of every other node that holds one of its experts, from there over
links to the other devices of that node that do; inside its own node over links. Writes tests/data/token_bytes.csv:
copies a token over a card and over links, mean of all tokens.

  python3 tools/witness/token_bytes.py > tests/data/token_bytes.csv
"""

import random

CASES = 200
TOKENS = 24_000
RARE_TOKENS = 240_000  # where few copies travel


def draw_case(generator):
    per_node = generator.choice([2, 4, 8])
    nodes = generator.choice([1, 2, 3, 4, 8])
    devices = per_node * nodes
    experts = devices * generator.choice([1, 2, 4, 8])
    most = min(experts, 10)
    return experts, generator.randint(1, most), devices, per_node


def follow(chosen, home, per_node, held):
    """Copies over cards and over links of one token of device `home`."""
    cards = links = 0
    own_node, index = divmod(home, per_node)
    wanted = {}
    for expert in chosen:
        device = expert // held
        wanted.setdefault(device // per_node, set()).add(device % per_node)
    for node, holders in wanted.items():
        cards += node != own_node
        links += len(holders - {index})
    return cards, links


def main():
    generator = random.Random(2026)
    print("experts,top_k,devices,per_node,card_copies,link_copies")
    for _ in range(CASES):
        experts, top_k, devices, per_node = draw_case(generator)
        held = experts // devices
        pool = range(experts)
        cards = links = 0
        tokens = RARE_TOKENS if top_k <= 2 or experts <= 8 else TOKENS
        for token in range(tokens):
            sent = follow(generator.sample(pool, top_k), token % devices, per_node, held)
            cards += sent[0]
            links += sent[1]
        print(f"{experts},{top_k},{devices},{per_node},{cards / tokens:.6f},{links / tokens:.6f}")


if __name__ == "__main__":
    main()
