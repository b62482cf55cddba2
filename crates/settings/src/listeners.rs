//! Where to listen, and with which certificates.

use std::path::PathBuf;
use std::time::Duration;

use tollgate_core::Secret;

use crate::address::{GrpcAddress, ListenAddress};
use crate::row::{OptionalSetting, Setting};
use crate::rows;
use crate::settings_reader::{SettingPlace, SettingSource, SettingsReader};

const LOOPBACK: &str = "127.0.0.1";

/// The gRPC listener.
#[derive(Debug, Clone)]
pub struct GrpcSettings {
    /// A port or a Unix socket.
    pub address: GrpcAddress,
    /// A connection older than this, give or take 10 %, is asked to go; none if it may stay.
    pub max_connection_age: Option<Duration>,
    /// How long its calls may go on after that; none if they may take any time.
    pub max_connection_age_grace: Option<Duration>,
    /// TLS, if asked for.
    pub tls: Option<ServerTls>,
}

/// A certificate of ours, and which of theirs we accept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerTls {
    /// The certificate chain, in PEM.
    pub cert: PathBuf,
    /// Its key, in PEM.
    pub key: PathBuf,
    /// Callers must show a certificate signed by one of these, if set.
    pub client_ca: Option<PathBuf>,
    /// And it must be for this DNS name, if set.
    pub client_san: Option<String>,
}

/// The RESP listener.
#[derive(Debug, Clone)]
pub struct RespSettings {
    /// Where it listens.
    pub address: ListenAddress,
    /// What callers must show, if set.
    pub password: Option<Secret>,
    /// TLS, if asked for.
    pub tls: Option<ServerTls>,
}

/// The admin listener.
#[derive(Debug, Clone)]
pub struct AdminSettings {
    /// Where it listens; elsewhere than on loopback only with a token.
    pub address: ListenAddress,
    /// What callers must show, if set.
    pub token: Option<Secret>,
    /// Names that browsers call it by, besides `localhost` and addresses.
    pub hosts: Vec<String>,
}

pub(crate) fn http(reader: &mut SettingsReader<'_>) -> ListenAddress {
    let parts = AddressParts::read(&rows::HOST, &rows::PORT, reader);
    parts.applied(&rows::HTTP_ADDRESS, reader).0
}

pub(crate) fn grpc(reader: &mut SettingsReader<'_>) -> GrpcSettings {
    let address = grpc_address(reader);
    let mut age = |setting| Some(reader.get(setting)).filter(|age: &Duration| !age.is_zero());
    GrpcSettings {
        address,
        max_connection_age: age(&rows::GRPC_MAX_CONNECTION_AGE),
        max_connection_age_grace: age(&rows::GRPC_MAX_CONNECTION_AGE_GRACE),
        tls: grpc_tls(reader),
    }
}

fn grpc_address(reader: &mut SettingsReader<'_>) -> GrpcAddress {
    // All are read, so that a mistake is told even where it has no effect.
    let flagged = reader.find_in(SettingSource::Flag, &rows::GRPC_ADDRESS);
    let filed = reader.find_in(SettingSource::File, &rows::GRPC_ADDRESS);
    let socket = reader.find(&rows::GRPC_UDS);
    let parts = AddressParts::read(&rows::GRPC_HOST, &rows::GRPC_PORT, reader);
    if let Some((address, _)) = flagged {
        return address;
    }
    if let Some(path) = socket {
        return GrpcAddress::Unix(path);
    }
    let base = match filed {
        Some((GrpcAddress::Unix(path), _)) if parts.are_empty() => return GrpcAddress::Unix(path),
        Some((address @ GrpcAddress::Tcp(_), _)) => address,
        Some((GrpcAddress::Unix(_), _)) | None => rows::GRPC_ADDRESS.default_value(),
    };
    match base {
        GrpcAddress::Tcp(address) => GrpcAddress::Tcp(parts.over(address)),
        unix @ GrpcAddress::Unix(_) => unix,
    }
}

