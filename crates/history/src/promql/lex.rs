//! A text becomes tokens, each with its place.

use super::{Error, TEXT_MAX};

/// One word of an expression.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Token {
    Name(String),
    Number(f64),
    /// In milliseconds.
    Duration(u64),
    Text(String),
    Sign(&'static str),
}

/// All signs, those that begin alike with the longest first.
const SIGNS: [&str; 24] = [
    "==", "!=", "=~", "!~", ">=", "<=", "=", ">", "<", "(", ")", "{", "}", "[", "]", ",", "+", "-", "*", "/",
    "%", "^", ":", "@",
];

/// Milliseconds of each unit, those that begin alike with the longest first.
const UNITS: [(&str, u64); 7] = [
    ("ms", 1),
    ("s", 1_000),
    ("m", 60_000),
    ("h", 3_600_000),
    ("d", 86_400_000),
    ("w", 604_800_000),
    ("y", 31_536_000_000),
];

/// The tokens of a text, each with the place of its first character, from 1.
pub(super) fn tokens(text: &str) -> Result<Vec<(usize, Token)>, Error> {
    if text.len() > TEXT_MAX {
        return Err(Error::Syntax { at: TEXT_MAX, what: format!("longer than {TEXT_MAX} bytes") });
    }
    let mut tokens = Vec::new();
    let mut rest = text;
    loop {
        rest = rest.trim_start();
        let at = text.len() - rest.len() + 1;
        let Some(first) = rest.chars().next() else { return Ok(tokens) };
        let (token, behind) = match first {
            'a'..='z' | 'A'..='Z' | '_' => name(rest),
            '0'..='9' | '.' => number(rest).ok_or_else(|| wrong(at, "this is no number and no duration"))?,
            '"' | '\'' | '`' => quoted(rest).ok_or_else(|| wrong(at, "this text has no end"))?,
            '#' => {
                rest = rest.split_once('\n').map_or("", |(_, behind)| behind);
                continue;
            }
            _ => {
                let sign = SIGNS.into_iter().find(|sign| rest.starts_with(sign));
                let sign = sign.ok_or_else(|| wrong(at, format!("there is no {first:?} in expressions")))?;
                (Token::Sign(sign), rest.get(sign.len()..).unwrap_or(""))
            }
        };
        tokens.push((at, token));
        rest = behind;
    }
}

pub(super) fn wrong(at: usize, what: impl Into<String>) -> Error {
    Error::Syntax { at, what: what.into() }
}

fn name(text: &str) -> (Token, &str) {
    let end = text.find(|c: char| !c.is_ascii_alphanumeric() && c != '_' && c != ':').unwrap_or(text.len());
    let (name, rest) = text.split_at(end);
    (Token::Name(name.to_owned()), rest)
}

/// A number, or numbers with units.
fn number(text: &str) -> Option<(Token, &str)> {
    if let Some(found) = duration(text) {
        return Some(found);
    }
    let mut end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let behind = text.get(end..).unwrap_or("");
    if let Some(exponent) = behind.strip_prefix(['e', 'E']) {
        let digits = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
        let length = digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len());
        if length > 0 {
            end = text.len() - digits.len() + length;
        }
    }
    let (number, rest) = text.split_at_checked(end)?;
    if rest.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_') {
        return None;
    }
    Some((Token::Number(number.parse().ok()?), rest))
}

fn duration(text: &str) -> Option<(Token, &str)> {
    let (mut rest, mut sum) = (text, 0_u64);
    loop {
        let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        let Some((digits, behind)) = rest.split_at_checked(end).filter(|(digits, _)| !digits.is_empty())
        else {
            break;
        };
        let (unit, length) = UNITS.into_iter().find(|(unit, _)| behind.starts_with(unit))?;
        sum = sum.checked_add(digits.parse::<u64>().ok()?.checked_mul(length)?)?;
        rest = behind.strip_prefix(unit)?;
    }
    let is_whole =
        rest.len() < text.len() && !rest.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_');
    is_whole.then_some((Token::Duration(sum), rest))
}

fn quoted(text: &str) -> Option<(Token, &str)> {
    let mut chars = text.char_indices();
    let (_, quote) = chars.next()?;
    let mut out = String::new();
    while let Some((at, c)) = chars.next() {
        match c {
            '\\' if quote != '`' => {
                let (_, escaped) = chars.next()?;
                out.push(match escaped {
                    'n' => '\n',
                    't' => '\t',
                    'r' => '\r',
                    '\\' | '"' | '\'' => escaped,
                    _ => return None,
                });
            }
            c if c == quote => return Some((Token::Text(out), text.get(at + c.len_utf8()..)?)),
            c => out.push(c),
        }
    }
    None
}
