//! A rule test's YAML as a tree in which every node knows its place.
//!
//! First step of reading: text → events of the parser → [`Node`]s. The parser
//! is the one that rule files are read with. A scalar stays the text that was
//! written, so that a user `007` is not the user 7.
//!
//! Invariant: a tree is at most [`ALIASED_MAX`] nodes larger than its text.
//!
//! Deliberately not here: which fields there are, and what they mean.

use std::collections::HashMap;
use std::rc::Rc;

use granit_parser::{Event, Marker, Parser, ScalarStyle, ScanError};

use super::report::{Place, Report, quoted};

/// Maps and lists nest at most this deep; a rule test needs nine levels.
const NESTING_MAX: usize = 64;
/// Aliases add at most this many nodes: aliases of aliases grow without end.
const ALIASED_MAX: usize = 100_000;

/// A piece of YAML and where it stands.
#[derive(Debug, Clone)]
pub(super) struct Node {
    pub(super) at: Place,
    pub(super) kind: Rc<Kind>,
    /// How many nodes this is, with aliases followed.
    weight: usize,
}

/// What a piece of YAML is.
#[derive(Debug)]
pub(super) enum Kind {
    /// As written, without quotes; `is_null` for `~`, `null` and nothing.
    Scalar {
        text: String,
        is_null: bool,
    },
    Map(Vec<(Node, Node)>),
    List(Vec<Node>),
}

impl Node {
    fn new(at: Place, kind: Kind) -> Self {
        let inner = match &kind {
            Kind::Scalar { .. } => 0,
            Kind::List(items) => sum(items.iter()),
            Kind::Map(pairs) => sum(pairs.iter().flat_map(|(key, value)| [key, value])),
        };
        Self { at, kind: Rc::new(kind), weight: inner.saturating_add(1) }
    }

    /// What a message calls it.
    pub(super) fn shown(&self) -> String {
        match &*self.kind {
            Kind::Scalar { is_null: true, .. } => "empty".to_owned(),
            Kind::Scalar { text, .. } => quoted(text),
            Kind::Map(_) => "a map".to_owned(),
            Kind::List(_) => "a list".to_owned(),
        }
    }
}

fn sum<'a>(nodes: impl Iterator<Item = &'a Node>) -> usize {
    nodes.fold(0, |sum, node| sum.saturating_add(node.weight))
}

/// The one document of `text`; none if there is none, or it is not YAML, which
/// is reported.
pub(super) fn parse(text: &str, report: &mut Report) -> Option<Node> {
    let options = granit_parser::options! {
        emit_unresolved_aliases: true,
        emit_comments: false,
        flow_nesting_limit: NESTING_MAX,
        block_nesting_limit: NESTING_MAX,
    };
    let mut builder = Builder { open: Vec::new(), anchors: HashMap::new(), aliased: 0, root: None };
    let mut documents = 0;
    for next in Parser::new_from_str_with_options(text, options) {
        let (event, span) = match next {
            Ok(next) => next,
            Err(error) => {
                syntax(&error, report);
                return None;
            }
        };
        let at = place(&span.start);
        documents += usize::from(matches!(event, Event::DocumentStart(..)));
        if documents > 1 {
            report.error(
                at,
                "only one document per file is read",
                "write further tests in the list below tests:",
            );
            return None;
        }
        if let Err((message, help)) = builder.take(event, at) {
            report.error(at, message, help);
            return None;
        }
    }
    builder.root
}

fn place(marker: &Marker) -> Place {
    Place { line: marker.line(), column: marker.col() + 1 }
}

fn syntax(error: &ScanError, report: &mut Report) {
    let message = format!("this is not YAML: {}", error.kind());
    report.error(place(error.marker()), message, "write it as YAML, with every level indented by spaces");
}

struct Builder {
    open: Vec<Open>,
    /// Finished nodes by the number of their anchor.
    anchors: HashMap<usize, Node>,
    /// How many nodes aliases have added.
    aliased: usize,
    root: Option<Node>,
}

/// A map or list whose end has not come yet.
struct Open {
    at: Place,
    anchor: usize,
    /// Keys and values in turn if it is a map.
    nodes: Vec<Node>,
    is_map: bool,
}

/// What is wrong, and what to write instead.
type Refusal = (String, &'static str);

impl Builder {
    fn take(&mut self, event: Event<'_>, at: Place) -> Result<(), Refusal> {
        match event {
            Event::Scalar(text, style, anchor, _) => {
                let is_null = style == ScalarStyle::Plain && matches!(&*text, "" | "~" | "null");
                let kind = Kind::Scalar { text: text.into_owned(), is_null };
                self.add(Node::new(at, kind), anchor);
            }
            Event::SequenceStart(_, anchor, _) => {
                self.open.push(Open { at, anchor, nodes: Vec::new(), is_map: false });
            }
            Event::MappingStart(_, anchor, _) => {
                self.open.push(Open { at, anchor, nodes: Vec::new(), is_map: true });
            }
            Event::SequenceEnd | Event::MappingEnd => {
                let Some(open) = self.open.pop() else { return Ok(()) };
                let kind = if open.is_map { Kind::Map(pairs(open.nodes)) } else { Kind::List(open.nodes) };
                self.add(Node::new(open.at, kind), open.anchor);
            }
            Event::Alias(anchor) => {
                let node = self.alias(anchor)?;
                self.add(Node { at, ..node }, 0);
            }
            Event::UnresolvedAlias(name) => {
                let name = quoted(&name);
                return Err((
                    format!("alias {name} has no anchor"),
                    "write & and its name before what it stands for, further up",
                ));
            }
            Event::StreamStart | Event::StreamEnd | Event::DocumentStart(..) | Event::DocumentEnd | _ => {}
        }
        Ok(())
    }

    fn alias(&mut self, anchor: usize) -> Result<Node, Refusal> {
        let Some(node) = self.anchors.get(&anchor).cloned() else {
            return Err(("an alias stands inside of its own anchor".to_owned(), "write out what is meant"));
        };
        self.aliased = self.aliased.saturating_add(node.weight);
        if self.aliased > ALIASED_MAX {
            return Err(("aliases make the file too large".to_owned(), "write fewer aliases of aliases"));
        }
        Ok(node)
    }

    fn add(&mut self, node: Node, anchor: usize) {
        if anchor > 0 {
            self.anchors.insert(anchor, node.clone());
        }
        match self.open.last_mut() {
            Some(open) => open.nodes.push(node),
            None => self.root = Some(node),
        }
    }
}

fn pairs(nodes: Vec<Node>) -> Vec<(Node, Node)> {
    let mut pairs = Vec::with_capacity(nodes.len() / 2);
    let mut nodes = nodes.into_iter();
    while let (Some(key), Some(value)) = (nodes.next(), nodes.next()) {
        pairs.push((key, value));
    }
    pairs
}