/// A host and a port that the environment sets apart.
struct AddressParts {
    host: Option<String>,
    port: Option<u16>,
}

/// Who chose a host.
enum HostChoice {
    Nobody,
    /// The variable of the host alone.
    HostVariable,
    /// Whoever wrote the whole address, there.
    WholeAddress(SettingPlace),
}

impl AddressParts {
    fn read(host: &Setting<String>, port: &Setting<u16>, reader: &mut SettingsReader<'_>) -> Self {
        Self { host: reader.find(host), port: reader.find(port) }
    }

    const fn are_empty(&self) -> bool {
        self.host.is_none() && self.port.is_none()
    }

    /// The address with these parts instead of its own.
    fn over(self, address: ListenAddress) -> ListenAddress {
        let host = self.host.unwrap_or(address.host);
        ListenAddress::new(&host, self.port.unwrap_or(address.port))
    }

    /// The address that a flag says, or else the file or the default with
    /// these parts.
    fn applied(
        self,
        setting: &Setting<ListenAddress>,
        reader: &mut SettingsReader<'_>,
    ) -> (ListenAddress, HostChoice) {
        let flagged = reader.find_in(SettingSource::Flag, setting);
        let filed = reader.find_in(SettingSource::File, setting);
        if let Some((address, place)) = flagged {
            return (address, HostChoice::WholeAddress(place));
        }
        let choice = match (&self.host, &filed) {
            (Some(_), _) => HostChoice::HostVariable,
            (None, Some((_, place))) => HostChoice::WholeAddress(place.clone()),
            (None, None) => HostChoice::Nobody,
        };
        let base = filed.map_or_else(|| setting.default_value(), |(address, _)| address);
        (self.over(base), choice)
    }
}

pub(crate) fn admin(reader: &mut SettingsReader<'_>) -> AdminSettings {
    let token = reader.find(&rows::ADMIN_TOKEN);
    let parts = AddressParts::read(&rows::DEBUG_HOST, &rows::DEBUG_PORT, reader);
    let (mut address, choice) = parts.applied(&rows::ADMIN_ADDRESS, reader);
    if token.is_none() && !address.is_loopback() {
        let (host, port, token) = (&address.host, address.port, rows::ADMIN_TOKEN);
        match choice {
            HostChoice::Nobody => {}
            HostChoice::HostVariable => {
                // Whoever runs the reference has it open without asking; here nothing is
                // shown to the network that was not asked for with a token.
                reader.warn(format!(
                    "{} is set, but without {token} the admin listener stays on {LOOPBACK}:{port}; \
                     set a token to open it on {host}",
                    rows::DEBUG_HOST
                ));
                LOOPBACK.clone_into(&mut address.host);
            }
            HostChoice::WholeAddress(place) => {
                let message = format!(
                    "the admin listener on {address} needs a token; set {token}, or write {LOOPBACK}:{port}"
                );
                reader.mistake(place, message);
            }
        }
    }
    AdminSettings { address, token, hosts: reader.get(&rows::ADMIN_HOSTS) }
}

pub(crate) fn resp(reader: &mut SettingsReader<'_>) -> Option<RespSettings> {
    let address = reader.get(&rows::RESP_ADDRESS);
    let password = reader.find(&rows::RESP_PASSWORD);
    let tls = own_tls(reader, &RESP_TLS);
    Some(RespSettings { address: address?, password, tls })
}

pub(crate) fn gateway_tls(reader: &mut SettingsReader<'_>) -> Option<ServerTls> {
    own_tls(reader, &GATEWAY_TLS)
}

pub(crate) fn http_tls(reader: &mut SettingsReader<'_>) -> Option<ServerTls> {
    own_tls(reader, &HTTP_TLS)
}

