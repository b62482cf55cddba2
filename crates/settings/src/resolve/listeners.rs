//! Where to listen, and with which certificates.

use std::path::PathBuf;
use std::time::Duration;

use crate::address::{AddressError, is_host};
use crate::file::Given;
use crate::reader::{Found, Layer, Reader};
use crate::{Address, Admin, Grpc, GrpcAddress, Resp, Secret, ServerTls, Settings, go};

/// The names of a listener's settings, and what holds without them.
struct Listener {
    id: &'static str,
    host: &'static str,
    port: &'static str,
    default: (&'static str, u16),
}

const HTTP: Listener = Listener { id: "listen.http", host: "HOST", port: "PORT", default: ("0.0.0.0", 8080) };
const GRPC: Listener =
    Listener { id: "listen.grpc", host: "GRPC_HOST", port: "GRPC_PORT", default: ("0.0.0.0", 8081) };
const ADMIN: Listener =
    Listener { id: "listen.admin", host: "DEBUG_HOST", port: "DEBUG_PORT", default: (LOOPBACK, 6070) };

/// The names of what a listener of ours needs for TLS.
struct TlsNames {
    listener: &'static str,
    cert: &'static str,
    key: &'static str,
    client_ca: &'static str,
    client_san: Option<&'static str>,
}

const HTTP_TLS: TlsNames = TlsNames {
    listener: "HTTP",
    cert: "TOLLGATE_HTTP_TLS_CERT",
    key: "TOLLGATE_HTTP_TLS_KEY",
    client_ca: "TOLLGATE_HTTP_TLS_CLIENT_CA",
    client_san: Some("TOLLGATE_HTTP_TLS_CLIENT_SAN"),
};
const RESP_TLS: TlsNames = TlsNames {
    listener: "RESP",
    cert: "TOLLGATE_RESP_TLS_CERT",
    key: "TOLLGATE_RESP_TLS_KEY",
    client_ca: "TOLLGATE_RESP_TLS_CLIENT_CA",
    client_san: None,
};

const LOOPBACK: &str = "127.0.0.1";
/// As the reference has it.
const AGE: Duration = Duration::from_secs(24 * 3_600);
const AGE_GRACE: Duration = Duration::from_secs(3_600);

pub(super) fn http(reader: &mut Reader<'_>) -> Address {
    read(reader, &HTTP).0
}

pub(super) fn grpc(reader: &mut Reader<'_>) -> Grpc {
    let socket = reader.path("GRPC_UDS");
    let age = |reader: &mut Reader<'_>, id: &str, default: Duration| {
        Some(reader.duration(id).unwrap_or(default)).filter(|age| !age.is_zero())
    };
    Grpc {
        address: match (unix_socket(reader), socket) {
            (Some((path, Layer::Flag)), _) => GrpcAddress::Unix(path),
            (_, Some(path)) if reader.find_in(Layer::Flag, GRPC.id).is_none() => GrpcAddress::Unix(path),
            (Some((path, _)), _) if !has_environment(reader, &GRPC) => GrpcAddress::Unix(path),
            _ => GrpcAddress::Tcp(read(reader, &GRPC).0),
        },
        max_connection_age: age(reader, "GRPC_MAX_CONNECTION_AGE", AGE),
        max_connection_age_grace: age(reader, "GRPC_MAX_CONNECTION_AGE_GRACE", AGE_GRACE),
        tls: server_tls(reader),
    }
}

/// The path of `unix:PATH`, and who said it.
fn unix_socket(reader: &Reader<'_>) -> Option<(PathBuf, Layer)> {
    let Found { given: Given::Text(text), layer, .. } = reader.find(GRPC.id)? else { return None };
    text.strip_prefix("unix:").map(|path| (PathBuf::from(path), layer))
}

fn has_environment(reader: &Reader<'_>, listener: &Listener) -> bool {
    [listener.host, listener.port].into_iter().any(|name| reader.variable(name).is_some())
}

pub(super) fn admin(reader: &mut Reader<'_>) -> Admin {
    let token = reader.text("TOLLGATE_ADMIN_TOKEN").map(Secret::new);
    let (mut address, place) = read(reader, &ADMIN);
    if token.is_none() && !address.is_loopback() {
        if place.as_deref() == Some(ADMIN.host) {
            // Whoever runs the reference has it open without asking; here nothing is
            // shown to the network that was not asked for with a token.
            reader.warn(format!(
                "DEBUG_HOST is set, but without TOLLGATE_ADMIN_TOKEN the admin listener stays on {LOOPBACK}:{}; \
                 set a token to open it on {}",
                address.port, address.host
            ));
            address.host = LOOPBACK.to_owned();
        } else if let Some(place) = place {
            reader.mistake(
                place,
                format!(
                    "the admin listener on {address} needs a token; set TOLLGATE_ADMIN_TOKEN, \
                     or write {LOOPBACK}:{}",
                    address.port
                ),
            );
        }
    }
    Admin { address, token }
}

pub(super) fn resp(reader: &mut Reader<'_>) -> Option<Resp> {
    let address =
        reader.parsed("TOLLGATE_RESP", |text| text.parse().map_err(|error: AddressError| error.to_string()));
    let password = reader.text("TOLLGATE_RESP_PASSWORD").map(Secret::new);
    let tls = own_tls(reader, &RESP_TLS);
    Some(Resp { address: address?, password, tls })
}

