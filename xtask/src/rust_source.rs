//! Rust source as tokens, for rules that comments and strings must not confuse.
//!
//! `edges` and `tidy` use it.
//! Deliberately not here: a syntax tree. Paths and declarations can be told from tokens alone.

use std::str::FromStr as _;

use anyhow::{Result, anyhow};
use proc_macro2::{Delimiter, TokenStream, TokenTree};

/// A path in the code, such as `crate::plan::Plan`, and its line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CodePath {
    pub(crate) segments: Vec<String>,
    pub(crate) line: usize,
}

/// A `pub use` at the top of a file: the name that it gives to a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ReExport {
    pub(crate) name: String,
    pub(crate) segments: Vec<String>,
}

/// What a file says.
pub(crate) struct RustSource {
    tokens: Vec<TokenTree>,
    /// The modules that were left out and lie in files of their own.
    pub(crate) test_modules: Vec<String>,
}

impl RustSource {
    /// Reads a file.
    pub(crate) fn parse(path: &str, text: &str) -> Result<Self> {
        let stream = TokenStream::from_str(text).map_err(|error| anyhow!("{path}: {error}"))?;
        Ok(Self { tokens: stream.into_iter().collect(), test_modules: Vec::new() })
    }

    /// Leaves out what stands in modules behind `#[cfg(test)]`.
    pub(crate) fn without_tests(self) -> Self {
        let (mut tokens, mut test_modules, mut rest) = (Vec::new(), Vec::new(), self.tokens.as_slice());
        while let Some((first, behind)) = rest.split_first() {
            match test_module(rest, &mut test_modules) {
                0 => {
                    tokens.push(first.clone());
                    rest = behind;
                }
                length => rest = rest.get(length..).unwrap_or_default(),
            }
        }
        Self { tokens, test_modules }
    }

    /// Every path that begins with `crate`, `super` or `self`, wherever it stands.
    pub(crate) fn local_paths(&self) -> Vec<CodePath> {
        let mut paths = Vec::new();
        collect(&self.tokens, &|first| matches!(first, "crate" | "super" | "self"), &mut paths);
        paths
    }

    /// Every path into one of these crates, wherever it stands.
    pub(crate) fn paths_into(&self, crates: &[&str]) -> Vec<CodePath> {
        let mut paths = Vec::new();
        collect(&self.tokens, &|first| crates.contains(&first), &mut paths);
        paths
    }

    /// The `pub use` at the top of the file.
    pub(crate) fn re_exports(&self) -> Vec<ReExport> {
        let mut exports = Vec::new();
        let mut rest = self.tokens.as_slice();
        while let Some((first, behind)) = rest.split_first() {
            rest = behind;
            if !is_word(first, "pub") {
                continue;
            }
            let behind = match behind.split_first() {
                Some((TokenTree::Group(_), behind)) => behind,
                _ => behind,
            };
            if let Some((keyword, behind)) = behind.split_first()
                && is_word(keyword, "use")
            {
                leaves(behind, &mut Vec::new(), &mut exports);
            }
        }
        exports
    }

    /// The types that are declared with `struct`, `enum`, `union`, `trait` or `type`, with their lines.
    /// What `impl` and `trait` blocks associate is none.
    pub(crate) fn types(&self) -> Vec<(String, usize)> {
        let mut types = Vec::new();
        declared(&self.tokens, false, &mut types);
        types
    }
}

fn is_word(token: &TokenTree, word: &str) -> bool {
    matches!(token, TokenTree::Ident(ident) if *ident == word)
}

fn is_punct(token: Option<&TokenTree>, mark: char) -> bool {
    matches!(token, Some(TokenTree::Punct(punct)) if punct.as_char() == mark)
}

/// How many tokens the test module has that these begin with; 0 if they begin with something else.
fn test_module(tokens: &[TokenTree], files: &mut Vec<String>) -> usize {
    let [TokenTree::Punct(hash), TokenTree::Group(attribute), rest @ ..] = tokens else { return 0 };
    if hash.as_char() != '#' || attribute.stream().to_string().replace(' ', "") != "cfg(test)" {
        return 0;
    }
    let keyword = rest.iter().take(3).position(|token| is_word(token, "mod"));
    match keyword.map(|at| (at, rest.get(at + 1), rest.get(at + 2))) {
        Some((at, Some(_), Some(TokenTree::Group(_)))) => 2 + at + 3,
        Some((at, Some(TokenTree::Ident(name)), Some(_))) => {
            files.push(name.to_string());
            2 + at + 3
        }
        _ => 0,
    }
}

fn collect(tokens: &[TokenTree], is_first: &dyn Fn(&str) -> bool, paths: &mut Vec<CodePath>) {
    for (at, token) in tokens.iter().enumerate() {
        match token {
            TokenTree::Ident(ident) if is_first(&ident.to_string()) => {
                let behind_a_path = at
                    .checked_sub(2)
                    .is_some_and(|at| is_punct(tokens.get(at), ':') && is_punct(tokens.get(at + 1), ':'));
                let is_path = is_punct(tokens.get(at + 1), ':') && is_punct(tokens.get(at + 2), ':');
                if is_path && !behind_a_path {
                    walk(tokens.get(at..).unwrap_or_default(), &mut Vec::new(), paths);
                }
            }
            TokenTree::Group(group) => {
                collect(&group.stream().into_iter().collect::<Vec<_>>(), is_first, paths);
            }
            TokenTree::Ident(_) | TokenTree::Punct(_) | TokenTree::Literal(_) => {}
        }
    }
}

