//! Core: tells the stages of a boot apart, and what each is to load next.

use super::packet::{Packet, option};

/// Path of the script that iPXE, or a ramdisk that asks, gets; it answers by serial number.
const SCRIPT_PATH: &str = "/api/v1/boot/ipxe";
/// User class of iPXE.
const IPXE_CLASS: &[u8] = b"iPXE";
/// How the vendor class of UEFI HTTP boot begins; replies must carry it.
const HTTP_CLIENT: &[u8] = b"HTTPClient";
/// How the vendor class of PXE boot begins.
const PXE_CLIENT: &[u8] = b"PXEClient";
/// Tells iPXE not to wait for a ProxyDHCP server: encapsulated option 176, one byte, set.
const IPXE_NO_PROXY: [u8; 3] = [176, 1, 1];
/// Architectures (option 93) whose firmware loads EFI programs by HTTP, as UEFI names their loaders; x64
/// has the name of the others' default.
pub const HTTP_ARCHITECTURES: [(u16, &str); 6] =
    [(15, "ia32"), (16, ""), (18, "arm"), (19, "aa64"), (26, "riscv32"), (28, "riscv64")];

/// Who asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    /// Firmware that boots by HTTP.
    HttpFirmware,
    /// Firmware that boots by HTTP, but not EFI programs.
    OtherHttpFirmware,
    /// Firmware that boots by TFTP, which is not served.
    PxeFirmware,
    /// iPXE, whoever loaded it.
    Ipxe,
    /// An operating system or ramdisk.
    System,
}

impl Stage {
    /// The stage of `packet`'s sender. iPXE comes first: when it was loaded by HTTP it still calls
    /// itself a PXE client.
    pub fn of(packet: &Packet) -> Self {
        let vendor = packet.option(option::VENDOR_CLASS).unwrap_or_default();
        if packet.has_user_class(IPXE_CLASS) {
            Self::Ipxe
        } else if vendor.starts_with(HTTP_CLIENT) {
            match loader_of(packet) {
                Some(_) => Self::HttpFirmware,
                None => Self::OtherHttpFirmware,
            }
        } else if vendor.starts_with(PXE_CLIENT) {
            Self::PxeFirmware
        } else {
            Self::System
        }
    }

    /// Whether this stage wants to boot from the network, and nothing here boots it.
    pub fn is_stranded(self) -> bool {
        matches!(self, Self::OtherHttpFirmware | Self::PxeFirmware)
    }

    /// The options which lead this stage to the next. A system gets the script's URL if it asked
    /// for a boot file.
    pub fn options(self, packet: &Packet, base_url: &str) -> Vec<(u8, Vec<u8>)> {
        let url = |path: &str| (option::BOOT_FILE, format!("{base_url}{path}").into_bytes());
        match self {
            Self::Ipxe => vec![url(SCRIPT_PATH), (option::IPXE, IPXE_NO_PROXY.to_vec())],
            Self::HttpFirmware => {
                let path = loader_path(loader_of(packet).unwrap_or_default());
                vec![url(&path), (option::VENDOR_CLASS, HTTP_CLIENT.to_vec())]
            }
            Self::System if packet.requested_options().contains(&option::BOOT_FILE) => {
                vec![url(SCRIPT_PATH)]
            }
            Self::OtherHttpFirmware | Self::PxeFirmware | Self::System => Vec::new(),
        }
    }
}

/// The architecture that the sender of `packet` can boot as, if it tells (RFC 4578 and its registry: 0
/// is a BIOS, 7 is UEFI on x64). The option counts first, which may name several, then the vendor class.
pub fn architecture(packet: &Packet) -> Option<u16> {
    let vendor = || architecture_in(packet.option(option::VENDOR_CLASS).unwrap_or_default());
    packet.architectures().next().or_else(vendor)
}

/// Path of the loader that UEFI HTTP boot gets: an EFI program, that of the machine or iPXE.
pub fn loader_path(name: &str) -> String {
    let dash = if name.is_empty() { "" } else { "-" };
    format!("/api/v1/boot/loader{dash}{name}.efi")
}

/// Which loader of [`HTTP_ARCHITECTURES`] firmware gets that boots by HTTP. Firmware that tells no
/// architecture gets that of x64.
fn loader_of(packet: &Packet) -> Option<&'static str> {
    let vendor = packet.option(option::VENDOR_CLASS).unwrap_or_default();
    let mut told = packet.architectures().chain(architecture_in(vendor)).peekable();
    if told.peek().is_none() {
        return Some("");
    }
    told.find_map(|arch| HTTP_ARCHITECTURES.iter().find(|(known, _)| *known == arch))
        .map(|(_, name)| *name)
}

