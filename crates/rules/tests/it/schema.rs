//! The schema for editors, held against the rule files of the specification by a validator of others.

use std::fs;
use std::path::{Path, PathBuf};

use jsonschema::Validator;
use serde_json::Value;

/// Mistakes that take more than the shape of one map to tell, so that no schema finds them.
const NOT_BY_SHAPE: &[&str] = &[
    "binary",
    "burst-makes-no-limit",
    "date-unquoted",
    "descriptor-twice-by-alias",
    "descriptor-twice-by-underscore",
    "descriptor-twice-nested",
    "descriptor-twice",
    "fraction-below-misplaced",
    "log-too-long",
    "replaces-itself",
    "share-without-pattern",
    "unknown-key-below-misplaced",
];

/// Valid files that parsers of YAML 1.2 refuse or read otherwise: two documents, a key twice, a map that
/// is merged into one that is there, numbers as YAML 1.1 has them.
const NOT_READ_ALIKE: &[&str] =
    &["document-start", "merge-keys", "warned-key-twice", "warned-second-document", "yaml-1-1"];

fn files(folder: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../spec/rule-files").join(folder);
    let mut files: Vec<PathBuf> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| path.extension().is_some_and(|extension| extension == "yaml"));
    files.sort();
    files
}

/// What an editor's parser reads; none if it is no YAML.
fn value(path: &Path) -> Option<Value> {
    serde_saphyr::from_slice(&fs::read(path).unwrap()).ok()
}

fn name(path: &Path) -> String {
    path.file_stem().unwrap().to_string_lossy().into_owned()
}

fn validator() -> Validator {
    jsonschema::draft7::new(&tollgate_rules::schema()).expect("the schema is one")
}

#[test]
fn every_valid_rule_file_passes() {
    let validator = validator();
    let mut strange = Vec::new();
    for path in files("valid") {
        let wrong = match value(&path) {
            Some(value) => validator
                .iter_errors(&value)
                .map(|error| format!("{error} at {}", error.instance_path))
                .collect::<Vec<_>>(),
            None => vec!["it is not read".to_owned()],
        };
        if !wrong.is_empty() {
            println!("{}: {wrong:?}", name(&path));
            strange.push(name(&path));
        }
    }
    assert_eq!(strange, NOT_READ_ALIKE);
}

#[test]
fn invalid_rule_files_fail_unless_it_takes_more_than_the_shape_to_tell() {
    let validator = validator();
    let passes = |path: &PathBuf| value(path).is_some_and(|value| validator.is_valid(&value));
    let missed: Vec<String> =
        files("invalid").iter().filter(|path| passes(path)).map(|path| name(path)).collect();
    assert_eq!(missed, NOT_BY_SHAPE);
}
