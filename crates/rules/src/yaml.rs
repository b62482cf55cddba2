//! YAML text as a tree in which every node knows its place.
//!
//! First step of loading: text → events of the parser → [`Node`]s. What the
//! nodes mean is found by the walk that comes after.
//!
//! Only the first document counts, as in envoyproxy/ratelimit. An alias stands
//! for what its anchor named; the two share memory.
//!
//! Invariant: a tree is at most [`NESTING_MAX`] deep with its aliases followed,
//! and at most [`ALIASED_MAX`] nodes larger than the text, so that every walk
//! may recurse and ends soon.
//!
//! Deliberately not here: merge keys and keys given twice; they depend on what
//! a map is read as.

mod scalar;

use std::borrow::Cow;
use std::collections::HashMap;
use std::rc::Rc;

use granit_parser::{ErrorKind, Event, Marker, Parser, ScalarStyle, ScanError, Tag};

use super::problem::{Place, Report, quoted};
pub(crate) use scalar::{Resolved, Scalar};

/// Maps and lists nest at most this deep: more than twice the depth of rules,
/// each level of which is a list and a map, and shallow enough to recurse.
pub const NESTING_MAX: usize = 200;
/// Aliases add at most this many nodes. Ten aliases of ten aliases of … grow
/// without end; a real file of this size has written them out.
pub const ALIASED_MAX: usize = 1_000_000;

/// A piece of YAML and where it stands.
#[derive(Debug, Clone)]
pub(crate) struct Node {
    pub(crate) at: Place,
    pub(crate) kind: Rc<Kind>,
    /// How many nodes this is, with aliases followed.
    weight: usize,
    /// How many levels of maps and lists this is, with aliases followed.
    depth: usize,
}

/// What a piece of YAML is.
#[derive(Debug)]
pub(crate) enum Kind {
    Scalar(Scalar),
    Map(Vec<(Node, Node)>),
    List(Vec<Node>),
    /// Reported already; nothing more is said about it.
    Broken,
}

impl Node {
    fn leaf(at: Place, kind: Kind) -> Self {
        Self { at, kind: Rc::new(kind), weight: 1, depth: 0 }
    }

    fn list(at: Place, items: Vec<Self>) -> Self {
        let weight = items.iter().fold(1, |sum: usize, item| sum.saturating_add(item.weight));
        let depth = items.iter().map(|item| item.depth).max().unwrap_or(0) + 1;
        Self { at, kind: Rc::new(Kind::List(items)), weight, depth }
    }

    /// A map of these pairs.
    pub(crate) fn map(at: Place, pairs: Vec<(Self, Self)>) -> Self {
        let nodes = || pairs.iter().flat_map(|(key, value)| [key, value]);
        let weight = nodes().fold(1, |sum: usize, node| sum.saturating_add(node.weight));
        let depth = nodes().map(|node| node.depth).max().unwrap_or(0) + 1;
        Self { at, kind: Rc::new(Kind::Map(pairs)), weight, depth }
    }

    /// Whether this is `null`, `~` or nothing at all.
    pub(crate) fn is_null(&self) -> bool {
        matches!(&*self.kind, Kind::Scalar(scalar) if scalar.resolve() == Resolved::Null)
    }
}

/// The first document of `text`; none if it has none, or is not YAML, which
/// is reported.
pub(crate) fn parse(text: &str, file: usize, report: &mut Report) -> Option<Node> {
    let options = granit_parser::options! {
        emit_unresolved_aliases: true,
        emit_comments: false,
        flow_nesting_limit: NESTING_MAX,
        block_nesting_limit: NESTING_MAX,
    };
    let mut parser = Parser::new_from_str_with_options(text, options);
    let mut builder = Builder { file, report, open: Vec::new(), anchors: HashMap::new(), aliased: 0 };
    while let Some(next) = parser.next_event() {
        let (event, span) = match next {
            Ok(next) => next,
            Err(error) => {
                builder.syntax(&error);
                return None;
            }
        };
        let at = place(file, &span.start);
        match builder.take(event, at) {
            Step::Next => {}
            Step::Done(root) => {
                let is_over = |event: &Event<'_>| matches!(event, Event::DocumentEnd | Event::StreamEnd);
                let rest = std::iter::from_fn(|| parser.next_event()).find(|next| match next {
                    Ok((event, _)) => !is_over(event),
                    Err(_) => true,
                });
                warn_of_more(rest, || parser.next_event(), builder.file, builder.report);
                return Some(root);
            }
            Step::Stop => return None,
        }
    }
    None
}

type Next<'a> = Option<Result<(Event<'a>, granit_parser::Span), ScanError>>;

/// A second document is ignored, as in the reference; that is said unless it is empty.
fn warn_of_more<'a>(start: Next<'a>, mut then: impl FnMut() -> Next<'a>, file: usize, report: &mut Report) {
    let at = match start {
        Some(Ok((_, span))) => place(file, &span.start),
        Some(Err(error)) => place(file, error.marker()),
        None => return,
    };
    let is_empty = match then() {
        Some(Ok((Event::Scalar(text, style, ..), _))) => {
            let scalar = Scalar { text: text.into_owned(), is_plain: style == ScalarStyle::Plain };
            scalar.resolve() == Resolved::Null
        }
        Some(_) => false,
        None => true,
    };
    if !is_empty {
        report.warning(
            at,
            "only the first document of a file is read, this one has no effect",
            "write one domain per file",
        );
    }
}

