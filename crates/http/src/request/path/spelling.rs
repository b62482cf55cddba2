//! One spelling for each path.
//!
//! Comes before templates and counters. nginx, Traefik, Caddy and Envoy all
//! rewrite paths before they choose a location; two spellings that any of them
//! takes for one page have one spelling here, unless it is an option below.
//!
//! Invariants: escapes of what may stand in a path are undone, dot segments
//! resolved, doubled slashes are one; a spelling stays as it is if spelled again.
//! A `{` of a client never looks like the `{` of a template.
//!
//! Deliberately not here: a slash at the end, which services are of two minds
//! about; a template matches with and without it. Escapes are undone once, as
//! proxies do it.

use std::borrow::Cow;

/// What an escaped slash is: `%2F`, and likewise `%5C` and `\`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum EscapedSlashes {
    /// A slash, as to nginx and to most services.
    #[default]
    Slash,
    /// A character like others, as to Envoy unless it is told otherwise.
    Keep,
    /// A reason to deny the request, as Traefik does.
    Deny,
}

/// How paths are spelled where proxies and services differ.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PathSpelling {
    /// What an escaped slash is.
    pub escaped_slashes: EscapedSlashes,
    /// `/login;v=1` is `/login`, as to Tomcat and Spring.
    pub cut_parameters: bool,
    /// `/Login` is `/login`, as to IIS and to Caddy's matcher.
    pub ignore_case: bool,
}

impl PathSpelling {
    /// The one spelling of a path.
    pub fn spell<'a>(&self, path: &'a [u8]) -> Cow<'a, str> {
        if let Some(path) = self.as_is(path) {
            return Cow::Borrowed(path);
        }
        let mut pieces = Pieces { rest: path, spelling: *self }.peekable();
        if pieces.next_if_eq(&Piece::Separator).is_none() {
            // `*`, or what is no path at all.
            let mut out = String::with_capacity(path.len());
            pieces.for_each(|piece| piece.write(&mut out));
            return Cow::Owned(out);
        }
        let mut spelled = Spelled::new(path.len());
        let mut is_cut = false;
        for piece in pieces {
            match piece {
                Piece::Separator => {
                    spelled.end_segment();
                    is_cut = false;
                }
                Piece::Parameters => is_cut = true,
                Piece::Plain(_) | Piece::Escaped(_) if is_cut => {}
                Piece::Plain(_) | Piece::Escaped(_) => piece.write(&mut spelled.out),
            }
        }
        Cow::Owned(spelled.finish())
    }

    /// Whether a path is to be denied for how it is spelled.
    pub fn denies(&self, path: &[u8]) -> bool {
        let decoding = Self { escaped_slashes: EscapedSlashes::Slash, ..*self };
        let slashes = || path.iter().filter(|byte| **byte == b'/').count();
        let separators = || {
            let pieces = Pieces { rest: path, spelling: decoding };
            pieces.filter(|piece| *piece == Piece::Separator).count()
        };
        self.escaped_slashes == EscapedSlashes::Deny && separators() > slashes()
    }

    /// The path, if it is spelled right already, as nearly all are.
    fn as_is<'a>(&self, path: &'a [u8]) -> Option<&'a str> {
        let is_right = |byte: &u8| match *byte {
            b'/' => true,
            b';' => !self.cut_parameters,
            byte => is_plain(byte) && !(self.ignore_case && byte.is_ascii_uppercase()),
        };
        let is_odd = |pair: &[u8]| matches!(pair, b"//" | b"/.");
        let is_whole = path.iter().all(is_right) && !path.windows(2).any(is_odd);
        std::str::from_utf8(path).ok().filter(|_| is_whole)
    }
}

/// What a path is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Piece {
    Separator,
    /// The `;` before parameters that are cut off.
    Parameters,
    /// Stands as it is.
    Plain(u8),
    /// Must be escaped.
    Escaped(u8),
}

impl Piece {
    fn write(self, out: &mut String) {
        match self {
            Self::Separator => out.push('/'),
            Self::Parameters => out.push(';'),
            Self::Plain(byte) => out.push(char::from(byte)),
            Self::Escaped(byte) => {
                out.push('%');
                out.extend([byte >> 4, byte & 15].map(digit));
            }
        }
    }
}

/// Reads a path, undoing escapes.
struct Pieces<'a> {
    rest: &'a [u8],
    spelling: PathSpelling,
}

impl Iterator for Pieces<'_> {
    type Item = Piece;

    fn next(&mut self) -> Option<Piece> {
        let (byte, was_escaped) = self.byte()?;
        let PathSpelling { escaped_slashes, cut_parameters, ignore_case } = self.spelling;
        let are_slashes = escaped_slashes == EscapedSlashes::Slash;
        Some(match (byte, was_escaped) {
            (b'/', false) => Piece::Separator,
            (b'/', true) | (b'\\', _) if are_slashes => Piece::Separator,
            (b';', false) if cut_parameters => Piece::Parameters,
            // Else it would be cut when it is spelled again.
            (b';', true) if cut_parameters => Piece::Escaped(byte),
            _ if is_plain(byte) && ignore_case => Piece::Plain(byte.to_ascii_lowercase()),
            _ if is_plain(byte) => Piece::Plain(byte),
            _ => Piece::Escaped(byte),
        })
    }
}

