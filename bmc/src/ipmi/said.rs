//! Core: what `ipmitool` (1.8.19) prints.

use model::bmc::{BootOnce, PowerState, Sensor};
use model::inventory::text;

use crate::blank::is_blank;

/// Sensors that are kept.
const SENSORS_MAX: usize = 512;

/// Why a command failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cause {
    /// User or password are wrong.
    Login,
    /// The user may not do that, or not act at that level.
    Privilege,
    /// The controller will do it later.
    NotReady,
    /// There is no session, perhaps for the cipher suite.
    Session,
    /// Nothing answers.
    Unreachable,
    /// Anything else.
    Other,
}

/// The words that tell each cause, in the order in which they count: the last line often says only that
/// there is no session. Words are from the program's tables of completion codes and RAKP messages.
const CAUSES: [(Cause, &[&str]); 5] = [
    (
        Cause::Privilege,
        &[
            "nsufficient privilege",
            "unauthorized role",
            "invalid role",
            "insufficient resources for role",
            "Set Session Privilege Level to",
            "privilege level exceeds limit",
        ],
    ),
    (
        Cause::Login,
        &["password", "HMAC is invalid", "unauthorized name", "Invalid user name", "invalid name"],
    ),
    (
        Cause::NotReady,
        &[
            "Node busy",
            "insufficient resources for session",
            "Out of space",
            "BMC initialization in progress",
            "SDR Repository in update mode",
            "Device in firmware update mode",
            "not supported in present state",
            "response could not be provided",
        ],
    ),
    (Cause::Session, &["Unable to establish", "cipher suite", "invalid authentication algorithm"]),
    (
        Cause::Unreachable,
        &[
            "Address lookup",
            "no response",
            "imeout",
            "Could not open socket",
            "Unable to get Chassis",
        ],
    ),
];

/// Lines that say nothing of the command.
const NOISE: [&str; 3] =
    ["IANA PEN registry", "Get HPM.x Capabilities request failed", "Using best available cipher"];

/// Why a command failed, and the line that says so.
pub(super) fn cause(complained: &str) -> (Cause, String) {
    let is_noise = |line: &&str| NOISE.iter().any(|noise| line.contains(noise));
    let lines: Vec<&str> =
        complained.lines().filter(|line| !line.trim().is_empty() && !is_noise(line)).collect();
    for (cause, words) in CAUSES {
        let is_it = |line: &&&str| words.iter().any(|word| line.contains(word));
        if let Some(line) = lines.iter().find(is_it) {
            // A line before the last one says why there is no session.
            let line = if cause == Cause::Session { lines.first().unwrap_or(line) } else { line };
            return (cause, text(line));
        }
    }
    (Cause::Other, lines.last().map(|line| text(line)).unwrap_or_default())
}

/// The state that `chassis power status` tells; any other lines may stand beside it.
pub(super) fn power(told: &str) -> Option<PowerState> {
    told.lines().find_map(|line| match line.trim() {
        "Chassis Power is on" => Some(PowerState::On),
        "Chassis Power is off" => Some(PowerState::Off),
        _ => None,
    })
}

/// From where the next boot comes, as `chassis bootparam get 5` tells.
pub(super) fn boot_device(told: &str) -> Option<String> {
    let mut lines = told.lines().filter_map(|line| line.split_once("Boot Device Selector :"));
    lines.next().map(|(_, device)| text(device))
}

/// Whether that is meant.
pub(super) fn is_device(shown: &str, from: BootOnce) -> bool {
    match from {
        BootOnce::Network => shown == "Force PXE",
        BootOnce::Disk => shown.starts_with("Force Boot from default Hard-Drive"),
    }
}

/// The first of these fields that says something.
pub(super) fn field(told: &str, names: &[&str]) -> String {
    let of = |name: &&str| {
        let lines = told.lines().filter_map(|line| line.split_once(':'));
        let mut named = lines.filter(|(key, _)| key.trim() == *name).map(|(_, value)| text(value));
        named.find(|value| !is_blank(value))
    };
    names.iter().find_map(of).unwrap_or_default()
}