pub(super) fn http_tls(reader: &mut Reader<'_>) -> Option<ServerTls> {
    own_tls(reader, &HTTP_TLS)
}

/// TLS of a listener that the reference has not, or has without: on as soon
/// as anything is said about it.
fn own_tls(reader: &mut Reader<'_>, names: &TlsNames) -> Option<ServerTls> {
    let (cert, key) = (reader.path(names.cert), reader.path(names.key));
    let client_ca = reader.path(names.client_ca);
    let client_san = names.client_san.and_then(|name| reader.text(name));
    if cert.is_none() && key.is_none() && client_ca.is_none() && client_san.is_none() {
        return None;
    }
    let listener = names.listener;
    let mut needed = vec![(names.cert, cert.is_some()), (names.key, key.is_some())];
    if client_san.is_some() {
        needed.push((names.client_ca, client_ca.is_some()));
    }
    for (name, _) in needed.into_iter().filter(|(_, is_there)| !is_there) {
        reader
            .mistake(name, format!("TLS of the {listener} listener needs it; write the path of a PEM file"));
    }
    Some(ServerTls { cert: cert?, key: key?, client_ca, client_san })
}

/// The address, and who named the host.
fn read(reader: &mut Reader<'_>, listener: &Listener) -> (Address, Option<String>) {
    let Listener { id, host, port, default } = listener;
    let flagged = whole(reader, Layer::Flag, id);
    // All are read, so that a mistake is told even where it has no effect.
    let filed = whole(reader, Layer::File, id);
    let own_host = reader.parsed(host, |text| match is_host(text) {
        true => Ok(text.to_owned()),
        false => Err(format!("'{text}' is not a host; write an IP address or a name")),
    });
    let own_port = reader.parsed(port, go::port);
    if let Some((address, place)) = flagged {
        return (address, Some(place));
    }
    let (mut address, mut place) = match filed {
        Some((address, place)) => (address, Some(place)),
        None => (Address::new(default.0, default.1), None),
    };
    if let Some(own) = own_host {
        address = Address::new(&own, address.port);
        place = Some((*host).to_owned());
    }
    if let Some(own) = own_port {
        address.port = own;
    }
    (address, place)
}

fn whole(reader: &mut Reader<'_>, layer: Layer, id: &str) -> Option<(Address, String)> {
    let Found { place, given, .. } = reader.find_in(layer, id)?;
    let Given::Text(text) = given else {
        reader.mistake(place, "must be one address; write HOST:PORT");
        return None;
    };
    if text.starts_with("unix:") && id == GRPC.id {
        return None;
    }
    match text.parse::<Address>() {
        Ok(address) => Some((address, place)),
        Err(error) => {
            reader.mistake(place, error.to_string());
            None
        }
    }
}

fn server_tls(reader: &mut Reader<'_>) -> Option<ServerTls> {
    let is_on = reader.is_on("GRPC_SERVER_USE_TLS");
    let (cert, key) = (reader.path("GRPC_SERVER_TLS_CERT"), reader.path("GRPC_SERVER_TLS_KEY"));
    let client_ca = reader.path("GRPC_CLIENT_TLS_CACERT");
    let client_san = reader.text("GRPC_CLIENT_TLS_SAN");
    if !is_on {
        if client_ca.is_some() {
            reader.warn(
                "GRPC_CLIENT_TLS_CACERT is set, but has no effect without GRPC_SERVER_USE_TLS=true: \
                 callers are not asked for certificates",
            );
        }
        return None;
    }
    if client_san.is_some() && client_ca.is_none() {
        reader.warn(
            "GRPC_CLIENT_TLS_SAN is set, but has no effect without GRPC_CLIENT_TLS_CACERT: \
             callers are not asked for certificates",
        );
    }
    for (name, path) in [("GRPC_SERVER_TLS_CERT", &cert), ("GRPC_SERVER_TLS_KEY", &key)] {
        if path.is_none() {
            reader.mistake(name, "GRPC_SERVER_USE_TLS needs it; write the path of a PEM file");
        }
    }
    Some(ServerTls { cert: cert?, key: key?, client_ca, client_san })
}

/// Two listeners on one port would share its connections at random, because
/// ports are opened so that several threads can listen.
pub(super) fn check_apart(settings: &Settings, reader: &mut Reader<'_>) {
    let mut listeners = vec![("HTTP", &settings.http), ("admin", &settings.admin.address)];
    if let GrpcAddress::Tcp(address) = &settings.grpc.address {
        listeners.push(("gRPC", address));
    }
    if let Some(resp) = &settings.resp {
        listeners.push(("RESP", &resp.address));
    }
    if let Some(prometheus) = &settings.metrics.prometheus {
        listeners.push(("Prometheus", &prometheus.address));
    }
    for (index, (name, one)) in listeners.iter().enumerate() {
        for (other_name, other) in listeners.iter().skip(index + 1) {
            let is_any = |address: &Address| matches!(address.host.as_str(), "" | "::" | "0.0.0.0");
            let is_host_shared = one.host == other.host || is_any(one) || is_any(other);
            if one.port != 0 && one.port == other.port && is_host_shared {
                let message = format!("{name} on {one} and {other_name} on {other} take each other's calls");
                reader.mistake("listeners", format!("{message}; write different ports"));
            }
        }
    }
}