/// What a listener of ours needs for TLS.
struct TlsRows {
    listener: &'static str,
    cert: OptionalSetting<PathBuf>,
    key: OptionalSetting<PathBuf>,
    client_ca: OptionalSetting<PathBuf>,
    client_san: Option<OptionalSetting<String>>,
}

const HTTP_TLS: TlsRows = TlsRows {
    listener: "HTTP",
    cert: rows::HTTP_TLS_CERT,
    key: rows::HTTP_TLS_KEY,
    client_ca: rows::HTTP_TLS_CLIENT_CA,
    client_san: Some(rows::HTTP_TLS_CLIENT_SAN),
};
const GATEWAY_TLS: TlsRows = TlsRows {
    listener: "gateway",
    cert: rows::GATEWAY_TLS_CERT,
    key: rows::GATEWAY_TLS_KEY,
    client_ca: rows::GATEWAY_TLS_CLIENT_CA,
    client_san: Some(rows::GATEWAY_TLS_CLIENT_SAN),
};
const RESP_TLS: TlsRows = TlsRows {
    listener: "RESP",
    cert: rows::RESP_TLS_CERT,
    key: rows::RESP_TLS_KEY,
    client_ca: rows::RESP_TLS_CLIENT_CA,
    client_san: None,
};

/// TLS of a listener that the reference has not, or has without: on as soon
/// as anything is said about it.
fn own_tls(reader: &mut SettingsReader<'_>, rows: &TlsRows) -> Option<ServerTls> {
    let (cert, key) = (reader.find(&rows.cert), reader.find(&rows.key));
    let client_ca = reader.find(&rows.client_ca);
    let client_san = rows.client_san.as_ref().and_then(|setting| reader.find(setting));
    if cert.is_none() && key.is_none() && client_ca.is_none() && client_san.is_none() {
        return None;
    }
    let needed = [
        (&rows.cert, cert.is_none()),
        (&rows.key, key.is_none()),
        (&rows.client_ca, client_san.is_some() && client_ca.is_none()),
    ];
    for (setting, _) in needed.into_iter().filter(|(_, is_missing)| *is_missing) {
        let listener = rows.listener;
        let message = format!("TLS of the {listener} listener needs it; write the path of a PEM file");
        reader.mistake(setting, message);
    }
    Some(ServerTls { cert: cert?, key: key?, client_ca, client_san })
}

fn grpc_tls(reader: &mut SettingsReader<'_>) -> Option<ServerTls> {
    use rows::{GRPC_CLIENT_TLS_CACERT, GRPC_CLIENT_TLS_SAN, GRPC_SERVER_USE_TLS};
    let is_on = reader.get(&GRPC_SERVER_USE_TLS);
    let cert = reader.find(&rows::GRPC_SERVER_TLS_CERT);
    let key = reader.find(&rows::GRPC_SERVER_TLS_KEY);
    let client_ca = reader.find(&GRPC_CLIENT_TLS_CACERT);
    let client_san = reader.find(&GRPC_CLIENT_TLS_SAN);
    if !is_on {
        if client_ca.is_some() {
            reader.warn(format!(
                "{GRPC_CLIENT_TLS_CACERT} is set, but has no effect without {GRPC_SERVER_USE_TLS}=true: \
                 callers are not asked for certificates"
            ));
        }
        return None;
    }
    if client_san.is_some() && client_ca.is_none() {
        reader.warn(format!(
            "{GRPC_CLIENT_TLS_SAN} is set, but has no effect without {GRPC_CLIENT_TLS_CACERT}: \
             callers are not asked for certificates"
        ));
    }
    for (setting, path) in [(&rows::GRPC_SERVER_TLS_CERT, &cert), (&rows::GRPC_SERVER_TLS_KEY, &key)] {
        if path.is_none() {
            reader.mistake(setting, format!("{GRPC_SERVER_USE_TLS} needs it; write the path of a PEM file"));
        }
    }
    Some(ServerTls { cert: cert?, key: key?, client_ca, client_san })
}