/// The number in `HTTPClient:Arch:00016:UNDI:003000`.
fn architecture_in(vendor: &[u8]) -> Option<u16> {
    let text = String::from_utf8_lossy(vendor);
    text.split(':').skip_while(|part| *part != "Arch").nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dhcp::packet::MessageType;
    use crate::dhcp::packet::vectors::{self, MAC, Request};

    const BASE: &str = "http://10.69.0.3:10080";
    const LOADER: &str = "http://10.69.0.3:10080/api/v1/boot/loader.efi";
    const IA32: &str = "http://10.69.0.3:10080/api/v1/boot/loader-ia32.efi";
    const ARM: &str = "http://10.69.0.3:10080/api/v1/boot/loader-arm.efi";
    const AA64: &str = "http://10.69.0.3:10080/api/v1/boot/loader-aa64.efi";
    const SCRIPT: &str = "http://10.69.0.3:10080/api/v1/boot/ipxe";

    fn file(options: &[(u8, Vec<u8>)]) -> Option<&str> {
        let (_, value) = options.iter().find(|(code, _)| *code == option::BOOT_FILE)?;
        Some(std::str::from_utf8(value).unwrap())
    }

    /// Options 60, 77, 93 and 55 lead to a stage and a file.
    #[test]
    fn table() {
        use Stage::{HttpFirmware, Ipxe, OtherHttpFirmware, PxeFirmware, System};
        let x64 = &b"HTTPClient:Arch:00016:UNDI:003000"[..];
        let bios = &b"HTTPClient:Arch:00020:UNDI:003000"[..];
        let pxe = &b"PXEClient:Arch:00007:UNDI:003010"[..];
        for (vendor, user, arch, asked, stage, url) in [
            (&b""[..], &b""[..], &[][..], &[][..], System, None),
            (b"", b"", b"", &[67], System, Some(SCRIPT)),
            (b"udhcp 1.35.0", b"", b"", &[1, 67], System, Some(SCRIPT)),
            (x64, b"", &[0, 16], &[67], HttpFirmware, Some(LOADER)),
            (x64, b"", &[0, 16], &[], HttpFirmware, Some(LOADER)),
            (x64, b"", b"", &[67], HttpFirmware, Some(LOADER)),
            (b"HTTPClient", b"", b"", &[67], HttpFirmware, Some(LOADER)),
            (b"HTTPClient", b"", &[0, 15], &[67], HttpFirmware, Some(IA32)),
            (b"HTTPClient", b"", &[0, 18], &[67], HttpFirmware, Some(ARM)),
            (b"HTTPClient", b"", &[0, 19], &[67], HttpFirmware, Some(AA64)),
            (b"HTTPClient", b"", &[0, 7, 0, 16], &[67], HttpFirmware, Some(LOADER)),
            (bios, b"", &[0, 20], &[67], OtherHttpFirmware, None),
            (bios, b"", b"", &[67], OtherHttpFirmware, None),
            (pxe, b"", &[0, 7], &[67], PxeFirmware, None),
            (pxe, b"iPXE", &[0, 7], &[67], Ipxe, Some(SCRIPT)),
            (pxe, b"\x04iPXE", &[0, 7], &[], Ipxe, Some(SCRIPT)),
            (x64, b"iPXE", &[0, 16], &[67], Ipxe, Some(SCRIPT)),
            (b"HTTPClient:Arch:\xff", b"", b"", &[], HttpFirmware, Some(LOADER)),
            (b"HTTPClient:Arch:00015:\xff", b"", b"", &[], HttpFirmware, Some(IA32)),
        ] {
            let packet = Request::new(MessageType::Discover, MAC)
                .option(60, vendor)
                .option(77, user)
                .option(93, arch)
                .option(55, asked)
                .decode();
            assert_eq!(Stage::of(&packet), stage, "{vendor:?} {user:?} {arch:?}");
            let stranded = url.is_none() && stage != System;
            assert_eq!(stage.is_stranded(), stranded, "{vendor:?} {user:?} {arch:?}");
            assert_eq!(file(&stage.options(&packet, BASE)), url, "{vendor:?} {user:?} {arch:?}");
        }
    }

    #[test]
    fn architectures() {
        for (vendor, arch, told) in [
            (&b""[..], &b""[..], None),
            (b"PXEClient", b"", None),
            (b"PXEClient:Arch:00000:UNDI:002001", b"", Some(0)),
            (b"PXEClient:Arch:00000:UNDI:002001", &[0, 7, 0, 9], Some(7)),
            (b"PXEClient:Arch:", &[0], None),
        ] {
            let request = Request::new(MessageType::Discover, MAC);
            let packet = request.option(60, vendor).option(93, arch).decode();
            assert_eq!(architecture(&packet), told, "{vendor:?} {arch:?}");
        }
    }

    #[test]
    fn real_clients() {
        let stages = vectors::all().map(|bytes| Stage::of(&Packet::decode(&bytes).unwrap()));
        assert_eq!(stages, [Stage::HttpFirmware, Stage::Ipxe, Stage::System]);
    }

    #[test]
    fn http_firmware_sees_its_class_again() {
        let [firmware, ..] = vectors::all();
        let packet = Packet::decode(&firmware).unwrap();
        let options = Stage::of(&packet).options(&packet, BASE);
        assert!(options.contains(&(option::VENDOR_CLASS, b"HTTPClient".to_vec())));
    }
}
