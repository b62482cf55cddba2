//! YAML text as a tree in which every node knows its place.
//!
//! After the source and before its meaning: text → events of the parser →
//! [`YamlNode`]s. An alias stands for what its anchor named; the two share memory.
//!
//! Invariant: a tree is at most [`NESTING_MAX`] deep with its aliases followed,
//! and at most [`ALIASED_MAX`] nodes larger than the text, so that whoever
//! walks it may recurse and ends soon.
//!
//! Deliberately not here: merge keys and keys given twice; they depend on what
//! a map is read as. Further documents of the file: only the first counts.

use std::borrow::Cow;
use std::collections::HashMap;

use granit_parser::{ErrorKind, Event, Marker, Parser, ScalarStyle, ScanError, Tag};

use crate::node::{YamlNode, YamlValue};
use crate::problem::{Location, Problems, quoted};
use crate::scalar::{ScalarType, YamlScalar};
use crate::source::{FILE_BYTES_MAX, TOO_LARGE};

/// Maps and lists nest at most this deep: more than twice the depth of rules,
/// each level of which is a list and a map, and shallow enough to recurse.
pub const NESTING_MAX: usize = 200;
/// Aliases add at most this many nodes. Ten aliases of ten aliases of … grow
/// without end; a real file of this size has written them out.
pub const ALIASED_MAX: usize = 1_000_000;

/// The first document of a file.
#[derive(Debug)]
pub struct YamlDocument {
    /// What it says; null if the file is empty.
    pub root: YamlNode,
    /// Where a second document begins that is not empty. It is not read.
    pub second: Option<Location>,
}

/// Reads the first document of a file; none if it is not YAML, which is
/// reported.
pub fn parse(file: usize, problems: &mut Problems) -> Option<YamlDocument> {
    let sources = problems.sources();
    let text = sources.get(file).map_or("", |source| source.text.as_str());
    if text.len() > FILE_BYTES_MAX {
        problems.error(Location { file, ..Location::default() }, TOO_LARGE.0, TOO_LARGE.1);
        return None;
    }
    let options = granit_parser::options! {
        emit_unresolved_aliases: true,
        emit_comments: false,
        flow_nesting_limit: NESTING_MAX,
        block_nesting_limit: NESTING_MAX,
    };
    let mut parser = Parser::new_from_str_with_options(text, options);
    let mut builder = NodeBuilder { file, problems, open: Vec::new(), anchors: HashMap::new(), aliased: 0 };
    while let Some(next) = parser.next_event() {
        let (event, span) = match next {
            Ok(next) => next,
            Err(error) => {
                builder.syntax(&error);
                return None;
            }
        };
        match builder.take(event, location(file, &span.start)) {
            ParseStep::Next => {}
            ParseStep::Done(root) => {
                return Some(YamlDocument { root, second: second(|| parser.next_event(), file) });
            }
            ParseStep::Stop => return None,
        }
    }
    let at = Location { file, line: 1, column: 1 };
    let null = YamlScalar { text: String::new(), is_plain: true };
    Some(YamlDocument { root: YamlNode::leaf(at, YamlValue::Scalar(null)), second: None })
}

type NextEvent<'a> = Option<Result<(Event<'a>, granit_parser::Span), ScanError>>;

/// Where another document begins, unless it is empty.
fn second<'a>(mut next: impl FnMut() -> NextEvent<'a>, file: usize) -> Option<Location> {
    let is_over = |event: &Event<'_>| matches!(event, Event::DocumentEnd | Event::StreamEnd);
    let start = std::iter::from_fn(&mut next).find(|next| match next {
        Ok((event, _)) => !is_over(event),
        Err(_) => true,
    });
    let at = match start? {
        Ok((_, span)) => location(file, &span.start),
        Err(error) => location(file, error.marker()),
    };
    let is_empty = match next() {
        Some(Ok((Event::Scalar(text, style, ..), _))) => {
            let scalar = YamlScalar { text: text.into_owned(), is_plain: style == ScalarStyle::Plain };
            scalar.resolve() == ScalarType::Null
        }
        Some(_) => false,
        None => true,
    };
    (!is_empty).then_some(at)
}

fn location(file: usize, marker: &Marker) -> Location {
    Location { file, line: marker.line(), column: marker.col() + 1 }
}

struct NodeBuilder<'r> {
    file: usize,
    problems: &'r mut Problems,
    open: Vec<OpenNode>,
    /// Finished nodes by the number of their anchor.
    anchors: HashMap<usize, YamlNode>,
    /// How many nodes aliases have added.
    aliased: usize,
}

/// A map or list whose end has not come yet.
struct OpenNode {
    at: Location,
    anchor: usize,
    /// Keys and values in turn if it is a map.
    nodes: Vec<YamlNode>,
    is_map: bool,
}

enum ParseStep {
    Next,
    Done(YamlNode),
    Stop,
}

