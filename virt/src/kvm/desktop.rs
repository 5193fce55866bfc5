//! Core: what a person sees, hears and types on: graphics, sound, and devices of USB.

use model::instance::launch::Launch;
use model::instance::screen::{Screen, ScreenBind, ScreenError};
use serde_json::{Value, json};

use super::plan::PlanError;
use super::words::{Filled, Words};

/// Most devices of `usb_devices`: QEMU hangs them on hubs behind the four ports of its controller.
const USB_MAX: usize = 8;
/// Most viewers that QEMU lets wait for their password; for another one, the oldest goes. So whoever knows
/// none cannot keep those out who do.
const WAITING_VIEWERS_MAX: usize = 4;
/// The host's end of sound: it makes none, and a viewer may ask for it.
const SOUND: &str = "sound";

/// Values of a parameter, each with its device.
type Known = &'static [(&'static str, &'static str)];

const GRAPHICS: Known = &[
    ("std", "VGA"),
    ("cirrus", "cirrus-vga"),
    ("virtio", "virtio-vga"),
    ("qxl", "qxl-vga"),
    ("vmware", "vmware-svga"),
    ("none", ""),
];
/// The speaker of a PC belongs to its machine.
const SPEAKER: &str = "pcspk";
const SOUND_CARDS: Known = &[
    ("ac97", "AC97"),
    ("es1370", "ES1370"),
    ("hda", "intel-hda"),
    ("sb16", "sb16"),
    ("adlib", "adlib"),
    ("gus", "gus"),
    ("cs4231a", "cs4231a"),
    (SPEAKER, ""),
];
const USB: Known = &[
    ("mouse", "usb-mouse"),
    ("tablet", "usb-tablet"),
    ("keyboard", "usb-kbd"),
    ("wacom-tablet", "usb-wacom-tablet"),
    ("ccid", "usb-ccid"),
    ("audio", "usb-audio"),
];
/// Keyboards that QEMU 7.2 and later have tables for. A path would be read, too, so that only these pass.
const KEYMAPS: &[&str] = &[
    "ar", "bepo", "cz", "da", "de", "de-ch", "en-gb", "en-us", "es", "et", "fi", "fo", "fr",
    "fr-be", "fr-ca", "fr-ch", "hr", "hu", "is", "it", "ja", "lt", "lv", "mk", "nl", "no", "pl",
    "pt", "pt-br", "ru", "sl", "sv", "th", "tr",
];
/// Parameters that are refused where they have a value, each with what to do instead.
const REFUSED: [(&str, &str); 4] = [
    ("vnc_tls", TUNNEL),
    ("vnc_x509_verify", TUNNEL),
    ("vnc_x509_path", TUNNEL),
    ("spice_bind", "this version has no SPICE; `vnc_bind_address` gives a guest a screen"),
];
const TUNNEL: &str = "this version encrypts no VNC; bind it to 127.0.0.1 or to a directory, and reach it \
                      by `ssh -L`";

/// The devices of one guest for a person.
#[derive(Debug, Default)]
pub(super) struct Desktop<'a> {
    has_screen: bool,
    has_password: bool,
    keymap: &'a str,
    graphics: &'static str,
    sound: Vec<&'static str>,
    mouse: &'static str,
    usb: Vec<&'static str>,
}

impl<'a> Desktop<'a> {
    /// # Errors
    /// A parameter has a value with which no guest starts.
    pub(super) fn of(parameters: Filled<'a>) -> Result<Self, PlanError> {
        for (name, why) in REFUSED {
            if parameters.flag(name) || !parameters.text(name).is_empty() {
                return Err(PlanError::new(name, why));
            }
        }
        let bind = ScreenBind::of(parameters.text("vnc_bind_address")).map_err(wrong_bind)?;
        let has_screen = bind.is_some();
        let has_password = !parameters.text("vnc_password_file").is_empty();
        let keymap = parameters.text("keymap");
        if !keymap.is_empty() && !KEYMAPS.contains(&keymap) {
            let why = format!("`{keymap}` is none of {}", KEYMAPS.join(", "));
            return Err(PlanError::new("keymap", why));
        }
        let graphics = match parameters.text("vga") {
            "" if has_screen => "std",
            other => other,
        };
        let mouse = match parameters.text("usb_mouse") {
            // Its pointer is where the viewer's is, as Ganeti has it.
            "" if has_screen => "tablet",
            other => other,
        };
        let usb = devices(parameters, "usb_devices", USB)?;
        if usb.len() > USB_MAX {
            let why = format!("{} devices, where {USB_MAX} are the limit", usb.len());
            return Err(PlanError::new("usb_devices", why));
        }
        Ok(Self {
            has_screen,
            has_password,
            keymap,
            graphics: device("vga", graphics, GRAPHICS)?,
            sound: devices(parameters, "soundhw", SOUND_CARDS)?,
            mouse: device("usb_mouse", mouse, USB)?,
            usb,
        })
    }

