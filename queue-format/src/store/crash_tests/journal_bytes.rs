//! The journal itself, cut, flipped and torn.

use super::*;
use crate::disk::Disk;
use crate::journal::frame::{ALIGN, Frame, scan};

const SEGMENT: &str = "/data/journal/segment-0";

/// A store whose journal holds these commits, none of them in the files.
fn committed(contents: &[usize]) -> (SimDisk, History, Vec<Frame>) {
    let disk = SimDisk::with_root(Path::new(ROOT));
    let store = open_on(&disk).unwrap();
    let salt = store.parts.header.salt();
    let mut machine = Machine::start(store);
    let mut history = History::new();
    for (number, &bytes) in contents.iter().enumerate() {
        let content = Bytes::from(vec![b'x'; bytes]);
        let change = Change::Put { key: key(&format!("queue/job-{number}")), content };
        machine.commit(vec![change], &mut history).unwrap();
    }
    let frames = scan(&disk.read(Path::new(SEGMENT)).unwrap().into(), salt);
    // The first frame is the checkpoint of the opening.
    assert_eq!(frames.len(), contents.len() + 1);
    (disk, history, frames)
}

fn copy(disk: &SimDisk) -> SimDisk {
    disk.crash(crate::disk::sim::Loss::Nothing, &mut Chance::new(0))
}

fn recovered(disk: &SimDisk, history: &History, what: &str) -> usize {
    let store = open_on(disk).unwrap_or_else(|error| panic!("{what}: {error:?}"));
    let found = usize::try_from(store.recovered().position.index).unwrap();
    assert_same(&files_of(&store), &history.states[found], what);
    found
}

#[test]
fn a_journal_cut_anywhere_keeps_every_whole_frame() {
    let (disk, history, frames) = committed(&[10, 400, 1, 900, 3]);
    let last = frames.last().unwrap().end();
    for cut in 0..=last + 1 {
        let whole = frames.iter().filter(|frame| frame.end() <= cut).count();
        let expected = whole.saturating_sub(1);
        for shorter in [true, false] {
            let disk = copy(&disk);
            disk.tamper(Path::new(SEGMENT), |bytes| {
                if shorter { bytes.truncate(cut) } else { bytes[cut..].fill(0) }
            });
            let what = format!("cut at {cut}");
            assert_eq!(recovered(&disk, &history, &what), expected, "{what}");
        }
    }
}

#[test]
fn a_flipped_bit_is_damage_unless_it_can_be_a_torn_end() {
    let (disk, history, frames) = committed(&[10, 600, 1200]);
    let last = frames.last().unwrap();
    for at in 0..last.end() + ALIGN {
        let disk = copy(&disk);
        disk.tamper(Path::new(SEGMENT), |bytes| bytes[at] ^= 1 << (at % 8));
        let hit = frames.iter().position(|frame| (frame.offset..frame.end()).contains(&at));
        let what = format!("flipped at {at}");
        match hit {
            None => assert_eq!(recovered(&disk, &history, &what), 3, "{what}"),
            Some(3) => assert_eq!(recovered(&disk, &history, &what), 2, "{what}"),
            Some(hit) => {
                let error = open_on(&disk).unwrap_err();
                let OpenError::Damaged { damage, .. } = error else { panic!("{what}: {error}") };
                let text = damage.to_string();
                assert!(text.contains("segment 0"), "{text}");
                let offset = format!("offset {}", frames[hit].offset);
                assert!(text.contains(&offset), "{text}, hit {offset}");
            }
        }
    }
}

#[test]
fn a_last_frame_torn_in_any_order_of_sectors_is_not_there() {
    let (disk, history, frames) = committed(&[10, 2300]);
    let last = frames.last().unwrap();
    let sectors = (last.end() - last.offset).div_ceil(ALIGN);
    assert_eq!(sectors, 5);
    for written in 0..1_u32 << sectors {
        let disk = copy(&disk);
        disk.tamper(Path::new(SEGMENT), |bytes| {
            for sector in (0..sectors).filter(|sector| written >> sector & 1 == 0) {
                let start = last.offset + sector * ALIGN;
                bytes[start..start + ALIGN].fill(0);
            }
        });
        let what = format!("sectors {written:b}");
        let expected = if written == (1 << sectors) - 1 { 2 } else { 1 };
        assert_eq!(recovered(&disk, &history, &what), expected, "{what}");
    }
}

#[test]
fn what_an_earlier_round_left_behind_is_never_new() {
    let disk = SimDisk::with_root(Path::new(ROOT));
    let mut history = History::new();
    let mut machine = Machine::start(open_on(&disk).unwrap());
    for round in 0..60_u32 {
        let content = Bytes::from(vec![b'x'; usize::try_from(round * 37 % 1100).unwrap()]);
        let change = Change::Put { key: key(&format!("k-{}", round % 7)), content };
        machine.commit(vec![change], &mut history).unwrap();
        let found = recovered(&copy(&disk), &history, &format!("round {round}"));
        assert_eq!(found, history.acknowledged);
    }
    assert!(machine.commit.written_bytes() > 3 * (16 << 10));
}
