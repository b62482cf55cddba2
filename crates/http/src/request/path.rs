//! One spelling for each path, and templates.
//!
//! `/login`, `//login`, `/./login` and `/%6Cogin` are one page to most
//! services, and must be one counter: else a limit is passed by spelling.
//!
//! Invariants: what is the same by RFC 3986 (section 6.2.2) has one spelling,
//! and doubled slashes are one; a spelling stays as it is if spelled again. A
//! `{` of a client never looks like the `{` of a template.
//!
//! Deliberately not here: case, and a slash at the end, which services are of
//! two minds about; a template matches with and without it.

use std::borrow::Cow;
use std::fmt;

use crate::error::Error;
use crate::request::value::{self, VALUE_MAX};

/// The most templates. A large service has a few thousand routes.
pub const TEMPLATES_MAX: usize = 10_000;

/// Turns paths into values.
///
/// ```
/// use tollgate_http::PathTemplates;
/// let paths = PathTemplates::new(&["/users/{id}", "/users/me", "/files/{*rest}"])?;
/// assert_eq!(paths.value(b"/users/42"), "/users/{id}");
/// assert_eq!(paths.value(b"/users/me"), "/users/me");
/// assert_eq!(paths.value(b"/files/a/b.txt"), "/files/{*rest}");
/// assert_eq!(paths.value(b"//cart/./%6Cist"), "/cart/list");
/// # Ok::<(), tollgate_http::Error>(())
/// ```
#[derive(Clone)]
pub struct PathTemplates {
    templates: matchit::Router<Box<str>>,
    count: usize,
    length_max: usize,
    unmatched: Option<Box<str>>,
}

/// Without templates: every path is its own value.
impl Default for PathTemplates {
    fn default() -> Self {
        Self { templates: matchit::Router::new(), count: 0, length_max: VALUE_MAX, unmatched: None }
    }
}

impl fmt::Debug for PathTemplates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { count, length_max, unmatched, templates: _ } = self;
        f.debug_struct("PathTemplates")
            .field("templates", count)
            .field("length_max", length_max)
            .field("unmatched", unmatched)
            .finish()
    }
}

impl PathTemplates {
    /// By these templates; a path that matches none is its own value.
    ///
    /// # Errors
    /// If a text is no template, or two of them match the same paths.
    pub fn new(templates: &[impl AsRef<str>]) -> Result<Self, Error> {
        let mut paths = Self::default();
        if templates.len() > TEMPLATES_MAX {
            return Err(Error::TooMany { what: "templates", count: templates.len(), max: TEMPLATES_MAX });
        }
        for template in templates {
            paths.add(template.as_ref())?;
        }
        Ok(paths)
    }

    /// One template more.
    ///
    /// # Errors
    /// If the text is no template, or another one matches the same paths.
    pub fn add(&mut self, template: &str) -> Result<(), Error> {
        let wrong = |reason: String| Error::Template { text: template.to_owned(), reason };
        if !template.starts_with('/') {
            return Err(wrong("it does not begin with a slash".to_owned()));
        }
        if template.len() > VALUE_MAX {
            return Err(wrong(format!("it is longer than {VALUE_MAX} bytes")));
        }
        self.templates.insert(template, template.into()).map_err(|error| {
            if let matchit::InsertError::Conflict { with } = error {
                return wrong(format!("it matches the same paths as {with}"));
            }
            wrong(error.to_string())
        })?;
        self.count += 1;
        Ok(())
    }

    /// The same, cutting paths after so many bytes; all longer ones that begin
    /// alike share a value. It is at most, and without this, 256.
    #[must_use]
    pub fn with_length_max(mut self, bytes: usize) -> Self {
        self.length_max = bytes.min(VALUE_MAX);
        self
    }

    /// The same with a value for all paths that no template matches, so that
    /// nobody can make up endless values.
    #[must_use]
    pub fn with_unmatched(mut self, value: &str) -> Self {
        self.unmatched = Some(value::cut(value, VALUE_MAX).into());
        self
    }

    /// The value of a path as it was sent: the template that it matches, what
    /// was set for all others, or the path in its one spelling.
    pub fn value<'a>(&'a self, path: &'a [u8]) -> Cow<'a, str> {
        let path = normal(path);
        if let Some(template) = self.template(&path) {
            return Cow::Borrowed(template);
        }
        match (&self.unmatched, path) {
            (Some(unmatched), _) => Cow::Borrowed(unmatched),
            (None, Cow::Borrowed(path)) => Cow::Borrowed(value::cut(path, self.length_max)),
            (None, Cow::Owned(mut path)) => {
                path.truncate(value::cut(&path, self.length_max).len());
                Cow::Owned(path)
            }
        }
    }

    /// The template that a path matches, or what was set for all others.
    pub fn matched(&self, path: &[u8]) -> Option<&str> {
        if self.count == 0 {
            return self.unmatched.as_deref();
        }
        self.template(&normal(path)).or(self.unmatched.as_deref())
    }

    fn template(&self, path: &str) -> Option<&str> {
        if self.count == 0 {
            return None;
        }
        let found = self.templates.at(path).ok().or_else(|| {
            let bare = path.strip_suffix('/').filter(|bare| !bare.is_empty())?;
            self.templates.at(bare).ok()
        });
        found.map(|found| &**found.value)
    }
}

