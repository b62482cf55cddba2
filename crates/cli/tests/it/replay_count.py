"""Counts by brute force what each algorithm denies on a log: by address, 10 a minute, requests spread over their second.

Reads the log from standard input and prints `algorithm denied delayed` lines; with `suggest`, the peaks of all keys and what
each limit of a sliding log denies; with `explain`, the story of the key that it denies most. Shares no code with Tollgate.
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


def sliding_log(state, now, limit=LIMIT):
    state["taken"] = [then for then in state.get("taken", []) if then > now - WINDOW]
    if len(state["taken"]) >= limit:
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


def by_algorithm(everything):
    print("requests", len(everything), 0)
    for decide in (fixed_window, sliding_log, sliding_counter, sliding_buckets, token_bucket, leaky_bucket):
        states, verdicts, denied = defaultdict(dict), defaultdict(int), set()
        for now, caller in everything:
            verdict = decide(states[caller], now)
            verdicts[verdict] += 1
            if verdict == "deny":
                denied.add(caller)
        print(decide.__name__, verdicts["deny"], verdicts["delay"], len(denied))


def suggest(everything):
    tick = WINDOW // 60
    peaks, taken = defaultdict(int), defaultdict(list)
    for now, caller in everything:
        live = [index for index in taken[caller] if index * tick + tick - 1 + WINDOW > now]
        taken[caller] = live + [now // tick]
        peaks[caller] = max(peaks[caller], len(taken[caller]))
    ranks = sorted(peaks.values())
    print(*(ranks[-(-len(ranks) * percent // 100) - 1] for percent in (50, 90, 99, 100)))
    for limit in (1, 2, 3, 5, 7, 10, 15, 20, 30, 50, 70, 100, 150, 200, 300, 500):
        states = defaultdict(dict)
        denied = [caller for now, caller in everything if sliding_log(states[caller], now, limit)]
        print(limit, len(set(denied)), len(denied))
        if not denied:
            break


def explain(everything):
    states, denials, times = defaultdict(dict), defaultdict(list), defaultdict(list)
    for now, caller in everything:
        times[caller].append(now)
        if sliding_log(states[caller], now):
            denials[caller].append(now)
    worst = min(denials, key=lambda caller: (-len(denials[caller]), caller))
    denied = denials[worst]
    episodes = 1 + sum(later - earlier > WINDOW for earlier, later in zip(denied, denied[1:]))
    seconds = times[worst][0] // 1_000_000, times[worst][-1] // 1_000_000
    print(worst, len(times[worst]), len(denied), *seconds, episodes)


MODES = {"suggest": suggest, "explain": explain}
MODES.get(sys.argv[-1], by_algorithm)(list(requests()))
