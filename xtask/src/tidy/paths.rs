//! Rules about paths in the text of files: none may lead out of the repository.
//!
//! A clone with nothing beside it must pass every step. Paths that begin with `..` are resolved as the
//! program that reads them would: from the folder of the file; in Rust from the folder of the crate
//! where the line names it, and from the root where nothing says otherwise.
//! Not here: whether the target exists, which tests and compilers find out.

use super::leftovers::each_line;
use super::tree::{File, FileTree};
use super::violation::Violation;

/// Where folders of one machine begin.
const MACHINE_FOLDERS: &[&str] =
    &[concat!("/wo", "rk/"), concat!("/ro", "ot/"), concat!("/ho", "me/"), concat!("/Us", "ers/")];

/// No path that exists on one machine only.
pub(super) fn of_one_machine(tree: &FileTree) -> Vec<Violation> {
    each_line(tree.files(), |line| {
        let begins_a_path = |folder: &&&str| {
            // Inside a longer path or an address it is not the root's.
            let inside = |c: char| c.is_alphanumeric() || "._-~*})>/".contains(c);
            line.match_indices(**folder).any(|(at, _)| !line.split_at(at).0.ends_with(inside))
        };
        let folder = MACHINE_FOLDERS.iter().find(begins_a_path)?;
        Some((format!("a path below {folder}"), "write it from the root of the repository".to_owned()))
    })
}

/// No path that leads to what lies beside the repository.
pub(super) fn out_of_the_repository(tree: &FileTree) -> Vec<Violation> {
    let check = |file: &File| {
        each_line([file], |line| {
            let depth = depth_of_base(file, line);
            let path = paths(line).find(|path| steps_out(path) > depth)?;
            let remedy = "bring what is needed into the repository, or name the folder that the path begins \
                          in, such as CARGO_MANIFEST_DIR";
            Some((format!("`{path}` leads out of the repository"), remedy.to_owned()))
        })
    };
    tree.files().iter().flat_map(check).collect()
}

/// How many folders below the root the paths of a line begin.
fn depth_of_base(file: &File, line: &str) -> usize {
    let folders = file.path.matches('/').count();
    let by_file = ["include_str!", "include_bytes!", "#[path"];
    match file.extension() {
        Some("rs") if line.contains("CARGO_MANIFEST_DIR") => {
            if file.path.starts_with("crates/") {
                2
            } else {
                1
            }
        }
        Some("rs") if !by_file.iter().any(|name| line.contains(name)) => 0,
        Some(_) | None => folders,
    }
}

/// The words of a line that begin with a step up; with a slash before it only where another path is
/// put in front.
fn paths(line: &str) -> impl Iterator<Item = &str> {
    let in_a_path = |c: char| c.is_alphanumeric() || "._-/".contains(c);
    let is_joined = line.contains("CARGO_MANIFEST_DIR");
    let words = line.split(move |c: char| !in_a_path(c));
    let words = words.map(move |word| if is_joined { word.trim_start_matches('/') } else { word });
    words.filter(|word| word.split_once('/').is_some_and(|(first, _)| first == ".."))
}

/// How many folders the path goes up in all before it goes down.
fn steps_out(path: &str) -> usize {
    path.split('/').take_while(|part| *part == "..").count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(rule: fn(&FileTree) -> Vec<Violation>, path: &str, lines: &[&str]) -> Vec<usize> {
        let tree = FileTree::of_texts(&[(path, &lines.join("\n"))]);
        let number = |violation: &Violation| violation.place().rsplit(':').next().unwrap().parse().unwrap();
        rule(&tree).iter().map(number).collect()
    }

    #[test]
    fn a_path_of_one_machine_is_reported() {
        let text = [
            concat!("\"/wo", "rk/main\""),
            concat!("cd /ro", "ot/x"),
            concat!("/ho", "me/me/x"),
            concat!("docs/wo", "rk/page.md"),
            concat!("https://example.com/ho", "me/"),
            "/var/lib/tollgate",
        ];
        assert_eq!(lines(of_one_machine, "a.rs", &text), [1, 2, 3]);
    }

    #[test]
    fn a_path_to_what_lies_beside_the_repository_is_reported() {
        // `^` stands for a step up, or this file would be reported.
        let up = |lines: &[&str]| lines.iter().map(|line| line.replace('^', "..")).collect::<Vec<_>>();
        let code = up(&[
            r#"Path::new(env!("CARGO_MANIFEST_DIR")).join("^/^/spec")"#,
            r#"Path::new(env!("CARGO_MANIFEST_DIR")).join("^/^/^/data")"#,
            r#"concat!(env!("CARGO_MANIFEST_DIR"), "/^/^/^/data")"#,
            r#"include_str!("^/^/^/lua/a.lua")"#,
            r#"const TOOLS: &str = "^/tools";"#,
            r#"normal("/^/^/a"), normal("/x/^/y"), "a/^/b", 1^2"#,
        ]);
        let code: Vec<_> = code.iter().map(String::as_str).collect();
        assert_eq!(lines(out_of_the_repository, "crates/a/src/b/c.rs", &code), [2, 3, 5]);
        let prose = up(&["[page](^/^/spec/a.md)", "[data](^/^/^/data)"]);
        let prose: Vec<_> = prose.iter().map(String::as_str).collect();
        assert_eq!(lines(out_of_the_repository, "docs/guide/a.md", &prose), [2]);
    }
}
