//! Where rules come from.

use std::path::PathBuf;
use std::time::Duration;

use crate::file::Given;
use crate::reader::{Found, Layer, Reader};
use crate::{Address, Backoff, ClientTls, Flags, Origin, Rules, RuntimeLayout, Secret, Xds, go};

/// What Envoy's control planes send in one message stays far below: a million
/// descriptors of sixty bytes.
const MESSAGE_BYTES_MAX: usize = 64 * 1024 * 1024;

const RUNTIME: [&str; 5] = [
    "RUNTIME_ROOT",
    "RUNTIME_SUBDIRECTORY",
    "RUNTIME_APPDIRECTORY",
    "RUNTIME_IGNOREDOTFILES",
    "RUNTIME_WATCH_ROOT",
];

pub(super) fn read(flags: &Flags, reader: &mut Reader<'_>) -> Rules {
    let origin = origin(flags, reader);
    Rules {
        origin,
        merge_domains: reader.is_on("MERGE_DOMAIN_CONFIG"),
        force_start: reader.is_on("FORCE_START_WITHOUT_INITIAL_CONFIG"),
        healthy_needs_domain: reader.is_on("HEALTHY_WITH_AT_LEAST_ONE_CONFIG_LOADED"),
        stop_counting_rejected: reader.is_on("STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT"),
    }
}

fn origin(flags: &Flags, reader: &mut Reader<'_>) -> Origin {
    let is_xds = reader.parsed("CONFIG_TYPE", |text| match text.to_ascii_uppercase().as_str() {
        "FILE" => Ok(false),
        "GRPC_XDS_SOTW" => Ok(true),
        _ => Err(format!("'{text}' is no source of rules; write FILE or GRPC_XDS_SOTW")),
    });
    // All are read, so that a mistake is told even where it has no effect.
    let xds = xds(reader);
    let layout = layout(reader);
    let filed = paths(reader);
    if !flags.rules.is_empty() {
        if is_xds == Some(true) {
            reader.warn("CONFIG_TYPE is set to GRPC_XDS_SOTW, but --rules names files, and flags win");
        }
        return Origin::Paths(flags.rules.clone());
    }
    if is_xds == Some(true) {
        return Origin::Xds(xds);
    }
    if RUNTIME.into_iter().any(|name| reader.variable(name).is_some()) {
        return Origin::Runtime(layout);
    }
    if filed.is_empty() { Origin::Default } else { Origin::Paths(filed) }
}

fn paths(reader: &mut Reader<'_>) -> Vec<PathBuf> {
    let Some(Found { place, given, .. }) = reader.find_in(Layer::File, "rules") else { return Vec::new() };
    match given {
        Given::Text(path) => vec![PathBuf::from(path)],
        Given::List(paths) => paths.into_iter().map(PathBuf::from).collect(),
        Given::Pairs(_) => {
            reader.mistake(place, "must be paths; write rules: [PATH, PATH]");
            Vec::new()
        }
    }
}

fn layout(reader: &mut Reader<'_>) -> RuntimeLayout {
    let default = RuntimeLayout::default();
    RuntimeLayout {
        root: reader.path("RUNTIME_ROOT").unwrap_or(default.root),
        subdirectory: reader.text("RUNTIME_SUBDIRECTORY").unwrap_or(default.subdirectory),
        app_directory: reader.text("RUNTIME_APPDIRECTORY").unwrap_or(default.app_directory),
        ignore_dot_files: reader.truth("RUNTIME_IGNOREDOTFILES").unwrap_or(default.ignore_dot_files),
        watch_root: reader.truth("RUNTIME_WATCH_ROOT").unwrap_or(default.watch_root),
    }
}

/// What the reference does if nothing is set.
impl Default for RuntimeLayout {
    fn default() -> Self {
        Self {
            root: PathBuf::from("/srv/runtime_data/current"),
            subdirectory: String::new(),
            app_directory: "config".to_owned(),
            ignore_dot_files: false,
            watch_root: true,
        }
    }
}

