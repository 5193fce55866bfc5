//! Core: what clients of sabakan send, in our forms. Go writes every field of an object, also one without a
//! value: as null, as empty text, or as the first moment of its calendar.

use serde_json::{Map, Value, json};

use crate::dhcp::DhcpConfig;
use crate::rack::LEASE_SECONDS;
use crate::time::Timestamp;

/// Fields that sabakan decides itself, whatever a client sends.
const DECIDED: [&str; 4] = ["index-in-rack", "ipv4", "ipv6", "register-date"];
/// When a machine is to be taken out of use.
const RETIRE_DATE: &str = "retire-date";
/// No moment, as Go writes it.
const NEVER: &str = "0001-01-01T00:00:00Z";
/// The length of a lease.
const LEASE_MINUTES: &str = "lease-minutes";
/// sabakan's name servers, with our name.
const NAME_SERVERS: (&str, &str) = ("dns-servers", "name-servers");
/// A field that sabakan takes and does not look at.
const OBSOLETE: &str = "gateway-offset";

/// Machines to register. One with anything that sabakan decides has its addresses from the rules alone.
///
/// # Errors
/// A date does not read.
pub fn machines(mut machines: Value) -> Result<Value, String> {
    machines.as_array_mut().into_iter().flatten().try_for_each(machine)?;
    Ok(machines)
}

fn machine(machine: &mut Value) -> Result<(), String> {
    let Some(fields) = machine.as_object_mut() else { return Ok(()) };
    let is_sabakans = DECIDED.map(|name| fields.remove(name)).iter().any(Option::is_some);
    fields.retain(|_name, value| !value.is_null());
    if let Some(Value::Object(bmc)) = fields.get_mut("bmc") {
        bmc.retain(|name, value| {
            let is_text = value.as_str().is_some_and(|text| !text.is_empty());
            is_text && !(is_sabakans && name.starts_with("ip"))
                || !value.is_null() && !value.is_string()
        });
    }
    if let Some(Value::String(date)) = fields.get(RETIRE_DATE) {
        let wrong =
            || format!("`{RETIRE_DATE}` is no moment such as 2026-11-20T13:05:09Z (RFC 3339)");
        let never = date.is_empty() || date == NEVER;
        let date = (!never).then(|| Timestamp::of_rfc3339(date).ok_or_else(wrong)).transpose()?;
        match date {
            Some(date) => fields.insert(RETIRE_DATE.to_owned(), json!(date)),
            None => fields.remove(RETIRE_DATE),
        };
    }
    Ok(())
}

/// Settings of DHCP that `given` makes of `current`. A setting that is not given stays, but for name
/// servers where sabakan's client asks. The client always tells how long a lease lasts, and no servers
/// where there are to be none.
///
/// # Errors
/// Leases are to last for another time than ours.
pub fn dhcp(given: Map<String, Value>, current: &DhcpConfig) -> Result<Map<String, Value>, String> {
    let mut config = json!(current).as_object().cloned().unwrap_or_default();
    let (theirs, ours) = NAME_SERVERS;
    if given.contains_key(LEASE_MINUTES) {
        config.remove(ours);
    }
    for (name, value) in given {
        if name == theirs {
            config.insert(ours.to_owned(), value);
        } else if name == LEASE_MINUTES {
            let minutes = LEASE_SECONDS / 60;
            // sabakan means an hour by 0, too.
            if ![json!(0), json!(minutes)].contains(&value) {
                return Err(format!(
                    "`{name}` is {value}: agents give leases of {minutes} minutes"
                ));
            }
        } else if name != OBSOLETE {
            config.insert(name, value);
        }
    }
    Ok(config)
}

