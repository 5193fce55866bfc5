//! Versions of the image that sabakan's clients see, as archives of a kernel and an initial file system.

use std::io;
use std::path::Path as FilePath;

use axum::Extension;
use axum::extract::Path;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use blobs::Staging;
use luxi::method::{Fields, Query, What};
use luxi::query::{Cell, Filter};
use model::image::{ImageFiles, ImageId};
use model::{document, sabakan};
use serde_json::{Value, json};

use super::machines::{done, parameters};
use super::transfer;
use crate::etag;
use crate::files::{self, Member};
use crate::kept::OfFile;
use crate::refusal::Refusal;
use crate::route_request::{Answer, RouteRequest};
use crate::upload::{self, Pieces};

/// The image that sabakan's routes are about.
const IMAGE: &str = "coreos";
/// Longest archive in bytes: kernel and initial file system of a whole live system are a quarter of that.
const ARCHIVE_BYTES_MAX: u64 = 4 << 30;
/// The longest padding behind the end of an archive: writers fill up their record, of 10 KiB as a rule.
const TAIL_BYTES_MAX: u64 = 1 << 20;
/// Its members.
const KERNEL: &str = "kernel";
const INITRD: &str = "initrd.gz";

/// The images that sabakan's clients see: versions of one operating system.
pub(super) async fn index(asked: RouteRequest) -> Answer {
    let fields = Fields::from(["version", "ctime", "size"]);
    let filter = Some(Filter::any_of("name", [IMAGE]));
    let table = asked.ask(Query { what: What::Image, fields, filter }).await?;
    let values = |row: Vec<Cell>| row.into_iter().map(Cell::into_value).collect();
    let images = table.data.into_iter().map(|row| sabakan::image(values(row)));
    Ok(asked.object(&images.collect(), &[]))
}

fn image(id: &str) -> Result<ImageId, Refusal> {
    format!("{IMAGE}/{id}").parse().map_err(|error| Refusal::bad(format!("{error}")))
}

/// The files of a version, if there is one.
async fn known(asked: &RouteRequest, id: &ImageId) -> Result<Option<ImageFiles>, Refusal> {
    let filter = Some(Filter::any_of("image", [id.to_string().as_str()]));
    let fields = Fields::from(["files"]);
    let table = asked.ask(Query { what: What::Image, fields, filter }).await?;
    let Some(cell) = table.data.into_iter().flatten().next() else { return Ok(None) };
    let read = serde_json::from_value(cell.into_value());
    read.map(Some).map_err(|error| Refusal::fault(format!("an image does not read: {error}")))
}

pub(super) async fn upload(Path(id): Path<String>, asked: RouteRequest) -> Answer {
    let id = image(&id)?;
    asked.unconditional()?;
    // Told before the bytes are sent.
    if known(&asked, &id).await?.is_some() {
        let text = format!("image {id} exists already; a changed image is another version");
        return Err(Refusal::new(StatusCode::CONFLICT, text));
    }
    transfer::at_master(&asked).await?;
    let spool = asked.front.layout.spool();
    let work = move |pieces: &mut Pieces| unpack(pieces, &spool)?.staged();
    let place = asked.upload_place()?;
    let files = upload::receive(place, asked.upload(), ARCHIVE_BYTES_MAX, work).await?;
    let op = parameters(&json!({"image": id, "files": files}));
    asked.run_within("OP_IMAGE_ADD", op, transfer::END_TIME).await?;
    Ok(StatusCode::CREATED.into_response())
}

/// The members of an archive.
#[derive(Debug)]
struct Members {
    kernel: Staging,
    initrd: Staging,
}

impl Members {
    /// Gives both their names in the spool.
    fn staged(self) -> Result<ImageFiles, Refusal> {
        let finish = |staging: Staging| staging.finish().map_err(|error| upload::unwritten(&error));
        Ok(ImageFiles::Linux { kernel: finish(self.kernel)?, initrds: vec![finish(self.initrd)?] })
    }
}

/// Takes an archive apart. Extensions of its format are passed over: they could be as long as it is, and tell
/// nothing of two files with short names.
fn unpack(pieces: &mut Pieces, spool: &FilePath) -> Result<Members, Refusal> {
    let unread = |error: io::Error| Refusal::bad(format!("the body is no whole tar: {error}"));
    let (mut kernel, mut initrd) = (None, None);
    let mut archive = tar::Archive::new(&mut *pieces);
    for entry in archive.entries().map_err(unread)?.raw(true) {
        let mut entry = entry.map_err(unread)?;
        let kind = entry.header().entry_type();
        if kind.is_pax_local_extensions() || kind.is_pax_global_extensions() {
            continue;
        }
        let name = entry.path_bytes().into_owned();
        let name = name.strip_prefix(b"./").unwrap_or(&name);
        if kind.is_dir() && [&b""[..], b"."].contains(&name) {
            continue;
        }
        let name = String::from_utf8_lossy(name).into_owned();
        let place = match name.as_str() {
            KERNEL => &mut kernel,
            INITRD => &mut initrd,
            _ => {
                let name: String = name.chars().take(100).collect();
                let text =
                    format!("the archive has `{name}`; send `{KERNEL}` and `{INITRD}` alone");
                return Err(Refusal::bad(text));
            }
        };
        if !kind.is_file() || place.is_some() {
            return Err(Refusal::bad(format!("`{name}` is no file, or there are two of it")));
        }
        let size = entry.size();
        let staging = upload::stage(&mut entry, spool)?;
        if staging.size() != size || size == 0 {
            return Err(Refusal::bad(format!("`{name}` is empty, or the archive ends within it")));
        }
        *place = Some(staging);
    }
    let tail = io::copy(&mut io::Read::take(&mut *pieces, TAIL_BYTES_MAX), &mut io::sink());
    if tail.map_err(unread)? == TAIL_BYTES_MAX {
        return Err(Refusal::bad("there is something else behind the end of the archive"));
    }
    let missing = |name| move || Refusal::bad(format!("the archive has no `{name}`"));
    Ok(Members {
        kernel: kernel.ok_or_else(missing(KERNEL))?,
        initrd: initrd.ok_or_else(missing(INITRD))?,
    })
}

