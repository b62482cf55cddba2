//! `mapping` and `forward_auth` in `tollgate.yaml`: what is wrong, where, all at once.

use std::collections::HashMap;

use tollgate_settings::{ConfigFile, Flags, RequestFrom, Settings};

fn resolved(text: &str) -> Result<Settings, String> {
    let file = ConfigFile::parse("tollgate.yaml", text).map_err(|error| error.to_string())?;
    let resolved = Settings::resolve(&Flags::default(), &HashMap::new(), Some(&file));
    resolved.map(|(settings, _)| settings).map_err(|error| error.to_string())
}

fn refused(text: &str) -> String {
    resolved(text).expect_err("it is wrong")
}

#[test]
fn without_a_word_there_is_no_mapping() {
    let settings = resolved("").unwrap();
    assert!(settings.mapping.is_none());
    assert_eq!(settings.forward_auth.deny_status, 429);
    assert_eq!(settings.forward_auth.max_hold.as_secs(), 5);
    assert_eq!(settings.forward_auth.request_from, RequestFrom::Auto);
}

#[test]
fn proxies_on_this_machine_are_trusted_where_none_are_named() {
    let text = "mapping: { domain: edge, descriptors: [[method: {}]] }\n";
    let mapping = resolved(text).unwrap().mapping.unwrap().mapping;
    assert!(mapping.proxies().trusts([127, 0, 0, 1].into()));
    assert!(!mapping.proxies().trusts([10, 0, 0, 1].into()));
    let nobody = "mapping: { domain: edge, trusted_proxies: [], descriptors: [[method: {}]] }\n";
    let mapping = resolved(nobody).unwrap().mapping.unwrap().mapping;
    assert!(!mapping.proxies().trusts([127, 0, 0, 1].into()));
}

#[test]
fn all_mistakes_are_told_at_once_with_their_places() {
    let text = r#"mapping:
  trusted_proxies: [10.0.0.0/33, localhost]
  address_from: x-real-ip
  colour: red
  jwt: { keys: [{ pem_file: a, jwks_file: b }, { secret_file: c, algorithms: [none] }] }
  descriptors:
    - - remote_address: { v6_prefix_mask_len: 129 }
      - request_headers: { header_name: "x y" }
    - - path: { templates: [users, "/a/{b}", "/a/{c}"], max_length: 0 }
      - query: {}
      - teapot: {}
      - jwt_claim: { from: { header: a, cookie: b } }
      - method
    - []
    - actions: []
forward_auth: { deny_status: 500, max_hold: 1h, request_from: nginx }
"#;
    let error = refused(text);
    for line in [
        "tollgate.yaml:2:3: a mapping needs domain; write domain: NAME",
        "tollgate.yaml:2:21: '10.0.0.0/33' is not a network;",
        "tollgate.yaml:2:34: 'localhost' is not a network;",
        "tollgate.yaml:3:17: 'x-real-ip' names no address; write x-forwarded-for or forwarded",
        "tollgate.yaml:4:3: unknown key 'colour'; write domain, descriptors,",
        "tollgate.yaml:5:17: a key is in one file;",
        "tollgate.yaml:5:79: 'none' is no algorithm;",
        "tollgate.yaml:7:47: v6_prefix_mask_len of '129' is out of range;",
        "tollgate.yaml:8:41: 'x y' is not the name of a header;",
        "tollgate.yaml:9:29: 'users' cannot be a path template: it does not begin with a slash;",
        "tollgate.yaml:9:46: '/a/{c}' cannot be a path template: it matches the same paths as /a/{b};",
        "tollgate.yaml:9:69: max_length of '0' is out of range; write max_length: N, with N from 1 to 256",
        "tollgate.yaml:10:16: query needs name; write name: NAME",
        "tollgate.yaml:11:9: unknown action 'teapot'; write remote_address, request_headers,",
        "tollgate.yaml:12:20: jwt_claim needs claim;",
        "tollgate.yaml:13:9: an action must be a map with its name, this is the text 'method';",
        "tollgate.yaml:14:7: a descriptor needs actions;",
        "tollgate.yaml:15:7: a descriptor needs actions;",
        "tollgate.yaml:16:30: '500' is no status for a denial; write 429, or 403 for nginx",
        "tollgate.yaml:16:45: '1h' is too long to hold a request; write 20s or less",
        "tollgate.yaml:16:63: 'nginx' is unknown; write auto, x-forwarded, x-original or itself",
    ] {
        assert!(error.contains(line), "not told: {line}\ntold:\n{error}");
    }
    assert_eq!(error.lines().count(), 21, "{error}");
}

