//! Refuses what other web sites make a browser send to the admin pages.
//!
//! A page that an operator visits can send requests to `localhost`, and by DNS
//! rebinding even read the answers under its own name. Browsers say in headers
//! where a request comes from; everything else sends no such headers, and is
//! not refused for lacking them.
//!
//! Invariants: without a token only names of this machine are taken as `Host`,
//! which a rebound name is not; a page of another origin gets no answer, but a
//! link to a page may be followed.
//!
//! Deliberately not here: the content type of what changes state (`keys`), which
//! is the same protection once more for browsers that send none of these headers.

use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::header::{HOST, ORIGIN};
use axum::http::{HeaderMap, HeaderName, Method, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};

const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
const SEC_FETCH_MODE: HeaderName = HeaderName::from_static("sec-fetch-mode");

/// Which names the admin pages are called by.
#[derive(Debug)]
pub(super) struct AdminHosts {
    /// Besides addresses and `localhost`.
    pub(super) names: Vec<String>,
    /// Callers show a token, so that the name need not be known.
    pub(super) has_token: bool,
}

/// Why a request is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
enum CrossSiteError {
    #[error(
        "the Host of the request is no name of this server; call it by its address, or list the name in TOLLGATE_ADMIN_HOSTS"
    )]
    Host,
    #[error(
        "the request comes from another web site, as its Origin says; if that is yours, list its name in TOLLGATE_ADMIN_HOSTS"
    )]
    Origin,
    #[error("the request comes from another web site, as Sec-Fetch-Site says")]
    Site,
}

/// Lets a request through that no other web site made.
pub(super) async fn refuse(State(hosts): State<Arc<AdminHosts>>, request: Request, next: Next) -> Response {
    let authority = request.uri().authority().map(|authority| authority.as_str());
    match hosts.check(request.method(), authority, request.headers()) {
        Ok(()) => next.run(request).await,
        Err(error) => (StatusCode::FORBIDDEN, format!("{error}\n")).into_response(),
    }
}

impl AdminHosts {
    fn check(
        &self,
        method: &Method,
        authority: Option<&str>,
        headers: &HeaderMap,
    ) -> Result<(), CrossSiteError> {
        let text = |name| headers.get(name).map(|value| value.to_str().unwrap_or_default());
        let host = authority.or_else(|| text(HOST));
        if host.is_some_and(|host| !self.has_token && !self.is_own(host)) {
            return Err(CrossSiteError::Host);
        }
        if text(ORIGIN).is_some_and(|origin| !self.is_same_origin(origin, host)) {
            return Err(CrossSiteError::Origin);
        }
        let is_link =
            matches!(*method, Method::GET | Method::HEAD) && text(SEC_FETCH_MODE) == Some("navigate");
        // Another port of this machine is the same site, and another's page all the same.
        if matches!(text(SEC_FETCH_SITE), Some("cross-site" | "same-site")) && !is_link {
            return Err(CrossSiteError::Site);
        }
        Ok(())
    }

    /// Whether a name cannot be one that somebody else's DNS points here.
    fn is_own(&self, host: &str) -> bool {
        let name = without_port(host);
        let is_address = match name.strip_prefix('[').and_then(|name| name.strip_suffix(']')) {
            Some(inside) => inside.parse::<Ipv6Addr>().is_ok(),
            None => name.parse::<IpAddr>().is_ok(),
        };
        let name = name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase();
        is_address || name == "localhost" || name.ends_with(".localhost") || self.is_listed(&name)
    }

    fn is_listed(&self, name: &str) -> bool {
        self.names.iter().any(|own| own.eq_ignore_ascii_case(name))
    }