fn xds(reader: &mut Reader<'_>) -> Xds {
    let server = reader.parsed("CONFIG_GRPC_XDS_SERVER_URL", |text| {
        let bare = ["http://", "https://"].into_iter().find_map(|scheme| text.strip_prefix(scheme));
        let address: Address = bare.unwrap_or(text).parse().map_err(|_| wrong_server(text))?;
        if address.host.is_empty() { Err(wrong_server(text)) } else { Ok(address.to_string()) }
    });
    let headers = headers(reader);
    let bytes = reader.parsed("XDS_CLIENT_MAX_MSG_SIZE_IN_BYTES", go::number::<usize>);
    let retry = reader.duration("CONFIG_GRPC_XDS_SERVER_CONNECT_RETRY_INTERVAL");
    Xds {
        server: server.unwrap_or_else(|| "localhost:18000".to_owned()),
        node_id: reader.text("CONFIG_GRPC_XDS_NODE_ID").unwrap_or_else(|| "default".to_owned()),
        node_metadata: reader.pairs("CONFIG_GRPC_XDS_NODE_METADATA", &['=']),
        headers,
        tls: client_tls(reader),
        retry_interval: retry.unwrap_or(Duration::from_secs(3)),
        backoff: backoff(reader),
        // The reference takes 0 as "no word about it".
        max_message_bytes: bytes.filter(|bytes| *bytes > 0).unwrap_or(MESSAGE_BYTES_MAX),
    }
}

fn headers(reader: &mut Reader<'_>) -> Vec<(String, Secret)> {
    const ID: &str = "CONFIG_GRPC_XDS_CLIENT_ADDITIONAL_HEADERS";
    let mut headers = Vec::new();
    for (name, value) in reader.pairs(ID, &['=', ':']) {
        let is_name = super::is_header_name(&name) && !name.ends_with("-bin");
        if is_name && value.bytes().all(|byte| matches!(byte, b' '..=b'~')) {
            headers.push((name, Secret::new(value)));
        } else {
            // The value may be a secret, and is not repeated.
            reader.mistake(ID, format!("header '{name}' cannot be sent; write a header of plain text"));
        }
    }
    headers
}

fn wrong_server(text: &str) -> String {
    format!("'{text}' is no server; write HOST:PORT, such as envoy-gateway:18001")
}

fn backoff(reader: &mut Reader<'_>) -> Backoff {
    let initial = reader.duration("XDS_CLIENT_BACKOFF_INITIAL_INTERVAL").unwrap_or(Duration::from_secs(10));
    let max = reader.duration("XDS_CLIENT_BACKOFF_MAX_INTERVAL").unwrap_or(Duration::from_secs(60));
    let random = reader.parsed("XDS_CLIENT_BACKOFF_RANDOM_FACTOR", go::permille).unwrap_or(500);
    let is_random = reader.truth("XDS_CLIENT_BACKOFF_JITTER").unwrap_or(true);
    Backoff { initial, max: max.max(initial), random_permille: if is_random { random } else { 0 } }
}

fn client_tls(reader: &mut Reader<'_>) -> Option<ClientTls> {
    let is_on = reader.is_on("CONFIG_GRPC_XDS_SERVER_USE_TLS");
    let ca = reader.path("CONFIG_GRPC_XDS_SERVER_TLS_CACERT");
    let server_name = reader.text("CONFIG_GRPC_XDS_SERVER_TLS_SAN");
    let cert = reader.path("CONFIG_GRPC_XDS_CLIENT_TLS_CERT");
    let key = reader.path("CONFIG_GRPC_XDS_CLIENT_TLS_KEY");
    if !is_on {
        return None;
    }
    let missing = match (&cert, &key) {
        (Some(_), None) => Some("CONFIG_GRPC_XDS_CLIENT_TLS_KEY"),
        (None, Some(_)) => Some("CONFIG_GRPC_XDS_CLIENT_TLS_CERT"),
        _ => None,
    };
    if let Some(name) = missing {
        reader.mistake(name, "a certificate and its key go together; write the path of a PEM file");
    }
    Some(ClientTls { ca, identity: cert.zip(key), server_name })
}
