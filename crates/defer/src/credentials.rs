//! Which headers are not kept: those that may hold credentials.
//!
//! A queue is read by whoever can read the disk or Redis, long after the request. So what proves who
//! a caller is stays out of it, unless an operator lists the header.

/// Parts of names that tell of credentials.
const WORDS: [&str; 14] = [
    "auth",
    "cookie",
    "token",
    "secret",
    "api-key",
    "apikey",
    "access-key",
    "session",
    "password",
    "passwd",
    "credential",
    "signature",
    "jwt",
    "client-cert",
];

/// Whether a header of this name, in lower case, is kept.
pub fn is_kept(name: &str, keep_headers: &[String]) -> bool {
    keep_headers.iter().any(|kept| kept == name) || !WORDS.iter().any(|word| name.contains(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_stay_out_unless_they_are_listed() {
        let names =
            ["authorization", "proxy-authorization", "cookie", "set-cookie", "x-api-key", "x-auth-token"];
        for name in names {
            assert!(!is_kept(name, &[]), "{name}");
            assert!(is_kept(name, &[name.to_owned()]), "{name}");
        }
        for name in ["content-type", "accept", "user-agent", "x-request-id", "idempotency-key", "x-tenant"] {
            assert!(is_kept(name, &[]), "{name}");
        }
    }
}
