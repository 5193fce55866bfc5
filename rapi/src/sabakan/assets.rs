//! Assets: files that machines fetch by name.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::Path as FilePath;

use axum::extract::Path;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use luxi::method::{Fields, Query, What};
use luxi::query::Filter;
use model::Word;
use model::asset::{ASSET_BYTES_MAX, Asset, ContentType, OptionName, OptionValue};
use model::blob::{Blob, BlobDigest};
use model::opcode::AssetWritten;
use model::{document, sabakan};
use serde_json::{Value, json};

use super::machines::{done, parameters};
use super::transfer;
use crate::refusal::Refusal;
use crate::route_request::{Answer, RouteRequest};
use crate::upload::{self, Pieces};
use crate::{etag, files, route_request};

/// Headers of sabakan's.
const ID: &str = "x-sabakan-asset-id";
const SHA256: &str = "x-sabakan-asset-sha256";
const OPTIONS: &str = "x-sabakan-asset-options-";
/// The asset that is the client for keys of disks.
const CRYPTSETUP: &str = "sabakan-cryptsetup";

fn name(text: &str) -> Result<Word, Refusal> {
    text.parse().map_err(|error| Refusal::bad(format!("{error}")))
}

fn missing(name: &Word) -> Refusal {
    Refusal::not_found(format!("there is no asset {name}"))
}

async fn told(asked: &RouteRequest, name: &Word) -> Result<Option<Asset>, Refusal> {
    let fields = ["name", "id", "content_type", "sha256", "size", "options", "ctime"];
    let filter = Some(Filter::any_of("name", [name.as_str()]));
    let query = Query { what: What::Asset, fields: Fields::from(fields), filter };
    let table = asked.ask(query).await?;
    let Some(row) = table.data.into_iter().next() else { return Ok(None) };
    let row: Vec<Value> = row.into_iter().map(luxi::query::Cell::into_value).collect();
    let unread = |error| Refusal::fault(format!("asset {name} does not read: {error}"));
    let read = serde_json::from_value(row.into());
    let (name, id, content_type, sha256, size, options, ctime) = read.map_err(unread)?;
    let blob = Blob { sha256, size };
    Ok(Some(Asset { name, id, content_type, blob, options, ctime }))
}

pub(super) async fn index(asked: RouteRequest) -> Answer {
    let query = Query { what: What::Asset, fields: Fields::from(["name"]), filter: None };
    let table = asked.ask(query).await?;
    let names = table.data.into_iter().flatten().map(luxi::query::Cell::into_value);
    Ok(asked.object(&names.collect(), &[]))
}

pub(super) async fn meta(Path(text): Path<String>, asked: RouteRequest) -> Answer {
    let name = name(&text)?;
    let told = told(&asked, &name).await?.ok_or_else(|| missing(&name))?;
    let exists = stdx::aside(|| files::is_here(&asked.front.layout.blobs(), told.blob));
    Ok(asked.object(&sabakan::asset(&told, exists), HERE))
}

/// Fields that differ between machines, and are no part of the tag.
const HERE: &[&str] = &["exists"];

/// Lets a change rest on an asset, as far as the client asks for that.
async fn condition(asked: &RouteRequest, name: &Word) -> Result<(), Refusal> {
    let tag = async {
        let told = told(asked, name).await?.ok_or_else(|| missing(name))?;
        Ok(etag::of(&sabakan::asset(&told, true), HERE))
    };
    asked.condition(format!("{}/{name}", document::ASSETS), tag).await
}

/// The headers that describe an asset beside its bytes.
fn headers_of(asset: &Asset) -> HeaderMap {
    let own = [
        (header::CONTENT_TYPE.as_str().to_owned(), asset.content_type.to_string()),
        (ID.to_owned(), asset.id.to_string()),
        (SHA256.to_owned(), asset.blob.sha256.to_string()),
    ];
    let options = asset.options.iter();
    let options = options.map(|(name, value)| (format!("{OPTIONS}{name}"), value.to_string()));
    let header = |(name, value): (String, String)| {
        Some((name.parse::<HeaderName>().ok()?, HeaderValue::try_from(value).ok()?))
    };
    own.into_iter().chain(options).filter_map(header).collect()
}

