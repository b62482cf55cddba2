//! Files and folders as they lie on disk, in order and not.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use tollgate_core::limit;
use tollgate_rules::read;
use tollgate_yaml::FILE_BYTES_MAX;

/// A folder of its own for each test, empty, and gone afterwards.
struct RuleFolder(PathBuf);

impl RuleFolder {
    fn new(test: &str) -> Self {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("rule_files").join(test);
        if path.exists() {
            fs::remove_dir_all(&path).expect("what an earlier run left can be removed");
        }
        fs::create_dir_all(&path).expect("the folder for tests can be written");
        Self(path)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    fn write(&self, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        fs::create_dir_all(path.parent().expect("it is in the folder")).expect("the folder can be written");
        fs::write(&path, bytes).expect("the folder can be written");
        path
    }

    /// The names that are read, or what is wrong, without the folder.
    fn read(&self, names: &[&str]) -> String {
        let paths: Vec<PathBuf> = names.iter().map(|name| self.path(name)).collect();
        let told = match read(&paths) {
            Ok(sources) => sources.iter().map(|source| source.name.as_str()).collect::<Vec<_>>().join(" "),
            Err(error) => error.to_string(),
        };
        told.replace(&format!("{}/", self.0.display()), "")
    }
}

impl Drop for RuleFolder {
    fn drop(&mut self) {
        drop(fs::remove_dir_all(&self.0));
    }
}

#[test]
fn of_a_folder_only_rule_files_are_read_and_each_once() {
    let folder = RuleFolder::new("of_a_folder");
    for name in
        ["r/b.yaml", "r/a.yml", "r/a.test.yaml", "r/x.txt", "r/.a.yaml", "r/..data/c.yaml", "r/s/d.yaml"]
    {
        folder.write(name, "domain: d");
    }
    assert_eq!(folder.read(&["r"]), "r/a.yml r/b.yaml r/s/d.yaml");
    assert_eq!(folder.read(&["r", "r/b.yaml", "r/s", "r/../r/a.yml"]), "r/a.yml r/b.yaml r/s/d.yaml");
}

#[cfg(unix)]
#[test]
fn a_kubernetes_configmap_is_read_once() {
    use std::os::unix::fs::symlink;
    let folder = RuleFolder::new("configmap");
    folder.write("m/..2026_01_01/shop.yaml", "domain: shop");
    symlink("..2026_01_01", folder.path("m/..data")).unwrap();
    symlink("..data/shop.yaml", folder.path("m/shop.yaml")).unwrap();
    // A folder that is a link is left out, also one that leads back.
    symlink(".", folder.path("m/loop")).unwrap();
    symlink("loop", folder.path("m/loop.yaml")).unwrap();
    assert_eq!(folder.read(&["m"]), "m/shop.yaml");
}

#[cfg(unix)]
#[test]
fn a_link_that_leads_nowhere_is_said() {
    let folder = RuleFolder::new("dangling");
    folder.write("m/a.yaml", "domain: a");
    std::os::unix::fs::symlink("gone.yaml", folder.path("m/b.yaml")).unwrap();
    assert_eq!(
        folder.read(&["m"]),
        "m/b.yaml: error: the link leads nowhere; write the path of a rule file or of a folder of them"
    );
}

#[test]
fn a_file_that_is_named_is_read_whatever_it_is_called() {
    let folder = RuleFolder::new("named");
    folder.write("rules.conf", "domain: d");
    folder.write(".hidden", "domain: d");
    assert_eq!(folder.read(&["rules.conf", ".hidden"]), ".hidden rules.conf");
}

#[test]
fn a_rule_test_is_no_rule_file() {
    let folder = RuleFolder::new("rule_test");
    folder.write("a.test.yaml", "tests: []");
    assert_eq!(
        folder.read(&["a.test.yaml"]),
        "a.test.yaml: error: this is a rule test and not a rule file; write tollgate test PATH to run it"
    );
}

#[test]
fn everything_that_cannot_be_read_is_told_at_once() {
    let folder = RuleFolder::new("unreadable");
    folder.write("latin1.yaml", b"domain: d\n# gr\xfc\xdfe\n");
    folder.write("empty/notes.txt", "nothing");
    let large = File::create(folder.path("large.yaml")).unwrap();
    large.set_len(u64::try_from(FILE_BYTES_MAX).unwrap() + 1).unwrap();
    assert_eq!(
        folder.read(&["missing.yaml", "latin1.yaml", "large.yaml", "empty"]),
        "empty: error: the folder has no rule files; \
         write a rule file there, with a name that ends in .yaml\n\
         large.yaml: error: the file is larger than 16 MiB; write several smaller files\n\
         latin1.yaml: error: the file is not UTF-8 text, see line 2; save it as UTF-8\n\
         missing.yaml: error: there is no such file or folder; \
         write the path of a rule file or of a folder of them"
    );
}

#[test]
fn folders_nest_only_so_deep() {
    let folder = RuleFolder::new("deep");
    let inner = "f/".repeat(40);
    folder.write(&format!("{inner}a.yaml"), "domain: d");
    assert!(
        folder.read(&["f"]).ends_with("error: folders are nested deeper than 32 levels; write fewer levels")
    );
}

/// Opening a FIFO that nobody writes to waits for ever.
#[cfg(unix)]
#[test]
fn what_is_no_ordinary_file_in_a_folder_is_said_and_not_opened() {
    let folder = RuleFolder::new("fifo");
    folder.write("shop.yaml", "domain: shop\n");
    let fifo = std::process::Command::new("mkfifo").arg(folder.path("pipe.yaml")).status();
    assert!(fifo.expect("mkfifo is there").success());
    std::os::unix::fs::symlink("/dev/zero", folder.path("zero.yml")).expect("links can be made");
    let (path, (done, result)) = (folder.0.clone(), std::sync::mpsc::channel());
    std::thread::spawn(move || drop(done.send(read(&[path]))));
    let result = result.recv_timeout(std::time::Duration::from_secs(10)).expect("it does not wait");
    let told = result.expect_err("two are no files").to_string();
    assert!(told.contains("pipe.yaml: error: this is a FIFO, a socket or a device"), "{told}");
    assert!(told.contains("zero.yml: error: this is a FIFO"), "{told}");
    assert_eq!(told.lines().count(), 2, "{told}");
}

/// The guide's table of bounds has the figures of the code.
#[test]
fn the_bounds_of_the_guide_are_those_of_the_code() {
    let guide = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/guide/rules.md");
    let guide = fs::read_to_string(guide).unwrap();
    let (_, table) = guide.split_once("## Bounds").unwrap();
    let (table, _) = table.split_once("\n## ").unwrap();
    let day_s = 86_400;
    let years = |span: tollgate_core::Micros| span.get() / 1_000_000 / day_s / 365;
    let bounds = [
        ("requests_per_unit", u32::MAX.to_string()),
        ("a window", format!("{} years", years(limit::WINDOW_MAX))),
        ("the time in which", format!("{} years", years(limit::FILL_MAX))),
        ("sliding_log", limit::LOG_MAX.to_string()),
        ("`buckets`", limit::BUCKETS_MAX.to_string()),
        ("`exceed`", format!("{}%", limit::EXCEED_MAX_PERCENT)),
        ("`message`", format!("{} bytes", tollgate_rules::MESSAGE_MAX)),
        ("limits of one", tollgate_rules::LIMITS_MAX.to_string()),
        ("levels of", tollgate_core::ruleset::DEPTH_MAX.to_string()),
        ("a file", format!("{} MiB", FILE_BYTES_MAX >> 20)),
        ("a file", format!("{} deep", tollgate_yaml::NESTING_MAX)),
        ("a file", format!("{} nodes", tollgate_yaml::ALIASED_MAX)),
        (
            "files",
            format!("{}, in folders {} deep", tollgate_rules::FILES_MAX, tollgate_rules::FOLDER_DEPTH_MAX),
        ),
        ("mistakes", tollgate_yaml::PROBLEMS_MAX.to_string()),
    ];
    for (what, figure) in bounds {
        let row = table.lines().find(|line| line.contains(what)).unwrap();
        // 10,000 is 10000, but ", in" separates.
        let plain: String = row.split(", ").map(|part| part.replace(',', "")).collect::<Vec<_>>().join(", ");
        assert!(plain.contains(&figure), "'{row}' has not {figure}");
    }
    assert!(table.replace(',', "").contains(&tollgate_core::algorithm::COST_MAX.to_string()));
}
