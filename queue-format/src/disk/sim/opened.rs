//! Files of the simulated disk that are open for writing.
#![expect(clippy::unwrap_used, reason = "a simulation that is wrong ends")]

use std::io;

use super::SimDisk;
use crate::disk::{GrowingFile, SegmentFile};

#[derive(Debug)]
pub(super) struct Growing {
    pub(super) disk: SimDisk,
    pub(super) file: u64,
}

impl GrowingFile for Growing {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.disk.change(|world| {
            if world.full {
                return Err(io::ErrorKind::StorageFull.into());
            }
            world.contents.get_mut(&self.file).unwrap().now.extend_from_slice(bytes);
            Ok(())
        })
    }

    fn sync(&mut self) -> io::Result<()> {
        self.disk.flush(self.file)
    }
}

#[derive(Debug)]
pub(super) struct Segment {
    pub(super) disk: SimDisk,
    pub(super) file: u64,
}

impl SegmentFile for Segment {
    fn write_durably(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let start = usize::try_from(offset).unwrap();
        self.disk.change(|world| {
            let content = world.contents.get_mut(&self.file).unwrap();
            content.now[start..start + bytes.len()].copy_from_slice(bytes);
            Ok(())
        })?;
        self.disk.flush(self.file)
    }
}
