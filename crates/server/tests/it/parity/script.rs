//! What is asked, and what must be decided.

/// Requests about keys of their own, one after the other.
pub(super) struct Scene {
    pub(super) name: &'static str,
    pub(super) steps: &'static [ScriptStep],
}

/// One request in the domain `shop`.
pub(super) struct ScriptStep {
    pub(super) descriptors: &'static [&'static [(&'static str, &'static str)]],
    pub(super) cost: u64,
    /// The verdict, what remains of the limit that is told, `soft`, and where it matters `window` or `block`: how
    /// long a denial lasts. Nothing is told of what no limit is enforced for.
    pub(super) expected: &'static str,
}

/// The key of a limit that is charged by the answer where there is one.
const LATER: &str = "later";

impl ScriptStep {
    /// Whether an HTTP request of its cost is one whose answer costs that.
    pub(super) fn is_settled_later(&self) -> bool {
        self.descriptors.iter().copied().flatten().all(|(key, _)| *key == LATER)
    }
}

const fn step(
    descriptors: &'static [&'static [(&'static str, &'static str)]],
    cost: u64,
    expected: &'static str,
) -> ScriptStep {
    ScriptStep { descriptors, cost, expected }
}

/// What an operator has bent before the script begins: a descriptor of one entry, and its limit.
pub(super) const OVERRIDES: &[(&str, &str, &str)] = &[
    ("log", "raised", "3"),
    ("soft", "raised", "4"),
    ("trial", "raised", "2"),
    ("tokens", "stopped", "\"deny\""),
    ("trial", "stopped", "\"deny\""),
    ("listed", "10.66.0.2", "\"unlimited\""),
    ("listed", "10.1.9.9", "\"deny\""),
    ("fixed", "freed", "\"unlimited\""),
    ("punished", "freed", "\"unlimited\""),
    ("project", "freed", "\"unlimited\""),
];

