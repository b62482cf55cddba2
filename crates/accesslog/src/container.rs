//! What a container runtime or syslog writes in front of a line.

use crate::timestamp::MONTHS;

/// The rest of a line behind `2026-01-02T03:04:05.678Z stdout F `, or behind syslog's
/// `Jan  2 03:04:05 host name[123]: `; `None` if there is no such prefix.
pub(crate) fn without_prefix(line: &[u8]) -> Option<&[u8]> {
    runtime(line).or_else(|| syslog(line))
}

fn runtime(line: &[u8]) -> Option<&[u8]> {
    // Nearly every line ends here.
    line.first().filter(|first| **first == b'2')?;
    let mut parts = line.splitn(4, |byte| *byte == b' ');
    let (time, stream, tag) = (parts.next()?, parts.next()?, parts.next()?);
    let is_prefix =
        time.contains(&b'T') && matches!(stream, b"stdout" | b"stderr") && matches!(tag, b"F" | b"P");
    parts.next().filter(|_| is_prefix)
}

/// No prefix of syslog is longer: time, host and name.
const SYSLOG_MAX: usize = 256;

fn syslog(line: &[u8]) -> Option<&[u8]> {
    let begins_so = match line {
        [b'<', b'0'..=b'9', ..] | [b'2', b'0', _, _, b'-', _, _, b'-', _, _, b'T', ..] => true,
        [first, second, third, b' ', ..] => {
            MONTHS.iter().any(|name| name.as_bytes() == [*first, *second, *third])
        }
        _ => false,
    };
    let head = line.get(..line.len().min(SYSLOG_MAX)).filter(|_| begins_so)?;
    let end = memchr::memmem::find(head, b"]: ")? + 3;
    line.get(end..)
}

#[cfg(test)]
mod tests {
    use super::without_prefix;

    #[test]
    fn prefixes_are_taken_off_and_nothing_else() {
        for (line, rest) in [
            ("2026-01-02T03:04:05.678901234+01:00 stdout F {\"a\": 1}", Some("{\"a\": 1}")),
            ("2026-01-02T03:04:05Z stderr P half", Some("half")),
            ("Jan 14 12:48:57 lb haproxy[123]: 192.0.2.1:1 rest", Some("192.0.2.1:1 rest")),
            ("<134>Jan 14 12:48:57 web nginx[9]: 192.0.2.1 - -", Some("192.0.2.1 - -")),
            ("2026-01-02T03:04:05Z stdin F x", None),
            ("192.0.2.1 - - [x]: y", None),
            ("", None),
        ] {
            assert_eq!(without_prefix(line.as_bytes()), rest.map(str::as_bytes), "{line}");
        }
    }
}
