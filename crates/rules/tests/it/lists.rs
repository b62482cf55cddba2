//! Lists in files of their own.

use std::fs;
use std::path::Path;

use tollgate_core::RuleSet;
use tollgate_rules::{LoadError, Options, list_files, load, read};

const RULES: &str = "domain: shop
deny:
  - { key: remote_address, file: lists/blocked.txt }
descriptors:
  - key: remote_address
    rate_limit: { requests_per_unit: 10, unit: minute, allow: [{ file: lists/partners.txt }] }
";

fn loaded(folder: &Path) -> Result<RuleSet, LoadError> {
    let sources = read(&[folder.to_owned()])?;
    assert_eq!(list_files(&sources).len(), 2);
    load(sources, &Options::default()).map(|loaded| loaded.rules)
}

#[test]
fn a_list_lies_beside_its_rule_file_and_all_of_it_counts() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("lists")).unwrap();
    let save = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
    save("shop.yaml", RULES);
    let error = loaded(folder.path()).unwrap_err().to_string();
    assert!(error.contains("shop.yaml:3:34: error: there is no list 'lists/blocked.txt'"), "{error}");

    save("lists/partners.txt", "# partners\n192.0.2.0/24  ; ACME\n\n  office \n");
    save("lists/blocked.txt", "203.0.113.0/24\n203.0.113.1/24\n");
    let error = loaded(folder.path()).unwrap_err().to_string();
    assert!(error.contains("line 2 of 'lists/blocked.txt': '203.0.113.1/24' has bits behind"), "{error}");

    save(
        "lists/blocked.txt",
        &(0..100_000)
            .map(|n| format!("10.{}.{}.{}/31\n", n >> 15, n >> 7 & 255, n << 1 & 254))
            .collect::<String>(),
    );
    let rules = loaded(folder.path()).unwrap();
    let lists = rules.rules()[0].lists.as_ref().unwrap();
    let is_partner = |value: &str| lists.allow.contains("remote_address", value);
    assert!(is_partner("192.0.2.77") && is_partner("office"));
    assert!(!is_partner("192.0.3.1") && !is_partner("ACME") && !is_partner("# partners"));
}