#[test]
fn a_mapping_of_another_shape_says_what_it_must_be() {
    for (text, words) in [
        ("mapping: edge\n", "1:10: a mapping must be a map, this is the text 'edge';"),
        ("mapping: { domain: edge }\n", "1:10: a mapping needs descriptors;"),
        ("mapping: { domain: edge, descriptors: [] }\n", "1:39: descriptors is empty;"),
        ("mapping: { domain: edge, descriptors: x }\n", "1:39: descriptors must be a list,"),
        (
            "mapping: { domain: [edge], descriptors: [[method: {}]] }\n",
            "1:20: domain must be a text, this is a list;",
        ),
        ("mapping: { domain: edge, descriptors: [[{ method: {}, path: {} }]] }\n", "an action has one name;"),
        ("mapping: { domain: edge, descriptors: [[jwt_claim: { claim: sub }]] }\n", "write mapping.jwt.keys"),
        ("mapping: { domain: edge, jwt: {}, descriptors: [[method: {}]] }\n", "jwt needs keys;"),
    ] {
        let error = refused(text);
        assert!(error.contains(words), "{text}: {error}");
    }
}

#[test]
fn what_becomes_of_a_missing_value_is_said_once() {
    let header = |fields: &str| {
        format!(
            "mapping: {{ domain: edge, descriptors: [[request_headers: {{ header_name: X-Key, {fields} }}]] }}\n"
        )
    };
    for fields in ["missing: key", "required: true, missing: deny", "skip_if_absent: true, required: false"] {
        assert!(resolved(&header(fields)).is_ok(), "{fields}");
    }
    for (fields, words) in [
        ("missing: allow", "'allow' is not what can become of such a request; write drop, deny or key"),
        ("required: true, missing: key", "missing, required and skip_if_absent say different things;"),
        ("skip_if_absent: true, missing: drop", "missing, required and skip_if_absent say different things;"),
    ] {
        let error = refused(&header(fields));
        assert!(error.contains(words), "{fields}: {error}");
    }
    let slashes = "mapping: { domain: edge, descriptors: [[path: { escaped_slashes: drop }]] }\n";
    let error = refused(slashes);
    assert!(error.contains("'drop' is not what %2F can be; write slash, keep or deny"), "{error}");
}

/// Wherever a value can be absent, the operator says what that means.
#[test]
fn every_action_whose_value_can_be_absent_takes_missing() {
    let text = |action: &str, fields: &str| {
        format!(
            "mapping:\n  domain: edge\n  jwt: {{ keys: [{{ secret_file: s, algorithms: [HS256] }}] }}\n  \
             descriptors: [[{action}: {{ {fields} }}]]\n"
        )
    };
    let ways = ["missing: drop", "missing: deny", "missing: key", "required: true", "required: false"];
    for (action, field) in [
        ("remote_address", ""),
        ("request_headers", "header_name: x-key, "),
        ("query", "name: key, "),
        ("cookie", "name: key, "),
        ("jwt_claim", "claim: sub, "),
    ] {
        for way in ways {
            let resolved = resolved(&text(action, &format!("{field}{way}")));
            assert!(resolved.is_ok(), "{action} {way}: {resolved:?}");
        }
    }
    for (action, field) in [("path", ""), ("method", ""), ("generic_key", "descriptor_value: x, ")] {
        for way in ways {
            let error = refused(&text(action, &format!("{field}{way}")));
            let unknown = format!("unknown key '{}'", way.split(':').next().unwrap_or_default());
            assert!(error.contains(&unknown), "{action} {way}: {error}");
        }
    }
}