impl NodeBuilder<'_> {
    #[expect(clippy::wildcard_enum_match_arm, reason = "only nodes matter, whatever else the parser tells")]
    fn take(&mut self, event: Event<'_>, at: Location) -> ParseStep {
        match event {
            Event::Scalar(text, style, anchor, tag) => {
                let kind = self.scalar(text.into_owned(), style, tag.as_deref(), at);
                self.add(YamlNode::leaf(at, kind), anchor)
            }
            Event::SequenceStart(_, anchor, _) => self.start(at, anchor, false),
            Event::MappingStart(_, anchor, _) => self.start(at, anchor, true),
            Event::SequenceEnd | Event::MappingEnd => {
                let Some(open) = self.open.pop() else { return ParseStep::Next };
                let node = if open.is_map {
                    YamlNode::map(open.at, pairs(open.nodes))
                } else {
                    YamlNode::list(open.at, open.nodes)
                };
                self.add(node, open.anchor)
            }
            Event::Alias(anchor) => {
                let kind = self.alias(anchor, at);
                self.add(kind, 0)
            }
            Event::UnresolvedAlias(name) => {
                let (name, anchor) = (quoted(&format!("*{name}")), quoted(&format!("&{name}")));
                let help = format!("write {anchor} before what it stands for, further up in this file");
                self.problems.error(at, format!("alias {name} has no anchor"), help);
                self.add(YamlNode::leaf(at, YamlValue::Broken), 0)
            }
            _ => ParseStep::Next,
        }
    }

    fn scalar(&mut self, text: String, style: ScalarStyle, tag: Option<&Tag>, at: Location) -> YamlValue {
        let tag = tag.map(|tag| tag.suffix_in_namespace("tag:yaml.org,2002:").unwrap_or(Cow::Borrowed("!")));
        let tag = tag.as_deref();
        if tag == Some("binary") {
            self.problems.error(at, "!!binary is not supported", "write the text itself");
            return YamlValue::Broken;
        }
        // A tag says what a scalar is; one that nobody knows makes it a text.
        let is_plain = match tag {
            None => style == ScalarStyle::Plain,
            Some(tag) => ["bool", "float", "int", "merge", "null", "timestamp"].contains(&tag),
        };
        YamlValue::Scalar(YamlScalar { text, is_plain })
    }

    fn start(&mut self, at: Location, anchor: usize, is_map: bool) -> ParseStep {
        if self.open.len() >= NESTING_MAX {
            self.too_deep(at);
            return ParseStep::Stop;
        }
        self.open.push(OpenNode { at, anchor, nodes: Vec::new(), is_map });
        ParseStep::Next
    }

    fn alias(&mut self, anchor: usize, at: Location) -> YamlNode {
        let broken = YamlNode::leaf(at, YamlValue::Broken);
        let Some(target) = self.anchors.get(&anchor) else {
            let help = "write out what is meant instead of the alias";
            self.problems.error(at, "an alias stands inside of its own anchor", help);
            return broken;
        };
        let node = YamlNode { at, ..target.clone() };
        if self.open.len() + node.depth > NESTING_MAX {
            self.too_deep(at);
            return broken;
        }
        let was_within = self.aliased <= ALIASED_MAX;
        self.aliased = self.aliased.saturating_add(node.weight);
        if self.aliased > ALIASED_MAX {
            if was_within {
                let message = format!("aliases make the file more than {ALIASED_MAX} nodes larger");
                self.problems.error(at, message, "write fewer aliases of aliases");
            }
            return broken;
        }
        node
    }

    fn add(&mut self, node: YamlNode, anchor: usize) -> ParseStep {
        if anchor > 0 {
            self.anchors.insert(anchor, node.clone());
        }
        match self.open.last_mut() {
            Some(open) => {
                open.nodes.push(node);
                ParseStep::Next
            }
            None => ParseStep::Done(node),
        }
    }

    fn too_deep(&mut self, at: Location) {
        let message = format!("maps and lists are nested deeper than {NESTING_MAX} levels");
        self.problems.error(at, message, "write fewer levels");
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "the parser has its own words for most of them")]
    fn syntax(&mut self, error: &ScanError) {
        let at = location(self.file, error.marker());
        let (message, help) = match error.kind() {
            ErrorKind::RecursionLimitExceeded => return self.too_deep(at),
            ErrorKind::TabNotAllowed
            | ErrorKind::TabInBlockIndentation
            | ErrorKind::TabInIndentation
            | ErrorKind::TabInPlainScalar => ("a tab where only spaces may stand".to_owned(), "write spaces"),
            ErrorKind::UnclosedQuotedScalar => {
                ("a quote is not closed".to_owned(), "write the closing quote at the end of the text")
            }
            ErrorKind::InvalidQuotedScalarIndent => (
                "a text in quotes goes on here, not indented".to_owned(),
                "close the quote, or indent the lines on which it goes on",
            ),
            ErrorKind::PlainScalarStartsWithDashFlowIndicator => {
                ("a '-' that stands alone".to_owned(), "write it in quotes if it is a text")
            }
            ErrorKind::MappingValueNotAllowed => (
                "a ':' where no key ends".to_owned(),
                "write a text with ': ' in quotes, or indent the line like its neighbours",
            ),
            kind => {
                (format!("this is not YAML: {kind}"), "write it as YAML, with every level indented by spaces")
            }
        };
        self.problems.error(at, message, help);
    }
}

fn pairs(nodes: Vec<YamlNode>) -> Vec<(YamlNode, YamlNode)> {
    let mut pairs = Vec::with_capacity(nodes.len() / 2);
    let mut nodes = nodes.into_iter();
    while let (Some(key), Some(value)) = (nodes.next(), nodes.next()) {
        pairs.push((key, value));
    }
    pairs
}