pub(super) const SCENES: &[Scene] = &[
    Scene {
        name: "a window of the reference's",
        steps: &[
            step(&[&[("fixed", "a")]], 1, "allow 2"),
            step(&[&[("fixed", "a")]], 1, "allow 1"),
            step(&[&[("fixed", "b")]], 1, "allow 2"),
            step(&[&[("fixed", "a")]], 1, "allow 0"),
            step(&[&[("fixed", "a")]], 1, "deny 0"),
            step(&[&[("fixed", "b")]], 1, "allow 1"),
        ],
    },
    Scene {
        name: "costs, and what a refused one counts",
        steps: &[
            // The reference counts what it refuses; the others do not.
            step(&[&[("fixed", "cost")]], 2, "allow 1"),
            step(&[&[("fixed", "cost")]], 2, "deny 0"),
            step(&[&[("fixed", "cost")]], 1, "deny 0"),
            step(&[&[("tokens", "cost")]], 2, "allow 1"),
            step(&[&[("tokens", "cost")]], 2, "deny 1"),
            step(&[&[("tokens", "cost")]], 0, "allow 1"),
            step(&[&[("tokens", "cost")]], 1, "allow 0"),
            step(&[&[("tokens", "cost")]], 9, "deny 0"),
            step(&[&[("log", "cost")]], 3, "deny 2"),
            step(&[&[("log", "cost")]], 2, "allow 0"),
        ],
    },
    Scene {
        name: "every algorithm",
        steps: &[
            step(&[&[("log", "a")]], 1, "allow 1"),
            step(&[&[("log", "a")]], 1, "allow 0"),
            step(&[&[("log", "a")]], 1, "deny 0"),
            step(&[&[("counter", "a")]], 1, "allow 1"),
            step(&[&[("counter", "a")]], 1, "allow 0"),
            step(&[&[("counter", "a")]], 1, "deny 0"),
            step(&[&[("buckets", "a")]], 1, "allow 1"),
            step(&[&[("buckets", "a")]], 1, "allow 0"),
            step(&[&[("buckets", "a")]], 1, "deny 0"),
            step(&[&[("tokens", "a")]], 1, "allow 2"),
            step(&[&[("tokens", "a")]], 1, "allow 1"),
            step(&[&[("tokens", "a")]], 1, "allow 0"),
            step(&[&[("tokens", "a")]], 1, "deny 0"),
        ],
    },
    Scene {
        name: "lists of a rule",
        steps: &[
            step(&[&[("listed", "10.1.2.3")]], 1, "allow"),
            step(&[&[("listed", "10.1.2.3")]], 1, "allow"),
            step(&[&[("listed", "staff-7")]], 1, "allow"),
            step(&[&[("listed", "10.66.0.1")]], 1, "deny"),
            step(&[&[("listed", "evil")]], 1, "deny"),
            step(&[&[("listed", "bob")]], 1, "allow 0"),
            step(&[&[("listed", "bob")]], 1, "deny 0"),
            step(&[&[("trial_listed", "evil")]], 1, "allow"),
        ],
    },
    Scene {
        name: "lists of the domain, and what a denial by a list counts",
        steps: &[
            step(&[&[("log", "mallory-1")]], 1, "deny"),
            step(&[&[("fixed", "203.0.113.9")]], 1, "deny"),
            step(&[&[("tokens", "list")], &[("listed", "evil")]], 1, "deny"),
            step(&[&[("log", "mallory-1")], &[("tokens", "list")]], 1, "deny"),
            step(&[&[("log", "staff")], &[("tokens", "list")]], 1, "allow"),
            step(&[&[("tokens", "list")]], 1, "allow 2"),
        ],
    },
    Scene {
        name: "overrides",
        steps: &[
            step(&[&[("log", "raised")]], 1, "allow 2"),
            step(&[&[("log", "raised")]], 1, "allow 1"),
            step(&[&[("log", "raised")]], 1, "allow 0"),
            step(&[&[("log", "raised")]], 1, "deny 0"),
            step(&[&[("soft", "raised")]], 1, "allow 3"),
            step(&[&[("soft", "raised")]], 1, "allow 2"),
            step(&[&[("soft", "raised")]], 1, "allow 1"),
            step(&[&[("soft", "raised")]], 1, "allow 0"),
            step(&[&[("soft", "raised")]], 1, "allow 0 soft"),
            step(&[&[("soft", "raised")]], 1, "allow 0 soft"),
            step(&[&[("soft", "raised")]], 1, "deny 0"),
            step(&[&[("trial", "raised")]], 1, "allow"),
            step(&[&[("tokens", "stopped")]], 1, "deny"),
            step(&[&[("trial", "stopped")]], 1, "deny"),
            step(&[&[("listed", "10.66.0.2")]], 1, "deny"),
            step(&[&[("listed", "10.1.9.9")]], 1, "deny"),
            step(&[&[("fixed", "freed")]], 1, "allow"),
            step(&[&[("fixed", "freed")]], 1, "allow"),
            step(&[&[("fixed", "freed")]], 1, "allow"),
            step(&[&[("fixed", "freed")]], 1, "allow"),
            step(&[&[("punished", "freed")]], 1, "allow"),
        ],
    },
    Scene {
        name: "overrides beside limits, and what a denial by one counts",
        steps: &[
            step(&[&[("tokens", "stopped")], &[("log", "beside")]], 1, "deny"),
            step(&[&[("log", "beside")], &[("fixed", "freed")]], 1, "allow 1"),
            step(&[&[("project", "freed")], &[("team", "freed")]], 1, "allow 1"),
            step(&[&[("project", "freed")], &[("team", "freed")]], 1, "allow 0"),
            step(&[&[("project", "freed")], &[("team", "freed")]], 1, "allow 0"),
        ],
    },
    Scene {
        name: "a queue",
        steps: &[
            step(&[&[("queue", "a")]], 1, "allow 2"),
            step(&[&[("queue", "a")]], 1, "delay 1"),
            step(&[&[("queue", "a")]], 1, "delay 0"),
            step(&[&[("queue", "a")]], 1, "deny 0"),
        ],
    },
    Scene {
        name: "who is denied twice is blocked, whatever is left",
        steps: &[
            step(&[&[("punished", "a")]], 2, "allow 1"),
            step(&[&[("punished", "a")]], 2, "deny 1"),
            step(&[&[("punished", "a")]], 2, "deny 0"),
            step(&[&[("punished", "a")]], 1, "deny 0"),
            step(&[&[("punished", "b")]], 1, "allow 2"),
        ],
    },
    Scene {
        name: "who is denied twice is blocked for longer than the window, one request at a time",
        steps: &[
            step(&[&[("caught", "a")]], 1, "allow 0"),
            step(&[&[("caught", "a")]], 1, "deny 0 window"),
            step(&[&[("caught", "a")]], 1, "deny 0 block"),
            step(&[&[("caught", "a")]], 1, "deny 0 block"),
            step(&[&[("caught", "b")]], 1, "allow 0"),
            step(&[&[("caught", "b")]], 1, "deny 0 window"),
        ],
    },
    Scene {
        name: "two limits on one descriptor",
        steps: &[
            step(&[&[("both", "a")]], 1, "allow 1"),
            step(&[&[("both", "a")]], 1, "allow 0"),
            step(&[&[("both", "a")]], 1, "deny 0"),
        ],
    },
    Scene {
        name: "entries within entries, and wildcards",
        steps: &[
            step(&[&[("plan", "free"), ("member", "a")]], 1, "allow 0"),
            step(&[&[("plan", "free"), ("member", "a")]], 1, "deny 0"),
            step(&[&[("plan", "free"), ("member", "b")]], 1, "allow 0"),
            step(&[&[("plan", "gold"), ("member", "a")]], 1, "allow"),
            step(&[&[("path", "/login/a")]], 1, "allow 0"),
            step(&[&[("path", "/login/a")]], 1, "deny 0"),
            step(&[&[("path", "/about")]], 1, "allow"),
        ],
    },
    Scene {
        name: "several descriptors, all or nothing",
        steps: &[
            step(&[&[("log", "x")], &[("tokens", "x")]], 1, "allow 1"),
            step(&[&[("log", "x")], &[("tokens", "x")]], 1, "allow 0"),
            step(&[&[("log", "x")], &[("tokens", "x")]], 1, "deny 0"),
            // The denied one took no token.
            step(&[&[("tokens", "x")]], 1, "allow 0"),
            step(&[&[("log", "y")], &[("nobody", "y")], &[("free", "y")]], 1, "allow 1"),
        ],
    },
    Scene {
        name: "quotas: one that is left is enough",
        steps: &[
            step(&[&[("project", "a")], &[("team", "a")]], 1, "allow 0"),
            step(&[&[("project", "a")], &[("team", "a")]], 1, "allow 0"),
            step(&[&[("project", "a")], &[("team", "a")]], 1, "deny 0"),
        ],
    },
    Scene {
        name: "in shadow mode",
        steps: &[
            step(&[&[("trial", "a")]], 1, "allow"),
            step(&[&[("trial", "a")]], 1, "allow"),
            step(&[&[("trial_log", "a")]], 1, "allow"),
            step(&[&[("trial_log", "a")]], 1, "allow"),
            step(&[&[("trial_counter", "a")]], 1, "allow"),
            step(&[&[("trial_counter", "a")]], 1, "allow"),
            step(&[&[("trial_buckets", "a")]], 1, "allow"),
            step(&[&[("trial_buckets", "a")]], 1, "allow"),
            step(&[&[("trial_tokens", "a")]], 1, "allow"),
            step(&[&[("trial_tokens", "a")]], 1, "allow"),
            // It delays nobody either.
            step(&[&[("trial_queue", "a")]], 1, "allow"),
            step(&[&[("trial_queue", "a")]], 1, "allow"),
            step(&[&[("trial_queue", "a")]], 1, "allow"),
        ],
    },
    Scene {
        name: "in shadow mode, beside a limit that is enforced",
        steps: &[
            step(&[&[("trial_queue", "b")], &[("log", "b")]], 1, "allow 1"),
            step(&[&[("trial_queue", "b")], &[("log", "b")]], 1, "allow 0"),
            step(&[&[("trial_queue", "b")], &[("log", "b")]], 1, "deny 0"),
            step(&[&[("trial_tokens", "c")], &[("log", "c")]], 1, "allow 1"),
            step(&[&[("trial_tokens", "c")], &[("log", "c")]], 1, "allow 0"),
            step(&[&[("trial_tokens", "c")], &[("log", "c")]], 1, "deny 0"),
        ],
    },
    Scene {
        name: "soft",
        steps: &[
            step(&[&[("soft", "a")]], 1, "allow 1"),
            step(&[&[("soft", "a")]], 1, "allow 0"),
            step(&[&[("soft", "a")]], 1, "allow 0 soft"),
            step(&[&[("soft", "a")]], 1, "deny 0"),
        ],
    },
    Scene {
        name: "soft, with every algorithm that has a say in it",
        steps: &[
            step(&[&[("soft_tokens", "a")]], 1, "allow 1"),
            step(&[&[("soft_tokens", "a")]], 1, "allow 0"),
            step(&[&[("soft_tokens", "a")]], 1, "allow 0 soft"),
            step(&[&[("soft_tokens", "a")]], 1, "deny 0"),
        ],
    },
    Scene {
        name: "rejected ones count",
        steps: &[
            step(&[&[("rejected", "a")], &[("log", "r")]], 1, "allow 0"),
            step(&[&[("rejected", "a")], &[("log", "r")]], 1, "deny 0"),
            // The other limit was charged for the one that passed.
            step(&[&[("log", "r")]], 1, "allow 0"),
        ],
    },
    Scene {
        name: "postpaid: a charge is always recorded",
        steps: &[
            step(&[&[("postpaid", "a")]], 1, "allow 1"),
            step(&[&[("postpaid", "a")]], 1, "allow 0"),
            step(&[&[("postpaid", "a")]], 1, "allow 0"),
        ],
    },
    Scene {
        name: "postpaid: nothing passes while nothing is left",
        steps: &[
            step(&[&[("later", "a")]], 0, "allow 3"),
            step(&[&[("later", "a")]], 2, "allow 1"),
            step(&[&[("later", "a")]], 0, "allow 1"),
            step(&[&[("later", "a")]], 2, "allow 0"),
            step(&[&[("later", "a")]], 0, "deny 0"),
        ],
    },
    Scene {
        name: "always, and never",
        steps: &[
            step(&[&[("banned", "a")]], 1, "deny 0"),
            step(&[&[("free", "a")]], 1, "allow"),
            step(&[&[("nobody", "a")]], 1, "allow"),
        ],
    },
];