/// A descriptor with these fields, and a gateway to see answers.
fn charged(fields: &str) -> String {
    format!(
        "listen: {{ gateway: \"127.0.0.1:0\" }}\ngateway: {{ upstream: \"http://127.0.0.1:9000\" }}\n\
         mapping: {{ domain: edge, descriptors: [{{ actions: [method: {{}}], {fields} }}] }}\n"
    )
}

#[test]
fn answers_have_a_say_in_what_is_charged() {
    for (fields, needs_responses) in [
        ("", false),
        ("charge: { when: request }", false),
        ("charge: { when: response }", true),
        ("charge: { when: response, status: [401, 403, 5xx] }", true),
        ("charge: { status: 401 }", true),
        ("refund_on: [5xx]", true),
        ("charge: { when: request }, refund_on: 5xx", true),
        ("cost: { from: response_header, header_name: X-Cost, default: 0 }", true),
        ("cost: { from: json, field: usage.total_tokens }, charge: { status: 2xx }", true),
    ] {
        let mapping = resolved(&charged(fields)).unwrap().mapping.unwrap().mapping;
        assert_eq!(mapping.needs_responses(), needs_responses, "{fields}");
        assert!(!mapping.charged_at_once().needs_responses());
    }
}

#[test]
fn what_is_wrong_about_a_charge_is_told() {
    for (fields, words) in [
        ("charge: { when: later }", "'later' is no time to charge at; write request or response"),
        ("charge: { when: response, status: [] }", "a list of statuses is empty;"),
        (
            "charge: { status: [401, 6xx] }",
            "'6xx' is not a status; write one such as 401, or 5xx for all of a class",
        ),
        (
            "charge: { when: request, status: 401 }",
            "are not known when the request comes; write charge: { when: response }",
        ),
        (
            "charge: { when: request }, cost: { from: json, field: n }",
            "are not known when the request comes;",
        ),
        (
            "charge: { when: response }, refund_on: 5xx",
            "refund_on gives back what was taken when the request came,",
        ),
        (
            "refund_on: 5xx, cost: { from: json, field: n }",
            "refund_on gives back what was taken when the request came,",
        ),
        ("refund_on: never", "'never' is not a status;"),
        ("cost: { from: body, field: n }", "'body' has no cost; write response_header or json"),
        ("cost: { field: n }", "cost needs from;"),
        ("cost: { from: json }", "cost needs field; write field: usage.total_tokens"),
        ("cost: { from: json, field: a..b }", "a name of the field is empty;"),
        (
            "cost: { from: json, header_name: x, field: n }",
            "header_name is not for this kind of cost; write field:",
        ),
        ("cost: { from: response_header, header_name: \":path\" }", "':path' is not the name of a header;"),
        ("cost: { from: json, field: n, default: -1 }", "default of '-1' is out of range;"),
        ("costs: 1", "unknown key 'costs';"),
    ] {
        let error = refused(&charged(fields));
        assert!(error.contains(words), "{fields}: {error}");
    }
    // All of them at once.
    let error =
        refused(&charged("refund_on: [x], charge: { when: y, status: [z] }, cost: { from: w, field: n }"));
    for words in ["'x' is not a status", "'y' is no time", "'z' is not a status", "'w' has no cost"] {
        assert!(error.contains(words), "not told: {words}\n{error}");
    }
}

#[test]
fn forward_auth_alone_sees_no_answers() {
    let text = "mapping: { domain: edge, descriptors: [{ actions: [method: {}], refund_on: 5xx }] }\n";
    let error = refused(text);
    assert!(error.contains("forward-auth sees no answers; remove them, or start a gateway"), "{error}");
}