/// The one spelling of a path.
pub fn normal(path: &[u8]) -> Cow<'_, str> {
    if let Some(path) = as_is(path) {
        return Cow::Borrowed(path);
    }
    let mut out = String::with_capacity(path.len());
    let Some(rest) = path.strip_prefix(b"/") else {
        // `*`, or what is no path at all.
        spell(path, &mut out);
        return Cow::Owned(out);
    };
    let mut segments = rest.split(|byte| *byte == b'/').peekable();
    while let Some(segment) = segments.next() {
        let start = out.len();
        out.push('/');
        spell(segment, &mut out);
        let kept = match out.get(start + 1..).unwrap_or_default() {
            "" | "." => start,
            ".." => out.get(..start).and_then(|above| above.rfind('/')).unwrap_or(0),
            _ => continue,
        };
        out.truncate(kept);
        if segments.peek().is_none() {
            out.push('/');
        }
    }
    Cow::Owned(out)
}

/// The path, if it is spelled right already, as nearly all are.
fn as_is(path: &[u8]) -> Option<&str> {
    let is_odd = |pair: &[u8]| matches!(pair, b"//" | b"/.");
    let is_right = path.iter().all(|byte| is_plain(*byte) || *byte == b'/') && !path.windows(2).any(is_odd);
    std::str::from_utf8(path).ok().filter(|_| is_right)
}

/// A segment in its one spelling.
fn spell(segment: &[u8], out: &mut String) {
    let mut rest = segment;
    while let [byte, after @ ..] = rest {
        rest = after;
        let mut byte = *byte;
        let mut was_escaped = false;
        if let (b'%', [high, low, after @ ..]) = (byte, rest)
            && let (Some(high), Some(low)) = (hex(*high), hex(*low))
        {
            byte = high << 4 | low;
            was_escaped = true;
            rest = after;
        }
        let is_bare = if was_escaped { is_unreserved(byte) } else { is_plain(byte) };
        if is_bare {
            out.push(char::from(byte));
        } else {
            out.push('%');
            out.extend([byte >> 4, byte & 15].map(digit));
        }
    }
}

fn hex(byte: u8) -> Option<u8> {
    char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok())
}

fn digit(nibble: u8) -> char {
    char::from_digit(u32::from(nibble), 16).unwrap_or('0').to_ascii_uppercase()
}

/// `unreserved` of RFC 3986: escaped or not, it is the same.
const fn is_unreserved(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~')
}

/// What may stand in a segment as it is: `pchar` of RFC 3986 without escapes.
const fn is_plain(byte: u8) -> bool {
    is_unreserved(byte)
        || matches!(
            byte,
            b'!' | b'$' | b'&' | b'\'' | b'(' | b')' | b'*' | b'+' | b',' | b';' | b'=' | b':' | b'@'
        )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_the_same_has_one_spelling() {
        for (path, spelling) in [
            ("/", "/"),
            ("/a", "/a"),
            ("/a/", "/a/"),
            ("//a///b//", "/a/b/"),
            ("/./a/../b/.", "/b/"),
            ("/..", "/"),
            ("/../../a", "/a"),
            ("/a/%2e%2E/b", "/b"),
            ("/%6C%6f", "/lo"),
            ("/a%2fb", "/a%2Fb"),
            ("/a%", "/a%25"),
            ("/a%4", "/a%254"),
            ("/a%zz", "/a%25zz"),
            ("/%25%36%31", "/%2561"),
            ("/caf\u{e9}", "/caf%C3%A9"),
            ("/{id}", "/%7Bid%7D"),
            ("/a b\\c", "/a%20b%5Cc"),
            ("/.well-known/x", "/.well-known/x"),
            ("/...", "/..."),
            ("*", "*"),
        ] {
            assert_eq!(normal(path.as_bytes()), spelling, "{path}");
            assert_eq!(normal(spelling.as_bytes()), spelling, "{path} again");
        }
        assert_eq!(normal(b"/\xff\x00"), "/%FF%00");
    }

    #[test]
    fn templates_match_whatever_the_spelling() {
        let paths = PathTemplates::new(&["/users/{id}", "/users/{id}/posts/{post}", "/"]).unwrap();
        for (path, value) in [
            ("/users/42", "/users/{id}"),
            ("/users/42/", "/users/{id}"),
            ("//users/./42", "/users/{id}"),
            ("/users/a%2Fb", "/users/{id}"),
            ("/users/{id}", "/users/{id}"),
            ("/users/42/posts/7", "/users/{id}/posts/{post}"),
            ("/users", "/users"),
            ("/users/42/pics", "/users/42/pics"),
            ("/", "/"),
        ] {
            assert_eq!(paths.value(path.as_bytes()), value, "{path}");
        }
    }

    #[test]
    fn values_can_be_kept_few_and_short() {
        let paths = PathTemplates::new(&["/users/{id}"]).unwrap().with_unmatched("other");
        assert_eq!(paths.value(b"/made/up"), "other");
        let paths = PathTemplates::default().with_length_max(6);
        assert_eq!(paths.value(b"/a/b/c/d"), "/a/b/c");
        assert_eq!(paths.value(b"//a/b/c/d"), "/a/b/c");
        let long = format!("/{}", "x".repeat(100_000));
        assert_eq!(PathTemplates::default().value(long.as_bytes()).len(), VALUE_MAX);
    }

    #[test]
    fn what_is_no_template_is_refused_with_the_reason() {
        let refused = |templates: &[&str]| PathTemplates::new(templates).unwrap_err().to_string();
        assert!(refused(&["users"]).contains("does not begin with a slash"));
        assert!(refused(&["/a/{id", "/b"]).contains("'/a/{id' cannot be a path template"));
        assert!(refused(&["/a/{id}", "/a/{name}"]).contains("it matches the same paths as /a/{id}"));
    }
}
