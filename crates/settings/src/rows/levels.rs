//! The settings of the levels around the rules.

use tollgate_http::ClientAddress;

use crate::row::SettingParser::{Value, Word};
use crate::row::{OptionalSetting, Setting, SettingSection, key};
use crate::values::{self, LimitedListener};

section! {
    LEVELS, "Levels",
    "Limits before and around the rules, in this process alone: [gateway](gateway.md#levels) explains them.";

    /// New connections that an address may open in a second; an IPv6 address is its /64. More are refused.
    LEVEL_CONNECTIONS_PER_SECOND: OptionalSetting<u32> =
        key("levels.connections.per_second").optional(Word(values::level_count));
    /// How many of them may come at once; as many as in a second unless set.
    LEVEL_CONNECTIONS_BURST: OptionalSetting<u32> =
        key("levels.connections.burst").optional(Word(values::level_count));
    /// Connections that an address may have open at a time.
    LEVEL_CONNECTIONS_OPEN: OptionalSetting<u32> =
        key("levels.connections.open").optional(Word(values::level_count));
    /// Where connections are counted, all together: some of `gateway`, `http`, `grpc`, `resp`.
    LEVEL_CONNECTIONS_LISTENERS: Setting<Vec<LimitedListener>> =
        key("levels.connections.listeners").default("gateway", Value(values::limited_listeners));
    /// Networks whose connections are not limited, such as a load balancer's; `trusted_proxies` of the
    /// mapping are not limited either.
    LEVEL_CONNECTIONS_EXEMPT: Setting<ClientAddress> =
        key("levels.connections.exempt").default("", Value(values::networks));
    /// Requests a second that the gateway takes, of all clients together.
    LEVEL_REQUESTS_PER_SECOND: OptionalSetting<u32> =
        key("levels.requests.per_second").optional(Word(values::level_count));
    /// How many of them may come at once; as many as in a second unless set.
    LEVEL_REQUESTS_BURST: OptionalSetting<u32> =
        key("levels.requests.burst").optional(Word(values::level_count));
}
