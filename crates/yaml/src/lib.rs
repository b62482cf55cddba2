//! YAML with places: what stands where in a file, and what is wrong with it.
//!
//! Rule files, rule tests, `tollgate.yaml` and StatsD mappings are read with
//! it. In the order of the flow:
//!
//! | module | what it does |
//! |---|---|
//! | `source` | a path → a [`SourceFile`] |
//! | `parse` | its text → a tree of [`YamlNode`]s, each with its [`Location`] |
//! | `node`, `scalar` | what a node is: a map, a list, or a bare word of YAML 1.1 |
//! | `map` | a map → a [`YamlMap`]: known fields by type; unknown and missing ones |
//! | [`json_schema`] | what a field may be, for editors |
//! | `suggest` | the word that a misspelled one was meant to be |
//! | `problem` | [`Problems`] collects what is wrong; a [`Problem`] prints it |
//!
//! Invariant: reading goes on after a mistake, so that all of them are told at
//! once; what has a mistake is never used.
//!
//! Deliberately not here: what any key means.
//!
//! ```
//! use tollgate_yaml::{MapSchema, Problems, SourceFile, YamlMap, parse};
//!
//! const SHOP: MapSchema =
//!     MapSchema { what: "a shop", keys: &["name", "clerks"], example: "{ name: NAME, clerks: 3 }" };
//!
//! let text = "naem: Corner\nclerks: many\n";
//! let mut problems = Problems::new(vec![SourceFile { name: "shop.yaml".into(), text: text.into() }]);
//! let document = parse(0, &mut problems).unwrap();
//! let shop = YamlMap::read(&document.root, &SHOP, &mut problems).unwrap();
//! shop.required("name", "NAME", &mut problems);
//! shop.number("clerks", 1..=20, &mut problems);
//!
//! let told: Vec<String> = problems.finish().iter().map(ToString::to_string).collect();
//! assert_eq!(
//!     told,
//!     [
//!         "shop.yaml:1:1: error: unknown key 'naem'; write name",
//!         "shop.yaml:2:9: error: clerks must be a whole number, this is the text 'many'; \
//!          write clerks: N, with N from 1 to 20",
//!     ]
//! );
//! ```

pub mod json_schema;
mod map;
mod node;
mod parse;
mod problem;
mod scalar;
mod source;
mod suggest;

pub use map::{MapSchema, YamlField, YamlMap};
pub use node::{Located, MapEntry, YamlNode, YamlValue};
pub use parse::{ALIASED_MAX, NESTING_MAX, YamlDocument, parse};
pub use problem::{LoadError, Location, PROBLEMS_MAX, Problem, Problems, Severity, SourceFile, quoted};
pub use scalar::{ScalarType, YamlScalar};
pub use source::FILE_BYTES_MAX;
pub use suggest::{nearest, one_of};