pub(super) async fn download(Path(id): Path<String>, asked: RouteRequest) -> Answer {
    let id = image(&id)?;
    let missing = || Refusal::not_found(format!("there is no image {id}"));
    let files = known(&asked, &id).await?.ok_or_else(missing)?;
    let ImageFiles::Linux { kernel, initrds } = files.clone() else {
        let text = format!("image {id} is a unified kernel image, which has no kernel of its own");
        return Err(Refusal::not_found(text));
    };
    let blobs = asked.front.layout.blobs();
    let open = |blob| files::open(&blobs, blob).map(|file| (file, blob));
    let members: Result<Vec<Member>, Refusal> = stdx::aside(|| {
        let initrds = initrds.into_iter().map(open).collect::<Result<_, _>>()?;
        // A kernel unpacks what stands behind one another as it does separate files.
        Ok(vec![(KERNEL, vec![open(kernel)?]), (INITRD, initrds)])
    });
    let tag = etag::of(&json!(files), &[]);
    let kind = [(header::CONTENT_TYPE, "application/tar".to_owned()), (header::ETAG, tag)];
    if asked.is_head() {
        return Ok(kind.into_response());
    }
    let archive = files::archive(asked.archive_place()?, members?);
    Ok((Extension(OfFile), kind, archive).into_response())
}

pub(super) async fn remove(
    Path(id): Path<String>,
    asked: RouteRequest,
) -> Result<Response, Refusal> {
    let id = image(&id)?;
    let tag = async {
        let missing = || Refusal::not_found(format!("there is no image {id}"));
        Ok(etag::of(&json!(known(&asked, &id).await?.ok_or_else(missing)?), &[]))
    };
    asked.condition(format!("{}/{id}", document::IMAGES), tag).await?;
    let op = parameters(&json!({"image": id}));
    let _none: Value = asked.run("OP_IMAGE_REMOVE", op).await?;
    Ok(done())
}

#[cfg(test)]
mod tests {
    use axum::body::Body;

    use super::*;
    use crate::shares::{Shares, own, turn_now};

    fn archive(members: &[(&str, &[u8], tar::EntryType)]) -> Vec<u8> {
        let mut builder = tar::Builder::new(Vec::new());
        for (name, content, kind) in members {
            let mut header = tar::Header::new_ustar();
            header.set_entry_type(*kind);
            header.set_size(content.len() as u64);
            header.set_mode(0o644);
            builder.append_data(&mut header, name, *content).unwrap();
        }
        builder.into_inner().unwrap()
    }

    async fn unpacked(bytes: Vec<u8>, spool: &FilePath) -> Result<(u64, u64), String> {
        let directory = spool.to_owned();
        let work = move |pieces: &mut Pieces| {
            unpack(pieces, &directory).map(|members| (members.kernel.size(), members.initrd.size()))
        };
        let place = turn_now(&Shares::default().uploads, &own(), "uploads").unwrap();
        let told = upload::receive(place, Body::from(bytes), ARCHIVE_BYTES_MAX, work).await;
        assert_eq!(std::fs::read_dir(spool).unwrap().count(), 0, "nothing is left");
        told.map_err(|refusal| {
            assert_eq!(refusal.code, 400);
            refusal.explain
        })
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn an_archive_is_a_kernel_and_an_initial_file_system() {
        use tar::EntryType::{Directory, Regular, Symlink, XGlobalHeader, XHeader};
        let dir = tempfile::tempdir().unwrap();
        let (kernel, initrd) =
            (("kernel", &b"kernel"[..], Regular), ("initrd.gz", &[1; 600][..], Regular));
        let good = archive(&[kernel, initrd]);
        let mut padded = good.clone();
        padded.resize(10 << 10, 0);
        for good in [
            good.clone(),
            padded,
            archive(&[initrd, kernel]),
            archive(&[
                ("g", b"1", XGlobalHeader),
                ("./", b"", Directory),
                ("x", b"23", XHeader),
                ("./kernel", b"kernel", Regular),
                initrd,
            ]),
        ] {
            assert_eq!(unpacked(good, dir.path()).await, Ok((6, 600)));
        }
        let cut = |bytes: usize| good[..bytes].to_vec();
        let long = [good.clone(), vec![0; 2 << 20]].concat();
        for (bad, words) in [
            (Vec::new(), "no `kernel`"),
            (vec![0; 1_024], "no `kernel`"),
            (b"no tar".to_vec(), "no whole tar"),
            (vec![b'x'; 2_048], "no whole tar"),
            (archive(&[initrd]), "no `kernel`"),
            (archive(&[kernel]), "no `initrd.gz`"),
            (archive(&[kernel, kernel, initrd]), "there are two"),
            (archive(&[kernel, ("initrd.gz", b"", Symlink)]), "no file"),
            (archive(&[kernel, ("initrd.gz", b"", Regular)]), "is empty"),
            (archive(&[kernel, initrd, ("etc/passwd", b"x", Regular)]), "`etc/passwd`"),
            (cut(1_600), "ends within it"),
            (cut(700), "no whole tar"),
            (long, "behind the end"),
        ] {
            let told = unpacked(bad, dir.path()).await.unwrap_err();
            assert!(told.contains(words), "no {words} in {told}");
        }
    }
}