impl Pieces<'_> {
    /// The next byte, and whether it was escaped.
    fn byte(&mut self) -> Option<(u8, bool)> {
        let (byte, after) = self.rest.split_first()?;
        self.rest = after;
        if let (b'%', [high, low, after @ ..]) = (byte, after)
            && let (Some(high), Some(low)) = (hex(*high), hex(*low))
        {
            self.rest = after;
            return Some((high << 4 | low, true));
        }
        Some((*byte, false))
    }
}

/// A path that is being written, segment by segment.
struct Spelled {
    out: String,
    /// Where the slash of the last segment is.
    start: usize,
}

impl Spelled {
    fn new(bytes: usize) -> Self {
        let mut out = String::with_capacity(bytes);
        out.push('/');
        Self { out, start: 0 }
    }

    fn end_segment(&mut self) {
        self.resolve();
        self.start = self.out.len();
        self.out.push('/');
    }

    /// Takes away the last segment if it is empty or made of dots; whether it was.
    fn resolve(&mut self) -> bool {
        let kept = match self.out.get(self.start + 1..).unwrap_or_default() {
            "" | "." => self.start,
            ".." => self.out.get(..self.start).and_then(|above| above.rfind('/')).unwrap_or(0),
            _ => return false,
        };
        self.out.truncate(kept);
        true
    }

    fn finish(mut self) -> String {
        if self.resolve() {
            self.out.push('/');
        }
        self.out
    }
}

fn hex(byte: u8) -> Option<u8> {
    char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok())
}

fn digit(nibble: u8) -> char {
    char::from_digit(u32::from(nibble), 16).unwrap_or('0').to_ascii_uppercase()
}

/// What may stand in a segment as it is: `pchar` of RFC 3986 without escapes.
const fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric()
        || matches!(byte, b'-' | b'.' | b'_' | b'~' | b'!' | b'$' | b'&' | b'\'')
        || matches!(byte, b'(' | b')' | b'*' | b'+' | b',' | b';' | b'=' | b':' | b'@')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn assert_spelled(spelling: PathSpelling, cases: &[(&str, &str)]) {
        for (path, expected) in cases {
            assert_eq!(spelling.spell(path.as_bytes()), *expected, "{path}");
            assert_eq!(spelling.spell(expected.as_bytes()), *expected, "{path} again");
        }
    }

    #[test]
    fn what_is_the_same_has_one_spelling() {
        assert_spelled(
            PathSpelling::default(),
            &[
                ("/", "/"),
                ("/a", "/a"),
                ("/a/", "/a/"),
                ("//a///b//", "/a/b/"),
                ("/./a/../b/.", "/b/"),
                ("/..", "/"),
                ("/../../a", "/a"),
                ("/a/%2e%2E/b", "/b"),
                ("/%6C%6f", "/lo"),
                ("/%40me%2B%3b", "/@me+;"),
                ("/a%", "/a%25"),
                ("/a%4", "/a%254"),
                ("/a%zz", "/a%25zz"),
                ("/%25%36%31", "/%2561"),
                ("/%252Flogin", "/%252Flogin"),
                ("/caf\u{e9}", "/caf%C3%A9"),
                ("/{id}", "/%7Bid%7D"),
                ("/a b", "/a%20b"),
                ("/.well-known/x", "/.well-known/x"),
                ("/...", "/..."),
                ("/a;b/..;c", "/a;b/..;c"),
                ("/Login", "/Login"),
                ("*", "*"),
            ],
        );
        assert_eq!(PathSpelling::default().spell(b"/\xff\x00"), "/%FF%00");
    }

    /// All of these are `/login` to nginx.
    #[test]
    fn an_escaped_slash_is_a_slash() {
        let login = ["/x%2f..%2flogin", "/%2flogin", "/.%2flogin", "/a/%2e%2e%2Flogin", "/x%5c..%5Clogin"];
        assert_spelled(PathSpelling::default(), &login.map(|path| (path, "/login")));
        assert_spelled(PathSpelling::default(), &[("/x\\..\\login", "/login"), ("%2flogin", "/login")]);
    }

    #[test]
    fn an_escaped_slash_can_be_kept_or_denied() {
        let keep = PathSpelling { escaped_slashes: EscapedSlashes::Keep, ..PathSpelling::default() };
        let kept = [("/a%2fb", "/a%2Fb"), ("/a%2f..", "/a%2F.."), ("/a\\b%5c", "/a%5Cb%5C")];
        assert_spelled(keep, &kept);
        let deny = PathSpelling { escaped_slashes: EscapedSlashes::Deny, ..keep };
        assert_spelled(deny, &kept);
        for (path, _) in kept {
            assert!(deny.denies(path.as_bytes()) && !keep.denies(path.as_bytes()), "{path}");
        }
        assert!(!deny.denies(b"//a/%2e%252f/b"));
    }

    #[test]
    fn parameters_and_case_can_be_ignored() {
        let java = PathSpelling { cut_parameters: true, ..PathSpelling::default() };
        let cases =
            [("/login;v=1", "/login"), ("/a;b/..;c=%2f/d", "/d"), ("/;/a;", "/a"), ("/a%3bb", "/a%3Bb")];
        assert_spelled(java, &cases);
        let lower = PathSpelling { ignore_case: true, ..PathSpelling::default() };
        assert_spelled(lower, &[("/LogIn/%41%c3%a9", "/login/a%C3%A9"), ("/a", "/a")]);
    }
}