    fn has_sound(&self) -> bool {
        !self.sound.is_empty() || self.usb.contains(&"usb-audio")
    }

    /// The options that are no devices.
    pub(super) fn options(&self, words: &mut Words) {
        // A viewer that asks for sound has QEMU look for the host's own where it was given none.
        if self.has_screen || self.has_sound() {
            words.option("-audiodev", format!("none,id={SOUND}"));
        }
        if self.sound.contains(&"") {
            words.option("-machine", format!("pcspk-audiodev={SOUND}"));
        }
        if self.has_screen {
            let password = if self.has_password { "on" } else { "off" };
            // The agent listens, and gives it each viewer.
            let vnc = format!(
                "none,password={password},connections={WAITING_VIEWERS_MAX},audiodev={SOUND}"
            );
            words.option("-vnc", vnc);
        }
        if !self.keymap.is_empty() {
            words.option("-k", self.keymap);
        }
    }

    pub(super) fn devices(&self) -> Vec<Value> {
        let mut all = Vec::new();
        if !self.graphics.is_empty() {
            all.push(json!({"driver": self.graphics, "id": "graphics"}));
        }
        for (number, driver) in self.sound.iter().filter(|driver| !driver.is_empty()).enumerate() {
            let id = format!("sound{number}");
            if *driver == "intel-hda" {
                all.push(json!({"driver": driver, "id": id}));
                all.push(json!({"driver": "hda-duplex", "id": format!("{id}-codec"),
                    "bus": format!("{id}.0"), "audiodev": SOUND}));
            } else {
                all.push(json!({"driver": driver, "id": id, "audiodev": SOUND}));
            }
        }
        if !self.mouse.is_empty() || !self.usb.is_empty() {
            all.push(json!({"driver": "qemu-xhci", "id": "usb"}));
        }
        if !self.mouse.is_empty() {
            all.push(json!({"driver": self.mouse, "id": "mouse", "bus": "usb.0"}));
        }
        for (number, driver) in self.usb.iter().enumerate() {
            let mut one = json!({"driver": driver, "id": format!("usb{number}"), "bus": "usb.0"});
            if *driver == "usb-audio" {
                one["audiodev"] = SOUND.into();
            }
            all.push(one);
        }
        all
    }
}

fn wrong_bind(error: ScreenError) -> PlanError {
    PlanError::new("vnc_bind_address", error.to_string())
}

/// The place of a guest's screen, if it has one.
///
/// # Errors
/// There is no such place.
pub(super) fn screen(launch: &Launch) -> Result<Option<Screen>, PlanError> {
    let bind = Filled(&launch.hvparams).text("vnc_bind_address");
    Screen::of(bind, &launch.name, launch.network_port).map_err(wrong_bind)
}

/// The device that a word means; no word means none.
fn device(parameter: &'static str, word: &str, known: Known) -> Result<&'static str, PlanError> {
    if word.is_empty() {
        return Ok("");
    }
    let found = known.iter().find(|(name, _)| *name == word).map(|(_, device)| *device);
    found.ok_or_else(|| {
        let names: Vec<&str> = known.iter().map(|(name, _)| *name).collect();
        PlanError::new(parameter, format!("`{word}` is none of {}", names.join(", ")))
    })
}

/// The devices of a list, with commas or blanks between: Ganeti's manual has the ones, its code the others.
fn devices(
    parameters: Filled<'_>,
    parameter: &'static str,
    known: Known,
) -> Result<Vec<&'static str>, PlanError> {
    let words = parameters.text(parameter).split([',', ' ']).filter(|word| !word.is_empty());
    words.map(|word| device(parameter, word, known)).collect()
}