pub(super) async fn download(Path(text): Path<String>, asked: RouteRequest) -> Answer {
    let name = name(&text)?;
    let told = told(&asked, &name).await?.ok_or_else(|| missing(&name))?;
    served(&asked, &told).await
}

async fn served(asked: &RouteRequest, told: &Asset) -> Answer {
    let blobs = asked.front.layout.blobs();
    let mut response = files::serve(&blobs, told.blob, asked.bare()).await?;
    response.headers_mut().extend(headers_of(told));
    Ok(response)
}

/// The client for keys of disks, where the operator uploaded it.
pub(super) async fn cryptsetup(asked: RouteRequest) -> Answer {
    let name = name(CRYPTSETUP)?;
    let missing = || {
        let text = format!("upload the program as the asset {CRYPTSETUP}: it is served here then");
        Refusal::not_found(text)
    };
    served(&asked, &told(&asked, &name).await?.ok_or_else(missing)?).await
}

/// The client's claims in the headers of an upload.
#[derive(Debug)]
struct Claimed {
    content_type: ContentType,
    sha256: Option<BlobDigest>,
    options: BTreeMap<OptionName, OptionValue>,
}

fn claimed(headers: &HeaderMap) -> Result<Claimed, Refusal> {
    let text = |value: &HeaderValue| value.to_str().unwrap_or_default().to_owned();
    let wrong = |error: &dyn std::fmt::Display| Refusal::bad(error.to_string());
    let content_type = headers.get(header::CONTENT_TYPE).map(text);
    let content_type = content_type.ok_or_else(|| Refusal::bad("send the header Content-Type"))?;
    let length = headers.get(header::CONTENT_LENGTH).map(text);
    let length = length.and_then(|length| length.parse::<u64>().ok()).ok_or_else(|| {
        Refusal::new(StatusCode::LENGTH_REQUIRED, "send the header Content-Length")
    })?;
    if length > ASSET_BYTES_MAX {
        return Err(upload::too_long(ASSET_BYTES_MAX));
    }
    if length == 0 {
        return Err(Refusal::bad("the body is empty; an asset has a byte at least"));
    }
    let sha256 = headers.get(SHA256).map(|value| text(value).to_ascii_lowercase().parse());
    let mut options = BTreeMap::new();
    for (name, value) in headers {
        let Some(name) = name.as_str().strip_prefix(OPTIONS) else { continue };
        let name = name.parse().map_err(|error| wrong(&error))?;
        let value = value.to_str().map_err(|error| wrong(&error))?;
        options.insert(name, value.parse().map_err(|error| wrong(&error))?);
    }
    Ok(Claimed {
        content_type: content_type.parse().map_err(|error| wrong(&error))?,
        sha256: sha256.transpose().map_err(|error| wrong(&error))?,
        options,
    })
}

pub(super) async fn upload(Path(text): Path<String>, asked: RouteRequest) -> Answer {
    let name = name(&text)?;
    let Claimed { content_type, sha256, options } = claimed(&asked.headers)?;
    condition(&asked, &name).await?;
    transfer::at_master(&asked).await?;
    let spool = asked.front.layout.spool();
    let work = move |pieces: &mut Pieces| staged(pieces, &spool, sha256);
    let place = asked.upload_place()?;
    let blob = upload::receive(place, asked.upload(), ASSET_BYTES_MAX, work).await?;
    let op = json!({
        "name": name, "content_type": content_type, "blob": blob, "options": options,
    });
    let written = asked.run_within("OP_ASSET_SET", parameters(&op), transfer::END_TIME).await?;
    let written: AssetWritten = serde_json::from_value(written)
        .map_err(|error| Refusal::fault(format!("the job's result does not read: {error}")))?;
    let status = if written.created { StatusCode::CREATED } else { StatusCode::OK };
    let body = json!({"status": status.as_u16(), "id": written.id.to_string()});
    Ok((status, route_request::json(body)).into_response())
}