    /// Whether a page of that origin is ours: it is where the request goes to,
    /// or it has a name of ours, as behind a proxy that changes `Host`.
    fn is_same_origin(&self, origin: &str, host: Option<&str>) -> bool {
        let Some((scheme, authority)) = origin.split_once("://") else { return false };
        let usual = if scheme == "https" { ":443" } else { ":80" };
        let bare = |authority: &str| authority.strip_suffix(usual).unwrap_or(authority).to_ascii_lowercase();
        host.is_some_and(|host| bare(host) == bare(authority)) || self.is_listed(without_port(authority))
    }
}

/// The name in `name:port`; an IPv6 address keeps its brackets.
fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checked(hosts: &AdminHosts, lines: &[(&'static str, &str)]) -> Result<(), CrossSiteError> {
        let headers =
            lines.iter().map(|(name, value)| (HeaderName::from_static(name), value.parse().unwrap()));
        hosts.check(&Method::GET, None, &headers.collect())
    }

    #[test]
    fn only_names_of_this_machine_are_taken() {
        let hosts = AdminHosts { names: vec!["tollgate.example".into()], has_token: false };
        for own in [
            "localhost",
            "LOCALHOST:6070",
            "localhost.",
            "a.localhost:6070",
            "127.0.0.1",
            "127.0.0.1:6070",
            "10.0.0.7:6070",
            "[::1]:6070",
            "[2001:db8::1]",
            "Tollgate.Example:443",
        ] {
            assert_eq!(checked(&hosts, &[("host", own)]), Ok(()), "{own}");
        }
        for foreign in
            ["evil.example", "evil.example:6070", "localhost.evil.example", "", "127.0.0.1.evil", "[x]"]
        {
            assert_eq!(checked(&hosts, &[("host", foreign)]), Err(CrossSiteError::Host), "{foreign}");
        }
        assert_eq!(checked(&hosts, &[]), Ok(()), "what is no browser may say nothing");
        let with_token = AdminHosts { has_token: true, ..hosts };
        assert_eq!(checked(&with_token, &[("host", "tollgate.svc:6070")]), Ok(()));
    }

    #[test]
    fn a_page_of_another_origin_gets_nothing() {
        let hosts = AdminHosts { names: vec!["tollgate.example".into()], has_token: false };
        let from = |origin: &str, host: &str| checked(&hosts, &[("host", host), ("origin", origin)]);
        for (origin, host) in [
            ("http://localhost:6070", "localhost:6070"),
            ("http://localhost", "localhost:80"),
            ("https://[::1]", "[::1]:443"),
            ("https://tollgate.example", "127.0.0.1:6070"),
        ] {
            assert_eq!(from(origin, host), Ok(()), "{origin} {host}");
        }
        for (origin, host) in [
            ("http://localhost:3000", "localhost:6070"),
            ("http://evil.example", "localhost:6070"),
            ("http://6.6.6.6", "127.0.0.1"),
            ("null", "localhost:6070"),
            ("", "localhost:6070"),
        ] {
            assert_eq!(from(origin, host), Err(CrossSiteError::Origin), "{origin} {host}");
        }
    }

    #[test]
    fn a_link_may_be_followed_and_nothing_else_comes_across() {
        let hosts = AdminHosts { names: Vec::new(), has_token: false };
        let site = |site, mode| checked(&hosts, &[("sec-fetch-site", site), ("sec-fetch-mode", mode)]);
        for (own, mode) in [
            ("same-origin", "cors"),
            ("none", "navigate"),
            ("same-site", "navigate"),
            ("cross-site", "navigate"),
        ] {
            assert_eq!(site(own, mode), Ok(()), "{own} {mode}");
        }
        assert_eq!(site("cross-site", "no-cors"), Err(CrossSiteError::Site));
        assert_eq!(site("same-site", "no-cors"), Err(CrossSiteError::Site));
        let headers = [(SEC_FETCH_SITE, "cross-site"), (SEC_FETCH_MODE, "navigate")];
        let headers = headers.map(|(name, value)| (name, value.parse().unwrap())).into_iter().collect();
        assert_eq!(hosts.check(&Method::POST, None, &headers), Err(CrossSiteError::Site));
    }
}