fn place(file: usize, marker: &Marker) -> Place {
    Place { file, line: marker.line(), column: marker.col() + 1 }
}

struct Builder<'r> {
    file: usize,
    report: &'r mut Report,
    open: Vec<Open>,
    /// Finished nodes by the number of their anchor.
    anchors: HashMap<usize, Node>,
    /// How many nodes aliases have added.
    aliased: usize,
}

/// A map or list whose end has not come yet.
struct Open {
    at: Place,
    anchor: usize,
    /// Keys and values in turn if it is a map.
    nodes: Vec<Node>,
    is_map: bool,
}

enum Step {
    Next,
    Done(Node),
    Stop,
}

impl Builder<'_> {
    #[expect(clippy::wildcard_enum_match_arm, reason = "only nodes matter, whatever else the parser tells")]
    fn take(&mut self, event: Event<'_>, at: Place) -> Step {
        match event {
            Event::Scalar(text, style, anchor, tag) => {
                let kind = self.scalar(text.into_owned(), style, tag.as_deref(), at);
                self.add(Node::leaf(at, kind), anchor)
            }
            Event::SequenceStart(_, anchor, _) => self.start(at, anchor, Start::List),
            Event::MappingStart(_, anchor, _) => self.start(at, anchor, Start::Map),
            Event::SequenceEnd | Event::MappingEnd => {
                let Some(open) = self.open.pop() else { return Step::Next };
                let node = if open.is_map {
                    Node::map(open.at, pairs(open.nodes))
                } else {
                    Node::list(open.at, open.nodes)
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
                self.report.error(at, format!("alias {name} has no anchor"), help);
                self.add(Node::leaf(at, Kind::Broken), 0)
            }
            _ => Step::Next,
        }
    }

    fn scalar(&mut self, text: String, style: ScalarStyle, tag: Option<&Tag>, at: Place) -> Kind {
        let tag = tag.map(|tag| tag.suffix_in_namespace("tag:yaml.org,2002:").unwrap_or(Cow::Borrowed("!")));
        let tag = tag.as_deref();
        if tag == Some("binary") {
            self.report.error(at, "!!binary is not supported", "write the text itself");
            return Kind::Broken;
        }
        // A tag says what a scalar is; one that nobody knows makes it a text.
        let is_plain = match tag {
            None => style == ScalarStyle::Plain,
            Some(tag) => ["bool", "float", "int", "merge", "null", "timestamp"].contains(&tag),
        };
        Kind::Scalar(Scalar { text, is_plain })
    }

    fn start(&mut self, at: Place, anchor: usize, start: Start) -> Step {
        if self.open.len() >= NESTING_MAX {
            self.too_deep(at);
            return Step::Stop;
        }
        self.open.push(Open { at, anchor, nodes: Vec::new(), is_map: matches!(start, Start::Map) });
        Step::Next
    }

    fn alias(&mut self, anchor: usize, at: Place) -> Node {
        let broken = Node::leaf(at, Kind::Broken);
        let Some(target) = self.anchors.get(&anchor) else {
            let help = "write out what is meant instead of the alias";
            self.report.error(at, "an alias stands inside of its own anchor", help);
            return broken;
        };
        let node = Node { at, ..target.clone() };
        if self.open.len() + node.depth > NESTING_MAX {
            self.too_deep(at);
            return broken;
        }
        let was_within = self.aliased <= ALIASED_MAX;
        self.aliased = self.aliased.saturating_add(node.weight);
        if self.aliased > ALIASED_MAX {
            if was_within {
                let message = format!("aliases make the file more than {ALIASED_MAX} nodes larger");
                self.report.error(at, message, "write fewer aliases of aliases");
            }
            return broken;
        }
        node
    }

    fn add(&mut self, node: Node, anchor: usize) -> Step {
        if anchor > 0 {
            self.anchors.insert(anchor, node.clone());
        }
        match self.open.last_mut() {
            Some(open) => {
                open.nodes.push(node);
                Step::Next
            }
            None => Step::Done(node),
        }
    }

    fn too_deep(&mut self, at: Place) {
        let message = format!("maps and lists are nested deeper than {NESTING_MAX} levels");
        self.report.error(at, message, "write fewer levels");
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "the parser has its own words for most of them")]
    fn syntax(&mut self, error: &ScanError) {
        let at = place(self.file, error.marker());
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
        self.report.error(at, message, help);
    }
}

enum Start {
    Map,
    List,
}

fn pairs(nodes: Vec<Node>) -> Vec<(Node, Node)> {
    let mut pairs = Vec::with_capacity(nodes.len() / 2);
    let mut nodes = nodes.into_iter();
    while let (Some(key), Some(value)) = (nodes.next(), nodes.next()) {
        pairs.push((key, value));
    }
    pairs
}
