//! Files that machines load: loaders, kernels, initial file systems.

use std::net::IpAddr;
use std::path::{Path as FilePath, PathBuf};

use axum::extract::{Extension, Path, Request, State};
use axum::http::{Method, StatusCode, Uri, header};
use axum::response::{IntoResponse as _, Response};
use model::blob::BlobDigest;
use model::image::ImageFiles;
use model::machine::BootStage;
use model::rack::{BootChoice, RackMachine};
use model::{MacAddress, Serial};
use tower::ServiceExt as _;
use tower_http::services::ServeDir;

use super::identity::Told;
use super::page_cache::PageCache;
use super::routes::{holder, is_of_boot, note, now, text};
use super::{Ends, Rack};

/// Bytes that are read of a file at once: fewer trips to the disk's threads for each download, and 64 at
/// the same time take 16 MiB.
const CHUNK_BYTES: usize = 256 * 1024;
/// Files of machines, by serial number and digest.
pub(super) const FILES_PATH: &str = "/api/v1/boot/machines";

/// The EFI program that firmware loads. A machine whose Ethernet address is known and that is to boot a
/// unified kernel image gets that; every other one gets iPXE, which tells its serial number.
pub(super) async fn loader(
    architecture: &str,
    State(rack): State<Rack>,
    Extension(ends): Extension<Ends>,
    request: Request,
) -> Response {
    let machine = machine_at(&rack, ends.theirs.ip());
    let is_get = request.method() == Method::GET;
    let answer = match machine.as_ref().map(|(_, machine)| &machine.boot) {
        Some(BootChoice::Image { files: ImageFiles::Uki(uki), .. }) if architecture.is_empty() => {
            of_blob(&rack, uki.sha256, request).await
        }
        _ if architecture.is_empty() => serve_ipxe(&rack, &rack.ipxe, request).await,
        _ => serve_ipxe(&rack, &beside(&rack.ipxe, architecture), request).await,
    };
    // Only what was sent is a stage.
    if let Some((number, machine)) = machine.filter(|_| is_get && answer.status().is_success()) {
        note(&rack, (number, &machine), ends.theirs.ip(), BootStage::Loader);
    }
    answer
}

/// iPXE itself.
pub(super) async fn ipxe(State(rack): State<Rack>, request: Request) -> Response {
    serve_ipxe(&rack, &rack.ipxe, request).await
}

/// iPXE of another architecture than x64 lies beside the usual one: `snponly-aa64.efi`.
fn beside(ipxe: &FilePath, architecture: &str) -> PathBuf {
    let stem = ipxe.file_stem().unwrap_or_default().to_string_lossy();
    ipxe.with_file_name(format!("{stem}-{architecture}.efi"))
}

async fn serve_ipxe(rack: &Rack, file: &FilePath, request: Request) -> Response {
    if !file.exists() {
        let why = format!(
            "this agent has no iPXE: {} is missing; install the package ipxe, or give --ipxe\n",
            file.display()
        );
        tracing::warn!(path = %file.display(), "a machine asked for iPXE, which is not here");
        rack.racks.miss_loader(file.to_owned());
        return text(StatusCode::NOT_FOUND, why);
    }
    serve(file, request).await
}

/// A kernel, or an initial file system, by its digest.
pub(super) async fn of_machine(
    State(rack): State<Rack>,
    Extension(ends): Extension<Ends>,
    Path((serial, kind, digest)): Path<(String, String, String)>,
    request: Request,
) -> Response {
    let stage = match kind.as_str() {
        "uki" | "kernel" => BootStage::Kernel,
        "initrd" => BootStage::Initrd,
        _ => return text(StatusCode::NOT_FOUND, format!("a machine has no file `{kind}`\n")),
    };
    let (Ok(serial), Ok(digest)) = (serial.parse::<Serial>(), digest.parse::<BlobDigest>()) else {
        let why = "expected a serial number and a SHA-256 digest\n".to_owned();
        return text(StatusCode::BAD_REQUEST, why);
    };
    let is_get = request.method() == Method::GET;
    let answer = of_blob(&rack, digest, request).await;
    if is_get
        && answer.status().is_success()
        && let Some((number, machine)) = told(&rack, ends, serial)
        && is_of_boot(&rack, ends, &machine)
    {
        note(&rack, (number, &machine), ends.theirs.ip(), stage);
    }
    answer
}

/// The machine of a serial number, unless whoever tells it has the card of another one.
pub(super) fn told(rack: &Rack, ends: Ends, serial: Serial) -> Option<(u32, RackMachine)> {
    let who = Told::new(Some(serial.clone()), None, holder_at(rack, ends.theirs.ip()));
    // Ten thousand give a sign of life twice a minute.
    let machines = rack.racks.with(Some(&serial), &who.macs);
    who.among(machines.iter().map(|(rack, machine)| (*rack, machine))).ok()
}

/// The machine that holds the lease of an address.
fn machine_at(rack: &Rack, from: IpAddr) -> Option<(u32, RackMachine)> {
    rack.racks.machine_of(holder_at(rack, from)?)
}

/// The Ethernet address that holds the lease of an address.
pub(super) fn holder_at(rack: &Rack, from: IpAddr) -> Option<MacAddress> {
    let IpAddr::V4(address) = from.to_canonical() else { return None };
    holder(rack, address, now(rack))
}

/// A whole blob, or that it is not here yet.
pub(super) async fn of_blob(rack: &Rack, digest: BlobDigest, request: Request) -> Response {
    match rack.blobs.path_of(digest) {
        Some(path) => serve(&path, request).await,
        None => {
            tracing::warn!(%digest, "a machine asked for a file that is not here yet");
            let why = format!("{digest} is not here yet; the master sends it\n");
            (StatusCode::SERVICE_UNAVAILABLE, [(header::RETRY_AFTER, "5")], why).into_response()
        }
    }
}

/// Answers with a file: `HEAD`, ranges, and its exact length.
async fn serve(path: &FilePath, mut request: Request) -> Response {
    let Ok(file) = PageCache::new(path) else {
        return StatusCode::NOT_FOUND.into_response();
    };
    let chunk = usize::try_from(file.len()).unwrap_or(CHUNK_BYTES).clamp(1, CHUNK_BYTES);
    *request.uri_mut() = Uri::from_static("/file");
    let service = ServeDir::with_backend("/", file).with_buf_chunk_size(chunk);
    match service.oneshot(request).await {
        Ok(response) => response.map(axum::body::Body::new),
        Err(never) => match never {},
    }
}