fn staged(
    pieces: &mut Pieces,
    spool: &FilePath,
    wanted: Option<BlobDigest>,
) -> Result<Blob, Refusal> {
    let staging = upload::stage(&mut pieces.by_ref(), spool)?;
    let found = staging.digest();
    if let Some(wanted) = wanted.filter(|wanted| *wanted != found) {
        let text = format!("the body arrived as {found}, and {wanted} was told");
        return Err(Refusal::bad(text));
    }
    staging.finish().map_err(|error| upload::unwritten(&error))
}

pub(super) async fn remove(
    Path(text): Path<String>,
    asked: RouteRequest,
) -> Result<Response, Refusal> {
    let name = name(&text)?;
    condition(&asked, &name).await?;
    let op = parameters(&json!({"name": name}));
    asked.run_within("OP_ASSET_REMOVE", op, transfer::END_TIME).await?;
    Ok(done())
}

#[cfg(test)]
mod tests {
    use model::Timestamp;

    use super::*;

    fn headers(all: &[(&str, &str)]) -> HeaderMap {
        let header = |(name, value): &(&str, &str)| {
            (name.parse::<HeaderName>().unwrap(), HeaderValue::from_str(value).unwrap())
        };
        all.iter().map(header).collect()
    }

    #[test]
    fn what_an_upload_claims_is_looked_at_before_its_body() {
        let kind = ("content-type", "text/plain");
        let good = headers(&[
            kind,
            ("content-length", "2147483648"),
            ("X-Sabakan-Asset-SHA256", &"AB".repeat(32)),
            ("X-Sabakan-Asset-Options-Os", "a b"),
        ]);
        let told = claimed(&good).unwrap();
        assert_eq!(told.sha256.unwrap().to_string(), "ab".repeat(32));
        let options: Vec<_> = told.options.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
        assert_eq!(options, [("os", "a b")]);
        let (length, option) = (("content-length", "5"), "x-sabakan-asset-options-a");
        let long = "x".repeat(129);
        for (bad, code) in [
            (vec![length], 400),
            (vec![("content-type", "text"), length], 400),
            (vec![kind], 411),
            (vec![kind, ("content-length", "0")], 400),
            (vec![kind, ("content-length", "2147483649")], 413),
            (vec![kind, ("content-length", "10000000000")], 413),
            (vec![kind, length, (SHA256, "ab")], 400),
            (vec![kind, length, (option, &long)], 400),
        ] {
            assert_eq!(claimed(&headers(&bad)).unwrap_err().code, code, "{bad:?}");
        }
    }

    #[test]
    fn an_asset_is_shown_as_sabakan_does() {
        let sha256 = "ab".repeat(32);
        let told = Asset {
            name: "a.tar".parse().unwrap(),
            id: 15,
            content_type: "application/tar".parse().unwrap(),
            blob: Blob { sha256: sha256.parse().unwrap(), size: 7 },
            options: BTreeMap::from([("os".parse().unwrap(), "a".parse().unwrap())]),
            ctime: Timestamp::from_micros(1_542_763_425_000_000),
        };
        assert_eq!(
            sabakan::asset(&told, true),
            json!({"name": "a.tar", "id": "15", "content-type": "application/tar", "size": 7,
                "date": "2018-11-21T01:23:45Z", "sha256": sha256, "urls": [], "exists": true,
                "options": {"os": "a"}})
        );
        let headers = headers_of(&told);
        let options = "x-sabakan-asset-options-os";
        let told: Vec<_> = [ID, SHA256, options, "content-type"].map(|name| &headers[name]).into();
        assert_eq!(told, ["15", &sha256, "a", "application/tar"]);
    }
}
