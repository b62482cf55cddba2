//! Where metrics go.

use std::time::Duration;

use tollgate_metrics::{Mogrifier, StatsdConfig, StatsdDialect, StatsdProtocol};

use crate::reader::Reader;
use crate::{Address, Metrics, Prometheus, go};

/// As the reference has it.
const FLUSH_INTERVAL: Duration = Duration::from_secs(10);

pub(super) fn read(reader: &mut Reader<'_>) -> Metrics {
    let prometheus = prometheus(reader);
    let statsd = statsd(reader);
    let is_disabled = reader.is_on("DISABLE_STATS");
    Metrics {
        statsd: statsd.filter(|_| !is_disabled),
        prometheus: prometheus.filter(|_| !is_disabled),
        mapper: reader.path("PROMETHEUS_MAPPER_YAML"),
        response_time_in_ms: reader.is_on("PROMETHEUS_RESPONSE_TIME_AS_MILLISECONDS"),
    }
}

fn prometheus(reader: &mut Reader<'_>) -> Option<Prometheus> {
    let is_on = reader.is_on("USE_PROMETHEUS");
    let address =
        reader.parsed("PROMETHEUS_ADDR", |text| text.parse::<Address>().map_err(|error| error.to_string()));
    let path = reader.parsed("PROMETHEUS_PATH", |text| match text.starts_with('/') {
        true => Ok(text.to_owned()),
        false => Err(format!("'{text}' is not a path; write one that begins with /, such as /metrics")),
    });
    is_on.then(|| Prometheus {
        address: address.unwrap_or_else(|| Address::new("", 9090)),
        path: path.unwrap_or_else(|| "/metrics".to_owned()),
    })
}

/// At most one sink can be asked for; StatsD that is only hinted at by a host
/// or a port gives way to the others.
fn statsd(reader: &mut Reader<'_>) -> Option<StatsdConfig> {
    let plain = reader.truth("USE_STATSD");
    let is_dog = reader.is_on("USE_DOG_STATSD");
    let is_prometheus = reader.is_on("USE_PROMETHEUS");
    let host = reader.text("STATSD_HOST");
    let port = reader.parsed("STATSD_PORT", go::port);
    let protocol = reader.parsed("STATSD_PROTOCOL", |text| match text.to_ascii_lowercase().as_str() {
        "tcp" => Ok(StatsdProtocol::Tcp),
        "udp" => Ok(StatsdProtocol::Udp),
        _ => Err(format!("'{text}' is not a protocol for StatsD; write tcp or udp")),
    });
    let mogrifiers = mogrifiers(reader);
    let tags = reader.pairs("EXTRA_TAGS", &[':']);
    let flush_interval = reader.parsed("STATS_FLUSH_INTERVAL", |text| match go::duration(text)? {
        Duration::ZERO => Err("0 would send all the time; write 1s or more".to_owned()),
        interval => Ok(interval),
    });
    let asked =
        [("USE_STATSD", plain == Some(true)), ("USE_DOG_STATSD", is_dog), ("USE_PROMETHEUS", is_prometheus)];
    let asked: Vec<&str> = asked.into_iter().filter(|(_, is_on)| *is_on).map(|(name, _)| name).collect();
    if let [first, _, ..] = asked.as_slice() {
        let message = format!("{} exclude each other; set all but one to false", asked.join(" and "));
        reader.mistake(*first, message);
        return None;
    }
    let is_plain = plain.unwrap_or(!is_dog && !is_prometheus && (host.is_some() || port.is_some()));
    if !is_plain && !is_dog {
        return None;
    }
    Some(StatsdConfig {
        host: host.unwrap_or_else(|| "localhost".to_owned()),
        port: port.unwrap_or(8125),
        protocol: if is_dog { StatsdProtocol::Udp } else { protocol.unwrap_or(StatsdProtocol::Tcp) },
        dialect: if is_dog { StatsdDialect::Dog(mogrifiers) } else { StatsdDialect::Plain },
        tags,
        flush_interval: flush_interval.unwrap_or(FLUSH_INTERVAL),
    })
}

/// The rewritings, in the order named.
fn mogrifiers(reader: &mut Reader<'_>) -> Vec<Mogrifier> {
    let names = reader.text("USE_DOG_STATSD_MOGRIFIERS").map(|text| go::list(&text)).unwrap_or_default();
    let mut mogrifiers = Vec::new();
    for name in names {
        // The reference's documentation has an S that its code has not.
        let find = |reader: &Reader<'_>, last: &str| {
            ["DOG_STATSD_MOGRIFIER", "DOG_STATSD_MOGRIFIERS"]
                .into_iter()
                .find_map(|first| reader.variable(&format!("{first}_{name}_{last}")))
        };
        let Some(pattern) = find(reader, "PATTERN") else {
            let variable = format!("DOG_STATSD_MOGRIFIER_{name}_PATTERN");
            reader.mistake(variable, "USE_DOG_STATSD_MOGRIFIERS names it; write a regular expression");
            continue;
        };
        let tags = find(reader, "TAGS").map_or(Ok(Vec::new()), |text| go::pairs(&text, &[':']));
        match tags {
            Ok(tags) => {
                let name = find(reader, "NAME").unwrap_or_default();
                mogrifiers.push(Mogrifier { pattern, name, tags });
            }
            Err(message) => reader.mistake(format!("DOG_STATSD_MOGRIFIER_{name}_TAGS"), message),
        }
    }
    mogrifiers
}
