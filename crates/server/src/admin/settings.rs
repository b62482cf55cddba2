//! `/v1/settings` of the admin listener: what is set, and where it was said.
//!
//! Invariant: what is secret is left out by `SettingInForce` already; nothing here has seen it.
//!
//! Deliberately not here: changing anything.

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use serde::Serialize;
use utoipa::ToSchema;

use crate::http::v1::to_wire;
use crate::service::Service;

/// All settings, in the order of the documentation.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = SettingsInForce)]
pub(super) struct SettingsBody<'a> {
    settings: Vec<SettingBody<'a>>,
}

/// One setting.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = SettingInForce)]
struct SettingBody<'a> {
    /// The section of the documentation.
    section: &'a str,
    /// Its variable, or else its key in `tollgate.yaml`, or else its flag.
    name: &'a str,
    /// Its value as it was given, or the default; `(hidden)` if it is secret.
    value: &'a str,
    /// `flag`, `environment`, `file` or `default`.
    from: &'a str,
}

/// All settings and where they were said; secrets are hidden.
#[utoipa::path(
    get, path = "/v1/settings", tag = "health", operation_id = "settings",
    responses((status = 200, description = "All settings.", body = SettingsBody<'_>))
)]
pub(super) async fn show(State(service): State<Arc<Service>>) -> Response {
    let settings = service.settings_in_force();
    let settings = settings.iter().map(|own| SettingBody {
        section: own.section,
        name: own.name,
        value: &own.value,
        from: own.from,
    });
    to_wire::respond(&SettingsBody { settings: settings.collect() })
}