/// Lines of `sdr list` with commas: name, reading, unit, status.
pub(super) fn sensors(told: &str) -> Vec<Sensor> {
    let all = told.lines().filter_map(|line| {
        let mut fields = line.split(',').map(str::trim);
        let (name, reading) = (fields.next()?, fields.next()?);
        let (unit, status) = (fields.next()?, fields.next()?);
        let health = match status {
            "ok" => "OK",
            "lnc" | "unc" | "nc" => "Warning",
            "lcr" | "ucr" | "cr" | "lnr" | "unr" | "nr" => "Critical",
            other => other,
        };
        let has_reading = !reading.is_empty() && status != "ns";
        let reading = has_reading.then(|| text(&format!("{reading} {unit}")));
        Some(Sensor { name: text(name), reading, health: text(health) })
    });
    all.take(SENSORS_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cause_stands_in_any_line() {
        let no_session = "Error: Unable to establish IPMI v2 / RMCP+ session";
        for (lines, wanted, reason) in [
            (
                "RAKP 2 message indicates an error : unauthorized role or privilege level requested\n",
                Cause::Privilege,
                "RAKP 2 message indicates an error : unauthorized role or privilege level requested",
            ),
            (
                "Set Session Privilege Level to ADMINISTRATOR failed: Invalid data field in request\n",
                Cause::Privilege,
                "Set Session Privilege Level to ADMINISTRATOR failed: Invalid data field in request",
            ),
            ("> RAKP 2 HMAC is invalid\n", Cause::Login, "> RAKP 2 HMAC is invalid"),
            (
                "RAKP 2 message indicates an error : unauthorized name\n",
                Cause::Login,
                "RAKP 2 message indicates an error : unauthorized name",
            ),
            (
                "RAKP 2 message indicates an error : insufficient resources for session\n",
                Cause::NotReady,
                "RAKP 2 message indicates an error : insufficient resources for session",
            ),
            (
                "Error in open session response message : invalid authentication algorithm\n\n",
                Cause::Session,
                "Error in open session response message : invalid authentication algorithm",
            ),
            (
                "IANA PEN registry open failed: No such file or directory\n",
                Cause::Session,
                no_session,
            ),
        ] {
            let told = cause(&format!("{lines}{no_session}\n"));
            assert_eq!(told, (wanted, reason.to_owned()));
        }
        for (line, wanted) in [
            (
                "Set Chassis Power Control to Up/On failed: Insufficient privilege level",
                Cause::Privilege,
            ),
            ("Set Chassis Power Control to Up/On failed: Node busy", Cause::NotReady),
            ("Address lookup for x failed", Cause::Unreachable),
            ("Set Chassis Boot Parameter 5 failed: Parameter out of range", Cause::Other),
        ] {
            let noise = "Get HPM.x Capabilities request failed, compcode = d4";
            assert_eq!(cause(&format!("{noise}\n{line}\n")), (wanted, line.to_owned()));
        }
        assert_eq!(cause(""), (Cause::Other, String::new()));
    }

    #[test]
    fn sensors_read() {
        let told = "CPU Temp,42,degrees C,ok\nFAN1,0,RPM,lcr\nSlot 3,,,ns\nnonsense\n";
        let all = sensors(told);
        assert_eq!(all.len(), 3);
        assert_eq!(all[0].reading.as_deref(), Some("42 degrees C"));
        assert_eq!((all[1].health.as_str(), all[2].reading.as_deref()), ("Critical", None));
    }

    #[test]
    fn the_first_field_that_says_something_counts() {
        let told = " Product Name          : R630\n Product Serial        : SN:1\n Board Mfg :  \n\
                    Board Mfg : Dell\n Product Part Number : To be filled by O.E.M.\n";
        for (names, value) in [
            (&["Product Name"][..], "R630"),
            (&["Product Serial"], "SN:1"),
            (&["Board"], ""),
            (&["Board Mfg"], "Dell"),
            (&["Board Product", "Product Part Number", "Product Name"], "R630"),
        ] {
            assert_eq!(field(told, names), value, "{names:?}");
        }
    }

    #[test]
    fn power_and_boot_device_read() {
        assert_eq!(power("IANA \u{fffd}\nChassis Power is on\n"), Some(PowerState::On));
        assert_eq!(power("Chassis Power is off"), Some(PowerState::Off));
        assert_eq!(power("Chassis Power is unknown"), None);
        let told = "Boot parameter data: 0004000000\n Boot Flags :\n   - Boot Flag Invalid\n   \
                    - Boot Device Selector : Force PXE\n   - BIOS verbosity : System Default\n";
        let shown = boot_device(told).unwrap();
        assert!(is_device(&shown, BootOnce::Network) && !is_device(&shown, BootOnce::Disk));
        assert_eq!(boot_device("Boot parameter version: 1\n"), None);
    }
}
