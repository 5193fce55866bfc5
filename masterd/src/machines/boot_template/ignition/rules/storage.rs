//! Core: rules of files, links and file systems.

use serde_json::Value as Json;

use super::super::schema::{Look, once};
use super::super::v3::{V3_1, V3_6};
use super::super::values::cleaned;
use super::{has, list, text, truth};

/// Lists of what has a path.
const NODES: [&str; 3] = ["files", "directories", "links"];
/// Bits of a mode that are no permissions.
const SPECIAL_BITS: i64 = 0o7000;
/// The longest labels of file systems, in bytes.
const LABELS: [(&str, usize); 5] =
    [("ext4", 16), ("btrfs", 256), ("xfs", 12), ("swap", 15), ("vfat", 11)];

fn paths<'a>(storage: &'a Json, key: &str) -> impl Iterator<Item = &'a str> {
    list(storage, key).iter().map(|node| text(node, "path"))
}

/// A path is that of one file, directory or link.
pub(in super::super) fn paths_once(storage: &Json, _look: &mut Look<'_>) -> Result<(), String> {
    once(NODES.iter().flat_map(|key| paths(storage, key)))
        .map_err(|twice| format!("has the path {twice:?} twice"))
}

/// A path behind a link would lie elsewhere.
pub(in super::super) fn nothing_behind_links(
    storage: &Json,
    _look: &mut Look<'_>,
) -> Result<(), String> {
    for path in NODES.iter().flat_map(|key| paths(storage, key)) {
        let is_behind =
            |link: &&str| path.strip_prefix(*link).is_some_and(|rest| rest.starts_with('/'));
        if let Some(link) = paths(storage, "links").find(is_behind) {
            return Err(format!("has {path:?}, which lies behind the link {link:?}"));
        }
    }
    Ok(())
}

/// A directory has no hard links.
pub(in super::super) fn hard_links(storage: &Json, _look: &mut Look<'_>) -> Result<(), String> {
    for link in list(storage, "links").iter().filter(|link| truth(link, "hard")) {
        let (path, target) = (text(link, "path"), text(link, "target"));
        let target = match target.starts_with('/') {
            true => cleaned(target),
            false => cleaned(&format!("{path}/{target}")),
        };
        if paths(storage, "directories").any(|directory| directory == target) {
            return Err(format!("has the hard link {path:?} to a directory"));
        }
    }
    Ok(())
}

/// Nothing takes the place of what is there.
pub(in super::super) fn overwrite_has_source(
    file: &Json,
    _look: &mut Look<'_>,
) -> Result<(), String> {
    match truth(file, "overwrite") && !has(&file["contents"], "source") {
        true => Err("has `overwrite` and no `contents.source`".to_owned()),
        false => Ok(()),
    }
}

/// Version 2 does one of both.
pub(in super::super) fn append_or_overwrite(
    file: &Json,
    _look: &mut Look<'_>,
) -> Result<(), String> {
    match truth(file, "overwrite") && truth(file, "append") {
        true => Err("has both `append` and `overwrite`".to_owned()),
        false => Ok(()),
    }
}

/// Bits beside permissions do nothing before version 3.6.
pub(in super::super) fn special_bits(node: &Json, look: &mut Look<'_>) -> Result<(), String> {
    let mode = node["mode"].as_i64().unwrap_or_default();
    if mode & SPECIAL_BITS != 0 && look.spec < V3_6 {
        look.warn("has a setuid, setgid or sticky bit in its mode, which needs version 3.6.0");
    }
    Ok(())
}

/// A file system that has other settings needs its format.
pub(in super::super) fn format_is_needed(
    filesystem: &Json,
    look: &mut Look<'_>,
) -> Result<(), String> {
    if !text(filesystem, "format").is_empty() {
        return Ok(());
    }
    let texts = ["path", "label", "uuid"].into_iter();
    let text = texts.filter(|key| !text(filesystem, key).is_empty());
    let lists = ["options", "mountOptions"].into_iter();
    let list = lists.filter(|key| !list(filesystem, key).is_empty());
    let wipe = truth(filesystem, "wipeFilesystem").then_some("wipeFilesystem");
    let counts = |key: &&str| *key != "mountOptions" || look.spec >= V3_1;
    match text.chain(list).filter(counts).chain(wipe).next() {
        Some(key) => Err(format!("has `{key}` and no `format`")),
        None => Ok(()),
    }
}

/// A label fits its file system.
pub(in super::super) fn label_of_filesystem(
    filesystem: &Json,
    _look: &mut Look<'_>,
) -> Result<(), String> {
    let (format, label) = (text(filesystem, "format"), text(filesystem, "label"));
    match LABELS.iter().find(|(known, most)| *known == format && label.len() > *most) {
        Some((_, most)) => {
            Err(format!("has a label of {} bytes; {format} takes {most}", label.len()))
        }
        None => Ok(()),
    }
}

/// A file system of version 2 is mounted, or there already.
pub(in super::super) fn mount_or_path(
    filesystem: &Json,
    _look: &mut Look<'_>,
) -> Result<(), String> {
    let mount = &filesystem["mount"];
    match (has(filesystem, "mount"), has(filesystem, "path")) {
        (false, false) => return Err("has neither `mount` nor `path`".to_owned()),
        (true, true) => return Err("has both `mount` and `path`".to_owned()),
        (true, false) | (false, true) => {}
    }
    if has(mount, "create")
        && (truth(mount, "wipeFilesystem") || !list(mount, "options").is_empty())
    {
        return Err("has `mount.create` beside `wipeFilesystem` or `options`".to_owned());
    }
    Ok(())
}

/// An array has disks.
pub(in super::super) fn devices_of_raid(raid: &Json, _look: &mut Look<'_>) -> Result<(), String> {
    match list(raid, "devices").is_empty() {
        true => Err("has no `devices`".to_owned()),
        false => Ok(()),
    }
}

/// An array that can lose no disk has no spare ones.
pub(in super::super) fn spares(raid: &Json, _look: &mut Look<'_>) -> Result<(), String> {
    let (level, spares) = (text(raid, "level"), raid["spares"].as_i64().unwrap_or_default());
    if spares != 0 && ["linear", "raid0", "0", "stripe"].contains(&level) {
        return Err(format!("has `spares`, which an array of level {level} cannot have"));
    }
    Ok(())
}
