//! sabakan's REST API, as far as its objects exist here. It has rules of addresses, DHCP, machines with
//! labels and retire dates, images, assets, kernel parameters, keys of disks, templates of Ignition and
//! logs. It answers as sabakan does today, or as its specification of 2018 says.
//!
//! The module [`machines`] shows and changes machines, which [`inventory`] reads; [`states`] tells the
//! state of each, and [`graphql`] answers queries for them. The settings are in [`config`], the keys of
//! disks in [`crypts`], templates in [`ignitions`], files in [`images`] and [`assets`], which come by
//! [`transfer`]. The audit log is in [`logs`].

use crate::routes::Routes;
use crate::state::GRAPHQL;

pub mod assets;
pub mod config;
pub mod crypts;
pub mod graphql;
pub mod ignitions;
pub mod images;
pub mod inventory;
pub mod logs;
pub mod machines;
pub mod states;
pub mod transfer;

pub fn add(routes: Routes) -> Routes {
    // The specification has both spellings.
    let routes =
        ["/api/v1/config", "/api/v1/config/ipam"].into_iter().fold(routes, |routes, path| {
            routes.get(path, "Tell the rules of addresses", config::ipam).put(
                path,
                "Set the rules of addresses",
                config::set_ipam,
            )
        });
    let routes = routes
        .put(crypts::ONE, "Keep the key of a disk", crypts::keep)
        .get(crypts::ONE, "Fetch the key of a disk", crypts::fetch)
        .delete(crypts::ALL, "Forget all keys of a machine's disks", crypts::forget)
        .get("/api/v1/cryptsetup", "Fetch the asset `sabakan-cryptsetup`", assets::cryptsetup)
        .get("/api/v1/ignitions/{role}", "List versions of a role's template", ignitions::list)
        .get("/api/v1/ignitions/{role}/{id}", "Show a template of Ignition", ignitions::template)
        .put("/api/v1/ignitions/{role}/{id}", "Add a template of Ignition", ignitions::upload)
        .delete("/api/v1/ignitions/{role}/{id}", "Remove a template", ignitions::remove)
        .get(
            "/api/v1/boot/ignitions/{serial}/{id}",
            "Render a template for a machine",
            ignitions::rendered,
        );
    routes
        .get("/api/v1/config/dhcp", "Tell how agents serve DHCP", config::dhcp)
        .put("/api/v1/config/dhcp", "Set how agents serve DHCP", config::set_dhcp)
        .get("/api/v1/machines", "Search machines", machines::search)
        .post("/api/v1/machines", "Register machines, all or none", machines::register)
        .delete("/api/v1/machines/{serial}", "Remove a machine", machines::remove)
        .put("/api/v1/labels/{serial}/{label}", "Set a label of a machine", machines::set_label)
        .delete(
            "/api/v1/labels/{serial}/{label}",
            "Remove a label of a machine",
            machines::remove_label,
        )
        .put(
            "/api/v1/retire-date/{serial}",
            "Set when a machine is to be taken out of use",
            machines::set_retire_date,
        )
        .get("/api/v1/images/coreos", "List versions of the image coreos", images::index)
        .get("/api/v1/images/coreos/{id}", "Fetch a version of it as tar", images::download)
        .put("/api/v1/images/coreos/{id}", "Add a version of it, as tar", images::upload)
        .delete("/api/v1/images/coreos/{id}", "Remove a version of it", images::remove)
        .get("/api/v1/assets", "List names of assets", assets::index)
        .get("/api/v1/assets/{name}", "Fetch an asset", assets::download)
        .put("/api/v1/assets/{name}", "Add or replace an asset", assets::upload)
        .delete("/api/v1/assets/{name}", "Remove an asset", assets::remove)
        .get("/api/v1/assets/{name}/meta", "Describe an asset", assets::meta)
        .get(
            "/api/v1/kernel_params/coreos",
            "Tell kernel parameters of all machines",
            config::kernel_parameters,
        )
        .put(
            "/api/v1/kernel_params/coreos",
            "Set kernel parameters of all machines",
            config::set_kernel_parameters,
        )
        .get(states::PATH, "Tell the state of a machine", states::state)
        .put(states::PATH, "Set the state of a machine", states::set)
        .get(GRAPHQL, "Ask for machines by GraphQL", graphql::serve_query)
        .post(GRAPHQL, "Ask for machines, or set the state of one, by GraphQL", graphql::serve)
        .get("/api/v1/logs", "Tell who changed what, an entry a line", logs::logs)
        .get("/health", "Tell whether the master answers", config::health)
}
