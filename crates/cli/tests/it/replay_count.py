"""Counts by brute force what each algorithm denies on a log: by address, 10 a minute, requests spread over their second.

Reads the log from standard input and prints `algorithm denied delayed` lines. Shares no code with Tollgate.
"""

import re
import sys
from collections import defaultdict
from datetime import datetime
from fractions import Fraction

LIMIT, WINDOW = 10, 60_000_000
LINE = re.compile(r'^(\S+) \S+ \S+ \[([^\]]+)\] "(.*)" (?:\d+|-) (?:\S+)\s*$')
REQUEST = re.compile(r"^[A-Za-z_-]+ +(?!HTTP/)\S")


def requests():
    seconds = defaultdict(list)
    for raw in sys.stdin.buffer:
        found = LINE.match(raw.decode("latin-1").rstrip("\n"))
        if found and REQUEST.match(found[3].strip()):
            second = int(datetime.strptime(found[2], "%d/%b/%Y:%H:%M:%S %z").timestamp())
            seconds[second].append(found[1])
    for second in sorted(seconds):
        callers = seconds[second]
        for place, caller in enumerate(callers):
            yield second * 1_000_000 + place * 1_000_000 // len(callers), caller


def fixed_window(state, now):
    window = now // WINDOW
    state[window] = state.get(window, 0)
    if state[window] >= LIMIT:
        return "deny"
    state[window] += 1


def sliding_log(state, now):
    state["taken"] = [then for then in state.get("taken", []) if then > now - WINDOW]
    if len(state["taken"]) >= LIMIT:
        return "deny"
    state["taken"].append(now)


def sliding_counter(state, now):
    window, into = divmod(now, WINDOW)
    before, current = state.get(window - 1, 0), state.get(window, 0)
    if current + before * (WINDOW - into) // WINDOW + 1 > LIMIT:
        return "deny"
    state[window] = current + 1


def sliding_buckets(state, now):
    tick = WINDOW // 60
    state["taken"] = [index for index in state.get("taken", []) if index * tick + tick - 1 + WINDOW > now]
    if len(state["taken"]) >= LIMIT:
        return "deny"
    state["taken"].append(now // tick)


def token_bucket(state, now):
    level, then = state.get("level", Fraction(LIMIT)), state.get("then", now)
    level = min(Fraction(LIMIT), level + Fraction((now - then) * LIMIT, WINDOW))
    state["then"], state["level"] = now, level
    if level < 1:
        return "deny"
    state["level"] -= 1


def leaky_bucket(state, now):
    pace = Fraction(WINDOW, LIMIT)
    free = max(state.get("free", Fraction(now)), Fraction(now))
    wait = free - now
    if wait > pace * LIMIT:
        return "deny"
    state["free"] = free + pace
    return "delay" if wait > 0 else None


everything = list(requests())
print("requests", len(everything), 0)
for decide in (fixed_window, sliding_log, sliding_counter, sliding_buckets, token_bucket, leaky_bucket):
    states, verdicts = defaultdict(dict), defaultdict(int)
    for now, caller in everything:
        verdicts[decide(states[caller], now)] += 1
    print(decide.__name__, verdicts["deny"], verdicts["delay"])
