//! UEFI firmware of guests: which there is, by the descriptors that its packages bring (QEMU's
//! `docs/interop/firmware.json`), and which a guest gets.

use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::plan::PlanError;
use super::words::Filled;

/// Most descriptors of a directory: Debian's packages bring three for each kind of processor.
const DESCRIPTORS_MAX: usize = 200;
/// Longest descriptor: those of Debian have less than 1 KB.
const DESCRIPTOR_BYTES_MAX: u64 = 64 * 1024;
/// The kind of processor that guests have.
const ARCHITECTURE: &str = "x86_64";

/// The firmware of a guest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Firmware {
    /// The program.
    pub(super) code: PathBuf,
    /// The variables of a new guest.
    pub(super) template: PathBuf,
    /// Whether it keeps its variables from the operating system, by a mode of the processor.
    pub(super) by_smm: bool,
    /// Whether it starts only what is signed.
    pub(super) is_secure: bool,
}

/// A descriptor, as far as it counts here.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Descriptor {
    interface_types: Vec<String>,
    mapping: Mapping,
    targets: Vec<Target>,
    features: Vec<String>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Mapping {
    device: String,
    executable: Option<Image>,
    nvram_template: Option<Image>,
}

#[derive(Debug, Clone, Deserialize)]
struct Image {
    filename: PathBuf,
    format: String,
}

#[derive(Debug, Clone, Deserialize)]
struct Target {
    architecture: String,
    machines: Vec<String>,
}

impl Descriptor {
    fn has(&self, feature: &str) -> bool {
        self.features.iter().any(|has| has == feature)
    }

    /// The firmware that it describes, if it is one for machines `q35` with this much security.
    fn firmware(&self, is_secure: bool) -> Option<Firmware> {
        let is_meant = self.interface_types.iter().any(|kind| kind == "uefi")
            && self.mapping.device == "flash"
            && self.has("secure-boot") == is_secure
            && self.has("enrolled-keys") == is_secure
            && self.targets.iter().any(|target| {
                target.architecture == ARCHITECTURE
                    && target.machines.iter().any(|machine| machine.starts_with("pc-q35-"))
            });
        let raw = |image: &Option<Image>| {
            let image = image.as_ref().filter(|image| image.format == "raw")?;
            image.filename.is_absolute().then(|| image.filename.clone())
        };
        Some(Firmware {
            code: raw(&self.mapping.executable).filter(|_| is_meant)?,
            template: raw(&self.mapping.nvram_template)?,
            by_smm: self.has("requires-smm"),
            is_secure,
        })
    }
}

/// The firmware that a guest with these parameters wants; none where it is the BIOS.
///
/// # Errors
/// There is none of that kind on this node.
pub(super) fn wanted(
    parameters: Filled<'_>,
    directories: &[PathBuf],
) -> Result<Option<Firmware>, PlanError> {
    let is_secure = match parameters.text("firmware") {
        "uefi" => false,
        "uefi-secure" => true,
        _ => return Ok(None),
    };
    let mut all: Vec<PathBuf> = directories.iter().flat_map(|dir| listed(dir)).collect();
    // One with a name that was met before is another directory's, and is hidden by the first.
    all.sort_by(|one, other| one.file_name().cmp(&other.file_name()));
    all.dedup_by(|later, first| later.file_name() == first.file_name());
    let firmware = all.iter().filter_map(|path| read(path)?.firmware(is_secure));
    let there = |firmware: &Firmware| firmware.code.is_file() && firmware.template.is_file();
    match firmware.into_iter().find(there) {
        Some(firmware) => Ok(Some(firmware)),
        None => {
            let kind = if is_secure { "Secure Boot and its keys" } else { "plain UEFI" };
            let why = format!(
                "this node has no firmware with {kind} for q35; install the package ovmf (edk2-ovmf)"
            );
            Err(PlanError::new("firmware", why))
        }
    }
}

fn listed(directory: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(directory) else { return Vec::new() };
    let paths = entries.flatten().map(|entry| entry.path()).take(DESCRIPTORS_MAX);
    paths.filter(|path| path.extension().is_some_and(|end| end == "json")).collect()
}

/// A descriptor; none where it does not read, as its firmware is not known here then.
fn read(path: &Path) -> Option<Descriptor> {
    let length = std::fs::metadata(path).ok()?.len();
    if length > DESCRIPTOR_BYTES_MAX {
        return None;
    }
    let text = std::fs::read(path).ok()?;
    serde_json::from_slice(&text)
        .inspect_err(|error| tracing::debug!(path = %path.display(), %error, "no firmware"))
        .ok()
}

#[cfg(test)]
mod tests {
    use model::instance::parameters::Parameters;
    use serde_json::json;

    use super::*;

    fn write(path: &Path, text: &str) {
        stdx::atomic::write(path, text.as_bytes(), 0o644).unwrap();
    }

    /// Descriptors as Debian's package has them, of files in this directory.
    fn described(dir: &Path, name: &str, code: &str, features: &[&str]) {
        let file = |name: &str| {
            let path = dir.join(name);
            write(&path, name);
            json!({"filename": path, "format": "raw"})
        };
        let descriptor = json!({
            "description": "x",
            "interface-types": ["uefi"],
            "mapping": {"device": "flash", "executable": file(code), "nvram-template": file("VARS")},
            "targets": [{"architecture": "x86_64", "machines": ["pc-i440fx-*", "pc-q35-*"]}],
            "features": features,
            "tags": [],
        });
        write(&dir.join(name), &descriptor.to_string());
    }

    #[test]
    fn a_guest_gets_the_first_firmware_of_its_kind() {
        let own = tempfile::tempdir().unwrap();
        let distribution = tempfile::tempdir().unwrap();
        let secure = ["secure-boot", "requires-smm"];
        described(
            distribution.path(),
            "40-enrolled.json",
            "SECURE",
            &[secure[0], "enrolled-keys", secure[1]],
        );
        described(distribution.path(), "50-secure.json", "NO-KEYS", &secure);
        described(distribution.path(), "60-plain.json", "PLAIN", &["acpi-s3"]);
        write(&distribution.path().join("10-broken.json"), "{");
        let dirs = [own.path().to_owned(), distribution.path().to_owned()];
        let found = |kind: &str| {
            let parameters = Parameters::from([("firmware".to_owned(), kind.into())]);
            let found = wanted(Filled(&parameters), &dirs);
            found.map(|firmware| {
                firmware.map(|it| (it.code.file_name().unwrap().to_owned(), it.by_smm))
            })
        };
        assert_eq!(found("bios"), Ok(None));
        assert_eq!(found("uefi"), Ok(Some(("PLAIN".into(), false))));
        assert_eq!(found("uefi-secure"), Ok(Some(("SECURE".into(), true))));
        // The operator's own hides one of the same name.
        described(own.path(), "60-plain.json", "OWN", &[]);
        assert_eq!(found("uefi"), Ok(Some(("OWN".into(), false))));
        std::fs::remove_file(distribution.path().join("SECURE")).unwrap();
        let error = found("uefi-secure").unwrap_err().to_string();
        assert!(error.contains("Secure Boot") && error.contains("ovmf"), "{error}");
    }
}
