//! sabakan's REST API for everything that exists here: rules of addresses, DHCP, machines with labels and
//! retire dates, images, kernel parameters and logs. It answers as sabakan does today, or as its
//! specification of 2018 says.
//!
//! [`select`] reads the query of a search, [`machines`] shows and changes machines, [`config`] the settings,
//! [`logs`] tells who did what.

use std::sync::Arc;

use axum::Router;
use axum::routing::{delete, get, put};

use crate::front::Front;

pub mod config;
pub mod logs;
pub mod machines;
pub mod select;
pub mod time;

/// Whose form machines are shown in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub enum Compatibility {
    /// Today's sabakan: `spec`, and `info` with netmasks and gateways.
    #[default]
    Today,
    /// The specification of 2018: one flat object.
    Document,
}

/// The routes.
pub fn routes() -> Router<Arc<Front>> {
    Router::new()
        // The specification has both spellings.
        .route("/api/v1/config", get(config::ipam).put(config::set_ipam))
        .route("/api/v1/config/ipam", get(config::ipam).put(config::set_ipam))
        .route("/api/v1/config/dhcp", get(config::dhcp).put(config::set_dhcp))
        .route("/api/v1/machines", get(machines::search).post(machines::register))
        .route("/api/v1/machines/{serial}", delete(machines::remove))
        .route(
            "/api/v1/labels/{serial}/{label}",
            put(machines::set_label).delete(machines::remove_label),
        )
        .route("/api/v1/retire-date/{serial}", put(machines::set_retire_date))
        .route("/api/v1/images/coreos", get(config::images))
        .route("/api/v1/images/coreos/{id}", delete(config::remove_image))
        .route(
            "/api/v1/kernel_params/coreos",
            get(config::kernel_parameters).put(config::set_kernel_parameters),
        )
        .route("/api/v1/logs", get(logs::logs))
        .route("/health", get(config::health))
}