/// Our settings of DHCP with sabakan's names beside ours.
pub fn shown_dhcp(config: &DhcpConfig) -> Value {
    let mut shown = json!(config);
    let (theirs, ours) = NAME_SERVERS;
    shown[theirs] = shown[ours].clone();
    shown[LEASE_MINUTES] = json!(LEASE_SECONDS / 60);
    shown
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::MachineSpec;

    /// The request of `sabactl machines create` of sabakan 3.1.9 for a serial number, a rack, a role and
    /// a type.
    const SENT: &str = r#"{"serial":"s1","labels":null,"rack":1,"index-in-rack":0,"role":"worker","ipv4":null,
        "ipv6":null,"register-date":"0001-01-01T00:00:00Z","retire-date":"0001-01-01T00:00:00Z",
        "bmc":{"ipv4":"","ipv6":"","type":"iDRAC-9"}}"#;

    fn spec(text: &str) -> MachineSpec {
        let given = machines(json!([text.parse::<Value>().unwrap()])).unwrap();
        serde_json::from_value(given[0].clone()).unwrap()
    }

    #[test]
    fn a_machine_that_sabactl_sends_is_one_with_a_few_fields() {
        let plain = r#"{"serial":"s1","rack":1,"role":"worker","bmc":{"type":"iDRAC-9"}}"#;
        assert_eq!(spec(SENT), spec(plain));
        let typeless = SENT.replace("iDRAC-9", "");
        assert_eq!(spec(&typeless).bmc, crate::machine::BmcSpec::default());
        let dated = SENT.replace(
            r#""retire-date":"0001-01-01T00:00:00Z""#,
            r#""retire-date":"2018-11-21T01:23:45Z""#,
        );
        assert_eq!(spec(&dated).retire_date, Some(Timestamp::from_micros(1_542_763_425_000_000)));
        let wrong = machines(json!([{"retire-date": "soon"}])).unwrap_err();
        assert!(wrong.contains("RFC 3339"), "{wrong}");
    }

    #[test]
    fn a_machine_that_sabakan_shows_gets_its_place_anew() {
        let shown = SENT
            .replace(r#""ipv4":null"#, r#""ipv4":["10.69.0.4"]"#)
            .replace(r#""ipv4":"","#, r#""ipv4":"10.72.17.4","#)
            .replace(r#""index-in-rack":0"#, r#""index-in-rack":4"#);
        assert_eq!(spec(&shown), spec(SENT));
        let ours = r#"{"serial":"s1","role":"worker","bmc":{"ipv4":"192.0.2.1"}}"#;
        assert_eq!(spec(ours).bmc.ipv4, Some([192, 0, 2, 1].into()));
        // Wrong values stay as they are.
        let wrong = json!([{"serial": "s1", "bmc": {"type": 7}}, 5]);
        assert_eq!(machines(wrong.clone()), Ok(wrong));
    }

    #[test]
    fn settings_of_dhcp_in_sabakans_names() {
        let before: DhcpConfig =
            serde_json::from_str(r#"{"mode":"observe","name-servers":["10.0.0.1"]}"#).unwrap();
        let set = |given: Value| -> Result<DhcpConfig, String> {
            let given = given.as_object().cloned().unwrap();
            Ok(serde_json::from_value(dhcp(given, &before)?.into()).unwrap())
        };
        let servers =
            |config: DhcpConfig| config.name_servers.iter().map(ToString::to_string).collect();
        let told = |given| -> Vec<String> { servers(set(given).unwrap()) };
        assert_eq!(told(json!({"dns-servers": ["10.0.0.2"]})), ["10.0.0.2"]);
        assert_eq!(told(json!({"ntp-servers": ["10.0.0.2"]})), ["10.0.0.1"]);
        let sent = json!({"lease-minutes": 0, "gateway-offset": 1});
        assert_eq!(told(sent.clone()), Vec::<String>::new());
        assert_eq!(set(sent).unwrap().mode, before.mode);
        assert_eq!(set(shown_dhcp(&before)).as_ref(), Ok(&before));
        let wrong = set(json!({"lease-minutes": 30})).unwrap_err();
        assert_eq!(wrong, "`lease-minutes` is 30: agents give leases of 60 minutes");
    }
}
