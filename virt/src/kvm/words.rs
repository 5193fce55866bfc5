//! Core: the words of a command line that are being gathered, with the descriptors that they name.

use std::path::PathBuf;

use model::instance::launch::DiskLaunch;
use model::instance::parameters::Parameters;
use serde_json::Value;

use super::firmware::Firmware;

/// The first descriptor that a guest is given: those of a shell come before it.
pub(super) const FIRST_DESCRIPTOR: i32 = 3;

/// Something that the agent opens, as QEMU may open nothing.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Given {
    /// The listening socket of the monitor.
    Monitor,
    /// The listening socket of the serial console.
    Console,
    /// The listening socket of the agent in the guest.
    GuestAgent,
    /// The file with what the guest wrote to its serial console.
    ConsoleLog,
    Disk(DiskLaunch),
    /// A file that is read alone: a kernel, an image of a CD.
    Image(PathBuf),
    /// The variables of the guest's firmware, which it may write.
    Variables(Firmware),
    /// The small disk that tells the guest who it is.
    Seed,
    /// Memory in a file of this directory, which nobody else sees.
    Memory(PathBuf),
    /// A queue of the card with this place among those of the instance.
    Queue(usize),
    /// The kernel's own end of a card.
    VhostNet,
    /// QEMU's end of the connection to its TPM.
    Tpm,
}

/// Parameters that are filled.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Filled<'a>(pub(crate) &'a Parameters);

impl<'a> Filled<'a> {
    /// A text; nothing where it has no value.
    pub(crate) fn text(self, name: &str) -> &'a str {
        self.0.get(name).and_then(Value::as_str).unwrap_or_default()
    }

    pub(crate) fn flag(self, name: &str) -> bool {
        self.0.get(name).and_then(Value::as_bool).unwrap_or_default()
    }

    pub(crate) fn number(self, name: &str) -> u64 {
        self.0.get(name).and_then(Value::as_u64).unwrap_or_default()
    }
}

/// A command line that grows.
#[derive(Debug, Default)]
pub(super) struct Words {
    pub(super) words: Vec<String>,
    pub(super) given: Vec<Given>,
    /// How many sets of descriptors there are.
    sets: u32,
}

impl Words {
    /// An option with its value.
    pub(super) fn option(&mut self, name: &str, value: impl Into<String>) {
        self.words.extend([name.to_owned(), value.into()]);
    }

    /// An option whose value is an object.
    pub(super) fn object(&mut self, name: &str, value: &Value) {
        self.option(name, value.to_string());
    }

    /// The number of a descriptor that QEMU inherits.
    pub(super) fn descriptor(&mut self, given: Given) -> i32 {
        let place = i32::try_from(self.given.len()).unwrap_or(i32::MAX);
        self.given.push(given);
        FIRST_DESCRIPTOR.saturating_add(place)
    }

    /// A name by which QEMU's own functions open a descriptor.
    pub(super) fn set(&mut self, given: Given) -> String {
        let descriptor = self.descriptor(given);
        self.sets += 1;
        self.option("-add-fd", format!("fd={descriptor},set={}", self.sets));
        format!("/dev/fdset/{}", self.sets)
    }

    /// A path behind which a descriptor lies, for parts of QEMU that know no sets.
    pub(super) fn path(&mut self, given: Given) -> String {
        format!("/proc/self/fd/{}", self.descriptor(given))
    }
}

/// A text within an option: QEMU ends values at commas.
pub(super) fn escaped(text: &str) -> String {
    text.replace(',', ",,")
}
