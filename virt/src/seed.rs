//! The small disk from which cloud-init in a guest reads who it is (its data source NoCloud).

use std::io::{self, Cursor, Write as _};

use fatfs::{FatType, FileSystem, FormatVolumeOptions, FsOptions, format_volume};
use model::instance::launch::Seed;

/// Bytes of the disk: small, and with room for the longest texts.
const SEED_BYTES: usize = 512 * 1024;
/// The label by which cloud-init knows it.
const LABEL: [u8; 11] = *b"CIDATA     ";

/// The content of the disk.
///
/// # Errors
/// The texts are too long for it.
pub(crate) fn disk(seed: &Seed) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; SEED_BYTES];
    let mut disk = Cursor::new(bytes.as_mut_slice());
    let options = FormatVolumeOptions::new().volume_label(LABEL).fat_type(FatType::Fat12);
    format_volume(&mut disk, options)?;
    {
        let files = FileSystem::new(&mut disk, FsOptions::new())?;
        let root = files.root_dir();
        let texts = [
            ("meta-data", &seed.meta_data),
            ("user-data", &seed.user_data),
            ("network-config", &seed.network_config),
        ];
        for (name, text) in texts {
            let mut file = root.create_file(name)?;
            file.write_all(text.as_bytes())?;
            file.flush()?;
        }
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use super::*;

    #[test]
    fn the_texts_are_on_a_disk_with_the_label() {
        let text = |text: &str| text.to_owned();
        let long = "x".repeat(200_000);
        let seed = Seed {
            meta_data: text("a: 1\n"),
            user_data: long,
            network_config: text("version: 2\n"),
        };
        let made = disk(&seed).unwrap();
        let files = FileSystem::new(Cursor::new(made.clone()), FsOptions::new()).unwrap();
        assert_eq!(files.volume_label(), "CIDATA");
        let mut had = String::new();
        files.root_dir().open_file("network-config").unwrap().read_to_string(&mut had).unwrap();
        assert_eq!(had, "version: 2\n");
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("seed");
        stdx::atomic::write(&path, &made, 0o600).unwrap();
        let told = std::process::Command::new("blkid").args(["-o", "export"]).arg(&path).output();
        let told = String::from_utf8(told.unwrap().stdout).unwrap();
        assert!(told.contains("TYPE=vfat") && told.contains("LABEL=CIDATA"), "{told}");
        let huge = Seed { user_data: "x".repeat(SEED_BYTES), ..seed };
        assert!(disk(&huge).is_err());
    }
}
