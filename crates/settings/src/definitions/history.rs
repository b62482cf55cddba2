//! The settings of history.

use super::Section;
use super::list::row;

pub(super) const HISTORY: Section = Section {
    title: "History",
    note: "What is counted, and for how long, is in [history](history.md). It is kept in the Redis of the counters where `--store` names one, and else in a folder. If that cannot be used, limiting goes on without history, and the log says so.",
    settings: &[
        row(
            ["--data", "TOLLGATE_DATA", "data"],
            "./tollgate-data",
            "The folder that history is kept in, unless the store is Redis; it is made if it is not there. If it is set, counters in memory are saved there, too, and survive a restart.",
        ),
        row(["", "TOLLGATE_HISTORY", "history.enabled"], "true", "Keep a history."),
        row(
            ["", "TOLLGATE_HISTORY_KEYS", "history.keys"],
            "clear",
            "How the names of keys are kept: `clear`, `hashed`, or `off` for not at all.",
        ),
        row(
            ["", "TOLLGATE_HISTORY_SALT", ""],
            "",
            "What hashed names are mixed with, so that they cannot be guessed; the same on all nodes.",
        ),
        row(
            ["", "TOLLGATE_HISTORY_ROUTE_KEYS", "history.route_keys"],
            "path,route,url",
            "The route of a request is the value of its first entry with one of these keys.",
        ),
        row(
            ["", "", "history.templates"],
            "",
            "Templates of routes, such as `/users/{id}`; what matches none counts under its own path.",
        ),
        row(["", "", "history.max_routes"], "10000", "The most routes with a series of their own."),
        row(["", "", "history.max_keys_per_rule"], "1000", "The most keys of one rule with a series."),
        row(["", "", "history.max_names"], "20000", "The most names of any kind that this process tracks."),
        row(
            ["", "", "history.max_series"],
            "50000",
            "The most series that are kept; at full retention each takes about 6 KB.",
        ),
    ],
};
