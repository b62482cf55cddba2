//! Where metrics go besides the admin listener.

use std::path::PathBuf;

use tollgate_metrics::{Mogrifier, StatsdConfig, StatsdDialect, StatsdProtocol};

use crate::address::ListenAddress;
use crate::raw_value;
use crate::rows;
use crate::settings_reader::{SettingPlace, SettingsReader};

/// Where metrics go besides the admin listener.
#[derive(Debug, Clone)]
pub struct MetricsSettings {
    /// StatsD or DogStatsD, if asked for.
    pub statsd: Option<StatsdConfig>,
    /// A Prometheus listener of its own, if asked for.
    pub prometheus: Option<PrometheusSettings>,
    /// A mapping in the form of statsd_exporter; the file may be absent.
    pub mapper: Option<PathBuf>,
    /// Response times in milliseconds instead of seconds.
    pub response_time_in_ms: bool,
}

/// A Prometheus listener of its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PrometheusSettings {
    /// Where it listens.
    pub address: ListenAddress,
    /// The path of the page.
    pub path: String,
}

pub(crate) fn read(reader: &mut SettingsReader<'_>) -> MetricsSettings {
    let (address, path) = (reader.get(&rows::PROMETHEUS_ADDR), reader.get(&rows::PROMETHEUS_PATH));
    let prometheus = reader.get(&rows::USE_PROMETHEUS).then_some(PrometheusSettings { address, path });
    let statsd = statsd(reader);
    let is_disabled = reader.get(&rows::DISABLE_STATS);
    MetricsSettings {
        statsd: statsd.filter(|_| !is_disabled),
        prometheus: prometheus.filter(|_| !is_disabled),
        mapper: reader.find(&rows::PROMETHEUS_MAPPER_YAML),
        response_time_in_ms: reader.get(&rows::PROMETHEUS_RESPONSE_TIME_AS_MILLISECONDS),
    }
}

/// At most one sink can be asked for; StatsD that is only hinted at by a host
/// or a port gives way to the others.
fn statsd(reader: &mut SettingsReader<'_>) -> Option<StatsdConfig> {
    let plain = reader.find(&rows::USE_STATSD);
    let is_hinted = reader.find(&rows::STATSD_HOST).is_some() || reader.find(&rows::STATSD_PORT).is_some();
    let asked = [
        (rows::USE_STATSD.row, plain == Some(true)),
        (rows::USE_DOG_STATSD.row, reader.get(&rows::USE_DOG_STATSD)),
        (rows::USE_PROMETHEUS.row, reader.get(&rows::USE_PROMETHEUS)),
    ];
    let [_, (_, is_dog), (_, is_prometheus)] = asked;
    let protocol = reader.get(&rows::STATSD_PROTOCOL);
    let mogrifiers = mogrifiers(reader);
    let config = StatsdConfig {
        host: reader.get(&rows::STATSD_HOST),
        port: reader.get(&rows::STATSD_PORT),
        protocol: if is_dog { StatsdProtocol::Udp } else { protocol },
        dialect: if is_dog { StatsdDialect::Dog(mogrifiers) } else { StatsdDialect::Plain },
        tags: reader.get(&rows::EXTRA_TAGS),
        flush_interval: reader.get(&rows::STATS_FLUSH_INTERVAL),
    };
    let asked: Vec<&str> = asked.iter().filter(|(_, is_on)| *is_on).map(|(row, _)| row.name()).collect();
    if let [first, _, ..] = asked.as_slice() {
        let message = format!("{} exclude each other; set all but one to false", asked.join(" and "));
        reader.mistake(SettingPlace::Name((*first).to_owned()), message);
        return None;
    }
    let is_plain = plain.unwrap_or(!is_dog && !is_prometheus && is_hinted);
    (is_plain || is_dog).then_some(config)
}

/// The rewritings, in the order named. Their variables have names that the
/// operator chooses, and so no rows.
fn mogrifiers(reader: &mut SettingsReader<'_>) -> Vec<Mogrifier> {
    let mut mogrifiers = Vec::new();
    for name in reader.get(&rows::USE_DOG_STATSD_MOGRIFIERS) {
        // The reference's documentation has an S that its code has not.
        let find = |reader: &SettingsReader<'_>, last: &str| {
            ["DOG_STATSD_MOGRIFIER", "DOG_STATSD_MOGRIFIERS"]
                .into_iter()
                .find_map(|first| reader.variable(&format!("{first}_{name}_{last}")))
        };
        let place = |last: &str| SettingPlace::Name(format!("DOG_STATSD_MOGRIFIER_{name}_{last}"));
        let Some(pattern) = find(reader, "PATTERN") else {
            let message = format!("{} names it; write a regular expression", rows::USE_DOG_STATSD_MOGRIFIERS);
            reader.mistake(place("PATTERN"), message);
            continue;
        };
        let tags = find(reader, "TAGS").map_or(Ok(Vec::new()), |text| raw_value::pairs(&text, &[':']));
        match tags {
            Ok(tags) => {
                let name = find(reader, "NAME").unwrap_or_default();
                mogrifiers.push(Mogrifier { pattern, name, tags });
            }
            Err(message) => reader.mistake(place("TAGS"), message),
        }
    }
    mogrifiers
}
