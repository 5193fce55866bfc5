//! Files that machines fetch by name, as sabakan serves them.

use axum::extract::{Path, Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use axum::response::Response;
use model::asset::Asset;

use super::Rack;
use super::files::of_blob;
use super::routes::text;

/// Where they are.
pub(super) const PATH: &str = "/api/v1/assets/{name}";

/// The asset that is sabakan's client for keys of disks, which it serves at a path of its own.
const CRYPTSETUP: &str = "sabakan-cryptsetup";

pub(super) async fn asset(
    State(rack): State<Rack>,
    Path(name): Path<String>,
    request: Request,
) -> Response {
    served(&rack, &name, request).await
}

pub(super) async fn cryptsetup(State(rack): State<Rack>, request: Request) -> Response {
    served(&rack, CRYPTSETUP, request).await
}

/// An asset of the rack documents. The later upload counts where two of them have it.
async fn served(rack: &Rack, name: &str, request: Request) -> Response {
    let documents = rack.racks.all();
    let named = documents.iter().flat_map(|document| &document.assets);
    let named = named.filter(|asset| asset.name.as_str() == name);
    let Some(asset) = named.max_by_key(|asset| asset.id) else {
        return text(
            StatusCode::NOT_FOUND,
            format!("there is no asset `{}`\n", name.escape_debug()),
        );
    };
    let mut response = of_blob(rack, asset.blob.sha256, request).await;
    if !response.status().is_server_error() {
        response.headers_mut().extend(head(asset));
    }
    response
}

/// The headers that describe an asset.
fn head(asset: &Asset) -> HeaderMap {
    let own = [
        ("content-type".to_owned(), asset.content_type.to_string()),
        ("x-sabakan-asset-id".to_owned(), asset.id.to_string()),
        ("x-sabakan-asset-sha256".to_owned(), asset.blob.sha256.to_string()),
    ];
    let options = asset.options.iter();
    let options = options.map(|(name, value)| (format!("x-sabakan-asset-options-{name}"), value));
    let options = options.map(|(name, value)| (name, value.to_string()));
    let header = |(name, value): (String, String)| {
        Some((name.parse::<HeaderName>().ok()?, HeaderValue::try_from(value).ok()?))
    };
    own.into_iter().chain(options).filter_map(header).collect()
}
