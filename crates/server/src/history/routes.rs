//! The route of a request: the name that its traffic is counted under.
//!
//! An adapter that knows the path sets it in the request; elsewhere it is the value of
//! the first entry whose key is one of `history.route_keys`.

use std::borrow::Cow;

use tollgate_core::Request;
use tollgate_history::route::normalise;
use tollgate_http::PathTemplates;

/// Finds the route of a request.
#[derive(Debug)]
pub(super) struct RouteResolver {
    keys: Vec<String>,
    /// A bit for each length that a key has: nearly all entries of nearly all requests have another one.
    lengths: u64,
    pub(super) templates: PathTemplates,
}

/// The bit of a text's length; all that are long share one.
fn length_bit(text: &str) -> u64 {
    1 << text.len().min(63)
}

impl RouteResolver {
    pub(super) fn new(keys: Vec<String>, templates: PathTemplates) -> Self {
        let lengths = keys.iter().fold(0, |bits, key| bits | length_bit(key));
        Self { keys, lengths, templates }
    }

    /// The route of a request, if it has one.
    pub(super) fn of_request<'a>(&'a self, request: &Request<'a>) -> Option<Cow<'a, str>> {
        if let Some(route) = request.route {
            return Some(Cow::Borrowed(route));
        }
        for descriptor in request.descriptors {
            if let Some(entry) = descriptor.entries.iter().find(|entry| self.is_route(entry.key)) {
                return Some(self.of_path(entry.value));
            }
        }
        None
    }

    /// Whether the entry of a key is the route.
    fn is_route(&self, key: &str) -> bool {
        self.lengths & length_bit(key) != 0 && self.keys.iter().any(|own| own == key)
    }

    /// The template that a path matches, or the normalised path.
    pub(super) fn of_path<'a>(&'a self, path: &'a str) -> Cow<'a, str> {
        match self.templates.matched(path.as_bytes()) {
            Some(template) => Cow::Borrowed(template),
            None => normalise(path),
        }
    }
}

#[cfg(test)]
mod tests {
    use tollgate_core::{Descriptor, Entry};

    use super::*;

    fn route(entries: &[(&str, &str)]) -> Option<String> {
        let long = "x".repeat(70);
        let keys = vec!["path".into(), "route".into(), long];
        let routes = RouteResolver::new(keys, PathTemplates::new(&["/users/{id}"]).expect("a template"));
        let entries: Vec<Entry<'_>> = entries.iter().map(|entry| Entry::from(*entry)).collect();
        let (first, rest) = entries.split_at(1);
        let descriptors = [Descriptor::new(first), Descriptor::new(rest)];
        routes.of_request(&Request::new("d", &descriptors)).map(Cow::into_owned)
    }

    #[test]
    fn the_first_entry_that_may_be_one_is_the_route() {
        let cases = [
            (&[("user_id", "42"), ("path", "/cart?n=7")][..], Some("/cart")),
            (&[("route", "checkout"), ("path", "/cart")], Some("checkout")),
            (&[("path", "/users/42"), ("route", "x")], Some("/users/{id}")),
            (&[("user_id", "/cart")], None),
            (&[("user_id", "42"), ("host", "/cart")], None),
            (&[("user_id", "42"), (&"y".repeat(80), "/cart")], None),
            (&[("user_id", "42"), (&"x".repeat(70), "/cart")], Some("/cart")),
        ];
        for (entries, expected) in cases {
            assert_eq!(route(entries).as_deref(), expected, "{entries:?}");
        }
    }

    #[test]
    fn what_an_adapter_knows_comes_first() {
        let routes = RouteResolver::new(vec!["path".into()], PathTemplates::default());
        let entries = [Entry::from(("path", "/a"))];
        let descriptors = [Descriptor::new(&entries)];
        let request = Request::new("d", &descriptors).with_route("/b/{c}");
        assert_eq!(routes.of_request(&request).as_deref(), Some("/b/{c}"));
    }
}