/// Adds the path at the beginning of some tokens, or all paths of its braces.
fn walk(tokens: &[TokenTree], prefix: &mut Vec<String>, paths: &mut Vec<CodePath>) {
    let (depth, mut line, mut rest) = (prefix.len(), 1, tokens);
    loop {
        match rest {
            [TokenTree::Ident(ident), behind @ ..] => {
                prefix.push(ident.to_string());
                line = ident.span().start().line;
                rest = behind;
            }
            [TokenTree::Group(group), ..] if group.delimiter() == Delimiter::Brace => {
                for tree in split(&group.stream().into_iter().collect::<Vec<_>>()) {
                    walk(tree, prefix, paths);
                }
                break;
            }
            _ => {
                paths.push(CodePath { segments: prefix.clone(), line });
                break;
            }
        }
        if !(is_punct(rest.first(), ':') && is_punct(rest.get(1), ':')) {
            paths.push(CodePath { segments: prefix.clone(), line });
            break;
        }
        rest = rest.get(2..).unwrap_or_default();
    }
    prefix.truncate(depth);
}

/// The names that the tree behind `use` gives, up to its semicolon.
fn leaves(tokens: &[TokenTree], prefix: &mut Vec<String>, exports: &mut Vec<ReExport>) {
    let (depth, mut rest) = (prefix.len(), tokens);
    loop {
        match rest {
            [TokenTree::Ident(ident), behind @ ..] => {
                prefix.push(ident.to_string());
                rest = behind;
            }
            [TokenTree::Group(group), ..] => {
                for tree in split(&group.stream().into_iter().collect::<Vec<_>>()) {
                    leaves(tree, prefix, exports);
                }
                break;
            }
            _ => break,
        }
        if is_punct(rest.first(), ':') {
            rest = rest.get(2..).unwrap_or_default();
            continue;
        }
        let renamed = match rest {
            [TokenTree::Ident(keyword), TokenTree::Ident(name), ..] if *keyword == "as" => {
                Some(name.to_string())
            }
            _ => None,
        };
        if let Some(name) = renamed.or_else(|| prefix.last().cloned()) {
            exports.push(ReExport { name, segments: prefix.clone() });
        }
        break;
    }
    prefix.truncate(depth);
}

fn split(tokens: &[TokenTree]) -> impl Iterator<Item = &[TokenTree]> {
    tokens.split(|token| is_punct(Some(token), ',')).filter(|tree| !tree.is_empty())
}

fn declared(tokens: &[TokenTree], is_associated: bool, types: &mut Vec<(String, usize)>) {
    const KEYWORDS: [&str; 5] = ["struct", "enum", "union", "trait", "type"];
    let mut opens_a_block = false;
    for (at, token) in tokens.iter().enumerate() {
        match token {
            TokenTree::Ident(ident) => {
                let word = ident.to_string();
                opens_a_block |= word == "impl" || word == "trait";
                if let Some(TokenTree::Ident(name)) =
                    tokens.get(at + 1).filter(|_| KEYWORDS.contains(&word.as_str()))
                    && !(is_associated && word == "type")
                    && name.to_string().starts_with(char::is_uppercase)
                {
                    types.push((name.to_string(), name.span().start().line));
                }
            }
            TokenTree::Group(group) => {
                let is_block = group.delimiter() == Delimiter::Brace;
                let inner: Vec<_> = group.stream().into_iter().collect();
                declared(&inner, is_block && opens_a_block, types);
                opens_a_block &= !is_block;
            }
            TokenTree::Punct(punct) => opens_a_block &= punct.as_char() != ';',
            TokenTree::Literal(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> RustSource {
        RustSource::parse("a.rs", text).unwrap()
    }

    fn local(text: &str) -> Vec<String> {
        parse(text).local_paths().iter().map(|path| path.segments.join("::")).collect()
    }

    #[test]
    fn paths_are_found_wherever_they_stand_and_not_in_comments_or_strings() {
        let text = r#"
            //! crate::not::this
            use crate::{a::{self, B}, c};
            fn f() -> super::D { println!("crate::nor::that {}", crate::e::f::<u8>()) }
            pub(crate) struct G;
        "#;
        assert_eq!(local(text), ["crate::a::self", "crate::a::B", "crate::c", "super::D", "crate::e::f"]);
    }

    #[test]
    fn what_only_tests_use_is_left_out() {
        let source = parse(
            "use crate::a;\n#[cfg(test)]\nmod helpers;\n#[cfg(test)]\npub(crate) mod tests { use crate::b; }\nuse crate::c;",
        )
        .without_tests();
        assert_eq!(source.test_modules, ["helpers"]);
        assert_eq!(source.local_paths().last().unwrap().line, 6);
        assert_eq!(source.local_paths().len(), 2);
    }

    #[test]
    fn re_exports_have_the_name_that_others_use() {
        let exports =
            parse("mod a;\nuse x::Y;\npub use a::{B, c::D as E};\npub(crate) use f::G;").re_exports();
        let named: Vec<_> =
            exports.iter().map(|export| format!("{}={}", export.name, export.segments.join("::"))).collect();
        assert_eq!(named, ["B=a::B", "E=a::c::D", "G=f::G"]);
    }

    #[test]
    fn types_are_counted_where_they_are_declared_and_not_where_they_are_associated() {
        let text = "struct A; impl B for A { type C = u8; fn f() { enum D {} } }\n\
                    trait E { type F; }\ntype G<T> = Vec<T>; mod h { pub union I {} }";
        let names: Vec<_> = parse(text).types().into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["A", "D", "E", "G", "I"]);
        assert_eq!(parse("// struct A;\nstruct B;").types(), [("B".to_owned(), 2)]);
    }
}
