//! Paths as values: by template, or in their one spelling.
//!
//! `/login`, `//login`, `/./login` and `/%6Cogin` are one page to most
//! services, and must be one counter: else a limit is passed by spelling.
//! `spelling` sees to that; templates then keep values few.
//!
//! Invariant: a template that no path can match is refused.

mod spelling;

use std::borrow::Cow;
use std::fmt;

use crate::error::Error;
use crate::request::value::{self, VALUE_MAX};

pub use spelling::{EscapedSlashes, PathSpelling};

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
    spelling: PathSpelling,
}

/// Without templates: every path is its own value.
impl Default for PathTemplates {
    fn default() -> Self {
        Self::spelled(PathSpelling::default())
    }
}

impl fmt::Debug for PathTemplates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { count, length_max, unmatched, spelling, templates: _ } = self;
        f.debug_struct("PathTemplates")
            .field("templates", count)
            .field("length_max", length_max)
            .field("unmatched", unmatched)
            .field("spelling", spelling)
            .finish()
    }
}

impl PathTemplates {
    /// Without templates: every path is its own value, spelled like this.
    pub fn spelled(spelling: PathSpelling) -> Self {
        let templates = matchit::Router::new();
        Self { templates, count: 0, length_max: VALUE_MAX, unmatched: None, spelling }
    }

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
        let example = example(template);
        let spelled = self.spelling.spell(example.as_bytes());
        if !spelled.eq_ignore_ascii_case(&example) {
            return Err(wrong(format!("a path like {example} is spelled {spelled}")));
        }
        let routed =
            if self.spelling.ignore_case { template.to_ascii_lowercase() } else { template.to_owned() };
        self.templates.insert(routed, template.into()).map_err(|error| {
            wrong(match error {
                matchit::InsertError::Conflict { with } => format!("it matches the same paths as {with}"),
                matchit::InsertError::InvalidParam => {
                    "a brace is not closed, or there is no name in it".to_owned()
                }
                matchit::InsertError::InvalidParamSegment => {
                    "between two slashes there can be one {name}, at the end".to_owned()
                }
                matchit::InsertError::InvalidCatchAll => {
                    "a {*name} stands for all that follows, and must be at the end".to_owned()
                }
                other => other.to_string(),
            })
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
        let path = self.spelling.spell(path);
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
        self.template(&self.spelling.spell(path)).or(self.unmatched.as_deref())
    }

    /// Whether a path is to be denied for how it is spelled.
    pub fn denies(&self, path: &[u8]) -> bool {
        self.spelling.denies(path)
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

/// A path that a template matches: each `{name}` is a letter.
fn example(template: &str) -> String {
    let mut example = String::with_capacity(template.len());
    let mut is_name = false;
    for character in template.chars() {
        match character {
            '{' => is_name = true,
            '}' => {
                is_name = false;
                example.push('x');
            }
            _ if is_name => {}
            _ => example.push(character),
        }
    }
    example
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn templates_match_whatever_the_spelling() {
        let paths = PathTemplates::new(&["/users/{id}", "/users/{id}/posts/{post}", "/"]).unwrap();
        for (path, value) in [
            ("/users/42", "/users/{id}"),
            ("/users/42/", "/users/{id}"),
            ("//users/./42", "/users/{id}"),
            ("/users/a%2Fposts%2Fb", "/users/{id}/posts/{post}"),
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
    fn templates_know_what_is_set_about_spelling() {
        let spelling = PathSpelling { ignore_case: true, cut_parameters: true, ..PathSpelling::default() };
        let mut paths = PathTemplates::spelled(spelling);
        paths.add("/Members/{Id}").unwrap();
        assert_eq!(paths.value(b"/MEMBERS;a=b/42;c"), "/Members/{Id}");
        assert!(paths.add("/members/{name}").is_err());
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
        for unclosed in ["/a/{id", "/a/{}", "/a/id}"] {
            assert!(refused(&[unclosed]).contains(": a brace is not closed, or there is no name in it;"));
        }
        assert!(
            refused(&["/a/{b}{c}"]).contains(": between two slashes there can be one {name}, at the end;")
        );
        assert!(refused(&["/a/{*b}/c"]).contains(": a {*name} stands for all that follows,"));
        assert!(refused(&["/caf\u{e9}/{id}"]).contains("a path like /caf\u{e9}/x is spelled /caf%C3%A9/x"));
        assert!(refused(&["/a//b"]).contains("a path like /a//b is spelled /a/b"));
        assert!(refused(&["/a/{id}", "/a/{name}"]).contains("it matches the same paths as /a/{id}"));
    }
}
