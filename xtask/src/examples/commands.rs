//! The commands of a page, run as a reader would type them: those of docs/guide/gateway.md.
//!
//! They run in an empty folder and on ports of their own, so that nothing else on the machine matters; what
//! they print is held against the sentence of the page that says what they print. Whatever they started in
//! the background is ended.
//! Not here: rule files and rule tests (`blocks`).

use anyhow::{Context as _, Result, ensure};

/// The ports that the page writes: the API's, the gateway's, and that of `/healthcheck`.
pub(super) const PORTS: [&str; 3] = ["9000", "8000", "8080"];

/// What a page lets its readers type, and what it says they will see.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Commands {
    lines: Vec<String>,
    /// Lines that the last of them prints.
    pub(super) prints: Vec<String>,
}

/// The commands of the first `sh` block of a page, and the words in backticks after "the last one prints".
pub(super) fn of(page: &str) -> Result<Commands> {
    let block = page.split_once("```sh\n").and_then(|(_, rest)| rest.split_once("```"));
    let (block, rest) = block.context("the page has lost its commands; write them in a block of sh")?;
    let lines: Vec<String> = block.lines().map(str::to_owned).collect();
    let said = rest.lines().find_map(|line| line.split_once("the last one prints "));
    let (_, said) = said.context("the page does not say what `the last one prints`; write it below them")?;
    let prints: Vec<String> = said.split('`').skip(1).step_by(2).map(str::to_owned).collect();
    ensure!(!prints.is_empty(), "what the last one prints is not in backticks");
    Ok(Commands { lines, prints })
}

impl Commands {
    pub(super) const fn count(&self) -> usize {
        self.lines.len()
    }

    /// A script that runs them in a folder with these ports in place of [`PORTS`], and ends what it began.
    pub(super) fn script(&self, folder: &str, ports: [u16; 3]) -> Result<String> {
        // What the others print, such as the API in the background, is not what the last one prints.
        let mut script = format!("cd '{folder}'\nexec 3>&1 1>&2\nbegun=''\ntrap 'kill $begun; wait' EXIT\n");
        for port in PORTS {
            let is_named = self.lines.iter().any(|line| numbers(line).any(|number| number == port));
            ensure!(is_named, "the commands do not name port {port}; correct PORTS");
        }
        for (number, line) in (1..).zip(&self.lines) {
            script.push_str(&with_ports(line, ports));
            script.push_str(if number == self.lines.len() { " >&3\n" } else { "\n" });
            if line.ends_with(" &") {
                script.push_str("begun=\"$begun $!\"\n");
            }
        }
        Ok(script)
    }
}

fn numbers(line: &str) -> impl Iterator<Item = &str> {
    line.split(|c: char| !c.is_ascii_digit())
}

/// A line with other ports; in one pass, because one of them may have another's digits in it.
fn with_ports(line: &str, ports: [u16; 3]) -> String {
    let mut written = String::new();
    let mut rest = line;
    for number in numbers(line) {
        let own = PORTS.iter().zip(ports).find(|(port, _)| **port == number);
        written.push_str(&own.map_or_else(|| number.to_owned(), |(_, own)| own.to_string()));
        rest = rest.strip_prefix(number).unwrap_or_default();
        let mut others = rest.chars();
        written.extend(others.next());
        rest = others.as_str();
    }
    written
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "# A page\n\n```yaml\na: 1\n```\n\n```sh\napi 9000 &\necho '{n: 2}' > a.yaml\n\
                        serve 127.0.0.1:8000 http://x:9000 &\ncurl x:9000/ x:8080/h\nask 8000\n```\n\n\
                        The fourth waits; the last one prints `200` and `429`.\n";

    #[test]
    fn commands_run_on_other_ports_and_what_they_began_is_ended() {
        let commands = of(PAGE).unwrap();
        assert_eq!(
            (commands.count(), commands.prints.as_slice()),
            (5, &["200".to_owned(), "429".to_owned()][..])
        );
        // Each of them has the digits of another.
        let script = commands.script("/a/b", [18_000, 18_080, 19_000]).unwrap();
        let expected = "cd '/a/b'\nexec 3>&1 1>&2\nbegun=''\ntrap 'kill $begun; wait' EXIT\napi 18000 &\nbegun=\"$begun $!\"\n\
                        echo '{n: 2}' > a.yaml\nserve 127.0.0.1:18080 http://x:18000 &\nbegun=\"$begun $!\"\n\
                        curl x:18000/ x:19000/h\nask 18080 >&3\n";
        assert_eq!(script, expected);
    }

    #[test]
    fn a_page_that_lost_its_commands_or_what_they_print_is_a_mistake() {
        let told = |page: &str| of(page).unwrap_err().to_string();
        assert!(told("text").contains("lost its commands"));
        assert!(told(&PAGE.replace("the last one prints", "it prints")).contains("the last one prints"));
        assert!(
            told(&PAGE.replace('`', "").replace("sh\napi", "```sh\napi").replace("8000\n\n", "8000\n```\n"))
                .contains("not in backticks")
        );
        let moved = of(&PAGE.replace("8080", "9090")).unwrap();
        assert!(moved.script("/a", [1, 2, 3]).unwrap_err().to_string().contains("8080"));
    }
}
