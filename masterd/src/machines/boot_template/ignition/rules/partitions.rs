//! Core: rules of disks and their partitions.

use serde_json::Value as Json;

use super::super::schema::{Look, once};
use super::super::v2::V2_3;
use super::super::v3::V3_3;
use super::{between::is_old, has, list, text};

/// Sectors of a MiB: partitions begin at whole ones.
const SECTORS_OF_MIB: i64 = 2_048;

fn whole(partition: &Json, key: &str) -> Option<i64> {
    partition[key].as_i64()
}

/// The number of a partition; 0 is the next one that is free.
fn number(partition: &Json) -> i64 {
    whole(partition, "number").unwrap_or_default()
}

/// A partition that is not to be there has nothing else.
pub(in super::super) fn absent_is_nothing_else(
    partition: &Json,
    look: &mut Look<'_>,
) -> Result<(), String> {
    if is_old(look.spec) {
        one_unit(partition)?;
    }
    if partition["shouldExist"].as_bool() != Some(false) {
        return Ok(());
    }
    let extent = if is_old(look.spec) { ["start", "size"] } else { ["startMiB", "sizeMiB"] };
    let text = ["typeGuid", "guid"].into_iter().find(|key| !text(partition, key).is_empty());
    let other = ["label"].into_iter().chain(extent).find(|key| has(partition, key));
    match text.or(other) {
        Some(key) => Err(format!("has `shouldExist` false, and `{key}` beside it")),
        None => Ok(()),
    }
}

fn one_unit(partition: &Json) -> Result<(), String> {
    if is_in(partition, ["start", "size"]) && is_in(partition, ["startMiB", "sizeMiB"]) {
        return Err("has its extent both in sectors and in MiB".to_owned());
    }
    Ok(())
}

fn is_in(partition: &Json, extent: [&str; 2]) -> bool {
    extent.into_iter().any(|key| has(partition, key))
}

/// A partition is named by something.
pub(in super::super) fn number_or_label(
    partition: &Json,
    _look: &mut Look<'_>,
) -> Result<(), String> {
    if number(partition) == 0 && !has(partition, "label") {
        return Err("has no `number` from 1 on, and no `label`".to_owned());
    }
    Ok(())
}

/// No number is there twice.
pub(in super::super) fn numbers(disk: &Json, _look: &mut Look<'_>) -> Result<(), String> {
    let numbers = list(disk, "partitions").iter().map(number).filter(|number| *number != 0);
    let numbers: Vec<String> = numbers.map(|number| number.to_string()).collect();
    once(numbers.iter().map(String::as_str))
        .map_err(|twice| format!("has the partition number {twice} twice"))
}

/// No label is there twice.
pub(in super::super) fn labels(disk: &Json, _look: &mut Look<'_>) -> Result<(), String> {
    let labels =
        list(disk, "partitions").iter().filter_map(|partition| partition["label"].as_str());
    once(labels).map_err(|twice| format!("has the partition label {twice:?} twice"))
}

/// Partitions do not overlap, in MiB.
pub(in super::super) fn extents(disk: &Json, _look: &mut Look<'_>) -> Result<(), String> {
    let extent = |partition: &Json| {
        let (start, size) = (whole(partition, "startMiB")?, whole(partition, "sizeMiB")?);
        Some((start, size))
    };
    no_overlap(list(disk, "partitions").iter().map(extent).collect())
}

/// They do not overlap in sectors either, and begin at a whole MiB.
pub(in super::super) fn sectors(disk: &Json, look: &mut Look<'_>) -> Result<(), String> {
    let is_first = look.spec < V2_3;
    let partitions = list(disk, "partitions");
    let mut extents = Vec::with_capacity(partitions.len());
    for (at, partition) in partitions.iter().enumerate() {
        let (start, size) = (whole(partition, "start"), whole(partition, "size"));
        if start.is_some_and(|start| start % SECTORS_OF_MIB != 0) {
            return Err(format!(
                "has a partition that starts at sector {}, and not at a multiple of {SECTORS_OF_MIB}",
                start.unwrap_or_default()
            ));
        }
        // To version 2.2 what is absent is 0, and a partition that is there twice is one.
        let is_again = is_first && partitions.iter().take(at).any(|before| before == partition);
        let extent = match is_first {
            true => (!is_again).then(|| (start.unwrap_or_default(), size.unwrap_or_default())),
            false => start.zip(size),
        };
        extents.push(extent);
    }
    no_overlap(extents)
}

/// Extents are told by start and size. An extent that starts at 0 goes where there is room, and a size
/// of 0 is what is left.
fn no_overlap(extents: Vec<Option<(i64, i64)>>) -> Result<(), String> {
    let placed = extents.into_iter().flatten().filter(|(start, _)| *start != 0);
    let placed: Vec<(i64, i64)> = placed
        .map(|(start, size)| match size {
            0 => (start, start),
            size => (start, start.wrapping_add(size).wrapping_sub(1)),
        })
        .collect();
    let overlaps = |(at, one): (usize, &(i64, i64))| {
        let others = placed.iter().enumerate().filter(|(other, _)| *other != at);
        others.map(|(_, other)| other).any(|other| {
            let (starts, ends) = (one.0, one.1);
            let within = |place| place >= other.0 && place <= other.1;
            within(starts) || within(ends) || (starts < other.0 && ends > other.1)
        })
    };
    match placed.iter().enumerate().any(overlaps) {
        true => Err("has partitions that overlap".to_owned()),
        false => Ok(()),
    }
}

/// A partition of the next free number and one that is to go do not go together. Newer systems take both.
pub(in super::super) fn zeros(disk: &Json, look: &mut Look<'_>) -> Result<(), String> {
    let partitions = list(disk, "partitions");
    let has_next = partitions.iter().any(|partition| number(partition) == 0);
    let has_absent = partitions.iter().any(|one| one["shouldExist"].as_bool() == Some(false));
    if has_next && has_absent && look.spec <= V3_3 {
        let why = "has a partition with `shouldExist` false beside one without a `number`";
        return Err(why.to_owned());
    }
    Ok(())
}

/// All partitions of a disk are measured alike.
pub(in super::super) fn one_unit_for_all(disk: &Json, _look: &mut Look<'_>) -> Result<(), String> {
    let partitions = list(disk, "partitions");
    let any = |extent: [&str; 2]| partitions.iter().any(|partition| is_in(partition, extent));
    if any(["start", "size"]) && any(["startMiB", "sizeMiB"]) {
        return Err("has partitions in sectors beside others in MiB".to_owned());
    }
    Ok(())
}
