//! Rule files as people write them, right and wrong: `spec/rule-files/`.
//!
//! Each file or folder below `valid` and `invalid` is one case. Beside it
//! stands what is said about it, word for word: `NAME.expected` for an invalid
//! one, `NAME.warnings` for a valid one if there is anything to say. Domains
//! are merged in a folder whose name ends in `.merge`.

mod hostile;
mod meaning;
mod on_disk;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use tollgate_rules::{LoadError, Loaded, Options, SourceFile, load, read};

/// Fewer cases than this would mean that they are not found.
const VALID_MIN: usize = 20;
const INVALID_MIN: usize = 40;

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../spec/rule-files").join(name)
}

fn load_text(text: &str) -> Result<Loaded, LoadError> {
    load(vec![SourceFile { name: "rules.yaml".into(), text: text.into() }], &Options::default())
}

/// What is wrong with a text, one line each.
fn problems_of(text: &str) -> String {
    load_text(text).expect_err("the text is wrong").to_string()
}

struct RuleFileCase {
    name: String,
    sources: Vec<SourceFile>,
    options: Options,
}

impl RuleFileCase {
    fn of(path: &Path) -> Option<Self> {
        let name = name_of(path);
        let above = path.parent().expect("a case is in a folder");
        if path.is_dir() {
            let mut sources = read(&[path.to_owned()]).expect("the files of a case can be read");
            for source in &mut sources {
                let below = Path::new(&source.name).strip_prefix(above).expect("it is below");
                source.name = below.display().to_string();
            }
            let merge_domains = name.ends_with(".merge");
            return Some(Self { name, sources, options: Options { merge_domains, ..Options::default() } });
        }
        let case = name.strip_suffix(".yaml")?.to_owned();
        let text = fs::read_to_string(path).expect("a case can be read");
        Some(Self { name: case, sources: vec![SourceFile { name, text }], options: Options::default() })
    }

    fn load(&self) -> Result<Loaded, LoadError> {
        load(self.sources.clone(), &self.options)
    }
}

fn name_of(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// The cases of a folder and the names of all other files in it.
fn cases(folder: &Path) -> (Vec<RuleFileCase>, BTreeSet<String>) {
    let entries = fs::read_dir(folder).expect("the folder of cases is there");
    let mut paths: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    paths.sort();
    let (mut cases, mut others) = (Vec::new(), BTreeSet::new());
    for path in paths {
        match RuleFileCase::of(&path) {
            Some(case) => cases.push(case),
            None => {
                others.insert(name_of(&path));
            }
        }
    }
    (cases, others)
}

fn lines(problems: &[impl ToString]) -> String {
    problems.iter().map(|problem| format!("{}\n", problem.to_string())).collect()
}

/// The difference as a message ready to paste, or nothing.
fn difference(path: &Path, wanted: Option<&str>, got: &str) -> String {
    let file = path.display();
    match wanted {
        Some(wanted) if wanted == got => String::new(),
        Some(wanted) => format!("\n=== {file} says\n{wanted}=== but it is\n{got}===\n"),
        None => format!("\n=== {file} is missing; write\n{got}===\n"),
    }
}

#[test]
fn every_valid_file_loads_with_exactly_its_warnings() {
    let folder = folder("valid");
    let (cases, mut others) = cases(&folder);
    assert!(cases.len() >= VALID_MIN);
    let mut differences = String::new();
    for case in &cases {
        let name = format!("{}.warnings", case.name);
        let path = folder.join(&name);
        let wanted = if others.remove(&name) { fs::read_to_string(&path).unwrap() } else { String::new() };
        match case.load() {
            Ok(loaded) => differences += &difference(&path, Some(&wanted), &lines(&loaded.warnings)),
            Err(error) => differences += &format!("\n=== {} does not load\n{error}\n", case.name),
        }
    }
    assert!(differences.is_empty(), "{differences}");
    assert_eq!(others, BTreeSet::new(), "these belong to no case");
}

#[test]
fn every_invalid_file_is_refused_word_for_word() {
    let folder = folder("invalid");
    let (cases, mut others) = cases(&folder);
    assert!(cases.len() >= INVALID_MIN);
    let mut differences = String::new();
    for case in &cases {
        let name = format!("{}.expected", case.name);
        let path = folder.join(&name);
        let wanted = others.remove(&name).then(|| fs::read_to_string(&path).unwrap());
        match case.load() {
            Ok(_) => differences += &format!("\n=== {} loads\n", case.name),
            Err(error) => {
                differences += &difference(&path, wanted.as_deref(), &lines(&error.problems));
            }
        }
    }
    assert!(differences.is_empty(), "{differences}");
    assert_eq!(others, BTreeSet::new(), "these belong to no case");
}

#[test]
fn the_order_in_which_files_are_given_does_not_matter() {
    for name in ["valid/one-domain.merge", "invalid/same-domain", "invalid/same-descriptor.merge"] {
        let case = RuleFileCase::of(&folder(name)).unwrap();
        let told = |sources: Vec<SourceFile>| match load(sources, &case.options) {
            Ok(loaded) => lines(&loaded.rules.rules().iter().map(|rule| &rule.path).collect::<Vec<_>>()),
            Err(error) => lines(&error.problems),
        };
        let reversed = case.sources.iter().rev().cloned().collect();
        assert_eq!(told(case.sources.clone()), told(reversed), "{name}");
    }
}

#[test]
fn every_problem_shows_the_line_it_is_about() {
    let (cases, _) = cases(&folder("invalid"));
    for case in &cases {
        for problem in case.load().unwrap_err().problems {
            let rendered = problem.render();
            let source = case.sources.iter().find(|source| source.name == problem.file).unwrap();
            let line = source.text.lines().nth(problem.line - 1).unwrap_or_default();
            let caret = rendered.lines().nth(4).unwrap().chars().position(|c| c == '^').unwrap();
            let shown = rendered.lines().nth(3).unwrap();
            assert!(shown.ends_with(&line.replace('\t', " ")), "{}: {rendered}", case.name);
            assert!(caret <= shown.chars().count(), "{}: {rendered}", case.name);
        }
    }
}
